//! Who may see and change the state of the server: clients on this machine that asked for a host of this machine.

use super::Audience;
use crate::connection::real_ip;
use contract::{Exchange, Peer, SERVER_NAME, ServerName, View};
use http::Status;
use journal::Level;
use std::net::IpAddr;

/// The check of a location.
pub(crate) struct Guard {
    directive: &'static str,
    audience: Audience,
    /// The names of the server.
    names: Vec<Vec<u8>>,
}

impl Guard {
    /// The check of the location with this directive.
    pub(crate) fn new(view: &View<'_>, directive: &'static str, audience: Audience) -> Guard {
        let written = view.all(&SERVER_NAME);
        let names = written.iter().flat_map(|names| names.value).map(ServerName::shown).collect();
        Guard { directive, audience, names }
    }

    /// Refuses clients that may not use the location.
    ///
    /// # Errors
    /// The status of the response.
    pub(crate) fn check(&self, exchange: &Exchange) -> Result<(), Status> {
        let directive = self.directive;
        let text = match self.audience {
            Audience::Local if !is_from_here(exchange) => {
                format!("\"{directive}\" is for clients on this machine")
            }
            Audience::Local if !self.has_host(&exchange.request.host) => {
                let host = String::from_utf8_lossy(&exchange.request.host);
                format!(
                    "\"{directive}\" rejects the host \"{host}\": add it to \"server_name\" if it is yours"
                )
            }
            _ => return Ok(()),
        };
        exchange.log(Level::Error, &text);
        Err(Status::FORBIDDEN)
    }

    /// Whether a host can only be this machine. A page of another site can let its own name stand for 127.0.0.1 (DNS
    /// rebinding), and its scripts can then read the response. A name without a dot belongs to no other site.
    fn has_host(&self, host: &[u8]) -> bool {
        let text = str::from_utf8(host).unwrap_or_default();
        let is_address = text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_named = |name: &Vec<u8>| match name.strip_prefix(b"*") {
            Some(end) => !end.is_empty() && host.ends_with(end),
            None => name == host,
        };
        is_address
            || !host.contains(&b'.')
            || host.ends_with(b".localhost")
            || self.names.iter().any(is_named)
    }
}

/// Whether the peer is on this machine, and asks for itself.
fn is_from_here(exchange: &Exchange) -> bool {
    let fields = &exchange.request.head.fields;
    let is_passed_on =
        ["Forwarded", "X-Forwarded-For", "X-Real-IP"].iter().any(|name| fields.get(name).is_some());
    !is_passed_on && is_local(&exchange.connection.peer) && is_local(&real_ip::peer(exchange))
}

fn is_local(peer: &Peer) -> bool {
    match peer {
        Peer::Inet(address) => address.ip().to_canonical().is_loopback(),
        Peer::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Audience, Guard};

    #[test]
    fn hosts_of_other_sites_are_rejected() {
        let names = ["status.example.com", "*.lan.example", "_"].map(|name| name.as_bytes().to_vec());
        let guard = Guard { directive: "x", audience: Audience::Local, names: names.into() };
        for (host, is_own) in [
            ("", true),
            ("localhost", true),
            ("a.localhost", true),
            ("web1", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("status.example.com", true),
            ("a.lan.example", true),
            ("rebound.example", false),
            ("127.0.0.1.example", false),
            ("xlan.example", false),
        ] {
            assert_eq!(guard.has_host(host.as_bytes()), is_own, "{host}");
        }
    }
}
