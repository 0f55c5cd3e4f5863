//! Rewrites paths in `.htaccess` files: `RewriteRule` and `RewriteCond`.
//!
//! A rule sees the path below the directory of its file. A path that a rule changed is looked up again, as in Apache.
//!
//! nginx: none
//!
//! ```file html/index.txt
//! front controller
//! ```
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! RewriteEngine On
//! RewriteCond %{REQUEST_FILENAME} !-f
//! RewriteCond %{REQUEST_FILENAME} !-d
//! RewriteRule ^ index.txt [L]
//! RewriteRule ^away/(.*)$ http://example.com/$1 [R=301,L]
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /a/page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! front controller
//! ---
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ```

mod condition;
mod rule;
mod run;
mod text;
mod variable;

use crate::apache::{apache_core, mod_alias, mod_env};
use crate::shared::apache::{in_file, values, wrong};
use condition::Condition;
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Loading, Module, Phase, ScopeBuilder, View};
use rule::Rule;
use run::{Program, Rewriter};
use std::sync::Arc;

/// Rewriting.
pub static MODULE: Module = Module {
    name: "mod_rewrite",
    directives: &[&ENGINE, &BASE, &CONDITION, &RULE],
    variables: &[],
    compile: Some(compile),
};

/// `RewriteEngine on | off`
pub(crate) static ENGINE: Directive<Line> =
    in_file(Directive::new("RewriteEngine", |args, _| Ok(Line::Engine(args.value(0, value::flag)?))))
        .args(Arity::Exactly(1))
        .slot("htaccess rewrite")
        .help("Whether the rules count.");

/// `RewriteBase PATH`
pub(crate) static BASE: Directive<Line> = in_file(Directive::new("RewriteBase", parse_base))
    .args(Arity::Exactly(1))
    .slot("htaccess rewrite")
    .help("The URI of the directory, for relative targets.");

/// `RewriteCond TEXT CONDITION [FLAGS]`
pub(crate) static CONDITION: Directive<Line> = in_file(Directive::new("RewriteCond", |args, loading| {
    Ok(Line::Condition(Arc::new(Condition::parse(args, loading)?)))
}))
.args(Arity::Range(2, 3))
.slot("htaccess rewrite")
.help("What must hold for the next rule.");

/// `RewriteRule PATTERN TARGET [FLAGS]`
pub(crate) static RULE: Directive<Line> = in_file(Directive::new("RewriteRule", |args, loading| {
    Ok(Line::Rule(Arc::new(Rule::parse(args, loading)?)))
}))
.args(Arity::Range(2, 3))
.slot("htaccess rewrite")
.help("Replaces the path below the directory if it matches a pattern.");

/// One directive.
#[derive(Clone, Debug)]
pub(crate) enum Line {
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
        return Err(wrong(args, "no path from the root:", word));
    }
    let slash: &[u8] = if word.text.ends_with(b"/") { b"" } else { b"/" };
    Ok(Line::Base([&word.text, slash].concat().into()))
}

/// Uses the rules of the innermost directory that has one of these directives. The innermost `RewriteEngine` switches them
/// on or off.
fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let engine = |line: &Line| match line {
        Line::Engine(on) => Some(*on),
        _ => None,
    };
    let on = view.nearest(&ENGINE, engine).unwrap_or(false);
    let program = Program::new(values(view, &ENGINE));
    if on && !program.is_empty() {
        let (allowed, settings) = (apache_core::content::follows(view), mod_env::settings(view));
        let redirects = mod_alias::redirects(view);
        builder.handle(Phase::Precontent, Rewriter { program, allowed, settings, redirects });
    }
    Ok(())
}
