//! The report: one HTML file that needs nothing beside itself, its twin in Markdown, and all figures as CSV.
//!
//! It is computed from blocks and experiments alone; beside them only the raw output and the configurations that
//! the blocks name are read, to be shown. The same blocks give the same report, byte for byte.

mod chart;
mod choices;
mod csv;
mod detail;
mod document;
mod evidence;
mod failures;
#[cfg(test)]
mod fixture;
mod format;
mod html;
mod leads;
mod markdown;
mod overview;
mod plots;
mod prices;
#[cfg(test)]
mod rendered;
mod scale;
mod summary;
mod surroundings;
mod svg;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::audit::audit;
use crate::block::Block;
use crate::experiment::Experiment;
use crate::findings::{self, Answer};
use crate::machine::Machine;
use detail::Detail;
use document::{Document, Section, slug};
use leads::Leads;
use overview::Overview;
use plots::Styles;
use prices::Prices;
use summary::{Summary, Work};

/// The files of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub html: PathBuf,
    /// Its twin.
    pub markdown: PathBuf,
    /// The figures: a file an experiment, and the summary.
    pub csv: Vec<PathBuf>,
}

/// Writes `report.html`, `report.md` and `csv/*.csv` into `out`, the folder of results. Experiments without blocks
/// are left out unless none has any. Fails where a file cannot be written.
pub fn write(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<Written> {
    let document = document(out, experiments, blocks)?;
    let folder = out.join("csv");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut files = vec![
        (out.join("report.html"), html::write(&document)),
        (out.join("report.md"), markdown::write(&document)),
        (folder.join("summary.csv"), csv::of_summary(&Summary::of(blocks))),
    ];
    for experiment in experiments {
        let of_it: Vec<&Block> =
            blocks.iter().filter(|block| block.cell.experiment == experiment.id).collect();
        if !of_it.is_empty() {
            files.push((folder.join(format!("{}.csv", slug(&experiment.id))), csv::of_blocks(&of_it)));
        }
    }
    for (path, text) in &files {
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    let mut paths = files.into_iter().map(|(path, _)| path);
    let (html, markdown) = (paths.next().unwrap_or_default(), paths.next().unwrap_or_default());
    Ok(Written { html, markdown, csv: paths.collect() })
}

fn document(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<Document> {
    let summary = Summary::of(blocks);
    let machine = blocks.last().map(|block| block.machine.clone()).unwrap_or_default();
    let answers: Vec<(&Experiment, Vec<Answer>)> = experiments
        .iter()
        .map(|experiment| (experiment, findings::answer(experiment, blocks, &machine)))
        .collect();
    let works: Vec<Work<'_>> = experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
    let prices = Prices::built_in()?;
    let styles = Styles::of(experiments, blocks);
    let leads = Leads::of(&summary, &works);
    let overview =
        Overview { summary: &summary, works: &works, leads: &leads, answers: &answers, prices: &prices };
    let mut sections = overview.sections();
    sections.push(surroundings::section(&summary));
    sections.push(failures::section(&summary, experiments));
    sections.extend(answers.iter().map(|(experiment, answers)| -> Section {
        let remarks = audit(experiment, blocks);
        let leads = leads.of_experiment(&experiment.id);
        Detail { out, summary: &summary, experiment, answers, remarks: &remarks, leads, styles: &styles }
            .section()
    }));
    Ok(Document {
        title: "Web servers, side by side".into(),
        lead: lead(&summary, &works, &machine),
        sections,
    })
}

/// What was done, when and where, in one line.
fn lead(summary: &Summary<'_>, works: &[Work<'_>], machine: &Machine) -> String {
    let blocks = summary.blocks();
    let mut contenders: Vec<&str> = works.iter().flat_map(|work| work.contenders.iter().copied()).collect();
    contenders.sort_unstable();
    contenders.dedup();
    let mut experiments: Vec<&str> = works.iter().map(|work| work.experiment.id.as_str()).collect();
    experiments.dedup();
    let began = blocks.iter().map(|block| block.began_s).fold(f64::INFINITY, f64::min);
    let ended = blocks.iter().map(|block| block.began_s).fold(0.0, f64::max);
    if blocks.is_empty() {
        return "No block was measured yet.".into();
    }
    format!(
        "{}, {} and {} of measurement, from {} to {}, on {} with {} and {} of memory, {}.",
        format::counted(experiments.len(), "experiment"),
        format::counted(contenders.len(), "contender"),
        format::counted(blocks.len(), "block"),
        format::date(began),
        format::date(ended),
        machine.processor,
        format::cores(machine.cores),
        format::bytes(machine.memory_bytes as f64),
        machine.kernel,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_blocks_give_the_same_report() {
        let out = tempfile::tempdir().unwrap();
        assert!(fixture::write_report(out.path()) == *fixture::report());
    }

    #[test]
    fn nothing_that_a_server_or_a_tool_says_becomes_markup() {
        let (html, markdown) = fixture::report();
        assert!(
            html.contains("&lt;script&gt;") && markdown.contains("&lt;script&gt;"),
            "the fixture tries it"
        );
        for forbidden in ["<script", "<img", "onerror=\"", "<b>evil"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        // In Markdown, code blocks hold output as it is.
        let outside: String = markdown.split("\n```").step_by(2).collect();
        assert!(!outside.contains("<script") && !outside.contains("<img"), "{outside}");
    }

    #[test]
    fn the_page_needs_nothing_beside_itself() {
        let (html, _) = fixture::report();
        for remote in [" src=\"", "@import", "url(h", "url(/", "url(\"", "<link", "<iframe", "<object"] {
            assert!(!html.contains(remote), "{remote}");
        }
        assert!(html.contains("default-src &#39;none&#39;") || html.contains("default-src 'none'"));
    }

    #[test]
    fn both_forms_have_the_same_tables() {
        let (html, markdown) = fixture::report();
        let captions = html.matches("<caption>").count();
        assert!(captions > 10);
        assert_eq!(markdown.matches("\n| --- ").count(), captions);
    }

    #[test]
    fn every_link_within_the_page_leads_somewhere() {
        let (html, _) = fixture::report();
        for link in html.split("href=\"#").skip(1) {
            let id = link.split('"').next().unwrap();
            assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
        }
    }

    #[test]
    fn failures_are_told() {
        let (html, markdown) = fixture::report();
        for page in [html, markdown] {
            assert!(page.contains("answers differ: 10,701 bytes against 5,584"), "a refusal");
            assert!(page.contains("it is not installed here"), "a contender without blocks");
            assert!(page.contains("needs PHP"), "a load that cannot be run");
        }
    }

    #[test]
    fn nothing_measured_is_a_report_too() {
        let out = tempfile::tempdir().unwrap();
        let written = write(out.path(), &fixture::experiments(), &[]).unwrap();
        let html = fs::read_to_string(written.html).unwrap();
        assert!(html.contains("This experiment was not run."));
        assert!(!html.contains("NaN") && !html.contains("inf "), "{html}");
    }

    #[test]
    #[ignore = "writes a sample for the eye: target/report-sample/report.html"]
    fn report_sample() {
        let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/report-sample");
        fs::create_dir_all(&out).unwrap();
        fixture::write_report(&out);
    }
}
