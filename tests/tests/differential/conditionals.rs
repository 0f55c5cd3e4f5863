//! Validators and preconditions (RFC 9110, section 13): `etag`, `if_modified_since`.

use tests::differential::agree;
use tests::site::Site;

const EXACT: &str = "Tue, 02 Jan 2024 03:04:05 GMT";
const BEFORE: &str = "Tue, 02 Jan 2024 03:04:04 GMT";
const AFTER: &str = "Tue, 02 Jan 2024 03:04:06 GMT";

#[test]
fn preconditions() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            if_modified_since before;
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            root %%ROOT%%;
            if_modified_since off;
        }
        server {
            listen 127.0.0.1:%%PORT_3%%;
            root %%ROOT%%;
            etag off;
        }
        "#,
    )
    .file("f.txt", "0123456789")
    .file("empty", "");
    let preconditions = [
        "X: none".to_owned(),
        format!("If-Modified-Since: {EXACT}"),
        format!("If-Modified-Since: {BEFORE}"),
        format!("If-Modified-Since: {AFTER}"),
        "If-Modified-Since: rubbish".to_owned(),
        "If-Modified-Since: Tuesday, 02-Jan-24 03:04:05 GMT".to_owned(),
        "If-Modified-Since: Tue Jan  2 03:04:05 2024".to_owned(),
        "If-Modified-Since: Tue Jan 02 03:04:05 2024".to_owned(),
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:05".to_owned(),
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:05 +0200".to_owned(),
        "If-Modified-Since: Mon, 02 Jan 2024 03:04:05 GMT".to_owned(),
        "If-Modified-Since: Tuesday, 02-Jan-24 03:04:05".to_owned(),
        "If-Modified-Since: Tue, 02 jan 2024 03:04:05 GMT".to_owned(),
        "If-Modified-Since: 02 Jan 2024 03:04:05 GMT".to_owned(),
        "If-Modified-Since: Tue, 32 Jan 2024 03:04:05 GMT".to_owned(),
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:04".to_owned(),
        format!("If-Unmodified-Since: {EXACT}"),
        format!("If-Unmodified-Since: {BEFORE}"),
        format!("If-Unmodified-Since: {AFTER}"),
        "If-Unmodified-Since: rubbish".to_owned(),
        "If-None-Match: \"65937d25-a\"".to_owned(),
        "If-None-Match: W/\"65937d25-a\"".to_owned(),
        "If-None-Match: \"other\", \"65937d25-a\"".to_owned(),
        "If-None-Match: \"other\"  ,W/\"65937d25-a\"".to_owned(),
        "If-None-Match: \"other\"".to_owned(),
        "If-None-Match: 65937d25-a".to_owned(),
        "If-None-Match: *".to_owned(),
        "If-None-Match:".to_owned(),
        "If-Match: \"65937d25-a\"".to_owned(),
        "If-Match: W/\"65937d25-a\"".to_owned(),
        "If-Match: \"other\", \"65937d25-a\"".to_owned(),
        "If-Match: \"other\"".to_owned(),
        "If-Match: *".to_owned(),
        format!("If-None-Match: \"other\"\nIf-Modified-Since: {EXACT}"),
        format!("If-None-Match: \"65937d25-a\"\nIf-Modified-Since: {BEFORE}"),
        format!("If-Match: \"65937d25-a\"\nIf-Unmodified-Since: {BEFORE}"),
        "If-Match: \"other\"\nIf-None-Match: \"65937d25-a\"".to_owned(),
        "If-None-Match: \"x\"\nIf-None-Match: \"65937d25-a\"".to_owned(),
        format!("If-Modified-Since: {BEFORE}\nIf-Modified-Since: {EXACT}"),
    ];
    // With `Connection: close`, because nginx closes the connection after 412 without announcing it (see `differences`).
    let request = |field: &String| format!("GET /f.txt\n{field}\nConnection: close");
    let requests: Vec<String> = preconditions.iter().map(request).collect();
    let cases: Vec<(usize, &str)> =
        (0..4).flat_map(|port| requests.iter().map(move |request| (port, request.as_str()))).collect();
    agree(&site, &cases);
    agree(
        &site,
        &[
            "HEAD /f.txt\nIf-None-Match: \"65937d25-a\"",
            "HEAD /f.txt\nIf-Match: \"no\"\nConnection: close",
            "POST /f.txt\nIf-None-Match: \"65937d25-a\"\n\nx",
            "GET /none\nIf-None-Match: *",
            "GET /none\nIf-Match: \"x\"\nConnection: close",
            "GET /empty",
            "GET /empty\nIf-None-Match: \"65937d25-0\"",
            "GET /f.txt HTTP/1.0\nIf-None-Match: \"65937d25-a\"",
            "GET /f.txt HTTP/1.0\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        ],
    );
}
