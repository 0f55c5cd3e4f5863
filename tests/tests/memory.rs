//! The memory that requests in progress may hold, and who is refused where it runs out.

use std::time::Duration;

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
