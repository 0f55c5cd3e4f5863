//! Looks for what is wrong with the `.htaccess` files before a request does.

use super::Base;
use super::chain;
use super::files::{self, Files};
use conf::apache::SetNames;
use contract::{LocationKind, LocationName, Overlay, Root};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt;
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
    pub overlay: Arc<Overlay>,
    pub location: Option<LocationName>,
    alias: Option<LocationName>,
    /// None where the directory depends on the request.
    pub directory: Option<PathBuf>,
}

impl ServedRoot {
    pub(crate) fn new(overlay: Arc<Overlay>, location: Option<LocationName>, root: &Root) -> ServedRoot {
        ServedRoot { overlay, location, alias: root.alias.clone(), directory: fixed_directory(root) }
    }

    /// Whether files below the same directory count in the same way.
    pub(crate) fn has_same_settings(&self, other: &ServedRoot) -> bool {
        self.overlay.names == other.overlay.names && self.overlay.rules == other.overlay.rules
    }

    /// Which rule counts for a directory below the root.
    fn rule(&self, directory: &Path) -> usize {
        let root = self.directory.as_deref().unwrap_or(directory);
        let below = directory.strip_prefix(root).unwrap_or(Path::new("")).as_os_str().as_bytes();
        let slash: &[u8] = if below.is_empty() { b"" } else { b"/" };
        files::rule_of(&self.overlay, self.alias.as_ref(), &[slash, below].concat())
    }
}

/// The directory of a root, if it depends on no variable and no pattern.
fn fixed_directory(root: &Root) -> Option<PathBuf> {
    let is_pattern = root.alias.as_ref().is_some_and(|name| name.kind == LocationKind::Regex);
    let text = root.path.constant().filter(|_| !is_pattern)?;
    Some(root.prefix.join(files::as_path(text)))
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
    /// The variables that the files so far set. Outer files come before inner ones.
    set: SetNames,
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
    /// Whether the file is in the root of a site or of a location.
    pub is_root: bool,
}

/// Reads all files below the roots. Those of one directory follow each other.
pub(crate) fn survey(base: &Arc<Base>, roots: &[ServedRoot]) -> Survey {
    let mut survey = Survey::default();
    for same in roots.chunk_by(|one, other| one.directory == other.directory) {
        match &same[0].directory {
            Some(directory) => survey.walk(base, same, directory),
            None => survey.unknown_roots += 1,
        }
    }
    survey
}

impl Survey {
    /// Goes through a directory and those in it, the outer ones first. Symbolic links to directories are not followed.
    fn walk(&mut self, base: &Arc<Base>, roots: &[ServedRoot], directory: &Path) {
        let mut waiting = VecDeque::from([(directory.to_path_buf(), 0)]);
        while let Some((directory, depth)) = waiting.pop_front() {
            if self.directories == DIRECTORIES_MAX {
                self.is_cut = true;
                return;
            }
            self.directories += 1;
            self.look(base, roots, &directory);
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

    /// Looks at a directory below the root of these locations. The one with the longest prefix counts.
    fn look(&mut self, base: &Arc<Base>, roots: &[ServedRoot], directory: &Path) {
        let rules = roots.iter().map(|root| (root, root.rule(directory))).rev();
        let Some((root, rule)) = rules.max_by_key(|(root, rule)| root.overlay.rules[*rule].0.len()) else {
            return;
        };
        let top = root.directory.as_deref().unwrap_or(directory);
        let Some(mut files) = Files::of(&root.overlay, top, directory, rule) else { return };
        let path = files::as_path(files.innermost()).to_path_buf();
        let length = files.bytes();
        if self.files == FILES_MAX || self.bytes.saturating_add(length) > BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.files += 1;
        self.bytes += length;
        let loaded = chain::check(base, &mut files, &mut self.set);
        let notes = loaded.as_ref().map(|chain| chain.notes.clone()).unwrap_or_default();
        let is_root = directory == top;
        let problem = |text, status| Problem { path: path.clone(), text, status, is_root };
        self.problems.extend(notes.into_iter().map(|text| problem(text, None)));
        let compiled = loaded.and_then(|chain| {
            let none = vec![false; chain.selection_count()];
            let (.., notes) = chain.compile(base, root.location.as_ref(), &none)?;
            Ok((conf::apache::purposes(chain.counts.iter().copied()), notes))
        });
        match compiled {
            Ok((does, notes)) => {
                self.problems.extend(notes.into_iter().map(|text| problem(text, None)));
                self.found.push(Found { path, does });
            }
            Err(failure) => {
                let texts = std::iter::once(failure.message).chain(failure.further);
                let status = Some(failure.status.0);
                self.problems.extend(texts.map(|text| problem(text, status)));
            }
        }
    }
}
