//! `Include` and `IncludeOptional`: from a path, perhaps with wildcards, to files.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::glob;
use crate::loader::Inputs;
use crate::tree::printable;

/// Why a path leads to no file.
pub(super) enum Missing {
    /// No name matches the pattern; the folder that was searched.
    Match { pattern: Vec<u8>, folder: Vec<u8> },
    /// There is no such folder to search.
    Folder(Vec<u8>),
}

impl Missing {
    pub(super) fn diagnostic(&self) -> Diagnostic {
        let hint = "if this may be missing, write IncludeOptional";
        match self {
            Missing::Match { pattern, folder } => {
                let (pattern, folder) = (printable(pattern), printable(folder));
                Diagnostic::emerg(format!("no file matches \"{pattern}\" in \"{folder}\"")).hint(hint)
            }
            Missing::Folder(folder) => {
                Diagnostic::emerg(format!("there is no folder \"{}\"", printable(folder))).hint(hint)
            }
        }
    }
}

/// The absolute path without `.` and `..`, from a path that may begin at `root`.
pub(super) fn absolute(root: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let root = if path.starts_with(b"/") { &b""[..] } else { root };
    let has_slash_at_end = path.ends_with(b"/") && path.len() > 1;
    for part in root.split(|&byte| byte == b'/').chain(path.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut out = Vec::new();
    for part in parts {
        out.push(b'/');
        out.extend_from_slice(part);
    }
    if has_slash_at_end || out.is_empty() {
        out.push(b'/');
    }
    out
}

/// The paths that an absolute path with wildcards names, in the order in which Apache reads them: folder by folder. Paths
/// without wildcards need not exist.
pub(super) fn expand(inputs: &dyn Inputs, path: &[u8]) -> io::Result<Result<Vec<Vec<u8>>, Missing>> {
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').skip(1).collect();
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    for (index, part) in parts.iter().enumerate() {
        if !glob::is_pattern(part) {
            found.iter_mut().for_each(|base| join(base, part));
            continue;
        }
        let mut further = Vec::new();
        for base in &found {
            let names = list(inputs, base, part)?;
            let is_last = index + 1 == parts.len();
            let is_wanted = |path: &Vec<u8>| is_last || is_folder(inputs, path);
            let names: Vec<_> = names.into_iter().filter(is_wanted).collect();
            if names.is_empty() {
                let (pattern, folder) = (part.to_vec(), base.clone());
                let is_there = is_folder(inputs, base);
                return Ok(Err(if is_there {
                    Missing::Match { pattern, folder }
                } else {
                    Missing::Folder(folder)
                }));
            }
            further.extend(names);
        }
        found = further;
    }
    Ok(Ok(found))
}

/// All that a folder holds, sorted, hidden names too.
pub(super) fn entries(inputs: &dyn Inputs, folder: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let mut all = list(inputs, folder, b"*")?;
    all.extend(list(inputs, folder, b".[!.]*")?);
    all.extend(list(inputs, folder, b"..?*")?);
    all.sort();
    Ok(all)
}

fn join(base: &mut Vec<u8>, name: &[u8]) {
    base.push(b'/');
    base.extend_from_slice(name);
}

/// The names of a folder that match a pattern, as paths.
fn list(inputs: &dyn Inputs, folder: &[u8], pattern: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut full = escaped(folder);
    join(&mut full, pattern);
    let full = std::str::from_utf8(&full).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let paths = inputs.glob(full)?;
    // A folder whose name was escaped is named with the escapes.
    let named = |path: PathBuf| {
        let name = path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let mut full = folder.to_vec();
        join(&mut full, &name);
        full
    };
    let mut names: Vec<_> = paths.into_iter().map(named).collect();
    names.sort();
    Ok(names)
}

fn is_folder(inputs: &dyn Inputs, path: &[u8]) -> bool {
    let mut inside = escaped(path);
    inside.extend_from_slice(b"/.");
    let found = std::str::from_utf8(&inside).ok().and_then(|inside| inputs.glob(inside).ok());
    found.is_some_and(|found| !found.is_empty())
}

/// A path as a pattern that matches it alone.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for (index, part) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        for &byte in part {
            if glob::is_pattern(part) && b"*?[\\".contains(&byte) {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
    out
}

/// Whether a file or a folder is there.
pub(super) fn is_there(inputs: &dyn Inputs, path: &[u8]) -> bool {
    let found = std::str::from_utf8(&escaped(path)).ok().and_then(|path| inputs.glob(path).ok());
    found.is_some_and(|found| !found.is_empty())
}

/// A path as messages show it.
pub(super) fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_of_the_server() {
        for (path, expected) in [
            ("conf/a.conf", "/etc/apache2/conf/a.conf"),
            ("./t/../0.conf", "/etc/apache2/0.conf"),
            ("/x//y/", "/x/y/"),
            ("../../../../a", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(absolute(b"/etc/apache2", path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
