//! Variables, as `return` shows them.

use tests::binary::Server;
use tests::differential::{agree, agree_over_http1, agree_with_logs};
use tests::site::Site;

#[test]
fn variables_of_the_server_that_a_configuration_may_set() {
    let site = Site::new(
        r#"
        map $arg_m $ssl_protocol { default mapped; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / {
                if ($arg_a) { set $proxy_host set; set $msie set; set $modern_browser set; }
                return 200 "$proxy_host|$proxy_port|$msie|$modern_browser|$ssl_protocol|$ssl_cipher\n";
            }
            location /proxied/ {
                if ($arg_a) { set $proxy_host set; }
                proxy_pass http://127.0.0.1:%%PORT_1%%;
                add_header X-Host $proxy_host:$proxy_port;
            }
        }
        server { listen 127.0.0.1:%%PORT_1%%; return 200 $http_host; }
        "#,
    );
    agree(
        &site,
        &[
            "GET /",
            "GET /?a=1",
            "GET /\nUser-Agent: Mozilla/4.0 (compatible; MSIE 6.0)",
            "GET /?a=1\nUser-Agent: Mozilla/4.0 (compatible; MSIE 6.0)",
        ],
    );
    let running = site.start(Server::Fulmar);
    let port = running.address_of(1).port();
    let host = |request: &str| {
        let answer = running.ask(request);
        (answer.last().text(), answer.last().field("X-Host").map(str::to_owned))
    };
    let own = format!("127.0.0.1:{port}");
    assert_eq!(host("GET /proxied/"), (own.clone(), Some(format!("{own}:{port}"))));
    assert_eq!(host("GET /proxied/?a=1"), (own, Some(format!("set:{port}"))), "the request's Host stays");
    running.stop();
}

#[test]
fn of_the_request() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /uri { return 200 "$uri|$document_uri|$request_uri|$args|$query_string|$is_args|$request"; }
            location /method { return 200 "$request_method|$scheme|$server_protocol|$https|$request_completion"; }
            location /host { return 200 "$host|$http_host|$server_name|$server_port|$server_addr|$hostname"; }
            location /peer { return 200 "$remote_addr|$remote_user|$pipe|$binary_remote_addr"; }
            location /file { return 200 "$request_filename|$document_root|$realpath_root"; }
            location /content { return 200 "$content_length|$content_type|$request_length|$status|$bytes_sent"; }
            location /args { return 200 "x=$arg_x y=$arg_y X=$arg_X long=$arg_long_name"; }
            location /fields { return 200 "$http_user_agent|$http_x_one|$http_cookie|$http_referer|$http_accept"; }
            location /cookies { return 200 "a=$cookie_a b=$cookie_b A=$cookie_A c-d=$cookie_c_d"; }
            location /alias/ { alias %%ROOT%%/other/; return 200 "$request_filename|$document_root"; }
            location /limit { return 200 "$limit_rate|$connection_requests|${uri}x|$uri-y"; }
            location /braces { return 200 "${arg_x}y$arg_xy"; }
        }
        "#,
    )
    .dir("other");
    agree(
        &site,
        &[
            "GET /uri",
            "GET /uri/%41%20b?a=%41&b",
            "GET /uri?",
            "POST /method\n\nx",
            "HEAD /method",
            "GET /method HTTP/1.0",
            "GET /host\nHost: LOCALHOST:1234",
            "GET /host HTTP/1.0",
            "GET http://other/host\nHost: other",
            "GET /peer",
            "GET /peer\nAuthorization: Basic dXNlcjpwYXNz",
            "GET /peer\nAuthorization: Basic ???",
            "GET /file/a/b",
            "GET /file/../file/x%20y",
            "POST /content\nContent-Type: text/x-y; a=b\n\n12345",
            "GET /content",
            "GET /args?x=1&y=2",
            "GET /args?X=1&x=2",
            "GET /args?xx=1&y=a=b&x=",
            "GET /args?y&x=1",
            "GET /args?long_name=%20%zz&long-name=2",
            "GET /args?a?x=1",
            "GET /fields\nUser-Agent: me\nX-One: 1\nX_One: 2\nx-one: 3\nReferer:   spaced  ",
            "GET /fields\nCookie: a=1\nCookie: b=2\nAccept: a\nAccept: b",
            "GET /cookies\nCookie: a=1; b=2",
            "GET /cookies\nCookie: a=1;b=2\nCookie: A=3",
            "GET /cookies\nCookie: ab=1; b = 2; a=\"q\"",
            "GET /cookies\nCookie: b",
            "GET /alias/file",
            "GET /limit",
            "GET /braces?x=1&xy=2",
        ],
    );
}

