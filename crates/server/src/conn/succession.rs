//! Moves a kept connection to the current configuration after a reload, between two requests.
//!
//! A [`site::Site`] is a loaded configuration. A request is answered by the configuration under which it began. If the
//! new configuration no longer listens on the connection's address, or encrypts it differently, the connection closes
//! after its next response.

use super::{ClientConnection, ip_of};
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

impl ClientConnection {
    /// Whether the connection closes after the next response, or soon if it is idle.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.thread().draining.get() || (!self.serving.is_current() && self.home().is_none())
    }

    /// Moves the connection to the current configuration, if it belongs there and is between two requests.
    #[inline]
    pub(super) fn adopt_current_site(&mut self) {
        let is_between = self.started.is_none() && self.start.is_none() && !self.awaits_proxy_header;
        if !self.serving.is_current()
            && is_between
            && let Some(home) = self.home()
        {
            (self.serving, self.listen, self.named) = (home.serving, home.listen, home.named);
            // Since the last response only empty lines arrived. A request that was begun for them only refers to the
            // previous configuration, so nothing is lost with it.
            self.unread = None;
        }
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
