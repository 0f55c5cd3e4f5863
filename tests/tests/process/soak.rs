//! A server that is reloaded, replaced, killed and shouted at while clients work. nginx does the same next to it, for
//! comparison; only Fulmar is judged.
//!
//! With `FULMAR_SOAK` set (`make soak`) the numbers are those of the claims in the manual, else small ones.

use std::env;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::load::{Load, Tally};
use tests::site::{Running, Site};
use tests::{wait, worker};

use super::reload::{reload, upgrade, whole};

const LIMIT: Duration = Duration::from_secs(30);

/// Clients with a new connection for each request, and with kept ones.
const THREADS: usize = 2;

fn scale(soak: usize, brief: usize) -> usize {
    if env::var_os("FULMAR_SOAK").is_some() { soak } else { brief }
}

fn server(said: &str) -> String {
    whole(
        "daemon on;",
        &format!(
            "keepalive_requests 1000000; server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
             location /made {{ return 200 \"{said}\"; }} }}"
        ),
    )
}

fn site() -> Site {
    Site::whole(&server("x")).file("f.txt", "x".repeat(3000))
}

/// Both kinds of clients at work.
struct Clients {
    fresh: Load,
    kept: Load,
}

/// What both kinds saw.
struct Seen {
    fresh: Tally,
    kept: Tally,
}

impl Clients {
    fn start(running: &Running) -> Clients {
        Clients {
            fresh: Load::of_new_connections(running.address(), "/made", THREADS),
            kept: Load::of_kept_connections(running.address(), "/f.txt", THREADS),
        }
    }

    fn finish(self) -> Seen {
        Seen { fresh: self.fresh.finish(), kept: self.kept.finish() }
    }
}

impl Seen {
    fn assert_nothing_lost(&self) {
        for (name, tally) in [("new", &self.fresh), ("kept", &self.kept)] {
            assert!(tally.answered > 0, "{name}: no answer");
            assert!(tally.failed.is_empty(), "{name}: {:?}", tally.failed);
            assert_eq!(tally.silent, 0, "{name}: connections ended without a word");
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { fresh, kept } = self;
        let (answered, lost) = (fresh.answered, fresh.failed.len());
        write!(f, "new connections: {answered} answered, {lost} lost; ")?;
        let (answered, lost) = (kept.answered, kept.failed.len() + kept.silent);
        let ended = kept.ended;
        write!(f, "kept connections: {answered} answered, {lost} lost, {ended} ended by the server")
    }
}

/// The same script with both servers; what it gives is printed.
fn with_both(script: impl Fn(&Running, Server)) {
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Fulmar || (env::var_os("FULMAR_SOAK").is_some() && have_nginx()) {
            let running = site().start(server);
            script(&running, server);
            running.stop();
        }
    }
}

fn say(server: Server, text: impl fmt::Display) {
    println!("{:>6} {text}", server.name());
}

#[test]
fn soak_reloads_lose_nothing_and_end_no_connection() {
    let count = scale(100, 10);
    with_both(|running, name| {
        let clients = Clients::start(running);
        for turn in 0..count {
            let said = turn.to_string();
            reload(running, &server(&said), &said);
        }
        let seen = clients.finish();
        say(name, format!("{count} reloads: {seen}"));
        if name == Server::Fulmar {
            seen.assert_nothing_lost();
            assert_eq!(seen.kept.ended, 0, "a reload ended connections");
        }
    });
}

#[test]
fn soak_upgrades_lose_nothing() {
    let count = scale(20, 2);
    with_both(|running, name| {
        let clients = Clients::start(running);
        (0..count).for_each(|_| upgrade(running));
        let seen = clients.finish();
        say(name, format!("{count} upgrades: {seen}"));
        if name == Server::Fulmar {
            seen.assert_nothing_lost();
        }
    });
}

#[test]
fn soak_a_killed_worker_is_missed_by_those_it_served() {
    let count = scale(20, 2);
    with_both(|running, name| {
        let clients = Clients::start(running);
        let mut back = Vec::new();
        for turn in 0..count {
            let said = turn.to_string();
            reload(running, &server(&said), &said);
            // One that dies right after its start is replaced after a pause.
            wait::pause(Duration::from_millis(1100));
            let workers = Running::children(running.pid());
            let killed = Instant::now();
            workers.iter().for_each(|&pid| kill_process(pid, Signal::KILL).expect("kill"));
            let answers = || Client::try_connect(running.address()).ok()?.exchange("GET /made");
            assert!(wait::until(LIMIT, || answers().is_some()), "{}", running.all_logs());
            back.push(killed.elapsed());
        }
        let seen = clients.finish();
        let longest = back.iter().max().copied().unwrap_or_default();
        // That workers were killed is an alert, and right.
        fs::write(running.log_path("error.log"), "").expect("error log");
        say(name, format!("{count} workers killed, answers again after {longest:?} at most: {seen}"));
        if name == Server::Fulmar {
            // Each client has one request in flight at most.
            let lost = |tally: &Tally| tally.failed.len() + tally.silent;
            let most = count * THREADS;
            assert!(lost(&seen.fresh) <= most && lost(&seen.kept) <= most, "{:?}", seen.fresh.failed);
        }
    });
}

#[test]
fn soak_broken_configurations_change_nothing() {
    let count = scale(50, 3);
    with_both(|running, name| {
        let clients = Clients::start(running);
        for turn in 0..count {
            fs::write(running.log_path("error.log"), "").expect("error log");
            running.rewrite(&server("y").replace("events", "nonsense; events"));
            running.signal(Signal::HUP);
            running.wait_for_log("error.log", "unknown directive \"nonsense\"");
            let said = format!("{turn}");
            reload(running, &server(&said), &said);
        }
        let seen = clients.finish();
        say(name, format!("{count} broken configurations: {seen}"));
        if name == Server::Fulmar {
            seen.assert_nothing_lost();
        }
    });
}

#[test]
fn soak_a_storm_of_signals() {
    let count = scale(2000, 60);
    with_both(|running, name| {
        let clients = Clients::start(running);
        let signals = [Signal::HUP, Signal::USR1, Signal::HUP, Signal::CHILD, Signal::ALARM];
        for turn in 0..count {
            running.signal(signals[turn % signals.len()]);
            if turn % 20 == 0 {
                wait::pause(Duration::from_millis(2));
            }
        }
        reload(running, &server("after"), "after");
        let seen = clients.finish();
        say(name, format!("{count} signals: {seen}"));
        if name == Server::Fulmar {
            seen.assert_nothing_lost();
        }
    });
}

/// A process, by what must not grow.
#[derive(Clone, Copy, Debug)]
struct Size {
    descriptors: usize,
    memory_kb: u64,
}

impl Size {
    /// `None` where the process has ended.
    fn of(process: Pid) -> Option<Size> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let memory_kb = line.trim().trim_end_matches(" kB").parse().expect("a number");
        Some(Size { descriptors: worker::descriptors(process), memory_kb })
    }
}

/// The processes of a server when nothing drains any more: when they are as many as before, with no more descriptors, if
/// that comes to pass.
fn settled(running: &Running, before: Option<&Vec<Size>>) -> Vec<Size> {
    // A worker that drained may end between the look for children and the look at it.
    let sizes = || -> Vec<Size> {
        let workers = Running::children(running.pid());
        std::iter::once(running.pid()).chain(workers).filter_map(Size::of).collect()
    };
    let is_as_before = |now: &[Size], before: &[Size]| {
        let no_more = |(now, before): (&Size, &Size)| now.descriptors <= before.descriptors;
        now.len() == before.len() && now.iter().zip(before).all(no_more)
    };
    match before {
        None => wait::pause(Duration::from_millis(1500)),
        Some(before) => {
            wait::until(LIMIT, || is_as_before(&sizes(), before));
        }
    }
    sizes()
}

#[test]
fn soak_reloads_leak_nothing() {
    /// What a heap may settle by, in kilobytes.
    const SETTLING_KB: u64 = 4 * 1024;
    let (before, after) = (scale(200, 20), scale(1000, 60));
    with_both(|running, name| {
        let mut idle: Vec<Client> = (0..20).map(|_| running.connect()).collect();
        for client in &mut idle {
            assert_eq!(client.exchange("GET /f.txt").expect("an answer").status, 200);
        }
        let mut sizes = Vec::new();
        for turn in 1..=after {
            let said = turn.to_string();
            reload(running, &server(&said), &said);
            if turn == before || turn == after {
                sizes.push(settled(running, sizes.first()));
            }
        }
        say(name, format!("{before} and {after} reloads: {:?}, then {:?}", sizes[0], sizes[1]));
        if name == Server::Fulmar {
            assert_eq!((sizes[0].len(), sizes[1].len()), (2, 2), "a supervisor and a worker");
            for (first, last) in sizes[0].iter().zip(&sizes[1]) {
                assert!(last.descriptors <= first.descriptors, "descriptors leak: {first:?} {last:?}");
                assert!(last.memory_kb <= first.memory_kb + SETTLING_KB, "{first:?} {last:?}");
            }
            for client in &mut idle {
                client.extend(LIMIT);
                assert_eq!(client.exchange("GET /f.txt").expect("it stayed open").status, 200);
            }
        }
    });
}
