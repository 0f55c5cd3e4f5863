//! Changes the fields of responses and requests in `.htaccess` files.
//!
//! `Header` without `always` does not change the server's own pages about errors; `Header always` does.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! Header set X-Frame-Options DENY
//! Header always set X-Content-Type-Options nosniff
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
//! X-Frame-Options: DENY
//! X-Content-Type-Options: nosniff
//!
//! a
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! X-Content-Type-Options: nosniff
//! ```

mod change;

use crate::apache::mod_mime;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::expression::{Expression, Text};
use crate::shared::apache::{in_all_files, pattern, values, wrong};
use conf::tree::printable;
use conf::value::Pattern;
use conf::{Arity, Diagnostic, Word};
use contract::{
    Args, Body, Budget, Directive, Exchange, Filter, Handler, Loading, Module, Phase, Replaced, ScopeBuilder,
    Step, View,
};
use http::Fields;
use std::sync::Arc;

/// Fields of responses and requests.
pub static MODULE: Module = Module {
    name: "mod_headers",
    directives: &[&HEADER, &REQUEST_HEADER],
    variables: &[],
    compile: Some(compile),
};

/// `Header [always | onsuccess] ACTION NAME [VALUE [REPLACEMENT]] [env=[!]NAME | expr=EXPRESSION]`
pub(crate) static HEADER: Directive<Change> = in_all_files(Directive::new("Header", parse_header))
    .args(Arity::Range(2, 6))
    .help("Changes a field of responses: set, setifempty, append, merge, add, edit, edit*, unset, echo.");

/// `RequestHeader ACTION NAME [VALUE [REPLACEMENT]] [env=[!]NAME | expr=EXPRESSION]`
pub(crate) static REQUEST_HEADER: Directive<Change> = in_all_files(Directive::new(
    "RequestHeader",
    |args, loading| parse(args, args.words(), false, loading),
))
.args(Arity::Range(2, 5))
.help("Changes a field of the request after rewriting: set, setifempty, append, merge, add, edit, edit*, unset.");

/// One change of a field.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    always: bool,
    action: Action,
    name: Box<str>,
    value: Value,
    condition: Option<Condition>,
}

#[derive(Clone, Debug)]
enum Action {
    Set,
    SetIfEmpty,
    Append,
    Merge,
    Add,
    Unset,
    /// `edit` and, for all matches, `edit*`: the value replaces what matches.
    Edit(Arc<Pattern>, bool),
    /// Fields of the request whose names match are fields of the response.
    Echo(Arc<Pattern>),
    /// `note`, which only Apache's modules see.
    Nothing,
}

#[derive(Clone, Debug)]
enum Value {
    Parts(Vec<Part>),
    Expression(Arc<Text>),
}

impl Value {
    fn none() -> Value {
        Value::Parts(Vec::new())
    }
}

#[derive(Clone, Debug)]
enum Condition {
    /// A variable of the environment that must be set, or must not.
    Variable(Box<[u8]>, bool),
    Expression(Arc<Expression>),
}

#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    /// `%{NAME}e`
    Variable(Box<[u8]>),
    /// `%{NAME}s`: a variable of the server, in upper case. Those about TLS (`SSL_…`) have no value: files do not see them.
    OfServer(Box<str>),
    /// `%t`: when the request began, in microseconds.
    Time,
    /// `%D`: for how many microseconds it has lasted.
    Duration,
    /// `%l`, `%i` and `%b`, which are about the load of Apache's machine.
    Load(&'static str),
}

fn parse_header(args: &Args<'_>, loading: &mut Loading) -> Result<Change, Diagnostic> {
    let words = args.words();
    match words.split_first() {
        Some((first, rest)) if first.text.eq_ignore_ascii_case(b"always") => parse(args, rest, true, loading),
        Some((first, rest)) if first.text.eq_ignore_ascii_case(b"onsuccess") => {
            parse(args, rest, false, loading)
        }
        _ => parse(args, words, false, loading),
    }
}