#[test]
fn of_the_response() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            add_header X-Type $sent_http_content_type always;
            add_header X-Length "$sent_http_content_length" always;
            add_header X-Modified $sent_http_last_modified;
            add_header X-Status $status always;
            add_header X-Location $sent_http_location always;
            add_header X-Connection $sent_http_connection always;
            add_header X-Own $sent_http_x_status always;
            location /moved { return 301 /there; }
            location /made { return 201 "made"; }
        }
        "#,
    )
    .file("a.html", "<p>\n");
    // `$sent_http_connection` differs over HTTP/2, as on kept connections.
    agree_over_http1(
        &site,
        &["GET /a.html", "GET /moved", "GET /made", "GET /none", "GET /a.html HTTP/1.0", "HEAD /a.html"],
    );
}

#[test]
fn across_a_connection() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            keepalive_requests 3;
            location / { return 200 "$connection_requests $request_length $uri\n"; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /22 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\nGET /4 HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.0\r\n\r\n",
        ],
    );
}

#[test]
fn what_the_kernel_knows_of_the_connection() {
    let site = Site::new(
        r#"
        map "$tcpinfo_rtt,$tcpinfo_rttvar,$tcpinfo_snd_cwnd,$tcpinfo_rcv_space" $are_numbers {
            default "no: $tcpinfo_rtt";
            "~^[0-9]+,[0-9]+,[1-9][0-9]*,[1-9][0-9]*$" "yes";
        }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 "$are_numbers"; }
        }
        "#,
    );
    agree(&site, &["GET /"]);
}

/// The dates that pages with `ssi` have, in the form that they have where none asks for another.
#[test]
fn dates() {
    let site = Site::new(
        r#"
        map "$date_gmt/$date_local" $are_dates {
            default "no: $date_gmt/$date_local";
            "~^([A-Z][a-z]+day, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} [A-Z]+/?){2}$" "yes";
        }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 "$are_dates"; }
        }
        "#,
    );
    agree(&site, &["GET /"]);
}

#[test]
fn of_the_whole_tree() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root /;
            location / { return 200 "[$document_root][$document_root$uri][$request_filename][$realpath_root]"; }
            location /variable/ { root /$arg_x; return 200 "[$document_root][$request_filename]"; }
            location /alias/ { alias /; return 200 "[$document_root][$request_filename]"; }
        }
        "#,
    );
    agree(&site, &["GET /", "GET /a/b", "GET /variable/b?x=a", "GET /alias/b"]);
}

/// What is logged of an error's page is what was sent with it.
#[test]
fn of_an_error_page_in_the_log() {
    let site = Site::new(
        r#"
        log_format sent "$status [$sent_http_last_modified] [$sent_http_etag] [$sent_http_content_type]";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log %%LOGS%%/sent.log sent;
            location /as_it_is { error_page 404 /page.html; }
            location /as_200 { error_page 404 =200 /page.html; }
            location = /followed { alias %%ROOT%%/page.html; post_action /after; }
            location = /after { return 204; }
        }
        "#,
    )
    .file("page.html", "a page");
    let requests = [
        "GET /as_it_is",
        "GET /as_200",
        "GET /page.html",
        "GET /page.html\nIf-None-Match: *",
        "GET /followed",
    ];
    agree_with_logs(&site, &requests, &["sent.log"]);
}

/// Until the head is sent, the page still has the date of its file.
#[test]
fn of_an_error_page_in_a_field() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log off;
            error_page 404 /page.html;
            add_header X-Modified "[$sent_http_last_modified]" always;
        }
        "#,
    )
    .file("page.html", "a page");
    agree(&site, &["GET /none", "GET /page.html"]);
}

#[test]
fn of_a_root_that_is_not_there() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%/none;
            location / { return 200 "[$realpath_root]"; }
        }
        "#,
    );
    agree_with_logs(&site, &["GET /"], &["error.log"]);
}
