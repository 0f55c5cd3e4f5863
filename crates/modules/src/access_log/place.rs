//! Where lines go.

use super::cache::{self, OpenLogs};
use crate::open_file_cache::{Files, Kind};
use contract::clock::Time;
use contract::log::{Complaints, Level, LogFile, LogFiles, Syslog};
use contract::{Exchange, Template};
use net::system_message;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, PathBuf};
use std::sync::Arc;

/// Where a log is.
#[derive(Clone)]
pub enum Place {
    /// A file that stays open.
    File(Arc<LogFile>),
    /// A server.
    Syslog(Arc<Syslog>),
    /// A file whose name depends on the request.
    Computed {
        /// The name.
        name: Template,
        /// Where relative names start.
        prefix: PathBuf,
        /// What lets a complaint about any of these files pass.
        complaints: Arc<Complaints>,
    },
}

/// How files are found whose names depend on the request.
pub(super) struct Surroundings {
    /// Those that are kept open.
    pub(super) open: Option<Arc<OpenLogs>>,
    /// All that are always open.
    pub(super) logs: LogFiles,
    /// How the document root is looked at.
    pub(super) files: Files,
}

impl Place {
    /// Writes a line, which ends with its line feed.
    pub(super) fn write(&self, exchange: &Exchange, around: &Surroundings, line: &[u8]) {
        match self {
            Place::File(file) => {
                if let Some(complaint) = file.append(line) {
                    exchange.log(Level::Alert, &logging(&complaint));
                }
            }
            Place::Syslog(server) => {
                if let Some(complaint) = server.send(None, line.strip_suffix(b"\n").unwrap_or(line)) {
                    exchange.log(Level::Error, &logging(&complaint));
                }
            }
            Place::Computed { name, prefix, complaints } => {
                let name = prefix.join(OsStr::from_bytes(&name.evaluate(exchange)));
                if let Err((level, complaint)) = write_to(name, exchange, around, line)
                    && complaints.are_due()
                {
                    exchange.log(level, &logging(&complaint));
                }
            }
        }
    }
}

fn logging(complaint: &str) -> String {
    format!("{complaint} while logging request")
}

/// A client that can choose a part of the name cannot climb out of the directory, and where the document root does
/// not exist there is no log, as many names are made of the same values.
fn write_to(
    path: PathBuf,
    exchange: &Exchange,
    around: &Surroundings,
    line: &[u8],
) -> Result<(), (Level, String)> {
    let root = exchange.scope.policy.root.directory(exchange);
    let not_there = match around.files.look(exchange, &root) {
        Ok(found) if found.kind == Kind::Directory => None,
        Ok(_) => Some(Errno::NOTDIR.into()),
        Err(error) => Some(error),
    };
    if let Some(error) = not_there {
        let (root, reason) = (String::from_utf8_lossy(&root), system_message(&error));
        return Err((Level::Error, format!("testing \"{root}\" existence failed ({reason})")));
    }
    let opened = if path.components().any(|part| part == Component::ParentDir) {
        Err(io::ErrorKind::InvalidFilename.into())
    } else if let Some(open) = &around.open {
        open.open(&path, &around.logs, u64::try_from(Time::now().seconds).unwrap_or(0))
    } else {
        cache::open(&path)
    };
    let log = opened.map_err(|error| {
        let reason = system_message(&error);
        (Level::Crit, format!("open() \"{}\" failed ({reason})", path.display()))
    })?;
    match log.write(line) {
        Some(complaint) => Err((Level::Alert, complaint)),
        None => Ok(()),
    }
}
