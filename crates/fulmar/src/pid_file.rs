//! The file that names the supervisor's process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use net::process::Pid;
use net::system_message;

/// What the name of a pid file gets behind it while a newer program holds the name.
const RETIRED: &str = ".oldbin";

/// The pid file of this process.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    retired: bool,
}

impl PidFile {
    /// Whether there can be such a file, which may be there afterwards, and is as it was if it was there before.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn try_open(path: &Path) -> Result<(), String> {
        PidFile::open(path, false).map(drop)
    }

    /// Writes the identifier of this process.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn write(path: &Path) -> Result<PidFile, String> {
        let mut file = PidFile::open(path, true)?;
        writeln!(file, "{}", Pid::this()).map_err(failure("write", path))?;
        Ok(PidFile { path: path.to_path_buf(), retired: false })
    }

    fn open(path: &Path, truncate: bool) -> Result<File, String> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(truncate).mode(0o644);
        options.open(path).map_err(failure("open", path))
    }

    /// The configured path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the name free for a newer program.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn retire(&mut self) -> Result<(), String> {
        self.rename(true)
    }

    /// Takes the name back after the newer program ended.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        self.rename(false)
    }

    /// Removes the file under the name that it has now.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn remove(self) -> Result<(), String> {
        let path = self.name(self.retired);
        fs::remove_file(&path).map_err(failure("unlink", &path))
    }

    fn rename(&mut self, retired: bool) -> Result<(), String> {
        if self.retired == retired {
            return Ok(());
        }
        let (from, to) = (self.name(self.retired), self.name(retired));
        let message = |error: io::Error| {
            let (from, to) = (from.display(), to.display());
            format!("rename() {from} to {to} failed ({})", system_message(&error))
        };
        fs::rename(&from, &to).map_err(message)?;
        self.retired = retired;
        Ok(())
    }

    fn name(&self, retired: bool) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        if retired {
            name.push(RETIRED);
        }
        name.into()
    }
}

/// The process that a pid file names.
///
/// # Errors
/// The text for whoever asked.
pub(crate) fn read(path: &Path) -> Result<Pid, String> {
    let text = fs::read(path).map_err(failure("open", path))?;
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_end_matches(['\r', '\n']);
    let number = text.parse().ok().filter(|pid| *pid > 0);
    let invalid = || format!("invalid PID number \"{text}\" in \"{}\"", path.display());
    number.map(Pid::from_raw).ok_or_else(invalid)
}

fn failure<'a>(call: &'a str, path: &'a Path) -> impl Fn(io::Error) -> String + 'a {
    move |error| format!("{call}() \"{}\" failed ({})", path.display(), system_message(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_this_process_under_the_name_of_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let retired = directory.path().join("pid.oldbin");
        fs::write(&path, "a longer text from earlier\n").unwrap();
        PidFile::try_open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a longer text from earlier\n");
        let mut file = PidFile::write(&path).unwrap();
        assert_eq!(read(&path), Ok(Pid::this()));
        file.retire().unwrap();
        assert!(!path.exists());
        assert_eq!(read(&retired), Ok(Pid::this()));
        file.restore().unwrap();
        assert!(path.exists() && !retired.exists());
        file.retire().unwrap();
        fs::write(&path, "1\n").unwrap();
        file.remove().unwrap();
        assert!(path.exists() && !retired.exists(), "the newer program's file is not ours");
    }

    #[test]
    fn what_is_no_number_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let shown = path.display().to_string();
        let missing = format!("open() \"{shown}\" failed (2: No such file or directory)");
        assert_eq!(read(&path), Err(missing));
        for text in ["", "x", "-1", "0"] {
            fs::write(&path, format!("{text}\n")).unwrap();
            assert_eq!(read(&path), Err(format!("invalid PID number \"{text}\" in \"{shown}\"")));
        }
        let unwritable = directory.path().join("none/pid");
        assert!(PidFile::write(&unwritable).unwrap_err().starts_with("open() \""));
    }
}
