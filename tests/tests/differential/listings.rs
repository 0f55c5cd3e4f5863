//! `autoindex`: listings of directories.

use tests::differential::agree;
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
