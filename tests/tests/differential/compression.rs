//! `gzip` and `gzip_static`: who gets what compressed, and what the head then says. Bodies are compared
//! as they were before they were compressed.

use tests::binary::{Nginx, nginx_with};
use tests::differential::agree;
use tests::inflate::deflate;
use tests::site::Site;

/// Two servers need not compress to the same length, so lengths are not logged.
const LOG: &str = "log_format lean '$request|$status|$sent_http_content_encoding|$sent_http_etag';
    access_log %%LOGS%%/access.log lean;";

fn site(http: &str) -> Site {
    let text = "0123456789 and more of the same, 0123456789 and more of the same\n";
    Site::new(&format!("{LOG} types {{ text/html html; text/plain txt; text/css css; }} {http}"))
        .file("f.html", text)
        .file("f.txt", text)
        .file("f.css", text)
        .file("none", text)
        .file("19.html", "0123456789012345678")
        .file("20.html", "01234567890123456789")
        .file("empty.html", "")
        .file("large.html", text.repeat(5000))
        .file("middle.html", text.repeat(1500))
}

#[test]
fn what_a_client_accepts() {
    let site = site("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; gzip on; }");
    let accepted = [
        "gzip",
        "GZIP",
        "gzip,",
        "gzip, deflate, br",
        "deflate, gzip",
        "deflate,gzip",
        "deflate;gzip",
        "gzip;q=1",
        "gzip;q=0",
        "gzip;q=0.0",
        "gzip;q=0.000",
        "gzip;q=0.001",
        "gzip;q=0.0001",
        "gzip;q=0.5, deflate",
        "gzip;q=0, deflate",
        "gzip;q=0 , deflate",
        "gzip;q=1.000",
        "gzip;q=1.001",
        "gzip;q=1.0000",
        "gzip;q=2",
        "gzip;q=1.",
        "gzip;q=0.",
        "gzip;q=",
        "gzip;q",
        "gzip;Q=0.5",
        "gzip ; q=0.5",
        "gzip; q=0.5",
        "gzip; q =0.5",
        "gzip;q= 0.5",
        "gzip;q=.5",
        "gzip;q=0,5",
        "gzip;q=0.a",
        "gzip;q=-1",
        "gzip;x=1",
        "gzip;",
        "gzip; ",
        "gzip x",
        "x-gzip",
        "x-gzip, gzip",
        "gzipx",
        "gzipx, gzip",
        "gzipgzip",
        "xgzip",
        "xgzipgzip",
        "*",
        "*;q=1",
        "*, gzip;q=0",
        "identity",
        "gzi",
        "",
        "gzip;q=0, gzip",
    ];
    let requests: Vec<String> =
        accepted.iter().map(|field| format!("GET /f.html\nAccept-Encoding: {field}")).collect();
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
    agree(
        &site,
        &[
            "GET /f.html",
            "GET /f.html\nAccept-Encoding: deflate\nAccept-Encoding: gzip",
            "GET /f.html\nAccept-Encoding: gzip\nAccept-Encoding: deflate",
            "GET /f.html HTTP/1.0\nAccept-Encoding: gzip",
            "GET /f.html\r\n",
        ],
    );
}

