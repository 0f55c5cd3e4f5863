//! The request as the upstream server sees it.

use super::handler::Proxy;
use super::target::Target;
use super::url::has_escapes;
use crate::shared::cached;
use crate::shared::gateway::{is_idempotent, upload};
use crate::shared::secured::secured;
use ::upstream::{Call, Conversation, Upload};
use bytes::Bytes;
use conf::Diagnostic;
use contract::{Args, Event, Exchange, Loading, Reach, RequestBody, Template, Work};
use http::list::{has_token, tokens};
use http::words::{any_marked, where_blank, where_is};
use http::{Fields, Status, Version, breaks_framing, escape, uri, write_number};
use journal::Level;

use super::dialogue::{Asked, Asks};

/// Fields of the client that concern its own connection, or that the server writes itself
/// (RFC 9110, section 7.6.1).
const OWN: [&str; 10] = [
    "host",
    "connection",
    "proxy-connection",
    "content-length",
    "transfer-encoding",
    "te",
    "keep-alive",
    "expect",
    "upgrade",
    "trailer",
];

/// Whether a request may be a replay, in lower case.
const EARLY_DATA: &[u8] = b"early-data";

/// Fields that `proxy_set_header` cannot set: they follow from the body.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// A field to set.
#[derive(Clone)]
pub struct SetField {
    name: Box<[u8]>,
    value: Template,
}

impl SetField {
    pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<SetField, Diagnostic> {
        let word = args.word(0)?;
        if word.text.is_empty() || !word.text.iter().all(|&byte| byte.is_ascii_graphic() && byte != b':') {
            return Err(args.invalid(word));
        }
        Ok(SetField { name: word.text.clone(), value: loading.template_for_servers(args.word(1)?)? })
    }
}

/// What the configuration says of the fields of a request.
pub(super) struct OwnFields {
    /// What follows the target in the head of each request: the version, and the first fields if their values are known.
    start: Box<[u8]>,
    /// What `Host` is to say, if `start` does not have it.
    host: Option<Template>,
    has_host: bool,
    /// The starts of further lines, with what follows.
    lines: Box<[(Box<[u8]>, Template)]>,
    /// The names that the client has no say in, in lower case.
    names: Box<[Box<[u8]>]>,
    /// A bit for each length that those have.
    lengths: u64,
    /// Whether `TE` is set.
    sets_te: bool,
}

impl OwnFields {
    /// The fields of a request whose response may be kept: it must not depend on the conditions of one client.
    pub(super) fn without_conditions(
        set: &[SetField],
        revalidates: bool,
        to: (Version, Option<&Target>),
    ) -> OwnFields {
        let mut all = set.to_vec();
        for (name, value) in cached::conditions(revalidates) {
            if !set.iter().any(|field| field.name.eq_ignore_ascii_case(name.as_bytes())) {
                all.push(SetField { name: name.as_bytes().into(), value });
            }
        }
        OwnFields::new(&all, to)
    }

    /// Compiles the fields of requests in this version of HTTP, which go to this target if it does not depend on the request.
    pub(super) fn new(set: &[SetField], (version, target): (Version, Option<&Target>)) -> OwnFields {
        let mut names: Vec<Box<[u8]>> = OWN.iter().map(|name| name.as_bytes().into()).collect();
        let (mut host, mut lines) = (None, Vec::new());
        for SetField { name, value } in set {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("host") {
                // A request has one host. As in nginx 1.31.4, the last line counts.
                host = Some(value.clone());
            } else if !FRAMING.iter().any(|framing| is(framing)) && value.constant() != Some(b"") {
                lines.push((Box::<[u8]>::from([name, &b": "[..]].concat()), value.clone()));
            }
            names.push(name.to_ascii_lowercase().into());
        }
        let lengths = names.iter().fold(0, |lengths, name| lengths | length_bit(name));
        let sets_te = names[OWN.len()..].iter().any(|name| **name == *b"te");
        let mut start = [b" ", version.as_str().as_bytes(), b"\r\n"].concat();
        let has_host = match (&host, target) {
            (None, Some(target)) => {
                append_line(&mut start, HOST, |out| out.extend_from_slice(target.host.as_bytes()))
            }
            (Some(host), _) => {
                let text = host.constant().unwrap_or_default();
                append_line(&mut start, HOST, |out| out.extend_from_slice(text))
            }
            (None, None) => false,
        };
        let known = lines.iter().take_while(|(_, value)| has_host && value.constant().is_some()).count();
        for (name, value) in lines.drain(..known) {
            append_line(&mut start, &name, |out| out.extend_from_slice(value.constant().unwrap_or_default()));
        }
        let (start, lines, names) = (start.into(), lines.into(), names.into());
        OwnFields { start, host, has_host, lines, names, lengths, sets_te }
    }

