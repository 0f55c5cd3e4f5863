//! Frames that are small and move content. They are no flood, however many there are: nginx takes all of them, too.

use super::raw::{DATA, HEADERS, Raw, block, frame, get, window};
use super::{Server, nginx_with};
use std::net::TcpListener;
use tests::site::{Running, Site};

/// How long the download is, in bytes.
const LARGE: usize = 12 << 20;

/// Runs a test with Fulmar and with nginx.
fn with_both(site: impl Fn() -> Site, test: impl Fn(&Running, &str)) {
    let running = site().start(Server::Fulmar);
    test(&running, "Fulmar");
    running.stop();
    let Some(nginx) = nginx_with(&["--with-http_v2_module"]) else { return };
    let running = site().nginx(nginx).start(Server::Nginx);
    test(&running, "nginx");
    running.stop();
}

/// Sends a body in these frames, many times over. The server answers with the length of the body.
fn upload(running: &Running, name: &str, frames: &[u8], length: usize) {
    const TIMES: usize = 3000;
    let mut client = Raw::connect(running.address(), 1 << 20);
    let body = [&frames.repeat(TIMES)[..], &frame(DATA, 1, 1, b"")].concat();
    client.send(&[frame(HEADERS, 4, 1, &block("POST", "/")), body].concat());
    let answer = loop {
        let Some(next) = client.next() else { panic!("{name}: the connection ends") };
        if next.kind == DATA {
            break next.payload;
        }
    };
    assert_eq!(String::from_utf8_lossy(&answer), (TIMES * length).to_string(), "{name}");
}

#[test]
fn uploads_in_small_frames_are_read() {
    let site = || {
        Site::new(
            "server { listen 127.0.0.1:%%PORT%%; http2 on;
                 location / { client_body_buffer_size 1m; proxy_pass http://127.0.0.1:%%PORT_1%%; } }
             server { listen 127.0.0.1:%%PORT_1%%; return 200 $content_length; }",
        )
    };
    let data = |bytes: &[u8]| frame(DATA, 0, 1, bytes);
    let token = [data(b"{"), data(b"\"a\""), data(b":"), data(b"1"), data(b"}")].concat();
    let line = [data(b"{\"a\":1}"), data(b""), data(b"\n"), data(b"")].concat();
    with_both(site, |running, name| {
        for (frames, length) in [(&data(b"x"), 1), (&token, 7), (&line, 8)] {
            upload(running, name, frames, length);
        }
    });
}

#[test]
fn a_client_may_open_its_windows_by_little() {
    let site = || {
        Site::new("server { listen 127.0.0.1:%%PORT%%; http2 on; root html; }")
            .file("large.bin", vec![b'x'; LARGE])
    };
    with_both(site, |running, name| {
        let mut client = Raw::connect(running.address(), 65_535);
        client.send(&get(1, "/large.bin"));
        let mut received = 0;
        while received < LARGE {
            let Some(next) = client.next() else { panic!("{name}: the connection ends at {received}") };
            if next.kind != DATA {
                continue;
            }
            received += next.payload.len();
            let part = |part: &[u8]| u32::try_from(part.len()).unwrap();
            let parts = next.payload.chunks(1460).map(part);
            let updates = parts.flat_map(|count| [window(0, count), window(1, count)]);
            client.send(&updates.collect::<Vec<_>>().concat());
        }
    });
}

#[test]
fn an_upstream_may_answer_in_small_frames() {
    const PIECES: usize = 5000;
    // One listener serves both servers, one after the other.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let site = || {
        Site::new(&format!(
            "server {{ listen 127.0.0.1:%%PORT%%; http2 on; location / {{ grpc_pass grpc://{address}; }} }}"
        ))
    };
    with_both(site, |running, name| {
        let mut client = Raw::connect(running.address(), 1 << 20);
        client.send(&get(1, "/"));
        let mut upstream = Raw::accept(&listener, &[]);
        let stream = upstream.find(|frame| frame.kind == HEADERS).stream;
        upstream.send(&frame(HEADERS, 4, stream, &[0x88]));
        upstream.send(&frame(DATA, 0, stream, b"abc").repeat(PIECES));
        upstream.send(&frame(DATA, 1, stream, b""));
        let mut received = 0;
        loop {
            let next = client.next().unwrap_or_else(|| panic!("{name}: the connection ends at {received}"));
            assert!(next.kind != super::raw::RESET, "{name}: the stream ends at {received}");
            received += if next.kind == DATA { next.payload.len() } else { 0 };
            if next.ends() {
                break;
            }
        }
        assert_eq!(received, 3 * PIECES, "{name}");
    });
}
