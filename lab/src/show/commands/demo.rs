//! `fulmar-lab demo`: two servers that are installed, a minute, and a small report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Common;
use super::run::{self, RunArguments};
use super::say::say;
use crate::judge::comparison::Comparison;
use crate::judge::statistics::{Estimate, FEWEST, median};
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
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = super::some_seconds)]
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
    let blocks = block::read(&arguments.out.join(block::FILE))?;
    for line in summary(&blocks) {
        say!("{line}");
    }
    say!("\n{}", sentence(&blocks, &servers));
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

/// What was found, in a sentence, and how far to trust it.
fn sentence(blocks: &[Block], servers: &[String]) -> String {
    let is_busy = |block: &&Block| block.circumstances.is_busy();
    let of_load = |load: &str| -> Vec<&Block> {
        let quiet = blocks.iter().filter(|block| block.failure.is_none() && !is_busy(block));
        quiet.filter(|block| block.cell.load == load).collect()
    };
    let mut parts = Vec::new();
    let [first, second] = servers else { return String::new() };
    for (load, words) in [("kept", "over kept connections"), ("closed", "with a connection for each request")]
    {
        let compared = Comparison::of(&of_load(load), [first, second], Figure::RequestsPerS);
        let compared = compared.filter(|compared| compared.pairs >= FEWEST as usize);
        parts.extend(compared.map(|Comparison { ratio: Estimate { median, low, high }, .. }| {
            format!("{median:.2} times {words} (95 % interval {low:.2} to {high:.2})")
        }));
    }
    let found = match parts.as_slice() {
        [] => format!(
            "How {first} and {second} differ cannot be said: fewer than {FEWEST} turns on a quiet machine."
        ),
        parts => {
            format!("{first} answers, in requests per second, {} as much as {second}.", parts.join(", and "))
        }
    };
    match blocks.iter().filter(is_busy).count() {
        0 => found,
        busy => format!(
            "{found} Other programs kept the machine busy before {busy} of {} blocks, which do not count.",
            blocks.len()
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    #[test]
    fn the_last_sentence_has_an_interval_or_says_why_not() {
        let servers = ["nginx".to_owned(), "caddy".to_owned()];
        let blocks = |turns: u32| -> Vec<Block> {
            let one = |name: &str, rate: f64, turn: u32| Block {
                turn,
                ..block(name, "kept", 32, &[(Figure::RequestsPerS, rate + f64::from(turn))])
            };
            (0..turns).flat_map(|turn| [one("nginx", 2000.0, turn), one("caddy", 1000.0, turn)]).collect()
        };
        let said = sentence(&blocks(6), &servers);
        assert!(
            said.starts_with(
                "nginx answers, in requests per second, 2.00 times over kept connections (95 % interval 2.00 to 2.00)"
            ),
            "{said}"
        );
        assert!(said.ends_with("as much as caddy.") && !said.contains("busy"), "{said}");
        let mut busy = blocks(6);
        busy[0].circumstances.busy_before = 1.0;
        let said = sentence(&busy, &servers);
        assert!(said.contains("cannot be said: fewer than 6 turns"), "{said}");
        assert!(said.ends_with("before 1 of 12 blocks, which do not count."), "{said}");
    }
}
