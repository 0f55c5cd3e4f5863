//! What is made of the answers to several requests, of which one may stall, fail or never end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use tests::binary::Server;
use tests::origin::{After, Asked, Origin, ok, raw};
use tests::raw::Raw;
use tests::site::{Running, Site};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(10);

/// More than the kernel keeps of what nobody reads, in bytes.
const COPIED: usize = 32 * 1024 * 1024;

/// More than a subrequest is given in memory.
const LONG: usize = 9 * 1024 * 1024;

fn start(origin: &Origin, server: &str) -> Running {
    let text = format!(
        "types {{ text/html html; }} server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; {server} }}"
    );
    let text = text.replace("ORIGIN", &origin.address().to_string());
    Site::new(&text).file("page.html", "<page>").file("long.html", "x".repeat(LONG)).start(Server::Fulmar)
}

#[test]
fn a_part_is_passed_on_as_it_comes_and_ends_with_its_client() {
    let origin = Origin::start(|_| raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", After::Hang));
    let running = start(
        &origin,
        "location / { add_before_body /part; }
         location = /part { proxy_buffering off; proxy_pass http://ORIGIN; }",
    );
    let mut client = running.connect();
    client.send(b"GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let has_come = |client: &mut tests::client::Client| {
        let length = client.rest().len();
        client.read_some(length + 1);
        client.rest().windows(5).any(|bytes| bytes == b"first")
    };
    assert!(wait::until(PATIENCE, || has_come(&mut client)), "the rest is waited for");
    assert_eq!(origin.open(), 1);
    drop(client);
    assert!(wait::until(PATIENCE, || origin.open() == 0), "nobody needs it any more");
    running.stop();
}

#[test]
fn a_part_that_is_cut_cuts_the_whole() {
    let origin = Origin::start(|_| raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", After::Close));
    let running = start(
        &origin,
        "location / { add_after_body /part; }
         location = /part { proxy_buffering off; proxy_pass http://ORIGIN; }",
    );
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    // However it ends, it ends.
    let _ = stream.read_to_string(&mut text);
    assert!(text.contains("<page>") && !text.ends_with("0\r\n\r\n"), "{text}");
    running.stop();
}

#[test]
fn parts_of_any_length_and_texts_in_them() {
    let origin = Origin::start(|_| ok("y".repeat(LONG)));
    let running = start(
        &origin,
        "location = /page.html { add_before_body /long.html; add_after_body /far; sub_filter page PAGE; }
         location = /long.html { sub_filter_once off; sub_filter xx z; }
         location = /far { proxy_pass http://ORIGIN; }",
    );
    let body = running.ask("GET /page.html").last().body.clone();
    let expected = ["z".repeat(LONG / 2), "<PAGE>".into(), "y".repeat(LONG)].concat();
    assert!(body == expected.as_bytes(), "{} bytes, not {}", body.len(), expected.len());
    running.stop();
}

#[test]
fn nobody_waits_for_a_copy() {
    let (let_go, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::start(move |asked: &Asked| {
        assert!(asked.text.starts_with(b"POST /copy"), "{}", String::from_utf8_lossy(&asked.text));
        assert!(asked.text.ends_with(b"\r\n\r\nsome text"), "{}", String::from_utf8_lossy(&asked.text));
        let _ = held.lock().unwrap().recv();
        ok("nobody reads this")
    });
    let running = start(
        &origin,
        "location / { mirror /copy; proxy_pass http://127.0.0.1:%%PORT%%/answer; }
         location = /answer { return 200 answer; }
         location = /copy { internal; proxy_pass http://ORIGIN; }",
    );
    let mut client = running.connect();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nsome text");
    assert_eq!(client.response("POST").unwrap().text(), "answer");
    assert!(wait::until(PATIENCE, || origin.open() == 1), "no copy");
    assert_eq!(client.exchange("GET /answer").unwrap().text(), "answer", "the connection is free");
    drop(let_go);
    assert!(wait::until(PATIENCE, || origin.open() == 0), "the copy is done");
    running.stop();
}

/// The client, and then the worker, are gone before the other server has taken the copy.
#[test]
fn a_copy_arrives_whole_after_its_client_has_left_and_the_worker_was_told_to() {
    let hangs = Origin::start(|_| raw("", After::Hang));
    let copies = Raw::listen();
    let running = Site::new(&format!(
        "client_max_body_size 64m;
         server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{ mirror /copy; proxy_pass http://{}; }}
             location = /copy {{ internal; proxy_pass http://{}; }}
         }}",
        hangs.address(),
        copies.address()
    ))
    .start(Server::Fulmar);
    let mut client = running.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {COPIED}\r\n\r\n").as_bytes());
    client.send(&vec![b'x'; COPIED]);
    let mut peer = copies.accept();
    assert!(peer.until("\r\n\r\n").starts_with("POST /copy "));
    assert!(wait::until(PATIENCE, || hangs.open() == 1), "the request is not passed on");
    drop(client);
    assert!(wait::until(PATIENCE, || hangs.open() == 0), "the request goes on without its client");
    let stopping = std::thread::spawn(move || running.stop());
    assert_eq!(peer.skip(COPIED as u64), COPIED as u64, "the copy is cut");
    peer.send("HTTP/1.1 204 No Content\r\n\r\n");
    stopping.join().unwrap();
}

#[test]
fn the_end_of_an_answer_waits_for_no_copy() {
    let (let_go, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::start(move |_| {
        let _ = held.lock().unwrap().recv();
        ok("nobody reads this")
    });
    let running = start(
        &origin,
        "location / { mirror /copy; try_files /page.html =404; }
         location = /copy { internal; proxy_pass http://ORIGIN; }",
    );
    let mut client = running.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(client.closes_within(PATIENCE), "the end is not told");
    assert!(wait::until(PATIENCE, || origin.open() == 1), "no copy");
    drop(client);
    let ends = wait::until(Duration::from_millis(100), || origin.open() == 0);
    assert!(!ends, "a client that has its answer ends no copy");
    drop(let_go);
    assert!(wait::until(PATIENCE, || origin.open() == 0), "the copy is done");
    running.stop();
}

#[test]
fn a_copy_that_fails_is_no_failure() {
    let origin = Origin::start(|_| raw("", After::Reset));
    let running = start(
        &origin,
        "location / { mirror /copy; mirror /nowhere; mirror /closed; try_files /page.html =404; }
         location = /copy { internal; proxy_pass http://ORIGIN; }
         location = /closed { return 444; }",
    );
    let mut client = running.connect();
    for _ in 0..3 {
        assert_eq!(client.exchange("GET /").unwrap().text(), "<page>");
    }
    assert!(wait::until(PATIENCE, || origin.connections() == 3), "not all were copied");
    running.stop();
}
