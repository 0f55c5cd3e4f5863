//! From a host name to a virtual server: names, patterns, the default.

use crate::site::Server;
use crate::structure::ServerName;
use contract::{Exchange, HostNames, NameError, Regex};
use std::sync::Arc;

/// The virtual servers of one address.
pub(crate) struct Hosts {
    default: Arc<Server>,
    names: HostNames<Arc<Server>>,
    regexes: Vec<(Arc<Regex>, Arc<Server>)>,
}

impl Hosts {
    /// An address with this default server and no names.
    pub(crate) fn new(default: Arc<Server>) -> Hosts {
        Hosts { default, names: HostNames::default(), regexes: Vec::new() }
    }

    /// The server for requests that no name matches.
    pub(crate) fn default_server(&self) -> &Arc<Server> {
        &self.default
    }

    /// Adds a name of a server; a name that cannot be added is given back.
    pub(crate) fn add<'a>(
        &mut self,
        name: &'a ServerName,
        server: &Arc<Server>,
    ) -> Result<(), (&'a [u8], NameError)> {
        match name {
            ServerName::Text(text) => {
                self.names.insert(text, Arc::clone(server)).map_err(|error| (&**text, error))
            }
            ServerName::Regex(regex) => {
                self.regexes.push((Arc::clone(regex), Arc::clone(server)));
                Ok(())
            }
        }
    }

    /// The server for an exchange by its host, which is in lower case: by a name, else by the first pattern
    /// that matches, whose captures become the exchange's. A server may claim requests that name no host by
    /// an empty name.
    pub(crate) fn find(&self, exchange: &Exchange) -> &Arc<Server> {
        let host = &exchange.request.host;
        let named = if self.names.is_empty() { None } else { self.names.get(host) };
        let matches = |(regex, _): &&(Arc<Regex>, Arc<Server>)| regex.matches(exchange, host);
        let matching = || {
            let patterns = if host.is_empty() { &[] } else { &*self.regexes };
            patterns.iter().find(matches).map(|(_, server)| server)
        };
        named.or_else(matching).unwrap_or(&self.default)
    }
}
