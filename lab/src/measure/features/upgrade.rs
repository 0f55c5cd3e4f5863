//! Whether a program can be replaced while it serves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::Verdict::{No, Yes};
use super::contender::Sheet;
use super::probes::Found;
use super::traffic::Traffic;
use super::transcript::Transcript;
use crate::measure::contender::Running;
use crate::measure::process;

/// How long a new program may take to serve.
const LIMIT: Duration = Duration::from_secs(10);

/// The program's file is replaced and the contender told; then processes of the new file must be there, and no
/// request be lost.
pub(super) fn upgrade(sheet: &Sheet, log: &Transcript) -> Found {
    let origin = &sheet.found.program;
    let program = sheet.folder().join("program").join(origin.file_name().context("a name")?);
    replace(origin, &program)?;
    let sheet = sheet.with_program(&program);
    let running = sheet.start(None, log)?;
    let folder = running.folder().to_path_buf();
    let traffic = Traffic::default();
    let arrived = thread::scope(|scope| {
        scope.spawn(|| traffic.run(running.address, log));
        thread::park_timeout(LIMIT / 40);
        let arrived = replace(origin, &program).and_then(|()| arrives(&sheet, &running, log));
        traffic.end();
        arrived
    });
    drop(running);
    end_all_in(&folder);
    let (arrived, (done, lost)) = (arrived?, traffic.counts());
    let words = if arrived { "the new program serves" } else { "no process runs the new program" };
    let verdict = if arrived && lost == 0 && done > 0 { Yes } else { No };
    Ok((verdict, format!("{words}; {done} requests answered, {lost} lost")))
}

/// Tells the contender that there is another program, and waits for processes of it.
fn arrives(sheet: &Sheet, running: &Running, log: &Transcript) -> Result<bool> {
    log.note("the program's file is replaced");
    let first = running.roots().first().context("no process")?.to_string();
    sheet.run(&[&sheet.command[..], &[first]].concat(), running, log)?;
    let new = fs::metadata(&sheet.found.program)?.ino();
    let end = Instant::now() + LIMIT;
    let is_new = |pid: &u32| fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|file| file.ino() == new);
    while Instant::now() < end {
        let found: Vec<u32> = in_folder(running.folder()).into_iter().filter(is_new).collect();
        if !found.is_empty() {
            log.note(&format!("processes of the new file: {found:?}"));
            // What still runs of the other one ends by itself or stays next to it.
            thread::park_timeout(LIMIT / 10);
            return Ok(true);
        }
        thread::park_timeout(LIMIT / 200);
    }
    Ok(false)
}

/// Puts a copy of a program where another one may be running.
fn replace(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder")?)?;
    let beside = to.with_extension("new");
    fs::copy(from, &beside).with_context(|| from.display().to_string())?;
    fs::rename(&beside, to)?;
    Ok(())
}

fn in_folder(folder: &Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| process::works_in(*pid, folder)).collect()
}

/// A new program may have left the family of the one that was started.
fn end_all_in(folder: &Path) {
    for pid in in_folder(folder) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
