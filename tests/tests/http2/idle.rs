//! What connections hold that wait for their client's next request.

use super::raw::{HEADERS, Raw, frame};
use std::net::SocketAddr;
use tests::binary::Server;
use tests::site::Site;
use tests::tls::{Client, Kind, certificate};
use tests::worker;

/// How many connections wait at first, and how many then wait in addition.
const FIRST: usize = 100;
const MORE: usize = 200;

/// How many bytes the process may have for each connection that waits, without the memory of the kernel.
const IDLE_MAX: u64 = 12 * 1024;

/// What a browser sends with its requests.
const FIELDS: [(&str, &str); 14] = [
    ("sec-ch-ua", "\"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \"Not_A Brand\";v=\"99\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    ),
    ("sec-fetch-site", "none"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"),
    ("cookie", "session=3f1e9a0b7c5d4e2f8a6b1c0d9e8f7a6b; consent=all; theme=dark"),
    ("priority", "u=0, i"),
];

/// A literal field that enters the table.
fn indexed(name: &str, value: &str) -> Vec<u8> {
    let length = |length: usize| u8::try_from(length).expect("a short text");
    let value_length = match value.len() {
        length @ 127.. => panic!("{length} bytes"),
        short => length(short),
    };
    [&[0x40, length(name.len())][..], name.as_bytes(), &[value_length], value.as_bytes()].concat()
}

/// How many requests each client sends. What differs from one to the next fills the table of the connection.
const REQUESTS: u32 = 8;

/// A connection that has had its answers.
fn served(client: &Client, address: SocketAddr) -> impl Sized {
    let (mut raw, _) = Raw::over(client.connect(address).expect("a handshake"), 1 << 20);
    for index in 0..REQUESTS {
        let path = format!("/page.html?number={index}");
        let referer = format!("https://localhost/page.html?number={}", index / 2);
        let pseudo =
            [(":method", "GET"), (":scheme", "https"), (":path", &path), (":authority", "localhost")];
        let last = [("referer", &*referer)];
        let fields = pseudo.iter().chain(&FIELDS).chain(&last);
        let block: Vec<u8> = fields.flat_map(|(name, value)| indexed(name, value)).collect();
        raw.send(&frame(HEADERS, 5, 2 * index + 1, &block));
        raw.find(|frame| frame.stream == 2 * index + 1 && frame.ends());
    }
    raw.ping();
    raw
}

#[test]
fn a_connection_over_tls_that_waits_holds_little() {
    let made = certificate("localhost", Kind::Ecdsa);
    let site = Site::new(
        "keepalive_timeout 1h; add_header X-Frame-Options SAMEORIGIN; add_header X-Content-Type-Options nosniff;
         server { listen 127.0.0.1:%%PORT%% ssl; http2 on; ssl_certificate c.pem; ssl_certificate_key k.pem;
             root html; }",
    );
    let site =
        site.file("page.html", "x".repeat(5000)).in_prefix("c.pem", &made.pem).in_prefix("k.pem", &made.key);
    let running = site.start(Server::Fulmar);
    let client = Client::new(Some("localhost")).offering(&["h2", "http/1.1"]);
    let connect = |count| (0..count).map(|_| served(&client, running.address())).collect::<Vec<_>>();
    let first = connect(FIRST);
    let before = worker::resident(worker::of(&running));
    let more = connect(MORE);
    let each = worker::resident(worker::of(&running)).saturating_sub(before) / MORE as u64;
    assert!((1000..=IDLE_MAX).contains(&each), "{each} bytes for each connection");
    drop((first, more));
    running.stop();
}
