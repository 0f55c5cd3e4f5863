//! The report: one HTML file that needs no other file, its twin in Markdown, and all figures as CSV.
//!
//! It is computed from blocks and experiments alone; next to them only the raw output and the configurations that
//! the blocks name are read, to be shown. The same blocks give the same report, byte for byte.

mod chart;
mod choices;
mod claims;
mod costs;
mod csv;
mod detail;
mod document;
mod doubts;
mod evidence;
mod failures;
mod features;
#[cfg(test)]
mod fixture;
mod format;
mod html;
mod lead;
mod leads;
mod markdown;
mod methods;
mod overview;
mod picture;
mod plots;
mod portable;
mod prices;
mod register;
#[cfg(test)]
mod rendered;
mod scale;
mod summary;
mod surroundings;
mod svg;
mod uses;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::judge::audit::{Remark, audit};
use crate::judge::findings::{self, Answer};
use crate::model::block::Block;
use crate::model::experiment::Experiment;
use crate::model::machine::Machine;
use crate::model::words;
use detail::Detail;
use document::{Document, Part, Section, slug};
use leads::Leads;
use overview::Overview;
use plots::Styles;
use portable::Folders;
use prices::Prices;
use summary::{Summary, Work};

pub use register::register;

/// How much a report shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All, with commands, raw output and configurations, and links to files next to the page.
    Whole,
    /// The same without those and without paths of this machine: it stands alone, and its size is bounded.
    Brief,
}

/// What the brief form says of itself.
const LEFT_OUT: &str = "This is the brief form: raw output, configurations and the commands of all servers are in \
    the whole report, and so are histograms and charts over time of all but an experiment's first load.";

/// Who measures has an interest: the first words of every report.
const INTEREST: &str = "The authors of this lab also write Fulmar.";

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

impl Written {
    /// All files.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.html, &self.markdown].into_iter().chain(&self.csv)
    }
}

