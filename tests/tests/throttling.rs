//! Responses with a `limit_rate` go out piece by piece, by whatever way they are sent.

use std::time::Duration;

use tests::binary::Server;
use tests::client::Client;
use tests::site::{Running, Site};

const CONTENT: usize = 60_000;

fn start() -> Running {
    Site::new(
        r#"
        map "" $text { default "%%TEXT%%"; }
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /content { alias %%ROOT%%/content; }
            location /slow/ {
                limit_rate 1k;
                location /slow/read { alias %%ROOT%%/content; }
                location /slow/kept { alias %%ROOT%%/content; open_file_cache max=10; }
                location /slow/kernel { alias %%ROOT%%/content; sendfile on; }
                location /slow/later { alias %%ROOT%%/content; limit_rate_after 20k; }
                location /slow/memory { return 200 %%MEMORY%%; }
                location /slow/passed { proxy_pass http://127.0.0.1:%%PORT%%/content; }
                location /slow/straight {
                    proxy_pass http://127.0.0.1:%%PORT%%/content;
                    proxy_buffering off;
                }
            }
            location /paced { alias %%ROOT%%/content; limit_rate 500k; }
        }
        "#
        .replace("%%TEXT%%", &"0123456789".repeat(100))
        .replace("%%MEMORY%%", &"$text".repeat(CONTENT / 1000))
        .as_str(),
    )
    .file("content", "0123456789".repeat(CONTENT / 10))
    .start(Server::Fulmar)
}

/// What has come when so many bytes of the content have come, and then others were given all of theirs several times.
fn arrived(running: &Running, client: &mut Client, least: usize) -> usize {
    let head = |client: &Client| {
        let rest = client.rest();
        rest.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
    };
    while head(client).is_none_or(|head| client.rest().len() < head + least) {
        assert!(client.read_some(CONTENT) > 0, "no more than {} bytes come", client.rest().len());
    }
    for _ in 0..3 {
        assert_eq!(running.ask("GET /content\nConnection: close").last().body.len(), CONTENT);
    }
    // All that lies ready.
    client.closes_within(Duration::from_millis(50));
    client.rest().len() - head(client).unwrap()
}

#[test]
fn the_first_second_s_bytes_come_at_once_and_no_more() {
    let running = start();
    for way in ["read", "kept", "kernel", "memory", "passed", "straight"] {
        let mut client = running.connect();
        client.send(format!("GET /slow/{way} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let count = arrived(&running, &mut client, 500);
        assert!(count < CONTENT / 2, "{way}: {count} bytes at once");
    }
}

#[test]
fn what_goes_before_the_limit_comes_at_once() {
    let running = start();
    let mut client = running.connect();
    client.send(b"GET /slow/later HTTP/1.1\r\nHost: a\r\n\r\n");
    // The limit of 1 KB a second is that of the location around.
    let count = arrived(&running, &mut client, 20_000);
    assert!(count < CONTENT, "{count} bytes at once");
}

#[test]
fn an_answer_in_front_is_not_held_up() {
    let running = start();
    let mut client = running.connect();
    client.send(b"GET /content HTTP/1.1\r\nHost: a\r\n\r\nGET /slow/read HTTP/1.1\r\nHost: a\r\n\r\n");
    let first = client.response("GET").unwrap();
    assert_eq!(first.body.len(), CONTENT);
    let count = arrived(&running, &mut client, 500);
    assert!(count < CONTENT / 2, "{count} bytes at once");
}

#[test]
fn all_of_it_comes_in_the_end() {
    let running = start();
    let mut client = running.connect();
    for _ in 0..2 {
        client.send(b"GET /paced HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response("GET").unwrap();
        assert_eq!(response.text(), "0123456789".repeat(CONTENT / 10));
    }
}
