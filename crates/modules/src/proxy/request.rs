//! The request as the other server sees it.

use super::Proxy;
use super::talk::Prepared;
use super::target::Target;
use crate::shared::answers::upload;
use ::upstream::Upload;
use bytes::Bytes;
use contract::log::Level;
use contract::{Exchange, RequestBody};
use h1::{has_token, tokens};
use http::{Fields, Status, Version, escape};

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

/// Fields that `proxy_set_header` cannot set: they follow from the body.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Writes the request.
pub(super) fn prepare(
    proxy: &Proxy,
    exchange: &Exchange,
    target: &Target,
    uri: &[u8],
) -> Result<Prepared, Status> {
    let method = method(proxy, exchange);
    let mut fields = Fields::new();
    let own = own_fields(proxy, exchange, target, &mut fields);
    let upload = body(proxy, exchange)?;
    let mut head = Vec::with_capacity(512);
    for part in [&method[..], b" ", uri, b" ", proxy.version.as_str().as_bytes(), b"\r\n"] {
        head.extend_from_slice(part);
    }
    write(&mut head, &fields);
    let length = match &upload {
        Some(Upload::Whole(body)) => Some(body.length()),
        Some(Upload::Stream(_)) => exchange.request.content_length,
        None => None,
    };
    let is_chunked = upload.is_some() && length.is_none();
    match length {
        Some(length) => head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes()),
        None if is_chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        None => {}
    }
    if proxy.settings.pass_request_headers {
        write(&mut head, &client_fields(exchange, &own));
    }
    head.extend_from_slice(b"\r\n");
    let client_asks = exchange.request.head.version == Version::Http11
        && exchange.request.head.fields.get("upgrade").is_some();
    let asks_upgrade =
        client_asks && fields.get("upgrade").is_some() && has_token(&fields, "connection", "upgrade");
    Ok(Prepared { head, upload, is_chunked, is_head: method == b"HEAD", asks_upgrade })
}

fn method(proxy: &Proxy, exchange: &Exchange) -> Vec<u8> {
    let head = &exchange.request.head;
    let own = proxy.method.as_ref().map(|method| method.evaluate(exchange));
    let is_token = |method: &Vec<u8>| !method.is_empty() && method.iter().all(u8::is_ascii_graphic);
    own.filter(is_token).unwrap_or_else(|| match exchange.request.method {
        method if method == head.method() => head.method_name().to_vec(),
        method => method.name().unwrap_or("GET").as_bytes().to_vec(),
    })
}

/// Sets what the configuration says, and gives the names that the client has no say in.
fn own_fields(proxy: &Proxy, exchange: &Exchange, target: &Target, fields: &mut Fields) -> Vec<Box<[u8]>> {
    let mut own: Vec<Box<[u8]>> = OWN.iter().map(|name| name.as_bytes().into()).collect();
    let host = proxy.fields.iter().find(|set| set.name.eq_ignore_ascii_case(b"host"));
    let host = host.map(|set| one_line(set.value.evaluate(exchange)));
    let host = match host {
        Some(host) if !host.is_empty() || proxy.version == Version::Http10 => host,
        _ => target.host.as_bytes().to_vec(),
    };
    let mut push = |name: &[u8], value: &[u8]| {
        if !value.is_empty() {
            // A name that cannot be sent was refused when the configuration was read.
            let _ = fields.push(name, value);
        }
    };
    push(b"Host", &host);
    for set in proxy.fields.iter() {
        let name = set.name.to_ascii_lowercase();
        let is_ours = name == b"host" || FRAMING.iter().any(|framing| framing.as_bytes() == name);
        if !is_ours {
            push(&set.name, &one_line(set.value.evaluate(exchange)));
        }
        own.push(name.into());
    }
    own
}

/// What the client says, without what concerns its own connection, and without what only a server may say.
fn client_fields(exchange: &Exchange, own: &[Box<[u8]>]) -> Fields {
    let all = &exchange.request.head.fields;
    let listed: Vec<&[u8]> = tokens(all, "connection").collect();
    let mut passed = Fields::new();
    for field in all.iter() {
        let is_listed = listed.iter().any(|name| field.name.eq_ignore_ascii_case(name));
        let is_own = own.iter().any(|name| is_alike(field.name, name));
        let is_accel = field.name.get(..8).is_some_and(|start| is_alike(start, b"x-accel-"));
        if !is_accel && !is_own && !is_listed {
            let _ = passed.push(field.name, field.value);
        }
    }
    passed
}

