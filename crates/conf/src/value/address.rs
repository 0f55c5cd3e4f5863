//! Addresses: `host:port`, IPv4, IPv6 in brackets, `unix:/path`, a port alone. Host names are not resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ValueError;
use crate::tree::Word;
use http::parse_number;

/// The longest path of a Unix socket: `sockaddr_un` has 108 bytes, and the last one is NUL.
const UNIX_PATH_MAX: usize = 107;

/// The host of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address; `*` and a port alone are `0.0.0.0` in `listen`.
    Ip(IpAddr),
    /// A host name, as written, for the caller to resolve.
    Name(Box<str>),
    /// The path of a Unix socket.
    Unix(Box<[u8]>),
}

/// An address with its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The host.
    pub host: Host,
    /// The port, or the default port; 0 for a Unix socket.
    pub port: u16,
    /// The last port of a range in `listen`; the port itself otherwise.
    pub last_port: u16,
    /// Whether the port was written.
    pub has_port: bool,
}

impl Address {
    /// Whether this is the wildcard address of its family.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host, Host::Ip(ip) if ip.is_unspecified())
    }

    /// The socket addresses of every port of the range; none for names and Unix sockets.
    pub fn socket_addrs(&self) -> impl Iterator<Item = SocketAddr> {
        let ip = if let Host::Ip(ip) = self.host { Some(ip) } else { None };
        let ports = self.port..=self.last_port;
        ip.into_iter().flat_map(move |ip| ports.clone().map(move |port| SocketAddr::new(ip, port)))
    }
}

/// The address of a listener: a port or `*` alone is valid, and ports may be a range such as `8000-8010`.
///
/// # Errors
/// [`ValueError::Address`].
pub fn listen(word: &Word, default_port: u16) -> Result<Address, ValueError> {
    if let Some(path) = strip_unix(&word.text) {
        return unix(path);
    }
    Ok(inet(&word.text, default_port, true)?)
}

/// The address of a peer: a host, with or without a port.
///
/// # Errors
/// [`ValueError::Address`].
pub fn endpoint(word: &Word, default_port: u16) -> Result<Address, ValueError> {
    if let Some(path) = strip_unix(&word.text) {
        return unix(path);
    }
    Ok(inet(&word.text, default_port, false)?)
}

/// The address of a peer and what follows it: `host:port/uri`, `unix:/path:/uri`. The second part is empty
/// if nothing follows. Otherwise it begins with `/` or `?`; after a Unix socket it may begin with any character.
///
/// # Errors
/// [`ValueError::Address`].
pub fn target(text: &[u8], default_port: u16) -> Result<(Address, &[u8]), ValueError> {
    if let Some(rest) = strip_unix(text) {
        let colon = rest.iter().position(|&byte| byte == b':');
        let (path, uri) = colon.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 1..]));
        return Ok((unix(path)?, uri));
    }
    let after_host =
        if text.starts_with(b"[") { text.iter().position(|&b| b == b']').unwrap_or(0) } else { 0 };
    let ends = |byte: &u8| *byte == b'/' || *byte == b'?' && after_host == 0;
    let end = text[after_host..].iter().position(ends).map_or(text.len(), |at| after_host + at);
    let (host, uri) = text.split_at(end);
    Ok((inet(host, default_port, false)?, uri))
}

/// Four decimal numbers. Leading zeros do not make them octal.
pub(super) fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = text.split(|&byte| byte == b'.').map(|part| u8::try_from(parse_number(part)?).ok());
    let address = [octets.next()??, octets.next()??, octets.next()??, octets.next()??];
    octets.next().is_none().then(|| Ipv4Addr::from(address))
}

pub(super) fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

type Reason = &'static str;

impl From<Reason> for ValueError {
    fn from(reason: Reason) -> ValueError {
        ValueError::Address(reason)
    }
}

fn strip_unix(text: &[u8]) -> Option<&[u8]> {
    let (scheme, path) = text.split_at_checked(5)?;
    scheme.eq_ignore_ascii_case(b"unix:").then_some(path)
}

fn unix(path: &[u8]) -> Result<Address, ValueError> {
    match path.len() {
        0 => Err("no path in the unix domain socket".into()),
        len if len > UNIX_PATH_MAX => Err("too long path in the unix domain socket".into()),
        _ => Ok(Address { host: Host::Unix(path.into()), port: 0, last_port: 0, has_port: false }),
    }
}

fn inet(text: &[u8], default_port: u16, listening: bool) -> Result<Address, Reason> {
    let address = |host, ports: Option<(u16, u16)>| {
        let (port, last_port) = ports.unwrap_or((default_port, default_port));
        Address { host, port, last_port, has_port: ports.is_some() }
    };
    if let Some(rest) = text.strip_prefix(b"[") {
        let end = rest.iter().position(|&byte| byte == b']').ok_or("invalid host")?;
        let ports = match &rest[end + 1..] {
            [] => None,
            [b':', port @ ..] => Some(port_range(port, listening)?),
            _ => return Err("invalid host"),
        };
        let host = &rest[..end];
        let missing = if host.is_empty() { "no host" } else { "invalid IPv6 address" };
        return Ok(address(Host::Ip(ipv6(host).ok_or(missing)?.into()), ports));
    }
    if text.iter().any(|byte| matches!(byte, b'/' | b'?')) {
        return Err("invalid host");
    }
    let colon = text.iter().position(|&byte| byte == b':');
    if colon.is_none() && listening && looks_like_port(text) {
        return Ok(address(Host::Ip(Ipv4Addr::UNSPECIFIED.into()), Some(port_range(text, true)?)));
    }
    let (host, ports) = match colon {
        Some(at) => (&text[..at], Some(port_range(&text[at + 1..], listening)?)),
        None => (text, None),
    };
    Ok(address(host_of(host, listening)?, ports))
}

