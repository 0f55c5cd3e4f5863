//! Requests that wait for one another (`proxy_cache_lock`) although the response is never kept.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tests::binary::{Server, have_nginx};
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::wait;

use super::cache_rules::Peer;
use super::caching::{Counter, LIMIT, get, kept, pair, with};

const LOCK: &str = "proxy_cache_lock on; proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s;";

/// Lets requests go on only when so many of them have come.
struct Meeting {
    come: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn wait_for(&self, count: usize) {
        let mut come = self.come.lock().unwrap();
        *come += 1;
        self.changed.notify_all();
        let (come, _) = self.changed.wait_timeout_while(come, LIMIT, |come| *come < count).unwrap();
        assert!(*come >= count, "only {come} requests are on their way at the same time");
    }
}

fn answer(control: &str, number: usize) -> Reply {
    let body = format!("number {number}");
    let head = format!("HTTP/1.1 200 OK\r\n{control}\r\nContent-Length: {}", body.len());
    raw(&format!("{head}\r\n\r\n{body}"), After::Keep)
}

/// So many clients ask at the same time, of which one reaches the upstream server first.
fn waiters_go_at_once(settings: &str, control: &'static str) {
    const CLIENTS: usize = 12;
    let meeting = Arc::new(Meeting { come: Mutex::new(0), changed: Condvar::new() });
    let met = Arc::clone(&meeting);
    let counter = Counter::start(move |asked: &Asked, number| {
        if asked.target == "/a" && number > 1 {
            // One request after the other would never be so many.
            met.wait_for(CLIENTS - 1);
        }
        answer(if number > 3 * CLIENTS { "Cache-Control: max-age=600" } else { control }, number)
    });
    let running = counter.site(&with(&format!("{LOCK}{settings}"))).start(Server::Fulmar);
    let wave = |clients: usize| {
        thread::scope(|scope| {
            let asks: Vec<_> = (0..clients).map(|_| scope.spawn(|| kept(&running, "/a").0)).collect();
            asks.into_iter().map(|ask| ask.join().unwrap()).collect::<Vec<_>>()
        })
    };
    counter.gate.set(true);
    thread::scope(|scope| {
        scope.spawn(|| assert!(wave(CLIENTS).iter().all(|status| status == "MISS"), "the first wave"));
        counter.wait_for(1);
        // The others wait for it.
        wait::pause(Duration::from_millis(300));
        assert_eq!(counter.count(), 1);
        counter.gate.set(false);
    });
    assert_eq!(counter.count(), CLIENTS, "each got a separate answer");
    // In the next wave none waits for another one.
    *meeting.come.lock().unwrap() = 0;
    assert!(wave(CLIENTS - 1).iter().all(|status| status == "MISS"));
    // The key is forgotten when a response is kept.
    while counter.count() <= 3 * CLIENTS {
        get(&running, "/a");
    }
    assert_eq!(kept(&running, "/a"), pair("HIT", &format!("number {}", counter.count())));
    running.stop();
}

#[test]
fn requests_for_what_is_never_kept_wait_for_one_response_only() {
    waiters_go_at_once("", "Cache-Control: no-store");
}

#[test]
fn a_cookie_of_each_response_does_not_make_a_queue() {
    waiters_go_at_once("proxy_cache_rules rfc9111;", "Cache-Control: max-age=600\r\nSet-Cookie: a=b");
}

/// How long the clients of a wave wait, in milliseconds: the median one and the last one.
fn wave(address: SocketAddr, clients: usize) -> (u128, u128) {
    let started = Instant::now();
    let mut times: Vec<u128> = thread::scope(|scope| {
        let ask = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
            started.elapsed().as_millis()
        };
        let asks: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    times.sort_unstable();
    (times[clients / 2], times[clients - 1])
}

/// `make cache-waiting`
#[test]
#[ignore = "it measures how long clients wait, beside nginx and Varnish"]
fn clients_that_wait_for_what_is_never_kept() {
    const CLIENTS: usize = 200;
    let origin = Origin::start(|_| {
        wait::pause(Duration::from_millis(300));
        answer("Cache-Control: no-store", 1)
    });
    let site = || {
        let port = origin.address().port().to_string();
        let text = with("proxy_cache_lock on;").replace("ORIGIN", &port);
        tests::site::Site::new(&format!("proxy_cache_path %%LOGS%%/cache keys_zone=one:1m; {text}"))
    };
    let print = |name: &str, address| {
        for number in ["first", "second"] {
            let (median, last) = wave(address, CLIENTS);
            eprintln!("{name}: {CLIENTS} clients, {number} wave: median {median} ms, last {last} ms");
        }
    };
    let running = site().start(Server::Fulmar);
    print("Fulmar", running.address());
    running.stop();
    if have_nginx() {
        let running = site().start(Server::Nginx);
        print("nginx", running.address());
        running.stop();
    }
    if std::process::Command::new("varnishd").arg("-V").output().is_ok() {
        print("Varnish", Peer::varnish(&origin).address);
    }
}
