//! Trailers: those of an upstream's response are passed on where the configuration says so, those of a request never.

use crate::http2::raw::{DATA, HEADERS, RESET, Raw, block, field, frame};
use tests::binary::Server;
use tests::client::Client;
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site};

const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";

fn origin() -> Origin {
    Origin::start(|asked| {
        let path = asked.target.split('?').next().unwrap_or_default();
        let (head, rest) = match path.rsplit('/').next().unwrap_or_default() {
            "none" => ("\r\n", "3\r\nabc\r\n0\r\n\r\n".to_owned()),
            "empty" => ("Trailer: A\r\n\r\n", "0\r\nA: b\r\n\r\n".to_owned()),
            "hidden" => ("\r\n", "3\r\nabc\r\n0\r\nServer: s\r\nX-Hidden: 1\r\nX-Seen: 2\r\n\r\n".to_owned()),
            "long" => ("\r\n", format!("20000\r\n{}\r\n0\r\nA: b\r\n\r\n", "x".repeat(0x20000))),
            _ => ("Trailer: A, C\r\n\r\n", "3\r\nabc\r\n0\r\nA: b\r\nC: d\r\nA: e\r\n\r\n".to_owned()),
        };
        raw(&format!("{HEAD}{head}{rest}"), After::Keep)
    })
}

fn site(origin: &Origin) -> Site {
    let configuration = "
        log_format trailers '$status $sent_trailer_a $upstream_trailer_a $upstream_trailer_x_hidden';
        access_log %%LOGS%%/access.log trailers;
        proxy_set_header TE trailers;
        proxy_set_header Connection te;
        server {
            listen 127.0.0.1:%%PORT%%;
            proxy_pass_trailers on;
            location / { proxy_pass http://127.0.0.1:ORIGIN; }
            location /streamed/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_buffering off; }
            location /off/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_pass_trailers off; }
            location /hides/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_hide_header X-Hidden; }
            location /shows/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_pass_header Server; }
            location /adds/ { proxy_pass http://127.0.0.1:ORIGIN; add_trailer X-Own $status; }
        }";
    Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()))
}

#[test]
fn as_nginx_passes_them_on() {
    let origin = origin();
    agree(
        &site(&origin),
        &[
            "GET /some",
            "GET /none",
            "GET /empty",
            "GET /long",
            "HEAD /some",
            "GET /some HTTP/1.0\r\n\r\n",
            "GET /streamed/some",
            "GET /streamed/empty",
            "GET /off/some",
            "GET /hidden",
            "GET /hides/hidden",
            "GET /shows/hidden",
            "GET /adds/some",
        ],
    );
}

#[test]
fn they_arrive_and_those_of_framing_do_not() {
    let origin = Origin::start(|_| {
        let rest =
            "0\r\nA: b\r\nContent-Length: 7\r\nTransfer-Encoding: x\r\nConnection: A\r\nUpgrade: x\r\n\r\n";
        raw(&format!("{HEAD}\r\n3\r\nabc\r\n{rest}"), After::Keep)
    });
    let running = site(&origin).start(Server::Fulmar);
    for path in ["/", "/streamed/"] {
        let answer = running.ask(&format!("GET {path}"));
        let response = answer.last();
        assert_eq!((response.text(), response.broken), ("abc".to_owned(), None));
        assert_eq!(response.trailers, [("A".to_owned(), "b".to_owned())]);
    }
    running.stop();
}

#[test]
fn mistakes() {
    agree_on_mistake(&Site::new("proxy_pass_trailers maybe;"));
}

/// Fields that would change a request if a head had them.
const FORGED: &str = "Host: forged\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\
                      X-Forwarded-For: forged\r\nCookie: forged\r\nX-Forged: forged\r\n";

/// An upstream that answers with the request as it arrived.
fn echo() -> Origin {
    Origin::start(|asked| ok(&asked.text))
}

fn echoing(origin: &Origin) -> Site {
    let configuration = "
        server {
            listen 127.0.0.1:%%PORT%%;
            http2 on;
            location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_set_header X-Seen \"$http_x_forged$http_cookie\"; }
            location /streamed/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_http_version 1.1;
                proxy_request_buffering off;
            }
            location /return { return 200 \"[$host|$http_x_forged|$http_cookie]\"; }
        }";
    Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()))
}

