//! The variables of rewriting: `%{NAME}`.

use super::text::Context;
use crate::shared::apache::environment;
use contract::{Exchange, Peer, Spent};
use journal::clock::{self, Time};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A variable.
#[derive(Clone, Debug)]
pub(super) enum Variable {
    Field(Box<str>),
    Environment(Box<[u8]>),
    Filename,
    PathInfo,
    Get(fn(&Exchange) -> Vec<u8>),
    /// A moment, in a `strftime` format.
    Time(&'static str),
}

impl Variable {
    /// The variable of this name.
    pub(super) fn parse(name: &[u8]) -> Option<Variable> {
        let name = std::str::from_utf8(name).ok()?;
        if let Some(field) = name.strip_prefix("HTTP:") {
            return Some(Variable::Field(field.into()));
        }
        if let Some(name) = name.strip_prefix("ENV:") {
            return Some(Variable::Environment(name.as_bytes().into()));
        }
        Some(match name.to_ascii_uppercase().as_str() {
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Variable::Filename,
            "PATH_INFO" => Variable::PathInfo,
            "HTTP_HOST" => Variable::Field("Host".into()),
            "HTTP_USER_AGENT" => Variable::Field("User-Agent".into()),
            "HTTP_REFERER" => Variable::Field("Referer".into()),
            "HTTP_COOKIE" => Variable::Field("Cookie".into()),
            "HTTP_ACCEPT" => Variable::Field("Accept".into()),
            "HTTP_FORWARDED" => Variable::Field("Forwarded".into()),
            "HTTP_PROXY_CONNECTION" => Variable::Field("Proxy-Connection".into()),
            "TIME" => Variable::Time("%Y%m%d%H%M%S"),
            "TIME_YEAR" => Variable::Time("%Y"),
            "TIME_MON" => Variable::Time("%m"),
            "TIME_DAY" => Variable::Time("%d"),
            "TIME_HOUR" => Variable::Time("%H"),
            "TIME_MIN" => Variable::Time("%M"),
            "TIME_SEC" => Variable::Time("%S"),
            "TIME_WDAY" => Variable::Time("%w"),
            name => Variable::Get(getter(name)?),
        })
    }

    pub(super) fn value(&self, context: &Context<'_>) -> Result<Vec<u8>, Spent> {
        let exchange = context.exchange;
        Ok(match self {
            Variable::Field(name) => exchange.request.head.fields.get(name).unwrap_or_default().to_vec(),
            Variable::Environment(name) => environment::get(exchange, name).unwrap_or_default().into(),
            Variable::Filename if context.is_rewritten => context.filename.to_vec(),
            Variable::Filename => context.filename[..file_end(context)?].to_vec(),
            Variable::PathInfo => context.filename[file_end(context)?..].to_vec(),
            Variable::Get(get) => get(exchange),
            Variable::Time(format) => clock::format(Time::now().seconds, true, format).into_bytes(),
        })
    }
}

fn getter(name: &str) -> Option<fn(&Exchange) -> Vec<u8>> {
    Some(match name {
        "REQUEST_URI" | "DOCUMENT_URI" => |exchange| exchange.request.path.clone(),
        "QUERY_STRING" => |exchange| exchange.request.args.clone().unwrap_or_default(),
        "REQUEST_METHOD" => |exchange| exchange.request.head.method_name().to_vec(),
        "THE_REQUEST" => |exchange| exchange.request.head.line().to_vec(),
        "HTTPS" => |exchange| if exchange.connection.secure { b"on".to_vec() } else { b"off".to_vec() },
        "REQUEST_SCHEME" => {
            |exchange| if exchange.connection.secure { b"https".to_vec() } else { b"http".to_vec() }
        }
        "REMOTE_ADDR" | "REMOTE_HOST" => |exchange| exchange.connection.peer.address().into_bytes(),
        "REMOTE_PORT" => |exchange| port(&exchange.connection.peer),
        "REMOTE_USER" | "REMOTE_IDENT" | "AUTH_TYPE" | "CONTEXT_PREFIX" => |_| Vec::new(),
        "SERVER_ADDR" => |exchange| exchange.connection.local.address().into_bytes(),
        "SERVER_PORT" => |exchange| port(&exchange.connection.local),
        "SERVER_NAME" => server_name,
        "SERVER_PROTOCOL" => |exchange| exchange.request.head.version.as_str().as_bytes().to_vec(),
        "DOCUMENT_ROOT" | "CONTEXT_DOCUMENT_ROOT" => document_root,
        "IS_SUBREQ" => |exchange| if exchange.subrequest { b"true".to_vec() } else { b"false".to_vec() },
        _ => return None,
    })
}

fn port(peer: &Peer) -> Vec<u8> {
    peer.port().map(|port| port.to_string().into_bytes()).unwrap_or_default()
}

/// The host that was asked for.
fn server_name(exchange: &Exchange) -> Vec<u8> {
    match exchange.request.host.is_empty() {
        true => exchange.server_name.to_vec(),
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

/// Where the file's own path ends; behind it the client may have put a path for a program. A file that is not
/// there ends with the first segment that is missing.
fn file_end(context: &Context<'_>) -> Result<usize, Spent> {
    // Each directory costs a call of the file system, and the client chooses how many there are.
    context.budget.timed(|| existing_end(context.filename))
}

fn existing_end(path: &[u8]) -> usize {
    let look = |path: &[u8]| std::fs::metadata(OsStr::from_bytes(path));
    let mut end = path.len();
    if look(path).is_ok() {
        return end;
    }
    loop {
        let parent = path[..end].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        if parent == 0 {
            return end;
        }
        match look(&path[..parent]) {
            Ok(metadata) if metadata.is_dir() => return end,
            Ok(_) => return parent,
            Err(_) => end = parent,
        }
    }
}
