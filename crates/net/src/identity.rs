//! Whom the worker runs as.

use std::ffi::{CString, NulError};
use std::io;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, geteuid, initgroups, setgid, setuid};

use crate::errno::system_message;

/// A user and a group of the system, looked up before the worker starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: CString,
    uid: Uid,
    gid: Gid,
}

/// A user or group that does not exist, or whose rights could not be taken on. The text is the log's.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No such entry: `getpwnam("web") failed`.
    #[error("{call}(\"{name}\") failed")]
    Unknown {
        /// `getpwnam` or `getgrnam`.
        call: &'static str,
        /// The name that was looked up.
        name: String,
    },
    /// The system failed: `setuid(33) failed (1: Operation not permitted)`.
    #[error("{call}({argument}) failed ({})", system_message(source))]
    Call {
        /// The function of the C library.
        call: &'static str,
        /// What it was called with.
        argument: String,
        /// The reason.
        source: io::Error,
    },
}

impl Identity {
    /// Looks a user up, and a group: without one, the group that has the user's name.
    pub fn look_up(user: &str, group: Option<&str>) -> Result<Identity, IdentityError> {
        let quoted = |name: &str| format!("\"{name}\"");
        let group = group.unwrap_or(user);
        let uid = User::from_name(user)
            .map_err(failure("getpwnam", quoted(user)))?
            .ok_or_else(|| unknown("getpwnam", user))?
            .uid;
        let gid = Group::from_name(group)
            .map_err(failure("getgrnam", quoted(group)))?
            .ok_or_else(|| unknown("getgrnam", group))?
            .gid;
        let name = CString::new(user).map_err(|_: NulError| unknown("getpwnam", user))?;
        Ok(Identity { name, uid, gid })
    }

    /// The user's number, for files that are handed over to the worker.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// The group's number.
    pub fn gid(&self) -> u32 {
        self.gid.as_raw()
    }

    /// Becomes this user for good, with the groups that the system lists for it.
    ///
    /// Only a superuser can and need do that; for others nothing happens. The process must have no further
    /// threads yet.
    pub fn assume(&self) -> Result<(), IdentityError> {
        if !is_superuser() {
            return Ok(());
        }
        let arguments = format!("{}, {}", self.name.to_string_lossy(), self.gid);
        setgid(self.gid).map_err(failure("setgid", self.gid.to_string()))?;
        initgroups(&self.name, self.gid).map_err(failure("initgroups", arguments))?;
        setuid(self.uid).map_err(failure("setuid", self.uid.to_string()))
    }
}

/// Whether the process may change its identity and bind any port.
pub fn is_superuser() -> bool {
    geteuid().is_root()
}

fn unknown(call: &'static str, name: &str) -> IdentityError {
    IdentityError::Unknown { call, name: name.to_owned() }
}

fn failure(call: &'static str, argument: String) -> impl FnOnce(Errno) -> IdentityError {
    move |errno| IdentityError::Call { call, argument, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        let root = Identity::look_up("root", None).unwrap();
        assert_eq!((root.uid(), root.gid()), (0, 0));
        let text = |user, group| Identity::look_up(user, group).unwrap_err().to_string();
        assert_eq!(text("no-such-user", None), "getpwnam(\"no-such-user\") failed");
        assert_eq!(text("root", Some("no-such-group")), "getgrnam(\"no-such-group\") failed");
        assert_eq!(text("nul\0", None), "getpwnam(\"nul\0\") failed");
    }
}
