//! `brotli` and `brotli_static` compared with the module ngx_brotli: which responses are compressed, and their headers.
//! Bodies are compared after decompression.

use tests::binary::{Nginx, nginx_with};
use tests::differential::agree;
use tests::origin::{After, Asked, Origin, Reply};
use tests::site::Site;

const TEXT: &str = "0123456789 and more of the same, 0123456789 and more of the same\n";

/// Sizes after compression differ, so they are not logged.
const LOG: &str = "log_format lean '$request|$status|$sent_http_content_encoding|$sent_http_etag';
    access_log %%LOGS%%/access.log lean;
    types { text/html html; text/plain txt; text/css css; }";

fn nginx() -> Option<Nginx> {
    nginx_with(&[
        "ngx_http_brotli_filter_module",
        "ngx_http_brotli_static_module",
        "--with-http_gzip_static_module",
    ])
}

fn site(nginx: Nginx, http: &str) -> Site {
    Site::new(&format!("{LOG} {http}"))
        .nginx(nginx)
        .file("f.html", TEXT)
        .file("f.txt", TEXT)
        .file("f.css", TEXT)
        .file("none", TEXT)
        .file("19.html", "0123456789012345678")
        .file("20.html", "01234567890123456789")
        .file("empty.html", "")
        .file("large.html", TEXT.repeat(5000))
}

