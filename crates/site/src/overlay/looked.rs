//! Files that sections of `.htaccess` files depend on (`<IfFile>`).

use super::files::{Files, as_path};
use contract::{Budget, Look, Spent};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether there was something at each of these paths when the `.htaccess` files were read.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The paths are below this directory.
    root: Box<[u8]>,
    paths: HashMap<PathBuf, bool>,
}

impl Looked {
    /// Gives the same answers once more, so that a section counts in all parts of the files or in none.
    pub(super) fn again(self: &Arc<Looked>) -> Box<Look> {
        let looked = Arc::clone(self);
        Box::new(move |path| looked.paths.get(path).copied())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether everything is still as it was. The budget of a request pays for it, if it is given.
    ///
    /// # Errors
    /// [`Spent`].
    pub(super) fn holds(&self, files: &Files, budget: Option<&Budget>) -> Result<bool, Spent> {
        if self.is_empty() {
            return Ok(true);
        }
        if *self.root != *files.root() {
            return Ok(false);
        }
        for (path, was_there) in &self.paths {
            budget.map_or(Ok(()), |budget| budget.step(path.as_os_str().len()))?;
            if is_there(path) != *was_there {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Looks for files while `.htaccess` files are read.
#[derive(Clone, Default)]
pub(super) struct Looker(Arc<Mutex<HashMap<PathBuf, bool>>>);

impl Looker {
    pub(super) fn look(&self, root: &[u8]) -> Box<Look> {
        let (paths, root) = (Arc::clone(&self.0), as_path(root).to_path_buf());
        Box::new(move |path| {
            let mut paths = paths.lock().unwrap_or_else(PoisonError::into_inner);
            may_look(path, &root).then(|| *paths.entry(path.to_path_buf()).or_insert_with(|| is_there(path)))
        })
    }

    /// What was found.
    pub(super) fn end(self, root: &[u8]) -> Looked {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Looked { root: root.into(), paths: std::mem::take(&mut paths) }
    }
}

fn may_look(path: &Path, root: &Path) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let has_nul = path.as_os_str().as_bytes().contains(&0);
    !climbs && !has_nul && path.starts_with(root)
}

/// As in Apache a directory is there, too, and a symbolic link only with what it leads to.
fn is_there(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok()
}
