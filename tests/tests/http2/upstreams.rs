//! Servers that speak HTTP/2: many requests share a connection to one. The server is scripted, frame by frame.

use super::raw::{
    DATA, GOAWAY, HEADERS, RESET, Raw, WINDOW, WINDOW_MAX, WINDOW_START, block, frame, get, window,
};
use super::{PATIENCE, ask, connect, request, run, send};
use bytes::Bytes;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use tests::binary::{Server, nginx_with};
use tests::site::{Running, Site};
use tests::wait;

const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

const REFUSED_STREAM: u32 = 7;

/// `:status: 200`
const OK: &[u8] = &[0x88];

/// A server that passes all requests on to a scripted one over HTTP/2, or to another where that fails.
struct Passing {
    listener: TcpListener,
    configuration: String,
    running: Running,
    client: Raw,
}

impl Passing {
    fn start() -> Passing {
        Passing::with("grpc_pass backend;")
    }

    fn with(pass: &str) -> Passing {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let configuration = format!(
            "upstream backend {{ server {address}; keepalive 4; }}
            upstream brief {{ server {address}; keepalive 4; keepalive_timeout 200ms; }}
            upstream single {{ server {address}; keepalive 0; }}
            upstream both {{ server {address}; server 127.0.0.1:%%PORT_1%% backup; keepalive 4; }}
            server {{ listen 127.0.0.1:%%PORT%%; http2 on; location / {{ {pass} }} }}
            server {{ listen 127.0.0.1:%%PORT_1%%; http2 on; location / {{ return 200 other; }} }}"
        );
        let running = Site::new(&configuration).start(Server::Fulmar);
        let client = Raw::connect(running.address(), 1 << 20);
        Passing { listener, configuration, running, client }
    }

    /// Accepts a connection as a server that allows so many streams at a time.
    fn accept(&self, streams: u32) -> Raw {
        Raw::accept(&self.listener, &[(MAX_CONCURRENT_STREAMS, streams)])
    }

    /// Sends a request and gives the number of the stream by which it reaches the upstream server.
    fn ask(&mut self, stream: u32, upstream: &mut Raw) -> u32 {
        self.client.send(&get(stream, "/"));
        asked(upstream)
    }

    /// The status of the response, as an index of the static table, once its stream has ended.
    fn status(&mut self, stream: u32) -> u8 {
        let head = self.client.find(|frame| frame.kind == HEADERS && frame.stream == stream);
        if !head.ends() {
            self.client.find(|frame| frame.stream == stream && frame.ends());
        }
        head.payload[0]
    }

    fn stop(self) {
        drop(self.client);
        self.running.stop();
    }
}

/// The number of the stream of the next request.
fn asked(upstream: &mut Raw) -> u32 {
    upstream.find(|frame| frame.kind == HEADERS).stream
}

fn answer(upstream: &mut Raw, stream: u32) {
    upstream.send(&frame(HEADERS, 5, stream, OK));
}

#[test]
fn requests_share_a_connection_and_are_answered_in_any_order() {
    for pass in ["grpc_pass backend;", "proxy_pass http://backend; proxy_http_version 2;"] {
        let mut passing = Passing::with(pass);
        passing.client.send(&get(1, "/"));
        let mut upstream = passing.accept(100);
        assert_eq!(asked(&mut upstream), 1);
        let streams: Vec<u32> =
            [3, 5, 7].into_iter().map(|stream| passing.ask(stream, &mut upstream)).collect();
        assert_eq!(streams, [3, 5, 7], "all are on one connection");
        for stream in [7, 3, 5, 1] {
            answer(&mut upstream, stream);
            assert_eq!(passing.status(stream), OK[0]);
        }
        assert_eq!(passing.ask(9, &mut upstream), 9, "the connection is kept");
        answer(&mut upstream, 9);
        assert_eq!(passing.status(9), OK[0]);
        passing.stop();
    }
}

