//! Certificates from Pebble while clients ask, while processes are killed, and for very many names.

use super::{LIMIT, Parts, is_issued, issuing, parts, parts_with, served, server};
use rustix::process::{Signal, geteuid, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tests::binary::Server;
use tests::dns::{Message, NameServer};
use tests::pebble::{Options, have_pebble};
use tests::site::Running;
use tests::tls::Client;
use tests::{wait, worker};

/// The kind of records that have texts.
const TEXT: u16 = 16;

/// A record in the wire format: the owner is the name of the question.
const OWNER: &[u8] = b"\xc0\x0c";

#[test]
fn command_answers_dns_01_for_a_wildcard() {
    if !have_pebble() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (program, records) = (directory.path().join("change"), directory.path().join("records"));
    fs::write(&records, "").unwrap();
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\n", records.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let written = records.clone();
    let names = NameServer::start(move |question| {
        let answer = Message::to(question);
        let text = fs::read_to_string(&written).unwrap_or_default();
        let name = question.name.to_ascii_lowercase();
        let value = text.lines().filter_map(|line| line.strip_prefix(&format!("set {name} "))).next_back();
        let value = value.filter(|_| question.kind == TEXT).map(|value| {
            let length = u8::try_from(value.len()).unwrap();
            [&[length][..], value.as_bytes()].concat()
        });
        vec![value.map_or(answer.clone(), |value| answer.record(OWNER, TEXT, 1, &value)).reply()]
    });
    let issuer = format!("challenge dns-01 {};", program.display());
    let parts = parts_with(names, &issuer, &server("*.wild.example"), Options::default());
    let running = parts.start();
    parts.issued(&running, "any.wild.example");
    let is_removed = || {
        let text = fs::read_to_string(&records).unwrap();
        text.lines().any(|line| line.starts_with("remove _acme-challenge.wild.example "))
    };
    assert!(wait::until(LIMIT, is_removed), "{}", parts.fails(&running));
    running.stop();
}

/// Clients that ask until they are stopped, over new connections and over one that stays open.
struct Load<'a> {
    address: SocketAddr,
    is_over: &'a AtomicBool,
    answered: &'a AtomicUsize,
}

impl Load<'_> {
    fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        assert!(wait::until(LIMIT, || self.answered.load(Ordering::Relaxed) > before + 20));
    }

    fn connect_again_and_again(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let told = Client::new(Some("a.example")).ask(self.address, "GET /\nConnection: close");
            assert!(told.expect("an answer").answer.last().text().starts_with("a.example"));
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stays on a connection until the server says that it closes it, and then on another one.
    fn stay_connected(&self) {
        let connect = || Client::new(Some("a.example")).connect(self.address).expect("a handshake");
        let mut stream = connect();
        while !self.is_over.load(Ordering::Relaxed) {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
            let mut received = Vec::new();
            while !received.ends_with(b"\r\n\r\na.example") {
                let mut bytes = [0; 4096];
                let length = stream.read(&mut bytes).expect("an answer");
                assert_ne!(length, 0, "the connection is closed: {}", String::from_utf8_lossy(&received));
                received.extend_from_slice(&bytes[..length]);
            }
            assert!(received.starts_with(b"HTTP/1.1 200 "));
            self.answered.fetch_add(1, Ordering::Relaxed);
            if received.windows(17).any(|part| part == b"Connection: close") {
                stream = connect();
            }
        }
    }
}

#[test]
fn renewal_under_load_needs_no_reload_and_loses_nothing() {
    if !have_pebble() {
        return;
    }
    let options = Options { validity_seconds: 20, ..Options::default() };
    let server = server("a.example").replace("return 200", "keepalive_requests 1000000; return 200");
    let parts = parts_with(NameServer::of("127.0.0.1"), "", &server, options);
    let running = parts.start();
    let first = parts.issued(&running, "a.example");
    running.stop();
    // The certificate is renewed when half of its time is over, and not before there is a load.
    parts.pebble.holds_validations();
    let running = parts.site.start(Server::Fulmar);
    let worker_before = worker::of(&running);
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = Load { address: running.address_of(1), is_over: &is_over, answered: &answered };
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| load.connect_again_and_again())));
        scope.spawn(|| load.stay_connected());
        load.goes_on();
        assert_eq!(served(&running, "a.example"), first);
        parts.pebble.validates_at(running.address(), running.address_of(1));
        let is_renewed = wait::until(LIMIT, || {
            let now = served(&running, "a.example");
            is_issued(&now) && now != first
        });
        load.goes_on();
        is_over.store(true, Ordering::Relaxed);
        assert!(is_renewed, "{}", parts.fails(&running));
    });
    assert_eq!(worker::of(&running), worker_before);
    let log = running.log("error.log");
    assert!(!log.contains("reconfiguring") && !log.contains("SIGHUP"), "{log}");
    running.stop();
}