/// Writes `report.html`, `report.md` and `csv/*.csv` into `out`, the folder of results. Experiments without blocks
/// have no CSV file. Fails where a file cannot be written.
pub fn write(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<Written> {
    let answers = answered(experiments, blocks);
    let document = document(out, experiments, &answers, blocks, Form::Whole)?;
    let folder = out.join("csv");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut files = vec![
        (out.join("report.html"), html::write(&document)),
        (out.join("report.md"), markdown::write(&document)),
        (folder.join("summary.csv"), csv::of_summary(&Summary::of(blocks))),
        (folder.join("ratios.csv"), csv::of_ratios(&answers)),
    ];
    for experiment in experiments {
        let of_it: Vec<&Block> =
            blocks.iter().filter(|block| block.cell.experiment == experiment.id).collect();
        if !of_it.is_empty() {
            files.push((folder.join(format!("{}.csv", slug(&experiment.id))), csv::of_blocks(&of_it)));
        }
    }
    write_all(&files)?;
    let mut paths = files.into_iter().map(|(path, _)| path);
    let (html, markdown) = (paths.next().unwrap_or_default(), paths.next().unwrap_or_default());
    Ok(Written { html, markdown, csv: paths.collect() })
}

/// Writes `brief.html` and `brief.md` into `out`: the report without what belongs to this machine and this folder.
/// Experiments without blocks are left out.
pub fn write_brief(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<Written> {
    let document = brief(out, experiments, blocks)?;
    let [html, markdown] = ["brief.html", "brief.md"].map(|name| out.join(name));
    write_all(&[(html.clone(), html::write(&document)), (markdown.clone(), markdown::write(&document))])?;
    Ok(Written { html, markdown, csv: Vec::new() })
}

/// Writes every chart as a separate SVG file into a folder, and gives their paths.
pub fn write_charts(
    folder: &Path,
    out: &Path,
    experiments: &[Experiment],
    blocks: &[Block],
) -> Result<Vec<PathBuf>> {
    let charts = picture::all(&brief(out, experiments, blocks)?);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let files: Vec<_> = charts.into_iter().map(|(name, text)| (folder.join(name), text)).collect();
    write_all(&files)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Writes `short.md` and, where publications were repeated, `short.svg` into a folder: what the report's first page says,
/// for a page such as a README.
pub fn write_short(
    folder: &Path,
    out: &Path,
    experiments: &[Experiment],
    blocks: &[Block],
) -> Result<Vec<PathBuf>> {
    let mut document = brief(out, experiments, blocks)?;
    document.sections.retain(|section| section.id == html::SHORT);
    let picture = picture::all(&document).into_iter().next();
    let text = format!("{}\n{}", markdown::escape(&document.lead), markdown::short(&document));
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let files = picture.map(|(_, picture)| (folder.join("short.svg"), picture));
    let files: Vec<_> = std::iter::once((folder.join("short.md"), text)).chain(files).collect();
    write_all(&files)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Writes each file next to its place and then into it: where the disk is full, the report that was there stays whole.
fn write_all(files: &[(PathBuf, String)]) -> Result<()> {
    for (path, text) in files {
        let beside = path.with_extension("part");
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // What there is of it takes room, and is of no use.
            let _ = fs::remove_file(&beside);
        }
        written.with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Experiments with the answers to their findings.
type Answered<'a> = [(&'a Experiment, Vec<Answer>)];

/// Answers the findings of all experiments.
fn answered<'a>(experiments: &'a [Experiment], blocks: &[Block]) -> Vec<(&'a Experiment, Vec<Answer>)> {
    let machine = machine(blocks);
    let answer = |experiment: &'a Experiment| (experiment, findings::answer(experiment, blocks, &machine));
    experiments.iter().map(answer).collect()
}

/// The machine of the last block.
fn machine(blocks: &[Block]) -> Machine {
    blocks.last().map(|block| block.machine.clone()).unwrap_or_default()
}

/// The report's brief form.
fn brief(out: &Path, experiments: &[Experiment], blocks: &[Block]) -> Result<Document> {
    document(out, experiments, &answered(experiments, blocks), blocks, Form::Brief)
}

fn document(
    out: &Path,
    experiments: &[Experiment],
    answers: &Answered<'_>,
    blocks: &[Block],
    form: Form,
) -> Result<Document> {
    let summary = Summary::of(blocks);
    let works: Vec<Work<'_>> = experiments.iter().flat_map(|experiment| summary.works(experiment)).collect();
    let prices = Prices::built_in()?;
    let styles = Styles::of(experiments, blocks);
    // Where not like is compared with like, nobody leads.
    let alike: Vec<Work<'_>> = experiments
        .iter()
        .flat_map(|experiment| summary.works(experiment))
        .filter(|work| work.load.paths.is_empty())
        .collect();
    let leads = Leads::of(&summary, &alike);
    let remarks: Vec<Remark> = experiments.iter().flat_map(|experiment| audit(experiment, blocks)).collect();
    let overview = Overview {
        summary: &summary,
        works: &works,
        leads: &leads,
        answers,
        remarks: &remarks,
        prices: &prices,
        styles: &styles,
    };
    let mut sections = overview.sections();
    sections.extend(features::section(out, experiments, blocks, form));
    sections.push(surroundings::section(&summary));
    sections.extend(methods::section(&summary, answers));
    sections.push(failures::section(&summary, experiments));
    let was_run = |experiment: &Experiment| works.iter().any(|work| work.experiment.id == experiment.id);
    let shown = answers.iter().filter(|(experiment, _)| form == Form::Whole || was_run(experiment));
    sections.extend(shown.map(|(experiment, answers)| -> Section {
        let remarks: Vec<&Remark> =
            remarks.iter().filter(|remark| remark.experiment == experiment.id).collect();
        let leads = leads.of_experiment(&experiment.id);
        Detail {
            out,
            summary: &summary,
            experiment,
            answers,
            remarks: &remarks,
            leads,
            styles: &styles,
            form,
        }
        .section()
    }));
    let title = "Web servers, side by side".into();
    let lead = lead(&summary, &works, &machine(blocks));
    Ok(match form {
        Form::Whole => Document { title, lead, sections },
        Form::Brief => {
            if let Some(first) = sections.first_mut() {
                first.parts.push(Part::Text(LEFT_OUT.into()));
            }
            Folders::of(out).left_out_of(Document { title, lead, sections })
        }
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
    // What could not begin has no time.
    let times = || blocks.iter().map(|block| block.began_s).filter(|began_s| *began_s > 0.0);
    let began = times().fold(f64::INFINITY, f64::min);
    let ended = times().fold(0.0, f64::max);
    if blocks.is_empty() {
        return "No run was measured yet.".into();
    }
    let busy = blocks.iter().filter(|block| block.circumstances.is_busy()).count();
    format!(
        "{INTEREST} Measured from {} to {} on {} with {}, {} of memory and {}: {}, {} and {}, of which {} began on a busy \
         machine and do not count.",
        words::date(began),
        words::date(ended),
        machine.processor,
        format::cores(machine.cores),
        format::bytes(machine.memory_bytes as f64),
        machine.kernel,
        format::counted(contenders.len(), "server"),
        format::counted(experiments.len(), "experiment"),
        format::counted(blocks.len(), "run"),
        format::count(busy),
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
            assert!(page.contains("it is not installed here"), "a server without runs");
            assert!(page.contains("needs PHP"), "a load that cannot be run");
        }
    }

    #[test]
    fn costs_are_of_a_small_file_on_kept_connections() {
        let (html, _) = fixture::report();
        assert!(html.contains("What it costs: 7 bytes, kept connections, 1 core, 1,000 clients"));
        // A run that has no such load: the larger file on kept connections comes only by its contenders.
        let out = tempfile::tempdir().unwrap();
        let blocks: Vec<Block> =
            fixture::blocks().into_iter().filter(|block| block.cell.experiment == "windows-hey").collect();
        let written = write(out.path(), &fixture::experiments(), &blocks).unwrap();
        let html = fs::read_to_string(written.html).unwrap();
        assert!(html.contains("What it costs: 72 KB with hey"), "{html}");
    }

    #[test]
    fn published_phases_stand_beside_measured_ones() {
        let (_, markdown) = fixture::report();
        let rows: Vec<&str> =
            markdown.lines().filter(|line| line.contains(", ms: min, mean, sd, median, max")).collect();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows[0].contains("connect") && rows[0].contains("0 / 0 / 1.4 / 0 / 16 | not measured"));
        assert!(rows[1].contains("0 / 6 / 10 / 0 / 80 | 0 / "), "{rows:?}");
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
    fn the_brief_form_stands_alone() {
        let out = tempfile::tempdir().unwrap();
        fixture::lay_features(out.path());
        fixture::write_report(out.path());
        let written = write_brief(out.path(), &fixture::experiments(), &fixture::blocks()).unwrap();
        let whole = fs::read_to_string(out.path().join("report.html")).unwrap();
        assert!(whole.contains("/tmp/made/run/nginx.conf") && whole.contains("href=\"features/"));
        for path in [written.html, written.markdown] {
            let brief = fs::read_to_string(path).unwrap();
            assert!(brief.contains("The command, here for") && brief.contains("nginx.conf"));
            for left_out in
                ["/tmp/", "raw/", "configurations/", "csv/", "features/", "Commands and raw output"]
            {
                assert!(!brief.contains(left_out), "{left_out}");
            }
            assert!(brief.len() < whole.len());
        }
    }

    #[test]
    fn the_first_page_is_written_for_a_readme() {
        let out = tempfile::tempdir().unwrap();
        let written =
            write_short(out.path(), out.path(), &fixture::experiments(), &fixture::blocks()).unwrap();
        let [text, picture] = [0, 1].map(|at| fs::read_to_string(&written[at]).unwrap());
        assert!(text.starts_with("The authors of this lab also write Fulmar. "), "{text}");
        assert!(
            text.contains("| Which server for static files? | ") && text.contains("](short.svg)"),
            "{text}"
        );
        assert!(!text.contains("](#") && !text.contains("<details>"), "it stands alone: {text}");
        assert!(picture.starts_with("<svg xmlns=") && picture.contains("72 KB by hey, 2025"), "{picture}");
    }

    /// Of each kind of verdict the summary has as many as the findings' own lines, and publications are counted apart
    /// from the lab's own questions.
    #[test]
    fn the_summary_adds_up() {
        let all = Experiment::built_in().unwrap();
        let run = Experiment::answering_publications(&all);
        let blocks = fixture::quick_blocks(&run, 2);
        let out = tempfile::tempdir().unwrap();
        let written = write_brief(out.path(), &all, &blocks).unwrap();
        let page = fs::read_to_string(written.markdown).unwrap();
        let machine = blocks[0].machine.clone();
        let count = |published: bool| {
            let of_kind = run.iter().filter(|one| one.source.is_some() == published);
            of_kind.map(|one| findings::answer(one, &blocks, &machine).len()).sum::<usize>()
        };
        let (published, own) = (count(true), count(false));
        assert!(published > 30 && own > 0, "{published} {own}");
        assert!(page.contains(&format!("of {published} findings ")), "in short");
        assert!(page.contains(&format!(" of the {published} published findings hold")), "the publications");
        assert!(page.contains(&format!(" of the {own} answers to the lab's own questions hold")), "its own");
        let section = |title: &str| {
            page.split(title).nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default()
        };
        for (title, all) in
            [("## Which published findings hold", published), ("## The lab's own questions", own)]
        {
            let section = section(title);
            let numbers: Vec<usize> = section
                .lines()
                .filter(|line| line.starts_with("| ["))
                .flat_map(|line| {
                    line.split('|')
                        .skip(2)
                        .take(4)
                        .filter_map(|cell| cell.trim().parse().ok())
                        .collect::<Vec<usize>>()
                })
                .collect();
            assert_eq!(numbers.iter().sum::<usize>(), all, "{title}: {section}");
            let said: Vec<usize> = section.split("**").filter_map(|part| part.parse().ok()).collect();
            assert_eq!(said.iter().take(4).sum::<usize>(), all, "{title}");
        }
        // What needs more cores is one item.
        let cores = "4 or 8 cores are needed, and this machine has 2";
        assert!(page.contains(&format!(" F4, F5, F6, F8 and F17: {cores}\n")), "{page}");
        assert_eq!(
            page.matches(cores).count(),
            4,
            "the list and the table, alone and for what also shares cores: {page}"
        );
        // The published table of rented servers stands beside the measured one.
        let rented = page.split("**A server for 5,000 users: ").nth(1).unwrap_or_default();
        let nginx = rented.lines().find(|line| line.starts_with("| nginx |")).unwrap_or_default();
        assert!(nginx.contains("2 cores, 4 GiB, $18 a month | 2 cores and 4 GB, "), "{nginx}");
    }

    /// The first lines name the interest of who measured, and every program with its origin.
    #[test]
    fn the_first_lines_say_who_measured_what() {
        let out = tempfile::tempdir().unwrap();
        let mut blocks = fixture::blocks();
        blocks[0].circumstances.busy_before = 1.0;
        let written = write(out.path(), &fixture::experiments(), &blocks).unwrap();
        let page = fs::read_to_string(written.markdown).unwrap();
        let lead = page.lines().nth(2).unwrap();
        assert!(lead.starts_with("The authors of this lab also write Fulmar. "), "{lead}");
        assert!(lead.contains("of which 1 began on a busy machine"), "{lead}");
        let programs = page.split("<summary>The programs, with version and origin</summary>").nth(1).unwrap();
        let programs = programs.split("</details>").next().unwrap();
        for program in ["- nginx: ", "- apache-event: "] {
            assert!(programs.contains(program), "{program}: {programs}");
        }
        let short = page.split("\n## ").nth(1).unwrap();
        assert!(short.contains("<summary>The programs"), "they are on the first page: {short}");
    }

    /// What is still easily passed on; the largest report is that of a quick run of all publications.
    #[test]
    fn the_brief_form_of_a_quick_run_is_small() {
        let out = tempfile::tempdir().unwrap();
        let all = Experiment::built_in().unwrap();
        let run = Experiment::answering_publications(&all);
        let blocks = fixture::quick_blocks(&run, 2);
        let written = write_brief(out.path(), &all, &blocks).unwrap();
        let bytes = fs::metadata(written.html).unwrap().len();
        println!("{} runs, {bytes} bytes", blocks.len());
        assert!((200_000..2_000_000).contains(&bytes), "{bytes} bytes of {} runs", blocks.len());
    }

    #[test]
    #[ignore = "writes samples for the eye: target/report-sample/report.html, and brief.html in two folders"]
    fn report_sample() {
        let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/report-sample");
        let all = Experiment::built_in().unwrap();
        let run = Experiment::answering_publications(&all);
        for (name, turns) in [("two-turns", 2), ("six-turns", 6)] {
            fs::create_dir_all(out.join(name)).unwrap();
            write_brief(&out.join(name), &all, &fixture::quick_blocks(&run, turns)).unwrap();
        }
        fixture::write_report(&out);
    }
}
