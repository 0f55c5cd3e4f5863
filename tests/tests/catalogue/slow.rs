//! Slow, idle and very many connections (rows C1–C14).
//!
//! | row | elsewhere |
//! |---|---|
//! | C1 | `process::deadlines::of_a_dripping_head` |
//! | C2 | `process::deadlines::of_a_connection_that_says_nothing` |
//! | C9 | `differential::limits` |
//! | C11 | `proxy_protocol::c11_what_is_no_header`, `c11_a_header_has_one_deadline` |
//! | C13 | `catalogue::proxy::g9_a_slow_drip` |

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::crowd::{Behaviour, SlowClients, allowed, slow_reader};
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};
use tests::tls::{Kind, certificate};
use tests::{client, wait, worker};

/// Nothing that has a deadline of a second or two takes longer, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(20);

/// How large the file is that slow readers ask for. It has no blocks on the disk.
const LARGE: u64 = 256 << 20;

/// As much as the system holds of an answer, where many clients do not take theirs: the tests next to this one need
/// memory, too.
const BOUNDED: &str = "sndbuf=128k";

/// A site with short deadlines, for very many connections to a socket with these options.
fn crowded(settings: &str, options: &str) -> Running {
    let origin = Origin::start(|_| ok("origin"));
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let site = Site::whole(&format!(
        r#"
        daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; worker_rlimit_nofile 20000;
        events {{ worker_connections 20000; }}
        http {{
            access_log off;
            server {{
                listen 127.0.0.1:%%PORT%% backlog=4096 {options};
                root %%ROOT%%;
                open_file_cache max=10;
                {settings}
                location /made {{ return 200 "ok"; }}
                location /up {{ proxy_pass http://{}; }}
            }}
        }}
        "#,
        origin.address()
    ))
    .file("f.txt", "file\n");
    let large = File::create(site.root().join("large")).expect("a file");
    large.set_len(LARGE).expect("a length");
    site.start(Server::Fulmar)
}

fn slow_head() -> Behaviour {
    Behaviour {
        first: "GET /made HTTP/1.1\r\nHost: a\r\nX: ".to_owned(),
        drip: "x",
        takes: 512,
        pause: Duration::from_millis(500),
    }
}

fn slow_body() -> Behaviour {
    Behaviour {
        first: "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".to_owned(),
        drip: "x",
        takes: 512,
        pause: Duration::from_millis(500),
    }
}

fn slow_reading() -> Behaviour {
    Behaviour {
        first: "GET /large HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        drip: "",
        takes: 700,
        pause: Duration::from_millis(500),
    }
}

const SHORT: &str = "client_header_timeout 3s; client_body_timeout 3s; client_body_min_rate 1k;
    send_timeout 3s; send_min_rate 8m; lingering_timeout 1s;";

/// C1, C3, C4: each kind of slow client alone, and all of them at once, with the deadlines of the configuration: a
/// good one is served all the while, and they are shed.
#[test]
fn c1_c3_c4_crowds_are_shed_and_nobody_waits_for_them() {
    let each = allowed(2_000) / 3;
    let running = crowded(SHORT, BOUNDED);
    let process = worker::of(&running);
    assert_eq!(running.ask("GET /f.txt\nConnection: close").last().text(), "file\n");
    let quiet = worker::descriptors(process);
    let crowds = [slow_head(), slow_body(), slow_reading()]
        .map(|slow| SlowClients::gather(running.address(), each, &slow));
    let mut kept = running.connect();
    kept.extend(PATIENCE);
    for _ in 0..50 {
        assert_eq!(kept.exchange("GET /f.txt").expect("an answer").text(), "file\n");
        assert_eq!(running.ask("GET /made\nConnection: close").statuses(), [200]);
    }
    let shed = wait::until(PATIENCE, || worker::descriptors(process) <= quiet + 10);
    assert!(shed, "{} descriptors, {quiet} before", worker::descriptors(process));
    for crowd in &crowds[..2] {
        assert!(wait::until(PATIENCE, || crowd.open() == 0), "{} of {} open", crowd.open(), crowd.count());
    }
    assert_eq!(worker::of(&running), process, "the worker is another one:\n{}", running.all_logs());
    running.stop();
}

/// The full number, with times: `make slow-clients`. To be run on a machine that does nothing else.
#[test]
#[ignore = "takes its own machine: make slow-clients"]
fn ten_thousand_slow_clients() {
    let settings = SHORT.replace("3s", "15s");
    let running = crowded(&settings, "");
    let process = worker::of(&running);
    assert_eq!(running.ask("GET /f.txt\nConnection: close").last().text(), "file\n");
    let quiet = worker::descriptors(process);
    let started = Instant::now();
    let total = allowed(10_000);
    let crowds =
        [(slow_head(), total / 3), (slow_body(), total / 3), (slow_reading(), total - 2 * (total / 3))]
            .map(|(slow, count)| SlowClients::gather(running.address(), count, &slow));
    let gathered = started.elapsed();
    let mut waits = Vec::new();
    let mut kept = running.connect();
    kept.extend(Duration::from_secs(60));
    // Behind the arrival of all others at once: as much of the large file as the system's buffers take for each.
    let asked = Instant::now();
    assert_eq!(kept.exchange("GET /f.txt").expect("an answer").text(), "file\n");
    let arrival = asked.elapsed();
    for turn in 0..1000 {
        let asked = Instant::now();
        if turn % 2 == 0 {
            assert_eq!(kept.exchange("GET /f.txt").expect("an answer").text(), "file\n");
        } else {
            let mut fresh = running.connect();
            assert_eq!(fresh.exchange("GET /made").expect("an answer").status, 200);
        }
        waits.push(asked.elapsed());
    }
    waits.sort();
    let most = waits[waits.len() - 1];
    let held = worker::descriptors(process) - quiet;
    let shed = wait::until(Duration::from_secs(60), || worker::descriptors(process) <= quiet + 10);
    let over = started.elapsed();
    println!(
        "{total} slow clients gathered in {gathered:?}, {held} descriptors held; a good request behind their arrival: \
         {arrival:?}; 1000 good requests beside them: median {:?}, 99 % {:?}, all {most:?}; all shed {over:?} after the \
         first came",
        waits[500], waits[990]
    );
    assert!(shed, "{} descriptors, {quiet} before", worker::descriptors(process));
    assert!(most <= Duration::from_millis(100), "a good client waited {most:?}");
    // Deadlines of 15 s, with what was taken at the full rate, after the last one came.
    assert!(over <= gathered + Duration::from_secs(25), "shed after {over:?}");
    drop(crowds);
    running.stop();
}

/// C2: neither silence nor half of a handshake holds an encrypted connection.
#[test]
fn c2_a_handshake_that_never_comes() {
    let made = certificate("a.example", Kind::Ecdsa);
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%% ssl; client_header_timeout 1s; return 200 ok;
         ssl_certificate %%DIR%%/c.pem; ssl_certificate_key %%DIR%%/c.key; }",
    )
    .in_prefix("c.pem", &made.pem)
    .in_prefix("c.key", &made.key);
    let running = site.start(Server::Fulmar);
    let hello_begins: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for first in [&b""[..], &hello_begins[..1], hello_begins] {
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(first);
        assert!(client.closes_within(PATIENCE), "after {first:?}");
    }
    // A byte now and then does not move the deadline.
    let mut client = running.connect();
    client.extend(PATIENCE);
    let dripped = hello_begins.iter().chain(std::iter::repeat_n(&0, 100));
    let closed =
        dripped.map(|&byte| client.send(&[byte]) && !client.closes_within(Duration::from_millis(100)));
    assert!(closed.into_iter().any(|is_open| !is_open), "a dripped handshake");
    running.stop();
}

