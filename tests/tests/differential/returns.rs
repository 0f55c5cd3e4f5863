//! `return`: codes, texts and redirects.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn codes() {
    let codes = [
        200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 309, 399, 400, 401, 402,
        403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 416, 418, 421, 422, 426, 428, 429, 431,
        451, 495, 496, 497, 499, 500, 501, 502, 503, 504, 505, 507, 599, 600, 999,
    ];
    let locations: String = codes
        .iter()
        .map(|code| {
            format!("location = /{code} {{ return {code}; }} location = /{code}t {{ return {code} text; }}\n")
        })
        .collect();
    let site =
        Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; server_name localhost;\n{locations} }}"));
    let requests: Vec<String> =
        codes.iter().flat_map(|code| [format!("GET /{code}"), format!("GET /{code}t")]).collect();
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn texts() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            location /plain { return 200 plain; }
            location /empty { return 200 ""; }
            location /nothing { return 200; }
            location /variable { return 200 "$arg_x"; }
            location /escapes { return 200 "tab\tline\nquote\"single'back\\slash\x$arg_x"; }
            location /single { return 200 'single "double" $uri'; }
            location /json { default_type application/json; return 200 '{"uri":"$uri"}'; }
            location /html { default_type text/html; return 200 "<b>"; }
            location /untyped { default_type ""; return 200 "none"; }
            location /typed.html { return 200 "from the extension"; }
            location /closed { return 444; }
            location /text { return "http://example.com/"; }
            location /multi { return 200 "first
second"; }
            location /first { return 201 one; return 202 two; }
            location /none { return 404 "own text"; }
            location /error { return 500 ""; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /plain",
            "HEAD /plain",
            "GET /plain HTTP/1.0",
            "GET /empty",
            "GET /nothing",
            "HEAD /nothing",
            "GET /variable",
            "GET /variable?x=%41b",
            "GET /escapes?x=y",
            "GET /single",
            "GET /json",
            "GET /html",
            "GET /untyped",
            "GET /typed.html",
            "GET /closed",
            "GET /text",
            "GET /multi",
            "GET /first",
            "GET /none",
            "GET /error",
            "GET /elsewhere",
            "POST /plain\n\nbody",
            "DELETE /plain",
            "OPTIONS /plain",
            "PROPFIND /plain",
            "GET /plain\nRange: bytes=0-1",
            "GET /plain\nIf-None-Match: *",
            "GET /plain\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        ],
    );
}

#[test]
fn redirects() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name www.example.com alias.example.com;
            location /absolute { return 301 http://other.example/x?y; }
            location /scheme { return 302 https://$host$request_uri; }
            location /relative { return 303 /there; }
            location /bare { return 302 there; }
            location /double { return 302 //host/path; }
            location /empty { return 302 ""; }
            location /variable { return 307 $arg_to; }
            location /decoded { return 308 $uri; }
            location /query { return 301 /there$is_args$args; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            server_name www.example.com;
            root %%ROOT%%;
            location /relative { return 301 /there; }
            location /noport { port_in_redirect off; return 301 /there; }
            location /noport/dir { port_in_redirect off; }
            location /named { server_name_in_redirect on; return 301 /there; }
            location /named/dir { server_name_in_redirect on; }
            location /local { absolute_redirect off; return 301 /there; }
            location /local/dir { absolute_redirect off; }
            location /proxied/ { absolute_redirect off; try_files $uri $uri/ =404; }
        }
        "#,
    )
    .file("dir/x", "")
    .file("noport/dir/x", "")
    .file("named/dir/x", "")
    .file("local/dir/x", "")
    .file("we ird%d?r/x", "");
    agree(
        &site,
        &[
            (0, "GET /absolute"),
            (0, "GET /scheme?q\nHost: a:99"),
            (0, "GET /relative"),
            (0, "GET /relative\nHost: WWW.example.com:99"),
            (0, "GET /relative HTTP/1.0"),
            (0, "GET /bare"),
            (0, "GET /double"),
            (0, "GET /empty"),
            (0, "GET /variable?to=/x"),
            (0, "GET /variable?to=http://a/"),
            (0, "GET /variable"),
            (0, "GET /decoded%20x"),
            (0, "GET /query?a=b"),
            (0, "GET /query"),
            (0, "HEAD /relative"),
            (1, "GET /relative\nHost: a"),
            (1, "GET /dir\nHost: a:1"),
            (1, "GET /dir?x=y\nHost: a"),
            (1, "GET /dir HTTP/1.0"),
            (1, "GET /noport\nHost: a"),
            (1, "GET /noport/dir\nHost: a"),
            (1, "GET /named\nHost: a"),
            (1, "GET /named/dir\nHost: a"),
            (1, "GET /local\nHost: a"),
            (1, "GET /local/dir\nHost: a"),
            (1, "GET /we%20ird%25d%3Fr\nHost: a"),
            (1, "GET /we%20ird%25d%3Fr?q=%20\nHost: a"),
            (1, "GET http://target/dir\nHost: a"),
        ],
    );
}

#[test]
fn pages_that_lead_on() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            msie_refresh on;
            location /moved { return 301 /to; }
            location /found { return 302 "http://example.com/a b'c\"d"; }
            location /other { return 303 /to; }
            location /kept { return 307 /to; }
            location /rewritten { rewrite ^ /to? redirect; }
            location /page { error_page 404 http://example.com/; }
            location /page308 { error_page 404 =308 http://example.com/; }
            location /error { return 301; error_page 301 text; }
            location /off { msie_refresh off; return 301 /to; }
        }
        "#,
    )
    .file("dir/x", "x");
    let mut requests = Vec::new();
    for path in [
        "moved",
        "found",
        "other",
        "kept",
        "rewritten",
        "page",
        "page308",
        "error",
        "off",
        "dir",
        "dir?q",
        "none",
    ] {
        for agent in
            ["Mozilla/4.0 (compatible; MSIE 6.0; Windows)", "MSIE 6.", "MSIE foo", "MSIE 7.0 Opera", "curl"]
        {
            requests.push(format!("GET /{path}\nUser-Agent: {agent}"));
        }
        requests.push(format!("HEAD /{path}\nUser-Agent: MSIE 9.0"));
    }
    // Pages of errors are padded by nginx, and not here.
    requests.retain(|request| !request.contains("/none") || !request.contains("MSIE"));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&site, &requests);
}