#[test]
fn kinds_of_content() {
    let site = site(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            gzip on;
            gzip_types text/plain TEXT/CSS;
            location /typed/ { default_type "text/htmlx"; return 200 "0123456789 0123456789"; }
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
            location /uncoded/ { add_header Content-Encoding ""; return 200 "01234567890123456789"; }
            location /page/ { error_page 404 /f.html; }
            location /list/ { alias %%ROOT%%/; autoindex on; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            gzip on;
            gzip_types *;
            gzip_min_length 0;
            location /empty/ { return 200 ""; }
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            root %%ROOT%%;
            gzip on;
            gzip_comp_level 9;
            gzip_min_length 1k;
            gzip_hash 128k;
            gzip_buffers 4 8k;
            sendfile on;
            if ($arg_off) { set $off 1; }
            location /if { alias %%ROOT%%/large.html; gzip off; if ($arg_on) { gzip on; } }
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
        "/middle.html",
        "/typed/",
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
        "/uncoded/",
        "/page/x",
        "/missing",
        "/list/missing/",
    ];
    let mut requests: Vec<(usize, String)> = Vec::new();
    for path in paths {
        for method in ["GET", "HEAD"] {
            requests.push((0, format!("{method} {path}\nAccept-Encoding: gzip")));
        }
    }
    for path in ["/f.html", "/none", "/empty.html", "/empty/", "/19.html", "/404/"] {
        requests.push((1, format!("GET {path}\nAccept-Encoding: gzip")));
    }
    for path in ["/f.html", "/large.html", "/middle.html", "/if", "/if?on=1"] {
        requests.push((2, format!("GET {path}\nAccept-Encoding: gzip")));
        requests.push((2, format!("HEAD {path}\nAccept-Encoding: gzip")));
    }
    agree(&site, &requests.iter().map(|(port, request)| (*port, request.as_str())).collect::<Vec<_>>());
}

#[test]
fn conditions_and_ranges() {
    let site = site(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            gzip on;
            gzip_vary on;
            location /weak/ { alias %%ROOT%%/; add_header ETag 'W/"x"'; }
            location /strong/ { alias %%ROOT%%/; add_header ETag '"x"'; }
            location /bad/ { alias %%ROOT%%/; add_header ETag x; }
            location /added/ { alias %%ROOT%%/; add_header X-A b; add_header Vary Cookie; expires 1h; }
            location /unchunked/ { alias %%ROOT%%/; chunked_transfer_encoding off; }
            location /trailer/ { alias %%ROOT%%/; add_trailer X-T t; }
            location /missing/ { error_page 404 /f.txt; }
        }
        "#,
    );
    let mut requests: Vec<String> = Vec::new();
    for more in [
        "",
        "\nRange: bytes=0-1",
        "\nRange: bytes=99999-",
        "\nRange: bytes=0-1\nIf-Range: \"65937d25-41\"",
        "\nIf-None-Match: \"65937d25-41\"",
        "\nIf-None-Match: W/\"65937d25-41\"",
        "\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "\nIf-Match: \"65937d25-41\"",
        "\nIf-Match: W/\"65937d25-41\"\nConnection: close",
        "\nConnection: close",
    ] {
        for coding in ["gzip", "br"] {
            requests.push(format!("GET /f.html\nAccept-Encoding: {coding}{more}"));
        }
    }
    for path in ["/weak/", "/strong/", "/bad/", "/added/", "/unchunked/", "/trailer/", "/missing/"] {
        requests.push(format!("GET {path}f.html\nAccept-Encoding: gzip"));
        requests.push(format!("HEAD {path}f.html\nAccept-Encoding: gzip"));
        requests.push(format!("GET {path}f.txt\nAccept-Encoding: gzip"));
    }
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn through_proxies_and_for_old_clients() {
    let conditions = [
        "off",
        "any",
        "off any",
        "expired",
        "no-cache",
        "no-store private",
        "no_last_modified",
        "no_etag",
        "auth",
        "expired no-cache no-store private no_last_modified no_etag auth",
    ];
    let locations: String = conditions
        .iter()
        .enumerate()
        .map(|(at, condition)| {
            let files = "alias %%ROOT%%/;";
            format!(
                r#"
                location /{at}/plain/ {{ {files} gzip_proxied {condition}; }}
                location /{at}/etagless/ {{ {files} gzip_proxied {condition}; etag off; }}
                location /{at}/past/ {{ {files} gzip_proxied {condition}; expires -1; }}
                location /{at}/future/ {{ {files} gzip_proxied {condition}; expires 1h; }}
                location /{at}/store/ {{ {files} gzip_proxied {condition}; add_header Cache-Control "max-age=1, No-Store"; }}
                location /{at}/private/ {{ {files} gzip_proxied {condition}; add_header Cache-Control private; }}
                location /{at}/public/ {{ {files} gzip_proxied {condition}; add_header Cache-Control public; }}
                location /{at}/made/ {{ gzip_proxied {condition}; default_type text/html; return 200 "0123456789 0123456789"; }}
                "#
            )
        })
        .collect();
    let site = site(&format!(
        r#"
        gzip on;
        gzip_vary on;
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            {locations}
        }}
        server {{
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            gzip_http_version 1.0;
            gzip_disable "msie6" "^Old" old$;
            location /inner/ {{ alias %%ROOT%%/; gzip_disable inner; }}
        }}
        "#
    ));
    let mut requests: Vec<(usize, String)> = Vec::new();
    for at in 0..conditions.len() {
        for kind in ["plain", "etagless", "past", "future", "store", "private", "public", "made"] {
            let request = format!("GET /{at}/{kind}/f.html\nAccept-Encoding: gzip");
            requests.push((0, format!("{request}\nVia: 1.1 x")));
            if kind == "future" || kind == "plain" {
                requests.push((0, format!("{request}\nVia: 1.1 x\nAuthorization: Basic eDp5")));
            }
        }
    }
    for agent in [
        "Old one",
        "an OLD",
        "older",
        "",
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
        "Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)",
        "Mozilla/4.0 (compatible; MSIE 4.01; x)",
        "Mozilla/4.0 (compatible; MSIE 7.0; x)",
        "Mozilla/4.0 (compatible; MSIE 6.0; x) Opera 8",
        "inner",
    ] {
        for path in ["/f.html", "/inner/f.html"] {
            requests.push((1, format!("GET {path}\nAccept-Encoding: gzip\nUser-Agent: {agent}")));
        }
    }
    requests.push((1, "GET /f.html HTTP/1.0\nAccept-Encoding: gzip".into()));
    requests.push((1, "HEAD /f.html HTTP/1.0\nAccept-Encoding: gzip".into()));
    requests.push((1, "GET /f.html HTTP/1.0\nAccept-Encoding: gzip\nConnection: keep-alive".into()));
    agree(&site, &requests.iter().map(|(port, request)| (*port, request.as_str())).collect::<Vec<_>>());
}

