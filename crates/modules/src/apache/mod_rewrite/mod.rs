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
mod context;
mod cookie;
mod rule;
mod run;
mod text;
mod variable;

use crate::apache::{mod_alias, mod_env};
use crate::shared::apache::{directory, in_directory, wrong};
use crate::shared::per_directory;
use condition::Condition;
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Loading, Module, Phase, ScopeBuilder, View};
use rule::Rule;
use run::{Program, Rewriter};
use std::sync::Arc;

/// Rewriting.
pub static MODULE: Module = Module {
    name: "mod_rewrite",
    directives: &[&ENGINE, &OPTIONS, &BASE, &CONDITION, &RULE],
    variables: &[],
    compile: Some(compile),
};

/// `RewriteEngine on | off`
pub(crate) static ENGINE: Directive<Line> = in_directory(Directive::new("RewriteEngine", |args, loading| {
    line(args, loading, Instruction::Engine(args.value(0, value::flag)?))
}))
// As in Apache, further words have no meaning.
.args(Arity::AtLeast(1))
.slot("htaccess rewrite")
.help("Whether the rules run.");

/// `RewriteOptions OPTION …`
pub(crate) static OPTIONS: Directive<Line> =
    in_directory(Directive::new("RewriteOptions", |args, loading| {
        line(args, loading, Instruction::Options(parse_options(args)?))
    }))
    .args(Arity::AtLeast(1))
    .slot("htaccess rewrite")
    .help("Whether the rules of outer directories apply, too.");

/// `RewriteBase PATH`
pub(crate) static BASE: Directive<Line> = in_directory(Directive::new("RewriteBase", |args, loading| {
    line(args, loading, Instruction::Base(parse_base(args)?))
}))
.args(Arity::Exactly(1))
.slot("htaccess rewrite")
.help("The URI of the directory, for relative targets.");

/// `RewriteCond TEXT CONDITION [FLAGS]`
pub(crate) static CONDITION: Directive<Line> =
    in_directory(Directive::new("RewriteCond", |args, loading| {
        let condition = Condition::parse(args, loading)?;
        line(args, loading, Instruction::Condition(Arc::new(condition)))
    }))
    .args(Arity::AtLeast(2))
    .slot("htaccess rewrite")
    .help("A condition for the next rule.");

/// `RewriteRule PATTERN TARGET [FLAGS]`
pub(crate) static RULE: Directive<Line> = in_directory(Directive::new("RewriteRule", |args, loading| {
    let rule = Rule::parse(args, loading)?;
    line(args, loading, Instruction::Rule(Arc::new(rule)))
}))
.args(Arity::AtLeast(2))
.slot("htaccess rewrite")
.help("Replaces the path below the directory if it matches a pattern.");

/// One directive.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The directory of the file, with a slash at its end.
    directory: Box<[u8]>,
    instruction: Instruction,
}

#[derive(Clone, Debug)]
enum Instruction {
    /// `RewriteEngine`
    Engine(bool),
    /// `RewriteOptions`
    Options(Options),
    /// `RewriteBase`
    Base(Box<[u8]>),
    /// `RewriteCond`
    Condition(Arc<Condition>),
    /// `RewriteRule`
    Rule(Arc<Rule>),
}

/// What `RewriteOptions` says.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// The rules of outer directories count after those of this one.
    inherit: bool,
    /// They count before.
    inherit_before: bool,
    /// Inner directories inherit.
    inherit_down: bool,
    inherit_down_before: bool,
    /// What an outer directory says about that does not count.
    ignore_inherit: bool,
    /// A directory that was asked for without its slash is rewritten, too.
    allow_no_slash: bool,
    /// The base is inherited.
    merge_base: bool,
}

fn line(args: &Args<'_>, loading: &Loading, instruction: Instruction) -> Result<Line, Diagnostic> {
    Ok(Line { directory: directory(args, loading)?, instruction })
}

