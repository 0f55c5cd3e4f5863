//! Sessions of UDP while other workers take over the sockets: upgrades, the way back from them, and reloads that need a new
//! worker.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::site::{Running, START, Site, is_alive};
use tests::wait;

use crate::stream_udp::{Client, PATIENCE, Questions, READY, answering, echo, reload};

/// How long an answer may take. What a killed process had read is not answered.
const ANSWER: Duration = Duration::from_secs(2);

/// A server whose sessions last, and one that tells the process of each session.
fn configuration(workers: u32) -> String {
    let servers = "server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_timeout 4s; }
                   server { listen 127.0.0.1:%%PORT_2%% udp; return $pid; }";
    let start = START.replace("worker_processes 1", &format!("worker_processes {workers}"));
    format!("{start} stream {{ {READY} {servers} }}")
}

fn site(workers: u32) -> (Site, String) {
    let back = answering(1).to_string();
    (Site::whole(&configuration(workers).replace("BACK", &back)), back)
}

/// Starts the new program, and waits until its worker reads.
fn start_upgrade(running: &Running) -> (Pid, Pid) {
    let before = running.pid();
    running.signal(Signal::USR2);
    let old = running.pid_path().with_extension("oldbin");
    let begun = wait::until(PATIENCE, || {
        old.exists() && running.pid() != before && !Running::children(running.pid()).is_empty()
    });
    assert!(begun, "no new supervisor:\n{}", running.all_logs());
    assert!(wait::until(PATIENCE, || serves(running, running.pid())), "{}", running.all_logs());
    (before, running.pid())
}

/// Whether new sessions are served by a worker of this supervisor.
fn serves(running: &Running, supervisor: Pid) -> bool {
    let client = Client::of(running, 2);
    client.send("which");
    let Some(served_by) = client.received(ANSWER) else { return false };
    let is = |worker: &Pid| worker.as_raw_nonzero().to_string().as_bytes() == served_by;
    Running::children(supervisor).iter().any(is)
}

/// One client port keeps its session while the program is replaced, and the new program serves all others.
#[test]
fn a_session_of_datagrams_survives_an_upgrade() {
    let (site, _) = site(2);
    let running = site.start(Server::Fulmar);
    let clients: Vec<Client> = (0..8).map(|_| Client::of(&running, 1)).collect();
    let ports = |turn: &str| -> Vec<u16> { clients.iter().map(|client| client.port(turn)).collect() };
    let first = ports("before");
    let (before, after) = start_upgrade(&running);
    assert_eq!(first, ports("both"), "{}", running.all_logs());
    kill_process(before, Signal::QUIT).unwrap();
    let late = Client::of(&running, 1);
    let late_port = late.port("late");
    for turn in 0..20 {
        assert_eq!(first, ports(&format!("turn {turn}")), "{}", running.all_logs());
        assert!(serves(&running, after));
        assert_eq!(late.port("late"), late_port);
    }
    assert!(is_alive(before), "it has sessions");
    // Its sessions end by their time.
    assert!(wait::until(PATIENCE, || !is_alive(before)), "the old one stays: {}", running.all_logs());
    assert_ne!(first, ports("after"), "these are other sessions");
    running.stop();
}

/// Questions at a fixed rate are all answered while the program is replaced five times.
#[test]
fn upgrades_lose_no_question() {
    let text = configuration(2)
        .replace("proxy_timeout 4s", "proxy_responses 1")
        .replace("BACK", &echo().to_string());
    let running = Site::whole(&text).start(Server::Fulmar);
    let questions = Questions::ask(running.address_of(1));
    for _ in 0..5 {
        let (before, _) = start_upgrade(&running);
        kill_process(before, Signal::QUIT).unwrap();
        assert!(wait::until(PATIENCE, || !is_alive(before)), "the old one stays: {}", running.all_logs());
    }
    questions.are_all_answered();
    running.stop();
}

/// The new program is sent away: the one before it reads again, with all of its sessions.
#[test]
fn the_way_back_from_an_upgrade_loses_nothing() {
    let (site, _) = site(1);
    let running = site.start(Server::Fulmar);
    let client = Client::of(&running, 1);
    let port = client.port("before");
    for signal in [Signal::QUIT, Signal::TERM, Signal::KILL] {
        // What a killed program had read is lost.
        let questions = (signal == Signal::QUIT).then(|| Questions::ask(running.address_of(2)));
        let (before, after) = start_upgrade(&running);
        kill_process(after, signal).unwrap();
        assert!(wait::until(PATIENCE, || !is_alive(after) && running.pid() == before));
        assert!(wait::until(PATIENCE, || serves(&running, before)));
        assert_eq!(client.port("again"), port);
        if let Some(questions) = questions {
            questions.are_all_answered();
        }
    }
    running.stop_alerted();
}

/// A worker of the new program dies: the next one still finds the sessions of the program before.
#[test]
fn a_worker_that_replaces_a_dead_one_finds_older_sessions() {
    let (site, _) = site(1);
    let running = site.start(Server::Fulmar);
    let client = Client::of(&running, 1);
    let port = client.port("before");
    let (before, after) = start_upgrade(&running);
    let dead = Running::children(after)[0];
    kill_process(dead, Signal::KILL).unwrap();
    let replaced = || Running::children(after).first().is_some_and(|worker| *worker != dead);
    assert!(wait::until(PATIENCE, replaced));
    assert_eq!(client.port("after"), port);
    assert!(wait::until(PATIENCE, || serves(&running, after)));
    kill_process(before, Signal::QUIT).unwrap();
    assert_eq!(client.port("still"), port);
    running.stop_alerted();
}

/// The number of threads changes twice: new workers start, and sockets are added. Three workers have sessions then.
#[test]
fn sessions_survive_workers_with_other_numbers_of_threads() {
    let (site, back) = site(1);
    let running = site.start(Server::Fulmar);
    let mut clients: Vec<(Client, u16)> = Vec::new();
    let questions = Questions::ask(running.address_of(2));
    for workers in [3, 2, 4] {
        for _ in 0..6 {
            let client = Client::of(&running, 1);
            let port = client.port("first");
            clients.push((client, port));
        }
        running.rewrite(&configuration(workers).replace("BACK", &back));
        reload(&site, &running);
        for (client, port) in &clients {
            assert_eq!(client.port("again"), *port, "{workers}: {}", running.all_logs());
        }
    }
    questions.are_all_answered();
    assert!(Running::children(running.pid()).len() >= 4, "each worker has sessions");
    let alone = || Running::children(running.pid()).len() == 1;
    assert!(wait::until(PATIENCE, alone), "{}", running.all_logs());
    running.stop();
}
