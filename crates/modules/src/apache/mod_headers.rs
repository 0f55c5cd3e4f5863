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

use crate::shared::apache::bounded::{Failure, append};
use crate::shared::apache::{environment, in_all_files, values, wrong};
use bytes::Bytes;
use conf::{Arity, Diagnostic, Word};
use contract::{
    Args, Body, Budget, Directive, Exchange, Filter, Handler, Module, Phase, ScopeBuilder, Step, View,
};
use http::{Fields, InvalidField, Status};

/// Fields of responses and requests.
pub static MODULE: Module = Module {
    name: "mod_headers",
    directives: &[&HEADER, &REQUEST_HEADER],
    variables: &[],
    compile: Some(compile),
};

/// `Header [always | onsuccess] set | append | add | merge | setifempty | unset NAME [VALUE] [env=[!]NAME]`
pub(crate) static HEADER: Directive<Change> =
    in_all_files(Directive::new("Header", |args, _| parse_header(args)))
        .args(Arity::Range(2, 5))
        .help("Sets a field of responses, adds to it, or takes it away.");

/// `RequestHeader set | append | add | merge | setifempty | unset NAME [VALUE] [env=[!]NAME]`
pub(crate) static REQUEST_HEADER: Directive<Change> =
    in_all_files(Directive::new("RequestHeader", |args, _| parse(args, args.words(), false)))
        .args(Arity::Range(2, 4))
        .help("Sets a field of the request, adds to it, or takes it away, after rewriting.");

/// One change of a field.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    always: bool,
    action: Action,
    name: Box<str>,
    value: Vec<Part>,
    /// A variable of the environment that must be set, or must not.
    condition: Option<(Box<[u8]>, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Set,
    SetIfEmpty,
    Append,
    Merge,
    Add,
    Unset,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    /// `%{NAME}e`
    Variable(Box<[u8]>),
}

fn parse_header(args: &Args<'_>) -> Result<Change, Diagnostic> {
    let words = args.words();
    match words.split_first() {
        Some((first, rest)) if first.text.eq_ignore_ascii_case(b"always") => parse(args, rest, true),
        Some((first, rest)) if first.text.eq_ignore_ascii_case(b"onsuccess") => parse(args, rest, false),
        _ => parse(args, words, false),
    }
}

fn parse(args: &Args<'_>, words: &[Word], always: bool) -> Result<Change, Diagnostic> {
    let [action_word, name, rest @ ..] = words else { return Err(args.error("needs an action and a name")) };
    let action = match action_word.text.to_ascii_lowercase().as_slice() {
        b"set" => Action::Set,
        b"setifempty" => Action::SetIfEmpty,
        b"append" => Action::Append,
        b"merge" => Action::Merge,
        b"add" => Action::Add,
        b"unset" => Action::Unset,
        _ => return Err(wrong(args, "an action that is not supported,", action_word)),
    };
    let (value, condition) = match (action, rest) {
        (Action::Unset, rest) => (None, rest),
        (_, [value, rest @ ..]) => (Some(value), rest),
        (_, []) => return Err(args.error("needs a value")),
    };
    let condition = match condition {
        [] => None,
        [word] => Some(parse_condition(args, word)?),
        [_, word, ..] => return Err(wrong(args, "too many words, of which", word)),
    };
    let text = name.to_string();
    let text = text.strip_suffix(':').unwrap_or(&text);
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if text.is_empty() || !is_graphic {
        return Err(wrong(args, "no name of a field:", name));
    }
    let name = text.into();
    let value = value.map_or(Ok(Vec::new()), |value| parse_value(args, value))?;
    Ok(Change { always, action, name, value, condition })
}

fn parse_condition(args: &Args<'_>, word: &Word) -> Result<(Box<[u8]>, bool), Diagnostic> {
    let Some(name) = word.text.strip_prefix(b"env=") else {
        return Err(wrong(args, "a condition that is not supported,", word));
    };
    Ok(match name.strip_prefix(b"!") {
        Some(name) => (name.into(), false),
        None => (name.into(), true),
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
                let (Some(end), Some(b'e')) = (end, end.and_then(|end| tail.get(end + 1))) else {
                    return Err(wrong(args, "a format that is not supported in", word));
                };
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Variable(tail[..end].into()));
                rest = &tail[end + 2..];
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
    if !changes.is_empty() {
        builder.filter(ChangeFields { changes });
    }
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
        let mut made = Vec::new();
        let budget = Budget::of(exchange);
        let _running = budget.run();
        for change in self.changes.iter().filter(|change| !change.is_framing()) {
            if let Err(spent) = budget.step(0) {
                return Failure::from(spent).refuse(exchange);
            }
            if !change.counts(exchange) {
                continue;
            }
            let value = change.value(exchange);
            let fields = &mut exchange.request.head.fields;
            if let Err(failure) = value.and_then(|value| change.make(fields, &value, &mut made)) {
                return failure.refuse(exchange);
            }
        }
        Step::Next
    }
}

