//! The files with settings on the way from a root to a file.

use contract::{Exchange, FileStatus, LocationKind, Opener};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many directories one request may lead through.
const DIRECTORIES_MAX: usize = 128;

/// Room for so many files is made at once.
const USUAL_COUNT: usize = 4;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file with settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// The files that lie on one way.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The outermost first.
    pub(super) list: Vec<File>,
    /// The same files, open, where it matters by which links they were found; else none.
    pub(super) opened: Vec<Arc<fs::File>>,
    /// A file changed so lately that it may change again without another stamp.
    pub(super) is_fresh: bool,
}

impl Files {
    /// The size of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().map(|file| file.stamp.size).fold(0, u64::saturating_add)
    }
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The time of the last change of any kind: seconds and nanoseconds.
    pub(super) fn changed(&self) -> (i64, i64) {
        self.changed
    }
}

/// Looks for the files, one `stat` a directory, and one for the request's own file, which is attached to the exchange. The
/// error says why all requests are denied.
pub(super) fn find(exchange: &Exchange, file_name: &str) -> Result<Files, String> {
    let uri = || String::from_utf8_lossy(&exchange.request.path).into_owned();
    let path = exchange.path().map_err(|_| format!("the path of \"{}\" leaves its root", uri()))?;
    let start = start(exchange, &path);
    let (mut list, mut opened) = (Vec::with_capacity(USUAL_COUNT), Vec::new());
    let directory_end = if is_no_directory(exchange, &path) { last_slash(&path) } else { path.len() };
    let mut file = Vec::with_capacity(path.len() + 1 + file_name.len());
    let segments = path[..directory_end].get(start..).unwrap_or_default().split(|&byte| byte == b'/');
    // The root itself comes before the first segment.
    let segments = std::iter::once(&b""[..]).chain(segments.filter(|segment| !segment.is_empty()));
    file.extend_from_slice(&path[..start]);
    for (depth, segment) in segments.enumerate() {
        if depth > DIRECTORIES_MAX {
            return Err(format!("the path of \"{}\" leads through too many directories", uri()));
        }
        if !segment.is_empty() {
            file.push(b'/');
            file.extend_from_slice(segment);
        }
        let directory = file.len();
        file.push(b'/');
        file.extend_from_slice(file_name.as_bytes());
        match look(exchange, &file) {
            Ok((metadata, open)) => {
                list.push(File { path: as_path(&file).to_path_buf(), stamp: Stamp::of(&metadata) });
                opened.extend(open.map(Arc::new));
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => {}
                // Not a directory but the file, with its own path behind it at most; or one behind a link.
                Some(Errno::NOTDIR | Errno::NAMETOOLONG) if !is_refused(exchange, &file[..directory]) => {
                    break;
                }
                _ => return Err(failed(as_path(&file), &error)),
            },
        }
        file.truncate(directory);
    }
    Ok(Files { list, opened, is_fresh: false })
}

/// Whether a request's path is not that of a directory, so that there are no settings below it. What is there is attached
/// to the exchange.
fn is_no_directory(exchange: &Exchange, path: &[u8]) -> bool {
    // Where links are refused, only files that are open may be looked at.
    if path.ends_with(b"/") || path.contains(&0) || exchange.scope.policy.overlay_opener.is_some() {
        return false;
    }
    let found = fs::metadata(as_path(path));
    let is_no_directory = match &found {
        Ok(metadata) => !metadata.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    exchange.attach_own(FileStatus { path: path.to_vec(), metadata: found.ok() });
    is_no_directory
}

/// What is at a path; it is open where the way to it matters.
fn look(exchange: &Exchange, path: &[u8]) -> io::Result<(Metadata, Option<fs::File>)> {
    match &exchange.scope.policy.overlay_opener {
        None => Ok((fs::metadata(as_path(path))?, None)),
        Some(Opener(open)) => {
            let file = open(exchange, path)?;
            Ok((file.metadata()?, Some(file)))
        }
    }
}

/// Whether a path that is no directory to those who do not follow links is one to those who do.
fn is_refused(exchange: &Exchange, directory: &[u8]) -> bool {
    let follows = exchange.scope.policy.overlay_opener.is_none();
    !follows && as_path(directory).is_dir()
}

/// The line of the log about a file that cannot be looked at.
pub(super) fn failed(file: &Path, error: &io::Error) -> String {
    format!("\"{}\" cannot be read, so all requests are denied ({error})", file.display())
}

/// Where in a path its root ends, without the slash.
fn start(exchange: &Exchange, path: &[u8]) -> usize {
    let root = &exchange.scope.policy.root;
    let directory = root.directory(exchange);
    let mut end = directory.len();
    match &root.alias {
        // A pattern's alias is the whole path: the directory of the file is all that is known.
        Some(name) if name.kind == LocationKind::Regex => end = path.len(),
        Some(_) => {}
        None if directory.ends_with(b"/") => {}
        None => end += 1,
    }
    let end = end.min(path.len());
    last_slash(&path[..end])
}

fn last_slash(path: &[u8]) -> usize {
    path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
