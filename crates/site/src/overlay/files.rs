//! The files with settings on the way from a root to a file.

use crate::layers::Layers;
use conf::apache::Allowed;
use contract::{LocationName, Overlay};
use journal::clock::Time;
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// Something with settings that lies on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A section of the main configuration, by its number among the layers, and where the directory ends that it counts from.
    Section(usize, usize),
    File(File),
}

/// A file with settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Where its directory ends in the path of the innermost file.
    pub(super) directory_end: usize,
    /// Which of the overlay's names it has.
    pub(super) name: usize,
    /// Which of the overlay's rules counts for it.
    pub(super) rule: usize,
    pub(super) stamp: Stamp,
}

/// The files that lie on one way. Their directories contain each other, so that one path says where all of them are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) overlay: Arc<Overlay>,
    /// The path of the innermost file.
    pub(super) innermost: Vec<u8>,
    /// Where the root ends in that path, without a slash.
    pub(super) root_end: usize,
    /// The outermost first.
    pub(super) list: Vec<Found>,
    /// The sections of the main configuration; none where it has none for directories.
    pub(super) layers: Option<Arc<Layers>>,
    /// The same files, open, where it matters by which links they were found; else none.
    pub(super) opened: Vec<Arc<fs::File>>,
    /// A file changed so lately that it may change again without another stamp.
    pub(super) is_fresh: bool,
    /// When they were looked for, in milliseconds of uptime.
    pub(super) found: u64,
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
            list: vec![Found::File(File {
                directory_end: end(directory),
                name,
                rule,
                stamp: Stamp::of(&stat),
            })],
            layers: None,
            opened: Vec::new(),
            is_fresh: false,
            found: Time::now().uptime_ms,
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
        match &self.layers {
            Some(layers) => layers.allowed(file.rule),
            None => self.overlay.rules[file.rule].1.as_ref(),
        }
    }

    /// The root, without a slash at its end.
    pub(super) fn root(&self) -> &[u8] {
        self.innermost.get(..self.root_end).unwrap_or(&self.innermost)
    }

    /// The files of the directories down to the one whose path ends there.
    pub(super) fn down_to(&self, directory_end: usize) -> Files {
        let list = self.list.iter().copied().filter(|found| found.directory_end() <= directory_end).collect();
        Files { list, ..self.clone() }.named_by_last()
    }

    /// Makes the path of the last file that of the innermost one.
    pub(super) fn named_by_last(mut self) -> Files {
        if let Some(last) = self.list.last() {
            self.innermost.truncate(last.directory_end());
            self.innermost.push(b'/');
        }
        if let Some(Found::File(last)) = self.list.last() {
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
        let size = |found: &Found| match found {
            Found::Section(..) => 0,
            Found::File(file) => u64::try_from(file.stamp.size).unwrap_or(0),
        };
        self.list.iter().map(size).fold(0, u64::saturating_add)
    }
}

impl Found {
    pub(super) fn directory_end(&self) -> usize {
        match self {
            Found::Section(_, directory_end) => *directory_end,
            Found::File(file) => file.directory_end,
        }
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

/// The rule of the directory with this path below the root of a location.
pub(super) fn rule_of(overlay: &Overlay, alias: Option<&LocationName>, below_root: &[u8]) -> usize {
    let alias = alias.map_or(&b""[..], |name| name.text.strip_suffix(b"/").unwrap_or(&name.text));
    let uri = [alias, below_root, b"/"].concat();
    overlay.rules.iter().position(|(start, _)| uri.starts_with(start)).unwrap_or(0)
}

/// Whether the files of a directory count at all.
pub(super) fn reads_files(overlay: &Overlay, rule: usize) -> bool {
    overlay.rules[rule].1.as_ref().is_none_or(|allowed| allowed.reads_files())
}

/// The line of the log about a file that cannot be looked at.
pub(super) fn failed(file: &Path, error: &io::Error) -> String {
    format!("\"{}\" cannot be read, so all requests are denied ({error})", file.display())
}

pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
