//! A virtual server.

use crate::encryption::Encryption;
use crate::locations::{Location, Locations};
use conf::Span;
use contract::{Scope, ServerName};
use std::collections::HashMap;
use std::sync::Arc;

/// A virtual server, compiled.
pub struct Server {
    /// Its first name (`$server_name`).
    pub name: Arc<[u8]>,
    /// All that it is called.
    pub names: Box<[ServerName]>,
    /// What it does with clients that begin a handshake.
    pub encryption: Encryption,
    /// Where it was written.
    pub span: Span,
    /// What holds in it.
    pub scope: Arc<Scope>,
    /// Whether anything in it opens tunnels, so that CONNECT is a method that it knows.
    pub opens_tunnels: bool,
    /// Its locations; none in `stream`.
    pub locations: Locations,
    /// Its locations whose names begin with `@`.
    pub named: HashMap<Box<[u8]>, Arc<Location>>,
}

impl Server {
    /// The server and the location in it with this scope, as an end of a line of the error log.
    pub(crate) fn place_of(&self, is_it: &dyn Fn(&Arc<Scope>) -> bool) -> Option<String> {
        let named = || self.named.values().find_map(|location| location.with_scope(is_it));
        let location = self.locations.with_scope(is_it).or_else(named);
        let server = format!(", server: {}", String::from_utf8_lossy(&self.name));
        match location {
            Some(location) => {
                let name = String::from_utf8_lossy(&location.name.text);
                Some(format!("{server}, location: \"{name}\""))
            }
            None => is_it(&self.scope).then_some(server),
        }
    }
}
