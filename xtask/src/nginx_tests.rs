//! nginx's public test suite, run against Fulmar: `tests/nginx-tests.txt` names the files that pass and
//! must go on passing. The suite is not part of the project; a checkout of it is given.

mod outcome;
mod prove;
mod ratchet;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::arguments::Arguments;
use crate::tree::root;
use outcome::Outcome;
use prove::Suite;
use ratchet::Ratchet;

/// The files that must pass, relative to the root.
const RATCHET: &str = "tests/nginx-tests.txt";

/// What the command line asks for.
struct Wanted {
    suite: Suite,
    jobs: usize,
    all: bool,
    update: bool,
    names: Vec<String>,
}

/// Runs files of the suite and prints what came of each; false when a file of the ratchet does not pass.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let wanted = read(arguments)?;
    let path = root().join(RATCHET);
    let mut ratchet = Ratchet::read(&path)?;
    let names = match (&wanted.names[..], wanted.all) {
        ([], true) => wanted.suite.files()?,
        ([], false) => ratchet.names(),
        (names, _) => names.to_vec(),
    };
    let results = run_all(&wanted.suite, &names, wanted.jobs);
    let passing = results.iter().filter(|(_, outcome)| outcome.passes()).count();
    println!("\n{passing} of {} files pass", results.len());

    let beyond: Vec<&str> = results
        .iter()
        .filter(|(name, outcome)| outcome.passes() && !ratchet.contains(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !beyond.is_empty() {
        let what = if wanted.update { "Added to" } else { "Not in" };
        println!("{what} {RATCHET}, and passing: {}", beyond.join(" "));
    }
    let lost: Vec<&str> = results
        .iter()
        .filter(|(name, outcome)| !outcome.passes() && ratchet.contains(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !lost.is_empty() {
        println!("In {RATCHET}, and not passing: {}", lost.join(" "));
    }
    if wanted.update && !beyond.is_empty() {
        ratchet.add(&beyond);
        ratchet.write(&path)?;
    }
    Ok(lost.is_empty())
}

fn read(arguments: &[&str]) -> Result<Wanted> {
    let mut arguments = Arguments::new(arguments);
    let binary: Option<PathBuf> = arguments.option("--binary")?;
    let binary = binary.unwrap_or_else(|| root().join("target/debug/fulmar"));
    let jobs = arguments.option("--jobs")?.unwrap_or(3);
    let update = arguments.switch("--update");
    let all = arguments.switch("--all");
    let names = arguments.names()?;
    let (folder, names) = names.split_first().context("nginx-tests needs the folder of the suite")?;
    ensure!(jobs > 0, "--jobs needs at least one");
    let names = names.iter().map(|name| name.strip_suffix(".t").unwrap_or(name).to_string()).collect();
    Ok(Wanted { suite: Suite::new(Path::new(folder), &binary)?, jobs, all, update, names })
}

/// Runs the files, `jobs` at a time, and prints each as it ends. The results are in the order of the names.
fn run_all(suite: &Suite, names: &[String], jobs: usize) -> Vec<(String, Outcome)> {
    let queue = Mutex::new(names.iter());
    let take = || queue.lock().unwrap_or_else(|broken| broken.into_inner()).next();
    let work = || {
        let mut results = Vec::new();
        while let Some(name) = take() {
            let outcome = suite.run(name);
            println!("{name:<36} {outcome}");
            results.push((name.clone(), outcome));
        }
        results
    };
    let mut results: Vec<(String, Outcome)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|(name, _)| names.iter().position(|other| other == name));
    results
}