/// C3: a body has a deadline for the whole of it, where the configuration says how fast it has to come.
#[test]
fn c3_a_body_that_drips() {
    let origin = Origin::start(|_| ok("origin"));
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; client_body_timeout 1s; client_body_min_rate 1k;
             location / {{ proxy_pass http://{0}; }}
             location /streamed {{ proxy_pass http://{0}; proxy_request_buffering off; }} }}",
        origin.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    let post = |path: &str, body: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\n{body}");
    let (length, chunks) = ("Content-Length: 9999\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n");
    for (path, body, drip) in
        [("/", length, &b"x"[..]), ("/", chunks, b"1\r\nx\r\n"), ("/streamed", length, b"x")]
    {
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(post(path, body).as_bytes());
        let mut drips = 0;
        while client.send(drip) && !client.closes_within(Duration::from_millis(50)) && drips < 400 {
            drips += 1;
        }
        assert!(drips < 400, "{path} {body:?} is read for ever");
    }
    running.stop_and(|running| {
        let log = running.log("access.log");
        assert!(log.lines().count() == 3 && log.lines().all(|line| line.contains("\" 408 ")), "{log}");
    });
}

/// C3: what comes in time, and what nobody is in a hurry for, is read to its end.
#[test]
fn c3_a_body_in_time() {
    let origin = Origin::start(|asked| ok(asked.text.len().to_string()));
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; client_body_timeout 2s; client_body_min_rate 10;
             location / {{ proxy_pass http://{}; }} }}",
        origin.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    let in_time = || {
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n");
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            let sent = Instant::now();
            client.send(&[b'x'; 20]);
            wait::pause(Duration::from_millis(100));
            longest = longest.max(sent.elapsed());
        }
        let status = client.response("POST").map(|response| response.status);
        let stood_still = longest > Duration::from_secs(1);
        assert!(status == Some(200) || stood_still, "{status:?}: {}", running.all_logs());
        status == Some(200)
    };
    assert!((0..5).any(|_| in_time()), "this machine stands still");
    running.stop();
}

/// C4: a response has a deadline for the whole of it, where the configuration says how fast it is to be taken; what
/// waits for a client is bounded either way.
#[test]
fn c4_a_reader_that_drips() {
    // The buffers of the system are empty enough for more several times within the timeout.
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; send_timeout 4s; send_min_rate 16m; sendfile on;
             location /copied/ { alias %%ROOT%%/; sendfile off; } }",
    );
    let large = File::create(site.root().join("large")).expect("a file");
    large.set_len(LARGE).expect("a length");
    let running = site.start(Server::Fulmar);
    let drip = |path: &str| {
        let mut reader = slow_reader(running.address());
        reader.set_read_timeout(Some(PATIENCE)).expect("a limit");
        reader.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("send");
        let line = format!("\"GET {path} HTTP/1.1\" 200 ");
        let mut taken = 0;
        let given_up = wait::until(PATIENCE, || {
            taken += reader.read(&mut [0; 8192]).unwrap_or(0);
            running.log("access.log").contains(&line)
        });
        assert!(given_up, "{path}: {taken} bytes were taken and it goes on");
        assert!((taken as u64) < LARGE / 2, "{path}: {taken}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| drip("/copied/large"));
        drip("/large");
    });
    running.wait_for_log("error.log", "timed out");
    let peak = running.peak_bytes();
    assert!(peak < 100 << 20, "{peak} bytes of memory");
    running.stop();
}

/// C6: connections that come only to go, orderly or by a reset, cost no descriptor, no message and no request.
#[test]
fn c6_a_flood_of_connections() {
    let running = crowded("client_header_timeout 60s;", BOUNDED);
    let process = worker::of(&running);
    let mut kept = running.connect();
    kept.extend(PATIENCE);
    assert_eq!(kept.exchange("GET /made").expect("an answer").status, 200);
    let quiet = worker::descriptors(process);
    for at in 0..2000 {
        let mut stream = TcpStream::connect(running.address()).expect("connect");
        if at % 2 == 0 {
            set_socket_linger(&stream, Some(Duration::ZERO)).expect("linger");
        }
        if at % 3 == 0 {
            let _ = stream.write_all(b"GET /made HTT");
        }
        drop(stream);
        if at % 100 == 0 {
            assert_eq!(kept.exchange("GET /made").expect("an answer").status, 200);
        }
    }
    // A worker that serves may still open what it hears signals by.
    let free = wait::until(PATIENCE, || worker::descriptors(process) <= quiet + 10);
    assert!(free, "{} descriptors, {quiet} before", worker::descriptors(process));
    // At the level of errors, which is the default, there is nothing to tell.
    assert_eq!(running.log("error.log"), "");
    running.stop();
}

/// C7: where places are scarce, those who wait for their next request make room, and when nobody can, new
/// connections are refused one by one; those with a request in hand stay.
#[test]
fn c7_more_connections_than_places() {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let text = format!(
        r#"
        daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; worker_processes 1;
        events {{ worker_connections 32; }}
        http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made {{ return 200 ok; }} }} }}
        "#
    );
    let site = Site::whole(&text);
    let large = File::create(site.root().join("large")).expect("a file");
    large.set_len(LARGE).expect("a length");
    let running = site.start(Server::Fulmar);
    let mut download = running.connect();
    download.extend(PATIENCE);
    download.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(download.read_some(100) > 0);
    let mut idle: Vec<Client> = Vec::new();
    for at in 0..200 {
        let mut fresh = running.connect();
        fresh.extend(PATIENCE);
        let answer = fresh.exchange("GET /made");
        assert_eq!(answer.map(|response| response.status), Some(200), "{at}: {}", running.all_logs());
        idle.push(fresh);
    }
    running.wait_for_log("error.log", "32 worker_connections are not enough, reusing connections");
    let complaints = running.log("error.log").matches("reusing connections").count();
    assert!(complaints < 100, "{complaints} messages about 200 connections");
    assert!(download.read_some(100_000) > 0, "who is served stays");
    drop(download);
    drop(idle);
    running.stop();
}

