//! The variables of rewriting and of expressions: `%{NAME}`.

use crate::shared::apache::lookup;
use contract::{Budget, Exchange, Peer, Reach, Replaced, Spent};
use http::Status;
use journal::clock::{self, Time};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// A field of the request that has a variable.
pub(crate) fn field(name: &str) -> Option<&'static str> {
    Some(match name {
        "HTTP_HOST" => "Host",
        "HTTP_USER_AGENT" => "User-Agent",
        "HTTP_REFERER" => "Referer",
        "HTTP_COOKIE" => "Cookie",
        "HTTP_ACCEPT" => "Accept",
        "HTTP_FORWARDED" => "Forwarded",
        "HTTP_PROXY_CONNECTION" => "Proxy-Connection",
        _ => return None,
    })
}

/// The format of a variable that is a moment.
pub(crate) fn time_format(name: &str) -> Option<&'static str> {
    Some(match name {
        "TIME" => "%Y%m%d%H%M%S",
        "TIME_YEAR" => "%Y",
        "TIME_MON" => "%m",
        "TIME_DAY" => "%d",
        "TIME_HOUR" => "%H",
        "TIME_MIN" => "%M",
        "TIME_SEC" => "%S",
        "TIME_WDAY" => "%w",
        _ => return None,
    })
}

/// The local time in a `strftime` format.
pub(crate) fn now(format: &'static str) -> Vec<u8> {
    clock::format(Time::now().seconds, true, format).into_bytes()
}

/// The variable of this name in capital letters.
pub(crate) fn getter(name: &str) -> Option<fn(&Exchange) -> Vec<u8>> {
    Some(match name {
        "REQUEST_URI" | "DOCUMENT_URI" => |exchange| exchange.request.path.clone(),
        "QUERY_STRING" => |exchange| exchange.request.args.clone().unwrap_or_default(),
        "REQUEST_METHOD" => |exchange| method(exchange).to_vec(),
        "THE_REQUEST" => |exchange| exchange.request.head.line().to_vec(),
        "HTTPS" => |exchange| if exchange.connection.secure { b"on".to_vec() } else { b"off".to_vec() },
        "REQUEST_SCHEME" => {
            |exchange| if exchange.connection.secure { b"https".to_vec() } else { b"http".to_vec() }
        }
        "REMOTE_ADDR" | "REMOTE_HOST" | "CONN_REMOTE_ADDR" => {
            |exchange| exchange.connection.peer.address().into_bytes()
        }
        "REMOTE_PORT" => |exchange| port(&exchange.connection.peer),
        "REMOTE_USER" => |exchange| user(exchange).map(|user| user.name.clone()).unwrap_or_default(),
        "AUTH_TYPE" => |exchange| user(exchange).map(|user| user.kind.into()).unwrap_or_default(),
        "REMOTE_IDENT" | "CONTEXT_PREFIX" | "SERVER_ADMIN" | "SCRIPT_USER" | "SCRIPT_GROUP" => |_| Vec::new(),
        "SERVER_SOFTWARE" => |_| server_software(),
        "API_VERSION" => |_| b"20120211:141".to_vec(),
        "IPV6" => {
            |exchange| if is_ipv6(&exchange.connection.peer) { b"on".to_vec() } else { b"off".to_vec() }
        }
        "SERVER_ADDR" => |exchange| exchange.connection.local.address().into_bytes(),
        "SERVER_PORT" => |exchange| port(&exchange.connection.local),
        "SERVER_NAME" => server_name,
        "SERVER_PROTOCOL" => |exchange| protocol(exchange).to_vec(),
        "DOCUMENT_ROOT" | "CONTEXT_DOCUMENT_ROOT" => document_root,
        "IS_SUBREQ" => |exchange| if is_inner(exchange) { b"true".to_vec() } else { b"false".to_vec() },
        _ => return None,
    })
}

/// The variables that programs have, besides the URI and the fields of the request.
pub(crate) const OF_PROGRAMS: [&str; 12] = [
    "DOCUMENT_ROOT",
    "HTTPS",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
];

/// A variable that programs have.
pub(crate) fn of_programs(exchange: &Exchange, name: &[u8]) -> Option<Vec<u8>> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_uppercase();
    match name.as_str() {
        "REQUEST_URI" => Some(exchange.request.uri.clone()),
        // Passwords are not for them, as in Apache.
        "HTTP_AUTHORIZATION" | "HTTP_PROXY_AUTHORIZATION" => None,
        name if OF_PROGRAMS.contains(&name) => {
            let value = getter(name)?(exchange);
            (!value.is_empty() || name == "QUERY_STRING").then_some(value)
        }
        name => request_field(exchange, &name.strip_prefix("HTTP_")?.replace('_', "-")),
    }
}