fn host_of(text: &[u8], listening: bool) -> Result<Host, Reason> {
    if text.is_empty() {
        return Err("no host");
    }
    if listening && text == b"*" {
        return Ok(Host::Ip(Ipv4Addr::UNSPECIFIED.into()));
    }
    if let Some(ip) = ipv4(text) {
        return Ok(Host::Ip(ip.into()));
    }
    let name = std::str::from_utf8(text).map_err(|_| "invalid host")?;
    Ok(Host::Name(name.into()))
}

/// Digits, or two runs of digits with a dash. The caller checks the range of the numbers.
fn looks_like_port(text: &[u8]) -> bool {
    let (first, last) = split_dash(text);
    parse_number(first).is_some() && last.is_none_or(|last| parse_number(last).is_some())
}

fn port_range(text: &[u8], listening: bool) -> Result<(u16, u16), Reason> {
    let (first, last) = if listening { split_dash(text) } else { (text, None) };
    let last = last.map(port).transpose()?;
    let first = port(first)?;
    match last {
        Some(last) if last < first => Err("invalid port range"),
        _ => Ok((first, last.unwrap_or(first))),
    }
}

fn port(text: &[u8]) -> Result<u16, Reason> {
    let port = parse_number(text).and_then(|value| u16::try_from(value).ok());
    port.filter(|port| *port > 0).ok_or("invalid port")
}

fn split_dash(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    fn shown(address: Result<Address, ValueError>) -> String {
        match address {
            Err(error) => error.to_string(),
            Ok(Address { host, port, last_port, has_port }) => {
                let host = match host {
                    Host::Ip(ip) => ip.to_string(),
                    Host::Name(name) => format!("name {name}"),
                    Host::Unix(path) => return format!("unix {}", String::from_utf8_lossy(&path)),
                };
                let default = if has_port { "" } else { " by default" };
                format!("{host} {port}-{last_port}{default}")
            }
        }
    }

    #[test]
    fn listeners() {
        for (text, expected) in [
            ("80", "0.0.0.0 80-80"),
            ("*:8080", "0.0.0.0 8080-8080"),
            ("*", "0.0.0.0 80-80 by default"),
            ("127.0.0.1", "127.0.0.1 80-80 by default"),
            ("127.0.0.1:81", "127.0.0.1 81-81"),
            ("[::]:443", ":: 443-443"),
            ("[::1]", "::1 80-80 by default"),
            ("8000-8010", "0.0.0.0 8000-8010"),
            ("127.0.0.1:8000-8001", "127.0.0.1 8000-8001"),
            ("[::1]:5-6", "::1 5-6"),
            ("localhost:80", "name localhost 80-80"),
            ("my-host", "name my-host 80-80 by default"),
            ("unix:/run/x.sock", "unix /run/x.sock"),
            ("UNIX:x", "unix x"),
            ("unix:", "no path in the unix domain socket"),
            ("0", "invalid port"),
            ("65536", "invalid port"),
            ("127.0.0.1:", "invalid port"),
            ("127.0.0.1:http", "invalid port"),
            ("10-9", "invalid port range"),
            ("10-70000", "invalid port"),
            ("[::1", "invalid host"),
            ("[::1]80", "invalid host"),
            ("[]:80", "no host"),
            ("[x]:80", "invalid IPv6 address"),
            (":80", "no host"),
            ("", "no host"),
            ("127.0.0.1:80/x", "invalid host"),
        ] {
            assert_eq!(shown(listen(&word(text), 80)), expected, "{text}");
        }
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_MAX));
        assert_eq!(shown(listen(&word(long), 80)), "too long path in the unix domain socket");
    }

    #[test]
    fn peers_need_a_host_and_have_no_ranges() {
        for (text, expected) in [
            ("80", "name 80 443-443 by default"),
            ("*:80", "name * 80-80"),
            ("backend:80-81", "invalid port"),
            ("010.0.0.1", "10.0.0.1 443-443 by default"),
            ("1.2.3", "name 1.2.3 443-443 by default"),
            ("1..2.3", "name 1..2.3 443-443 by default"),
        ] {
            assert_eq!(shown(endpoint(&word(text), 443)), expected, "{text}");
        }
    }

    #[test]
    fn targets_end_where_their_uri_begins() {
        for (text, expected, uri) in [
            ("127.0.0.1:80/a:b?c", "127.0.0.1 80-80", "/a:b?c"),
            ("host?x=/", "name host 80-80 by default", "?x=/"),
            ("[::1]:80/x", "::1 80-80", "/x"),
            ("unix:/run/s:/uri", "unix /run/s", "/uri"),
            ("unix:/run/s", "unix /run/s", ""),
            ("host", "name host 80-80 by default", ""),
        ] {
            let (address, rest) = target(text.as_bytes(), 80).unwrap();
            assert_eq!((shown(Ok(address)).as_str(), rest), (expected, uri.as_bytes()), "{text}");
        }
        assert_eq!(target(b"host:x/y", 80), Err(ValueError::Address("invalid port")));
        assert_eq!(target(b"[::1", 80), Err(ValueError::Address("invalid host")));
    }

    #[test]
    fn a_range_gives_each_of_its_sockets() {
        let address = listen(&word("127.0.0.1:8000-8002"), 80).unwrap();
        let ports: Vec<u16> = address.socket_addrs().map(|address| address.port()).collect();
        assert_eq!(ports, [8000, 8001, 8002]);
        assert!(!address.is_wildcard());
        assert!(listen(&word("80"), 80).unwrap().is_wildcard());
    }
}
