//! Rewriting: `RewriteEngine`, `RewriteBase`, `RewriteCond`, `RewriteRule`.

mod condition;
mod rule;
mod run;
mod text;
mod variable;

use super::{content, environment, in_file, redirect, values};
use condition::Condition;
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Loading, Phase, ScopeBuilder, View};
use rule::Rule;
use run::{Program, Rewriter};
use std::sync::Arc;

pub(super) use text::{escape_uri, is_url, own_url};

/// `RewriteEngine on | off`
pub(in crate::apache::htaccess) static ENGINE: Directive<Line> =
    in_file(Directive::new("RewriteEngine", |args, _| Ok(Line::Engine(args.value(0, value::flag)?))))
        .args(Arity::Exactly(1))
        .slot("htaccess rewrite")
        .help("Whether the rules count.");

/// `RewriteBase PATH`
pub(in crate::apache::htaccess) static BASE: Directive<Line> =
    in_file(Directive::new("RewriteBase", parse_base))
        .args(Arity::Exactly(1))
        .slot("htaccess rewrite")
        .help("The URI of the directory, for relative targets.");

/// `RewriteCond TEXT CONDITION [FLAGS]`
pub(in crate::apache::htaccess) static CONDITION: Directive<Line> =
    in_file(Directive::new("RewriteCond", |args, loading| {
        Ok(Line::Condition(Arc::new(Condition::parse(args, loading)?)))
    }))
    .args(Arity::Range(2, 3))
    .slot("htaccess rewrite")
    .help("What must hold for the next rule.");

/// `RewriteRule PATTERN TARGET [FLAGS]`
pub(in crate::apache::htaccess) static RULE: Directive<Line> =
    in_file(Directive::new("RewriteRule", |args, loading| {
        Ok(Line::Rule(Arc::new(Rule::parse(args, loading)?)))
    }))
    .args(Arity::Range(2, 3))
    .slot("htaccess rewrite")
    .help("Replaces the path below the directory if it matches a pattern.");

/// One directive.
#[derive(Clone, Debug)]
pub(in crate::apache::htaccess) enum Line {
    /// `RewriteEngine`
    Engine(bool),
    /// `RewriteBase`
    Base(Box<[u8]>),
    /// `RewriteCond`
    Condition(Arc<Condition>),
    /// `RewriteRule`
    Rule(Arc<Rule>),
}

fn parse_base(args: &Args<'_>, _: &mut Loading) -> Result<Line, Diagnostic> {
    let word = args.word(0)?;
    if !word.text.starts_with(b"/") {
        return Err(super::wrong(args, "no path from the root:", word));
    }
    let slash: &[u8] = if word.text.ends_with(b"/") { b"" } else { b"/" };
    Ok(Line::Base([&word.text, slash].concat().into()))
}

/// Uses the rules of the innermost directory that has one of these directives. The innermost `RewriteEngine` switches them
/// on or off.
pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let engine = |line: &Line| match line {
        Line::Engine(on) => Some(*on),
        _ => None,
    };
    let on = view.nearest(&ENGINE, engine).unwrap_or(false);
    let program = Program::new(values(view, &ENGINE));
    if on && !program.is_empty() {
        let (allowed, settings) = (content::follows(view), environment::settings(view));
        let redirects = redirect::redirects(view);
        builder.handle(Phase::Precontent, Rewriter { program, allowed, settings, redirects });
    }
}
