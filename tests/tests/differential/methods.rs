//! Request methods, and the versions of the protocol.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn of_static_files() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /text { return 200 "$request_method"; }
        }
        "#,
    )
    .file("f.txt", "file\n")
    .dir("dir");
    let methods = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "PATCH",
        "CONNECT",
        "MKCOL",
        "COPY",
        "MOVE",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "QUERY",
        "UNKNOWN",
        "M-SEARCH",
        "A_B",
        "GETT",
        "GE",
        "X",
    ];
    let requests: Vec<String> = methods
        .iter()
        .flat_map(|method| ["f.txt", "none", "dir/", "dir", "text"].map(|path| format!("{method} /{path}")))
        .collect();
    let with_body = ["PUT", "POST", "DELETE", "OPTIONS", "GET"];
    let bodies = with_body.iter().map(|method| format!("{method} /f.txt\n\nbody"));
    let requests: Vec<String> = requests.into_iter().chain(bodies).collect();
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn malformed_request_lines() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; return 200 "$request_method $uri"; }"#);
    agree(
        &site,
        &[
            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
            "Get / HTTP/1.1\r\nHost: a\r\n\r\n",
            "G\tT / HTTP/1.1\r\nHost: a\r\n\r\n",
            " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET ://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.\r\nHost: a\r\n\r\n",
            "GET / HTTP/.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1.1\r\nHost: a\r\n\r\n",
            "GET / http/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP 1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1,1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
            "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
            "GET / XTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
            "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "G E T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\x01 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /\x7f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /\0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "\x16\x03\x01\x02\r\n",
        ],
    );
}

#[test]
fn protocol_versions() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /text { return 200 "$server_protocol $host"; }
        }
        "#,
    )
    .file("f.txt", "file\n")
    .dir("dir");
    agree(
        &site,
        &[
            "GET /f.txt\r\n",
            "GET /none\r\n",
            "GET /dir\r\n",
            "GET /text\r\n",
            "GET /f.txt HTTP/1.0\r\n\r\n",
            "GET /f.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET /f.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /text HTTP/1.0\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /text HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: foo, close\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nGET /text HTTP/1.0\r\n\r\n",
            "GET /f.txt HTTP/1.2\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /f.txt HTTP/1.9\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /text HTTP/1.1\nHost: a\nConnection: close\n\r\n",
            "GET /text HTTP/1.1\nHost: a\r\nConnection: close\n\n\r\n",
        ],
    );
}
