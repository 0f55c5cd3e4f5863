//! `gzip` and `gunzip` of what other servers answer: who gets it in which form, and what the head then says. Bodies
//! are compared as they were before they were compressed.

use tests::binary::nginx_with;
use tests::differential::agree_over_http1;
use tests::inflate::deflate;
use tests::origin::{After, Asked, Origin, Reply};
use tests::site::Site;

const TEXT: &str = "0123456789 and more of the same, 0123456789 and more of the same\n";

/// Sizes after compression differ, so they are not logged.
const LOG: &str = "log_format lean '$request|$status|$sent_http_content_encoding|$sent_http_etag';
    access_log %%LOGS%%/access.log lean;";

const ETAG: &str = "ETag: \"x\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nAccept-Ranges: bytes\r\n";
const CODED: &str =
    "Content-Encoding: gzip\r\nContent-Type: text/html\r\nETag: \"x\"\r\nAccept-Ranges: bytes\r\n";
const COLD: &str = "Content-Type: text/html\r\nExpires: Thu, 01 Jan 1970 00:00:01 GMT\r\n";

fn reply(status: &str, fields: &str, body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    ([head.as_bytes(), body].concat(), After::Keep)
}

fn chunked(fields: &str, body: &[u8]) -> Reply {
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for part in body.chunks(7) {
        bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    (bytes, After::Keep)
}

fn answer(asked: &Asked) -> Reply {
    let (text, html) = (TEXT.as_bytes(), "Content-Type: text/html\r\n");
    let long = TEXT.repeat(3000);
    match asked.target.rsplit('/').next().unwrap_or_default() {
        "plain" => reply("200 OK", &format!("{html}{ETAG}"), text),
        "css" => reply("200 OK", &format!("Content-Type: text/css\r\n{ETAG}"), text),
        "weak" => reply("200 OK", &format!("{html}ETag: W/\"x\"\r\n"), text),
        "bad" => reply("200 OK", &format!("{html}ETag: x\r\n"), text),
        "untyped" => reply("200 OK", ETAG, text),
        "short" => reply("200 OK", html, b"short"),
        "empty" => reply("200 OK", html, b""),
        "chunked" => chunked(html, text),
        "long" => reply("200 OK", html, long.as_bytes()),
        "longchunked" => chunked(html, &long.as_bytes()[..20_000]),
        "closes" => {
            let head = format!("HTTP/1.0 200 OK\r\n{html}\r\n");
            ([head.as_bytes(), text].concat(), After::Close)
        }
        "missing" => reply("404 Not Found", html, text),
        "broken" => reply("500 Oops", html, text),
        "created" => reply("201 Created", html, text),
        "expired" => reply("200 OK", COLD, text),
        "nocache" => reply("200 OK", &format!("{html}Cache-Control: max-age=1, no-cache\r\n"), text),
        "nostore" => reply("200 OK", &format!("{html}Cache-Control: No-Store\r\n"), text),
        "private" => reply("200 OK", &format!("{html}Cache-Control: private\r\nETag: \"x\"\r\n"), text),
        "public" => reply("200 OK", &format!("{html}Cache-Control: public\r\nETag: \"x\"\r\n"), text),
        "part" => reply("206 Partial Content", &format!("{html}Content-Range: bytes 0-65/100\r\n"), text),
        "unchanged" => (b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec(), After::Keep),
        "br" => reply("200 OK", &format!("{html}Content-Encoding: br\r\n"), text),
        "identity" => reply("200 OK", &format!("{html}Content-Encoding: identity\r\n"), text),
        "gz" => reply("200 OK", CODED, &deflate(text)),
        "GZ" => reply("200 OK", "Content-Encoding: GZip\r\nVary: Cookie\r\n", &deflate(text)),
        "chunkedgz" => chunked(CODED, &deflate(text)),
        "longgz" => reply("200 OK", CODED, &deflate(long.as_bytes())),
        "membersgz" => reply("200 OK", CODED, &[deflate(text), deflate(text)].concat()),
        "missinggz" => reply("404 Not Found", CODED, &deflate(text)),
        "brokengz" => reply("500 Oops", CODED, &deflate(text)),
        _ => reply("200 OK", "", text),
    }
}

const PLAIN: [&str; 26] = [
    "plain",
    "css",
    "weak",
    "bad",
    "untyped",
    "short",
    "empty",
    "chunked",
    "long",
    "longchunked",
    "closes",
    "missing",
    "broken",
    "created",
    "expired",
    "nocache",
    "nostore",
    "private",
    "public",
    "part",
    "unchanged",
    "br",
    "identity",
    "gz",
    "GZ",
    "longgz",
];

const CODED_PATHS: [&str; 10] =
    ["gz", "GZ", "chunkedgz", "longgz", "membersgz", "missinggz", "brokengz", "plain", "br", "unchanged"];

/// A server in front of the origin, with a location for each of these settings.
fn site(origin: &Origin, settings: &str, inner: &[&str], more: &str) -> Site {
    let pass = format!("proxy_pass http://{}/;", origin.address());
    let locations: String = inner
        .iter()
        .enumerate()
        .map(|(at, settings)| format!("location /{at}/ {{ {settings} {pass} }}\n"))
        .collect();
    Site::new(&format!(
        "{LOG} {settings} server {{ listen 127.0.0.1:%%PORT%%; location / {{ {pass} }} {locations} {more} }}"
    ))
}

/// Over HTTP/1 only: the client of HTTP/2 gives up a response in hundreds of small frames, as either server sends some.
fn ask(site: &Site, requests: &[String]) {
    agree_over_http1(site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn compressed_on_the_way() {
    let origin = Origin::start(answer);
    let conditions = [
        "gzip_proxied any;",
        "gzip_proxied expired;",
        "gzip_proxied no-cache no-store;",
        "gzip_proxied private no_etag;",
        "gzip_proxied no_last_modified;",
        "gzip_proxied auth;",
        "gzip_http_version 1.0; gzip_types text/css;",
        "gzip_types *; gzip_min_length 0; proxy_buffering off;",
    ];
    let site = site(&origin, "gzip on; gzip_vary on;", &conditions, "");
    let mut requests = Vec::new();
    for path in PLAIN {
        for method in ["GET", "HEAD"] {
            requests.push(format!("{method} /{path}\nAccept-Encoding: gzip"));
        }
        requests.push(format!("GET /{path}\nAccept-Encoding: br"));
        requests.push(format!("GET /6/{path} HTTP/1.0\nAccept-Encoding: gzip"));
        requests.push(format!("GET /7/{path}\nAccept-Encoding: gzip"));
    }
    for path in ["plain", "expired", "nocache", "nostore", "private", "public", "weak", "chunked"] {
        for at in 0..6 {
            requests.push(format!("GET /{at}/{path}\nAccept-Encoding: gzip\nVia: 1.1 x"));
        }
        requests.push(format!("GET /5/{path}\nAccept-Encoding: gzip\nVia: 1.1 x\nAuthorization: Basic eDp5"));
    }
    for accept in
        ["gzip;q=0", "gzip;q=0.001", "deflate, gzip;q=0.5", "*", "gzip, identity;q=0", "*;q=0, gzip"]
    {
        requests.push(format!("GET /plain\nAccept-Encoding: {accept}"));
    }
    ask(&site, &requests);
}

#[test]
fn uncompressed_on_the_way() {
    let Some(nginx) = nginx_with(&["--with-http_gunzip_module", "--with-http_gzip_static_module"]) else {
        return;
    };
    let origin = Origin::start(answer);
    let inner = [
        "gunzip off;",
        "gzip on; gzip_min_length 0;",
        "gzip_http_version 1.0;",
        "gzip_proxied any;",
        "gzip_disable old;",
        "proxy_buffering off; gunzip_buffers 2 1k; gzip_vary off;",
    ];
    let files = "location /file/ { alias %%ROOT%%/; gzip_static always; types { text/html html; } }";
    let settings = format!("gunzip on; gzip_vary on; {}", super::compression::without_ranges(&nginx));
    let site = site(&origin, &settings, &inner, files)
        .nginx(nginx)
        .file("f.html.gz", deflate(TEXT.as_bytes()))
        .file("f.html", TEXT);
    let mut requests = Vec::new();
    for path in CODED_PATHS {
        for method in ["GET", "HEAD"] {
            for accept in ["gzip", "br", "gzip;q=0", "gzip;q=0.5", "*"] {
                requests.push(format!("{method} /{path}\nAccept-Encoding: {accept}"));
            }
            requests.push(format!("{method} /{path}"));
        }
        for at in 0..inner.len() {
            requests.push(format!("GET /{at}/{path}\nAccept-Encoding: gzip"));
            requests.push(format!("GET /{at}/{path}"));
            requests.push(format!("GET /{at}/{path} HTTP/1.0\nAccept-Encoding: gzip"));
            requests.push(format!("GET /{at}/{path}\nAccept-Encoding: gzip\nVia: 1.1 x"));
            requests.push(format!("GET /{at}/{path}\nAccept-Encoding: gzip\nUser-Agent: older"));
        }
    }
    for more in
        ["", "\nAccept-Encoding: gzip", "\nRange: bytes=0-3", "\nRange: bytes=0-3\nAccept-Encoding: gzip"]
    {
        requests.push(format!("GET /file/f.html{more}"));
        requests.push(format!("HEAD /file/f.html{more}"));
    }
    requests.push("GET /file/f.html\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT".into());
    ask(&site, &requests);
}