/// A process that is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Issuing,
    Worker,
    Supervisor,
}

/// What an order has reached.
const STEPS: [&str; 5] = [
    "There are now 1 accounts in memory",
    "There are now 1 orders in the db",
    "Attempting to validate",
    "is fully authorized",
    "Issued certificate serial",
];

fn kill_at(step: &str, victim: Victim) {
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let is_reached = wait::until(LIMIT, || parts.pebble.log().contains(step));
    assert!(is_reached, "{step}: {}", parts.fails(&running));
    let pid = match victim {
        Victim::Issuing => issuing(&running).expect("a process"),
        Victim::Worker => worker::of(&running),
        Victim::Supervisor => running.pid(),
    };
    kill_process(pid, Signal::KILL).expect("killed");
    let running = if victim == Victim::Supervisor { restarted(&parts, running) } else { running };
    let is_planned = || running.log("error.log").contains("the next attempt is in");
    let is_over = wait::until(LIMIT, || is_planned() || is_issued(&served(&running, "a.example")));
    assert!(is_over, "{step}, {victim:?}: {}", parts.fails(&running));
    if is_planned() {
        // The authority asked a worker that had just been killed.
        assert_eq!(victim, Victim::Worker, "{step}: {}", parts.fails(&running));
        return running.stop_alerted();
    }
    let certificate = parts.issued(&running, "a.example");
    running.stop_alerted();
    let running = parts.start();
    assert_eq!(served(&running, "a.example"), certificate, "{step}, {victim:?}");
    running.stop_alerted();
}

/// The server once more, when the processes of the first one have ended with their supervisor.
fn restarted(parts: &Parts, mut before: Running) -> Running {
    let address = before.address();
    assert!(before.ends_within(LIMIT));
    let is_free = || std::net::TcpStream::connect(address).is_err();
    assert!(wait::until(LIMIT, is_free), "a worker serves without its supervisor");
    drop(before);
    parts.start()
}

#[test]
fn processes_are_killed_at_each_step_of_an_order() {
    if !have_pebble() {
        return;
    }
    for step in STEPS {
        for victim in [Victim::Issuing, Victim::Worker, Victim::Supervisor] {
            kill_at(step, victim);
        }
    }
}

/// Only the superuser can start processes of different users.
#[test]
fn worker_cannot_read_the_keys_that_are_kept() {
    if !have_pebble() || !geteuid().is_root() {
        return;
    }
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    parts.issued(&running, "a.example");
    let mut kept = 0;
    for file in fs::read_dir(parts.state()).unwrap() {
        let path = file.unwrap().path();
        let status = |user: &str| {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={user}")).args(["--clear-groups", "cat"]).arg(&path);
            command.output().unwrap().status.success()
        };
        assert!(status("root") && !status("nobody"), "{}", path.display());
        kept += 1;
    }
    assert!(kept >= 2, "an account and a certificate");
    running.stop();
}

#[test]
#[ignore = "it takes some minutes: make acme-names"]
fn thousand_names_get_certificates() {
    const SERVERS: usize = 10;
    const NAMES: usize = 100;
    let names = |at: usize| (0..NAMES).map(move |name| format!("n{name}.s{at}.example"));
    let servers: String = (0..SERVERS).map(|at| server(&names(at).collect::<Vec<_>>().join(" "))).collect();
    let parts = parts("", &servers, 5);
    let running = parts.start();
    for at in 0..SERVERS {
        let own = names(at).next_back().unwrap();
        let is_served = wait::until(LIMIT * 10, || is_issued(&served(&running, &own)));
        assert!(is_served, "{own}: {}", parts.fails(&running));
    }
    running.stop();
}
