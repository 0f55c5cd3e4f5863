//! Clients that are too slow.

use std::time::{Duration, Instant};

use tests::binary::Server;
use tests::site::{Running, Site};
use tests::wait;

fn start() -> Running {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            client_header_timeout 1s;
            client_body_timeout 1s;
            keepalive_timeout 1s;
            send_timeout 1s;
            lingering_timeout 1s;
            lingering_time 2s;
            root %%ROOT%%;
            location /made { return 200 "ok"; }
        }
        "#,
    );
    site.file("large", vec![b'x'; 64 << 20]).start(Server::Fulmar)
}

/// The deadline is of the whole head, so that a byte now and then does not move it.
#[test]
fn of_a_dripping_head() {
    let running = start();
    let mut client = running.connect();
    let started = Instant::now();
    let head = b"GET /made HTTP/1.1\r\nHost: a\r\nX: ".iter().chain(std::iter::repeat_n(&b'x', 1000));
    let mut closed = false;
    for byte in head {
        closed = !client.send(&[*byte]) || client.closes_within(Duration::from_millis(100));
        if closed || started.elapsed() > Duration::from_secs(4) {
            break;
        }
    }
    assert!(closed, "still open after {:?}", started.elapsed());
    assert!(started.elapsed() > Duration::from_millis(700), "closed after {:?}", started.elapsed());
    assert_eq!(running.ask("GET /made").statuses(), [200]);
    running.stop();
}

#[test]
fn of_a_connection_that_says_nothing() {
    let running = start();
    let mut client = running.connect();
    let started = Instant::now();
    assert!(client.closes_within(Duration::from_secs(4)));
    assert!(started.elapsed() > Duration::from_millis(700), "closed after {:?}", started.elapsed());
    running.stop();
}

#[test]
fn of_an_idle_connection() {
    let running = start();
    let mut client = running.connect();
    assert_eq!(client.exchange("GET /made").expect("an answer").status, 200);
    wait::pause(Duration::from_millis(500));
    assert_eq!(client.exchange("GET /made").expect("the deadline counts anew").status, 200);
    let started = Instant::now();
    assert!(client.closes_within(Duration::from_secs(4)));
    assert!(started.elapsed() > Duration::from_millis(700), "closed after {:?}", started.elapsed());
    running.stop();
}

#[test]
fn of_a_body_that_stops() {
    let running = start();
    for body in ["Content-Length: 10\r\n\r\n12", "Transfer-Encoding: chunked\r\n\r\n5\r\n12"] {
        let mut client = running.connect();
        client.send(format!("POST /made HTTP/1.1\r\nHost: a\r\n{body}").as_bytes());
        let started = Instant::now();
        assert!(client.closes_within(Duration::from_secs(6)), "{body:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{body:?}: {:?}", started.elapsed());
    }
    running.stop();
}

#[test]
fn of_a_reader_that_stops() {
    let running = start();
    let mut client = running.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_some(1000);
    let timed_out =
        || running.log("error.log").contains("timed out") || running.log("access.log").contains("/large");
    assert!(wait::until(Duration::from_secs(6), timed_out), "{}", running.all_logs());
    client.closes_within(Duration::from_secs(5));
    assert!(client.rest().len() < 64 << 20, "all of it came");
    running.stop();
}
