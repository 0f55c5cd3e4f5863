//! Content that is no file as it is: `empty_gif`, `random_index`.

use tests::binary::nginx_with;
use tests::differential::agree;
use tests::site::Site;

#[test]
fn empty_gif() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            location /g {
                empty_gif;
                expires 1h;
                location /g/inner { }
            }
            location /if {
                empty_gif;
                if ($arg_x) { add_header X-If yes; }
                if ($arg_y) { return 204; }
            }
            location /limited {
                empty_gif;
                limit_except GET { deny all; }
            }
            location /error { error_page 404 =200 /g; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /g",
            "GET /g/any?thing",
            "GET /g/ HTTP/1.0",
            "HEAD /g",
            "POST /g\n\nx",
            "DELETE /g",
            "GET /g\nIf-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT",
            "GET /g\nIf-Modified-Since: Mon, 28 Sep 1970 06:00:01 GMT",
            "GET /g\nIf-None-Match: \"x\"",
            "GET /g\nRange: bytes=0-5",
            "GET /g/inner",
            "GET /g/inner/",
            "GET /if?x=1",
            "GET /if?y=1",
            "GET /if",
            "GET /limited",
            "HEAD /limited",
            "POST /limited\n\nx",
            "GET /error",
        ],
    );
}

/// Of several that answer, the one of the inner level does, and of one level the last.
#[test]
fn one_content() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /gif-last { proxy_pass http://127.0.0.1:%%PORT_1%%; empty_gif; }
            location /gif-first { empty_gif; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /gif-around { empty_gif; if ($arg_x) { proxy_pass http://127.0.0.1:%%PORT_1%%; } }
            location /limited { empty_gif; limit_except GET { proxy_pass http://127.0.0.1:%%PORT_1%%; } }
            location /twice {
                empty_gif;
                if ($arg_x) { proxy_pass http://127.0.0.1:%%PORT_1%%; }
                if ($arg_y) { set $y 1; }
            }
            location /outer { proxy_pass http://127.0.0.1:%%PORT_1%%; location /outer/inner { empty_gif; } }
        }
        server { listen 127.0.0.1:%%PORT_1%%; return 200 "passed $uri"; }
        "#,
    );
    agree(
        &site,
        &[
            "GET /gif-last",
            "GET /gif-first",
            "GET /gif-around",
            "GET /gif-around?x=1",
            "GET /limited",
            "POST /limited\n\nx",
            "GET /outer",
            "GET /outer/inner",
            "GET /twice",
            "GET /twice?x=1",
            "GET /twice?y=1",
        ],
    );
}

#[test]
fn random_index() {
    let Some(nginx) = nginx_with(&["--with-http_random_index_module"]) else { return };
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location / {
                random_index on;
                location /off/ { random_index off; }
                location /inner/ { add_header X-Inner yes; }
            }
            location /alias/ {
                alias %%ROOT%%/one/;
                random_index on;
            }
            location /listed/ {
                random_index on;
                autoindex on;
            }
            location ~ \.cgi$ { return 200 "$uri $args\n"; }
        }
        "#,
    )
    .nginx(nginx)
    .file("one/a.txt", "only\n")
    .file("one/.hidden", "hidden\n")
    .file("one/sub/b.txt", "below\n")
    .link("one/link", "sub")
    .link("one/broken", "nowhere")
    .file("script/run.cgi", "")
    .file("indexed/sub/x", "")
    .file("indexed/.hidden", "")
    .file("off/index.html", "index\n")
    .file("off/other.html", "other\n")
    .file("inner/a.txt", "inner\n")
    .file("file", "x")
    .file("listed/sub/x", "")
    .dir("linked")
    .link("linked/link.txt", "../one/a.txt")
    .dir("empty");
    agree(
        &site,
        &[
            "GET /one/",
            "GET /one/?q=1",
            "HEAD /one/",
            "POST /one/\n\nx",
            "DELETE /one/",
            "GET /one",
            "GET /script/?q=1",
            "GET /indexed/",
            "GET /off/",
            "GET /inner/",
            "GET /empty/",
            "GET /none/",
            "GET /file/",
            "GET /alias/",
            "GET /linked/",
            "GET /one/\nRange: bytes=1-2",
        ],
    );
}
