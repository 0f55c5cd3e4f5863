//! `fulmar-lab demo`: two servers that are installed, a minute, and a small report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Common;
use super::run::{self, RunArguments};
use super::say::say;
use crate::judge::statistics::{FEWEST, median};
use crate::measure::engine::Lineup;
use crate::model::block::{self, Block, original_of};
use crate::model::figure::Figure;
use crate::model::words;

/// The experiment, with places for the servers and for the length of a run.
const EXPERIMENT: &str = include_str!("../../../demo.toml");

/// The servers, best known first. The last two are the lab's own, which are always there.
const SERVERS: &[&str] = &[
    "nginx",
    "apache-event",
    "nginx-debian",
    "caddy",
    "lighttpd",
    "h2o",
    "fulmar",
    "reference-epoll",
    "reference-process",
];

/// What `demo` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct DemoArguments {
    /// Two servers by name, instead of the first two that are installed.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "A,B")]
    only: Vec<String>,
    /// The length of each run.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = some_seconds)]
    seconds: f64,
    /// Repetitions; fewer than six give no verdict.
    #[arg(long, default_value_t = FEWEST, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// The folder of the results.
    #[arg(long, default_value = "fulmar-lab-demo")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Measures, writes the report, and prints what was found in a few lines.
pub(super) fn main(arguments: &DemoArguments) -> Result<ExitCode> {
    let lineup = arguments.common.lineup()?;
    let servers = servers(&lineup, &arguments.only)?;
    let mut common = arguments.common.clone();
    common.experiment_files.push(write(&arguments.out, &servers, arguments.seconds)?);
    say!("The servers of this demonstration: {}", servers.join(" and "));
    let run = RunArguments::of("demo", arguments.out.clone(), arguments.turns, common);
    let code = run::main(&run)?;
    say!("");
    for line in summary(&block::read(&arguments.out.join(block::FILE))?) {
        say!("{line}");
    }
    Ok(code)
}

/// Two servers that are here.
fn servers(lineup: &Lineup, only: &[String]) -> Result<Vec<String>> {
    if !only.is_empty() {
        ensure!(only.len() == 2, "--only: two servers are compared, and {} are named", only.len());
        for name in only {
            lineup.find(name)?;
        }
        return Ok(only.to_vec());
    }
    let found = SERVERS.iter().filter(|name| lineup.find(name).is_ok()).take(2);
    let found: Vec<String> = found.map(|name| (*name).to_owned()).collect();
    ensure!(found.len() == 2, "two servers are needed: `fulmar-lab list` says how to install some");
    Ok(found)
}

/// Writes the experiment into the folder of its results.
fn write(out: &Path, servers: &[String], seconds: f64) -> Result<PathBuf> {
    fs::create_dir_all(out)
        .with_context(|| format!("--out {}: making the folder for results", out.display()))?;
    let path = out.join("demo.toml");
    let names = serde_json::to_string(servers)?;
    let text = EXPERIMENT.replace("{servers}", &names).replace("{seconds}", &format!("{seconds:?}"));
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// A line for each load and server: the medians of all runs.
fn summary(blocks: &[Block]) -> Vec<String> {
    let mut cells: Vec<&block::Cell> = Vec::new();
    for block in blocks.iter().filter(|block| original_of(&block.cell.contender).is_none()) {
        if !cells.contains(&&block.cell) {
            cells.push(&block.cell);
        }
    }
    cells.sort_by(|a, b| (&b.load, &a.contender).cmp(&(&a.load, &b.contender)));
    let line = |cell: &block::Cell| {
        let of = |figure: Figure| {
            let runs = blocks.iter().filter(|block| block.cell == *cell && block.failure.is_none());
            let values: Vec<f64> = runs.filter_map(|block| block.figures.get(&figure).copied()).collect();
            (!values.is_empty()).then(|| words::scaled(figure, median(&values)))
        };
        let figure = |figure: Figure| of(figure).unwrap_or_else(|| "not measured".into());
        format!(
            "  {:<8} {:<18} requests/s {:>9}   p99 {:>7} ms   CPU {:>6} µs a request",
            cell.load,
            cell.contender,
            figure(Figure::RequestsPerS),
            figure(Figure::P99Ms),
            figure(Figure::CpuUsPerRequest),
        )
    };
    cells.into_iter().map(line).collect()
}

fn some_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.05..=600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.05 to 600 is needed".into())
}
