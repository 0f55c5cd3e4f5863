//! `access_log` and `log_format`: the lines of both servers, byte for byte.

use tests::binary::{Server, have_nginx};
use tests::differential::{agree, agree_on_mistake, agree_with_logs};
use tests::site::Site;

#[test]
fn combined() {
    let site = Site::new(
        r#"
        access_log %%LOGS%%/access.log;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /made { return 200 "made"; }
            location /closed { return 444; }
            location /error { return 500; }
        }
        "#,
    )
    .file("f.txt", "0123456789");
    agree(
        &site,
        &[
            "GET /f.txt",
            "HEAD /f.txt",
            "GET /f.txt HTTP/1.0",
            "GET /f.txt\nUser-Agent: agent \"quoted\" \\ back\nReferer: http://x/",
            "GET /f.txt\nUser-Agent: \u{e9}\u{1}",
            "GET /f.txt\nAuthorization: Basic dXNlciAieCI6cGFzcw==",
            "GET /f.txt\nRange: bytes=2-4",
            "GET /f.txt\nIf-None-Match: *",
            "GET /none?a=\"b\"",
            "GET /made?%20\\",
            "GET /closed",
            "GET /error",
            "POST /made\n\nbody",
            "GET /% HTTP/1.1\r\nHost: a\r\n\r\n",
            "garbage\r\n",
            "\x01\"\\\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /f.txt\r\n",
        ],
    );
}

#[test]
fn formats() {
    let site = Site::new(
        r#"
        log_format plain '$remote_addr|$remote_user|$request|$status|$body_bytes_sent|$http_x|$pipe|$connection_requests';
        log_format json escape=json '{"x":"$http_x","uri":"$uri","empty":"$http_none","length":$request_length}';
        log_format raw escape=none 'x=$http_x empty=$http_none';
        log_format parts "a" "b$uri" 'c';
        log_format unset escape=default '[$http_none][$arg_x][$sent_http_x_out][$sent_http_location][$host][$server_name]';
        log_format sent '$sent_http_content_type|$sent_http_content_length|$sent_http_etag';
        access_log %%LOGS%%/plain plain;
        access_log %%LOGS%%/json json;
        access_log %%LOGS%%/raw raw;
        access_log %%LOGS%%/parts parts;
        access_log %%LOGS%%/unset unset;
        access_log %%LOGS%%/sent sent;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name named;
            root %%ROOT%%;
            location /off { access_log off; return 200 x; }
            location /other { access_log %%LOGS%%/other parts; add_header X-Out out; return 200 x; }
            location /both { access_log %%LOGS%%/other plain; access_log %%LOGS%%/json json; return 200 x; }
            location /moved { return 301 /there; }
        }
        "#,
    )
    .file("f.txt", "0123456789");
    agree_with_logs(
        &site,
        &[
            "GET /f.txt\nX: simple\nConnection: close",
            "GET /f.txt?x=1\nX: \"quotes\" \\back\\ /slash\ttab\nConnection: close",
            "GET /f.txt\nX: caf\u{e9} \u{7f}\nConnection: close",
            "GET /%09%0a%22%5c%01%c3%a9%ff\nConnection: close",
            "GET /off\nConnection: close",
            "GET /other\nConnection: close",
            "GET /both\nX: b\nConnection: close",
            "GET /moved\nConnection: close",
            "GET /f.txt\nHost: NAMED\nConnection: close",
            "HEAD /f.txt\nConnection: close",
            "GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /moved HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
        &["plain", "json", "raw", "parts", "unset", "sent", "other"],
    );
}

#[test]
fn conditions_and_buffers() {
    let site = Site::new(
        r#"
        log_format uri '$uri';
        access_log %%LOGS%%/if uri if=$arg_log;
        access_log %%LOGS%%/buffered uri buffer=32k flush=1m;
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 x; }
        }
        "#,
    );
    agree_with_logs(
        &site,
        &[
            "GET /1?log=1\nConnection: close",
            "GET /2?log=0\nConnection: close",
            "GET /3?log=\nConnection: close",
            "GET /4\nConnection: close",
            "GET /5?log=yes\nConnection: close",
        ],
        &["if", "buffered"],
    );
}

