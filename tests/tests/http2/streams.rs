//! Streams that share a connection: none delays another.

use super::raw::{DATA, Frame, HEADERS, RESET, Raw, WINDOW_START, block, field, frame, get, window};
use super::{connect, request, run, send, site};
use bytes::Bytes;
use std::net::{Ipv4Addr, TcpListener};
use tests::binary::Server;
use tests::site::Site;

/// The window of the connection opens by little at a time. Large downloads that began first do not take all of it.
#[test]
fn a_small_window_serves_all_streams_in_turn() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    client.send(&(0..100).flat_map(|index| get(2 * index + 1, "/large.bin")).collect::<Vec<u8>>());
    take(&mut client, WINDOW_START as usize);
    client.send(&get(201, "/page.txt"));
    client.ping();
    for _ in 0..110 {
        client.send(&window(0, 16_384));
        let mut left = 16_384;
        while left > 0 {
            let frame = client.find(|frame| frame.kind == DATA);
            if frame.stream == 201 && frame.ends() {
                drop(client);
                return running.stop();
            }
            left -= frame.payload.len();
        }
    }
    panic!("the small request waits for the large ones");
}

/// The content of frames up to so many bytes: how much each stream sent, in the order in which they sent first.
fn take(client: &mut Raw, count: usize) -> Vec<(u32, usize)> {
    let mut streams: Vec<(u32, usize)> = Vec::new();
    let mut taken = 0;
    while taken < count {
        let frame = client.find(|frame| frame.kind == DATA);
        taken += frame.payload.len();
        match streams.iter_mut().find(|(stream, _)| *stream == frame.stream) {
            Some((_, sent)) => *sent += frame.payload.len(),
            None => streams.push((frame.stream, frame.payload.len())),
        }
    }
    streams
}

/// The client says which response it needs first, and changes its mind.
#[test]
fn urgent_responses_go_first() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    // Whatever comes next has to wait for a window.
    client.send(&get(1, "/large.bin"));
    take(&mut client, WINDOW_START as usize);
    let asked = |stream, priority: &[u8]| {
        let block = [block("GET", "/large.bin"), field("priority", priority)].concat();
        frame(HEADERS, 5, stream, &block)
    };
    let update = |stream: u32, priority: &[u8]| frame(16, 0, 0, &[&stream.to_be_bytes(), priority].concat());
    // What comes ahead of its stream counts more than the field.
    client.send(&[asked(3, b"u=5"), asked(5, b"u=2"), asked(7, b"u=2")].concat());
    client.send(&[update(9, b"u=7, i"), asked(9, b"u=0")].concat());
    client.ping();
    client.send(&window(0, 100_000));
    assert_eq!(take(&mut client, 100_000), [(5, 100_000)]);
    client.send(&[update(3, b"u=1"), update(9, b"u=1, i"), window(0, 160_000)].concat());
    let sent = take(&mut client, 160_000);
    let mut streams: Vec<_> = sent.iter().map(|&(stream, _)| stream).collect();
    streams.sort_unstable();
    assert_eq!(streams, [3, 9], "both are as urgent, and one of them is of use in parts");
    assert!(sent.iter().all(|&(_, count)| count > 60_000), "{sent:?}");
    drop(client);
    running.stop();
}

/// A client that takes nothing of one stream gets all of the others.
#[test]
fn a_slow_reader_of_one_stream_delays_no_other() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 10);
    client.send(&get(1, "/large.bin"));
    client.find(|frame| frame.kind == DATA);
    for stream in [3, 5, 7] {
        client.send(&[get(stream, "/page.txt"), window(stream, 1000)].concat());
        client.find(|frame| frame.stream == stream && frame.ends());
    }
    drop(client);
    running.stop();
}

