//! `access_log` and `log_format`: the lines of both servers, byte for byte.

use tests::differential::{agree, agree_with_logs};
use tests::site::Site;

#[test]
fn combined() {
    let site = Site::new(
        r#"
        access_log %%LOGS%%/access.log;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /made { return 200 "made"; }
            location /closed { return 444; }
            location /error { return 500; }
        }
        "#,
    )
    .file("f.txt", "0123456789");
    agree(
        &site,
        &[
            "GET /f.txt",
            "HEAD /f.txt",
            "GET /f.txt HTTP/1.0",
            "GET /f.txt\nUser-Agent: agent \"quoted\" \\ back\nReferer: http://x/",
            "GET /f.txt\nUser-Agent: \u{e9}\u{1}",
            "GET /f.txt\nAuthorization: Basic dXNlciAieCI6cGFzcw==",
            "GET /f.txt\nRange: bytes=2-4",
            "GET /f.txt\nIf-None-Match: *",
            "GET /none?a=\"b\"",
            "GET /made?%20\\",
            "GET /closed",
            "GET /error",
            "POST /made\n\nbody",
            "GET /% HTTP/1.1\r\nHost: a\r\n\r\n",
            "garbage\r\n",
            "\x01\"\\\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /f.txt\r\n",
        ],
    );
}

#[test]
fn formats() {
    let site = Site::new(
        r#"
        log_format plain '$remote_addr|$remote_user|$request|$status|$body_bytes_sent|$http_x|$pipe|$connection_requests';
        log_format json escape=json '{"x":"$http_x","uri":"$uri","empty":"$http_none","length":$request_length}';
        log_format raw escape=none 'x=$http_x empty=$http_none';
        log_format parts "a" "b$uri" 'c';
        log_format unset escape=default '[$http_none][$arg_x][$sent_http_x_out][$sent_http_location][$host][$server_name]';
        log_format sent '$sent_http_content_type|$sent_http_content_length|$sent_http_etag';
        access_log %%LOGS%%/plain plain;
        access_log %%LOGS%%/json json;
        access_log %%LOGS%%/raw raw;
        access_log %%LOGS%%/parts parts;
        access_log %%LOGS%%/unset unset;
        access_log %%LOGS%%/sent sent;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name named;
            root %%ROOT%%;
            location /off { access_log off; return 200 x; }
            location /other { access_log %%LOGS%%/other parts; add_header X-Out out; return 200 x; }
            location /both { access_log %%LOGS%%/other plain; access_log %%LOGS%%/json json; return 200 x; }
            location /moved { return 301 /there; }
        }
        "#,
    )
    .file("f.txt", "0123456789");
    agree_with_logs(
        &site,
        &[
            "GET /f.txt\nX: simple\nConnection: close",
            "GET /f.txt?x=1\nX: \"quotes\" \\back\\ /slash\ttab\nConnection: close",
            "GET /f.txt\nX: caf\u{e9} \u{7f}\nConnection: close",
            "GET /%09%0a%22%5c%01%c3%a9%ff\nConnection: close",
            "GET /off\nConnection: close",
            "GET /other\nConnection: close",
            "GET /both\nX: b\nConnection: close",
            "GET /moved\nConnection: close",
            "GET /f.txt\nHost: NAMED\nConnection: close",
            "HEAD /f.txt\nConnection: close",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /moved HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
        &["plain", "json", "raw", "parts", "unset", "sent", "other"],
    );
}

#[test]
fn conditions_and_buffers() {
    let site = Site::new(
        r#"
        log_format uri '$uri';
        access_log %%LOGS%%/if uri if=$arg_log;
        access_log %%LOGS%%/buffered uri buffer=32k flush=1m;
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 x; }
        }
        "#,
    );
    agree_with_logs(
        &site,
        &[
            "GET /1?log=1\nConnection: close",
            "GET /2?log=0\nConnection: close",
            "GET /3?log=\nConnection: close",
            "GET /4\nConnection: close",
            "GET /5?log=yes\nConnection: close",
        ],
        &["if", "buffered"],
    );
}

#[test]
fn paths_with_variables() {
    let site = Site::new(
        r#"
        log_format uri '$uri';
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { access_log %%LOGS%%/per-$arg_name uri; return 200 x; }
        }
        "#,
    );
    agree_with_logs(
        &site,
        &[
            "GET /1?name=a\nConnection: close",
            "GET /2?name=b\nConnection: close",
            "GET /3?name=a\nConnection: close",
        ],
        &["per-a", "per-b"],
    );
}

/// Tools read these lines, such as those that lock out hosts.
#[test]
fn errors() {
    let site = Site::new(
        r#"
        client_max_body_size 10;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name named;
            root %%ROOT%%;
            location /denied { deny all; }
            location /loop { try_files /none /loop/again; }
            location /quiet { log_not_found off; }
            location /text { return 200 x; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            large_client_header_buffers 2 512;
            root %%ROOT%%;
        }
        "#,
    )
    .dir("dir")
    .file("file", "x");
    let long = "n".repeat(1000);
    let requests = [
        (0, "GET /none?a=\"b\"".to_owned()),
        (0, "GET /none\nReferer: http://a/".to_owned()),
        (0, "GET /file/x\nHost: other".to_owned()),
        (0, "GET /dir/".to_owned()),
        (0, "GET /denied HTTP/1.0".to_owned()),
        (0, "GET /loop".to_owned()),
        (0, "GET /quiet".to_owned()),
        (0, "GET /none/".to_owned()),
        (0, "POST /text\n\n01234567890".to_owned()),
        (0, "GET /% HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned()),
        (0, "get / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n".to_owned()),
        (0, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_owned()),
        (
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
        ),
        (0, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned()),
        (0, "POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_owned()),
        (0, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (1, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", &long[..230])),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")),
    ];
    let cases: Vec<(usize, &str)> =
        requests.iter().map(|(port, request)| (*port, request.as_str())).collect();
    agree_with_logs(&site, &cases, &["error.log"]);
}
