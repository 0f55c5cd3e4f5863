//! The server's own redirections, made absolute as the settings say.

use contract::{Exchange, Peer};

/// The target of a redirection as it is sent: a path becomes an absolute URL, unless
/// `absolute_redirect` is off.
pub(crate) fn complete(exchange: &Exchange, location: &[u8]) -> Option<Box<[u8]>> {
    let policy = &exchange.scope.policy.redirects;
    if !location.starts_with(b"/") || !policy.absolute_redirect {
        return None;
    }
    let scheme: &[u8] = if exchange.connection.secure { b"https://" } else { b"http://" };
    let mut url = scheme.to_vec();
    if policy.server_name_in_redirect {
        url.extend_from_slice(&exchange.server_name);
    } else if exchange.request.host.is_empty() {
        url.extend_from_slice(local_host(&exchange.connection.local).as_bytes());
    } else {
        url.extend_from_slice(&exchange.request.host);
    }
    let standard = if exchange.connection.secure { 443 } else { 80 };
    let port = exchange.connection.local.port().filter(|&port| port != standard && port != 0);
    if let Some(port) = port.filter(|_| policy.port_in_redirect) {
        url.extend_from_slice(format!(":{port}").as_bytes());
    }
    url.extend_from_slice(location);
    Some(url.into())
}

fn local_host(local: &Peer) -> String {
    match local {
        Peer::Inet(address) if address.is_ipv6() => format!("[{}]", address.ip()),
        other => other.address(),
    }
}
