//! The files, in memory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

/// The files of a folder by their path in a URL, which begins with a slash.
#[derive(Debug)]
pub(super) struct Cache {
    files: HashMap<String, Entry>,
    /// The answer to everything else.
    pub(super) missing: Entry,
}

/// An answer that is ready but for what changes from request to request.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// The status line and the fields that stay the same.
    pub(super) head: String,
    /// The status code with its reason.
    pub(super) status: String,
    /// The media type of the content.
    pub(super) media_type: String,
    /// The content.
    pub(super) content: Vec<u8>,
}

/// The most bytes that are held.
const LIMIT_BYTES: u64 = 1 << 30;

/// What a file is, by the end of its name.
const TYPES: &[(&str, &str)] = &[
    (".html", "text/html"),
    (".txt", "text/plain"),
    (".css", "text/css"),
    (".js", "text/javascript"),
    (".json", "application/json"),
    (".png", "image/png"),
    (".jpg", "image/jpeg"),
];

impl Cache {
    /// Reads all files below a folder. Links and files whose name is not UTF-8 are left out.
    pub(super) fn read(root: &Path) -> Result<Cache> {
        let mut files = HashMap::new();
        let mut room = LIMIT_BYTES;
        let mut folders = vec![(root.to_path_buf(), String::from("/"))];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let (kind, path) = (entry.file_type()?, entry.path());
                if kind.is_dir() {
                    folders.push((path, format!("{prefix}{name}/")));
                } else if kind.is_file() {
                    let file = Entry::of(&path)?;
                    let length = file.content.len() as u64;
                    ensure!(length <= room, "{}: more than {LIMIT_BYTES} bytes of files", root.display());
                    room -= length;
                    files.insert(format!("{prefix}{name}"), file);
                }
            }
        }
        Ok(Cache { files, missing: Entry::new("404 Not Found", "text/plain", "", b"not found\n".to_vec()) })
    }

    /// The file that a request's target means: its path without the query, decoded; the index where it ends in a
    /// slash. A path that climbs out of the root names no file that was read.
    pub(super) fn find(&self, target: &str) -> Option<&Entry> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let decoded = if path.contains('%') { decoded(path)? } else { String::new() };
        let path = if decoded.is_empty() { path } else { &decoded };
        if path.ends_with('/') {
            return self.files.get(&format!("{path}index.html"));
        }
        self.files.get(path)
    }
}

impl Entry {
    fn of(path: &Path) -> Result<Entry> {
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        let modified = fs::metadata(path)?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = format!("Last-Modified: {}\r\n", httpdate::fmt_http_date(modified));
        let name = path.to_string_lossy();
        let known = TYPES.iter().find(|(ending, _)| name.ends_with(ending));
        let media_type = known.map_or("application/octet-stream", |(_, media_type)| media_type);
        Ok(Entry::new("200 OK", media_type, &modified, content))
    }

    /// An answer with these fields, each with its end of line.
    pub(super) fn new(status: &str, media_type: &str, fields: &str, content: Vec<u8>) -> Entry {
        let length = content.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: reference\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{fields}"
        );
        Entry { head, status: status.into(), media_type: media_type.into(), content }
    }
}

/// A path with its percent-encoded bytes as they are. `None` where it is no UTF-8 or not rightly encoded.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a b")).unwrap();
        fs::write(folder.path().join("secret"), "no").unwrap();
        fs::write(root.join("1k.txt"), "x").unwrap();
        fs::write(root.join("a b/index.html"), "deep").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        let cache = Cache::read(&root).unwrap();
        let found = |target: &str| cache.find(target).map(|file| String::from_utf8_lossy(&file.content));
        assert_eq!(found("/1k.txt?q").unwrap(), "x");
        assert_eq!(found("/a%20b/").unwrap(), "deep");
        for target in
            ["/", "/a b", "/../secret", "/%2e%2e/secret", "/link", "1k.txt", "/%", "/%zz", "/%ff", ""]
        {
            assert_eq!(found(target), None, "{target}");
        }
        let head = &cache.find("/1k.txt").unwrap().head;
        assert!(head.contains("Content-Type: text/plain\r\nContent-Length: 1\r\nLast-Modified: "), "{head}");
        assert!(Cache::read(&root.join("no")).is_err());
    }
}
