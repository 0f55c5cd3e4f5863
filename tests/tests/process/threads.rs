//! A thread of the worker that stands still.

use std::fs;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use rustix::process::Signal;
use tests::binary::Server;
use tests::client::Client;
use tests::site::{Running, Site};
use tests::{wait, worker};

use crate::stream_udp::{Client as Datagrams, answering};

/// Enough for each thread to be chosen for some of them.
const CLIENTS: usize = 40;

/// A server of datagrams, unless a test puts another one in its place.
const DATAGRAMS: &str = "127.0.0.1:9";

/// Content that takes minutes.
const BODY: &str = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
    0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

fn site() -> Site {
    Site::whole(&configuration())
}

fn configuration() -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; worker_processes 2; events {{ }}
        stream {{ server {{ listen 127.0.0.1:%%PORT_1%% udp; proxy_pass {DATAGRAMS}; proxy_timeout 60s; }} }}
        http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; server_name one.example;
            location /made {{ return 200 ok; }}
            location /slow/ {{ location /slow/inner/ {{ limit_rate 1; return 200 {BODY}; }} }} }} }}"
    )
}

/// The kernel's number of a thread of the worker. Panics if the thread does not start.
fn thread(running: &Running, name: &str) -> Pid {
    let tasks = format!("/proc/{}/task", worker::of(running));
    let named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let mut found = None;
    wait::until(Duration::from_secs(10), || {
        found = fs::read_dir(&tasks).expect("threads").filter_map(Result::ok).find(named);
        found.is_some()
    });
    let task = found.unwrap_or_else(|| panic!("no thread {name}: {}", running.all_logs()));
    Pid::from_raw(task.file_name().to_string_lossy().parse().expect("a number"))
}

/// Whether all of many new clients are answered.
fn serves_all(running: &Running) -> bool {
    serves(running, CLIENTS)
}

/// Whether so many new clients are answered.
fn serves(running: &Running, clients: usize) -> bool {
    let mut clients: Vec<Client> = (0..clients).map(|_| running.connect()).collect();
    clients.iter_mut().all(|client| {
        client.extend(Duration::from_secs(10));
        client.exchange("GET /made").is_some_and(|response| response.status == 200)
    })
}

/// Stops a thread.
fn stop(running: &Running, name: &str) -> Pid {
    let stopped = thread(running, name);
    ptrace::seize(stopped, ptrace::Options::empty()).expect("ptrace(2)");
    ptrace::interrupt(stopped).expect("ptrace(2)");
    waitpid(stopped, Some(nix::sys::wait::WaitPidFlag::__WALL)).expect("the thread stops");
    stopped
}

/// Stops a thread, and checks that the other one accepts in its place until it goes on.
fn stop_for_a_while(running: &Running, number: usize) {
    let other = 3 - number;
    // Both threads serve: none is stopped before it has started.
    assert!(serves_all(running), "{}", running.all_logs());
    let stopped = stop(running, &format!("serve-{}", number - 1));
    assert!(serves_all(running), "{}", running.all_logs());
    running.wait_for_log("error.log", &format!("thread {number} has not served for 1."));
    let log = running.log("error.log");
    assert!(log.contains(&format!("stopped it; thread {other} accepts connections in its place")), "{log}");
    assert!(serves_all(running), "{}", running.all_logs());

    ptrace::detach(stopped, None).expect("ptrace(2)");
    running.wait_for_log("error.log", &format!("thread {number} goes on after"));
    assert!(serves_all(running), "{}", running.all_logs());
}

#[test]
fn another_thread_accepts_in_the_place_of_one_that_is_stopped() {
    let running = site().start(Server::Fulmar);
    stop_for_a_while(&running, 1);
    stop_for_a_while(&running, 2);
    running.stop();
}

/// No other thread wakes for the clients of a thread that was stopped while it waited for events.
#[test]
fn a_single_client_of_a_stopped_thread_is_answered() {
    let running = site().start(Server::Fulmar);
    assert!(serves_all(&running), "{}", running.all_logs());
    wait::pause(Duration::from_secs(1));
    let stopped = stop(&running, "serve-0");
    // One after the other, each after both threads and the watchdog came to rest: one of them meets the stopped thread.
    for client in 0..4 {
        assert!(serves(&running, 1), "client {client}: {}", running.all_logs());
        wait::pause(Duration::from_millis(500));
    }
    ptrace::detach(stopped, None).expect("ptrace(2)");
    running.stop();
}

/// Another thread begins the sessions of new clients. Datagrams of sessions that the stopped thread has wait for it, and the
/// sessions that the other thread began stay there.
#[test]
fn another_thread_receives_datagrams_in_the_place_of_one_that_is_stopped() {
    let text = configuration().replace(DATAGRAMS, &answering(1).to_string());
    let running = Site::whole(&text).start(Server::Fulmar);
    let clients = || -> Vec<Datagrams> { (0..CLIENTS).map(|_| Datagrams::of(&running, 1)).collect() };
    let ports =
        |clients: &[Datagrams]| -> Vec<u16> { clients.iter().map(|client| client.port("x")).collect() };
    let before = clients();
    let ports_before = ports(&before);
    let stopped = stop(&running, "serve-0");
    // They meet both threads.
    let during = clients();
    let ports_during = ports(&during);
    before.iter().for_each(|client| client.send("waits"));
    let answered =
        before.iter().filter(|client| client.received(Duration::from_millis(100)).is_some()).count();
    assert!(answered > 0 && answered < CLIENTS, "{answered} of {CLIENTS} sessions are on the other thread");

    ptrace::detach(stopped, None).expect("ptrace(2)");
    running.wait_for_log("error.log", "thread 1 goes on after");
    for client in &before {
        while client.received(Duration::from_millis(200)).is_some() {}
    }
    assert_eq!(ports(&before), ports_before);
    assert_eq!(ports(&during), ports_during);
    running.signal(Signal::TERM);
}

#[test]
fn threads_help_each_other_after_a_reload() {
    let running = site().start(Server::Fulmar);
    running.rewrite(&configuration().replace("return 200 ok", "return 200 reloaded"));
    running.signal(Signal::HUP);
    let is_reloaded = || running.ask("GET /made").last().text() == "reloaded";
    assert!(wait::until(Duration::from_secs(10), is_reloaded), "{}", running.all_logs());
    stop_for_a_while(&running, 2);
    running.stop();
}

/// The log says which connection, server and location the thread serves.
#[test]
fn a_thread_that_stands_still_is_named_with_its_location() {
    let running = site().start(Server::Fulmar);
    assert!(serves_all(&running), "{}", running.all_logs());
    // Each thread serves some of them, a byte a second.
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| running.connect()).collect();
    let request = b"GET /slow/inner/x HTTP/1.1\r\nHost: one.example\r\n\r\n";
    assert!(clients.iter_mut().all(|client| client.send(request)));
    wait::pause(Duration::from_secs(2));
    let stopped = stop(&running, "serve-0");
    assert!(serves_all(&running), "{}", running.all_logs());
    running.wait_for_log("error.log", "thread 1 has not served for 1.");
    let log = running.log("error.log");
    assert!(log.contains(", server: one.example, location: \"/slow/inner/\""), "{log}");
    drop(clients);
    ptrace::detach(stopped, None).expect("ptrace(2)");
    running.stop();
}
