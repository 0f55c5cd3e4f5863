//! Looks for what is wrong with the `.htaccess` files before a request does.

use super::Base;
use super::chain;
use super::files::{Files, Stamp};
use contract::{LocationName, Overlay, Root};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many directories are looked at, and how far below the root of a location.
const DIRECTORIES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 32;

/// How many files are read, and how many bytes of them.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A root below which `.htaccess` files count.
#[derive(Clone)]
pub(crate) struct ServedRoot {
    pub overlay: Overlay,
    pub location: Option<LocationName>,
    /// None where the directory depends on the request.
    pub directory: Option<PathBuf>,
}

impl ServedRoot {
    pub(crate) fn new(overlay: Overlay, location: Option<LocationName>, root: &Root) -> ServedRoot {
        ServedRoot { overlay, location, directory: root.fixed_directory() }
    }
}

/// What was found below all roots.
#[derive(Debug, Default)]
pub struct Survey {
    /// Files with settings that were read.
    pub files: usize,
    /// The files without a mistake, and what each does.
    pub found: Vec<Found>,
    /// Directories that were looked at.
    pub directories: usize,
    /// Roots that depend on the request, and were not looked at.
    pub unknown_roots: usize,
    /// A limit ended the search.
    pub is_cut: bool,
    /// The problems, in the order in which they were found.
    pub problems: Vec<Problem>,
    bytes: u64,
}

/// A file that was read.
#[derive(Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// What its directives do.
    pub does: String,
}

/// Something wrong with a file.
#[derive(Debug)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, with the path and the line.
    pub text: String,
    /// The status of the answer to all requests for the directory; none for what is only a warning.
    pub status: Option<u16>,
}

/// Reads all files below the roots.
pub(crate) fn survey(base: &Arc<Base>, roots: &[ServedRoot]) -> Survey {
    let mut survey = Survey::default();
    for root in roots {
        match &root.directory {
            Some(directory) => survey.walk(base, root, directory),
            None => survey.unknown_roots += 1,
        }
    }
    survey
}

impl Survey {
    /// Goes through a directory and those in it, the outer ones first. Symbolic links to directories are not followed.
    fn walk(&mut self, base: &Arc<Base>, root: &ServedRoot, directory: &Path) {
        let mut waiting = VecDeque::from([(directory.to_path_buf(), 0)]);
        while let Some((directory, depth)) = waiting.pop_front() {
            if self.directories == DIRECTORIES_MAX {
                self.is_cut = true;
                return;
            }
            self.directories += 1;
            self.look(base, root, &directory);
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let is_directory =
                |entry: &fs::DirEntry| entry.file_type().is_ok_and(|file_type| file_type.is_dir());
            let mut inner: Vec<_> =
                entries.flatten().filter(is_directory).map(|entry| entry.path()).collect();
            inner.sort_unstable();
            if depth == DEPTH_MAX || waiting.len() + inner.len() > DIRECTORIES_MAX {
                self.is_cut |= !inner.is_empty();
                continue;
            }
            waiting.extend(inner.into_iter().map(|path| (path, depth + 1)));
        }
    }

    fn look(&mut self, base: &Arc<Base>, root: &ServedRoot, directory: &Path) {
        let path = directory.join(root.overlay.file_name);
        let Ok(stat) = rustix::fs::stat(&path) else { return };
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        if self.files == FILES_MAX || self.bytes.saturating_add(length) > BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.files += 1;
        self.bytes += length;
        let top = root.directory.as_deref().unwrap_or(directory);
        let mut files = Files::one(top, directory, root.overlay.file_name, Stamp::of(&stat));
        let loaded = chain::load(base, root.overlay, &mut files);
        let notes = loaded.as_ref().map(|chain| chain.notes.clone()).unwrap_or_default();
        self.problems.extend(notes.into_iter().map(|text| Problem {
            path: path.clone(),
            text,
            status: None,
        }));
        let compiled = loaded.and_then(|chain| {
            let none = vec![false; chain.selection_count()];
            chain.compile(base, root.location.as_ref(), &none)?;
            Ok(conf::apache::purposes(chain.counts.iter().copied()))
        });
        match compiled {
            Ok(does) => self.found.push(Found { path, does }),
            Err(failure) => {
                let (text, status) = (failure.message, Some(failure.status.0));
                self.problems.push(Problem { path, text, status });
            }
        }
    }
}
