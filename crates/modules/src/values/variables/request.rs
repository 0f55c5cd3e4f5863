//! What the client sent and what was made of it.

use super::lists::{joined, put, put_number, put_port, put_some, put_thousandths};
use super::user;
use crate::shared::apache::variables as apache;
use crate::shared::{self, files};
use contract::{Exchange, Replaced, RequestBody};
use http::hex;
use journal::Level;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;
use std::time::Duration;
use wire::FileName;

pub(crate) fn http_field(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    joined(&exchange.request.head.fields, name, separator, out)
}

/// Appends the value of an argument of the query; `false` where it has none.
pub(crate) fn argument(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let args = exchange.request.args.as_deref().unwrap_or_default();
    if name.is_empty() {
        return false;
    }
    put_some(args.split(|&byte| byte == b'&').find_map(|pair| value_of(pair, name)), out)
}

/// The value of `name=value`; names know no case.
fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, rest) = pair.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name.as_bytes()).then(|| rest.strip_prefix(b"="))?
}

pub(crate) fn cookie(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let fields = exchange.request.head.fields.all("cookie");
    let mut crumbs = fields.flat_map(|field| field.split(|&byte| byte == b';'));
    put_some(crumbs.find_map(|pair| crumb(pair, name)), out)
}

/// The value of one cookie, with the spaces that may stand around its name taken away.
fn crumb<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, rest) = skip_spaces(pair).split_at_checked(name.len())?;
    let matches = start.eq_ignore_ascii_case(name.as_bytes());
    let value = skip_spaces(rest).strip_prefix(b"=")?;
    matches.then(|| skip_spaces(value))
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

pub(super) fn args(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_some(exchange.request.args.as_deref(), out)
}

pub(super) fn is_args(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let any = exchange.request.args.as_ref().is_some_and(|args| !args.is_empty());
    put(if any { "?" } else { "" }, out)
}

pub(crate) fn request_line(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(exchange.request.head.line(), out)
}

pub(super) fn request_uri(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let uri = &exchange.request.uri;
    put_some((!uri.is_empty()).then_some(uri), out)
}

pub(super) fn request_method(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    // An error page is fetched by GET, and so is what `X-Accel-Redirect` names; a subrequest shows the request
    // around it.
    let is_other = !exchange.subrequest && request.method != request.head.method();
    let other = request.method.name().filter(|_| is_other).map(str::as_bytes);
    let name = other.unwrap_or(request.head.method_name());
    put_some((!name.is_empty()).then_some(name), out)
}

pub(super) fn server_protocol(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let head = &exchange.request.head;
    let is_named = !head.line().is_empty() && head.version != http::Version::Http09;
    put_some(is_named.then(|| head.version.as_str()), out)
}

pub(super) fn host(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(shared::host::host(exchange), out)
}

pub(super) fn request_port(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_port(exchange.request.port, out)
}

pub(super) fn is_request_port(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(if exchange.request.port.is_some() { ":" } else { "" }, out)
}

pub(super) fn content_length(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    // As in Apache a program that makes the document of an error gets a GET without a body.
    if exchange.error_page_used == Replaced::Kept {
        return false;
    }
    if let Some(value) = request.head.fields.get("content-length") {
        return put(value, out);
    }
    let read = request.body.as_ref().filter(|_| request.chunked).map(contract::RequestBody::length);
    put_some(request.content_length.or(read).map(|length| length.to_string()), out)
}

pub(super) fn content_type(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    joined(&exchange.request.head.fields, "content_type", b", ", out)
}

pub(crate) fn remote_user(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    if let Some(user) = apache::user(exchange) {
        return put(&user.name, out);
    }
    let field = user::field(&exchange.request).filter(|_| apache::is_claim_enough(exchange));
    put_some(field.and_then(user::of_basic), out)
}

pub(super) fn request_body(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let body =
        exchange.request.body.as_ref().and_then(contract::RequestBody::bytes).filter(|body| !body.is_empty());
    put_some(body, out)
}

/// The name of the file, or, where it has none, one that leads to what the worker has open.
pub(super) fn request_body_file(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let Some(RequestBody::File { file, .. }) = &exchange.request.body else { return false };
    match exchange.attached::<FileName>() {
        Some(name) => put(name.path().as_os_str().as_bytes(), out),
        None => put(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()), out),
    }
}

pub(super) fn request_length(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_number(exchange.request.length, out)
}

/// 16 random bytes, the same for each use in one exchange.
pub(super) fn request_id(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    let connection = &exchange.connection;
    let identity = (connection.serial, connection.requests.get(), exchange.started().instant);
    let [high, low] = KEYS.each_ref().map(|key| key.hash_one(identity));
    [high, low].iter().for_each(|half| out.extend(hex::pairs(half.to_be_bytes()).as_flattened()));
    true
}

pub(crate) fn request_time(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_seconds(exchange.started().instant.elapsed(), out)
}

/// Appends seconds with three decimals, cut and not rounded, and says that there is a value.
pub(super) fn put_seconds(duration: Duration, out: &mut Vec<u8>) -> bool {
    put_thousandths((duration.as_secs(), duration.subsec_millis()), out)
}

/// A line that names no target has no URI; one of which nothing is left has an empty one.
pub(super) fn uri(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    put_some((!request.path.is_empty() || !request.head.target().is_empty()).then_some(&request.path), out)
}

/// What is written as `root /` ends without its slash as well.
pub(super) fn document_root(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let root = &exchange.scope.policy.root;
    let is_slash = root.alias.is_none() && root.path.constant() == Some(b"/");
    if !is_slash {
        root.write_directory(exchange, out);
    }
    true
}

pub(super) fn realpath_root(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let directory = exchange.scope.policy.root.directory(exchange);
    match std::fs::canonicalize(OsStr::from_bytes(&directory)) {
        Ok(real) => put(real.as_os_str().as_bytes(), out),
        Err(error) => {
            exchange.log(Level::Crit, &files::failed("realpath", &directory, &error));
            false
        }
    }
}

pub(super) fn request_filename(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_some(exchange.path().ok(), out)
}
