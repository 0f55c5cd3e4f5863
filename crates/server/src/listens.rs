//! `listen`: addresses and their options, and which servers answer on which address.

use conf::catalogue::judge_parameter;
use conf::value::{self, Host};
use conf::{Diagnostic, Level, Span, Word};
use contract::{Args, Loading};
use net::{KeepAlive, ListenOptions, SocketAddress};
use std::net::ToSocketAddrs;

/// One `listen`.
#[derive(Clone, Debug)]
pub(crate) struct ListenSpec {
    /// The addresses: several for a range of ports or a name with several addresses.
    pub(crate) addresses: Vec<SocketAddress>,
    /// Socket options, where any was given.
    pub(crate) options: Option<ListenOptions>,
    /// Whether the server is the default one of the address.
    pub(crate) default_server: bool,
    /// Whether connections begin with a handshake.
    pub(crate) ssl: bool,
    /// Where it was written.
    pub(crate) span: Span,
}

impl ListenSpec {
    /// What a server without `listen` answers on: port 80, or 8000 where that is out of reach.
    pub(crate) fn fallback(span: Span) -> ListenSpec {
        let port = if net::identity::is_superuser() { 80 } else { 8000 };
        let address = std::net::SocketAddr::from(([0, 0, 0, 0], port));
        ListenSpec {
            addresses: vec![SocketAddress::Inet(address)],
            options: None,
            default_server: false,
            ssl: false,
            span,
        }
    }
}

pub(crate) fn parse_listen(args: &Args<'_>, loading: &mut Loading) -> Result<ListenSpec, Diagnostic> {
    let word = args.word(0)?;
    let addresses = addresses(args, word)?;
    let mut options = ListenOptions::default();
    let (mut default_server, mut ssl, mut has_options) = (false, false, false);
    for word in args.words().iter().skip(1) {
        match parameter(&word.text) {
            (b"default_server" | b"default", None) => default_server = true,
            (b"ssl", None) => ssl = true,
            (b"bind", None) => has_options = true,
            (name, value) => {
                has_options |= socket_option(&mut options, name, value, (args, word), loading)?;
            }
        }
    }
    let options = has_options.then_some(options);
    Ok(ListenSpec { addresses, options, default_server, ssl, span: args.node.span })
}

fn parameter(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&text[..equals], Some(&text[equals + 1..])),
        None => (text, None),
    }
}

fn addresses(args: &Args<'_>, word: &Word) -> Result<Vec<SocketAddress>, Diagnostic> {
    let address = args.value(0, |word| value::listen(word, 80))?;
    match &address.host {
        Host::Ip(_) => Ok(address.socket_addrs().map(SocketAddress::Inet).collect()),
        Host::Unix(path) => {
            use std::os::unix::ffi::OsStrExt;
            let path = std::ffi::OsStr::from_bytes(path);
            Ok(vec![SocketAddress::Unix(path.into())])
        }
        Host::Name(name) => {
            let resolve = |port| (&**name, port).to_socket_addrs();
            let found: Result<Vec<_>, _> = (address.port..=address.last_port).map(resolve).collect();
            let not_found = |_| {
                let message = format!("host not found in \"{word}\" of the \"listen\" directive");
                Diagnostic::emerg(message).at(args.node.span).under(word.span)
            };
            Ok(found.map_err(not_found)?.into_iter().flatten().map(SocketAddress::Inet).collect())
        }
    }
}

/// Reads one parameter; tells whether it sets an option of the socket.
fn socket_option(
    options: &mut ListenOptions,
    name: &[u8],
    value: Option<&[u8]>,
    (args, word): (&Args<'_>, &Word),
    loading: &mut Loading,
) -> Result<bool, Diagnostic> {
    let invalid = || args.invalid(word);
    let value_word = |value: &[u8]| Word { text: value.into(), quoted: false, span: word.span };
    let number = |value: &[u8]| {
        let number = value::number(&value_word(value)).map_err(|_| invalid())?;
        i32::try_from(number).map_err(|_| invalid())
    };
    let size = |value: &[u8]| {
        let size = value::size(&value_word(value)).map_err(|_| invalid())?;
        usize::try_from(size).map_err(|_| invalid())
    };
    match (name, value) {
        (b"backlog", Some(value)) => {
            options.backlog = number(value)?;
            if options.backlog == 0 {
                return Err(invalid());
            }
        }
        (b"fastopen", Some(value)) => options.fastopen = Some(number(value)?),
        (b"rcvbuf", Some(value)) => options.rcvbuf = Some(size(value)?),
        (b"sndbuf", Some(value)) => options.sndbuf = Some(size(value)?),
        (b"reuseport", None) => options.reuseport = true,
        (b"deferred", None) => options.deferred = true,
        (b"ipv6only", Some(value)) => {
            options.ipv6only = value::flag(&value_word(value)).map_err(|_| invalid())?;
        }
        (b"so_keepalive", Some(value)) => options.keepalive = Some(keepalive(value).ok_or_else(invalid)?),
        _ => match judge_parameter("listen", word) {
            Some(told) if told.level == Level::Emerg => return Err(told.at(args.node.span).under(word.span)),
            Some(told) => {
                loading.note(told.at(args.node.span).under(word.span));
                return Ok(false);
            }
            None => return Err(invalid()),
        },
    }
    Ok(true)
}

/// `on`, `off`, or `idle:interval:count` with one or two of them left out.
fn keepalive(value: &[u8]) -> Option<KeepAlive> {
    let text = std::str::from_utf8(value).ok()?;
    match text {
        "on" => return Some(KeepAlive::On { idle: None, interval: None, count: None }),
        "off" => return Some(KeepAlive::Off),
        _ => {}
    }
    let parts: Vec<&str> = text.split(':').collect();
    let [idle, interval, count] = parts.as_slice() else { return None };
    if text == "::" {
        return None;
    }
    let seconds = |part: &str| -> Option<Option<std::time::Duration>> {
        if part.is_empty() {
            return Some(None);
        }
        let span = Span { file: conf::FileId(0), start: 0, end: 0, line: 0 };
        let seconds = value::time_s(&Word::new(part, span)).ok()?;
        Some(Some(std::time::Duration::from_secs(seconds)))
    };
    let count = if count.is_empty() { None } else { Some(count.parse().ok()?) };
    Some(KeepAlive::On { idle: seconds(idle)?, interval: seconds(interval)?, count })
}