/// Every byte that a path can have.
#[test]
fn escapes() {
    let site = Site::new(
        r#"
        log_format default escape=default '$uri|$arg_none';
        log_format json escape=json '"$uri"|$arg_none';
        log_format none escape=none '$uri|$arg_none';
        access_log %%LOGS%%/default default;
        access_log %%LOGS%%/json json;
        access_log %%LOGS%%/none none;
        server { listen 127.0.0.1:%%PORT%%; location / { return 200 x; } }
        "#,
    );
    let requests: Vec<String> =
        (1..=255).map(|byte| format!("GET /a%{byte:02X}b\nConnection: close")).collect();
    let cases: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_logs(&site, &cases, &["default", "json", "none"]);
}

/// What differs from one request to the next, by its shape.
#[test]
fn times_and_numbers() {
    let names = [
        "time_local",
        "time_iso8601",
        "msec",
        "request_time",
        "connection_time",
        "request_id",
        "connection",
        "bytes_sent",
        "pid",
        "hostname",
        "remote_port",
    ];
    let format: Vec<String> = names.iter().map(|name| format!("{name}=${name}")).collect();
    let site = Site::new(&format!(
        "log_format times '{}';
        access_log %%LOGS%%/times times;
        server {{ listen 127.0.0.1:%%PORT%%; location / {{ return 200 x; }} }}",
        format.join("|")
    ));
    if !have_nginx() {
        return;
    }
    let [nginx, fulmar] = [Server::Nginx, Server::Fulmar].map(|server| {
        let running = site.start(server);
        running.ask("GET /\nConnection: close");
        running.stop_and(|running| shape(&running.log("times")))
    });
    assert_eq!(nginx, fulmar);
    assert!(nginx.contains("|msec=0.000|request_time=0.000|"), "{nginx}");
}

/// Whole numbers become `0`, decimals and the digits of other words keep their count.
fn shape(text: &str) -> String {
    let digit = |c: char| c.is_ascii_digit();
    let field = |field: &str| {
        let (name, value) = field.split_once('=').unwrap_or_default();
        match name {
            "hostname" => field.to_owned(),
            "time_local" => format!("{name}={}", value.replace(|c: char| c.is_ascii_alphanumeric(), "0")),
            "request_id" => format!("{name}={}", value.replace(|c: char| c.is_ascii_hexdigit(), "0")),
            _ if value.split('.').all(|part| part.chars().all(digit)) => {
                let decimals = value.split_once('.').map_or(String::new(), |(_, part)| ".".to_owned() + part);
                format!("{name}=0{}", decimals.replace(digit, "0"))
            }
            _ => format!("{name}={}", value.replace(digit, "0")),
        }
    };
    text.trim_end().split('|').map(field).collect::<Vec<_>>().join("|")
}

#[test]
fn paths_with_variables() {
    let site = Site::new(
        r#"
        log_format uri '$uri';
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location / { access_log %%LOGS%%/per-$arg_name uri; return 200 x; }
            location /kept {
                open_log_file_cache max=2 inactive=1m valid=1m min_uses=2;
                access_log %%LOGS%%/per-$arg_name uri;
                access_log %%LOGS%%/again-$arg_name uri if=$arg_name;
                return 200 x;
            }
            location /rootless { root %%ROOT%%/none; access_log %%LOGS%%/per-$arg_name uri; return 200 x; }
            location /file { root %%ROOT%%/f.txt; access_log %%LOGS%%/per-$arg_name uri; return 200 x; }
            location /nowhere { access_log %%DIR%%/none/$arg_name uri; return 200 x; }
        }
        "#,
    )
    .file("f.txt", "x");
    let requests = [
        "/1?name=a",
        "/2?name=b",
        "/3?name=a",
        "/kept/1?name=a",
        "/kept/2?name=a",
        "/kept/3?name=a",
        "/kept/4?name=c",
        "/kept/5?name=b",
        "/kept/6?name=a",
        "/kept/7",
        "/rootless?name=a",
        "/file?name=a",
        "/nowhere?name=a",
    ]
    .map(|target| format!("GET {target}\nConnection: close"));
    let cases: Vec<&str> = requests.iter().map(String::as_str).collect();
    let logs = ["per-a", "per-b", "per-c", "per-", "again-a", "again-b", "error.log"];
    agree_with_logs(&site, &cases, &logs);
}

