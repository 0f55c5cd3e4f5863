//! memcached as an upstream of nginx and of Fulmar.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tests::binary::Server;
use tests::differential::agree;
use tests::memcached::{Memcached, have_memcached};
use tests::raw::Raw;
use tests::site::Site;

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn filled() -> Memcached {
    let memcached = Memcached::start();
    memcached.set("/page.html", 0, b"<p>page</p>");
    memcached.set("/empty", 0, b"");
    memcached.set("/a%20b%25", 0, b"escaped");
    memcached.set("/large", 0, &b"0123456789".repeat(50_000));
    memcached.set("/packed.txt", 2, &gzipped("packed"));
    memcached.set("/args?x=1", 0, b"with arguments");
    memcached
}

fn site(memcached: &Memcached) -> Site {
    Site::new(&format!(
        r#"log_format short '$request $status $upstream_status $upstream_response_length $upstream_addr';
        access_log %%LOGS%%/access.log short;
        upstream kept {{ server {address}; keepalive 4; }}
        upstream several {{ server 127.0.0.1:1 max_fails=0; server {address}; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            set $memcached_key $uri;
            location / {{ memcached_pass {address}; memcached_gzip_flag 2; }}
            location /args {{ set $memcached_key "$uri?$args"; memcached_pass kept; }}
            location /several/ {{ set $memcached_key /page.html; memcached_pass several; }}
            location /fallback/ {{ memcached_pass kept; error_page 404 = @application; }}
            location /if/ {{ set $memcached_key /page.html; if ($arg_a) {{ memcached_pass kept; }} return 204; }}
            location /none/ {{ set $memcached_key ""; memcached_pass kept; }}
            location /down/ {{ memcached_pass 127.0.0.1:1; }}
            location @application {{ return 200 "made for $uri\n"; }}
        }}"#,
        address = memcached.address()
    ))
}

#[test]
fn memcached_answers_as_through_nginx() {
    if !have_memcached() {
        return;
    }
    let memcached = filled();
    let long = format!("GET /{}", "k".repeat(300));
    let cases: Vec<&str> = vec![
        "GET /page.html",
        "HEAD /page.html",
        "GET /page.html\nRange: bytes=1-3",
        "GET /page.html\nConnection: close",
        "GET /empty",
        "GET /a%20b%25",
        "GET /large",
        "HEAD /large",
        "GET /packed.txt",
        "GET /packed.txt\nAccept-Encoding: gzip",
        "GET /missing",
        "HEAD /missing",
        "GET /args?x=1",
        "GET /args?x=2",
        "GET /several/",
        "GET /fallback/a",
        "POST /fallback/a\n\nbody",
        "GET /if/?a=1",
        "GET /if/",
        "GET /none/",
        "GET /down/",
        "POST /page.html\n\nbody",
        "PUT /page.html\n\nbody",
        "DELETE /page.html",
        &long,
    ];
    let site = site(&memcached);
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /page.html").last().text(), "<p>page</p>");
    running.stop();
    agree(&site, &cases);
}

#[test]
fn connections_to_memcached_are_kept() {
    if !have_memcached() {
        return;
    }
    let memcached = filled();
    let site = Site::new(&format!(
        "upstream kept {{ server {}; keepalive 4; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{ set $memcached_key $uri; memcached_pass kept; }}
        }}",
        memcached.address()
    ));
    let running = site.start(Server::Fulmar);
    // One client, whose thread keeps the connection.
    let mut client = running.connect();
    let before = memcached.figure("total_connections");
    for (path, status) in
        [("/page.html", 200), ("/missing", 404), ("/large", 200), ("/empty", 200), ("/missing", 404)]
    {
        assert_eq!(
            client.exchange(&format!("GET {path}")).map(|answer| answer.status),
            Some(status),
            "{path}"
        );
    }
    // One is that of the second look.
    assert_eq!(memcached.figure("total_connections") - before, 2);
    running.stop();
}

/// What a client gets where memcached answers this.
fn answered(answer: &str) -> (u16, String) {
    let raw = Raw::listen();
    let site = Site::new(&format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{ set $memcached_key $uri; memcached_gzip_flag 1; memcached_pass {}; }}
        }}",
        raw.address()
    ));
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET /key HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = raw.accept();
    assert_eq!(peer.until("\r\n"), "get /key\r\n");
    peer.send(answer);
    peer.finish();
    let response = client.response("GET").expect("a response");
    running.stop();
    (response.status, response.text())
}

#[test]
fn a_memcached_that_breaks_the_rules() {
    for (answer, status) in [
        ("VALUE /key 0 4\r\ntext\r\nEND\r\n", 200),
        ("VALUE /key 0 4\r\ntext\r\nXXX\r\n", 200),
        ("VALUE /key 0 4\r\ntextmore\r\nEND\r\n", 200),
        ("VALUE /key 0 4\r\ntext", 200),
        ("END\r\n", 404),
        ("END\n", 502),
        ("\r\n", 502),
        ("ERROR\r\n", 502),
        ("CLIENT_ERROR bad\r\n", 502),
        ("VALUE /other 0 4\r\ntext\r\nEND\r\n", 502),
        ("VALUE /keys 0 4\r\ntext\r\nEND\r\n", 502),
        ("VALUE /key 0 -4\r\ntext\r\nEND\r\n", 502),
        ("VALUE /key 0 99999999999999999999\r\ntext\r\nEND\r\n", 502),
        ("VALUE /key 0\r\ntext\r\nEND\r\n", 502),
        ("VALUE /key x 4\r\ntext\r\nEND\r\n", 502),
        ("VALUE /key 0 4 7\r\ntext\r\nEND\r\n", 502),
        ("", 502),
    ] {
        let (got, text) = answered(answer);
        assert_eq!(got, status, "{answer:?}");
        assert_eq!(text == "text", status == 200, "{answer:?}: {text}");
    }
}
