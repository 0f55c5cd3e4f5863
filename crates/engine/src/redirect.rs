//! The server's own redirections, made absolute as the settings say.

use contract::{Exchange, Peer, Step};
use http::{Status, escape};

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
        url.extend_from_slice(exchange.server_name());
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

/// Redirects a request for a location's prefix without its last slash.
pub(crate) fn to_slash(exchange: &mut Exchange, prefix: &[u8]) -> Step {
    let mut target = Vec::new();
    escape::path(prefix, &mut target);
    if let Some(args) = exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    exchange.response.location = Some(target.into());
    Step::Finish(Status::MOVED_PERMANENTLY)
}

fn local_host(local: &Peer) -> String {
    match local {
        Peer::Inet(address) if address.is_ipv6() => format!("[{}]", address.ip()),
        other => other.address(),
    }
}

#[cfg(test)]
mod tests {
    use super::complete;
    use contract::Policy;
    use site::testing::exchange_at;

    fn url(local: &str, host: &str, change: fn(&mut Policy)) -> String {
        let mut exchange = exchange_at(local, "/", host, change);
        exchange.serve_as(&b"named"[..].into());
        let url = complete(&exchange, b"/x?y").unwrap_or_else(|| Box::from(&b"as it is"[..]));
        String::from_utf8(url.into()).unwrap()
    }

    #[test]
    fn host_and_port_as_the_settings_say() {
        assert_eq!(url("127.0.0.1:80", "asked", |_| {}), "http://asked/x?y");
        assert_eq!(url("127.0.0.1:8080", "asked", |_| {}), "http://asked:8080/x?y");
        assert_eq!(url("127.0.0.1:8080", "", |_| {}), "http://127.0.0.1:8080/x?y");
        assert_eq!(url("[::1]:8080", "", |_| {}), "http://[::1]:8080/x?y");
        assert_eq!(url("unix", "asked", |_| {}), "http://asked/x?y");
        let no_port = |policy: &mut Policy| policy.redirects.port_in_redirect = false;
        assert_eq!(url("127.0.0.1:8080", "asked", no_port), "http://asked/x?y");
        let named = |policy: &mut Policy| policy.redirects.server_name_in_redirect = true;
        assert_eq!(url("127.0.0.1:8080", "asked", named), "http://named:8080/x?y");
        let relative = |policy: &mut Policy| policy.redirects.absolute_redirect = false;
        assert_eq!(url("127.0.0.1:8080", "asked", relative), "as it is");
    }

    #[test]
    fn what_is_no_path_is_sent_as_it_is() {
        let exchange = exchange_at("127.0.0.1:8080", "/", "asked", |_| {});
        assert_eq!(complete(&exchange, b"https://elsewhere/"), None);
        assert_eq!(complete(&exchange, b""), None);
    }
}
