//! Answers with values from memcached: `memcached_pass`.
//!
//! The content is the value that memcached has for the key in `$memcached_key`, which you set with `set`. Fulmar
//! escapes spaces, control characters and `%` in the key as in URLs. The media type follows from the URI's extension,
//! as for files. If memcached does not have the key, the client gets 404; `error_page` can pass such a request to an
//! application. With `memcached_next_upstream not_found` the next server of the group is tried first.
//!
//! With `memcached_gzip_flag`, a value whose flags have one of these bits is sent with `Content-Encoding: gzip`.
//! `keepalive` of an `upstream` keeps connections. Methods other than GET and HEAD get 405.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         set $memcached_key "$uri?$args";
//!         memcached_pass 127.0.0.1:9;
//!         error_page 404 502 504 = @application;
//!     }
//!     location @application {
//!         return 200 "made for $uri\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! made for /page
//! ```

use crate::gateway::shared::cgi::target::{self, Pass, Scheme, Target};
use crate::shared::gateway::{Gateway, Protocol, redirect_to_slash};
use ::upstream::{Conversation, Decoded, Dialogue, Failure, Failures, Names, Options, Remarks, Settings};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Event, Exchange, Loading, Module, Rule, ScopeBuilder, Template, View, Work};
use http::{Fields, Method, Status};
use journal::Level;
use std::sync::Arc;
use wire::Buffer;

/// Responses out of memcached.
pub static MODULE: Module = Module {
    name: "memcached",
    directives: &[
        &MEMCACHED_PASS,
        &MEMCACHED_GZIP_FLAG,
        &MEMCACHED_NEXT_UPSTREAM,
        &OPTIONS.next_upstream_tries,
        &OPTIONS.next_upstream_timeout,
        &OPTIONS.connect_timeout,
        &OPTIONS.send_timeout,
        &OPTIONS.read_timeout,
        &OPTIONS.buffer_size,
        &OPTIONS.bind,
        &OPTIONS.socket_keepalive,
    ],
    variables: &[],
    compile: Some(compile),
};

static NAMES: Names = Names::new("memcached_");
static OPTIONS: Options = Options::new(&NAMES);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `memcached_pass ADDRESS`
pub static MEMCACHED_PASS: Directive<(Pass, Template)> = Directive::new("memcached_pass", parse_pass)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF))
    .rule(Rule::Unnamed)
    .help("The memcached server: an address, `unix:PATH`, or the name of an `upstream`.");

/// `memcached_gzip_flag NUMBER`
pub static MEMCACHED_GZIP_FLAG: Directive<u64> = Directive::number("memcached_gzip_flag")
    .within(LEVELS)
    .help("The bits of a value's flags that say that it is compressed by gzip.");

/// `memcached_next_upstream FAILURE …`
pub static MEMCACHED_NEXT_UPSTREAM: Directive<Failures> = Directive::new("memcached_next_upstream", |args, loading| Failures::parse(args, loading, &FAILURES))
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("error timeout")
    .help("After which failures the next server is tried: `error`, `timeout`, `invalid_response`, `not_found`, `off`.");

static SCHEMES: [Scheme; 1] = [Scheme { prefix: "memcached://", is_written: false, is_secure: false }];

const FAILURES: [(&str, Failures); 5] = [
    ("error", Failures::ERROR),
    ("timeout", Failures::TIMEOUT),
    ("invalid_response", Failures::INVALID_HEADER),
    ("not_found", Failures::NOT_FOUND),
    ("off", Failures::OFF),
];

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<(Pass, Template), Diagnostic> {
    if args.word(0)?.text.contains(&b'$') {
        return Err(args.error("takes no variables: name an \"upstream\""));
    }
    let key = loading.template(&Word { text: b"$memcached_key"[..].into(), ..*args.word(0)? })?;
    Ok((target::parse(args, loading, &SCHEMES)?, key))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let Some(written) = view.written(&MEMCACHED_PASS) else { return Ok(()) };
    let (pass, key) = written.value;
    let mut settings = Settings::streaming(view, &OPTIONS);
    settings.pass_request_body = false;
    // A value has its length, so that a part of it can be sent.
    settings.force_ranges = true;
    settings.next_upstream.failures =
        Failures::chosen(&view.all(&MEMCACHED_NEXT_UPSTREAM)).unwrap_or(settings.next_upstream.failures);
    let target = pass.target(view).map_err(|error| error.at(written.span))?;
    redirect_to_slash(builder);
    let location = builder.name.as_ref().map_or(&b""[..], |name| &name.text);
    let tag = super::upstream::tag(view, location, pass.text());
    let gzip_flag = view.get(&MEMCACHED_GZIP_FLAG).copied().unwrap_or(0);
    let memcached = Memcached { target, key: key.clone(), gzip_flag, settings: Arc::new(settings), tag };
    builder.content(view.place(&MEMCACHED_PASS), Gateway(memcached));
    Ok(())
}