/// A request with these lines after its last chunk, and a request after it.
fn chunked(path: &str, trailers: &str) -> String {
    let next = "GET /return HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailers}\r\n{next}"
    )
}

#[test]
fn trailers_of_a_request_change_nothing_as_in_nginx() {
    let origin = echo();
    let requests = ["/", "/return"].map(|path| chunked(path, FORGED));
    agree(&echoing(&origin), &requests.each_ref().map(String::as_str));
}

#[test]
fn trailers_of_a_request_reach_no_upstream() {
    let origin = echo();
    let running = echoing(&origin).start(Server::Fulmar);
    for path in ["/", "/streamed/", "/return"] {
        let mut client = Client::connect(running.address());
        // The trailer section comes in two parts.
        let request = chunked(path, FORGED);
        let (start, rest) = request.split_at(request.find("X-Forged").unwrap());
        client.send(start.as_bytes());
        client.send(rest.as_bytes());
        let first = client.response("POST").unwrap();
        assert_eq!(first.status, 200);
        assert!(!first.text().contains("forged"), "{path}: {}", first.text());
        // What follows the trailer section is the next request.
        assert_eq!(client.response("GET").unwrap().text(), "[a||]", "{path}");
    }
    running.stop();
}

#[test]
fn a_trailer_section_of_a_request_is_bounded_and_checked() {
    let origin = echo();
    let running = echoing(&origin).start(Server::Fulmar);
    let long = format!("X-Long: {}\r\n", "x".repeat(16 * 1024));
    let many = "A: b\r\n".repeat(3000);
    for bad in
        [long.as_str(), &many, "A : b\r\n", " folded\r\n", "A: b\n", "A: b\0\r\n", "GET / HTTP/1.1\r\n"]
    {
        for path in ["/", "/return"] {
            let mut client = Client::connect(running.address());
            client.send(chunked(path, bad).as_bytes());
            let status = client.response("POST").unwrap().status;
            // A response that needs no body may leave before the section is there.
            assert!(status == 400 || path == "/return", "{path} {bad:.20}: {status}");
            assert!(client.response("GET").is_none(), "{path} {bad:.20}: nothing after it is a request");
        }
    }
    running.stop();
}

/// What HTTP/2 answers to a request with these fields in its trailers.
fn over_http2(running: &Running, path: &str, trailers: &[u8]) -> Result<String, u32> {
    let mut client = Raw::connect(running.address(), 1 << 20);
    let head = [block("POST", path), field("content-length", b"3")].concat();
    client.send(&frame(HEADERS, 4, 1, &head));
    client.send(&frame(DATA, 0, 1, b"abc"));
    client.send(&frame(HEADERS, 5, 1, trailers));
    let mut content = Vec::new();
    loop {
        let answer = client.find(|frame| frame.stream == 1 && matches!(frame.kind, DATA | HEADERS | RESET));
        match answer.kind {
            RESET => return Err(answer.number(0)),
            DATA => content.extend_from_slice(&answer.payload),
            _ => {}
        }
        if answer.ends() {
            return Ok(String::from_utf8(content).unwrap());
        }
    }
}

#[test]
fn trailers_of_a_request_over_http2_reach_no_upstream() {
    const PROTOCOL_ERROR: u32 = 1;
    let origin = echo();
    let running = echoing(&origin).start(Server::Fulmar);
    let forged = [
        field("content-length", b"40"),
        field("host", b"forged"),
        field("x-forwarded-for", b"forged"),
        field("cookie", b"forged"),
        field("x-forged", b"forged"),
    ];
    for path in ["/", "/streamed/"] {
        let text = over_http2(&running, path, &forged.concat()).unwrap();
        assert!(text.ends_with("\r\n\r\nabc") && text.contains("Content-Length: 3\r\n"), "{path}: {text}");
        assert!(!text.contains("forged"), "{path}: {text}");
        let lengths = text.to_ascii_lowercase().matches("content-length").count();
        assert_eq!(lengths, 1, "the length in the trailers is not passed on, {path}: {text}");
    }
    assert_eq!(over_http2(&running, "/", &field(":path", b"/forged")), Err(PROTOCOL_ERROR));
    running.stop();
}
