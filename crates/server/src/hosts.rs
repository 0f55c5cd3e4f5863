//! From a host name to a virtual server: exact names, wildcards, patterns, the default.

use crate::site::Server;
use crate::structure::ServerName;
use contract::{Exchange, Regex};
use std::collections::HashMap;
use std::sync::Arc;

/// The virtual servers of one address.
pub(crate) struct Hosts {
    default: Arc<Server>,
    exact: HashMap<Box<[u8]>, Arc<Server>>,
    leading: HashMap<Box<[u8]>, Arc<Server>>,
    trailing: HashMap<Box<[u8]>, Arc<Server>>,
    regexes: Vec<(Arc<Regex>, Arc<Server>)>,
}

impl Hosts {
    /// An address with this default server and no names.
    pub(crate) fn new(default: Arc<Server>) -> Hosts {
        Hosts {
            default,
            exact: HashMap::new(),
            leading: HashMap::new(),
            trailing: HashMap::new(),
            regexes: Vec::new(),
        }
    }

    /// The server for requests that no name matches.
    pub(crate) fn default_server(&self) -> &Arc<Server> {
        &self.default
    }

    /// Adds a name of a server; `false` if another server has it already.
    pub(crate) fn add(&mut self, name: &ServerName, server: &Arc<Server>) -> bool {
        match name {
            ServerName::Exact(name) => insert(&mut self.exact, name, server),
            ServerName::Leading(name) => match name.strip_prefix(b".") {
                Some(bare) => insert(&mut self.exact, bare, server) & insert(&mut self.leading, bare, server),
                None => insert(&mut self.leading, name, server),
            },
            ServerName::Trailing(name) => insert(&mut self.trailing, name, server),
            ServerName::Regex(regex) => {
                self.regexes.push((Arc::clone(regex), Arc::clone(server)));
                true
            }
        }
    }

    /// Whether every request gets the default server, whatever its host.
    pub(crate) fn has_one(&self) -> bool {
        self.exact.is_empty()
            && self.leading.is_empty()
            && self.trailing.is_empty()
            && self.regexes.is_empty()
    }

    /// The server for a host name in lower case. The order is nginx's: exact, the longest leading
    /// wildcard, the longest trailing one, the first pattern.
    pub(crate) fn find(&self, host: &[u8]) -> Option<&Arc<Server>> {
        self.exact
            .get(host)
            .or_else(|| suffixes(host).find_map(|suffix| self.leading.get(suffix)))
            .or_else(|| prefixes(host).find_map(|prefix| self.trailing.get(prefix)))
    }

    /// The server by the first pattern that matches; its captures become the exchange's.
    pub(crate) fn find_by_regex(&self, exchange: &Exchange, host: &[u8]) -> Option<&Arc<Server>> {
        self.regexes.iter().find(|(regex, _)| regex.matches(exchange, host)).map(|(_, server)| server)
    }
}

fn insert(names: &mut HashMap<Box<[u8]>, Arc<Server>>, name: &[u8], server: &Arc<Server>) -> bool {
    let holder = names.entry(name.into()).or_insert_with(|| Arc::clone(server));
    Arc::ptr_eq(holder, server)
}

/// What stands behind each dot, the longest first.
fn suffixes(host: &[u8]) -> impl Iterator<Item = &[u8]> {
    let dots = host.iter().enumerate().filter(|&(_, &byte)| byte == b'.');
    dots.map(|(dot, _)| &host[dot + 1..])
}

/// What stands before each dot, the longest first.
fn prefixes(host: &[u8]) -> impl Iterator<Item = &[u8]> {
    let dots = host.iter().enumerate().rev().filter(|&(_, &byte)| byte == b'.');
    dots.map(|(dot, _)| &host[..dot])
}

#[cfg(test)]
mod tests {
    use super::{prefixes, suffixes};

    #[test]
    fn the_longest_part_comes_first() {
        assert_eq!(suffixes(b"a.b.c").collect::<Vec<_>>(), [&b"b.c"[..], b"c"]);
        assert_eq!(prefixes(b"a.b.c").collect::<Vec<_>>(), [&b"a.b"[..], b"a"]);
        assert_eq!(suffixes(b"localhost").count(), 0);
    }
}
