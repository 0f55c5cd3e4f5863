//! No core file of the supervisor: keys of certificates are in its memory.

use rustix::process::{Pid, Resource, Signal, geteuid, kill_process};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tests::binary::Server;
use tests::site::{Site, is_alive};
use tests::{wait, worker};

const PATIENCE: Duration = Duration::from_secs(20);

/// Kills a process whose core files may have any size, as a fault of its memory would.
fn fault(process: Pid) {
    worker::limit(process, Resource::Core, None);
    kill_process(process, Signal::SEGV).expect("kill");
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
        names.filter(|name| name.starts_with("core")).count()
    };
    let mut other = Command::new("sleep").arg("60").current_dir(site.prefix()).spawn().expect("sleep");
    fault(Pid::from_child(&other));
    other.wait().expect("wait");
    let seen = cores();
    if seen == 0 {
        eprintln!("not tested: this system writes core files to another place");
        return;
    }
    let running = site.start(Server::Fulmar);
    let supervisor = running.pid();
    fault(supervisor);
    drop(running);
    assert!(wait::until(PATIENCE, || !is_alive(supervisor)));
    assert_eq!(cores(), seen);
}
