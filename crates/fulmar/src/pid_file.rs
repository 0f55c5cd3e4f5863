//! The file that names the supervisor's process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::control::{Answer, Command, ControlError, ask};
use net::process::Pid;
use net::system_message;

/// What the name of a pid file gets after it while a newer program holds the name.
const RETIRED: &str = ".oldbin";

/// How a supervisor that stops ends its answer to [`Command::Identify`]: another one may take its pid file.
pub(crate) const LEAVING: &str = ", shutting down";

/// How long a process that a pid file names may take to say what it is.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);

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
        refuse_if_taken(path)?;
        PidFile::open(path, false).map(drop)
    }

    /// Writes the identifier of this process.
    ///
    /// # Errors
    /// The text for the log; the file of another server that runs is not changed.
    pub(crate) fn write(path: &Path) -> Result<PidFile, String> {
        refuse_if_taken(path)?;
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
    /// The text for the log; the file names another process, for example.
    pub(crate) fn retire(&mut self) -> Result<(), String> {
        self.rename(true)
    }

    /// Takes the name back after the newer program ended.
    ///
    /// # Errors
    /// The text for the log; another server took the name, for example.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        self.rename(false)
    }

    /// Removes the file under the name that it has now, unless the file does not name this process any more.
    ///
    /// # Errors
    /// The text for the log.
    pub(crate) fn remove(self) -> Result<(), String> {
        let path = self.name(self.retired);
        if path.exists() && named(&path) != Some(Pid::this()) {
            return Ok(());
        }
        fs::remove_file(&path).map_err(failure("unlink", &path))
    }

    fn rename(&mut self, retired: bool) -> Result<(), String> {
        if self.retired == retired {
            return Ok(());
        }
        let (from, to) = (self.name(self.retired), self.name(retired));
        if from.exists() && named(&from) != Some(Pid::this()) {
            return Err(format!("\"{}\" does not name this process any more", from.display()));
        }
        refuse_if_taken(&to)?;
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
/// The message for the user.
pub(crate) fn read(path: &Path) -> Result<Pid, String> {
    let text = fs::read(path).map_err(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let hint = if is_missing { "; no server runs with this configuration" } else { "" };
        format!("{}{hint}", failure("open", path)(error))
    })?;
    parse(&text).ok_or_else(|| {
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches(['\r', '\n']);
        format!("invalid PID number \"{text}\" in \"{}\"", path.display())
    })
}

fn parse(text: &[u8]) -> Option<Pid> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(['\r', '\n']);
    text.parse().ok().filter(|pid| *pid > 0).map(Pid::from_raw)
}

/// The process that a file names. What is no regular file is not read: reading a terminal waits for input.
fn named(path: &Path) -> Option<Pid> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    parse(&fs::read(path).ok()?)
}

/// Whether a server of this process may write this file.
///
/// # Errors
/// The text for the log, where the file names another Fulmar that runs and does not stop.
pub(crate) fn refuse_if_taken(path: &Path) -> Result<(), String> {
    match named(path) {
        Some(pid) if pid != Pid::this() && serves(pid) => Err(format!(
            "\"{}\" is the pid file of process {pid}, a running Fulmar: stop that server first, or name another file \
             with \"pid\"",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// Whether a process is a Fulmar that runs and does not stop. Only a Fulmar has a control socket, which the kernel says
/// to be the process's own, so that a number that another process took over names none.
fn serves(pid: Pid) -> bool {
    match ask(pid, Command::Identify, ANSWER_PATIENCE) {
        Ok(Answer::Ok(text)) => !text.ends_with(LEAVING),
        Ok(Answer::Error(_)) => true,
        // It is busy or stopped, belongs to another user, or has ended meanwhile.
        Err(ControlError::Timeout(_) | ControlError::NoAnswer(_)) => is_alive(pid),
        Err(ControlError::Absent(_) | ControlError::Impostor(_) | ControlError::System(_)) => false,
    }
}

fn is_alive(pid: Pid) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
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
    fn a_file_that_names_another_process_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        for text in ["1\n", "", "no number\n"] {
            let file = PidFile::write(&path).unwrap();
            fs::write(&path, text).unwrap();
            file.remove().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(file.remove().unwrap_err().starts_with("unlink() \""));
    }

    #[test]
    fn what_is_no_number_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let shown = path.display().to_string();
        let missing = format!(
            "open() \"{shown}\" failed (2: No such file or directory); no server runs with this configuration"
        );
        assert_eq!(read(&path), Err(missing));
        for text in ["", "x", "-1", "0"] {
            fs::write(&path, format!("{text}\n")).unwrap();
            assert_eq!(read(&path), Err(format!("invalid PID number \"{text}\" in \"{shown}\"")));
        }
        let unwritable = directory.path().join("none/pid");
        assert!(PidFile::write(&unwritable).unwrap_err().starts_with("open() \""));
    }
}
