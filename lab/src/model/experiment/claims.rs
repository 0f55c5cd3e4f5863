//! Claims: findings in separate files, which can be added without a change of the experiment that tests them.

use anyhow::{Context, Result, ensure};

use super::{Experiment, Finding, names};
use crate::model::words;

impl Finding {
    /// Reads the file of one claim. Fails with the place of what is wrong in it.
    pub fn parse(text: &str) -> Result<Finding> {
        let finding = Finding { text: text.to_owned(), ..toml::from_str(text)? };
        ensure!(
            finding.experiment.is_some(),
            "claim {}: name the experiment that tests it, such as experiment = \"modern-vps\"",
            finding.id
        );
        Ok(finding)
    }

    /// Its place among the claims of its experiment: by the number in its name, so that F2 comes before F10.
    pub fn place(&self) -> (u32, String) {
        let digits: String = self.id.chars().filter(char::is_ascii_digit).collect();
        (digits.parse().unwrap_or(u32::MAX), self.id.clone())
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
        format!("{}.toml", self.id.chars().map(plain).collect::<String>())
    }
}

impl Experiment {
    /// Adds a claim to its experiment. Fails where there is no such experiment, or where it has a finding of that name.
    pub fn add_claim(all: &mut [Experiment], claim: Finding) -> Result<()> {
        let name = claim.experiment.clone().unwrap_or_default();
        let ids: Vec<&str> = all.iter().map(|experiment| experiment.id.as_str()).collect();
        let unknown = || {
            let wrong = words::unknown("experiment", &name, &ids);
            names::at(&claim.text, &name, &wrong)
        };
        let place = ids.iter().position(|id| *id == name).ok_or_else(unknown)?;
        let experiment = all.get_mut(place).context("no experiment")?;
        let is_new = experiment.findings.iter().all(|other| other.id != claim.id);
        let taken = || {
            names::at(
                &claim.text,
                &claim.id,
                &format!("another claim of {name} is called {} already", claim.id),
            )
        };
        ensure!(is_new, taken());
        let place = experiment
            .findings
            .partition_point(|other| other.experiment.is_none() || other.place() <= claim.place());
        experiment.findings.insert(place, claim);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_register_is_built_in() {
        let all = Experiment::built_in().unwrap();
        let mut files = Vec::new();
        for folder in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("claims")).unwrap() {
            let folder = folder.unwrap().path();
            let experiment = folder.file_name().unwrap().to_str().unwrap().to_owned();
            for file in fs::read_dir(folder).unwrap() {
                files.push((experiment.clone(), file.unwrap().file_name().into_string().unwrap()));
            }
        }
        files.sort();
        let claims = all.iter().flat_map(|one| one.findings.iter().map(|claim| (one.id.clone(), claim)));
        let claims = claims.filter(|(_, claim)| claim.experiment.is_some());
        let mut names: Vec<(String, String)> = claims.map(|(id, claim)| (id, claim.file_name())).collect();
        names.sort();
        assert_eq!(files, names);
        assert!(names.len() >= 68, "{}", names.len());
        let published = all.iter().filter(|one| one.source.is_some()).flat_map(|one| &one.findings);
        assert!(published.clone().all(|claim| claim.quoted.is_some()));
    }

    #[test]
    fn a_claim_belongs_to_an_experiment() {
        let mut all = Experiment::built_in().unwrap();
        let text = "experiment = 'windows-hey'\nid = 'F1'\nclaim = 'c'\n\
            holds_when = [{ is = 'answers_all', load = 'hey', of = 'nginx' }]\n";
        let mut add =
            |text: &str| Finding::parse(text).and_then(|claim| Experiment::add_claim(&mut all, claim));
        let told = add(text).unwrap_err().to_string();
        assert_eq!(told, "line 2: another claim of windows-hey is called F1 already");
        let told = add(&text.replace("windows-hey", "colours")).unwrap_err().to_string();
        assert!(
            told.starts_with("line 1: no experiment is called colours; there are stress-debian"),
            "{told}"
        );
        let told = add(text.split_once('\n').unwrap().1).unwrap_err().to_string();
        assert!(told.contains("claim F1: name the experiment"), "{told}");
        add(&text.replace("F1", "F99")).unwrap();
    }
}
