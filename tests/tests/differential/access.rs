//! `allow`, `deny`, `satisfy`, `limit_except` and `internal`.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn addresses() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /all { deny all; }
            location /none { allow all; }
            location /local { allow 127.0.0.0/8; deny all; }
            location /other { allow 10.0.0.0/8; allow 2001:db8::/32; deny all; }
            location /first { deny 127.0.0.1; allow all; }
            location /six { deny ::1; }
            location /host { allow 127.0.0.1; deny all; }
            location /unix { allow unix:; deny all; }
            location /nested/ {
                deny all;
                location /nested/open { allow all; }
                location /nested/closed { }
            }
            location /return { deny all; return 200 "return comes first"; }
            location /error { deny all; error_page 403 /all.html; }
            location /satisfy { satisfy any; deny all; }
            location /satisfyall { satisfy all; allow all; }
        }
        "#,
    )
    .file("all.html", "denied\n")
    .file("none", "x")
    .file("local", "x")
    .file("first", "x")
    .file("six", "x")
    .file("host", "x")
    .file("nested/open", "x")
    .file("nested/closed", "x")
    .file("satisfyall", "x");
    agree(
        &site,
        &[
            "GET /all",
            "GET /none",
            "GET /local",
            "GET /other",
            "GET /first",
            "GET /six",
            "GET /host",
            "GET /unix",
            "GET /nested/open",
            "GET /nested/closed",
            "GET /return",
            "GET /error",
            "GET /satisfy",
            "GET /satisfyall",
            "POST /all\n\nbody",
            "HEAD /all",
        ],
    );
}

#[test]
fn limit_except() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /get { limit_except GET { deny all; } }
            location /post { limit_except POST { deny all; } return 200 "post"; }
            location /several { limit_except POST PUT { deny all; } return 200 "several"; }
        }
        "#,
    )
    .file("get", "get\n");
    agree(
        &site,
        &[
            "GET /get",
            "HEAD /get",
            "POST /get\n\nx",
            "DELETE /get",
            "GET /post",
            "POST /post\n\nx",
            "GET /several",
            "PUT /several\n\nx",
        ],
    );
}