#[test]
fn a_client_that_takes_nothing_does_not_delay_the_others() {
    let mut passing = Passing::start();
    // The client takes ten bytes of each stream.
    passing.client = Raw::connect(passing.running.address(), 10);
    passing.client.send(&window(0, WINDOW_MAX - WINDOW_START));
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    let slow = asked(&mut upstream);
    upstream.send(&frame(HEADERS, 4, slow, OK));
    // As much as the window of a stream allows.
    let mut left = upstream_window(&mut upstream);
    while left > 0 {
        let size = left.min(16 * 1024);
        upstream.send(&frame(DATA, 0, slow, &vec![b'x'; size]));
        left -= size;
    }
    for stream in [3, 5] {
        let fast = passing.ask(stream, &mut upstream);
        upstream.send(&frame(HEADERS, 4, fast, OK));
        passing.client.send(&window(stream, WINDOW_MAX - 10));
        for _ in 0..10 {
            upstream.send(&frame(DATA, 0, fast, &vec![b'y'; 16 * 1024]));
        }
        upstream.send(&frame(DATA, 1, fast, b"end"));
        assert_eq!(passing.status(stream), OK[0]);
    }
    // The server may send more of the slow response only when the client takes it.
    let more: u32 = (upstream.ping().iter())
        .filter(|frame| frame.kind == WINDOW && frame.stream == slow)
        .map(|frame| frame.number(0))
        .sum();
    assert!(more < 512 * 1024, "{more} bytes more were allowed");
    passing.stop();
}

/// How much a server may send on a stream, as the client's settings say, which are the first frame.
fn upstream_window(upstream: &mut Raw) -> usize {
    upstream.window.expect("settings with a window") as usize
}

#[test]
fn what_a_server_leaves_with_goaway_is_sent_again() {
    let mut passing = Passing::start();
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    assert_eq!(passing.ask(3, &mut upstream), 3);
    let goaway = frame(GOAWAY, 0, 0, &[1u32.to_be_bytes(), 0u32.to_be_bytes()].concat());
    upstream.send(&goaway);
    let mut second = passing.accept(100);
    assert_eq!(asked(&mut second), 1, "the second request comes again");
    assert_eq!(passing.ask(5, &mut second), 3, "further requests go there, too");
    answer(&mut upstream, 1);
    assert_eq!(passing.status(1), OK[0], "the first request is still answered");
    for stream in [1, 3] {
        answer(&mut second, stream);
    }
    assert_eq!((passing.status(3), passing.status(5)), (OK[0], OK[0]));
    // The connection that the server left is closed.
    while let Some(frame) = upstream.next() {
        assert_eq!((frame.kind, frame.stream), (RESET, 3));
    }
    passing.stop();
}

#[test]
fn a_server_allows_fewer_streams_than_before() {
    let mut passing = Passing::start();
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(2);
    assert_eq!(asked(&mut upstream), 1);
    assert_eq!(passing.ask(3, &mut upstream), 3);
    passing.client.send(&get(5, "/"));
    let mut second = passing.accept(2);
    assert_eq!(asked(&mut second), 1, "a third request needs another connection");
    answer(&mut second, 1);
    assert_eq!(passing.status(5), OK[0]);
    // A server that allows none is not asked on this connection, although it was kept.
    for upstream in [&mut upstream, &mut second] {
        upstream.set(&[(MAX_CONCURRENT_STREAMS, 0)]);
        upstream.ping();
    }
    passing.client.send(&get(7, "/"));
    let mut third = passing.accept(2);
    assert_eq!(asked(&mut third), 1);
    answer(&mut third, 1);
    assert_eq!(passing.status(7), OK[0]);
    upstream.set(&[(MAX_CONCURRENT_STREAMS, 1)]);
    upstream.ping();
    for stream in [1, 3] {
        answer(&mut upstream, stream);
    }
    assert_eq!((passing.status(1), passing.status(3)), (OK[0], OK[0]));
    passing.stop();
}

#[test]
fn a_stream_that_a_server_refuses_is_asked_again() {
    let mut passing = Passing::start();
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    assert_eq!(passing.ask(3, &mut upstream), 3);
    upstream.send(&frame(RESET, 0, 3, &REFUSED_STREAM.to_be_bytes()));
    assert_eq!(asked(&mut upstream), 5, "the request comes again");
    for stream in [5, 1] {
        answer(&mut upstream, stream);
    }
    assert_eq!((passing.status(3), passing.status(1)), (OK[0], OK[0]));
    passing.stop();
}