/// Whether a client's name is, or is to many applications, this one in lower case: they read `X_Id` as `X-Id`.
fn is_alike(name: &[u8], own: &[u8]) -> bool {
    let is_same = |(byte, own): (&u8, &u8)| byte.eq_ignore_ascii_case(own) || (*byte, *own) == (b'_', b'-');
    name.len() == own.len() && name.iter().zip(own).all(is_same)
}

fn write(head: &mut Vec<u8>, fields: &Fields) {
    for field in fields.iter() {
        for part in [field.name, b": ", field.value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

fn body(proxy: &Proxy, exchange: &Exchange) -> Result<Option<Upload>, Status> {
    let in_memory = |bytes: Bytes| Upload::Whole(RequestBody::Memory(bytes));
    if let Some(body) = &proxy.body {
        return Ok(Some(in_memory(body.evaluate(exchange).into())));
    }
    let request = &exchange.request;
    let is_announced = request.content_length.is_some() || request.chunked;
    // Whoever asks for a part of an answer does not send what the whole was asked with.
    let is_part = exchange.subrequest && request.method != request.head.method();
    let is_passed = proxy.settings.pass_request_body && !is_part;
    if !is_announced || !is_passed {
        return Ok(None);
    }
    let upload = upload(exchange)?.unwrap_or_else(|| in_memory(Bytes::new()));
    let needs_chunks = matches!(upload, Upload::Stream(_)) && request.chunked;
    if needs_chunks && proxy.version == Version::Http10 {
        exchange.log(Level::Error, "a body of unknown length cannot be passed on over HTTP/1.0");
        return Err(Status::BAD_GATEWAY);
    }
    Ok(Some(upload))
}

/// A value that stays within its line: what a client put into a variable cannot add a field.
fn one_line(mut value: Vec<u8>) -> Vec<u8> {
    for byte in &mut value {
        if matches!(byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
    value
}

/// The target of the request line.
pub(super) fn uri(proxy: &Proxy, exchange: &Exchange, target: &Target) -> Vec<u8> {
    let request = &exchange.request;
    let uri = match (target.uri.is_empty(), proxy.pass.is_dynamic()) {
        (false, true) => target.uri.clone(),
        (true, _) if is_as_sent(exchange) => request.uri.to_vec(),
        _ => replaced(proxy, exchange, target),
    };
    let uri = if uri.starts_with(b"/") || uri == b"*" { uri } else { [b"/", &uri[..]].concat() };
    escape_breaks(uri)
}

/// The URI with the location's prefix replaced by the one of `proxy_pass`.
fn replaced(proxy: &Proxy, exchange: &Exchange, target: &Target) -> Vec<u8> {
    let request = &exchange.request;
    let replaces = exchange.valid_location && !target.uri.is_empty();
    let skipped = if replaces { proxy.location.len().min(request.path.len()) } else { 0 };
    let mut uri = if exchange.valid_location { target.uri.clone() } else { Vec::new() };
    let rest = &request.path[skipped..];
    // Where the client escaped nothing of the path, its own spelling is kept.
    let mut sent = request.uri.split(|&byte| byte == b'?');
    if exchange.internal || sent.next().is_some_and(|path| path.contains(&b'%')) {
        escape::path(rest, &mut uri);
    } else {
        uri.extend_from_slice(rest);
    }
    if let Some(args) = request.args.as_ref().filter(|args| !args.is_empty()) {
        uri.push(b'?');
        uri.extend_from_slice(args);
    }
    uri
}

/// Whether the URI is still the one that the client sent.
fn is_as_sent(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    if exchange.valid_location && !exchange.internal {
        return !request.uri.is_empty();
    }
    let mut sent = h1::Target::default();
    let merge = exchange.scope.policy.head.merge_slashes;
    let parsed = h1::parse_target(request.head.target(), merge, &mut sent);
    let args = request.args.as_deref().unwrap_or_default();
    parsed.is_ok() && !request.uri.is_empty() && sent.path == request.path && sent.args == args
}

/// No space and no control stands in a request line as itself.
fn escape_breaks(uri: Vec<u8>) -> Vec<u8> {
    if !uri.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        return uri;
    }
    let mut escaped = Vec::with_capacity(uri.len() + 16);
    for byte in uri {
        if byte <= b' ' || byte == 0x7f {
            escape::path(&[byte], &mut escaped);
        } else {
            escaped.push(byte);
        }
    }
    escaped
}
