//! Connections that end while streams are in progress: a reload, and the end of the server.

use super::raw::{DATA, GOAWAY, HEADERS, Raw, WINDOW_MAX, WINDOW_START, get, window};
use super::{CONFIGURATION, PATIENCE, site};
use rustix::process::Signal;
use std::time::Duration;
use tests::binary::Server;
use tests::site::{Running, Site};
use tests::{wait, worker};

/// The length of `large.bin`.
const LARGE: usize = 1_000_003;

/// A client whose download is stopped by its window.
fn stopped(running: &Running) -> Raw {
    let mut client = Raw::connect(running.address(), 1000);
    client.send(&get(1, "/large.bin"));
    assert_eq!(client.find(|frame| frame.kind == DATA).payload.len(), 1000);
    client
}

/// Opens the windows, and reads the rest of the download. Gives how long it was, and what else came.
fn finish(client: &mut Raw) -> (usize, Vec<u32>) {
    client.send(&[window(1, WINDOW_MAX - 1000), window(0, WINDOW_MAX - WINDOW_START)].concat());
    let (mut length, mut others) = (0, Vec::new());
    loop {
        let frame = client.next().expect("the rest of the download");
        match frame.stream {
            1 => length += frame.payload.len(),
            0 if frame.kind == GOAWAY => others.push(frame.number(0)),
            _ => {}
        }
        if frame.stream == 1 && frame.ends() {
            return (length, others);
        }
    }
}

#[test]
fn a_reload_keeps_connections_and_their_streams() {
    let running = site().start(Server::Fulmar);
    let mut client = stopped(&running);
    running.rewrite(
        &CONFIGURATION.replace("location /empty { return 204; }", "location /empty { return 206; }"),
    );
    running.signal(Signal::HUP);
    let status = || running.ask("GET /empty\nConnection: close").last().status;
    assert!(wait::until(PATIENCE, || status() == 206), "no reload");
    client.send(&get(3, "/empty"));
    // The status is an entry of the static table.
    assert_eq!(client.find(|frame| frame.kind == HEADERS).payload[0], 0x8a);
    assert_eq!(finish(&mut client), (LARGE - 1000, vec![]));
    running.stop();
}

/// A reload without HTTP/2: the client is asked to open no more streams, and what is on its way is served or refused so
/// that the client knows.
#[test]
fn a_reload_without_http2_loses_no_request() {
    let running = site().start(Server::Fulmar);
    let mut client = stopped(&running);
    running.rewrite(&CONFIGURATION.replace("http2 on;", "http2 off;"));
    running.signal(Signal::HUP);
    assert_eq!(client.find(|frame| frame.kind == GOAWAY).number(0), WINDOW_MAX);
    client.send(&get(3, "/return"));
    let mut was_answered = false;
    let last = loop {
        let frame = client.next().expect("the last stream");
        was_answered |= frame.stream == 3 && frame.ends();
        if frame.kind == GOAWAY {
            break frame.number(0);
        }
    };
    assert_eq!(last, if was_answered { 3 } else { 1 }, "each request is answered, or may be sent again");
    assert_eq!(finish(&mut client), (LARGE - 1000, vec![]));
    assert!(client.next().is_none());
    running.stop();
}

/// A client that reads slowly learns that the connection ends before its download is over.
#[test]
fn the_end_is_announced_during_a_download() {
    let site = site().file("huge.bin", vec![b'x'; 48 << 20]);
    let running = site.start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), WINDOW_MAX);
    client.send(&[window(0, WINDOW_MAX - WINDOW_START), get(1, "/huge.bin")].concat());
    let first = client.find(|frame| frame.kind == DATA).payload.len();
    running.signal(Signal::QUIT);
    running.wait_for_log("error.log", "(SIGQUIT) received");
    let (mut length, mut is_announced) = (first, false);
    loop {
        let frame = client.next().expect("all of the download");
        is_announced |= frame.kind == GOAWAY;
        length += if frame.kind == DATA { frame.payload.len() } else { 0 };
        if frame.ends() && frame.kind == DATA {
            break;
        }
    }
    assert_eq!((length, is_announced), (48 << 20, true));
    running.stop();
}

/// A stream that waits for its client costs nothing after the end of its connection was announced.
#[test]
fn a_stream_that_waits_keeps_no_processor_busy() {
    let running = site().start(Server::Fulmar);
    let process = worker::of(&running);
    let mut client = stopped(&running);
    running.signal(Signal::QUIT);
    assert_eq!(client.find(|frame| frame.kind == GOAWAY).number(0), WINDOW_MAX);
    assert_eq!(client.find(|frame| frame.kind == GOAWAY).number(0), 1);
    let is_idle = || {
        let before = worker::ticks(process);
        wait::pause(Duration::from_millis(500));
        worker::ticks(process) - before <= 1
    };
    assert!(wait::until(PATIENCE, is_idle), "the worker is busy");
    assert_eq!(finish(&mut client).0, LARGE - 1000);
    running.stop();
}

/// Frames without a request give a client no more time.
#[test]
fn pings_keep_no_idle_connection() {
    let running =
        Site::new("keepalive_timeout 1s; server { listen 127.0.0.1:%%PORT%%; http2 on; return 204; }")
            .start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), WINDOW_START);
    client.send(&get(1, "/"));
    client.find(|frame| frame.kind == HEADERS);
    let mut codes = Vec::new();
    let has_ended = wait::until(PATIENCE, || {
        wait::pause(Duration::from_millis(50));
        let others = client.ping();
        codes.extend(others.iter().filter(|frame| frame.kind == GOAWAY).map(|frame| frame.number(4)));
        !codes.is_empty()
    });
    assert!(has_ended, "the connection is kept");
    assert_eq!(codes, [0]);
    running.stop();
}
