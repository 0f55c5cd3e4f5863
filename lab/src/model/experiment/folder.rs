//! The files of experiments in a folder of results, which so needs no other file to be understood.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Experiment;

/// The folder of these files within that of the results.
pub const FOLDER: &str = "experiments";

impl Experiment {
    /// Writes the files of these experiments, and of those among all that their findings refer to.
    pub fn keep(out: &Path, these: &[Experiment], all: &[Experiment]) -> Result<()> {
        let folder = out.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for experiment in Experiment::with_referred(these, all) {
            let path = folder.join(&experiment.id).with_added_extension("toml");
            fs::write(&path, &experiment.text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// These experiments, and those among all that their findings refer to.
    pub fn with_referred<'a>(these: &'a [Experiment], all: &'a [Experiment]) -> Vec<&'a Experiment> {
        let is_new = |other: &&Experiment| these.iter().all(|one| one.id != other.id);
        let referred = |other: &&Experiment| these.iter().any(|one| one.refers_to(other));
        these.iter().chain(all.iter().filter(is_new).filter(referred)).collect()
    }

    /// The experiments whose files were kept, by the names of the files; none where there is no such folder.
    pub fn kept(out: &Path) -> Result<Vec<Experiment>> {
        let folder = out.join(FOLDER);
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| folder.display().to_string())?.path();
            paths.extend(Some(path).filter(|path| path.extension().is_some_and(|ending| ending == "toml")));
        }
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let read = fs::read_to_string(path).map_err(anyhow::Error::from);
            let parsed = read.and_then(|text| Experiment::parse(&text));
            parsed.with_context(|| path.display().to_string())
        };
        paths.iter().map(read).collect()
    }
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
