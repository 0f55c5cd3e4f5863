//! The folder of results, which one command at a time writes into.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail, ensure};

/// The file whose lock says that a process writes; it contains the number of that process.
const LOCK: &str = "lock";

/// A folder of results that nobody else writes into as long as this is there.
#[derive(Debug)]
pub struct Results {
    _lock: File,
}

impl Results {
    /// Makes the folder if it is missing, and takes it. Fails where another command writes into it.
    pub fn take(out: &Path) -> Result<Results> {
        let name = out.display();
        ensure!(!out.exists() || out.is_dir(), "--out {name}: it is not a folder, and results need one");
        fs::create_dir_all(out).with_context(|| format!("--out {name}: making the folder for results"))?;
        let path = out.join(LOCK);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.with_context(|| format!("--out {name}: writing into the folder for results"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                file.read_to_string(&mut process)?;
                bail!(
                    "another fulmar-lab (process {}) writes into {name}: wait for it, or choose another --out",
                    process.trim()
                );
            }
            // Some file systems have no locks; what two runs do to each other there is their own affair.
            Err(TryLockError::Error(_)) => {}
        }
        file.set_len(0)?;
        writeln!(file, "{}", process::id())?;
        Ok(Results { _lock: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        let first = Results::take(&out).unwrap();
        let error = Results::take(&out).unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}) writes into {}", process::id(), out.display())),
            "{error}"
        );
        drop(first);
        Results::take(&out).unwrap();
    }

    #[test]
    fn what_cannot_be_a_folder_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Results::take(file.path()).unwrap_err().to_string();
        assert!(error.contains("is not a folder"), "{error}");
        let error = format!("{:#}", Results::take(Path::new("/proc/none/none")).unwrap_err());
        assert!(error.contains("--out /proc/none/none: making the folder"), "{error}");
    }
}