fn ask(site: &Site, requests: &[String]) {
    agree(site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_a_client_accepts() {
    let Some(nginx) = nginx() else { return };
    let site = site(nginx, "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; brotli on; }");
    let accepted = [
        "br",
        "BR",
        "br,",
        "gzip, deflate, br",
        "br, gzip",
        "br,gzip",
        "gzip,br",
        "br;q=1",
        "br;q=1.0",
        "br;q=0",
        "br;q=0.0",
        "br;q=0.000",
        "br;q=0.001",
        "br;q=0.5, deflate",
        "br;q=0, deflate",
        "br ; q=0.5",
        "br; q=0.5",
        "xbr",
        "brx",
        "x-br",
        "b",
        "identity",
        "",
    ];
    let requests: Vec<String> =
        accepted.iter().map(|field| format!("GET /f.html\nAccept-Encoding: {field}")).collect();
    ask(&site, &requests);
    agree(
        &site,
        &[
            "GET /f.html",
            "GET /f.html HTTP/1.0\nAccept-Encoding: br",
            "GET /f.html\nAccept-Encoding: br\nVia: 1.1 x",
            "GET /f.html\nAccept-Encoding: br\nUser-Agent: Mozilla/4.0 (compatible; MSIE 6.0; x)",
        ],
    );
}

#[test]
fn kinds_of_content() {
    let Some(nginx) = nginx() else { return };
    let site = site(
        nginx,
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            brotli on;
            brotli_types text/plain TEXT/CSS;
            location /untyped/ { default_type ""; return 200 "0123456789 0123456789"; }
            location /20/ { default_type text/html; return 200 "01234567890123456789"; }
            location /19/ { default_type text/html; return 200 "0123456789012345678"; }
            location /201/ { default_type text/html; return 201 "01234567890123456789"; }
            location /400/ { return 400; }
            location /403/ { return 403; }
            location /404/ { return 404; }
            location /404text/ { return 404 "01234567890123456789"; }
            location /500/ { return 500; }
            location /302/ { return 302 /x; }
            location /204/ { return 204; }
            location /page/ { error_page 404 /f.html; }
            location /vary/ { alias %%ROOT%%/; gzip_vary on; }
            location /added/ { alias %%ROOT%%/; gzip_vary on; add_header Vary Cookie; expires 1h; }
            location /unchunked/ { alias %%ROOT%%/; chunked_transfer_encoding off; }
            location /off/ { alias %%ROOT%%/; brotli off; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            brotli on;
            brotli_types *;
            brotli_min_length 0;
            brotli_comp_level 1;
            brotli_window 16k;
            brotli_buffers 4 8k;
            location /empty/ { return 200 ""; }
        }
        "#,
    );
    let paths = [
        "/f.html",
        "/f.txt",
        "/f.css",
        "/none",
        "/19.html",
        "/20.html",
        "/empty.html",
        "/large.html",
        "/untyped/",
        "/20/",
        "/19/",
        "/201/",
        "/400/",
        "/403/",
        "/404/",
        "/404text/",
        "/500/",
        "/302/",
        "/204/",
        "/page/x",
        "/missing",
        "/vary/f.html",
        "/vary/none",
        "/added/f.html",
        "/unchunked/f.html",
        "/off/f.html",
    ];
    let mut requests: Vec<(usize, String)> = Vec::new();
    for path in paths {
        for (method, accepted) in [("GET", "br"), ("HEAD", "br"), ("GET", "gzip")] {
            requests.push((0, format!("{method} {path}\nAccept-Encoding: {accepted}")));
        }
    }
    for more in [
        "\nRange: bytes=0-1",
        "\nRange: bytes=99999-",
        "\nIf-None-Match: \"65937d25-41\"",
        "\nIf-None-Match: W/\"65937d25-41\"",
        "\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "\nConnection: close",
    ] {
        requests.push((0, format!("GET /f.html\nAccept-Encoding: br{more}")));
        requests.push((0, format!("GET /vary/f.html\nAccept-Encoding: br{more}")));
    }
    for path in ["/f.html", "/none", "/empty.html", "/empty/", "/19.html", "/404/", "/large.html"] {
        requests.push((1, format!("GET {path}\nAccept-Encoding: br")));
    }
    agree(&site, &requests.iter().map(|(port, request)| (*port, request.as_str())).collect::<Vec<_>>());
}

/// What another server answers.
fn answer(asked: &Asked) -> Reply {
    let fields = match asked.target.rsplit('/').next().unwrap_or_default() {
        "css" => "Content-Type: text/css\r\n",
        "tagged" => {
            "Content-Type: text/html\r\nETag: \"x\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n"
        }
        "weak" => "Content-Type: text/html\r\nETag: W/\"x\"\r\n",
        "gzip" => "Content-Type: text/html\r\nContent-Encoding: gzip\r\n",
        "private" => "Content-Type: text/html\r\nCache-Control: private\r\n",
        "chunked" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
            return (format!("{head}{:x}\r\n{TEXT}\r\n0\r\n\r\n", TEXT.len()).into_bytes(), After::Keep);
        }
        _ => "Content-Type: text/html\r\n",
    };
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", TEXT.len());
    ([head.as_bytes(), TEXT.as_bytes()].concat(), After::Keep)
}

#[test]
fn compressed_on_the_way() {
    let Some(nginx) = nginx() else { return };
    let origin = Origin::start(answer);
    let site = site(
        nginx,
        &format!(
            "brotli on; gzip_vary on;
             server {{
                 listen 127.0.0.1:%%PORT%%;
                 location / {{ proxy_pass http://{0}/; }}
                 location /few/ {{ brotli_types text/css; proxy_pass http://{0}/; }}
             }}",
            origin.address()
        ),
    );
    let mut requests = Vec::new();
    for path in ["plain", "css", "tagged", "weak", "gzip", "private", "chunked"] {
        for place in ["", "few/"] {
            requests.push(format!("GET /{place}{path}\nAccept-Encoding: br"));
            requests.push(format!("GET /{place}{path}\nAccept-Encoding: gzip"));
            requests.push(format!("HEAD /{place}{path}\nAccept-Encoding: br"));
            requests.push(format!("GET /{place}{path} HTTP/1.0\nAccept-Encoding: br\nVia: 1.1 x"));
        }
    }
    ask(&site, &requests);
}

#[test]
fn files_compressed_beforehand() {
    let Some(nginx) = nginx() else { return };
    let site = site(
        nginx,
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            brotli_static on;
            max_ranges 0;
            location /always/ { alias %%ROOT%%/; brotli_static always; }
            location /vary/ { alias %%ROOT%%/; gzip_vary on; }
            location /both/ { alias %%ROOT%%/; brotli on; }
            location /off/ { alias %%ROOT%%/; brotli_static off; }
            location /page/ { error_page 404 /only.html; }
        }
        "#,
    )
    .file("f.html.br", "said to be brotli")
    .file("only.html.br", "there is no other")
    .file("sub/index.html", "index")
    .file("sub/index.html.br", "coded index")
    .dir("f.css.br");
    let mut requests: Vec<String> = Vec::new();
    for path in ["/f.html", "/f.txt", "/f.css", "/only.html", "/sub/", "/sub", "/none"] {
        for place in ["", "/always", "/both", "/off"] {
            for accepted in ["br", "gzip"] {
                requests.push(format!("GET {place}{path}\nAccept-Encoding: {accepted}"));
            }
        }
        requests.push(format!("GET /vary{path}\nAccept-Encoding: br"));
    }
    for more in [
        "\nRange: bytes=0-3",
        "\nRange: bytes=99999-",
        "\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "\nVia: 1.1 x",
        "\nIf-None-Match: *",
    ] {
        requests.push(format!("GET /f.html\nAccept-Encoding: br{more}"));
        requests.push(format!("GET /always/f.html{more}"));
    }
    for request in [
        "HEAD /f.html\nAccept-Encoding: br",
        "POST /f.html\nAccept-Encoding: br\n\nx",
        "GET /page/x\nAccept-Encoding: br",
        "GET /f.html HTTP/1.0\nAccept-Encoding: br",
    ] {
        requests.push(request.into());
    }
    ask(&site, &requests);
}