/// The server as applications know it that write `.htaccess` files: WordPress writes its rules for an Apache.
pub(crate) fn server_software() -> Vec<u8> {
    format!("Apache/{} (Fulmar)", conf::apache::VERSION_TEXT).into_bytes()
}

/// Whether a request is a subrequest in Apache, as the lookup of an index is.
fn is_inner(exchange: &Exchange) -> bool {
    exchange.subrequest || !exchange.wire.answered && lookup::is_lookup(exchange)
}

/// The method of a request. As in Apache subrequests and error documents are fetched.
pub(crate) fn method(exchange: &Exchange) -> &[u8] {
    let is_document = exchange.error.is_some() && exchange.error_page_used == Replaced::Kept;
    if is_document || is_inner(exchange) { b"GET" } else { exchange.request.head.method_name() }
}

/// The protocol of a request; Apache calls that of a subrequest `INCLUDED`.
pub(crate) fn protocol(exchange: &Exchange) -> &[u8] {
    if is_inner(exchange) { b"INCLUDED" } else { exchange.request.head.version.as_str().as_bytes() }
}

/// A user of `.htaccess` files whose password is right.
pub(crate) struct User {
    pub(crate) name: Vec<u8>,
    /// The type of the proof, such as `Basic`.
    pub(crate) kind: &'static str,
}

/// The user of a request, if the rules of the files required one.
pub(crate) fn user(exchange: &Exchange) -> Option<Rc<User>> {
    exchange.attached()
}

/// Kept in scopes with `htaccess on`: as in Apache a request has a user only after a rule has verified the password.
pub(crate) struct OnlyVerifiedUsers;

/// Notes the user whose password `auth_basic` verified, where only that makes a user.
pub(crate) fn note_user(exchange: &Exchange, name: &[u8]) {
    if exchange.scope.kept::<OnlyVerifiedUsers>().is_some() {
        exchange.attach(Reach::Own, Rc::new(User { name: name.to_vec(), kind: "Basic" }));
    }
}

/// Whether the name that a client gives without proof counts as its user. In the log of a refusal it does, as in Apache,
/// unless an error document took the place of the response.
pub(crate) fn is_claim_enough(exchange: &Exchange) -> bool {
    let is_refused = exchange.wire.answered && exchange.response.status == Status::UNAUTHORIZED;
    let is_logged = is_refused && exchange.error_page_used != Replaced::Kept;
    is_logged || exchange.scope.kept::<OnlyVerifiedUsers>().is_none()
}

fn port(peer: &Peer) -> Vec<u8> {
    peer.port().map(|port| port.to_string().into_bytes()).unwrap_or_default()
}

/// The host that was asked for.
fn server_name(exchange: &Exchange) -> Vec<u8> {
    match exchange.request.host.is_empty() {
        true => exchange.server_name().to_vec(),
        false => exchange.request.host.clone(),
    }
}

fn document_root(exchange: &Exchange) -> Vec<u8> {
    let mut root = exchange.scope.policy.root.directory(exchange);
    if root.len() > 1 && root.ends_with(b"/") {
        root.pop();
    }
    root
}

fn is_ipv6(peer: &Peer) -> bool {
    matches!(peer, Peer::Inet(address) if address.is_ipv6())
}

/// Whether a path is that of the root, or below it. Files of a site may not find out what is elsewhere.
pub(crate) fn is_inside(exchange: &Exchange, path: &[u8]) -> bool {
    // The root was compared with the path of the request's own file when that path was made.
    if own_file(exchange, path).is_some() {
        return true;
    }
    let root = document_root(exchange);
    let climbs = path.split(|&byte| byte == b'/').any(|segment| segment == b"..");
    let rest = path.strip_prefix(&root[..]);
    !climbs && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || root.ends_with(b"/"))
}

/// What is at a path, if anything is. The server knows it of the request's own file already; else the budget pays for
/// the call of the file system.
pub(crate) fn metadata(exchange: &Exchange, path: &[u8], budget: &Budget) -> Result<Option<Metadata>, Spent> {
    with_metadata(exchange, path, budget, Metadata::clone)
}