fn parse_options(args: &Args<'_>) -> Result<Options, Diagnostic> {
    let mut options = Options::default();
    for word in args.words() {
        match word.text.to_ascii_lowercase().as_slice() {
            b"inherit" => options.inherit = true,
            b"inheritbefore" => options.inherit_before = true,
            b"inheritdown" => options.inherit_down = true,
            b"inheritdownbefore" => options.inherit_down_before = true,
            b"ignoreinherit" => options.ignore_inherit = true,
            b"allownoslash" => options.allow_no_slash = true,
            b"mergebase" => options.merge_base = true,
            b"allowanyuri" | b"ignorecontextinfo" | b"legacyprefixdocroot" | b"longurloptimization" => {}
            _ => return Err(wrong(args, "an unknown option", word)),
        }
    }
    Ok(options)
}

fn parse_base(args: &Args<'_>) -> Result<Box<[u8]>, Diagnostic> {
    let word = args.word(0)?;
    if !word.text.starts_with(b"/") {
        return Err(wrong(args, "no path from the root:", word));
    }
    let slash: &[u8] = if word.text.ends_with(b"/") { b"" } else { b"/" };
    Ok([&word.text, slash].concat().into())
}

/// Uses the rules of the innermost directory that has one of these directives, and of outer ones where the options say
/// so. The innermost `RewriteEngine` switches them on or off.
fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let engine = |line: &Line| match line.instruction {
        Instruction::Engine(on) => Some(on),
        _ => None,
    };
    if !view.nearest(&ENGINE, engine).unwrap_or(false) {
        return Ok(());
    }
    let levels: Vec<Vec<Line>> = view.levels().map(|level| lines(&level)).collect();
    let levels = levels.into_iter().rev().filter(|lines| !lines.is_empty());
    let merged = levels.fold(None, |outer, lines| Some(Merged::new(lines, outer)));
    let Some(Merged { lines, base, options, directory }) = merged else { return Ok(()) };
    let program = Program::new(lines, base, directory);
    if !program.is_empty() {
        let rewriter = Rewriter {
            program,
            allowed: per_directory::options::follows(view),
            settings: mod_env::settings(view),
            redirects: mod_alias::redirects(view),
            slash: per_directory::has_slash(view),
            options,
        };
        builder.handle(Phase::Precontent, rewriter);
    }
    Ok(())
}

fn lines(level: &View<'_>) -> Vec<Line> {
    level.here(&ENGINE).into_iter().map(|written| written.value.clone()).collect()
}

/// The directives of a directory, with what it takes from outer ones.
struct Merged {
    lines: Vec<Line>,
    base: Option<Box<[u8]>>,
    options: Options,
    directory: Box<[u8]>,
}

impl Merged {
    fn new(lines: Vec<Line>, outer: Option<Merged>) -> Merged {
        let mut own: Option<Options> = None;
        let mut base = None;
        for line in &lines {
            match &line.instruction {
                Instruction::Options(more) => own = Some(own.unwrap_or_default().or(*more)),
                Instruction::Base(path) => base = Some(path.clone()),
                _ => {}
            }
        }
        let directory = lines.last().map(|line| line.directory.clone()).unwrap_or_default();
        let Some(outer) = outer else {
            return Merged { lines, base, options: own.unwrap_or_default(), directory };
        };
        let options = own.unwrap_or(outer.options);
        let is_heir = !own.unwrap_or_default().ignore_inherit;
        if options.merge_base {
            base = base.or(outer.base);
        }
        let lines = if options.inherit || outer.options.inherit_down && is_heir {
            [lines, outer.lines].concat()
        } else if options.inherit_before || outer.options.inherit_down_before && is_heir {
            [outer.lines, lines].concat()
        } else {
            lines
        };
        Merged { lines, base, options, directory }
    }
}

impl Options {
    fn or(self, other: Options) -> Options {
        Options {
            inherit: self.inherit || other.inherit,
            inherit_before: self.inherit_before || other.inherit_before,
            inherit_down: self.inherit_down || other.inherit_down,
            inherit_down_before: self.inherit_down_before || other.inherit_down_before,
            ignore_inherit: self.ignore_inherit || other.ignore_inherit,
            allow_no_slash: self.allow_no_slash || other.allow_no_slash,
            merge_base: self.merge_base || other.merge_base,
        }
    }
}