    /// Appends what follows the target: the version, and the lines of all fields whose values are not empty.
    fn write(&self, proxy: &Proxy, exchange: &Exchange, target: &Target, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.start);
        if !self.has_host {
            let has_host =
                self.host.as_ref().map(|host| append_line(head, HOST, |out| host.write(exchange, out)));
            if has_host.is_none_or(|has_host| !has_host && proxy.version != Version::Http10) {
                append_line(head, HOST, |out| out.extend_from_slice(target.host.as_bytes()));
            }
        }
        for (start, value) in &self.lines {
            append_line(head, start, |out| value.write(exchange, out));
        }
        // "An intermediary that forwards a request prior to the completion of the TLS handshake with its client MUST
        // send it with the Early-Data header field set to '1'" (RFC 8470, section 5.2). The client may have set it.
        let is_set = || self.has(EARLY_DATA) || exchange.request.head.fields.get("early-data").is_some();
        if exchange.connection.is_early() && !is_set() {
            head.extend_from_slice(b"Early-Data: 1\r\n");
        }
    }

    /// Whether the client has no say in a field of this name.
    fn has(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0 && self.names.iter().any(|own| is_alike(name, own))
    }
}

const HOST: &[u8] = b"Host: ";

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}

/// Appends a field unless its value is empty, and tells whether it did. The value stays within its line: what a client put
/// into a variable cannot add a field.
fn append_line(head: &mut Vec<u8>, start: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let before = head.len();
    head.extend_from_slice(start);
    let value = head.len();
    write(head);
    if head.len() == value {
        head.truncate(before);
        return false;
    }
    if breaks_framing(&head[value..]) {
        let breaks = head[value..].iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | 0));
        breaks.for_each(|byte| *byte = b' ');
    }
    head.extend_from_slice(b"\r\n");
    true
}

impl Proxy {
    pub(super) fn reads_body(&self) -> bool {
        self.settings.pass_request_body || self.body.is_some()
    }

    /// Whether the body goes on as it comes. One of unknown length needs chunks, or HTTP/2.
    pub(super) fn passes_body_on(&self, exchange: &Exchange) -> bool {
        let can_say_so = !exchange.request.chunked || self.version != Version::Http10;
        !self.settings.buffers.of_request && self.body.is_none() && can_say_so
    }

    pub(super) fn ask_by<D: Asks>(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let target = &self.route.target(exchange)?;
        let mut conversation = Conversation::<D>::new(exchange, &target.group, &self.settings);
        exchange.attach(Reach::Own, conversation.dialogue.asked().passing(target));
        write_uri(self, exchange, target, &mut conversation.call.uri);
        let Conversation { call, dialogue, .. } = &mut *conversation;
        let asked = dialogue.asked();
        prepare(self, exchange, target, (call, asked))?;
        let key = target.group.key(exchange);
        (asked.limit, asked.passes_trailers) = (self.settings.buffers.head, self.passes_trailers);
        asked.is_secure = target.scheme.is_secure();
        (call.scheme, call.is_idempotent, call.tag) =
            (target.scheme.prefix(), is_idempotent(exchange), self.route.tag);
        self.header.append(exchange, &mut call.preface);
        let policy = self.route.policy.as_ref().filter(|_| target.scheme.is_secure());
        call.secured =
            policy.map(|policy| secured(policy, self.server_name.as_ref(), &target.name, exchange));
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("{}{}{}", call.scheme, target.group.name, String::from_utf8_lossy(&call.uri));
            let event = Event::new(self.name, format!("passes the request to {url}"));
            event.with("upstream", url).with("head", &asked.head)
        });
        Ok(conversation.work(key))
    }
}

