//! Keep-alive, pipelining, request bodies that nobody reads, Expect.

use tests::differential::{agree, agree_with_logs};
use tests::site::Site;

const SITE: &str = r#"
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%ROOT%%;
        location /text { return 200 "$request_method $uri $http_content_length"; }
        location /error { return 503; }
        location /empty { return 204; }
        location /head { keepalive_timeout 60s 15s; }
        location /off { keepalive_timeout 0; return 200 off; }
        location /once { keepalive_requests 1; return 200 once; }
        location /disabled { keepalive_disable safari; return 200 disabled; }
        location /default-disabled { return 200 default; }
        location /gone { return 444; }
    }
    server {
        listen 127.0.0.1:%%PORT_1%%;
        keepalive_requests 2;
        keepalive_timeout 30s 30s;
        keepalive_disable none;
        location / { return 200 "$connection_requests"; }
        location /shorter { keepalive_timeout 5s; return 200 x; }
        location /silent { keepalive_timeout 5s 0; return 200 x; location /silent/inner { keepalive_timeout 9s; } }
    }
"#;

fn site() -> Site {
    Site::new(SITE).file("f.txt", "file\n").file("head", "head\n")
}

#[test]
fn keep_alive() {
    agree(
        &site(),
        &[
            (0, "GET /head"),
            (0, "GET /head HTTP/1.0\nConnection: keep-alive"),
            (0, "GET /head HTTP/1.0"),
            (0, "GET /off"),
            (0, "GET /once"),
            (0, "GET /error"),
            (0, "GET /empty"),
            (0, "GET /f.txt\nConnection: keep-alive, close"),
            (0, "GET /f.txt\nKeep-Alive: timeout=5"),
            (
                0,
                "GET /disabled\nUser-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/16 Safari/605.1.15",
            ),
            (0, "GET /default-disabled\nUser-Agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)"),
            (
                0,
                "POST /default-disabled\nUser-Agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)\n\nx",
            ),
            (
                0,
                "POST /default-disabled\nUser-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)\n\nx",
            ),
            (1, "GET /"),
            (1, "GET /shorter"),
            (1, "GET /silent"),
            (1, "GET /silent/inner"),
            (1, "GET / HTTP/1.0\nConnection: keep-alive"),
            (
                1,
                "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ],
    );
}

#[test]
fn pipelining() {
    let end = "GET /text/end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let inputs = [
        "GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5),
        "HEAD /f.txt HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /error HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody".to_owned(),
        "POST /f.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody".to_owned(),
        "GET /f.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody".to_owned(),
        "POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n".to_owned(),
        "POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\nA;x=y\r\n0123456789\r\n1;z\r\na\r\n0\r\n\r\n"
            .to_owned(),
        "POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n".to_owned(),
        "\r\n".to_owned(),
        "GET /text HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n".to_owned(),
        "GET /text HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\r\n\r\n".to_owned(),
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /% HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /text HTTP/1.1\r\nHost: a\r\n\r\nGET /f.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /gone HTTP/1.1\r\nHost: a\r\n\r\n"
            .to_owned(),
    ];
    let requests: Vec<String> = inputs.iter().map(|input| format!("{input}{end}")).collect();
    agree(&site(), &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn unread_bodies() {
    let long = "x".repeat(20_000);
    let whole = format!("POST /f.txt\nContent-Length: 20000\nConnection: close\n\n{long}");
    let text = format!("POST /text\nContent-Length: 20000\n\n{long}");
    agree(
        &site(),
        &[
            whole.as_str(),
            text.as_str(),
            "POST /text\nContent-Length: 0",
            "POST /text",
            "POST /text HTTP/1.0\n\nbody",
            "POST /text HTTP/1.0",
            "PUT /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
            "GET /text\nContent-Length: 3\n\nabc",
            "HEAD /text\nContent-Length: 3\n\nabc",
            "DELETE /none\nContent-Length: 3\n\nabc",
            "OPTIONS /empty\nContent-Length: 3\n\nabc",
        ],
    );
}

#[test]
fn expect() {
    // Without the log: nginx counts interim responses as content.
    agree_with_logs(
        &site(),
        &[
            "POST /text\nExpect: 100-continue\n\nbody",
            "POST /text\nExpect: 100-Continue\n\nbody",
            "POST /f.txt\nExpect: 100-continue\n\nbody",
            "POST /text HTTP/1.0\nExpect: 100-continue\n\nbody",
        ],
        &[],
    );
}

#[test]
fn bad_framing() {
    let post = "POST /text HTTP/1.1\r\nHost: a\r\n";
    let inputs = [
        "Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        "Content-Length: 4, 4\r\n\r\nbody",
        "Content-Length: -1\r\n\r\n",
        "Content-Length: +4\r\n\r\nbody",
        "Content-Length: 4x\r\n\r\nbody",
        "Content-Length: 0x4\r\n\r\nbody",
        "Content-Length:\r\n\r\n",
        "Content-Length: 4 4\r\n\r\nbody",
        "Content-Length: 99999999999999999999\r\n\r\n",
        "Content-Length: 9223372036854775808\r\n\r\n",
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Content-Length : 4\r\n\r\nbody",
        "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    ];
    let mut requests: Vec<String> = inputs.iter().map(|input| format!("{post}{input}")).collect();
    requests.push("POST /text HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned());
    agree(&site(), &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
