//! Where files of users and groups may be.

use super::{AUTH_USER_FILE, Basic, Provider};
use crate::shared::files;
use conf::Diagnostic;
use contract::{Root, View};
use std::path::{Component, Path, PathBuf};

impl Basic {
    /// A warning if no user can be checked, so that requests that need one get 500.
    pub(crate) fn doubt(&self, view: &View<'_>, root: &Root) -> Option<Diagnostic> {
        const THEN: &str = "requests that need a user get 500";
        if self.digest.is_none() && self.providers.first() == Some(&Provider::Anonymous) {
            return None;
        }
        // An outer file may name the file of users.
        let users = self.users.as_ref()?;
        let text = root.path.constant()?;
        let end = match root.alias {
            None => text.len(),
            Some(_) => text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1),
        };
        if self.is_below(users, &root.prefix.join(files::as_path(&text[..end]))) {
            return None;
        }
        let place = view.all(&AUTH_USER_FILE).last()?.span;
        let directory = users.parent().unwrap_or(users).display();
        let hint = format!("write \"htaccess_user_files {directory};\" in the server's configuration");
        Some(Diagnostic::warn(format!("{}: {THEN}", outside_text(users))).at(place).hint(hint))
    }

    /// Whether the text of a path is below the root, or below a directory that the server's configuration names.
    pub(super) fn is_below(&self, path: &Path, root: &Path) -> bool {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        let allowed = self.directories.iter().map(PathBuf::as_path).chain([root]);
        !climbs && allowed.into_iter().any(|directory| starts_with_absolute(path, directory))
    }
}

pub(super) fn starts_with_absolute(path: &Path, directory: &Path) -> bool {
    directory.is_absolute() && path.starts_with(directory)
}

/// The message about a file that a `.htaccess` file may not name.
pub(super) fn outside_text(path: &Path) -> String {
    let path = path.display();
    format!("\"{path}\" is neither below the root nor below a directory of \"htaccess_user_files\"")
}
