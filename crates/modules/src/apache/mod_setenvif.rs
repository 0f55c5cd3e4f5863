//! Sets variables of the environment in `.htaccess` files if the request matches a condition.
//!
//! Access rules, rewriting and programs of `fastcgi_pass` can use the variables.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! SetEnvIfNoCase User-Agent "badbot" BAD
//! <RequireAll>
//! Require all granted
//! Require not env BAD
//! </RequireAll>
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
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ---
//! GET /a.txt HTTP/1.1
//! Host: localhost
//! User-Agent: BadBot/1.0
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::shared::apache::bounded::{Failure, append, find, is_match};
use crate::shared::apache::environment::{get, of, warn_if_reserved};
use crate::shared::apache::expression::Expression;
use crate::shared::apache::lookup;
use crate::shared::apache::variables::request_field;
use crate::shared::apache::{in_all_files, pattern, values, variables};
use conf::value::{Captures, Pattern};
use conf::{Arity, Diagnostic, Word};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Step, View,
};
use http::Field;
use std::sync::Arc;

/// Variables that depend on the request.
pub static MODULE: Module = Module {
    name: "mod_setenvif",
    directives: &[&SET_ENV_IF, &SET_ENV_IF_NO_CASE, &BROWSER_MATCH, &BROWSER_MATCH_NO_CASE, &SET_ENV_IF_EXPR],
    variables: &[],
    compile: Some(compile),
};

/// `SetEnvIf ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(crate) static SET_ENV_IF: Directive<Arc<Condition>> =
    in_all_files(Directive::new("SetEnvIf", |args, loading| parse_if(args, loading, false)))
        .args(Arity::AtLeast(3))
        .slot("SetEnvIf")
        .help("Sets variables of the environment if something about the request matches.");

/// `SetEnvIfNoCase ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(crate) static SET_ENV_IF_NO_CASE: Directive<Arc<Condition>> =
    in_all_files(Directive::new("SetEnvIfNoCase", |args, loading| parse_if(args, loading, true)))
        .args(Arity::AtLeast(3))
        .slot("SetEnvIf")
        .help("As `SetEnvIf`, whatever the case of letters.");

/// `BrowserMatch PATTERN [!]NAME[=VALUE] …`
pub(crate) static BROWSER_MATCH: Directive<Arc<Condition>> =
    in_all_files(Directive::new("BrowserMatch", |args, loading| parse_browser(args, loading, false)))
        .args(Arity::AtLeast(2))
        .slot("SetEnvIf")
        .help("As `SetEnvIf User-Agent`.");

/// `BrowserMatchNoCase PATTERN [!]NAME[=VALUE] …`
pub(crate) static BROWSER_MATCH_NO_CASE: Directive<Arc<Condition>> =
    in_all_files(Directive::new("BrowserMatchNoCase", |args, loading| parse_browser(args, loading, true)))
        .args(Arity::AtLeast(2))
        .slot("SetEnvIf")
        .help("As `BrowserMatch`, whatever the case of letters.");

/// `SetEnvIfExpr EXPRESSION [!]NAME[=VALUE] …`
pub(crate) static SET_ENV_IF_EXPR: Directive<Arc<Condition>> =
    in_all_files(Directive::new("SetEnvIfExpr", parse_expression))
        .args(Arity::AtLeast(2))
        .slot("SetEnvIf")
        .help("Sets variables of the environment if an expression is true.");

/// A name, and its value; no value takes the variable away.
type Assignment = (Box<[u8]>, Option<Box<[u8]>>);

/// A condition and what it sets.
#[derive(Debug)]
pub(crate) struct Condition {
    test: Test,
    sets: Vec<Assignment>,
}

#[derive(Debug)]
enum Test {
    Matches(Attribute, Arc<Pattern>),
    Holds(Expression),
}

#[derive(Debug)]
enum Attribute {
    RemoteAddress,
    ServerAddress,
    Method,
    Protocol,
    Uri,
    /// A field of the request or else a variable of the environment.
    Named(String),
    /// The last field of the request whose name matches, and those with the same name.
    Matching(Arc<Pattern>),
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let conditions = values(view, &SET_ENV_IF);
    if !conditions.is_empty() {
        builder.handle(Phase::Preaccess, Early { conditions });
    }
    Ok(())
}

fn parse_if(args: &Args<'_>, loading: &mut Loading, ignore_case: bool) -> Result<Arc<Condition>, Diagnostic> {
    let word = args.word(0)?;
    let attribute = match word.text.to_ascii_lowercase().as_slice() {
        b"remote_addr" | b"remote_host" => Attribute::RemoteAddress,
        b"request_method" => Attribute::Method,
        b"request_protocol" => Attribute::Protocol,
        b"request_uri" => Attribute::Uri,
        b"server_addr" => Attribute::ServerAddress,
        name if name.iter().any(|byte| b"^$.*+?()[]{}|\\".contains(byte)) => {
            Attribute::Matching(pattern(args, loading, word, &word.text, ignore_case)?)
        }
        _ => Attribute::Named(word.to_string()),
    };
    condition(args, loading, attribute, &args.words()[1..], ignore_case)
}

