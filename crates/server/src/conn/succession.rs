//! Moves a kept connection to the current configuration after a reload, between two requests.
//!
//! A [`site::Site`] is a loaded configuration. A request is answered by the configuration under which it began. If the
//! new configuration no longer listens on the connection's address, or encrypts it differently, the connection closes
//! after its next response.

use super::client::{Client, ip_of};
use crate::thread::Serving;
use site::Server;
use std::rc::Rc;
use std::sync::Arc;

/// Where a connection belongs in the current configuration.
struct Home {
    serving: Rc<Serving>,
    listen: usize,
    named: Option<Arc<Server>>,
}

impl Client {
    /// Whether the connection closes after the next response, or soon if it is idle.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.thread().draining.get() || (!self.serving.is_current() && self.home().is_none())
    }

    /// Moves the connection, which is between two requests, to the current configuration if it belongs there. Returns
    /// whether it moved.
    #[inline]
    pub(super) fn adopt_current_site(&mut self) -> bool {
        if self.serving.is_current() {
            return false;
        }
        let Some(home) = self.home() else { return false };
        (self.serving, self.listen, self.named) = (home.serving, home.listen, home.named);
        true
    }

    #[cold]
    fn home(&self) -> Option<Home> {
        let serving = self.thread().serving();
        if serving.drains() {
            return None;
        }
        let listen = serving.site.find(self.place(), self.listen)?;
        let hosts = serving.site.listens[listen].hosts(ip_of(&self.info.local));
        let name = self.info.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        let named = name.and_then(|name| hosts.find_name(name.as_bytes())).map(Arc::clone);
        let is_same = self.hosts().speaks_as(self.named.as_ref(), (hosts, named.as_ref()));
        is_same.then_some(Home { serving, listen, named })
    }
}