struct ChangeFields {
    changes: Vec<Change>,
}

impl Filter for ChangeFields {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        // What is always set is kept apart, as Apache does: both may set the same field.
        let mut always = Fields::new();
        let mut made = Vec::new();
        let is_content = is_content(exchange);
        let budget = Budget::of(exchange);
        let _running = budget.run();
        for change in self.changes.iter().filter(|change| change.always || is_content) {
            if !change.counts(exchange) {
                continue;
            }
            let apart = change.always.then_some(&mut always);
            let paid = budget.step(0).map_err(Failure::from);
            if let Err(failure) = paid.and_then(|()| change.apply(exchange, apart, &mut made)) {
                failure.refuse(exchange);
                exchange.response.status = Status::INTERNAL_SERVER_ERROR;
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
    let status = exchange.response.status;
    let good = (200..300).contains(&status.0) || status == Status::NOT_MODIFIED;
    good || exchange.error.is_some() && exchange.error_page_used && !status.is_redirection()
}

impl Change {
    fn counts(&self, exchange: &Exchange) -> bool {
        let is_set = |name: &[u8]| environment::get(exchange, name).is_some();
        self.condition.as_ref().is_none_or(|(name, wanted)| is_set(name) == *wanted)
    }

    /// Changes a field of the response, or of the list that is kept apart.
    fn apply(
        &self,
        exchange: &mut Exchange,
        apart: Option<&mut Fields>,
        made: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let value = self.value(exchange)?;
        if self.is_framing() || self.apply_typed(exchange, &value) {
            return Ok(());
        }
        self.make(apart.unwrap_or(&mut exchange.response.fields), &value, made)
    }

    /// Changes a field of a list. What changes of one list make is a bounded text.
    fn make(&self, fields: &mut Fields, value: &[u8], made: &mut Vec<u8>) -> Result<(), Failure> {
        let present: Vec<&[u8]> = fields.all(&self.name).collect();
        let line = match self.action {
            Action::Unset => None,
            Action::SetIfEmpty if !present.is_empty() => return Ok(()),
            Action::Merge if present.iter().any(|list| lists(list, value)) => return Ok(()),
            Action::Append | Action::Merge if !present.is_empty() => {
                Some([&present.join(&b", "[..]), value].join(&b", "[..]))
            }
            _ => Some(value.to_vec()),
        };
        if self.action != Action::Add {
            fields.remove(&self.name);
        }
        let Some(line) = line else { return Ok(()) };
        append(made, &line)?;
        // The name and the value were checked.
        let _: Result<(), InvalidField> = fields.push(self.name.as_bytes(), &line);
        Ok(())
    }

    /// The value, without what would end its line.
    fn value(&self, exchange: &Exchange) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        for part in &self.value {
            match part {
                Part::Text(text) => append(&mut out, text)?,
                Part::Variable(name) => {
                    let value = environment::get(exchange, name);
                    append(&mut out, value.as_deref().unwrap_or(b"(null)"))?;
                }
            }
        }
        for byte in &mut out {
            if matches!(byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
        Ok(out)
    }

    /// Where the content ends is not for a file to say.
    fn is_framing(&self) -> bool {
        ["content-length", "transfer-encoding", "connection"]
            .iter()
            .any(|name| self.name.eq_ignore_ascii_case(name))
    }

    /// Changes one of the fields that the server itself keeps.
    fn apply_typed(&self, exchange: &mut Exchange, value: &[u8]) -> bool {
        let response = &mut exchange.response;
        let given = (self.action != Action::Unset).then(|| Bytes::copy_from_slice(value));
        let keeps = |present: bool| self.action == Action::SetIfEmpty && present;
        match self.name.to_ascii_lowercase().as_str() {
            "content-type" if keeps(response.content_type.is_some()) => {}
            "etag" if keeps(response.etag.is_some()) => {}
            "location" if keeps(response.location.is_some()) => {}
            "content-type" => response.content_type = given,
            "etag" => response.etag = given,
            "location" => response.location = given.map(|target| Box::from(&*target)),
            "last-modified" => response.last_modified = given.and_then(|text| http::parse_date(&text)),
            "accept-ranges" if self.action == Action::Unset => response.accept_ranges = false,
            _ => return false,
        }
        true
    }
}

/// Whether a list of values has this one.
fn lists(list: &[u8], value: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii() == value.trim_ascii())
}