fn parse(args: &Args<'_>, words: &[Word], always: bool, loading: &mut Loading) -> Result<Change, Diagnostic> {
    let [action_word, name, rest @ ..] = words else { return Err(args.error("needs an action and a name")) };
    let verb = action_word.text.to_ascii_lowercase();
    let mut rest = rest;
    let mut next = || match rest {
        [word, others @ ..] => {
            rest = others;
            Ok(word)
        }
        [] => Err(args.error("needs a value")),
    };
    let (action, value) = match verb.as_slice() {
        b"set" => (Action::Set, Some(next()?)),
        b"setifempty" => (Action::SetIfEmpty, Some(next()?)),
        b"append" => (Action::Append, Some(next()?)),
        b"merge" => (Action::Merge, Some(next()?)),
        b"add" => (Action::Add, Some(next()?)),
        b"unset" => (Action::Unset, None),
        b"note" => (Action::Nothing, Some(next()?)),
        b"echo" if args.node.name.text.eq_ignore_ascii_case(b"header") => {
            (Action::Echo(pattern(args, loading, name, &name.text, false)?), None)
        }
        b"edit" | b"edit*" => {
            let word = next()?;
            let pattern = pattern(args, loading, word, &word.text, false)?;
            (Action::Edit(pattern, verb.ends_with(b"*")), Some(next()?))
        }
        _ => return Err(wrong(args, "an unknown action", action_word)),
    };
    let condition = match rest {
        [] => None,
        // As in Apache it has no effect in a directory.
        [word] if word.text.eq_ignore_ascii_case(b"early") => {
            return Ok(Change {
                always,
                action: Action::Nothing,
                name: "".into(),
                value: Value::none(),
                condition: None,
            });
        }
        [word] => Some(parse_condition(args, word, loading)?),
        [_, word, ..] => return Err(wrong(args, "too many words, of which", word)),
    };
    let text = name.to_string();
    let text = text.strip_suffix(':').unwrap_or(&text);
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if text.is_empty() || !is_graphic && !matches!(action, Action::Echo(_)) {
        return Err(wrong(args, "no name of a field:", name));
    }
    let value = match value {
        None => Value::none(),
        Some(word) => match word.text.strip_prefix(b"expr=") {
            Some(text) => Value::Expression(Arc::new(Text::parse(args, loading, text)?)),
            None => Value::Parts(parse_value(args, word)?),
        },
    };
    Ok(Change { always, action, name: text.into(), value, condition })
}

fn parse_condition(args: &Args<'_>, word: &Word, loading: &mut Loading) -> Result<Condition, Diagnostic> {
    if let Some(text) = word.text.strip_prefix(b"expr=") {
        let word = Word { text: text.into(), quoted: true, span: word.span };
        let expression = Expression::parse(args, loading, std::slice::from_ref(&word))?;
        return Ok(Condition::Expression(Arc::new(expression)));
    }
    let Some(name) = word.text.strip_prefix(b"env=") else {
        return Err(wrong(args, "an unknown condition", word));
    };
    Ok(match name.strip_prefix(b"!") {
        Some(name) => Condition::Variable(name.into(), false),
        None => Condition::Variable(name.into(), true),
    })
}

