//! Paths of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::tree::Word;

/// The path of a word: unchanged if it begins with a slash, otherwise below `prefix`. It is not normalised, so
/// messages show the text of the configuration.
pub fn path(word: &Word, prefix: &Path) -> PathBuf {
    full_name(&word.text, prefix)
}

/// As [`path`], for a part of a word.
pub fn full_name(name: &[u8], prefix: &Path) -> PathBuf {
    if name.starts_with(b"/") {
        return PathBuf::from(OsStr::from_bytes(name));
    }
    let mut full = prefix.as_os_str().as_bytes().to_vec();
    if !full.is_empty() && !full.ends_with(b"/") {
        full.push(b'/');
    }
    full.extend_from_slice(name);
    PathBuf::from(OsStr::from_bytes(&full))
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    #[test]
    fn relative_names_start_at_the_prefix() {
        let prefix = Path::new("/etc/fulmar");
        assert_eq!(path(&word("html"), prefix).as_os_str(), "/etc/fulmar/html");
        assert_eq!(path(&word("../x"), Path::new("/p/")).as_os_str(), "/p/../x");
        assert_eq!(path(&word("/srv//www/"), prefix).as_os_str(), "/srv//www/");
        assert_eq!(path(&word("x"), Path::new("")).as_os_str(), "x");
    }
}
