//! Where lines go.

use super::OPEN_LOG_FILE_CACHE;
use super::cache::{self, OpenLogs};
use crate::files::open_file_cache::{Files, Kind};
use conf::Contexts;
use contract::{Exchange, Template, View};
use journal::clock::Time;
use journal::{Complaints, Level, LogFile, LogFiles, Syslog};
use net::system_message;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Where a log is, as it was written.
#[derive(Clone)]
pub enum Place {
    /// A file that stays open.
    File(Arc<LogFile>),
    /// A server.
    Syslog(Arc<Syslog>),
    /// A file whose name depends on the request.
    Computed(Arc<Named>),
}

/// A name with variables.
pub struct Named {
    name: Template,
    /// Where relative names start.
    prefix: PathBuf,
    /// What lets a complaint about any of these files pass.
    complaints: Complaints,
}

impl Named {
    pub(super) fn new(name: Template, prefix: &Path) -> Named {
        Named { name, prefix: prefix.to_path_buf(), complaints: Complaints::default() }
    }
}

/// Where a scope's lines go.
pub(super) enum Output {
    File(Arc<LogFile>),
    Syslog(Arc<Syslog>),
    Computed(Box<Computed>),
}

/// Files whose names depend on requests, and how they are found.
pub(super) struct Computed {
    named: Arc<Named>,
    /// Those that are kept open.
    open: Option<Arc<OpenLogs>>,
    /// All that are always open.
    logs: LogFiles,
    /// How the document root is looked at.
    files: Option<Files>,
}

impl Output {
    /// The output of a scope.
    pub(super) fn new(place: &Place, view: &View<'_>, logs: &LogFiles) -> Output {
        match place {
            Place::File(file) => Output::File(Arc::clone(file)),
            Place::Syslog(server) => Output::Syslog(Arc::clone(server)),
            Place::Computed(named) => Output::Computed(Box::new(Computed {
                named: Arc::clone(named),
                open: view.get(&OPEN_LOG_FILE_CACHE).cloned().flatten(),
                logs: logs.clone(),
                // `stream` has no document root.
                files: (view.context() != Contexts::STREAM_SERVER).then(|| Files::of(view)),
            })),
        }
    }

    /// Writes a line, which ends with its line feed.
    pub(super) fn write(&self, exchange: &Exchange, line: &[u8]) {
        let told = match self {
            Output::File(file) => file.append(line).map(|complaint| (Level::Alert, complaint)),
            Output::Syslog(server) => {
                let message = line.strip_suffix(b"\n").unwrap_or(line);
                server.send(None, message).map(|complaint| (Level::Error, complaint))
            }
            Output::Computed(computed) => {
                let failed = computed.write(exchange, line).err();
                failed.filter(|_| computed.named.complaints.are_due())
            }
        };
        if let Some((level, complaint)) = told {
            exchange.log(level, &format!("{complaint} while logging request"));
        }
    }
}

impl Computed {
    /// A client that can choose a part of the name cannot climb out of the directory, and where the document root
    /// does not exist there is no log, as many names are made of the same values.
    fn write(&self, exchange: &Exchange, line: &[u8]) -> Result<(), (Level, String)> {
        let Named { name, prefix, .. } = &*self.named;
        let path = prefix.join(OsStr::from_bytes(&name.evaluate(exchange)));
        if let Some(files) = &self.files {
            let root = exchange.scope.policy.root.directory(exchange);
            let not_there = match files.look(exchange, &root) {
                Ok(found) if found.kind == Kind::Directory => None,
                Ok(_) => Some(Errno::NOTDIR.into()),
                Err(error) => Some(error),
            };
            if let Some(error) = not_there {
                let (root, reason) = (String::from_utf8_lossy(&root), system_message(&error));
                return Err((Level::Error, format!("testing \"{root}\" existence failed ({reason})")));
            }
        }
        let log = self.open(&path).map_err(|error| {
            let reason = system_message(&error);
            (Level::Crit, format!("open() \"{}\" failed ({reason})", path.display()))
        })?;
        match log.write(line) {
            Some(complaint) => Err((Level::Alert, complaint)),
            None => Ok(()),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        match &self.open {
            Some(open) => open.open(path, &self.logs, u64::try_from(Time::now().seconds).unwrap_or(0)),
            None => cache::open(path),
        }
    }
}