fn parse_value(args: &Args<'_>, word: &Word) -> Result<Vec<Part>, Diagnostic> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut rest = &*word.text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'%', [b'%', tail @ ..]) => {
                text.push(b'%');
                rest = tail;
            }
            (b'%', [b'{', tail @ ..]) => {
                let end = tail.iter().position(|&byte| byte == b'}');
                let (Some(end), Some(kind @ (b'e' | b's'))) = (end, end.and_then(|end| tail.get(end + 1)))
                else {
                    return Err(wrong(args, "a format that is not supported in", word));
                };
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(match kind {
                    b'e' => Part::Variable(tail[..end].into()),
                    _ => Part::OfServer(printable(&tail[..end]).to_ascii_uppercase().into()),
                });
                rest = &tail[end + 2..];
            }
            (b'%', [kind @ (b't' | b'D' | b'l' | b'i' | b'b'), tail @ ..]) => {
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(match kind {
                    b't' => Part::Time,
                    b'D' => Part::Duration,
                    b'l' => Part::Load("l=0.00/0.00/0.00"),
                    b'i' => Part::Load("i=100"),
                    _ => Part::Load("b=0"),
                });
                rest = tail;
            }
            (b'%', _) => return Err(wrong(args, "a format that is not supported in", word)),
            (byte, _) => text.push(*byte),
        }
    }
    parts.push(Part::Text(text));
    Ok(parts)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let changes = values(view, &HEADER);
    match SetFields::of(&changes) {
        _ if changes.is_empty() => {}
        Some(fields) => builder.filter(fields),
        None => builder.filter(ChangeFields { changes }),
    }
    mod_mime::name_languages(view, builder);
    let changes = values(view, &REQUEST_HEADER);
    if !changes.is_empty() {
        builder.handle(Phase::Precontent, ChangeRequest { changes });
    }
    Ok(())
}

struct ChangeRequest {
    changes: Vec<Change>,
}

impl Handler for ChangeRequest {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let mut made = 0;
        let budget = exchange.budget();
        let _running = budget.run();
        for change in self.changes.iter().filter(|change| !change.is_framing()) {
            if let Err(spent) = budget.step(0) {
                return Failure::from(spent).refuse(exchange);
            }
            let value = match change.counts(exchange, &budget) {
                Ok(false) => continue,
                counts => counts.and_then(|_| change.value(exchange, &budget)),
            };
            let fields = &mut exchange.request.head.fields;
            if let Err(failure) = value.and_then(|value| change.make(fields, &value, &mut made, &budget)) {
                return failure.refuse(exchange);
            }
        }
        Step::Next
    }
}

/// A few fields that are the same in all responses. They cost so little that no budget pays for them.
struct SetFields {
    /// The names of fields of responses with content, and their lines.
    names: Vec<Box<str>>,
    lines: Fields,
    always: Fields,
}

impl SetFields {
    fn of(changes: &[Change]) -> Option<SetFields> {
        const CHANGES_MAX: usize = 16;
        if changes.len() > CHANGES_MAX || !changes.iter().all(Change::only_sets) {
            return None;
        }
        let (mut lines, mut always, mut made) = (Fields::new(), Fields::new(), 0);
        for change in changes {
            let list = if change.always { &mut always } else { &mut lines };
            change.make(list, change.constant()?, &mut made, &Budget::default()).ok()?;
        }
        let names = changes.iter().filter(|change| !change.always).map(|change| change.name.clone());
        Some(SetFields { names: names.collect(), lines, always })
    }
}

impl Filter for SetFields {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_content = is_content(exchange);
        let fields = &mut exchange.response.fields;
        // The lines were checked when these lists took them.
        if is_content {
            self.names.iter().for_each(|name| fields.remove(name));
            let _ = fields.append(&self.lines);
        }
        let _ = fields.append(&self.always);
        body
    }
}

struct ChangeFields {
    changes: Vec<Change>,
}

impl Filter for ChangeFields {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        // What is always set is kept apart, as Apache does: both may set the same field.
        let mut always = Fields::new();
        let mut made = 0;
        let is_content = is_content(exchange);
        let budget = exchange.budget();
        let _running = budget.run();
        for change in self.changes.iter().filter(|change| change.always || is_content) {
            let apart = change.always.then_some(&mut always);
            let paid = budget.step(0).map_err(Failure::from);
            if let Err(failure) = paid.and_then(|()| change.apply(exchange, apart, &mut made, &budget)) {
                exchange.response.status = failure.status(exchange);
                return body;
            }
        }
        for field in always.iter() {
            // They were in a list of fields before.
            let _ = exchange.response.fields.push(field.name, field.value);
        }
        body
    }
}

/// Whether this is content, and not one of the server's own pages about an error or a redirect.
fn is_content(exchange: &Exchange) -> bool {
    exchange.error.is_none() || exchange.error_page_used != Replaced::No
}
