//! Where `fulmar serve` and `fulmar proxy` keep certificates and keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use net::identity::is_superuser;

/// The superuser's directory.
const STATE: &str = "/var/lib/fulmar";

/// The same for others, below the directory for state and below the home directory.
const USER_STATE: [&str; 2] = ["fulmar", ".local/state/fulmar"];

/// The directory of this name; `None` if the environment names no place, or one that a configuration cannot express.
pub(crate) fn directory(name: &str) -> Option<PathBuf> {
    let [service, data, home] = ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"].map(std::env::var_os);
    let own = || if is_superuser() { Some(PathBuf::from(STATE)) } else { user_state(data, home) };
    let directory = below(service, "").or_else(own)?.join(name);
    is_expressible(&directory).then_some(directory)
}

/// Whether a path can stand between quotes in a configuration.
fn is_expressible(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains(['"', '\\', '$']))
}

/// The whole path of a file that can be read.
pub(crate) fn usable(path: &Path) -> Result<PathBuf, String> {
    let complain = |reason: &str| format!("cannot read \"{}\" ({reason})", path.display());
    let path = path.canonicalize().map_err(|error| complain(&net::system_message(&error)))?;
    if is_expressible(&path) { Ok(path) } else { Err(complain("its name has one of the characters \" \\ $")) }
}

fn user_state(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    below(data, USER_STATE[0]).or_else(|| below(home, USER_STATE[1]))
}

fn below(around: Option<OsString>, path: &str) -> Option<PathBuf> {
    around.map(PathBuf::from).filter(|around| around.is_absolute()).map(|around| around.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_in_a_directory_of_the_user() {
        let of =
            |data: Option<&str>, home: Option<&str>| user_state(data.map(Into::into), home.map(Into::into));
        assert_eq!(of(Some("/s"), Some("/h")), Some(PathBuf::from("/s/fulmar")));
        assert_eq!(of(Some("s"), Some("/h")), Some(PathBuf::from("/h/.local/state/fulmar")));
        assert_eq!(of(None, None), None);
    }
}
