//! What a configuration serves. A reader, such as that of nginx's language, makes the plan, and one compiler makes a site of it.

use crate::layers::Layers;
use crate::protocols::{Application, Protocols};
use conf::{Diagnostic, Span};
use contract::{LocationName, Regex, SectionId, ServerName};
use http::Method;
use net::{Endpoint, ListenOptions};
use std::collections::HashMap;
use std::sync::Arc;

/// What a configuration serves. Settings stay in the levels of its `Config`, which the plan names by their sections.
#[derive(Default)]
pub struct Plan {
    /// Levels around servers. Their mistakes count even if no server inherits them.
    pub levels: Vec<SectionId>,
    /// The virtual servers.
    pub servers: Vec<ServerPlan>,
    /// The addresses, in the order in which the configuration names them.
    pub listens: Vec<ListenPlan>,
    /// The sections of Apache's main configuration that lie over levels.
    pub layers: HashMap<SectionId, Arc<Layers>>,
    /// Warnings about what was planned.
    pub notes: Vec<Diagnostic>,
}

/// A virtual server.
pub struct ServerPlan {
    /// Its level. Among its settings is how the server encrypts.
    pub section: SectionId,
    /// Where it was written.
    pub span: Span,
    /// All that it is called, `$server_name` first. A server without a name answers requests that name no host.
    pub names: Vec<ServerName>,
    /// How a request finds its scope in the server.
    pub chooser: Chooser,
}

/// How a request finds the scope that answers it, once its server is known.
pub enum Chooser {
    /// A request of HTTP has the scope of the location that its path leads to.
    Locations(Vec<LocationPlan>),
    /// A connection has the scope of the server itself.
    Connection,
}

impl Chooser {
    /// What connections to such a server are for.
    pub fn application(&self) -> Application {
        match self {
            Chooser::Locations(_) => Application::Http,
            Chooser::Connection => Application::Stream,
        }
    }
}

/// A location.
pub struct LocationPlan {
    /// How it is named, and by which kind of name.
    pub name: LocationName,
    /// The pattern of its name, where the name is one.
    pub regex: Option<Regex>,
    /// Its level.
    pub section: SectionId,
    /// Where it was written.
    pub span: Span,
    /// The locations in it.
    pub inner: Vec<LocationPlan>,
    /// The methods that keep its scope, and the level for all others.
    pub limited: Option<(Box<[Method]>, SectionId)>,
}

/// An address, with the servers that answer there.
pub struct ListenPlan {
    /// Where connections come to.
    pub endpoint: Endpoint,
    /// How to bind it; `None` where a wider socket may receive for it.
    pub options: Option<ListenOptions>,
    /// The protocols of its connections.
    pub protocols: Protocols,
    /// The servers, by their places in [`Plan::servers`], each with the place of what puts it here.
    pub servers: Vec<(usize, Span)>,
    /// The place of the server for requests that no name matches.
    pub default: usize,
}

/// The message about an address at which both `http` and `stream` listen.
pub(crate) fn in_both(endpoint: &Endpoint) -> Diagnostic {
    let message = format!("bind() to {endpoint} failed: both \"http\" and \"stream\" listen on this port");
    Diagnostic::emerg(message).hint("give one of them another port")
}