/// Settings under which an nginx from before 1.23.4 and a later one are alike: that one sends no parts of files that were
/// compressed beforehand.
pub(super) fn without_ranges(nginx: &Nginx) -> &'static str {
    if nginx.version < vec![1, 23, 4] { "max_ranges 0;" } else { "" }
}

#[test]
fn files_compressed_beforehand() {
    let Some(nginx) = nginx_with(&["--with-http_gzip_static_module"]) else { return };
    let unranged = without_ranges(&nginx);
    let site = site(
        &(unranged.to_owned()
            + r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            gzip_static on;
            gzip_vary on;
            gzip_http_version 1.0;
            gzip_proxied expired;
            location /always/ { alias %%ROOT%%/; gzip_static always; }
            location /quiet/ { alias %%ROOT%%/; gzip_vary off; }
            location /both/ { alias %%ROOT%%/; gzip on; }
            location /off/ { alias %%ROOT%%/; gzip_static off; }
            location /page/ { error_page 404 /only.html; }
            location /pages/ { alias %%ROOT%%/; error_page 404 /f.txt; }
            location /unnamed/ { alias %%ROOT%%/; try_files /nothing $uri; }
        }
        "#),
    )
    .nginx(nginx)
    .file("f.html.gz", deflate(b"compressed beforehand"))
    .file("only.html.gz", deflate(b"there is no other"))
    .file("large.html.gz", deflate(&(0..100_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()))
    .in_prefix("html.gz", "beside the root")
    .file("raw.html", "raw")
    .file("raw.html.gz", "not compressed at all")
    .file("sub/index.html", "index")
    .file("sub/index.html.gz", deflate(b"index"))
    .dir("f.css.gz");
    let mut requests: Vec<String> = Vec::new();
    for path in
        ["/f.html", "/f.txt", "/f.css", "/only.html", "/large.html", "/raw.html", "/sub/", "/sub", "/none"]
    {
        for place in ["", "/always", "/quiet", "/both", "/off", "/pages"] {
            for coding in ["gzip", "br"] {
                requests.push(format!("GET {place}{path}\nAccept-Encoding: {coding}"));
            }
        }
    }
    for more in [
        "\nRange: bytes=0-9",
        "\nRange: bytes=99999-",
        "\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "\nVia: 1.1 x",
        "\nIf-None-Match: *",
    ] {
        requests.push(format!("GET /f.html\nAccept-Encoding: gzip{more}"));
        requests.push(format!("GET /always/f.html{more}"));
    }
    requests.push("HEAD /f.html\nAccept-Encoding: gzip".into());
    requests.push("POST /f.html\nAccept-Encoding: gzip\n\nx".into());
    requests.push("PUT /f.html\nAccept-Encoding: gzip\n\nx".into());
    requests.push("GET /page/x\nAccept-Encoding: gzip".into());
    requests.push("GET /unnamed/\nAccept-Encoding: gzip".into());
    requests.push("GET /f.html HTTP/1.0\nAccept-Encoding: gzip".into());
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