#[test]
fn requests_inside_of_the_server() {
    let site = Site::new(
        r#"
        log_format one '$uri|$request|$status|$body_bytes_sent|$pipe';
        access_log %%LOGS%%/one one;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /quiet { auth_request /inside; }
            location /told { auth_request /inside/told; }
            location /denied { auth_request /inside/denied; error_page 403 /page; }
            location /page { log_subrequest on; return 200 page; }
            location /inside { return 204; }
            location /inside/told { log_subrequest on; return 204; }
            location /inside/denied { log_subrequest on; access_log %%LOGS%%/denied one; deny all; }
        }
        "#,
    )
    .file("quiet", "x")
    .file("told", "xy");
    let cases = ["/quiet", "/told", "/denied"].map(|target| format!("GET {target}\nConnection: close"));
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    agree_with_logs(&site, &cases, &["one", "denied"]);
}

#[test]
fn mistakes() {
    for text in [
        "access_log off combined;",
        "access_log x none;",
        "access_log x combined nonsense;",
        "access_log x combined flush=1s;",
        "access_log x combined buffer=0;",
        "access_log x combined buffer=1k flush=0;",
        "access_log x combined gzip=0;",
        "access_log x combined gzip=10;",
        "access_log x combined gzip=;",
        "access_log x$uri combined gzip;",
        "access_log x combined buffer=1k; access_log x combined buffer=2k;",
        "access_log x combined buffer=1k; access_log x combined buffer=1k flush=1s;",
        "access_log x combined gzip; access_log x combined buffer=64k;",
        "access_log syslog:;",
        "access_log syslog:tag=a;",
        "access_log syslog:server=;",
        "access_log syslog:server=127.0.0.1:0;",
        "access_log syslog:server=127.0.0.1:x;",
        "access_log syslog:server=127.0.0.1,server=127.0.0.1;",
        "access_log syslog:server=127.0.0.1,facility=none;",
        "access_log syslog:server=127.0.0.1,facility=cron,facility=cron;",
        "access_log syslog:server=127.0.0.1,severity=err;",
        "access_log syslog:server=127.0.0.1,severity=info,severity=info;",
        "access_log syslog:server=127.0.0.1,tag=a-b;",
        "access_log syslog:server=127.0.0.1,tag=a,tag=b;",
        "access_log syslog:server=127.0.0.1,tag=abcdefghijklmnopqrstuvwxyz0123456;",
        "access_log syslog:server=127.0.0.1,nohostnames;",
        "access_log syslog:server=127.0.0.1 combined buffer=1k;",
        "error_log syslog:server=127.0.0.1,facility=none;",
        "error_log x loud;",
        "error_log x warn crit;",
        "error_log x debug_http warn;",
        "log_format x; server { }",
        "log_format x escape=xml x; server { }",
        "log_format combined x; server { }",
        "log_format x x; log_format x y; server { }",
        "log_format x '${uri'; server { }",
        "log_format x '$nobody'; server { }",
        "open_log_file_cache valid=1m;",
        "open_log_file_cache max=x;",
        "open_log_file_cache max=10 inactive=x;",
        "open_log_file_cache max=10 min_uses=-1;",
        "open_log_file_cache max=10; open_log_file_cache off;",
        "open_log_file_cache on;",
    ] {
        agree_on_mistake(&Site::new(text));
    }
}

