//! The files with settings on the way from a root to a file.

use super::seen::{self, Way};
use conf::apache::Allowed;
use contract::{Exchange, FileStatus, LocationKind, LocationName, Opener, Overlay};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::{fs, io};

/// How many directories one request may lead through.
const DIRECTORIES_MAX: usize = 128;

/// Room for so many files is made at once.
const USUAL_COUNT: usize = 4;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// A file with settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Where its directory ends in the path of the innermost file.
    directory_end: usize,
    /// Which of the overlay's names it has.
    name: usize,
    /// Which of the overlay's rules counts for it.
    rule: usize,
    pub(super) stamp: Stamp,
}

/// The files that lie on one way. Their directories contain each other, so that one path says where all of them are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) overlay: Arc<Overlay>,
    /// The path of the innermost file.
    innermost: Vec<u8>,
    /// Where the root ends in that path, without a slash.
    root_end: usize,
    /// The outermost first.
    pub(super) list: Vec<File>,
    /// The same files, open, where it matters by which links they were found; else none.
    pub(super) opened: Vec<Arc<fs::File>>,
    /// A file changed so lately that it may change again without another stamp.
    pub(super) is_fresh: bool,
}

impl Files {
    /// The file in a directory below a root, if there is one that counts by this rule.
    pub(super) fn of(overlay: &Arc<Overlay>, root: &Path, directory: &Path, rule: usize) -> Option<Files> {
        let end = |path: &Path| {
            let bytes = path.as_os_str().as_bytes();
            bytes.strip_suffix(b"/").unwrap_or(bytes).len()
        };
        if !reads_files(overlay, rule) {
            return None;
        }
        let mut paths = overlay.names.iter().map(|name| directory.join(OsStr::from_bytes(name))).enumerate();
        let (name, path, stat) =
            paths.find_map(|(name, path)| rustix::fs::stat(&path).ok().map(|stat| (name, path, stat)))?;
        Some(Files {
            overlay: Arc::clone(overlay),
            innermost: path.into_os_string().into_vec(),
            root_end: end(root),
            list: vec![File { directory_end: end(directory), name, rule, stamp: Stamp::of(&stat) }],
            opened: Vec::new(),
            is_fresh: false,
        })
    }

    /// The path of the innermost file.
    pub(super) fn innermost(&self) -> &[u8] {
        &self.innermost
    }

    /// The path of a file.
    pub(super) fn path(&self, file: &File) -> PathBuf {
        let directory = &self.innermost[..file.directory_end];
        as_path(&[directory, b"/", &*self.overlay.names[file.name]].concat()).to_path_buf()
    }

    /// What a file may contain; `None` for everything.
    pub(super) fn allowed(&self, file: &File) -> Option<&Arc<Allowed>> {
        self.overlay.rules[file.rule].1.as_ref()
    }

    /// The root, without a slash at its end.
    pub(super) fn root(&self) -> &[u8] {
        self.innermost.get(..self.root_end).unwrap_or_default()
    }

    /// The files of the directories down to the one whose path ends there.
    pub(super) fn down_to(&self, directory_end: usize) -> Files {
        let list = self.list.iter().copied().filter(|file| file.directory_end <= directory_end).collect();
        Files { list, ..self.clone() }.named_by_last()
    }

    /// Makes the path of the last file that of the innermost one.
    fn named_by_last(mut self) -> Files {
        if let Some(last) = self.list.last() {
            self.innermost.truncate(last.directory_end);
            self.innermost.push(b'/');
            self.innermost.extend_from_slice(&self.overlay.names[last.name]);
        }
        self
    }

    /// Whether the root ends there, and the files were looked for as this overlay says.
    pub(super) fn is_below(&self, (root_end, overlay): (usize, &Arc<Overlay>)) -> bool {
        self.root_end == root_end && Arc::ptr_eq(&self.overlay, overlay)
    }

    /// The size of all files.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.list.iter().map(|file| u64::try_from(file.stamp.size).unwrap_or(0));
        sizes.fold(0, u64::saturating_add)
    }
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Stamp {
        Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The time of the last change of any kind: seconds and nanoseconds.
    pub(super) fn changed(&self) -> (i64, u64) {
        self.changed
    }
}

/// Looks for the files, one `stat` for each directory and name, and one for the request's own file, which is attached to
/// the exchange. The error says why all requests are denied.
pub(super) fn find(exchange: &Exchange, overlay: &Arc<Overlay>) -> Result<Rc<Files>, String> {
    let path = exchange.path().map_err(|_| format!("the path of \"{}\" leaves its root", uri(exchange)))?;
    let root = (start(exchange, &path), overlay);
    // Where links are refused, only files that are open may be looked at.
    if exchange.scope.policy.overlay_opener.is_some() {
        return search(exchange, &path, root).map(Rc::new);
    }
    if let Some(Way { own, files, .. }) = seen::shared(|seen| seen.find(&path, root)).flatten() {
        attach(exchange, own);
        return Ok(files);
    }
    let (own, is_no_directory) = own_file(path);
    attach(exchange, Rc::clone(&own));
    let directories_end = if is_no_directory { last_slash(&own.path) } else { own.path.len() };
    let directories = &own.path[..directories_end];
    let (files, moment) = match seen::shared(|seen| seen.find_directory(directories, root)).flatten() {
        Some(found) => found,
        None => (search(exchange, directories, root).map(Rc::new)?, net::moment()),
    };
    seen::shared(|seen| seen.keep(Way { moment, own, directories_end, files: Rc::clone(&files) }));
    Ok(files)
}

