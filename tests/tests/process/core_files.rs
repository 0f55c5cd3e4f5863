//! No core file of the supervisor: keys of certificates are in its memory.

use rustix::process::{Pid, Resource, Signal, geteuid, kill_process};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tests::binary::Server;
use tests::site::{Site, is_alive};
use tests::{wait, worker};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends a process as `abort` does. Its core file may have any size. (Rust catches the first SIGSEGV.)
fn abort(process: Pid) {
    worker::limit(process, Resource::Core, None);
    kill_process(process, Signal::ABORT).expect("kill");
}

#[test]
fn a_supervisor_that_crashes_leaves_no_core_file() {
    if !geteuid().is_root() {
        return;
    }
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; }");
    let cores = || {
        let entries = fs::read_dir(site.prefix()).expect("folder");
        let names = entries.map(|entry| entry.expect("entry").file_name().display().to_string());
        names.filter(|name| name.starts_with("core")).collect::<Vec<_>>()
    };
    let mut other = Command::new("sleep").arg("60").current_dir(site.prefix()).spawn().expect("sleep");
    abort(Pid::from_child(&other));
    other.wait().expect("wait");
    let written = cores();
    if written.is_empty() {
        eprintln!("not tested: this system writes core files to another place");
        return;
    }
    // The next core file may have the same name.
    written.iter().for_each(|name| fs::remove_file(site.prefix().join(name)).expect("a core file"));
    let running = site.start(Server::Fulmar);
    let supervisor = running.pid();
    abort(supervisor);
    // Another signal would cut the core file off.
    assert!(wait::until(PATIENCE, || !is_alive(supervisor)));
    assert_eq!(cores(), Vec::<String>::new());
    drop(running);
}