/// C7: a client that asks now and then keeps its connection, whether the others were answered once or sent nothing: the
/// connections that have been idle for longest are closed first.
#[test]
fn c7_a_client_that_asks_keeps_its_connection() {
    for are_silent in [false, true] {
        for server in [Server::Fulmar].into_iter().chain(have_nginx().then_some(Server::Nginx)) {
            let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
            let running = Site::whole(&format!(
                "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log warn; worker_processes 1;
                events {{ worker_connections 64; }}
                http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 ok; }} }} }}"
            ))
            .start(server);
            let mut good = running.connect();
            let mut others = Vec::new();
            for at in 0..150 {
                let mut other = running.connect();
                if !are_silent {
                    assert!(other.exchange("GET /made").is_some(), "{}", running.all_logs());
                }
                others.push(other);
                wait::pause(Duration::from_millis(2));
                let answer = good.exchange("GET /made").map(|answer| answer.status);
                assert_eq!(answer, Some(200), "{server:?}, {at} others, silent: {are_silent}");
            }
            running.wait_for_log("error.log", "worker_connections are not enough, reusing connections");
            drop((good, others));
            running.stop();
        }
    }
}

/// C8: a client that never ends its side, nor takes what it was sent, does not keep the connection.
#[test]
fn c8_a_client_that_never_closes() {
    let running =
        crowded("lingering_timeout 1s; lingering_time 2s; send_timeout 1s; keepalive_timeout 1s;", BOUNDED);
    let process = worker::of(&running);
    assert_eq!(running.ask("HEAD /large\nConnection: close").statuses(), [200]);
    let quiet = worker::descriptors(process);
    let inputs = [
        "GET /made HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /made HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /made HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /made HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n",
        "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    let silent: Vec<TcpStream> = inputs
        .iter()
        .map(|input| {
            let mut stream = slow_reader(running.address());
            stream.write_all(input.as_bytes()).expect("send");
            stream
        })
        .collect();
    // A worker that serves may still open what it hears signals by.
    let free = wait::until(PATIENCE, || worker::descriptors(process) <= quiet + 10);
    assert!(free, "{} descriptors, {quiet} before", worker::descriptors(process));
    drop(silent);
    running.stop();
}

/// C12: a connection that changed its protocol ends when neither side has said anything for long enough.
#[test]
fn c12_a_silent_tunnel() {
    let reply = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start(move |_| tests::origin::raw(reply, tests::origin::After::Echo));
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://{}; proxy_read_timeout 2s;
             proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        origin.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    let stays_while_it_is_used = || {
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(client.response("GET").expect("an answer").status, 101);
        let (mut longest, mut echoes) = (Duration::ZERO, true);
        for _ in 0..12 {
            let sent = Instant::now();
            client.send(b"ping");
            echoes &= client.read_some(4) > 0;
            wait::pause(Duration::from_millis(200));
            longest = longest.max(sent.elapsed());
        }
        assert!(echoes || longest > Duration::from_secs(1), "a tunnel ends that is used");
        assert!(client.closes_within(PATIENCE), "the tunnel stays");
        echoes
    };
    assert!((0..5).any(|_| stays_while_it_is_used()), "this machine stands still");
    assert!(wait::until(PATIENCE, || origin.open() == 0), "its other end stays");
    running.stop();
}

/// C14: no second of a log has more than a thousand lines about clients, and what is not there is counted.
#[test]
fn c14_a_second_of_the_log_has_a_bound() {
    const REQUESTS: usize = 6_000;
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let text = format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; events {{ }}
         http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; keepalive_requests 10000;
             location /made {{ return 200 ok; }} }} }}"
    );
    let running = Site::whole(&text).start(Server::Fulmar);
    let mut client = running.connect();
    client.extend(PATIENCE);
    let mut writer = client.try_clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            (0..REQUESTS).for_each(|_| assert!(writer.send(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")));
        });
        for at in 0..REQUESTS {
            assert_eq!(client.response("GET").map(|response| response.status), Some(404), "{at}");
        }
    });
    // The next second begins with the number of those that the one before left out.
    let (mut written, mut suppressed, mut asked) = (0, 0, REQUESTS);
    let all = wait::until(PATIENCE, || {
        assert_eq!(running.ask("GET /none\nConnection: close").statuses(), [404]);
        asked += 1;
        let log = running.log("error.log");
        written = log.matches("/none\" failed (2: ").count();
        let counts =
            log.lines().filter_map(|line| line.strip_suffix(" lines suppressed")?.rsplit(' ').next());
        suppressed = counts.map(|count| count.parse::<usize>().expect("a number")).sum();
        written + suppressed == asked
    });
    assert!(all, "{written} written, {suppressed} suppressed, {asked} asked");
    let log = running.log("error.log");
    let mut seconds = std::collections::HashMap::<&str, usize>::new();
    log.lines()
        .filter(|line| line.contains("/none"))
        .for_each(|line| *seconds.entry(&line[..19]).or_default() += 1);
    assert!(seconds.values().all(|&lines| lines <= 1_000), "{seconds:?}");
    let full = seconds.values().filter(|&&lines| lines == 1_000).count();
    assert!(log.matches("suppressing the others").count() <= full, "{log}");
    running.stop();
}

/// C14: thousands of bad requests are no flood of the error log at its default level, and a line each of the access log.
#[test]
fn c14_bad_requests_do_not_flood_the_log() {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let text = format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; events {{ }}
         http {{ access_log %%LOGS%%/access.log; server {{ listen 127.0.0.1:%%PORT%%; return 200 ok; }} }}"
    );
    let running = Site::whole(&text).start(Server::Fulmar);
    for _ in 0..1000 {
        let mut stream = TcpStream::connect(running.address()).expect("connect");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").expect("send");
        stream.shutdown(std::net::Shutdown::Write).expect("end");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(client::ask(running.address(), "GET /\nConnection: close").statuses(), [200]);
    running.stop_and(|running| {
        assert_eq!(running.log("error.log"), "");
        assert_eq!(running.log("access.log").lines().count(), 1001);
    });
}
