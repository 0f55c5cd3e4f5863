//! Blocks of load in turn, and what their ratios come to.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::contender::{Program, Server};
use super::fetch;
use super::process;
use super::statistics::{Estimate, median};
use super::workload::{self, FILES, Workload};
use super::{Plan, wrk};

/// Fulmar, nginx, and nginx's twin.
const CONTENDERS: usize = 3;

/// One block's figures.
#[derive(Clone, Copy, Debug)]
struct Block {
    cpu_us: f64,
    busy: f64,
}

/// What a workload came to.
#[derive(Debug)]
pub(super) struct Comparison {
    name: &'static str,
    /// Medians of microseconds of CPU a request: Fulmar's and nginx's.
    cpu_us: [f64; 2],
    /// Fulmar's by nginx's.
    ratio: Estimate,
    /// The twin's by nginx's.
    noise: Estimate,
    /// How busy the load generator was, at most.
    busy: f64,
}

/// Measures one workload.
pub(super) fn compare(
    workload: &Workload,
    [fulmar, nginx]: [&Program; 2],
    plan: &Plan,
    folder: &Path,
) -> Result<Comparison> {
    let servers = [
        Server::start(fulmar, "fulmar", plan, folder)?,
        Server::start(nginx, "nginx", plan, folder)?,
        Server::start(nginx, "nginx-twin", plan, folder)?,
    ];
    for server in &servers {
        check(server, workload).with_context(|| format!("{}: not measured", workload.name))?;
        block(server, workload, 1, plan)?;
    }
    let mut turns = Vec::new();
    for turn in 0..plan.pairs {
        let mut blocks = [Block { cpu_us: 0.0, busy: 0.0 }; CONTENDERS];
        for step in 0..CONTENDERS {
            let index = if turn % 2 == 0 { step } else { CONTENDERS - 1 - step };
            blocks[index] = block(&servers[index], workload, plan.seconds, plan)?;
        }
        turns.push(blocks);
    }
    Ok(Comparison::of(workload.name, &turns))
}

/// A server whose answer differs is not measured.
fn check(server: &Server, workload: &Workload) -> Result<()> {
    let (answer, _) = fetch::get(server.address, workload.path, workload.fields)?;
    let length = FILES.iter().find(|(name, _)| workload.path.ends_with(name)).map(|(_, length)| *length);
    let expected = workload::content(length.context("no such file")?);
    ensure!(answer.status == 200, "status {} instead of 200", answer.status);
    ensure!(answer.content == expected, "{} bytes that are not the file", answer.content.len());
    Ok(())
}

fn block(server: &Server, workload: &Workload, seconds: u32, plan: &Plan) -> Result<Block> {
    let processes = server.processes();
    let url = format!("http://{}{}", server.address, workload.path);
    let before = process::cpu_ns(&processes)?;
    let load = wrk::run(&url, workload.fields, seconds, &plan.wrk_core())?;
    let spent = process::cpu_ns(&processes)? - before;
    server.empty_logs()?;
    Ok(Block { cpu_us: spent as f64 / 1000.0 / load.requests, busy: load.busy })
}

impl Comparison {
    /// The columns of [`Display`](fmt::Display).
    pub(super) const HEADING: &str = "workload                 Fulmar   nginx   ratio  95 % interval   \
        nginx/nginx  95 % interval   wrk busy";

    fn of(name: &'static str, turns: &[[Block; CONTENDERS]]) -> Self {
        let cpu_us = |index: usize| turns.iter().map(|blocks| blocks[index].cpu_us).collect::<Vec<_>>();
        let ratios = |index: usize| {
            let ratios = turns.iter().map(|blocks| blocks[index].cpu_us / blocks[1].cpu_us);
            Estimate::of(&ratios.collect::<Vec<_>>())
        };
        Self {
            name,
            cpu_us: [median(&cpu_us(0)), median(&cpu_us(1))],
            ratio: ratios(0),
            noise: ratios(2),
            busy: turns.iter().flatten().map(|block| block.busy).fold(0.0, f64::max),
        }
    }

    /// What may be said: a win only where the interval leaves out 1 and all that nginx differs from itself.
    fn verdict(&self) -> &'static str {
        if self.ratio.high < self.noise.low.min(1.0) {
            "Fulmar is cheaper"
        } else if self.ratio.low > self.noise.high.max(1.0) {
            "nginx is cheaper"
        } else {
            "no difference shown"
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [fulmar, nginx] = self.cpu_us;
        write!(out, "{:<24}{fulmar:>7.2} {nginx:>7.2}", self.name)?;
        for (estimate, indent) in [(self.ratio, 0), (self.noise, 5)] {
            let Estimate { median, low, high } = estimate;
            write!(out, "{:indent$} {median:>7.3}  {low:.3} – {high:.3}  ", "")?;
        }
        write!(out, "{:>8.0} %   {}", self.busy * 100.0, self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(figures: &[[f64; CONTENDERS]]) -> Vec<[Block; CONTENDERS]> {
        figures.iter().map(|blocks| blocks.map(|cpu_us| Block { cpu_us, busy: 0.5 })).collect()
    }

    #[test]
    fn ratios_are_of_blocks_of_one_turn() {
        // The machine gets twice as slow; pairs of one turn do not see that.
        let figures: Vec<_> = (0..20).map(|turn| 1.0 + f64::from(turn) / 20.0).collect();
        let figures: Vec<_> = figures.iter().map(|slow| [6.0 * slow, 8.0 * slow, 8.0 * slow]).collect();
        let comparison = Comparison::of("x", &turns(&figures));
        assert!((comparison.ratio.median - 0.75).abs() < 1e-9);
        assert!(comparison.ratio.high - comparison.ratio.low < 1e-9);
        assert_eq!(comparison.noise.median, 1.0);
        assert_eq!(comparison.verdict(), "Fulmar is cheaper");
    }

    #[test]
    fn nothing_is_claimed_within_the_noise() {
        let figures: Vec<_> = (0..20).map(|turn| [if turn % 2 == 0 { 7.0 } else { 9.0 }, 8.0, 8.0]).collect();
        let comparison = Comparison::of("x", &turns(&figures));
        assert_eq!(comparison.verdict(), "no difference shown");
        assert_eq!(Comparison::of("x", &turns(&[[9.0, 8.0, 8.0]; 3])).verdict(), "nginx is cheaper");
        let noisy = Comparison::of("x", &turns(&[[9.0, 8.0, 9.5]; 3]));
        assert_eq!(noisy.verdict(), "no difference shown", "nginx differs as much from itself");
        assert!(comparison.to_string().contains("50 %"), "{comparison}");
    }
}
