//! Going over to the site that serves now, between two requests.
//!
//! A request is answered by the site under which it began. A connection keeps the address and the encryption under
//! which it was accepted: where these are no more what they were, it ends with its next answer.

use super::{ClientConnection, ip_of};
use crate::thread::Serving;
use site::Server;
use std::rc::Rc;
use std::sync::Arc;

/// Where a connection belongs in another site.
struct Home {
    serving: Rc<Serving>,
    listen: usize,
    named: Option<Arc<Server>>,
}

impl ClientConnection {
    /// Whether the connection ends with its next answer, or soon without one.
    pub(super) fn is_leaving(&self) -> bool {
        self.thread().draining.get() || (!self.serving.is_current() && self.home().is_none())
    }

    /// Goes over to the site that serves now, where the connection belongs to it and is between two requests.
    pub(super) fn adopt_current_site(&mut self) {
        let is_between = self.started.is_none() && self.start.is_none() && !self.awaits_proxy_header;
        if !self.serving.is_current()
            && is_between
            && let Some(home) = self.home()
        {
            (self.serving, self.listen, self.named) = (home.serving, home.listen, home.named);
            // No more than empty lines came, of which it has nothing but the site before.
            self.unread = None;
        }
    }

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
