//! What lies next to the blocks in the folder of results: raw output and configurations.

use std::fs;
use std::path::{Component, Path};

/// So much of a file is shown; the whole is behind a link.
const LINES_MAX: usize = 40;
const BYTES_MAX: usize = 4000;

/// A file below the folder of results.
pub(super) struct Evidence {
    /// Its path below that folder, with `/` between its parts.
    pub(super) path: String,
    /// Its beginning.
    pub(super) excerpt: String,
}

/// The beginning of a file below `out`; `None` where it is not there, or its path leads elsewhere.
pub(super) fn file(out: &Path, path: &str) -> Option<Evidence> {
    if !is_below(path) {
        return None;
    }
    let bytes = fs::read(out.join(path)).ok()?;
    Some(Evidence { path: path.to_owned(), excerpt: beginning(&bytes) })
}

/// The files of a configuration, by name.
pub(super) fn configuration(out: &Path, digest: &str) -> Vec<Evidence> {
    let mut files = Vec::new();
    if is_below(digest) && !digest.is_empty() {
        collect(out, &format!("configurations/{digest}"), &mut files);
    }
    files
}

/// Whether a path names something below where it begins.
pub(super) fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn collect(out: &Path, folder: &str, files: &mut Vec<Evidence>) {
    let Ok(entries) = fs::read_dir(out.join(folder)) else { return };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        let path = format!("{folder}/{name}");
        let is_folder = fs::symlink_metadata(out.join(&path)).is_ok_and(|metadata| metadata.is_dir());
        if is_folder {
            collect(out, &path, files);
        } else {
            files.extend(file(out, &path));
        }
    }
}

fn beginning(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_MAX)]);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.len().min(LINES_MAX);
    let mut excerpt = lines[..shown].join("\n");
    if shown < lines.len() || bytes.len() > BYTES_MAX {
        excerpt.push_str("\n…");
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_is_shown() {
        for path in ["", "/etc/passwd", "../a", "raw/../../a", "./../a"] {
            assert!(!is_below(path), "{path}");
        }
        assert!(is_below("raw/a b.txt"));
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join("a.txt"), "one\ntwo").unwrap();
        assert_eq!(file(out.path(), "a.txt").unwrap().excerpt, "one\ntwo");
        assert!(file(out.path(), "../a.txt").is_none());
    }

    #[test]
    fn long_output_is_cut_and_says_so() {
        let long = beginning("line\n".repeat(1000).as_bytes());
        assert_eq!((long.lines().count(), long.ends_with('…')), (LINES_MAX + 1, true));
        assert!(beginning(&[b'a'; 10_000]).len() <= BYTES_MAX + 4);
    }

    #[test]
    fn configurations_are_found_by_their_digest() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("configurations/0a/conf.d");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("b.conf"), "b").unwrap();
        fs::write(out.path().join("configurations/0a/a.conf"), "a").unwrap();
        let paths: Vec<String> = configuration(out.path(), "0a").into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["configurations/0a/a.conf", "configurations/0a/conf.d/b.conf"]);
        assert!(configuration(out.path(), "..").is_empty());
    }
}