/// Tools read these lines, such as those that lock out hosts.
#[test]
fn errors() {
    let site = Site::new(
        r#"
        client_max_body_size 10;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name named;
            root %%ROOT%%;
            location /denied { deny all; }
            location /loop { try_files /none /loop/again; }
            location /quiet { log_not_found off; }
            location /text { return 200 x; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            large_client_header_buffers 2 512;
            root %%ROOT%%;
        }
        "#,
    )
    .dir("dir")
    .file("file", "x");
    let long = "n".repeat(1000);
    let requests = [
        (0, "GET /none?a=\"b\"".to_owned()),
        (0, "GET /none\nReferer: http://a/".to_owned()),
        (0, "GET /file/x\nHost: other".to_owned()),
        (0, "GET /dir/".to_owned()),
        (0, "GET /denied HTTP/1.0".to_owned()),
        (0, "GET /loop".to_owned()),
        (0, "GET /quiet".to_owned()),
        (0, "GET /none/".to_owned()),
        (0, "POST /text\n\n01234567890".to_owned()),
        (0, "GET /text\nX_Y: a\"b\nx..y:z".to_owned()),
        (0, "GET /% HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned()),
        (0, "get / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n".to_owned()),
        (0, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_owned()),
        (
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
        ),
        (0, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned()),
        (0, "POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_owned()),
        (0, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (0, "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (1, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", &long[..230])),
        (1, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")),
    ];
    let cases: Vec<(usize, &str)> =
        requests.iter().map(|(port, request)| (*port, request.as_str())).collect();
    agree_with_logs(&site, &cases, &["error.log"]);
}

/// Of a head that breaks the rules what came before counts: whose it is, and what was asked for.
#[test]
fn what_is_known_of_a_broken_head() {
    let site = Site::new(
        r#"
        log_format known "$server_name $status $request_method $request_uri $uri $args $host $server_protocol";
        large_client_header_buffers 2 512;
        server { listen 127.0.0.1:%%PORT%%; server_name first; access_log %%LOGS%%/first.log known; return 200 first; }
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name named;
            access_log %%LOGS%%/named.log known;
            error_page 400 /page;
            location /page { return 200 "page of $server_name"; }
            location / { return 200 named; }
        }
        "#,
    );
    let long = "n".repeat(1000);
    let inputs = [
        format!("GET /t?x HTTP/1.1\r\nHost: named\r\nCookie: {long}\r\n\r\n"),
        format!("GET /t?x HTTP/1.1\r\nCookie: {long}\r\nHost: named\r\n\r\n"),
        format!("POST /a%20b HTTP/1.0\r\nHost: named\r\nX: y\r\nCookie: {long}\r\n\r\n"),
        "GET /t?x HTTP/1.1\r\nHost: named\r\nX Y: z\r\n\r\n".to_owned(),
        "GET /t?x HTTP/1.1\r\nHost: named\r\nHost: first\r\n\r\n".to_owned(),
        "GET /t?x HTTP/1.1\r\nHost: named\r\nContent-Length: x\r\n\r\n".to_owned(),
        "GET /t?x HTTP/1.1\r\nContent-Length: x\r\nHost: named\r\n\r\n".to_owned(),
        "GET /t?x HTTP/1.1\r\nHost: na med\r\n\r\n".to_owned(),
        "GET http://named/t?x HTTP/1.1\r\nHost: na med\r\n\r\n".to_owned(),
        "GET /t?x HTTP/1.1\r\n\r\n".to_owned(),
    ];
    agree_with_logs(
        &site,
        &inputs.iter().map(String::as_str).collect::<Vec<_>>(),
        &["first.log", "named.log"],
    );
}

/// What names no target has no URI.
#[test]
fn lines_that_are_no_requests() {
    let site = Site::new(
        r#"
        log_format line "$status [$uri] [$document_uri] [$request_uri] [$args] [$host] [$request]";
        server { listen 127.0.0.1:%%PORT%%; server_name first; access_log %%LOGS%%/line line; return 200; }
        "#,
    );
    let requests = [
        "nonsense\r\n\r\n",
        "get / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ];
    agree_with_logs(&site, &requests, &["line"]);
}