#[test]
fn a_connection_outlives_streams_that_either_side_cancels() {
    let mut passing = Passing::with("client_max_body_size 0; grpc_pass backend;");
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    // The server has its answer before it knows the whole request, and does not want the rest.
    passing.client.send(&frame(HEADERS, 4, 3, &block("POST", "/")));
    passing.client.send(&frame(DATA, 0, 3, b"a part"));
    assert_eq!(asked(&mut upstream), 3);
    answer(&mut upstream, 3);
    upstream.send(&frame(RESET, 0, 3, &0u32.to_be_bytes()));
    assert_eq!(passing.status(3), OK[0]);
    // A client that goes away cancels only its own stream.
    assert_eq!(passing.ask(5, &mut upstream), 5);
    passing.client.send(&frame(RESET, 0, 5, &8u32.to_be_bytes()));
    upstream.find(|frame| frame.kind == RESET && frame.stream == 5);
    upstream.send(&frame(HEADERS, 4, 5, OK));
    upstream.send(&frame(DATA, 1, 5, b"late"));
    assert_eq!(passing.ask(7, &mut upstream), 7);
    for stream in [7, 1] {
        answer(&mut upstream, stream);
        assert_eq!(passing.status(stream), OK[0]);
    }
    passing.stop();
}

#[test]
fn a_connection_that_breaks_fails_its_requests_or_sends_them_elsewhere() {
    for (pass, status) in [("grpc_pass backend;", None), ("grpc_pass both;", Some(OK[0]))] {
        let mut passing = Passing::with(pass);
        passing.client.send(&get(1, "/"));
        let mut upstream = passing.accept(100);
        assert_eq!(asked(&mut upstream), 1);
        assert_eq!(passing.ask(3, &mut upstream), 3);
        drop((upstream, std::mem::replace(&mut passing.listener, TcpListener::bind("127.0.0.1:0").unwrap())));
        let heads = [passing.client.find(is_head), passing.client.find(is_head)];
        for head in heads {
            match status {
                Some(status) => assert_eq!(head.payload[0], status, "another server answers"),
                None => assert_ne!(head.payload[0], OK[0]),
            }
        }
        passing.stop();
    }
}

fn is_head(frame: &super::raw::Frame) -> bool {
    frame.kind == HEADERS
}

/// The window of the connection opens by little at a time. An upload that waits for it does not take all of it.
#[test]
fn uploads_share_the_window_of_a_connection() {
    let mut passing = Passing::with("client_max_body_size 0; grpc_pass backend;");
    passing.client.send(&frame(HEADERS, 4, 1, &block("POST", "/")));
    let mut upstream = Raw::accept(&passing.listener, &[(INITIAL_WINDOW_SIZE, WINDOW_MAX)]);
    assert_eq!(asked(&mut upstream), 1);
    passing.client.send(&frame(HEADERS, 4, 3, &block("POST", "/")));
    assert_eq!(asked(&mut upstream), 3);
    let mut sent = [0, 0];
    for (part, count) in [(30_000, 60_000), (30_000, WINDOW_START as usize)] {
        for stream in [1, 3] {
            for _ in 0..part / 10_000 {
                passing.client.send(&frame(DATA, 0, stream, &[b'x'; 10_000]));
            }
        }
        passing.client.ping();
        take(&mut upstream, &mut sent, count);
    }
    let start = sent;
    // One of them is at its end after 13 updates at the latest.
    for update in 1..=12 {
        upstream.send(&window(0, 2000));
        take(&mut upstream, &mut sent, WINDOW_START as usize + update * 2000);
    }
    assert!(sent[0] > start[0] && sent[1] > start[1], "{start:?} {sent:?}");
    upstream.send(&window(0, WINDOW_MAX / 2));
    take(&mut upstream, &mut sent, 120_000);
    for stream in [1, 3] {
        passing.client.send(&frame(DATA, 1, stream, b""));
        upstream.find(|frame| frame.stream == stream && frame.ends());
        answer(&mut upstream, stream);
        assert_eq!(passing.status(stream), OK[0]);
    }
    passing.stop();
}

/// Reads content of the streams 1 and 3 until there are so many bytes in all.
fn take(upstream: &mut Raw, sent: &mut [usize; 2], count: usize) {
    while sent[0] + sent[1] < count {
        let frame = upstream.find(|frame| frame.kind == DATA);
        sent[usize::from(frame.stream == 3)] += frame.payload.len();
    }
}

#[test]
fn a_reload_keeps_the_connection_and_its_requests() {
    let mut passing = Passing::start();
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    let other = passing.configuration.replace("return 200 other;", "return 404;");
    passing.running.rewrite(&other);
    passing.running.signal(Signal::HUP);
    let running = &passing.running;
    let status = || tests::client::ask(running.address_of(1), "GET /").last().status;
    assert!(wait::until(PATIENCE, || status() == 404), "no reload");
    assert_eq!(passing.ask(3, &mut upstream), 3, "a request under the next configuration");
    for stream in [3, 1] {
        answer(&mut upstream, stream);
        assert_eq!(passing.status(stream), OK[0]);
    }
    passing.stop();
}