/// An upstream sends its response in very small pieces. Each would be a frame of ten bytes, of which clients accept a limited
/// number.
#[test]
fn small_pieces_of_an_upstream_share_frames() {
    let upstream = tests::raw::Raw::listen();
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; http2 on; location / {{
            proxy_pass http://{}; proxy_http_version 1.1; proxy_buffering off;
            location /buffered {{ proxy_pass http://{0}; proxy_http_version 1.1; proxy_buffering on; }} }} }}",
        upstream.address()
    ));
    let running = site.start(Server::Fulmar);
    for path in ["/", "/buffered"] {
        // The client opens the window of the stream when all of the response is on its way.
        for initial in [0, 1 << 20] {
            let mut client = Raw::connect(running.address(), initial);
            client.send(&get(1, path));
            let mut peer = upstream.accept();
            peer.until("\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.find(|frame| frame.kind == HEADERS);
            peer.send(&format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(2_000)));
            // With an open window, content may come before the answer to the PING.
            let mut data = client.ping();
            data.retain(|frame| frame.kind == DATA);
            client.send(&window(1, 1 << 20));
            while !data.last().is_some_and(|frame| frame.ends()) {
                data.push(client.find(|frame| frame.kind == DATA));
            }
            let (frames, length) = (data.len(), data.iter().map(|frame| frame.payload.len()).sum::<usize>());
            assert_eq!(length, 2_000);
            assert!(frames <= 20, "{path}: {frames} frames");
        }
    }
    running.stop();
}

/// A deadline and a place in `limit_conn` belong to one stream, and not to its connection.
#[test]
fn each_stream_has_its_deadline_and_its_place_in_limits() {
    let site = Site::new(
        "limit_conn_zone $server_port zone=one:1m;
        server {
            listen 127.0.0.1:%%PORT%%;
            http2 on;
            location /patient { proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /limited {
                limit_conn one 1;
                client_body_timeout 1s;
                proxy_pass http://127.0.0.1:%%PORT_1%%;
            }
        }
        server { listen 127.0.0.1:%%PORT_1%%; location / { return 200 $content_length; } }",
    );
    let running = site.start(Server::Fulmar);
    run(async {
        let mut client = connect(running.address()).await.ready().await.unwrap();
        let (patient, mut patient_body) = client.send_request(request("POST", "/patient"), false).unwrap();
        let (stalled, _stalled_body) = client.send_request(request("POST", "/limited"), false).unwrap();
        let refused = send(&mut client, request("GET", "/limited"), Vec::new()).await.unwrap().unwrap();
        assert_eq!(refused.status, 503, "the stalled request has the only place");
        // As in nginx, a stream whose body is late is reset.
        assert_eq!(stalled.await.unwrap_err().reason(), Some(h2::Reason::PROTOCOL_ERROR));
        let body = vec![Bytes::from("abc")];
        let answer = send(&mut client, request("POST", "/limited"), body).await.unwrap().unwrap();
        assert_eq!((answer.status, &answer.content[..]), (200, &b"3"[..]), "its place is free again");
        patient_body.send_data(Bytes::from("abcd"), true).unwrap();
        assert_eq!(patient.await.unwrap().status(), 200, "the other stream has its own deadline");
    });
    running.stop();
}

/// A client that resets streams gets no further places by that: a reset request counts until its work has ended.
#[test]
fn a_reset_stream_keeps_its_place_until_its_work_has_ended() {
    const WAITING: u32 = 4;
    /// `:status: 404` in the static table of HPACK.
    const NOT_FOUND: u8 = 0x8d;
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let site = Site::new(&format!(
        "limit_conn_zone $server_port zone=one:1m;
        server {{
            listen 127.0.0.1:%%PORT%%;
            http2 on;
            location / {{ limit_conn one {WAITING}; limit_conn_status 404; proxy_ignore_client_abort on; proxy_pass http://{}; }}
        }}",
        upstream.local_addr().unwrap()
    ));
    let running = site.start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    for index in 0..WAITING {
        client.send(&get(2 * index + 1, "/"));
        client.send(&frame(RESET, 0, 2 * index + 1, &[0, 0, 0, 8]));
    }
    client.send(&get(2 * WAITING + 1, "/"));
    let answer = client.find(|frame| frame.kind == HEADERS);
    assert_eq!(answer.stream, 2 * WAITING + 1);
    assert_eq!(answer.payload[0], NOT_FOUND);
    drop(client);
    drop(upstream);
    running.stop();
}

/// curl 7.88 waits for its whole time-out where a response is complete before its request is. The end follows the body, and is
/// not held back from a client that does not send it.
#[test]
fn a_response_ends_after_the_body_that_is_not_read() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    let post = |stream, path, fields: &[Vec<u8>]| {
        frame(HEADERS, 4, stream, &[&[block("POST", path)], fields].concat().concat())
    };
    let length = || field("content-length", b"3");
    for (stream, path) in [(1, "/empty"), (3, "/return")] {
        client.send(&post(stream, path, &[length()]));
        let frames = client.ping();
        assert!(
            frames.iter().any(|frame| frame.kind == HEADERS && frame.stream == stream),
            "{path}: {frames:?}"
        );
        assert!(!frames.iter().any(Frame::ends), "{path}: {frames:?}");
        client.send(&frame(DATA, 1, stream, b"abc"));
        let end = client.find(|frame| frame.ends() || frame.kind == RESET);
        assert_eq!((end.kind, end.stream), (DATA, stream), "{path}");
    }
    client.send(&post(5, "/empty", &[length()]));
    assert_eq!(client.find(|frame| frame.ends() || frame.kind == RESET).kind, DATA);
    let reset = client.find(|frame| frame.kind == RESET);
    assert_eq!((reset.stream, reset.number(0)), (5, 0), "NO_ERROR");
    // A client that waits for leave sends no body.
    client.send(&post(7, "/empty", &[length(), field("expect", b"100-continue")]));
    assert_eq!(client.find(|frame| frame.stream == 7).kind, HEADERS);
    drop(client);
    running.stop();
}
