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
