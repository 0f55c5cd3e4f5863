//! `early_hints`: what other servers send ahead of their answer.

use tests::binary::Server;
use tests::differential::agree_with_logs;
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::site::Site;

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nX-Hint: yes\r\n\r\n";

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";

/// Answers with the hints that the last part of the path names.
fn answer(asked: &Asked) -> Reply {
    let path = asked.target.split('?').next().unwrap_or_default();
    let hints = match path.rsplit('/').next().unwrap_or_default() {
        "one" => HINT.to_owned(),
        "two" => HINT.repeat(2),
        "without-reason" => HINT.replace(" Early Hints", " "),
        "empty" => "HTTP/1.1 103 Early Hints\r\n\r\n".to_owned(),
        "hidden" => {
            "HTTP/1.1 103 Early Hints\r\nServer: a\r\nX-Pad: b\r\nX-Gone: c\r\nX-Accel-Expires: 5\r\n\
                     Set-Cookie: a=b\r\nLocation: /x\r\nContent-Type: text/css\r\n\r\n"
                .to_owned()
        }
        "other" => "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
                    HTTP/1.1 104 Upload\r\nX-Hint: yes\r\nX-Gone: c\r\n\r\n"
            .to_owned(),
        "only-hidden" => "HTTP/1.1 103 Early Hints\r\nX-Gone: c\r\n\r\n".to_owned(),
        "long" => HINT.replace("yes", &"x".repeat(800)),
        "too-long" => HINT.replace("yes", &"x".repeat(500)).repeat(2),
        "only" => return raw(HINT, After::Close),
        "old" => return raw(&format!("{}{ANSWER}", HINT.replace("1.1", "1.0")), After::Close),
        "error" => return raw(&format!("{HINT}HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), After::Close),
        _ => String::new(),
    };
    raw(&format!("{hints}{ANSWER}"), After::Keep)
}

fn site(origin: &Origin) -> Site {
    let configuration = r#"
        proxy_buffer_size 1k;
        proxy_hide_header X-Gone;
        upstream backend { server 127.0.0.1:ORIGIN; }
        server {
            listen 127.0.0.1:%%PORT%%;
            early_hints 1;
            proxy_buffers 4 1k;
            proxy_busy_buffers_size 2k;
            location / { proxy_pass http://backend; }
            location /off/ { early_hints 0; proxy_pass http://backend; }
            location /empty/ { early_hints ""; proxy_pass http://backend; }
            location /if/ { early_hints 0 $arg_hints ""; proxy_pass http://backend; }
            location /lines/ { early_hints 0; early_hints $arg_hints; proxy_pass http://backend; }
            location /next/ {
                proxy_pass http://next;
                proxy_next_upstream http_500;
                proxy_next_upstream_tries 2;
            }
            location /intercepted/ {
                proxy_pass http://backend;
                proxy_intercept_errors on;
                error_page 500 /one;
            }
            location /asked/ { auth_request /auth; proxy_pass http://backend; }
            location = /auth { internal; proxy_pass http://backend/one; }
            location /after/ { proxy_pass http://backend; post_action /one; }
        }
        upstream next { server 127.0.0.1:ORIGIN; server 127.0.0.1:ORIGIN; }
    "#;
    Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()))
}

#[test]
fn hints_come_ahead_of_the_answer() {
    let origin = Origin::start(answer);
    // Without the log: nginx counts interim responses as content.
    agree_with_logs(
        &site(&origin),
        &[
            "GET /one",
            "GET /two",
            "HEAD /one",
            "POST /one\n\nbody",
            "GET /without-reason",
            "GET /empty",
            "GET /hidden",
            "GET /only-hidden",
            "GET /long",
            "GET /too-long",
            "GET /one HTTP/1.0",
            "GET /one HTTP/1.0\nConnection: keep-alive",
            "POST /one\nExpect: 100-continue\n\nbody",
            "GET /only",
            "GET /old",
            "GET /next/error",
            "GET /intercepted/error",
            "GET /asked/one",
            "GET /asked/none",
            "GET /after/one",
        ],
        &[],
    );
}

/// nginx takes the first of them for the response.
#[test]
fn other_interim_responses_are_forwarded_as_hints_are() {
    let origin = Origin::start(answer);
    let running = site(&origin).start(Server::Fulmar);
    let statuses = |request: &str| running.ask(request).statuses();
    assert_eq!(statuses("GET /other"), [102, 104, 200]);
    assert_eq!(statuses("GET /off/other"), [200]);
    assert_eq!(statuses("GET /other HTTP/1.0"), [200]);
    let answer = running.ask("GET /other");
    let hint = &answer.responses[1];
    assert_eq!((hint.field("X-Hint"), hint.field("X-Gone")), (Some("yes"), None));
    running.stop();
}

#[test]
fn conditions() {
    let origin = Origin::start(answer);
    agree_with_logs(
        &site(&origin),
        &[
            "GET /off/one",
            "GET /empty/one",
            "GET /if/one",
            "GET /if/one?hints=0",
            "GET /if/one?hints=00",
            "GET /if/one?hints=1",
            "GET /lines/one",
            "GET /lines/one?hints=no",
        ],
        &[],
    );
}
