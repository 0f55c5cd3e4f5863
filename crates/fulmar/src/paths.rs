//! Where a packaged Fulmar keeps its files, and what the flags make of that.

use std::io;
use std::path::{Path, PathBuf, absolute};

use crate::command_line::Flags;
use crate::console::say;

/// The configuration without `-c`.
pub(crate) const CONF: &str = "/etc/fulmar/fulmar.conf";
/// The prefix without `-p` and `-c`.
pub(crate) const PREFIX: &str = "/etc/fulmar/";
/// The error log without `-e` and `error_log`.
pub(crate) const ERROR_LOG: &str = "/var/log/fulmar/error.log";
/// The access log without `access_log`.
pub(crate) const ACCESS_LOG: &str = "/var/log/fulmar/access.log";
/// The pid file without `pid`.
pub(crate) const PID: &str = "/run/fulmar.pid";

/// The paths of one run, all absolute: a daemon may be told to reload from anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The main configuration file.
    pub(crate) conf: PathBuf,
    /// What relative paths of logs, roots and the pid file start from.
    pub(crate) prefix: PathBuf,
    /// The error log until the configuration names one; none is the standard error stream.
    pub(crate) error_log: Option<PathBuf>,
    /// Whether `-e` named the error log.
    pub(crate) error_log_given: bool,
}

impl Paths {
    /// The paths that the flags ask for.
    ///
    /// `-c` and `-e` are relative to `-p`. Without `-p` a relative `-c` starts from the working directory, and
    /// the prefix is the directory of the configuration file.
    ///
    /// # Errors
    /// The working directory is gone.
    fn new(flags: &Flags) -> io::Result<Paths> {
        let (conf, prefix) = match (&flags.prefix, &flags.conf) {
            (None, None) => (PathBuf::from(CONF), PathBuf::from(PREFIX)),
            (None, Some(conf)) => {
                let conf = absolute(conf)?;
                let prefix = conf.parent().unwrap_or(Path::new("/")).to_path_buf();
                (conf, prefix)
            }
            (Some(prefix), conf) => {
                let prefix = absolute(prefix)?;
                let name = conf.as_deref().unwrap_or(Path::new("fulmar.conf"));
                (prefix.join(name), prefix)
            }
        };
        let error_log = match &flags.error_log {
            None => Some(PathBuf::from(ERROR_LOG)),
            Some(path) if path.as_os_str() == "stderr" => None,
            Some(path) => Some(prefix.join(path)),
        };
        Ok(Paths { conf, prefix, error_log, error_log_given: flags.error_log.is_some() })
    }

    /// The same, with a message about why if there are none.
    pub(crate) fn told(flags: &Flags) -> Option<Paths> {
        let complain =
            |error: &io::Error| say(&format!("[emerg] getcwd() failed ({})", net::system_message(error)));
        Paths::new(flags).inspect_err(complain).ok()
    }

    /// The directory of the main configuration file.
    pub(crate) fn conf_prefix(&self) -> &Path {
        self.conf.parent().unwrap_or(Path::new("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(prefix: Option<&str>, conf: Option<&str>, error_log: Option<&str>) -> (String, String, String) {
        let path = |text: Option<&str>| text.map(PathBuf::from);
        let flags =
            Flags { prefix: path(prefix), conf: path(conf), error_log: path(error_log), ..Flags::default() };
        let paths = Paths::new(&flags).unwrap();
        let shown = |path: &Path| path.display().to_string();
        let log = paths.error_log.as_deref().map_or("stderr".to_owned(), shown);
        (shown(&paths.conf), shown(&paths.prefix), log)
    }

    fn expected(conf: &str, prefix: &str, log: &str) -> (String, String, String) {
        (conf.to_owned(), prefix.to_owned(), log.to_owned())
    }

    #[test]
    fn relative_paths_start_from_the_prefix() {
        assert_eq!(paths(None, None, None), expected(CONF, PREFIX, ERROR_LOG));
        let nginx = paths(None, Some("/etc/nginx/nginx.conf"), None);
        assert_eq!(nginx, expected("/etc/nginx/nginx.conf", "/etc/nginx", ERROR_LOG));
        let test = paths(Some("/t/"), Some("nginx.conf"), Some("error.log"));
        assert_eq!(test, expected("/t/nginx.conf", "/t/", "/t/error.log"));
        assert_eq!(paths(Some("/t"), None, Some("stderr")), expected("/t/fulmar.conf", "/t", "stderr"));
        assert_eq!(paths(Some("/t"), Some("/c/x"), Some("/e")), expected("/c/x", "/t", "/e"));
    }

    #[test]
    fn without_a_prefix_a_relative_file_is_looked_for_here() {
        let here = std::env::current_dir().unwrap();
        let (conf, prefix, log) = paths(None, Some("conf/x.conf"), Some("e"));
        assert_eq!(conf, here.join("conf/x.conf").display().to_string());
        assert_eq!(prefix, here.join("conf").display().to_string());
        assert_eq!(log, here.join("conf/e").display().to_string());
    }
}
