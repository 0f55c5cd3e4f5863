//! Streams that share a connection: none delays another.

use super::raw::{DATA, HEADERS, Raw, WINDOW_START, block, field, frame, get, window};
use super::site;
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
            client.ping();
            client.send(&window(1, 1 << 20));
            let (mut frames, mut length) = (0, 0);
            loop {
                let data = client.find(|frame| frame.kind == DATA);
                (frames, length) = (frames + 1, length + data.payload.len());
                if data.ends() {
                    break;
                }
            }
            assert_eq!(length, 2_000);
            assert!(frames <= 20, "{path}: {frames} frames");
        }
    }
    running.stop();
}
