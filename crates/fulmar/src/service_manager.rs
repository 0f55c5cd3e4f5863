//! Messages to the service manager, and what it keeps: see sd_notify(3) and sd_listen_fds(3).
//!
//! Listening sockets are handed over for safekeeping, so that clients wait in their queues while a supervisor that
//! died or restarted comes back. None of this can make a server fail: a message that does not arrive is lost.

use net::Endpoint;
use net::inherited::KEPT;
use net::notify::{Notifier, monotonic_us};
use net::process::Pid;

use crate::sockets::Sockets;
use crate::supervisor::Supervisor;

/// The longest name of a descriptor in bytes.
const NAME_MAX: usize = 255;

/// What the service manager believes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    Ready,
    Reloading,
    Stopping,
}

/// The service manager that started this server, if one did.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    notifier: Option<Notifier>,
    said: Said,
    /// The program before this one is still the service: what others say is not heard.
    unheard: bool,
    /// Why the last reload came to nothing.
    refusal: Option<String>,
    /// The endpoints whose sockets it keeps, and how many of each.
    kept: Vec<(Endpoint, usize)>,
}

impl ServiceManager {
    /// The service manager that the environment names; a message for the log if the name is invalid.
    ///
    /// Sends nothing while there is a predecessor.
    pub(crate) fn from_environment(has_predecessor: bool) -> (ServiceManager, Option<String>) {
        let unheard = has_predecessor;
        match Notifier::from_environment() {
            Ok(notifier) => (ServiceManager { notifier, unheard, ..ServiceManager::default() }, None),
            Err(error) => {
                let reason = net::system_message(&error);
                let variable = net::notify::VARIABLE;
                let text = format!("the service manager cannot be reached: {variable} ({reason})");
                (ServiceManager::default(), Some(text))
            }
        }
    }

    /// A reload begins, at the time that is sent with it (`Type=notify-reload` waits for the end of one that began
    /// after it asked).
    pub(crate) fn reloading(&mut self) {
        self.said = Said::Reloading;
        self.refusal = None;
        let now = monotonic_us().unwrap_or_default();
        self.tell(&["RELOADING=1", &format!("MONOTONIC_USEC={now}"), "STATUS=reading the configuration"]);
    }

    /// The reload that began comes to nothing, for this reason.
    pub(crate) fn refused(&mut self, reason: &str) {
        self.refusal = reason.lines().next().map(str::to_owned);
    }

    /// It has these sockets since before this program began, but for those that it lent.
    pub(crate) fn keeps(&mut self, sockets: &Sockets) {
        self.kept = counted(sockets);
    }

    /// The program before this one ended: this one is the service.
    fn succeed(&mut self) {
        self.unheard = false;
        self.said = Said::Nothing;
    }

    /// What a server says that serves the configuration of this number.
    pub(crate) fn state(&self, generation: u32) -> String {
        match &self.refusal {
            Some(reason) => {
                format!("serving configuration {generation}; the last one was refused: {reason}")
            }
            None => format!("serving configuration {generation}"),
        }
    }

    /// A worker accepts, and no reload is under way.
    fn ready(&mut self, generation: u32, sockets: &Sockets) {
        if self.said == Said::Ready {
            return;
        }
        self.said = Said::Ready;
        let status = format!("STATUS={}", self.state(generation));
        self.keep(sockets);
        self.tell(&["READY=1", &status]);
    }

    /// No requests are taken any more; or another supervisor takes them, which is the service from now on.
    fn stopping(&mut self, successor: Option<Pid>) {
        if self.said == Said::Stopping {
            return;
        }
        self.said = Said::Stopping;
        if let Some(pid) = successor {
            self.tell(&[&format!("MAINPID={pid}"), "STATUS=serving"]);
            return;
        }
        // Their paths are removed, so that no client could reach the kept sockets.
        self.kept
            .iter()
            .filter(|(endpoint, _)| endpoint.address.is_unix())
            .for_each(|(endpoint, _)| self.forget(endpoint));
        self.tell(&["STOPPING=1", "STATUS=answering the last requests"]);
    }

    /// Has these sockets kept, and no others.
    fn keep(&mut self, sockets: &Sockets) {
        let Some(notifier) = &self.notifier else { return };
        let wanted = counted(sockets);
        for ((endpoint, descriptors), want) in sockets.own().iter().zip(&wanted) {
            if !self.kept.contains(want) {
                drop(notifier.store(&name(endpoint), descriptors));
            }
        }
        let is_wanted = |endpoint: &Endpoint| wanted.iter().any(|(known, _)| known == endpoint);
        self.kept.iter().filter(|(kept, _)| !is_wanted(kept)).for_each(|(gone, _)| self.forget(gone));
        self.kept = wanted;
    }

    /// Drops the sockets of an endpoint that is no longer in the configuration.
    fn forget(&self, endpoint: &Endpoint) {
        if let Some(notifier) = &self.notifier {
            drop(notifier.remove(&name(endpoint)));
        }
    }

    fn tell(&self, lines: &[&str]) {
        if let Some(notifier) = self.notifier.as_ref().filter(|_| !self.unheard) {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            drop(notifier.tell(&lines));
        }
    }
}

impl Supervisor {
    /// Tells the service manager what changed since the last message.
    pub(crate) fn tell_service_manager(&mut self) {
        if self.process.service_manager.unheard {
            if self.upgrade.has_predecessor() {
                return;
            }
            self.process.service_manager.succeed();
        }
        if self.stop.is_some() {
            self.process.service_manager.stopping(self.upgrade.successor());
        } else if self.reload.is_none() && self.served {
            self.process.service_manager.ready(self.current.number, &self.current.sockets);
        }
    }
}

/// The endpoints of a server's own sockets, and how many there are of each.
fn counted(sockets: &Sockets) -> Vec<(Endpoint, usize)> {
    sockets.own().into_iter().map(|(endpoint, all)| (endpoint.clone(), all.len())).collect()
}

/// The name of the sockets of an endpoint: visible ASCII without colons, cut to what is allowed.
fn name(endpoint: &Endpoint) -> String {
    let allowed = |c: char| if c.is_ascii_graphic() && c != ':' { c } else { '_' };
    let text = endpoint.to_string();
    KEPT.chars().chain(text.chars().map(allowed)).take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use net::SocketAddress;

    use super::*;

    #[test]
    fn names_are_what_is_allowed() {
        let inet = |text: &str| Endpoint::stream(SocketAddress::Inet(text.parse().unwrap()));
        assert_eq!(name(&inet("0.0.0.0:80")), "fulmar-0.0.0.0_80");
        assert_eq!(name(&inet("[::]:80")), "fulmar-[__]_80");
        let datagrams = Endpoint { transport: net::SocketType::Datagram, ..inet("0.0.0.0:80") };
        assert_eq!(name(&datagrams), "fulmar-0.0.0.0_80_(udp)");
        let path = Endpoint::stream(SocketAddress::Unix("/run/ä b".into()));
        assert_eq!(name(&path), "fulmar-unix_/run/__b");
    }
}