/// Writes the request.
fn prepare(
    proxy: &Proxy,
    exchange: &Exchange,
    target: &Target,
    (call, asked): (&mut Call, &mut Asked),
) -> Result<(), Status> {
    let head = &mut asked.head;
    write_method(proxy, exchange, head);
    asked.is_head = head == b"HEAD";
    head.push(b' ');
    head.extend_from_slice(&call.uri);
    let start = head.len();
    let own = proxy.own(exchange);
    own.write(proxy, exchange, target, head);
    asked.asks_upgrade = asks_upgrade(exchange, &head[start..]);
    call.upload = body(proxy, exchange)?;
    let length = match &call.upload {
        Upload::Whole(body) => Some(body.length()),
        Upload::Stream => exchange.request.content_length,
        Upload::None => None,
    };
    asked.is_chunked = matches!(call.upload, Upload::Stream) && length.is_none();
    match length {
        Some(length) => {
            head.extend_from_slice(b"Content-Length: ");
            write_number(length, 1, head);
            head.extend_from_slice(b"\r\n");
        }
        None if asked.is_chunked && proxy.version != Version::Http2 => {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n")
        }
        None => {}
    }
    asked.has_body = length.is_none_or(|length| length > 0) && !matches!(call.upload, Upload::None);
    if proxy.passes_te && !own.sets_te && has_token(&exchange.request.head.fields, "te", "trailers") {
        head.extend_from_slice(b"TE: trailers\r\n");
    }
    if proxy.settings.pass_request_headers {
        write_client_fields(exchange, own, head);
    }
    head.extend_from_slice(b"\r\n");
    Ok(())
}

fn write_method(proxy: &Proxy, exchange: &Exchange, out: &mut Vec<u8>) {
    let head = &exchange.request.head;
    let own = proxy.method.as_ref().map(|method| method.evaluate(exchange));
    let is_token = |method: &Vec<u8>| !method.is_empty() && method.iter().all(u8::is_ascii_graphic);
    out.extend_from_slice(match (own.as_ref().filter(|method| is_token(method)), exchange.request.method) {
        _ if cached::asks_for_content(exchange) => b"GET",
        (Some(own), _) => own,
        (None, method) if method == head.method() => head.method_name(),
        (None, method) => method.name().unwrap_or("GET").as_bytes(),
    });
}

