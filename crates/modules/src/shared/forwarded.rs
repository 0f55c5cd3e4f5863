//! Finds the client's address in headers of trusted proxies.

use super::addresses::{Addresses, Painting};
use contract::{Exchange, Peer};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::str;

/// Peers that are trusted to name their client.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    networks: Addresses<bool>,
    unix: bool,
}

impl Trusted {
    /// Trusts every address of these networks, and clients of Unix sockets or not.
    pub(crate) fn new(networks: impl IntoIterator<Item = IpNet>, unix: bool) -> Trusted {
        let mut painting = Painting::all(false);
        networks.into_iter().for_each(|network| painting.paint(network, true));
        Trusted { networks: painting.finish(), unix }
    }

    /// Whether this peer is trusted.
    pub(crate) fn holds(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Inet(address) => self.networks.get(address.ip()).unwrap_or(false),
            Peer::Unix(_) => self.unix,
        }
    }
}

/// Proxies that are trusted to name their client in `X-Forwarded-For`.
pub(crate) struct Proxies {
    trusted: Trusted,
    /// Whether the client may be named through several of them.
    recursive: bool,
}

impl Proxies {
    pub(crate) fn new(networks: impl IntoIterator<Item = IpNet>, recursive: bool) -> Proxies {
        Proxies { trusted: Trusted::new(networks, false), recursive }
    }

    /// The address of this peer of a request, or of the client that it names. `None` for a Unix socket.
    pub(crate) fn address(&self, exchange: &Exchange, peer: &Peer) -> Option<IpAddr> {
        let fields = exchange.request.head.fields.all("X-Forwarded-For");
        let named = client(peer, fields, &self.trusted, self.recursive);
        address_of(named.as_ref().unwrap_or(peer))
    }
}

/// The address of a peer. `None` for a Unix socket.
pub(crate) fn address_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Inet(address) => Some(address.ip().to_canonical()),
        Peer::Unix(_) => None,
    }
}

/// The client that a trusted peer names: the last address in these headers; with `recursive`, the last address that is not
/// trusted itself. `None` if the peer is not trusted, or names no address.
pub(crate) fn client<'a>(
    peer: &Peer,
    values: impl Iterator<Item = &'a [u8]>,
    trusted: &Trusted,
    recursive: bool,
) -> Option<Peer> {
    let mut found: Option<Peer> = None;
    for value in values.collect::<Vec<_>>().into_iter().rev() {
        let mut rest = value;
        loop {
            if !trusted.holds(found.as_ref().unwrap_or(peer)) {
                return found;
            }
            let (before, name) = last_name(rest);
            let Some(address) = address(name) else { return found };
            found = Some(Peer::Inet(address));
            match before {
                _ if !recursive => return found,
                Some(before) => rest = before,
                None => break,
            }
        }
    }
    found
}

/// The last name of a value, and the text before it, if any.
fn last_name(value: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let is_between = |byte: &u8| matches!(byte, b',' | b' ');
    let end = value.iter().rposition(|byte| !is_between(byte)).map_or(0, |at| at + 1);
    let value = &value[..end];
    match value.iter().rposition(is_between) {
        Some(at) => (Some(&value[..at]), &value[at + 1..]),
        None => (None, value),
    }
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; the port is 0 where there is none.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let without_port = bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)).ok();
    without_port.or_else(|| text.parse().ok().filter(|address: &SocketAddr| address.port() > 0))
}

#[cfg(test)]
mod tests {
    use super::{Trusted, client};
    use contract::Peer;

    fn named(values: &[&str], recursive: bool) -> Option<String> {
        let trusted = Trusted::new(["127.0.0.0/8", "10.0.0.0/8"].map(|net| net.parse().unwrap()), false);
        let peer = Peer::Inet("127.0.0.1:1".parse().unwrap());
        let found = client(&peer, values.iter().map(|value| value.as_bytes()), &trusted, recursive);
        found.map(|peer| match peer {
            Peer::Inet(address) => address.to_string(),
            Peer::Unix(_) => String::new(),
        })
    }

    #[test]
    fn the_last_address_counts() {
        for (value, expected) in [
            ("1.2.3.4, 5.6.7.8", Some("5.6.7.8:0")),
            ("5.6.7.8:99 ,", Some("5.6.7.8:99")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]:80")),
            ("2001:db8::1", Some("[2001:db8::1]:0")),
            ("5.6.7.8:0", None),
            ("unknown", None),
            ("1.2.3.4, unknown", None),
            ("", None),
            (" ,", None),
        ] {
            assert_eq!(named(&[value], false).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn recursive_goes_on_through_proxies() {
        assert_eq!(named(&["9.9.9.9, 1.2.3.4", "10.0.0.1, 10.0.0.2"], true).unwrap(), "1.2.3.4:0");
        assert_eq!(named(&["bad, 10.0.0.1"], true).unwrap(), "10.0.0.1:0");
        assert_eq!(named(&["10.0.0.1", "10.0.0.2"], false).unwrap(), "10.0.0.2:0");
        assert_eq!(named(&["1.2.3.4", "10.0.0.1"], true).unwrap(), "1.2.3.4:0");
        assert_eq!(named(&["1.2.3.4", ",10.0.0.1"], true).unwrap(), "10.0.0.1:0", "no list goes on there");
        assert_eq!(named(&["1.2.3.4", ","], false), None, "the last line counts");
    }

    #[test]
    fn strangers_are_not_believed() {
        let peer = Peer::Inet("192.0.2.1:1".parse().unwrap());
        assert_eq!(client(&peer, [&b"1.2.3.4"[..]].into_iter(), &Trusted::new([], true), true), None);
    }
}
