//! `autoindex`: listings of directories.

use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

#[test]
fn html() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            autoindex on;
            location /off/ { autoindex off; }
            location /exact/ { autoindex_exact_size off; }
            location /alias/ { alias %%ROOT%%/list/; }
        }
        "#,
    )
    .file("list/b.txt", "bb")
    .file("list/a.txt", "a")
    .file("list/with space", "x")
    .file("list/<script>&\"'", "x")
    .file("list/per%cent?#;+", "x")
    .file("list/.hidden", "x")
    .file("list/ünïcode", "x")
    .file(&format!("list/{}", "long".repeat(20)), "x")
    .file("list/colon:name", "x")
    .file("off/x", "x")
    .file("index/index.html", "the index\n")
    .file("exact/small", "x")
    .file("exact/kilo", "x".repeat(1500))
    .file("exact/exactly", "x".repeat(1024))
    .file("exact/tenkilo", "x".repeat(10_300))
    .file("exact/mega", "x".repeat(1_600_000))
    .dir("empty")
    .link("list/zlink", "a.txt")
    .link("list/broken", "nowhere");
    agree(
        &site,
        &[
            "GET /list/",
            "GET /list/?C=N&O=D",
            "HEAD /list/",
            "GET /list",
            "GET /off/",
            "GET /index/",
            "GET /exact/",
            "GET /alias/",
            "GET /none/",
            "GET /empty/",
            "POST /empty/\n\nx",
            "GET /empty/ HTTP/1.0",
        ],
    );
}

#[test]
fn formats_for_programs() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            autoindex on;
            location /json/ { alias %%ROOT%%/list/; autoindex_format json; }
            location /jsonp/ { alias %%ROOT%%/list/; autoindex_format jsonp; }
            location /xml/ { alias %%ROOT%%/list/; autoindex_format xml; }
            location /html/ { alias %%ROOT%%/list/; autoindex_format html; autoindex_localtime on; }
            location /exact/ {
                autoindex_format json;
                autoindex_exact_size off;
                location /exact/xml/ { autoindex_format xml; }
            }
            location /empty/ { autoindex_format json; }
            location /emptyxml/ { alias %%ROOT%%/empty/; autoindex_format xml; }
            location /emptyjsonp/ { alias %%ROOT%%/empty/; autoindex_format jsonp; }
        }
        "#,
    )
    .file("list/b.txt", "bb")
    .file("list/a.txt", "a")
    .file("list/with space", "x")
    .file("list/<script>&\"'", "x")
    .file("list/back\\slash", "x")
    .file("list/tab\tand\u{1}", "x")
    .file("list/per%cent?#;+", "x")
    .file("list/.hidden", "x")
    .file("list/ünïcode", "x")
    .file(&format!("list/{}", "long".repeat(20)), "x")
    .file("list/sub/x", "x")
    .file("exact/kilo", "x".repeat(15_000))
    .file("exact/xml/kilo", "x".repeat(15_000))
    .dir("empty")
    .link("list/zlink", "a.txt")
    .link("list/zdir", "sub")
    .link("list/broken", "nowhere");
    let callbacks =
        ["", "?callback=x", "?callback=a.b_1", "?callback=", "?callback=a(b", "?CALLBACK=x&callback=y"];
    let mut requests: Vec<String> = ["/json/", "/xml/", "/html/", "/exact/", "/exact/xml/"]
        .iter()
        .flat_map(|path| [format!("GET {path}"), format!("HEAD {path}"), format!("GET {path} HTTP/1.0")])
        .collect();
    requests.extend(callbacks.map(|query| format!("GET /jsonp/{query}")));
    requests.push(format!("GET /jsonp/?callback={}", "x".repeat(128)));
    requests.push(format!("GET /jsonp/?callback={}", "x".repeat(129)));
    requests.extend(["/empty/", "/emptyxml/", "/emptyjsonp/?callback=x"].map(|path| format!("GET {path}")));
    requests.push("GET /json/\nRange: bytes=0-3".to_owned());
    requests.push("GET /json/?x\nIf-None-Match: *".to_owned());
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&site, &requests);
}

#[test]
fn what_cannot_be_written() {
    for wrong in ["autoindex_format text;", "autoindex maybe;", "autoindex on; autoindex off;"] {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}")));
    }
}

#[test]
fn names_in_utf8() {
    let site = Site::new(
        r#"
        map $arg_c $chosen { default koi8-r; utf8 UTF-8; }
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            autoindex on;
            location /utf8/ { alias %%ROOT%%/list/; charset utf-8; }
            location /chosen/ { alias %%ROOT%%/list/; charset $chosen; }
            location /off/ { alias %%ROOT%%/list/; charset off; }
        }
        "#,
    );
    let lengths = [1, 10, 24, 25, 26, 46, 47, 48, 49, 50, 51, 60];
    let site = lengths.iter().fold(site, |site, &count| {
        site.file(&format!("list/{}", "й".repeat(count)), "x")
            .file(&format!("list/a{}", "&".repeat(count)), "x")
            .file(&format!("list/{}<é", "z".repeat(count)), "x")
            .dir(&format!("list/d{}", "ö".repeat(count)))
    });
    agree(&site, &["GET /utf8/", "GET /chosen/", "GET /chosen/?c=utf8", "GET /off/", "HEAD /utf8/"]);
}