fn parse_browser(
    args: &Args<'_>,
    loading: &mut Loading,
    ignore_case: bool,
) -> Result<Arc<Condition>, Diagnostic> {
    condition(args, loading, Attribute::Named("User-Agent".to_owned()), args.words(), ignore_case)
}

fn condition(
    args: &Args<'_>,
    loading: &mut Loading,
    attribute: Attribute,
    words: &[Word],
    ignore_case: bool,
) -> Result<Arc<Condition>, Diagnostic> {
    let Some((word, sets)) = words.split_first() else { return Err(args.error("has no pattern")) };
    let pattern = pattern(args, loading, word, &word.text, ignore_case)?;
    finish(args, loading, Test::Matches(attribute, pattern), sets)
}

fn parse_expression(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<Condition>, Diagnostic> {
    let Some((word, sets)) = args.words().split_first() else { return Err(args.error("has no expression")) };
    let expression = Expression::parse(args, loading, std::slice::from_ref(word))?;
    finish(args, loading, Test::Holds(expression), sets)
}

fn finish(
    args: &Args<'_>,
    loading: &mut Loading,
    test: Test,
    sets: &[Word],
) -> Result<Arc<Condition>, Diagnostic> {
    let set = |word: &Word| match (word.text.strip_prefix(b"!"), word.text.iter().position(|&b| b == b'=')) {
        (Some(name), _) => (name.into(), None),
        (None, Some(at)) => (word.text[..at].into(), Some(word.text[at + 1..].into())),
        (None, None) => (word.text.clone(), Some(Box::from(&b"1"[..]))),
    };
    let sets: Vec<Assignment> = sets.iter().map(set).collect();
    for (name, value) in &sets {
        if let Some(value) = value {
            warn_if_reserved(args, name, value, loading);
        }
    }
    Ok(Arc::new(Condition { test, sets }))
}

struct Early {
    conditions: Vec<Arc<Condition>>,
}

impl Handler for Early {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if lookup::is_lookup(exchange) {
            return Step::Next;
        }
        let budget = exchange.budget();
        let _running = budget.run();
        for condition in &self.conditions {
            if let Err(failure) = condition.apply(exchange, &budget) {
                return failure.refuse(exchange);
            }
        }
        Step::Next
    }
}

impl Condition {
    fn apply(&self, exchange: &Exchange, budget: &Budget) -> Result<(), Failure> {
        let mut captures = Captures::default();
        let found = match &self.test {
            Test::Matches(attribute, pattern) => {
                let subject = attribute.of(exchange, budget)?;
                find(pattern, &subject, &mut captures, budget)?.then_some((captures, subject))
            }
            Test::Holds(expression) => expression.captures(exchange, budget, None)?,
        };
        let Some((captures, subject)) = found else { return Ok(()) };
        let environment = of(exchange);
        for (name, value) in &self.sets {
            budget.step(subject.len())?;
            match value {
                Some(value) => environment.set(name, &with_groups(value, &captures, &subject)?)?,
                None => environment.unset(name),
            }
        }
        Ok(())
    }
}

/// A value with `$0` to `$9` replaced. A backslash takes the meaning from what follows it.
pub(crate) fn with_groups(value: &[u8], captures: &Captures, subject: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut rest = value;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'$', [digit @ b'0'..=b'9', tail @ ..]) => {
                append(&mut out, captures.get(usize::from(digit - b'0'), subject).unwrap_or_default())?;
                rest = tail;
            }
            (b'\\', [next, tail @ ..]) => {
                append(&mut out, &[*next])?;
                rest = tail;
            }
            _ => append(&mut out, &[*byte])?,
        }
    }
    Ok(out)
}

impl Attribute {
    fn of(&self, exchange: &Exchange, budget: &Budget) -> Result<Vec<u8>, Failure> {
        let head = &exchange.request.head;
        Ok(match self {
            Attribute::RemoteAddress => exchange.connection.peer.address().into_bytes(),
            Attribute::ServerAddress => exchange.connection.local.address().into_bytes(),
            Attribute::Method => variables::method(exchange).to_vec(),
            Attribute::Protocol => variables::protocol(exchange).to_vec(),
            Attribute::Uri => exchange.request.path.clone(),
            Attribute::Named(name) => match request_field(exchange, name) {
                Some(value) => value,
                None => get(exchange, name.as_bytes()).unwrap_or_default().into(),
            },
            Attribute::Matching(pattern) => {
                let mut last = None;
                for (at, field) in head.fields.iter().enumerate() {
                    let is_same = |known: Field<'_>| known.name.eq_ignore_ascii_case(field.name);
                    let is_first = !head.fields.iter().take(at).any(is_same);
                    if is_first && is_match(pattern, field.name, budget)? {
                        last = Some(String::from_utf8_lossy(field.name));
                    }
                }
                last.and_then(|name| request_field(exchange, &name)).unwrap_or_default()
            }
        })
    }
}