fn uri(exchange: &Exchange) -> String {
    String::from_utf8_lossy(&exchange.request.path).into_owned()
}

/// Looks for the files in the directories from a root, which ends there, to the end of a path.
fn search(
    exchange: &Exchange,
    directories: &[u8],
    (root_end, overlay): (usize, &Arc<Overlay>),
) -> Result<Files, String> {
    let (mut list, mut opened) = (Vec::with_capacity(USUAL_COUNT), Vec::new());
    let name_length = overlay.names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut file = Vec::with_capacity(directories.len() + 1 + name_length);
    file.extend_from_slice(&directories[..root_end.min(directories.len())]);
    let segments = directories.get(root_end..).unwrap_or_default().split(|&byte| byte == b'/');
    // The root itself comes before the first segment.
    let segments = std::iter::once(&b""[..]).chain(segments.filter(|segment| !segment.is_empty()));
    for (depth, segment) in segments.enumerate() {
        if depth > DIRECTORIES_MAX {
            return Err(format!("the path of \"{}\" leads through too many directories", uri(exchange)));
        }
        if !segment.is_empty() {
            file.push(b'/');
            file.extend_from_slice(segment);
        }
        let directory_end = file.len();
        let rule = rule(exchange, overlay, &file[root_end..]);
        if !reads_files(overlay, rule) {
            continue;
        }
        match first(exchange, overlay, &mut file) {
            Ok(Some((name, stat, open))) => {
                list.push(File { directory_end, name, rule, stamp: Stamp::of(&stat) });
                opened.extend(open.map(Arc::new));
            }
            Ok(None) => {}
            // Not a directory but the file, with its own path behind it at most; or one behind a link.
            Err(Errno::NOTDIR | Errno::NAMETOOLONG) if !is_refused(exchange, &file[..directory_end]) => {
                break;
            }
            Err(error) => return Err(failed(as_path(&file), &error.into())),
        }
        file.truncate(directory_end);
    }
    let overlay = Arc::clone(overlay);
    let files = Files { overlay, innermost: file, root_end, list, opened, is_fresh: false };
    Ok(files.named_by_last())
}

/// The rule of a directory on the way to a request's file.
fn rule(exchange: &Exchange, overlay: &Overlay, below_root: &[u8]) -> usize {
    match &exchange.scope.policy.root.alias {
        _ if overlay.rules.len() == 1 => 0,
        // The URI of the directory is not known.
        Some(name) if name.kind == LocationKind::Regex => 0,
        alias => rule_of(overlay, alias.as_ref(), below_root),
    }
}

/// The rule of the directory with this path below the root of a location.
pub(super) fn rule_of(overlay: &Overlay, alias: Option<&LocationName>, below_root: &[u8]) -> usize {
    let alias = alias.map_or(&b""[..], |name| name.text.strip_suffix(b"/").unwrap_or(&name.text));
    let uri = [alias, below_root, b"/"].concat();
    overlay.rules.iter().position(|(start, _)| uri.starts_with(start)).unwrap_or(0)
}

/// Whether the files of a directory count at all.
fn reads_files(overlay: &Overlay, rule: usize) -> bool {
    overlay.rules[rule].1.as_ref().is_none_or(|allowed| allowed.reads_files())
}

/// The first of the names that is in the directory with this path. A name is added to the path, also that of a failure.
fn first(
    exchange: &Exchange,
    overlay: &Overlay,
    path: &mut Vec<u8>,
) -> Result<Option<(usize, Stat, Option<fs::File>)>, Errno> {
    let directory_end = path.len();
    for (index, name) in overlay.names.iter().enumerate() {
        path.truncate(directory_end);
        path.push(b'/');
        path.extend_from_slice(name);
        match look(exchange, path) {
            Ok((stat, open)) => return Ok(Some((index, stat, open))),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// What is at the path of a request, and whether that is not a directory, so that there are no settings below it.
fn own_file(path: Vec<u8>) -> (Rc<FileStatus>, bool) {
    if names_directory(&path) {
        return (Rc::new(FileStatus { path, metadata: None }), false);
    }
    let found = fs::metadata(as_path(&path));
    let is_no_directory = match &found {
        Ok(metadata) => !metadata.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    (Rc::new(FileStatus { path, metadata: found.ok() }), is_no_directory)
}

/// Attaches what is at the path of a request, if that was looked at.
fn attach(exchange: &Exchange, own: Rc<FileStatus>) {
    if !names_directory(&own.path) {
        exchange.attach_own_shared(own);
    }
}

/// Whether a path is that of a directory, whatever is there.
fn names_directory(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

/// What is at a path; it is open where the way to it matters.
fn look(exchange: &Exchange, path: &[u8]) -> Result<(Stat, Option<fs::File>), Errno> {
    match &exchange.scope.policy.overlay_opener {
        None => Ok((rustix::fs::stat(path)?, None)),
        Some(Opener(open)) => {
            let unknown = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let file = open(exchange, path).map_err(unknown)?;
            Ok((rustix::fs::fstat(&file)?, Some(file)))
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
    let uri = &exchange.request.path;
    if root.alias.is_none() && uri.starts_with(b"/") {
        // The path is the root's without its last slash, and the URI.
        return path.len().saturating_sub(uri.len());
    }
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

pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
