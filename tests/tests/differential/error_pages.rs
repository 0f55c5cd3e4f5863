//! `error_page`: what replaces a built-in page.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn forms() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            error_page 404 /404.html;
            error_page 500 502 503 504 /50x.html;
            error_page 410 =200 /gone.html;
            error_page 411 = /answer;
            error_page 412 http://example.com/elsewhere;
            error_page 417 =301 https://example.com/moved;
            error_page 415 =307 /relative;
            error_page 418 @teapot;
            error_page 403 =402 @teapot;
            error_page 405 =200 $uri.txt;
            error_page 406 /none.html;
            error_page 409 /chain;
            error_page 400 /400.html;
            error_page 451 /legal?why=$arg_why;
            error_page 401 /401.html;
            error_page 413 /413.html;
            location = /answer { return 201 "answer $status"; }
            location @teapot { return 299 "teapot $uri"; }
            location = /legal { return 200 "legal $args $uri $request_uri"; }
            location = /chain { return 503; }
            location /r404 { return 404; }
            location /r500 { return 500; }
            location /r503 { return 503; }
            location /r410 { return 410; }
            location /r411 { return 411; }
            location /r412 { return 412; }
            location /r417 { return 417; }
            location /r415 { return 415; }
            location /r418 { return 418; }
            location /r403 { return 403; }
            location /r405 { return 405; }
            location /r406 { return 406; }
            location /r409 { return 409; }
            location /r451 { return 451; }
            location /r401 { return 401; }
            location /text { return 404 "own text"; }
            location /own/ { error_page 404 =404 /own.html; }
            location = /own.html { internal; return 203 "own page"; }
            location /inherit/ { try_files $uri =404; }
            location /cleared/ { error_page 498 /x; }
            location /small { client_max_body_size 3; }
        }
        "#,
    )
    .file("404.html", "<p>not here\n")
    .file("50x.html", "<p>broken\n")
    .file("gone.html", "<p>gone\n")
    .file("400.html", "<p>bad\n")
    .file("401.html", "<p>who\n")
    .file("413.html", "<p>big\n")
    .file("r405.txt", "allowed\n")
    .file("small", "small\n");
    agree(
        &site,
        &[
            "GET /nowhere",
            "HEAD /nowhere",
            "POST /nowhere\n\nx",
            "GET /nowhere HTTP/1.0",
            "GET /nowhere\nIf-None-Match: *",
            "GET /nowhere\nRange: bytes=0-2",
            "GET /nowhere\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
            "GET /r404",
            "GET /r500",
            "GET /r503",
            "GET /r410",
            "GET /r411",
            "GET /r412",
            "GET /r417",
            "GET /r415",
            "GET /r418",
            "GET /r403",
            "GET /r405",
            "GET /r406",
            "GET /r409",
            "GET /r451?why=law",
            "GET /r401",
            "GET /text",
            "GET /own/x",
            "GET /inherit/x",
            "GET /cleared/x",
            "GET /404.html",
            "POST /404.html\n\nx",
            "POST /small\n\ntoo long",
            "GET /%",
            "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET /r500\nConnection: close",
        ],
    );
}

#[test]
fn recursion_and_inheritance() {
    let site = Site::new(
        r#"
        error_page 404 /outer404;
        server {
            listen 127.0.0.1:%%PORT%%;
            location = /outer404 { return 200 "outer"; }
            location /one { error_page 404 = /two; return 404; }
            location /two { error_page 403 = /three; return 403; }
            location /three { return 200 "three"; }
            location /inherits { return 404; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            recursive_error_pages on;
            error_page 403 =200 /server403;
            location = /server403 { return 200 "server403"; }
            location /one { error_page 404 = /two; return 404; }
            location /two { error_page 403 = /three; return 403; }
            location /three { return 200 "three"; }
            location /loop { error_page 404 /loop; return 404; }
            location /lost { return 404; }
        }
        "#,
    );
    agree(
        &site,
        &[
            (0, "GET /one"),
            (0, "GET /two"),
            (0, "GET /inherits"),
            (0, "GET /none"),
            (1, "GET /one"),
            (1, "GET /two"),
            (1, "GET /loop"),
            (1, "GET /lost"),
        ],
    );
}

#[test]
fn built_in_pages_and_their_fields() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            server_tokens off;
            add_header X-Always a always;
            add_header X-Ok b;
            root %%ROOT%%;
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            types { }
            default_type application/x;
            root %%ROOT%%;
            location /there { return 302 /here; }
        }
        "#,
    )
    .dir("dir");
    agree(
        &site,
        &[
            (0, "GET /none"),
            (0, "GET /dir/"),
            (0, "GET /dir"),
            (0, "GET /none HTTP/1.0"),
            (1, "GET /none"),
            (1, "GET /dir/"),
            (1, "GET /there"),
        ],
    );
}

/// What is passed on of a request's body to the server that makes the page, and which limits it meets.
#[test]
fn bodies() {
    let site = Site::new(
        r#"
        client_max_body_size 1k;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            error_page 502 503 = /page;
            location /dead { proxy_pass http://127.0.0.1:1; }
            location /unavailable { return 503; }
            location /named { error_page 503 @page; return 503; }
            location /big { client_max_body_size 1; error_page 413 =200 /page; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /kept { client_max_body_size 1; error_page 413 /text; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /narrow { client_max_body_size 0; error_page 403 /text; deny all; }
            location /page { proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location @page { proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /text { return 200 "text of $request_method"; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            return 200 "$request_method $uri length $http_content_length coding $http_transfer_encoding";
        }
        "#,
    );
    let long = "n".repeat(3000);
    let mut requests = Vec::new();
    for path in ["dead", "unavailable", "named", "big", "kept", "narrow"] {
        requests.push(format!("POST /{path}\nConnection: close\n\nabc"));
        requests.push(format!("HEAD /{path}\nConnection: close"));
        requests.push(format!(
            "PUT /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        ));
    }
    requests.push(format!("POST /narrow\nConnection: close\n\n{long}"));
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