/// Whether the client asks for another protocol, and these lines pass that on.
fn asks_upgrade(exchange: &Exchange, lines: &[u8]) -> bool {
    let head = &exchange.request.head;
    // In HTTP/2 only a request for a WebSocket has the field.
    if !matches!(head.version, Version::Http11 | Version::Http2) || head.fields.get("upgrade").is_none() {
        return false;
    }
    let mut fields = Fields::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(colon) = line.iter().position(|&byte| byte == b':') {
            // A name that cannot be sent was refused when the configuration was read.
            let _ = fields.push(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
    fields.get("upgrade").is_some() && has_token(&fields, "connection", "upgrade")
}

/// Appends what the client says, without what concerns its own connection, and without what only a server may say.
fn write_client_fields(exchange: &Exchange, own: &OwnFields, head: &mut Vec<u8>) {
    let all = &exchange.request.head.fields;
    let has_list = all.get("connection").is_some();
    for field in all.iter() {
        let is_accel = field.name.get(..8).is_some_and(|start| is_alike(start, b"x-accel-"));
        let is_listed =
            || has_list && tokens(all, "connection").any(|name| field.name.eq_ignore_ascii_case(name));
        if !is_accel && !own.has(field.name) && !is_listed() {
            head.extend_from_slice(field.line);
        }
    }
}

/// Whether a client's name is, or is to many applications, this one in lower case: they read `X_Id` as `X-Id`.
fn is_alike(name: &[u8], own: &[u8]) -> bool {
    let is_same = |(byte, own): (&u8, &u8)| byte.eq_ignore_ascii_case(own) || (*byte, *own) == (b'_', b'-');
    name.len() == own.len() && name.iter().zip(own).all(is_same)
}

fn body(proxy: &Proxy, exchange: &Exchange) -> Result<Upload, Status> {
    let in_memory = |bytes: Bytes| Upload::Whole(RequestBody::Memory(bytes));
    if let Some(body) = &proxy.body {
        return Ok(in_memory(body.evaluate(exchange).into()));
    }
    let request = &exchange.request;
    let is_announced = request.content_length.is_some() || request.chunked;
    // A subrequest with another method does not send the body of the main request.
    let is_part = exchange.subrequest && request.method != request.head.method();
    let is_passed = proxy.settings.pass_request_body && !is_part;
    if !is_announced || !is_passed {
        return Ok(Upload::None);
    }
    let upload = match upload(exchange)? {
        Upload::None => in_memory(Bytes::new()),
        upload => upload,
    };
    let needs_chunks = matches!(upload, Upload::Stream) && request.chunked;
    if needs_chunks && proxy.version == Version::Http10 {
        exchange.log(Level::Error, "a body of unknown length cannot be passed on over HTTP/1.0");
        return Err(Status::BAD_GATEWAY);
    }
    Ok(upload)
}

/// Appends the target of the request line.
pub(super) fn write_uri(proxy: &Proxy, exchange: &Exchange, target: &Target, out: &mut Vec<u8>) {
    let start = out.len();
    match (target.uri.is_empty(), proxy.route.pass.is_dynamic()) {
        (false, true) => out.extend_from_slice(&target.uri),
        (true, _) if is_as_sent(exchange) => out.extend_from_slice(&exchange.request.uri),
        _ => write_replaced(proxy, exchange, target, out),
    }
    if any_marked(&out[start..], |word| where_blank(word) | where_is(word, 0x7f) | where_is(word, b'#')) {
        let uri = out.split_off(start);
        escape::breaks(&uri, out);
    }
    if !matches!(&out[start..], [b'/', ..] | b"*") {
        out.insert(start, b'/');
    }
}

/// Appends the URI with the location's prefix replaced by the one of `proxy_pass`.
fn write_replaced(proxy: &Proxy, exchange: &Exchange, target: &Target, uri: &mut Vec<u8>) {
    let request = &exchange.request;
    let replaces = exchange.routing.valid_location && !target.uri.is_empty();
    let skipped = if replaces { proxy.route.location.len().min(request.path.len()) } else { 0 };
    if exchange.routing.valid_location {
        uri.extend_from_slice(&target.uri);
    }
    let rest = &request.path[skipped..];
    if exchange.routing.internal || has_escapes(request) {
        escape::path(rest, uri);
    } else {
        uri.extend_from_slice(rest);
    }
    if let Some(args) = request.args.as_ref().filter(|args| !args.is_empty()) {
        uri.push(b'?');
        uri.extend_from_slice(args);
    }
}

/// Whether the URI is still the one that the client sent.
fn is_as_sent(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    // `set $args` changes only the query.
    let has_own_query = || {
        let mut parts = request.uri.splitn(2, |&byte| byte == b'?').skip(1);
        request.args.as_deref().is_none_or(|args| parts.next() == Some(args))
    };
    if exchange.routing.valid_location && !exchange.routing.internal && has_own_query() {
        return !request.uri.is_empty();
    }
    let mut sent = uri::Target::default();
    let merge = exchange.scope.policy.head.merge_slashes;
    let parsed = uri::parse_target(request.head.target(), merge, &mut sent);
    let args = request.args.as_deref().unwrap_or_default();
    parsed.is_ok() && !request.uri.is_empty() && sent.path == request.path && sent.args == args
}