/// Asks memcached.
struct Memcached {
    target: Target,
    key: Template,
    gzip_flag: u64,
    settings: Arc<Settings>,
    tag: usize,
}

impl Protocol for Memcached {
    type Dialogue = Value;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn takes(&self, method: Method) -> bool {
        matches!(method, Method::Get | Method::Head)
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let key = escaped(&self.key.evaluate(exchange));
        if key.is_empty() {
            exchange.log(Level::Error, "the \"$memcached_key\" variable is not set");
            return Err(Status::INTERNAL_SERVER_ERROR);
        }
        let place = self.target.place(exchange)?;
        let mut conversation = Conversation::<Value>::new(exchange, &place.group, &self.settings);
        let Conversation { call, dialogue, .. } = &mut *conversation;
        (dialogue.limit, dialogue.gzip_flag) = (self.settings.buffers.head, self.gzip_flag);
        dialogue.key = key;
        (call.scheme, call.is_idempotent, call.tag) = (place.scheme.prefix, true, self.tag);
        let chosen_by = place.group.key(exchange);
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("{}{}", place.scheme.prefix, place.group.name);
            Event::new("memcached", format!("asks {url}")).with("upstream", url).with("key", &dialogue.key)
        });
        Ok(conversation.work(chosen_by))
    }

    fn head(dialogue: &mut Value) -> (Status, &mut Fields) {
        (dialogue.status, &mut dialogue.fields)
    }

    fn reason(_: &Value) -> &[u8] {
        b""
    }

    fn restore(dialogue: &mut Value, head: &cache::Head) {
        (dialogue.status, dialogue.length) = (head.status, head.length);
    }

    fn replaced(dialogue: &Value) -> Option<Status> {
        Some(dialogue.status).filter(|&status| status == Status::NOT_FOUND)
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Value, fields: &Fields) {
        let media_type = exchange.media_type(&exchange.request.path);
        let response = &mut exchange.response;
        (response.status, response.content_length) = (dialogue.status, Some(dialogue.length));
        response.content_type = Some(media_type);
        for field in fields.iter() {
            // The only field is made here.
            let _ = response.fields.push(field.name, field.value);
        }
    }

    fn has_content(&self, exchange: &Exchange, _: &Value) -> Result<(), Option<usize>> {
        if exchange.is_head() { Err(None) } else { Ok(()) }
    }
}