/// As [`metadata`], of which a function takes what it needs.
pub(crate) fn with_metadata<T>(
    exchange: &Exchange,
    path: &[u8],
    budget: &Budget,
    take: impl FnOnce(&Metadata) -> T,
) -> Result<Option<T>, Spent> {
    if let Some(metadata) = own_file(exchange, path) {
        return Ok(metadata.as_ref().map(take));
    }
    budget.step(path.len())?;
    Ok(fs::metadata(OsStr::from_bytes(path)).ok().as_ref().map(take))
}

/// What is at a path, if it is that of the request's own file and that was looked at; `None` in it where there is nothing.
pub(crate) fn own_file<'e>(exchange: &'e Exchange, path: &[u8]) -> Option<&'e Option<Metadata>> {
    let known = exchange.overlaid.as_deref()?;
    let is_own = std::ptr::eq(&*known.path, path) || known.path == path;
    known.metadata.as_ref().filter(|_| is_own)
}

/// The same for what is at the path itself, where that may be a symbolic link.
pub(crate) fn link_metadata(path: &[u8], budget: &Budget) -> Result<Option<Metadata>, Spent> {
    budget.step(path.len())?;
    Ok(fs::symlink_metadata(OsStr::from_bytes(path)).ok())
}

/// Where the file's own path ends; after it the client may have put a path for a program. A file that is not
/// there ends with the first segment that is missing.
pub(crate) fn file_end(exchange: &Exchange, path: &[u8], budget: &Budget) -> Result<usize, Spent> {
    let mut end = path.len();
    if with_metadata(exchange, path, budget, |_| ())?.is_some() {
        return Ok(end);
    }
    loop {
        let parent = path[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        if parent == 0 {
            return Ok(end);
        }
        match with_metadata(exchange, &path[..parent], budget, Metadata::is_dir)? {
            Some(true) => return Ok(end),
            Some(false) => return Ok(parent),
            None => end = parent,
        }
    }
}

/// Whether there is no file at a path, nor one on the way that the rest of the path is meant for.
pub(crate) fn is_missing(exchange: &Exchange, path: &[u8], budget: &Budget) -> Result<bool, Spent> {
    let end = file_end(exchange, path, budget)?;
    Ok(with_metadata(exchange, &path[..end], budget, |_| ())?.is_none())
}

/// A number at the start of a text, or zero. One that is too large is the nearest that is not.
pub(crate) fn number(text: &[u8]) -> i64 {
    let (sign, digits) = match text.trim_ascii_start() {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits
        .fold(0, |number: i64, byte| number.saturating_mul(10).saturating_add(sign * i64::from(byte - b'0')))
}

/// A moment as `%{TIME}` has it.
pub(crate) fn moment(seconds: i64) -> Vec<u8> {
    clock::format(seconds, true, "%Y%m%d%H%M%S").into_bytes()
}

/// The value of a field of the request; values of several fields of the name are joined, as in Apache. The host of a request
/// target that is a URL takes the place of `Host` (RFC 9112, section 3.2.2).
pub(crate) fn request_field(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    if name.eq_ignore_ascii_case("host")
        && let Some(host) = http::uri::authority(exchange.request.head.target())
    {
        return Some(host.to_ascii_lowercase());
    }
    let mut values = exchange.request.head.fields.all(name);
    let mut joined = values.next()?.to_vec();
    for value in values {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// A field of the response, also one that the server keeps apart.
pub(crate) fn response_field(exchange: &Exchange, name: &str) -> Vec<u8> {
    let response = &exchange.response;
    match name.to_ascii_lowercase().as_str() {
        "content-type" => response.content_type.as_deref().unwrap_or_default().to_vec(),
        "etag" => response.etag.as_deref().unwrap_or_default().to_vec(),
        "location" if let Some(location) = &response.location => location.to_vec(),
        "last-modified" => response.last_modified.map(http::format_date).unwrap_or_default().into_bytes(),
        name => response.fields.get(name).unwrap_or_default().to_vec(),
    }
}

/// A text with `%XX` replaced; one that is not so written is empty.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let pair = (*byte == b'%').then(|| tail.get(..2)).flatten();
        match pair {
            Some(pair) => {
                let digits = std::str::from_utf8(pair).ok();
                let Some(value) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
                    return Vec::new();
                };
                out.push(value);
                rest = &tail[2..];
            }
            None => out.push(*byte),
        }
    }
    out
}
