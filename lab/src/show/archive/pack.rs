//! Writing an archive. The same results give the same archive, byte for byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::contents::Contents;
use super::manifest::Manifest;
use super::{CITATION, MANIFEST, README, SUMS};
use crate::measure::{digest, environment};
use crate::model::block;
use crate::model::experiment::Experiment;
use crate::show::report;

/// The files and folders of results that an archive takes as they are. The report and the experiments are written for it.
const KEPT: &[&str] = &[block::FILE, environment::FILE, "procedure.txt", "raw", "configurations", "features"];

/// Where the content of a packed file is.
enum Content {
    File(PathBuf),
    Text(String),
}

impl Content {
    fn digest(&self) -> Result<String> {
        match self {
            Content::File(path) => digest::of_file(path),
            Content::Text(text) => Ok(digest::of(text.as_bytes())),
        }
    }
}

/// Writes the report again, and packs it together with what it is computed from: how many files. Fails where the archive is
/// there already. A file that could not be written whole is removed.
pub fn pack(contents: &Contents<'_>, archive: &Path) -> Result<usize> {
    let name = archive.display();
    ensure!(!archive.exists(), "{name} is there already: move it, or name another file by --archive");
    let top = stem(archive)?;
    let files = files(contents)?;
    let unfinished = archive.with_added_extension("part");
    let written = write(&unfinished, &top, &files).with_context(|| format!("writing {name}"));
    let written = written.and_then(|()| Ok(fs::rename(&unfinished, archive)?));
    if written.is_err() {
        // The error says more than that this failed, too.
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| files.len())
}

/// The name of an archive without its ending, which is also the folder within it.
pub fn stem(archive: &Path) -> Result<String> {
    let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(".tar.gz").or_else(|| name.strip_suffix(".tgz"));
    let stem = stem.filter(|stem| !stem.is_empty());
    stem.map(str::to_owned)
        .with_context(|| format!("{}: the name of an archive ends in .tar.gz", archive.display()))
}

/// All files by their paths in the archive.
fn files(contents: &Contents<'_>) -> Result<BTreeMap<String, Content>> {
    let out = contents.out;
    let mut files = BTreeMap::new();
    for name in KEPT {
        collect(out, name, &mut files)?;
    }
    let experiments = Experiment::with_referred(contents.experiments, contents.all);
    let texts = experiments.into_iter().flat_map(Experiment::files);
    files.extend(texts.map(|(path, text)| (path, Content::Text(text.to_owned()))));
    let written = report::write(out, contents.experiments, contents.blocks)?;
    for path in written.paths() {
        let name = path.strip_prefix(out).unwrap_or(path).display().to_string();
        files.insert(name, Content::File(path.clone()));
    }
    let manifest = Manifest::of(contents)?;
    let texts = [
        (MANIFEST, serde_json::to_string_pretty(&manifest)? + "\n"),
        (CITATION, manifest.citation(contents)?),
        (README, manifest.readme()),
    ];
    files.extend(texts.map(|(name, text)| (name.to_owned(), Content::Text(text))));
    let mut sums = String::new();
    for (name, content) in &files {
        writeln!(sums, "{}  {name}", content.digest()?)?;
    }
    files.insert(SUMS.to_owned(), Content::Text(sums));
    Ok(files)
}

/// A file, or all files below a folder; nothing where it is not there. Links are left out.
fn collect(out: &Path, name: &str, files: &mut BTreeMap<String, Content>) -> Result<()> {
    let path = out.join(name);
    let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(()) };
    if metadata.is_file() {
        files.insert(name.to_owned(), Content::File(path));
    } else if metadata.is_dir() {
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let below = entry?.file_name();
            let below = below.to_str().with_context(|| format!("{}: a name is not UTF-8", path.display()))?;
            collect(out, &format!("{name}/{below}"), files)?;
        }
    }
    Ok(())
}

fn write(path: &Path, top: &str, files: &BTreeMap<String, Content>) -> Result<()> {
    let file = BufWriter::new(File::create(path)?);
    // Neither a time nor a name of a file: the same content gives the same bytes.
    let packed: GzEncoder<_> = GzBuilder::new().mtime(0).write(file, Compression::best());
    let mut archive = tar::Builder::new(packed);
    for (name, content) in files {
        let path = format!("{top}/{name}");
        let added = match content {
            Content::File(file) => {
                let opened = File::open(file).with_context(|| file.display().to_string())?;
                let length = opened.metadata()?.len();
                append(&mut archive, &path, length, opened)
            }
            Content::Text(text) => append(&mut archive, &path, text.len() as u64, text.as_bytes()),
        };
        added.with_context(|| name.clone())?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    Ok(())
}

fn append(archive: &mut tar::Builder<impl Write>, path: &str, length: u64, content: impl Read) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(length);
    header.set_mode(0o644);
    header.set_mtime(0);
    Ok(archive.append_data(&mut header, path, content)?)
}
