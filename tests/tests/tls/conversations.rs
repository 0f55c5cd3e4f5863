//! What clients say over TLS beyond one short request: several requests, long bodies, early ends, sessions that
//! are taken up again. Whatever nginx answers is right.

use rustls::version::{TLS12, TLS13};
use tests::binary::{Server, have_nginx};
use tests::tls::{Client, Ending, Kind};

use super::{compare, made};

const SERVERS: &str = r#"
    client_max_body_size 10m;
    lingering_timeout 300ms;
    server {
        listen %%PORT%% ssl;
        server_name a.example;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        root %%ROOT%%;
        location = /session { return 200 "$https|$ssl_protocol|$ssl_cipher|$ssl_server_name|$ssl_session_reused|$connection_requests\n"; }
        location /text { return 200 "$request_method $scheme $uri\n"; }
        location /once { keepalive_requests 1; return 200 once; }
        location /off { keepalive_timeout 0; return 200 off; }
        location /nothing { return 204; }
        location /moved { return 301 /elsewhere; }
        location /closed { return 444; }
        location /denied { deny all; }
        location /small { client_max_body_size 10; return 200 small; }
        location /up { proxy_pass http://127.0.0.1:%%PORT_1%%; proxy_set_header X-Scheme $scheme; }
        location /streamed { proxy_buffering off; proxy_pass http://127.0.0.1:%%PORT_1%%; }
        location /gzip { gzip on; gzip_min_length 1; gzip_types *; alias %%ROOT%%/; }
    }
    server {
        listen 127.0.0.1:%%PORT_1%%;
        root %%ROOT%%;
        location /up/echo { return 200 "$content_length $http_x_scheme\n"; }
        location /up/big { alias %%ROOT%%/big; }
        location /streamed/big { alias %%ROOT%%/big; }
    }
"#;

const LAST: &str = "GET /text/last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

fn post(path: &str, length: usize) -> String {
    let body = "0123456789abcdef".repeat(length.div_ceil(16));
    let head = format!("POST {path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n");
    head + &body[..length]
}

/// What is said, and how the client ends.
fn conversations() -> Vec<(String, Ending)> {
    use Ending::{Breaks, SaysGoodbye, Waits};
    let chunks: String = (0..200).map(|n| format!("{:x};n={n}\r\n{}\r\n", 500, "c".repeat(500))).collect();
    let chunked = "HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        // Several requests, some at once.
        (get("/text").repeat(30) + LAST, Waits),
        (get("/index.html") + &get("/missing") + &get("/nothing") + &get("/moved") + LAST, Waits),
        (get("/session") + &get("/session") + LAST, Waits),
        (get("/big") + &get("/index.html") + LAST, Waits),
        (format!("HEAD /big HTTP/1.1\r\nHost: a.example\r\n\r\n{LAST}"), Waits),
        (get("/once") + LAST, Waits),
        (get("/off") + LAST, Waits),
        (get("/closed") + LAST, Waits),
        (get("/denied") + LAST, Waits),
        ("GET /text HTTP/1.0\r\n\r\n".to_owned(), Waits),
        (format!("GET /text HTTP/1.0\r\nConnection: keep-alive\r\n\r\n{LAST}"), Waits),
        (format!("GET /big HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-9,100-70000\r\n\r\n{LAST}"), Waits),
        (
            format!(
                "GET /gzip/index.html HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n{LAST}"
            ),
            Waits,
        ),
        // Bodies.
        (post("/text", 5) + LAST, Waits),
        (post("/text", 200_000) + LAST, Waits),
        (post("/up/echo", 2_000_000) + LAST, Waits),
        (post("/small", 11) + LAST, Waits),
        (format!("POST /up/echo {chunked}{chunks}0\r\n\r\n{LAST}"), Waits),
        (format!("POST /text {chunked}{chunks}0\r\nTrailer: x\r\n\r\n{LAST}"), Waits),
        (
            format!(
                "POST /text HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc{LAST}"
            ),
            Waits,
        ),
        // Other servers behind.
        (get("/up/big") + LAST, Waits),
        (get("/streamed/big") + LAST, Waits),
        // What is no request.
        ("GARBAGE\r\n\r\n".to_owned(), Waits),
        ("GET /text HTTP/1.1\r\n\r\n".to_owned(), Waits),
        (get("/%") + LAST, Waits),
        (get("/text") + "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Waits),
        (format!("GET /text HTTP/1.1\r\nHost: a.example\r\nX: {}\r\n\r\n", "x".repeat(40_000)), Waits),
        (format!("GET /{} HTTP/1.1\r\nHost: a.example\r\n\r\n", "x".repeat(40_000)), Waits),
        (format!("POST /up/echo {chunked}zz\r\n"), Waits),
        // Clients that end early.
        (get("/text"), SaysGoodbye),
        (get("/text").repeat(3), SaysGoodbye),
        (get("/index.html"), SaysGoodbye),
        (get("/text"), Breaks),
        (LAST.to_owned(), Breaks),
        (LAST.to_owned(), SaysGoodbye),
        ("GET /te".to_owned(), SaysGoodbye),
        ("GET /te".to_owned(), Breaks),
        (String::new(), SaysGoodbye),
        (String::new(), Breaks),
        (post("/up/echo", 100)[..120].to_owned(), SaysGoodbye),
        (post("/up/echo", 100)[..120].to_owned(), Breaks),
    ]
}

#[test]
fn agree_with_nginx() {
    if !have_nginx() {
        return;
    }
    let made = made(SERVERS);
    let (nginx, fulmar) = (made.site.start(Server::Nginx), made.site.start(Server::Fulmar));
    let conversations = conversations();
    let mut wrong = Vec::new();
    for version in [&TLS12, &TLS13] {
        // One client for each server: the first connection is new, later ones take its session up again.
        let clients = [(); 2].map(|()| Client::with(Some("a.example"), &[version], Kind::Ecdsa));
        for (said, ending) in &conversations {
            let mut theirs = clients[0].converse(nginx.address(), said.as_bytes(), *ending).unwrap();
            let own = clients[1].converse(fulmar.address(), said.as_bytes(), *ending).unwrap();
            if *ending != Ending::Waits {
                // To a client that has ended its side nginx says no goodbye.
                theirs.said_goodbye = own.said_goodbye;
            }
            let mut found = compare((&nginx, &theirs), (&fulmar, &own));
            if theirs.resumed != own.resumed {
                found += &format!("resumed: {}, not {}\n", own.resumed, theirs.resumed);
            }
            if !found.is_empty() {
                let shown: String = said.escape_debug().take(120).collect();
                let statuses = [&theirs, &own].map(|spoken| spoken.answer.statuses());
                wrong.push(format!("{version:?} {ending:?} {statuses:?}: {shown}\n{found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong\n{}", wrong.len(), 2 * conversations.len(), wrong.join("\n"));
    nginx.stop();
    fulmar.stop();
}
