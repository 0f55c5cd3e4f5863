//! TLS to the servers of a request, for all protocols that have it.

use conf::Diagnostic;
use contract::{Exchange, Template, View};
use std::sync::{Arc, OnceLock};
use upstream::{ClientTls, Secured, TlsOptions};

/// The TLS policy that all scopes of one directive share. The first scope makes it, and reads the files. Later scopes may
/// be compiled in a worker, which cannot read root's keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedPolicy(Arc<OnceLock<Arc<ClientTls>>>);

impl SharedPolicy {
    /// The shared policy. The first call makes it from the options of its scope, and from the protocols that servers are
    /// offered (ALPN). Later calls get the same policy, whatever their arguments are.
    pub(crate) fn of(
        &self,
        view: &View<'_>,
        options: &TlsOptions,
        protocols: &[&[u8]],
    ) -> Result<Arc<ClientTls>, Diagnostic> {
        if let Some(policy) = self.0.get() {
            return Ok(Arc::clone(policy));
        }
        let policy = options.policy(view, protocols)?;
        Ok(Arc::clone(self.0.get_or_init(|| policy)))
    }
}

/// How the servers of one request are spoken to over TLS: with this name, or else with that of the host.
pub(crate) fn secured(
    tls: &ClientTls,
    name: Option<&Template>,
    host: &Arc<str>,
    exchange: &Exchange,
) -> Secured {
    let name = match name {
        Some(name) => without_port(&String::from_utf8_lossy(&name.evaluate(exchange))).into(),
        None => Arc::clone(host),
    };
    Secured::new(tls, name, exchange)
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
