//! The files of experiments in a folder of results, which so needs no other file to be understood.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Experiment, Finding};

/// The folder of these files within that of the results.
pub const FOLDER: &str = "experiments";

/// The folder of their claims, with a folder for each experiment.
pub const CLAIMS: &str = "claims";

impl Experiment {
    /// Writes the files of these experiments, and of those among all that their findings refer to.
    pub fn keep(out: &Path, these: &[Experiment], all: &[Experiment]) -> Result<()> {
        for (path, text) in Experiment::with_referred(these, all).into_iter().flat_map(Experiment::files) {
            let path = out.join(path);
            let folder = path.parent().unwrap_or(out);
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Its own file and those of its claims: the path below the folder of results, and the text.
    pub fn files(&self) -> Vec<(String, &str)> {
        let claims = self.findings.iter().filter(|finding| finding.experiment.is_some());
        let claim = |finding: &'_ Finding| format!("{CLAIMS}/{}/{}", self.id, finding.file_name());
        let claims = claims.map(|finding| (claim(finding), finding.text.as_str()));
        std::iter::once((format!("{FOLDER}/{}.toml", self.id), self.text.as_str())).chain(claims).collect()
    }

    /// These experiments, and those among all that their findings refer to.
    pub fn with_referred<'a>(these: &'a [Experiment], all: &'a [Experiment]) -> Vec<&'a Experiment> {
        let is_new = |other: &&Experiment| these.iter().all(|one| one.id != other.id);
        let referred = |other: &&Experiment| these.iter().any(|one| one.refers_to(other));
        these.iter().chain(all.iter().filter(is_new).filter(referred)).collect()
    }

    /// The experiments whose files were kept, by the names of the files, with their claims; none where there is no such
    /// folder.
    pub fn kept(out: &Path) -> Result<Vec<Experiment>> {
        let mut all = read(&out.join(FOLDER), Experiment::parse)?;
        let ids: Vec<String> = all.iter().map(|experiment| experiment.id.clone()).collect();
        for id in ids {
            let folder = out.join(CLAIMS).join(id);
            for claim in read(&folder, Finding::parse)? {
                Experiment::add_claim(&mut all, claim).with_context(|| folder.display().to_string())?;
            }
        }
        Ok(all)
    }
}

/// What the TOML files of a folder hold, by the names of the files.
fn read<T>(folder: &Path, parse: fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        paths.extend(Some(path).filter(|path| path.extension().is_some_and(|ending| ending == "toml")));
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let read = fs::read_to_string(path).map_err(anyhow::Error::from);
        let parsed = read.and_then(|text| parse(&text));
        parsed.with_context(|| path.display().to_string())
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_with_those_that_findings_refer_to() {
        let all = Experiment::built_in().unwrap();
        let these: Vec<Experiment> = all.iter().filter(|one| one.id == "modern-vps").cloned().collect();
        let out = tempfile::tempdir().unwrap();
        assert!(Experiment::kept(out.path()).unwrap().is_empty());
        Experiment::keep(out.path(), &these, &all).unwrap();
        let kept = Experiment::kept(out.path()).unwrap();
        let ids: Vec<&str> = kept.iter().map(|one| one.id.as_str()).collect();
        assert!(ids.contains(&"modern-vps") && ids.contains(&"reload-under-load"), "{ids:?}");
        assert!(!ids.contains(&"windows-hey"), "{ids:?}");
        let original = these.first().unwrap();
        assert!(kept.iter().any(|one| one.text == original.text && one.loads.len() == original.loads.len()));
    }

    #[test]
    fn a_file_that_is_wrong_is_named() {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir(out.path().join(FOLDER)).unwrap();
        fs::write(out.path().join(FOLDER).join("x.toml"), "id = 1").unwrap();
        assert!(format!("{:#}", Experiment::kept(out.path()).unwrap_err()).contains("x.toml"));
    }
}
