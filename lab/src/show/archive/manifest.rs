//! What an archive says of itself.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::MANIFEST;
use super::contents::Contents;
use crate::measure::environment::{Environment, Program};
use crate::model::experiment::Source;
use crate::model::words;

/// The form of archives that this version writes, and the latest that it reads.
const FORMAT: u32 = 1;

/// What a reader needs to repeat the measurement and to check the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the archive.
    pub format: u32,
    /// The lab that packed it, and so wrote its report.
    pub packed_by: Program,
    /// The experiments in the order of the report.
    pub experiments: Vec<String>,
    /// How many blocks there are.
    pub blocks: usize,
    /// When the first block began.
    pub first_block: String,
    /// When the last block began.
    pub last_block: String,
    /// The programs of the contenders.
    pub contenders: Vec<Program>,
    /// What the runs were made with besides: the lab, seeds, machine, kernel settings, packages and load tools.
    pub environments: Vec<Environment>,
}

impl Manifest {
    pub(super) fn of(contents: &Contents<'_>) -> Result<Manifest> {
        let (first, last) = contents.times();
        let programs: BTreeSet<Program> = contents
            .blocks
            .iter()
            .filter(|block| !block.version.is_empty())
            .map(|block| Program {
                name: block.cell.contender.clone(),
                version: block.version.clone(),
                origin: block.origin.clone(),
                sha256: block.program_digest.clone(),
            })
            .collect();
        Ok(Manifest {
            format: FORMAT,
            packed_by: Program::this(),
            experiments: contents.experiments.iter().map(|experiment| experiment.id.clone()).collect(),
            blocks: contents.blocks.len(),
            first_block: words::date(first),
            last_block: words::date(last),
            contenders: programs.into_iter().collect(),
            environments: Environment::kept(contents.out)?,
        })
    }

    /// Reads one. Fails where a later version of the lab wrote it.
    pub(super) fn parse(text: &str) -> Result<Manifest> {
        let manifest: Manifest = serde_json::from_str(text).context(MANIFEST)?;
        let format = manifest.format;
        ensure!(
            (1..=FORMAT).contains(&format),
            "{MANIFEST}: the archive has the format {format}, and this version reads up to {FORMAT}: use a newer fulmar-lab"
        );
        Ok(manifest)
    }

    /// The file by which the archive is cited (Citation File Format 1.2.0).
    pub(super) fn citation(&self, contents: &Contents<'_>) -> Result<String> {
        let day = self.last_block.split(' ').next().unwrap_or_default();
        let mut text = format!(
            "cff-version: 1.2.0\nmessage: If you use these figures, please cite them as below.\ntype: dataset\n\
             title: {}\nversion: {}\ndate-released: {day}\nauthors:\n",
            yaml(&format!("Web servers, side by side: {} measurements by fulmar-lab, {day}", self.blocks))?,
            yaml(&format!("{} {}", self.packed_by.name, self.packed_by.version))?,
        );
        for author in contents.authors {
            writeln!(text, "  - name: {}", yaml(author)?)?;
        }
        if contents.authors.is_empty() {
            text.push_str("  - name: anonymous\n");
        }
        let sources: Vec<&Source> =
            contents.experiments.iter().filter_map(|experiment| experiment.source.as_ref()).collect();
        if !sources.is_empty() {
            text.push_str("references:\n");
        }
        for source in sources {
            let authors = if source.authors.is_empty() { "anonymous" } else { &source.authors };
            writeln!(
                text,
                "  - type: article\n    title: {}\n    year: {}\n    authors:\n      - name: {}",
                yaml(&source.title)?,
                source.year,
                yaml(authors)?
            )?;
        }
        Ok(text)
    }

    /// What a person reads first.
    pub(super) fn readme(&self) -> String {
        format!(
            "{} measurements of web servers, from {} to {}.\n\n\
             report.html, report.md   the report; csv/ has its figures\n\
             blocks.jsonl             each measurement: a line of JSON\n\
             raw/, configurations/    what the load tools printed, and what the servers were configured with\n\
             experiments/             what was measured and what was to be shown\n\
             procedure.txt            how claims are judged\n\
             manifest.json            programs with SHA-256, packages, kernel settings, processor, seeds\n\n\
             sha256sum -c SHA256SUMS                 checks the files\n\
             fulmar-lab verify ARCHIVE               also computes all figures and the report again\n\
             fulmar-lab report --from ARCHIVE        writes the report again\n\n\
             Packed by {} {}.\n",
            self.blocks, self.first_block, self.last_block, self.packed_by.name, self.packed_by.version,
        )
    }
}

/// A string in quotation marks: one of JSON is one of YAML.
fn yaml(text: &str) -> Result<String> {
    Ok(serde_json::to_string(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_a_later_version_is_refused() {
        let manifest = Manifest {
            format: FORMAT + 1,
            packed_by: Program::default(),
            experiments: Vec::new(),
            blocks: 0,
            first_block: String::new(),
            last_block: String::new(),
            contenders: Vec::new(),
            environments: Vec::new(),
        };
        let parse = |manifest: &Manifest| Manifest::parse(&serde_json::to_string(manifest).unwrap());
        assert!(parse(&manifest).unwrap_err().to_string().contains("newer fulmar-lab"));
        assert!(parse(&Manifest { format: FORMAT, ..manifest }).is_ok());
    }
}