#[test]
fn idle_connections_are_closed() {
    let mut passing = Passing::with("grpc_pass brief;");
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    answer(&mut upstream, 1);
    assert_eq!(passing.status(1), OK[0]);
    assert!(upstream.next().is_none());
    passing.stop();
}

#[test]
fn without_keepalive_each_request_has_a_connection() {
    let mut passing = Passing::with("grpc_pass single;");
    for stream in [1, 3] {
        passing.client.send(&get(stream, "/"));
    }
    for mut upstream in [passing.accept(100), passing.accept(100)] {
        assert_eq!(asked(&mut upstream), 1);
        answer(&mut upstream, 1);
        assert!(upstream.next().is_none());
    }
    assert_eq!((passing.status(1), passing.status(3)), (OK[0], OK[0]));
    passing.stop();
}

/// A server that says nothing at all may be gone. What comes next does not wait for it, too.
#[test]
fn a_connection_that_is_silent_gets_no_further_requests() {
    let mut passing = Passing::with(
        "grpc_pass backend; } location /impatient { grpc_pass backend; grpc_read_timeout 300ms;",
    );
    passing.client.send(&get(1, "/"));
    let mut upstream = passing.accept(100);
    assert_eq!(asked(&mut upstream), 1);
    answer(&mut upstream, 1);
    assert_eq!(passing.status(1), OK[0]);
    passing.client.send(&get(3, "/impatient"));
    assert_eq!(asked(&mut upstream), 3);
    assert_ne!(passing.status(3), OK[0]);
    passing.client.send(&get(5, "/"));
    let mut second = passing.accept(100);
    assert_eq!(asked(&mut second), 1);
    answer(&mut second, 1);
    assert_eq!(passing.status(5), OK[0]);
    passing.stop();
}

/// Many requests at a time, to nginx: no more connections than it needs for the streams that it allows.
#[test]
fn many_requests_at_a_time_to_nginx() {
    let Some(nginx) = nginx_with(&["--with-http_v2_module"]) else { return };
    for (streams, connections) in [(128, 1), (8, 20)] {
        let backend = Site::new(&format!(
            "log_format t '$connection'; access_log %%LOGS%%/access.log t; http2_max_concurrent_streams {streams};
            keepalive_requests 10000;
            server {{ listen 127.0.0.1:%%PORT%%; http2 on; client_max_body_size 0;
                location / {{ return 200 $request_method; }} location /large.bin {{ root html; }} }}"
        ))
        .file("large.bin", vec![b'z'; 300_000])
        .nginx(nginx.clone())
        .start(Server::Nginx);
        let front = Site::new(&format!(
            "upstream backend {{ server {}; keepalive 100; }}
            server {{ listen 127.0.0.1:%%PORT%%; http2 on; http2_max_concurrent_streams 128; client_max_body_size 0;
                location / {{ proxy_pass http://backend; proxy_http_version 2; }} }}",
            backend.address()
        ))
        .start(Server::Fulmar);
        let address = front.address();
        run(async move {
            // The limit is known from here on.
            ask(address, "GET", "/", vec![]).await.unwrap();
            let mut client = connect(address).await;
            for _ in 0..4 {
                let mut all = Vec::new();
                for index in 0..90 {
                    client = client.ready().await.unwrap();
                    let (method, path) = if index % 4 == 0 { ("GET", "/large.bin") } else { ("PUT", "/put") };
                    let body = vec![Bytes::from(vec![b'x'; 5000]); if method == "PUT" { 3 } else { 0 }];
                    all.push((method, send(&mut client, request(method, path), body)));
                }
                for (method, answer) in all {
                    let answer = answer.await.unwrap().unwrap();
                    assert_eq!(answer.status, 200);
                    let length = if method == "GET" { 300_000 } else { method.len() };
                    assert_eq!(answer.content.len(), length);
                }
            }
        });
        front.stop();
        let log = backend.stop_and(|running| running.log("access.log"));
        let used: BTreeSet<&str> = log.lines().collect();
        assert_eq!(log.lines().count(), 361);
        assert!(used.len() <= connections, "{} connections", used.len());
    }
}
