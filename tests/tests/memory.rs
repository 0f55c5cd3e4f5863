//! The memory that requests in progress may hold, and who is refused where it runs out.

use std::net::TcpListener;
use std::time::Duration;

use crate::http2::raw::{DATA, HEADERS, RESET, Raw, block, frame, get};
use tests::binary::Server;
use tests::client::Client;
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// How long the bodies are that are kept in memory, in bytes.
const BODY: usize = 400 * 1024;

/// A server whose requests may hold 2 MB.
fn site() -> (Running, Origin) {
    let origin = Origin::start(|_| ok("origin"));
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let running = Site::whole(&format!(
        r#"
        daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; request_memory 2m;
        events {{ worker_connections 100; }}
        http {{
            access_log %%LOGS%%/access.log;
            client_max_body_size 10m; client_body_buffer_size 1m;
            server {{
                listen 127.0.0.1:%%PORT%%;
                root %%ROOT%%;
                location /up {{ proxy_pass http://{}; }}
            }}
        }}
        "#,
        origin.address()
    ))
    .file("f.txt", "file\n")
    .start(Server::Fulmar);
    (running, origin)
}

/// A client that has sent all but the last byte of a body.
fn almost(running: &Running) -> Client {
    let mut client = Client::connect(running.address());
    let head = format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n");
    client.send(head.as_bytes());
    client.send(&vec![b'x'; BODY - 1]);
    client
}

fn status(running: &Running) -> u16 {
    let mut client = Client::connect(running.address());
    client.send(b"GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response("GET").expect("an answer").status
}

#[test]
fn new_requests_are_refused_before_those_in_progress_are_cut() {
    let (running, _origin) = site();
    let mut clients: Vec<Client> = Vec::new();
    assert_eq!(status(&running), 200);
    // Each holds its body; with the fifth so much is held that nobody else may begin.
    for _ in 0..5 {
        clients.push(almost(&running));
    }
    assert!(wait::until(PATIENCE, || status(&running) == 503), "nobody is refused");
    running.wait_for_log("error.log", "new requests are refused");
    // Those in progress go on.
    for client in &mut clients {
        client.send(b"x");
        assert_eq!(client.response("POST").expect("an answer").status, 200);
    }
    drop(clients);
    assert!(wait::until(PATIENCE, || status(&running) == 200), "the memory is not given back");
    running.stop_alerted();
}

#[test]
fn a_body_for_which_no_memory_is_left_is_cut() {
    let (running, _origin) = site();
    let mut clients: Vec<Client> = Vec::new();
    // All begin before any of them holds something: the server has asked for each body.
    for _ in 0..8 {
        let mut client = Client::connect(running.address());
        let head =
            format!("POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {BODY}\r\n\r\n");
        client.send(head.as_bytes());
        assert_eq!(client.response("POST").expect("an interim response").status, 100);
        clients.push(client);
    }
    let mut statuses: Vec<u16> = Vec::new();
    for client in &mut clients {
        client.send(&vec![b'x'; BODY - 1]);
    }
    // None of them can end before its last byte, and together they are longer than the limit.
    running.wait_for_log("error.log", "no memory is left for the body of a request");
    for client in &mut clients {
        client.send(b"x");
        statuses.extend(client.response("POST").map(|response| response.status));
    }
    let cut = statuses.iter().filter(|status| **status == 503).count();
    assert!(cut > 0 && statuses.contains(&200), "{statuses:?}");
    drop(clients);
    assert!(wait::until(PATIENCE, || status(&running) == 200), "the memory is not given back");
    running.stop_alerted();
}

/// A server that passes all but `/ok` on to another one, which never answers.
fn with_slow_upstream(request_memory: &str) -> (Running, TcpListener) {
    // It takes connections, as far as the kernel does, and reads nothing.
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let running = Site::whole(&format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info;
        request_memory {request_memory};
        events {{ worker_connections 10000; }}
        http {{
            access_log off;
            server {{
                listen 127.0.0.1:%%PORT%%; http2 on;
                location / {{ proxy_pass http://{}; }}
                location /ok {{ return 200 ok; }}
            }}
        }}",
        upstream.local_addr().unwrap()
    ))
    .start(Server::Fulmar);
    (running, upstream)
}

/// How long the field is that stands once on the wire, and how often each head refers to it.
const FIELD: usize = 3000;
const REFERENCES: usize = 9;

/// How many streams a connection has, of those that the server allows.
const STREAMS: u32 = 127;

/// Opens streams whose heads have a long field nine times each: the first one puts it into the table.
fn amplify(client: &mut Raw) {
    // A length of 3000 after a prefix of 7 bits: 127 and 2873 in groups of 7 bits.
    let entry = [&[0x40, 1, b'a', 0x7f, 0xb9, 0x16][..], &[b'x'; FIELD]].concat();
    let references = [0xbe; REFERENCES];
    let mut frames = frame(HEADERS, 5, 1, &[&block("GET", "/slow")[..], &entry, &references[1..]].concat());
    let head = [&block("GET", "/slow")[..], &references].concat();
    (1..STREAMS).for_each(|index| frames.extend(frame(HEADERS, 5, 2 * index + 1, &head)));
    client.send(&frames);
}

#[test]
fn short_references_to_long_fields_do_not_exhaust_memory() {
    const CONNECTIONS: usize = 24;
    let (running, _upstream) = with_slow_upstream("64m");
    let before = running.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Raw::connect(running.address(), 1 << 20);
        amplify(&mut client);
        client.ping();
        clients.push(client);
    }
    let grown = running.resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes more after {CONNECTIONS} connections");
    drop(clients);
    // What was freed goes back to the system.
    let left = || running.resident_bytes().saturating_sub(before);
    assert!(wait::until(PATIENCE, || left() < grown / 2), "{} of {grown} bytes are kept", left());
    let mut client = Raw::connect(running.address(), 1 << 20);
    client.send(&get(1, "/ok"));
    client.find(|frame| frame.kind == DATA && frame.payload == b"ok");
    drop(client);
    running.stop_alerted();
}

#[test]
fn heads_of_requests_that_wait_are_counted() {
    let (running, _upstream) = with_slow_upstream("4m");
    let ok = || {
        let mut client = Client::connect(running.address());
        client.send(b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response("GET").expect("an answer").status
    };
    assert_eq!(ok(), 200);
    // Requests in both versions of HTTP, with long heads that wait for an upstream.
    let mut clients = Vec::new();
    while clients.len() < 10 && ok() == 200 {
        let mut client = Raw::connect(running.address(), 1 << 20);
        amplify(&mut client);
        client.ping();
        clients.push(client);
    }
    assert_eq!(ok(), 503, "{} connections hold nothing", clients.len());
    running.wait_for_log("error.log", "new requests are refused");
    drop(clients);
    assert!(wait::until(PATIENCE, || ok() == 200), "the memory is not given back");
    let head =
        format!("GET /slow HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("A: {}\r\n", "x".repeat(FIELD)).repeat(8));
    let mut clients = Vec::new();
    while clients.len() < 300 && ok() == 200 {
        let mut client = Client::connect(running.address());
        client.send(head.as_bytes());
        clients.push(client);
    }
    assert_eq!(ok(), 503, "{} requests hold nothing", clients.len());
    drop(clients);
    running.stop_alerted();
}

#[test]
fn heads_of_one_connection_are_limited_together() {
    let (running, _upstream) = with_slow_upstream("off");
    let mut client = Raw::connect(running.address(), 1 << 20);
    amplify(&mut client);
    let refused = client.ping().iter().filter(|frame| frame.kind == RESET && frame.number(0) == 7).count();
    let size = FIELD * REFERENCES;
    let accepted = STREAMS as usize - refused;
    assert!(
        (accepted - 1) * size < 1 << 20 && accepted * size > (1 << 20) - 2 * size,
        "{refused} are refused"
    );
    running.wait_for_log("error.log", "client sent too long headers in concurrent streams");
    // A small one has room.
    client.send(&get(2 * STREAMS + 1, "/ok"));
    client.find(|frame| frame.kind == DATA && frame.payload == b"ok");
    drop(client);
    running.stop();
}