/// A key as it is sent: spaces, control characters and `%` are escaped.
fn escaped(key: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(key.len());
    for &byte in key {
        match byte {
            ..=b' ' | b'%' => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// What follows a value.
const END: &[u8] = b"\r\nEND\r\n";

/// A request for a value, and the value.
struct Value {
    key: Vec<u8>,
    /// How long the line in front of a value may be, in bytes.
    limit: usize,
    gzip_flag: u64,
    status: Status,
    fields: Fields,
    /// How long the value is, in bytes.
    length: u64,
    /// How much of it was not read yet.
    rest: u64,
    /// Whether all was read that belongs to the answer.
    is_over: bool,
}

impl Default for Value {
    fn default() -> Value {
        Value {
            key: Vec::new(),
            limit: 0,
            gzip_flag: 0,
            status: Status::OK,
            fields: Fields::new(),
            length: 0,
            rest: 0,
            is_over: false,
        }
    }
}

const READING: &str = "while reading response header from upstream";

impl Value {
    /// Reads the line in front of a value.
    fn read_line(&mut self, line: &[u8], remarks: &Remarks<'_>) -> Result<Status, Failure> {
        let shown = |line: &[u8]| line.escape_ascii().to_string();
        let invalid = |what: &str| {
            let (line, key) = (shown(line), shown(&self.key));
            Failure::invalid(format!(
                "memcached sent invalid {what} in response \"{line}\" for key \"{key}\" {READING}"
            ))
        };
        let unreadable =
            || Failure::invalid(format!("memcached sent invalid response: \"{}\" {READING}", shown(line)));
        if line == b"END" {
            remarks.write(Level::Info, &format!("key: \"{}\" was not found by memcached", shown(&self.key)));
            self.is_over = true;
            return Ok(Status::NOT_FOUND);
        }
        let rest = line.strip_prefix(b"VALUE ").ok_or_else(unreadable)?;
        let rest = rest.strip_prefix(&*self.key).ok_or_else(|| invalid("key"))?;
        let rest = rest.strip_prefix(b" ").ok_or_else(unreadable)?;
        let space = rest.iter().position(|&byte| byte == b' ').ok_or_else(unreadable)?;
        let (flags, length) = (number(&rest[..space]), number(&rest[space + 1..]));
        let length = length.ok_or_else(|| invalid("length"))?;
        if self.gzip_flag != 0 && flags.ok_or_else(|| invalid("flags"))? & self.gzip_flag != 0 {
            // This field is always valid.
            let _ = self.fields.push(b"Content-Encoding", b"gzip");
        }
        (self.length, self.rest) = (length, length);
        Ok(Status::OK)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|&number| number <= i64::MAX as u64)
}

impl Dialogue for Value {
    fn clear(&mut self) {
        *self = Value::default();
    }

    fn memory(&self) -> usize {
        self.key.capacity()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        (self.length, self.rest, self.is_over) = (0, 0, false);
        self.fields.clear();
        out.extend_from_slice(b"get ");
        out.extend_from_slice(&self.key);
        out.extend_from_slice(b"\r\n");
    }

    fn append_piece(&mut self, _: &[u8], _: &mut Vec<u8>) {}

    fn append_end(&mut self, _: &mut Vec<u8>) {}

    fn read_head(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        let Some(end) = input.bytes().iter().take(self.limit).position(|&byte| byte == b'\n') else {
            let is_long = input.bytes().len() >= self.limit;
            return match is_long {
                true => Err(Failure::invalid(format!("upstream sent too big header {READING}"))),
                false => Ok(None),
            };
        };
        let line = input.bytes()[..end].to_vec();
        let status = match line.strip_suffix(b"\r") {
            Some(line) => self.read_line(line, remarks)?,
            None => {
                let shown = line.escape_ascii();
                return Err(Failure::invalid(format!(
                    "memcached sent invalid response: \"{shown}\" {READING}"
                )));
            }
        };
        input.consume(end + 1);
        self.status = status;
        Ok(Some(status))
    }

    fn read_content(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Decoded, String> {
        if self.is_over {
            return Ok(Decoded::End);
        }
        if self.rest > 0 {
            let there = input.bytes().len();
            let count = usize::try_from(self.rest).map_or(there, |rest| rest.min(there));
            if count == 0 {
                return Ok(Decoded::More);
            }
            let data = Bytes::copy_from_slice(&input.bytes()[..count]);
            input.consume(count);
            self.rest -= count as u64;
            return Ok(Decoded::Data(data));
        }
        let bytes = input.bytes();
        let count = bytes.len().min(END.len());
        if bytes[..count] != END[..count] {
            // The value is whole; nothing more is read from this connection.
            remarks.write(Level::Error, "memcached sent invalid trailer");
            return Ok(Decoded::End);
        }
        if count < END.len() {
            return Ok(Decoded::More);
        }
        input.consume(count);
        self.is_over = true;
        Ok(Decoded::End)
    }

    fn ends_with_connection(&self) -> bool {
        false
    }

    fn is_whole(&self) -> bool {
        self.rest == 0
    }

    fn keeps_connection(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::{escaped, number};
    use crate::testing::Site;

    #[test]
    fn keys_are_escaped() {
        assert_eq!(escaped(b"/a b%\r\n"), b"/a%20b%25%0D%0A");
        assert_eq!(escaped("/\u{e4}".as_bytes()), "/\u{e4}".as_bytes());
    }

    #[test]
    fn lengths_are_digits() {
        for (text, expected) in
            [("0", Some(0)), ("12", Some(12)), ("", None), ("1 2", None), ("+1", None), ("-1", None)]
        {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn wrong_values_are_found() {
        let error = Site::error("memcached_pass $host:1;");
        assert_eq!(error, "\"memcached_pass\" directive takes no variables: name an \"upstream\"");
        let error = Site::error("memcached_next_upstream http_500;");
        assert_eq!(error, "invalid value \"http_500\"");
    }
}
