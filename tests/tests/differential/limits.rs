//! Limits of heads and bodies.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn client_max_body_size() {
    let site = Site::new(
        r#"
        client_max_body_size 10;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /text { return 200 "text"; }
            location /more { client_max_body_size 1k; try_files /f.txt =404; }
            location /unlimited { client_max_body_size 0; try_files /f.txt =404; }
        }
        "#,
    )
    .file("f.txt", "file\n");
    agree(
        &site,
        &[
            "POST /text\n\n0123456789",
            "POST /text\n\n0123456789a",
            "POST /f.txt\n\n0123456789",
            "POST /f.txt\n\n0123456789a",
            "GET /f.txt\n\n0123456789a",
            "HEAD /f.txt\n\n0123456789a",
            "POST /more\n\n0123456789a",
            "POST /unlimited\n\n0123456789a",
            "POST /f.txt\nContent-Length: 99999999999",
            "POST /f.txt\nExpect: 100-continue\nContent-Length: 11",
            "POST /f.txt HTTP/1.0\n\n0123456789a",
            "POST /none\n\n0123456789a",
        ],
    );
}

/// A body that is read for an upstream is bounded also where its length is not announced.
#[test]
fn bodies_that_are_handed_on() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            client_max_body_size 10;
            location / { proxy_pass http://127.0.0.1:%%PORT_1%%; }
        }
        server { listen 127.0.0.1:%%PORT_1%%; return 200 "got $content_length"; }
        "#,
    );
    let chunked = |chunks: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}"
        )
    };
    let requests = [
        chunked("5\r\nhello\r\n0\r\n\r\n"),
        chunked("5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n"),
        chunked("5\r\nhello\r\nx\r\n"),
        "POST /\n\n0123456789a".to_owned(),
    ];
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn head_sizes() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            client_header_buffer_size 128;
            large_client_header_buffers 2 512;
            return 200 "$uri $http_x_long";
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            return 200 "ok";
        }
        "#,
    );
    let n = |count: usize| "n".repeat(count);
    let requests = [
        (0, format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n(100))),
        (0, format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n(300))),
        (0, format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n(1200))),
        (0, format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\nConnection: close\r\n\r\n", n(300))),
        (0, format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\nConnection: close\r\n\r\n", n(1200))),
        (0, format!("GET / HTTP/1.1\r\nHost: a\r\n{}: x\r\nConnection: close\r\n\r\n", n(1200))),
        (0, format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {}\r\nConnection: close\r\n\r\n", n(1200))),
        (0, format!("{} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "G".repeat(1200))),
        (1, format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n(8000))),
        (1, format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n(9000))),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\nConnection: close\r\n\r\n", n(8000))),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\nConnection: close\r\n\r\n", n(9000))),
        (
            1,
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}Connection: close\r\n\r\n",
                format!("X: {}\r\n", n(7000)).repeat(3)
            ),
        ),
        (
            1,
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}Connection: close\r\n\r\n",
                format!("X: {}\r\n", n(7000)).repeat(6)
            ),
        ),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\n{}Connection: close\r\n\r\n", "X: y\r\n".repeat(900))),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\n{}Connection: close\r\n\r\n", "X: y\r\n".repeat(1100))),
    ];
    agree(&site, &requests.iter().map(|(port, request)| (*port, request.as_str())).collect::<Vec<_>>());
}

#[test]
fn max_headers() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; max_headers 4; return 200 ok; }"#);
    agree(
        &site,
        &[
            "GET /\nA: 1\nB: 2\nConnection: close",
            "GET /\nA: 1\nB: 2\nC: 3\nConnection: close",
            "GET / HTTP/1.0",
        ],
    );
}

#[test]
fn field_names() {
    let site = Site::new(
        r#"
        server { listen 127.0.0.1:%%PORT%%; return 200 "[$http_x_y] [$http_a_b]"; }
        server { listen 127.0.0.1:%%PORT_1%%; underscores_in_headers on; return 200 "[$http_x_y] [$http_a_b]"; }
        server { listen 127.0.0.1:%%PORT_2%%; ignore_invalid_headers off; return 200 "[$http_x_y] [$http_a_b]"; }
        "#,
    );
    let heads = [
        "X_Y: under\r\n",
        "X-Y: minus\r\nX_Y: under\r\n",
        "X_Y: under\r\nX-Y: minus\r\n",
        "X-Y: one\r\nX-Y: two\r\n",
        "x-y:tight\r\n",
        "X-Y:   spaced  \r\n",
        "X-Y:\r\n",
        "X.Y: dot\r\n",
        "X!Y: mark\r\nX-Y: good\r\n",
        "X(Y): bracket\r\nX-Y: good\r\n",
        "X Y: space\r\n",
        "X\u{e9}Y: latin\r\nX-Y: good\r\n",
        "X-Y: va\u{e9}lue\r\n",
        ": empty\r\nX-Y: good\r\n",
        "X-Y : before\r\n",
        " X-Y: leading\r\n",
        "A-B: one\r\n two\r\nX-Y: good\r\n",
        "X-Y: a\x01b\r\n",
        "X-Y: a\0b\r\n",
        "X\0Y: nul\r\n",
        "X-Y: a\rb\r\n",
        "X-Y: lone\nA-B: feed\r\n",
    ];
    let requests: Vec<String> = heads
        .iter()
        .map(|head| format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{head}\r\n"))
        .collect();
    let cases: Vec<(usize, &str)> =
        (0..3).flat_map(|port| requests.iter().map(move |request| (port, request.as_str()))).collect();
    agree(&site, &cases);
}
