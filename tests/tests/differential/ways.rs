//! Requests that go through several locations: `error_page`, named and nested locations, `limit_except`, `try_files`,
//! `index` and `internal` together.

use tests::differential::{agree, agree_on_mistake, agree_with_logs};
use tests::site::Site;

#[test]
fn pages_of_errors_from_everywhere() {
    let site = Site::new(
        r#"
        map $arg_to $chosen { default /page.html; named @named; url http://example.com/$arg_x; none ""; bare bare; }
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            error_page 404 /page.html;
            location /chosen { error_page 404 $chosen; }
            location /changed { error_page 404 =203 $chosen; }
            location /answered { error_page 404 = $chosen; }
            location /query { error_page 404 /seen?a=$arg_a&b=c; }
            location /status { error_page 404 =204 @named; error_page 403 =200 @named; }
            location /zero { error_page 404 =0 @named; }
            location /two { error_page 404 @named; error_page 404 /page.html; }
            location /if {
                if ($arg_x) { error_page 404 =201 @named; }
                if ($arg_y) { error_page 404 /nowhere; }
            }
            location /method { error_page 405 =200 @method; }
            location /method.txt { error_page 405 =200 @method; }
            location /range.txt { error_page 416 =200 @named; }
            location /range2.txt { etag off; error_page 416 /page.html; }
            location /large { client_max_body_size 1; error_page 413 =200 @method; }
            location /dir/ { error_page 403 = @named; }
            location /moved { error_page 301 =200 @named; return 301 /x; }
            location /moved2 { error_page 302 /page.html; return 302 /x; }
            location /dirs { error_page 301 =200 @named; }
            location /cached { error_page 404 /expires.html; }
            location /expires.html { expires 1h; add_header X-A a; add_header X-B b always; }
            location /away { error_page 404 =308 https://example.com$request_uri; }
            location /strange { error_page 404 =299 https://example.com/; }
            location /relative { error_page 404 =302 elsewhere; }
            location /nested/ {
                error_page 404 @named;
                location /nested/own/ { error_page 404 /page.html; }
                location /nested/none/ { error_page 500 /page.html; }
                location ~ \.txt$ { error_page 404 = @other; }
            }
            location /denied { deny all; error_page 403 =200 @named; }
            location /secret { internal; error_page 404 =200 @named; }
            location /seen { return 200 "$uri $args $request_uri $status\n"; }
            location @named { return 200 "named $uri $args $status\n"; }
            location @other { error_page 404 =206 @named; return 404; }
            location @method { return 200 "$request_method $uri\n"; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            recursive_error_pages on;
            error_page 404 =200 @first;
            error_page 500 @last;
            location @first { error_page 403 = @second; return 403; }
            location @second { error_page 410 /page; try_files /none =410; }
            location @last { return 200 "last\n"; }
            location /page { return 500; }
            location /files { recursive_error_pages off; error_page 404 /gone; }
            location /gone { return 410; error_page 410 /page.html; }
            location /missing { error_page 404 @unknown; }
        }
        "#,
    )
    .file("page.html", "page\n")
    .file("method.txt", "method\n")
    .file("range.txt", "0123456789\n")
    .file("range2.txt", "0123456789\n")
    .file("expires.html", "expires\n")
    .file("dir/x", "x")
    .file("dirs/sub/x", "x");
    let paths = [
        "chosen",
        "chosen?to=named",
        "chosen?to=url&x=1",
        "chosen?to=none",
        "chosen?to=bare",
        "changed",
        "changed?to=named",
        "changed?to=url&x=1",
        "answered",
        "answered?to=named",
        "answered?to=url&x=1",
        "query?a=1",
        "query",
        "status",
        "zero",
        "two",
        "if",
        "if?x=1",
        "if?y=1",
        "if?x=1&y=1",
        "method",
        "dir/",
        "moved",
        "moved2",
        "dirs",
        "dirs/sub",
        "dirs/sub/",
        "cached",
        "away?q",
        "strange",
        "relative",
        "nested/x",
        "nested/own/x",
        "nested/none/x",
        "nested/x.txt",
        "denied",
        "secret",
        "none",
    ];
    let mut requests: Vec<(usize, String)> = Vec::new();
    for path in paths {
        requests.push((0, format!("GET /{path}")));
        requests.push((0, format!("HEAD /{path}")));
        requests.push((0, format!("POST /{path}\n\nbody")));
    }
    for request in [
        "DELETE /method.txt",
        "POST /method.txt\n\nx",
        "GET /range.txt\nRange: bytes=20-",
        "GET /range2.txt\nRange: bytes=20-",
        "POST /large\n\nlong",
        "GET /none HTTP/1.0",
        "GET /none\nIf-None-Match: *",
        "GET /none\nRange: bytes=0-1",
    ] {
        requests.push((0, request.to_owned()));
    }
    for path in ["x", "files", "missing", "page", "gone"] {
        requests.push((1, format!("GET /{path}")));
    }
    let requests: Vec<(usize, &str)> = requests.iter().map(|(port, text)| (*port, text.as_str())).collect();
    agree(&site, &requests);
}

#[test]
fn methods_that_are_limited() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /get/ { limit_except GET { deny all; } }
            location /post/ { limit_except POST { deny all; } return 200 "$request_method\n"; }
            location /both/ { limit_except GET POST { deny all; } error_page 403 =200 /both.html; }
            location /allowed/ { limit_except GET { allow 127.0.0.1; deny all; } return 200 "in\n"; }
            location /outer/ {
                limit_except GET { deny all; }
                location /outer/inner/ { return 200 "inner\n"; }
                location /outer/own/ { limit_except PUT { deny all; } return 200 "own\n"; }
            }
            location /passed/ {
                limit_except GET { proxy_pass http://127.0.0.1:%%PORT_1%%; }
                return 200 "not passed\n";
            }
            location /rewritten/ { rewrite ^ /get/a.txt last; }
            location /any/ { satisfy any; allow 127.0.0.2; limit_except GET { deny all; } deny all; }
            location = /both.html { internal; return 200 "page $request_method\n"; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            return 200 "$request_method $uri\n";
        }
        "#,
    )
    .file("get/a.txt", "a\n")
    .file("both/a.txt", "a\n");
    let mut requests = Vec::new();
    for path in
        ["get", "post", "both", "allowed", "outer", "outer/inner", "outer/own", "passed", "rewritten", "any"]
    {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let body = if matches!(method, "POST" | "PUT" | "PATCH") { "\n\nx" } else { "" };
            requests.push(format!("{method} /{path}/a.txt{body}"));
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&site, &requests);
}

#[test]
fn what_cannot_be_written() {
    for wrong in [
        "location / { limit_except { deny all; } }",
        "location / { limit_except FETCH { deny all; } }",
        "location / { limit_except TRACE { deny all; } }",
        "location / { limit_except GET { root /; } }",
        "error_page 404;",
        "error_page =200 /x;",
        "error_page 404 =x /x;",
        "error_page 299 /x;",
        "error_page 600 /x;",
        "recursive_error_pages yes;",
        "try_files /x;",
        "location / { location @a { } }",
        "location @a { location / { } }",
        "max_ranges x;",
        "etag maybe;",
        "if_modified_since later;",
        "default_type;",
        "server_tokens yes;",
        "location / { internal on; }",
        "satisfy some;",
        "expires never;",
        "add_header X;",
        "add_trailer X y z;",
        "add_header_inherit x;",
        "port_in_redirect 1;",
        "empty_gif;",
        "location / { empty_gif on; }",
    ] {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}")));
    }
}

#[test]
fn what_follows_a_response() {
    let site = Site::new(
        r#"
        log_format followed_by "$request_method $request_uri [$http_x_sent]";
        log_format followed "$request_uri $uri $args $status $body_bytes_sent $request_completion";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log %%LOGS%%/access.log followed;
            location /named { alias %%ROOT%%/file.txt; post_action @follow; }
            location /path { alias %%ROOT%%/file.txt; post_action /other.txt; }
            location /large { alias %%ROOT%%/large.txt; post_action @follow; sendfile on; }
            location /returned { return 200 "text\n"; post_action @follow; }
            location /error { post_action @follow; }
            location /paged { error_page 404 =200 /file.txt; post_action @follow; }
            location /missing { alias %%ROOT%%/file.txt; post_action /none; }
            location /denied { alias %%ROOT%%/file.txt; post_action /closed; }
            location /closed { deny all; }
            location /if { if ($arg_x) { post_action @follow; } return 200 "if\n"; }
            location /passed {
                proxy_pass http://127.0.0.1:%%PORT_1%%;
                post_action /told;
            }
            location /told {
                proxy_pass http://127.0.0.1:%%PORT_1%%;
                proxy_set_header X-Sent "$body_bytes_sent $request_completion";
            }
            location @follow { return 204; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log %%LOGS%%/told.log followed_by;
            return 201 "passed\n";
        }
        "#,
    )
    .file("file.txt", "file\n")
    .file("other.txt", "another file\n")
    .file("paged", "")
    .file("large.txt", "0123456789".repeat(20_000));
    let paths =
        ["named", "path", "large", "returned", "error", "missing", "denied", "if", "if?x=1", "passed"];
    let requests: Vec<String> =
        paths.iter().flat_map(|path| ["GET", "HEAD"].map(|method| format!("{method} /{path}"))).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_logs(&site, &requests, &["access.log", "told.log"]);
}
