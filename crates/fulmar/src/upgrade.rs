//! Upgrades without a gap (USR2): a new program starts on the same sockets, next to this one.

use std::ffi::OsString;
use std::path::Path;

use journal::Level;
use net::process::Pid;
use net::{BoundSocket, DatagramLink, inherited, system_message};

use crate::supervisor::{Supervisor, parent};
use crate::surroundings;
use crate::worker::Stage;

/// Where this supervisor stands among those that share its sockets.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// The command line to start again; none where there is nothing to upgrade.
    arguments: Option<Vec<OsString>>,
    /// The supervisor that started this one as its successor.
    predecessor: Option<Pid>,
    /// The successor that this one started.
    successor: Option<Pid>,
    /// The line to the predecessor's worker, which has sessions of datagrams.
    older: Option<DatagramLink>,
}

impl Upgrade {
    /// No upgrade, or the new side of one, whose old side is the parent of this process.
    pub(crate) fn new(
        arguments: Option<Vec<OsString>>,
        inherited: bool,
        older: Option<DatagramLink>,
    ) -> Upgrade {
        Upgrade { arguments, predecessor: parent().filter(|_| inherited), successor: None, older }
    }

    /// Whether the server is a part of something else (`serve`), which no new binary replaces.
    pub(crate) fn is_embedded(&self) -> bool {
        self.arguments.is_none()
    }

    /// Whether an upgrade can begin: not during one.
    pub(crate) fn is_possible(&self) -> bool {
        self.arguments.is_some() && !self.shares_sockets()
    }

    /// Whether a successor was started.
    pub(crate) fn is_under_way(&self) -> bool {
        self.successor.is_some()
    }

    /// Whether another supervisor has the same sockets.
    pub(crate) fn shares_sockets(&self) -> bool {
        self.successor.is_some() || self.has_predecessor()
    }

    /// Whether the supervisor that this one is to replace is still there.
    pub(crate) fn has_predecessor(&self) -> bool {
        self.predecessor.is_some() && self.predecessor == parent()
    }

    /// The successor, where one was started.
    pub(crate) fn successor(&self) -> Option<Pid> {
        self.successor
    }

    /// The line to the predecessor's worker, as long as the predecessor lives. A worker that replaces a dead one gets it, too.
    fn older_worker(&self) -> Option<DatagramLink> {
        self.older.as_ref().filter(|_| self.has_predecessor())?.try_clone().ok()
    }

    /// Whether this is the successor's process.
    pub(crate) fn is(&self, pid: Pid) -> bool {
        self.successor == Some(pid)
    }
}

impl Supervisor {
    /// The line from a worker that starts now to the one before it, which has the same sockets and may have sessions of
    /// datagrams. Without a line both serve, and sessions may begin anew.
    pub(crate) fn link_to_older_worker(&self) -> Option<DatagramLink> {
        let before = self.workers.iter().rev().find(|worker| worker.stage != Stage::Leaving);
        match before {
            // That worker has the predecessor's line.
            Some(worker) if self.current.sockets.receive_datagrams() => worker.introduce_newer().ok(),
            Some(_) => None,
            None => self.upgrade.older_worker(),
        }
    }

    /// Starts the program anew, from the path that this one was started from.
    pub(crate) fn begin_upgrade(&mut self) {
        self.log(Level::Notice, "changing binary");
        if let Some(Err(problem)) = self.process.pid_file.as_mut().map(crate::pid_file::PidFile::retire) {
            self.log(Level::Alert, &problem);
            return;
        }
        let arguments = self.upgrade.arguments.clone().unwrap_or_default();
        let program = arguments.first().cloned().unwrap_or_default();
        let environment = surroundings::of_successor(&self.current.configuration.process);
        let started = self.current.sockets.duplicates().and_then(|sockets| {
            let sockets: Vec<BoundSocket> = sockets.into_iter().flatten().collect();
            let link = self.link_to_older_worker();
            inherited::execute(Path::new(&program), &arguments, &environment, &sockets, link.as_ref())
        });
        match started {
            Ok(pid) => {
                self.log(Level::Notice, &format!("start new binary process {pid}"));
                self.upgrade.successor = Some(pid);
            }
            Err(error) => {
                let (program, reason) = (program.display(), system_message(&error));
                let message =
                    format!("execve() failed while executing new binary process \"{program}\" ({reason})");
                self.log(Level::Alert, &message);
                self.undo_upgrade();
            }
        }
    }

    /// The successor ended: this supervisor has its name again, and serves again.
    pub(crate) fn undo_upgrade(&mut self) {
        self.upgrade.successor = None;
        if let Some(Err(problem)) = self.process.pid_file.as_mut().map(crate::pid_file::PidFile::restore) {
            self.log(Level::Alert, &problem);
        }
        if std::mem::take(&mut self.resting) {
            self.respawn.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_upgrade_at_a_time() {
        let arguments = || Some(vec![OsString::from("fulmar")]);
        let mut first = Upgrade::new(arguments(), false, None);
        assert!(first.is_possible() && !first.shares_sockets());
        first.successor = Some(Pid::this());
        assert!(!first.is_possible() && first.is_under_way() && first.is(Pid::this()));
        let second = Upgrade::new(arguments(), true, None);
        assert!(!second.is_possible() && second.has_predecessor(), "its predecessor still runs");
        assert!(!Upgrade::new(None, false, None).is_possible());
    }
}
