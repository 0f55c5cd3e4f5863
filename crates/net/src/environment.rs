//! The environment of this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::libc;

use crate::process::is_single_threaded;

/// Leaves the process with these variables and no others.
///
/// It is an error if the process has more than one thread, because another one could read the environment meanwhile,
/// or if a name is invalid.
#[allow(unsafe_code)]
#[expect(clippy::disallowed_methods, reason = "the worker's environment is what its configuration says")]
pub fn replace(variables: &[(OsString, OsString)]) -> io::Result<()> {
    if !is_single_threaded()? {
        return Err(io::Error::other("the environment can only change before threads start"));
    }
    if !variables.iter().all(|(name, value)| is_name(name) && !value.as_bytes().contains(&0)) {
        return Err(io::Error::other("a variable of the environment has no name, or a NUL in it"));
    }
    // Not one by one: what a parent passes on may have a name that cannot be removed.
    // SAFETY: no other thread exists that could read the environment meanwhile.
    if unsafe { libc::clearenv() } != 0 {
        return Err(io::Error::other("the environment cannot be emptied"));
    }
    for (name, value) in variables {
        // SAFETY: as above.
        unsafe { env::set_var(name, value) };
    }
    Ok(())
}

/// Whether the system can set a variable of this name.
fn is_name(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_bytes().iter().any(|byte| matches!(byte, b'=' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;

    #[test]
    fn what_is_not_named_is_gone() {
        alone(|| {
            assert!(env::var_os("PATH").is_some());
            let wanted = [("A".into(), "1".into()), ("B".into(), "".into())];
            replace(&wanted).unwrap();
            assert_eq!(env::vars_os().collect::<Vec<_>>(), wanted);
            for (name, value) in [("", "x"), ("a=b", "x"), ("c", "a\0b")] {
                assert!(replace(&[(name.into(), value.into())]).is_err(), "{name}");
            }
            assert_eq!(env::vars_os().collect::<Vec<_>>(), wanted, "nothing was touched");
        });
    }

    #[test]
    #[allow(unsafe_code)]
    fn what_has_no_name_is_gone_too() {
        alone(|| {
            // SAFETY: the text lives for ever, and no other thread exists that could read the environment meanwhile.
            assert_eq!(unsafe { libc::putenv(c"=A=1".as_ptr().cast_mut()) }, 0);
            assert!(env::vars_os().any(|(name, _)| name == "=A"));
            replace(&[]).unwrap();
            assert_eq!(env::vars_os().next(), None);
        });
    }

    #[test]
    fn not_beside_other_threads() {
        assert!(replace(&[]).unwrap_err().to_string().contains("before threads start"));
    }
}
