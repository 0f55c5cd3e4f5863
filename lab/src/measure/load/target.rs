//! Where requests go: the URL, its addresses, and whether they may be loaded.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail, ensure};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};

/// A URL, taken apart. RFC 9110, section 4.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Whether it is `https`.
    pub(super) tls: bool,
    /// The host without brackets.
    pub(super) host: String,
    /// The port.
    pub(super) port: u16,
    /// Host and port as they stand in the URL: the Host field.
    pub(super) authority: String,
    /// Path and query.
    pub(super) path: String,
}

impl Target {
    /// Reads a URL; `http://` may be left out.
    pub(super) fn parse(url: &str) -> Result<Target> {
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => bail!("{scheme}: only http and https are loaded"),
            None => (false, url),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = split_port(authority)?;
        ensure!(!host.is_empty() && !host.contains('@'), "{url}: no host");
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(clean(authority) && clean(path), "{url}: encode what is not printable ASCII");
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Target {
            tls,
            host: host.into(),
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.into(),
            path: format!("{slash}{path}"),
        })
    }

    /// The address that is loaded, of the sixth version of IP if that is wanted. Every address of the name has to
    /// be this machine's own (of the loopback, of an interface, or any), unless the target is the caller's.
    pub(super) fn resolve(&self, six: bool, is_mine: bool) -> Result<SocketAddr> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.with_context(|| format!("{}: no such host", self.host))?.collect();
        let stranger = addresses.iter().find(|address| !is_here(address.ip()));
        if let (Some(stranger), false) = (stranger, is_mine) {
            bail!(
                "{} is {}, which is not this machine: --i-own-this-target loads it nevertheless",
                self.host,
                stranger.ip()
            );
        }
        let wanted = addresses.iter().find(|address| address.is_ipv6() == six);
        let any = wanted.or_else(|| addresses.first().filter(|_| !six));
        any.copied().with_context(|| format!("{}: no address", self.host))
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>)> {
    let bare = |host: &'_ str| host.ends_with(']') || !host.contains(':');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if bare(host) => {
            (host, Some(port.parse().with_context(|| format!("{authority}: no port"))?))
        }
        _ => (authority, None),
    };
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Ok((inside.unwrap_or(host), port))
}

/// Whether packets to an address stay on this machine.
fn is_here(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let of_interface = |interface: InterfaceAddress| {
        let socket = interface.address?;
        let four = socket.as_sockaddr_in().map(|socket| IpAddr::from(socket.ip()));
        four.or_else(|| socket.as_sockaddr_in6().map(|socket| IpAddr::from(socket.ip())))
    };
    let mut own = getifaddrs().into_iter().flatten().filter_map(of_interface);
    address.is_loopback() || address.is_unspecified() || own.any(|own| own == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (bool, String, u16, String, String) {
        let target = Target::parse(url).unwrap();
        (target.tls, target.host, target.port, target.authority, target.path)
    }

    #[test]
    fn urls() {
        let expect = |tls, host: &str, port, authority: &str, path: &str| {
            (tls, host.to_owned(), port, authority.to_owned(), path.to_owned())
        };
        assert_eq!(parts("http://a"), expect(false, "a", 80, "a", "/"));
        assert_eq!(parts("https://a:1/x?y#z"), expect(true, "a", 1, "a:1", "/x?y"));
        assert_eq!(parts("localhost:8080?q"), expect(false, "localhost", 8080, "localhost:8080", "/?q"));
        assert_eq!(parts("http://[::1]:81/"), expect(false, "::1", 81, "[::1]:81", "/"));
        assert_eq!(parts("https://[::1]/"), expect(true, "::1", 443, "[::1]", "/"));
        for wrong in ["ftp://a/", "http:///x", "http://a:x/", "http://a:70000/", "http://a/ b", "http://u@a/"]
        {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_this_machine_is_loaded() {
        let resolve = |url: &str, is_mine| Target::parse(url).unwrap().resolve(false, is_mine);
        for own in ["127.0.0.1:1", "127.3.4.5", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"] {
            assert!(resolve(own, false).is_ok(), "{own}");
        }
        // Which of its addresses another machine would be spoken to from; nothing is sent.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip().to_string();
            assert!(resolve(&own, false).is_ok(), "{own}");
        }
        for other in ["http://192.0.2.1/", "http://[2001:db8::1]/", "http://[::ffff:192.0.2.1]/"] {
            let refusal = resolve(other, false).unwrap_err().to_string();
            assert!(refusal.contains("--i-own-this-target"), "{other}: {refusal}");
        }
        assert_eq!(resolve("http://192.0.2.1:81/", true).unwrap().to_string(), "192.0.2.1:81");
        let six = Target::parse("http://127.0.0.1/").unwrap().resolve(true, false);
        assert!(six.unwrap_err().to_string().contains("no address"));
    }
}
