//! Rewrites URIs, sends short responses, sets variables, and tests conditions.
//!
//! Fulmar runs these directives in the order of the configuration, first those of the server, then those of the
//! location. A URI that a location rewrote is matched against the locations again, ten times at most.
//!
//! - `rewrite PATTERN TARGET [FLAG]` matches the decoded path. The query of the request is added unless the target
//!   ends with `?`. The flag `last` searches for a location again, and `break` stays in this one. `redirect`
//!   answers with 302, and `permanent` with 301. A target that starts with `http://`, `https://` or `$scheme` is a
//!   redirect with 302.
//! - `return` answers with a status, a text or a redirect; 444 closes the connection without a response.
//! - `set` gives a variable a value.
//! - `if` tests a variable (true if neither empty nor `0`), a comparison (`=`, `!=`), a pattern (`~`, `~*`, `!~`,
//!   `!~*`), or a file (`-f`, `-d`, `-e`, `-x`, each also with `!`). Its block works like a location.
//! - `break` ends these directives.
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     rewrite ^/short/(.*)$ /long/$1;
//!     location /long/ {
//!         return 200 "long: $uri, $args";
//!     }
//!     location /moved/ {
//!         rewrite ^/moved/(.*)$ https://example.com/$1 permanent;
//!     }
//!     location /alias {
//!         rewrite ^ /page.txt break;
//!     }
//!     location /if {
//!         set $kind other;
//!         if ($arg_kind ~ ^(big|small)$) {
//!             set $kind $1;
//!         }
//!         if ($kind = big) {
//!             return 403;
//!         }
//!         return 200 $kind;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /short/way?a=b HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! long: /long/way, a=b
//! ---
//! GET /moved/on HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: https://example.com/on
//! ---
//! GET /alias HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! page
//! ---
//! GET /if?kind=small HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! small
//! ---
//! GET /if?kind=big HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

mod answer;
mod computation;
mod condition;
mod program;
mod replacement;
mod text;

use crate::files::open_file_cache::Files;
use crate::shared::names;
use answer::Answer;
pub use computation::Computation;
pub(super) use computation::Compute;
use condition::Condition;
use conf::value::size_in_text;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Definition, Directive, Evaluate, Exchange, Getter, Loading, Module, Phase, Rule, ScopeBuilder,
    SectionId, VariableId, View,
};
use journal::Level;
use program::{Program, Rewriter};
use replacement::Replacement;
use std::sync::Arc;
pub(super) use text::Text;

/// Rewriting, answers, variables and branches.
pub static MODULE: Module = Module {
    name: "rewrite",
    directives: &[&REWRITE, &RETURN, &SET, &IF, &BREAK, &REWRITE_LOG, &UNINITIALIZED_VARIABLE_WARN],
    variables: &[],
    compile: Some(compile),
};

const BLOCKS: Contexts = Contexts::SERVER.or(Contexts::LOCATION);
pub(super) const BLOCKS_AND_IF: Contexts = BLOCKS.or(Contexts::SERVER_IF).or(Contexts::LOCATION_IF);

/// `rewrite PATTERN TARGET [last | break | redirect | permanent]`
pub static REWRITE: Directive<Instruction> =
    Directive::new("rewrite", |args, loading| Replacement::parse(args, loading).map(Instruction::Replace))
        .within(BLOCKS_AND_IF)
        .args(Arity::Range(2, 3))
        .slot("rewrite")
        .rule(Rule::Never)
        .repeats()
        .help("Replaces the URI if it matches a pattern.");

/// `return STATUS [TEXT | URL]`, `return URL`
pub static RETURN: Directive<Instruction> =
    Directive::new("return", |args, loading| Answer::parse(args, loading).map(Instruction::Return))
        .within(BLOCKS_AND_IF)
        .args(Arity::Range(1, 2))
        .slot("rewrite")
        .rule(Rule::Never)
        .repeats()
        .help("Answers with a status, a text or a redirect.");

/// `set $VARIABLE TEXT`
pub static SET: Directive<Instruction> = Directive::new("set", parse_set)
    .within(BLOCKS_AND_IF.or(Contexts::STREAM_SERVER))
    .args(Arity::Exactly(2))
    .slot("rewrite")
    .rule(Rule::Never)
    .repeats()
    .help("Gives a variable a value.");

/// `if (CONDITION) { … }`
pub static IF: Directive<Instruction> = Directive::new("if", parse_if)
    .within(BLOCKS)
    .opens(Arity::AtLeast(1), Contexts::SERVER_IF.or(Contexts::LOCATION_IF))
    .slot("rewrite")
    .rule(Rule::Never)
    .repeats()
    .help("Runs its block, as a location, if a condition is true.");

