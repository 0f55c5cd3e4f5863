//! Connections to servers over TLS.

use crate::group::Server;
use std::sync::Arc;
use tls::{ClientPolicy, Failure, Session};

/// How the servers of a request are spoken to over TLS. Connections are kept for requests with an equal one only.
#[derive(Clone, Debug)]
pub struct Secured {
    /// The settings of the location.
    pub policy: Arc<ClientPolicy>,
    /// The name that certificates are checked for, and that servers may be told.
    pub name: Arc<str>,
}

impl PartialEq for Secured {
    fn eq(&self, other: &Secured) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy) && self.name == other.name
    }
}

impl Secured {
    /// A session with a server.
    ///
    /// # Errors
    /// No certificate can be for the name.
    pub(crate) fn session(&self, server: &Server) -> Result<Session, Failure> {
        Session::connect(&self.policy, &self.name, &server.name)
    }
}
