//! What all contenders serve: the same files, and one certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::experiment::SiteFile;

/// The files and the certificate of an experiment.
#[derive(Clone, Debug)]
pub struct Site {
    /// The root of the files.
    pub root: PathBuf,
    /// A certificate for `localhost` that nobody has signed, as PEM.
    pub certificate: PathBuf,
    /// Its ECDSA key.
    pub key: PathBuf,
}

impl Site {
    /// Writes the files below a folder.
    pub fn create(folder: &Path, files: &[SiteFile]) -> Result<Site> {
        let root = folder.join("files");
        for file in files {
            let path = root.join(file.path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap_or(&root))?;
            fs::write(&path, content(&file.path, file.length)).with_context(|| path.display().to_string())?;
        }
        fs::create_dir_all(&root)?;
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        if !key.exists() {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
            fs::write(&certificate, made.cert.pem())?;
            fs::write(&key, made.signing_key.serialize_pem())?;
            // It protects nothing, and contenders that give up their privileges read it too.
            fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
        }
        let absolute = |path: &Path| fs::canonicalize(path).with_context(|| path.display().to_string());
        Ok(Site { root: absolute(&root)?, certificate: absolute(&certificate)?, key: absolute(&key)? })
    }
}

/// The content of a file: letters, so that a shift or a cut shows. A script prints as many.
pub fn content(path: &str, length: u64) -> Vec<u8> {
    if path.ends_with(".php") {
        return format!("<?php header('Content-Type: text/plain'); echo substr(str_repeat('abcdefghijklmnopqrstuvwxyz', {}), 0, {length});", length / 26 + 1).into_bytes();
    }
    (b'a'..=b'z').cycle().take(usize::try_from(length).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_as_long_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let files = [SiteFile { path: "a/b.png".into(), length: 30 }];
        let site = Site::create(folder.path(), &files).unwrap();
        assert_eq!(fs::read(site.root.join("a/b.png")).unwrap(), b"abcdefghijklmnopqrstuvwxyzabcd");
        let key = fs::read(&site.key).unwrap();
        assert_eq!(fs::read(Site::create(folder.path(), &files).unwrap().key).unwrap(), key);
    }
}
