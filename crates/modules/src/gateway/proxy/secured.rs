//! TLS to the servers of a request.

use super::Proxy;
use super::target::{Scheme, Target};
use ::upstream::Secured;
use contract::Exchange;
use std::sync::Arc;

impl Proxy {
    /// How the servers are spoken to over TLS, if they are.
    pub(super) fn secured(&self, exchange: &Exchange, target: &Target) -> Option<Secured> {
        let policy = self.policy.as_ref().filter(|_| target.scheme == Scheme::Https)?;
        let name = match &self.server_name {
            Some(name) => {
                let name = name.evaluate(exchange);
                without_port(&String::from_utf8_lossy(&name)).into()
            }
            None => Arc::clone(&target.name),
        };
        Some(Secured { policy: Arc::clone(policy), name })
    }
}

/// A host without the port that may follow it.
fn without_port(host: &str) -> &str {
    let end = host.starts_with('[').then(|| host.find(']')).flatten().unwrap_or(0);
    let colon = host[end..].find(':').map_or(host.len(), |colon| end + colon);
    &host[..colon]
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn ports_are_removed() {
        for (host, name) in
            [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("[::1", "["), ("", "")]
        {
            assert_eq!(without_port(host), name, "{host}");
        }
    }
}
