//! What all contenders serve: the same files, and one certificate.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::prose;
use crate::model::experiment::{Content, SiteFile};
use crate::model::numbers;

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
        write(&root, files)?;
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

/// Writes files below a root, which is there then.
pub fn write(root: &Path, files: &[SiteFile]) -> Result<()> {
    fs::create_dir_all(root).with_context(|| root.display().to_string())?;
    for file in files {
        let bytes = bytes_of(file);
        let count = file.count.unwrap_or(1);
        for number in 0..count {
            let path = root.join(numbers::put(file.path.trim_start_matches('/'), number, count));
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
            if file.gzipped {
                let path = path.with_added_extension("gz");
                fs::write(&path, gzip(&bytes)?).with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(())
}

/// The content of a file.
pub fn bytes_of(file: &SiteFile) -> Vec<u8> {
    match (&file.text, file.lines, file.content) {
        (Some(text), Some(lines), _) => numbers::lines(text, lines).into_bytes(),
        (Some(text), None, _) => text.clone().into_bytes(),
        (None, _, Content::Prose) => prose::page(usize::try_from(file.length).unwrap_or(usize::MAX)),
        (None, _, Content::Letters) => content(&file.path, file.length),
    }
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::best());
    coder.write_all(bytes)?;
    Ok(coder.finish()?)
}

/// The content of a file of a length: letters, so that a shift or a cut shows. A script prints as many.
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
        let files = [SiteFile { path: "a/b.png".into(), length: 30, ..SiteFile::default() }];
        let site = Site::create(folder.path(), &files).unwrap();
        assert_eq!(fs::read(site.root.join("a/b.png")).unwrap(), b"abcdefghijklmnopqrstuvwxyzabcd");
        let key = fs::read(&site.key).unwrap();
        assert_eq!(fs::read(Site::create(folder.path(), &files).unwrap().key).unwrap(), key);
    }

    #[test]
    fn files_are_numbered_written_out_and_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let many = SiteFile {
            path: "many/{number}".into(),
            length: 9,
            count: Some(11),
            gzipped: true,
            ..SiteFile::default()
        };
        let lines = Some("deny {number};".to_owned());
        let list = SiteFile { path: "list".into(), text: lines, lines: Some(2), ..SiteFile::default() };
        let root = Site::create(folder.path(), &[many, list]).unwrap().root;
        assert_eq!(fs::read_to_string(root.join("list")).unwrap(), "deny 0;\ndeny 1;\n");
        assert_eq!(fs::read_to_string(root.join("many/10")).unwrap(), "abcdefghi");
        assert_eq!(fs::read(root.join("many/00.gz")).unwrap()[..2], [31, 139]);
        assert!(!root.join("many/11").exists());
    }
}
