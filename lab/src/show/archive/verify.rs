//! Checking an archive: its files, the figures of each block by the output of the load tool, and the report by the blocks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::unpack::{Opened, unpack};
use crate::measure::tool;
use crate::model::block::{self, Block};
use crate::model::experiment::{Experiment, Kind, Load};
use crate::model::figure::Figure;
use crate::model::order::ToolName;
use crate::show::report;

/// What a check came to.
pub struct Verified {
    /// The archive in a folder that is removed afterwards.
    pub opened: Opened,
    /// How many blocks there are.
    pub blocks: usize,
    /// Blocks whose figures were read again from the load tool's output.
    pub read_again: usize,
    /// Files of the report that were computed again.
    pub report_files: usize,
    /// What differs, in words; nothing if all is as it was.
    pub differences: Vec<String>,
}

/// Two figures are equal if they differ by no more than the last digits of their text.
const EQUAL: f64 = 1e-12;

/// Unpacks an archive into this empty folder, and computes again what can be computed. Fails where it is not an archive, or
/// where a file is not as it was packed.
pub fn verify(archive: &Path, folder: &Path) -> Result<Verified> {
    let opened = unpack(archive, folder)?;
    let experiments = opened.experiments()?;
    let blocks = block::read(&folder.join(block::FILE))?;
    let mut differences = Vec::new();
    let mut read_again = 0;
    for block in &blocks {
        let Some(load) = load_of(&experiments, block) else { continue };
        let Some(wrong) = figures_again(&opened, load, block) else { continue };
        read_again += 1;
        differences.extend(wrong.err().map(|error| format!("{}: {error:#}", block.raw)));
    }
    let report_files = report_again(folder, &experiments, &blocks, &mut differences)?;
    Ok(Verified { opened, blocks: blocks.len(), read_again, report_files, differences })
}

fn load_of<'a>(experiments: &'a [Experiment], block: &Block) -> Option<&'a Load> {
    let experiment = experiments.iter().find(|experiment| experiment.id == block.cell.experiment)?;
    experiment.loads.iter().find(|load| load.id == block.cell.load)
}

/// Reads the figures of a block again from what the load tool printed. `None` where no tool printed any: the block failed, was
/// imported, or is of idle connections.
fn figures_again(opened: &Opened, load: &Load, block: &Block) -> Option<Result<()>> {
    let is_of_tool = block.failure.is_none() && block.kind != Kind::Idle && !block.command.is_empty();
    is_of_tool.then(|| {
        let own = ToolName::FulmarLab.to_string();
        let name = if block.tool.starts_with(&own) { ToolName::FulmarLab } else { load.tool };
        let tool = tool::named(name).with_context(|| format!("no tool is called {name}"))?;
        ensure!(opened.files.contains_key(&block.raw), "the archive has no such file");
        let report = tool.read_again(load.protocol, &opened.folder.join(&block.raw))?;
        for (figure, again) in report.figures {
            compare(figure, again, block.figures.get(&figure).copied())?;
        }
        Ok(())
    })
}

fn compare(figure: Figure, again: f64, kept: Option<f64>) -> Result<()> {
    let kept =
        kept.with_context(|| format!("the tool printed {figure:?} = {again}, and the block has none"))?;
    let is_equal = (again - kept).abs() <= EQUAL * again.abs().max(kept.abs());
    ensure!(is_equal, "the tool printed {figure:?} = {again}, and the block has {kept}");
    Ok(())
}

/// Computes the report again and compares it with the packed one: how many files.
fn report_again(
    folder: &Path,
    experiments: &[Experiment],
    blocks: &[Block],
    differences: &mut Vec<String>,
) -> Result<usize> {
    // The new report takes the place of the packed one.
    let packed = folder.join("packed");
    for name in ["report.html", "report.md", "csv"] {
        fs::create_dir_all(&packed)?;
        let from = folder.join(name);
        fs::rename(&from, packed.join(name)).with_context(|| from.display().to_string())?;
    }
    let written = report::write(folder, experiments, blocks)?;
    let paths: Vec<&PathBuf> = written.paths().collect();
    for path in &paths {
        let name = path.strip_prefix(folder).unwrap_or(path);
        let before = fs::read_to_string(packed.join(name)).unwrap_or_default();
        let now = fs::read_to_string(path)?;
        differences.extend(difference(&before, &now).map(|words| format!("{}: {words}", name.display())));
    }
    Ok(paths.len())
}

/// The first line in which two texts differ.
fn difference(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let same = before.lines().zip(now.lines()).take_while(|(one, other)| one == other).count();
    let line = |text: &str| {
        let line = text.lines().nth(same).unwrap_or("the end of the file");
        line.chars().take(80).collect::<String>()
    };
    Some(format!(
        "line {} was \u{201c}{}\u{201d} and is \u{201c}{}\u{201d}",
        same + 1,
        line(before),
        line(now)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let told = difference("a\nb\n", "a\nc\n").unwrap();
        assert_eq!(told, "line 2 was \u{201c}b\u{201d} and is \u{201c}c\u{201d}");
        assert!(difference("a\n", "a\nc\n").unwrap().contains("the end of the file"));
    }

    #[test]
    fn figures_are_equal_up_to_their_last_digits() {
        assert!(compare(Figure::Failed, 0.0, Some(0.0)).is_ok());
        assert!(compare(Figure::RequestsPerS, 1234.5, Some(1234.5 * (1.0 + 1e-15))).is_ok());
        assert!(compare(Figure::RequestsPerS, 1234.5, Some(1234.6)).is_err());
        assert!(compare(Figure::RequestsPerS, 1234.5, None).is_err());
    }
}
