//! Reading an archive, which may be of unknown origin: nothing is written outside of the folder, and its size is bounded.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use tar::EntryType;

use super::manifest::Manifest;
use super::{MANIFEST, SUMS};
use crate::measure::digest;
use crate::model::experiment::Experiment;

/// The most that an archive may hold.
const BYTES_MAX: u64 = 16 << 30;
const FILES_MAX: usize = 1_000_000;

/// An archive in a folder, whose files are as they were packed.
pub struct Opened {
    /// The folder of results.
    pub folder: PathBuf,
    /// What the archive says of itself.
    pub manifest: Manifest,
    /// The digests of its files by their paths.
    pub files: BTreeMap<String, String>,
}

/// Unpacks an archive into a folder that is empty or not there, and compares each file with its digest. Fails with the
/// names of files that are missing, were added or differ.
pub fn unpack(archive: &Path, folder: &Path) -> Result<Opened> {
    let is_empty = fs::read_dir(folder).map(|mut entries| entries.next().is_none());
    ensure!(
        is_empty.unwrap_or(!folder.exists()),
        "{} is there already: move it, or name another folder by --out",
        folder.display()
    );
    let name = || archive.display().to_string();
    let file = File::open(archive).with_context(name)?;
    let files =
        extract(file, folder).with_context(|| format!("{}: not a whole archive of fulmar-lab", name()))?;
    let wrong = differences(folder, &files).with_context(name)?;
    ensure!(wrong.is_empty(), "{}: it was changed after it was packed: {}", name(), list(&wrong));
    let text = fs::read_to_string(folder.join(MANIFEST)).with_context(|| MANIFEST.to_owned())?;
    let manifest = Manifest::parse(&text).with_context(name)?;
    Ok(Opened { folder: folder.to_owned(), manifest, files })
}

impl Opened {
    /// The experiments of the report, in its order.
    pub fn experiments(&self) -> Result<Vec<Experiment>> {
        let kept = Experiment::kept(&self.folder)?;
        let named = |id: &String| {
            let found = kept.iter().find(|experiment| experiment.id == *id).cloned();
            found.with_context(|| format!("the archive has no file of the experiment {id}"))
        };
        self.manifest.experiments.iter().map(named).collect()
    }
}

/// Writes the files into the folder: their digests by their paths.
fn extract(archive: impl Read, folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(archive)));
    let (mut files, mut bytes) = (BTreeMap::new(), 0);
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.into_owned();
        match entry.header().entry_type() {
            EntryType::Directory => continue,
            EntryType::Regular => {}
            other => bail!("{}: only files are expected, and it is {other:?}", path.display()),
        }
        let name =
            below_top(&path).with_context(|| format!("{}: such a path is not expected", path.display()))?;
        bytes += entry.size();
        ensure!(bytes <= BYTES_MAX, "more than {BYTES_MAX} bytes");
        ensure!(files.len() < FILES_MAX, "more than {FILES_MAX} files");
        let to = folder.join(&name);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        let mut file = File::create_new(&to).with_context(|| to.display().to_string())?;
        let size = entry.size();
        let copied = io::copy(&mut entry.take(size), &mut file)?;
        ensure!(copied == size, "{name}: it ends after {copied} of {size} bytes");
        files.insert(name, digest::of_file(&to)?);
    }
    Ok(files)
}

/// A path without its first folder, if nothing in it leads elsewhere.
fn below_top(path: &Path) -> Option<String> {
    let names: Option<Vec<&str>> = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    let names = names?;
    (names.len() > 1).then(|| names[1..].join("/"))
}

/// The files that are not as the list of digests says.
fn differences(folder: &Path, files: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let sums = fs::read_to_string(folder.join(SUMS)).with_context(|| SUMS.to_owned())?;
    let mut listed = BTreeMap::new();
    for (line, number) in sums.lines().zip(1..) {
        let (digest, name) = line
            .split_once("  ")
            .with_context(|| format!("{SUMS}:{number}: a digest and a name are expected"))?;
        listed.insert(name, digest);
    }
    let mut wrong = Vec::new();
    for (name, digest) in &listed {
        match files.get(*name) {
            None => wrong.push(format!("{name} is missing")),
            Some(found) if found != digest => wrong.push(format!(
                "{name} has the SHA-256 {}… instead of {}…",
                digest::beginning(found),
                digest::beginning(digest)
            )),
            Some(_) => {}
        }
    }
    let is_added = |name: &&String| *name != SUMS && !listed.contains_key(name.as_str());
    wrong.extend(files.keys().filter(is_added).map(|name| format!("{name} was added")));
    Ok(wrong)
}

/// The first of them, and how many more there are.
fn list(wrong: &[String]) -> String {
    let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
    match wrong.len() {
        few if few <= 5 => shown,
        many => format!("{shown}; and {} more", many - 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        let of = |path: &str| below_top(Path::new(path));
        assert_eq!(of("top/raw/a.txt").as_deref(), Some("raw/a.txt"));
        for path in ["a.txt", "/etc/passwd", "top/../../a", "../a/b", ""] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_link_in_an_archive_is_refused() {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "top/raw", "/etc").unwrap();
        let plain = archive.into_inner().unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut plain.as_slice(), &mut packed).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = extract(packed.finish().unwrap().as_slice(), folder.path()).unwrap_err().to_string();
        assert!(error.contains("top/raw: only files are expected"), "{error}");
    }
}
