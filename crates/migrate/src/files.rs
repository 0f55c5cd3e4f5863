//! Files below the directories of a site: a few of each kind.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Files of one directory of a site for which requests are made, and of one kind among them.
pub const ROOT_FILES_MAX: usize = 200;
const KIND_FILES_MAX: usize = 3;
/// Entries that are looked at, and how deep.
const ENTRIES_MAX: usize = 5000;
const DEPTH_MAX: usize = 5;

/// Paths of requests for files and directories below `root`, which the path `base` reaches. Files of the same extension are a kind.
pub(crate) fn below(root: &Path, base: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut kinds: HashMap<String, usize> = HashMap::new();
    let mut seen = 0;
    let mut open = vec![(root.to_owned(), base.trim_end_matches('/').to_owned(), 0)];
    while let Some((directory, path, depth)) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).take(ENTRIES_MAX).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            seen += 1;
            if seen > ENTRIES_MAX || found.len() >= ROOT_FILES_MAX {
                return found;
            }
            let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
            let path = format!("{path}/{}", encoded(name.as_encoded_bytes()));
            let extension = match kind.is_dir() {
                true => "/".to_owned(),
                false => Path::new(&name).extension().map_or(String::new(), |it| it.display().to_string()),
            };
            let count = kinds.entry(extension).or_default();
            *count += 1;
            if *count <= KIND_FILES_MAX {
                // Without the slash at its end, a directory is redirected.
                found.push(path.clone());
                if kind.is_dir() {
                    found.push(format!("{path}/"));
                }
            }
            if kind.is_dir() && depth < DEPTH_MAX {
                open.push((entry.path(), path, depth + 1));
            }
        }
    }
    found
}

/// A name in a path of a request.
pub(crate) fn encoded(name: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(byte);
    name.iter()
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_each_kind() {
        let directory = tempfile::tempdir().unwrap();
        for n in 0..10 {
            fs::write(directory.path().join(format!("{n} a.html")), "").unwrap();
        }
        fs::create_dir(directory.path().join("d")).unwrap();
        fs::write(directory.path().join("d/e.css"), "").unwrap();
        let found = below(directory.path(), "/b/");
        let expected = ["/b/0%20a.html", "/b/1%20a.html", "/b/2%20a.html", "/b/d", "/b/d/", "/b/d/e.css"];
        assert_eq!(found, expected.map(str::to_owned));
        assert!(below(Path::new("/no/such/directory"), "/").is_empty());
    }
}