/// `break`
pub static BREAK: Directive<Instruction> = Directive::new("break", |_, _| Ok(Instruction::Break))
    .within(BLOCKS_AND_IF)
    .args(Arity::None)
    .slot("rewrite")
    .rule(Rule::Never)
    .repeats()
    .help("Ends the processing of these directives, and keeps a changed URI in this location.");

/// `rewrite_log on | off`
pub static REWRITE_LOG: Directive<bool> = Directive::flag("rewrite_log")
    .within(BLOCKS_AND_IF.or(Contexts::HTTP))
    .default("off")
    .help("Whether rewrites are logged, at the level notice.");

/// `uninitialized_variable_warn on | off`
pub static UNINITIALIZED_VARIABLE_WARN: Directive<bool> = Directive::flag("uninitialized_variable_warn")
    .within(BLOCKS_AND_IF.or(Contexts::HTTP))
    .default("on")
    .help("Whether the use of a variable that set has not set is logged.");

/// One directive.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// `rewrite`
    Replace(Replacement),
    /// `return`
    Return(Answer),
    /// `set`
    Set(Target, Text),
    /// A directive of set-misc.
    Compute(Computation),
    /// `break`
    Break,
    /// `if`, with its block.
    If(Condition, SectionId),
}

/// What `set` sets.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The query of the request.
    Args,
    /// How fast the response is sent.
    LimitRate,
    /// A variable of the configuration.
    Variable(VariableId),
}

impl Target {
    /// The variable of this name; `unset` is what it is before it is set, where nothing else defines it.
    pub(crate) fn new(name: &str, loading: &mut Loading, unset: impl FnOnce() -> Definition) -> Target {
        match name {
            "args" => Target::Args,
            "limit_rate" => Target::LimitRate,
            _ => Target::Variable(loading.variables.define_if_new(name, unset())),
        }
    }

    /// As [`Target::new`], for a variable that is empty before it is set.
    pub(super) fn of_set(name: &str, loading: &mut Loading) -> Target {
        let unset = Uninitialized::new(name, loading);
        Target::new(name, loading, || Definition::Evaluated(Arc::new(unset)))
    }

    /// Gives it a value.
    pub(crate) fn set(self, exchange: &mut Exchange, value: Vec<u8>) {
        match self {
            Target::Args => exchange.request.args = Some(value),
            Target::LimitRate => match size_in_text(&value) {
                Some(rate) => exchange.wire.limit_rate = Some(rate),
                None => {
                    let shown = String::from_utf8_lossy(&value);
                    exchange.log(Level::Error, &format!("invalid $limit_rate \"{shown}\""));
                }
            },
            Target::Variable(id) => exchange.set_slot(id, &value),
        }
    }
}

fn parse_set(args: &Args<'_>, loading: &mut Loading) -> Result<Instruction, Diagnostic> {
    let name = names::variable(args, args.word(0)?, loading)?;
    let value = args.word(1)?;
    let target = Target::of_set(&name, loading);
    Ok(Instruction::Set(target, Text::parse(&value.text, value.span, loading)?))
}

fn parse_if(args: &Args<'_>, loading: &mut Loading) -> Result<Instruction, Diagnostic> {
    let section = args.opened.ok_or_else(|| args.error("has no opening \"{\""))?;
    Ok(Instruction::If(Condition::parse(args, loading)?, section))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&UNINITIALIZED_VARIABLE_WARN) == Some(&false) {
        builder.keep(SilentlyEmpty);
    }
    let phase = match view.context() {
        Contexts::SERVER => Phase::ServerRewrite,
        Contexts::LOCATION => Phase::Rewrite,
        Contexts::STREAM_SERVER => Phase::Precontent,
        // The instructions of an `if` are carried out by the level around it.
        _ => return Ok(()),
    };
    let program = Program::new(view, builder);
    if !program.is_empty() {
        let is_logged = view.get(&REWRITE_LOG).copied().unwrap_or(false);
        builder.handle(phase, Rewriter::new(program, phase, is_logged, Files::of(view)));
    }
    Ok(())
}

/// The use of a variable that `set` has not set yet is not logged.
struct SilentlyEmpty;

/// The value of a variable before `set` sets it.
struct Uninitialized {
    name: String,
    /// What has a value before, such as `$http_x` or `$proxy_host`, with the rest of the name for a family.
    before: Option<(Getter, String)>,
}

impl Uninitialized {
    fn new(name: &str, loading: &Loading) -> Uninitialized {
        let before = names::unset(name, loading).map(|(variable, rest)| (variable.get, rest.to_owned()));
        Uninitialized { name: name.to_owned(), before }
    }
}

impl Evaluate for Uninitialized {
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        if let Some((get, rest)) = &self.before {
            return get(exchange, rest, out);
        }
        if exchange.scope.kept::<SilentlyEmpty>().is_none() {
            exchange.log(Level::Warn, &format!("using uninitialized \"{}\" variable", self.name));
        }
        true
    }

    fn is_volatile(&self) -> bool {
        self.before.is_some()
    }
}
