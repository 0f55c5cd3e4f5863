//! Fields after the content of another server's response.

use tests::binary::Server;
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Origin, raw};
use tests::site::Site;

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
        log_format trailers '$status $sent_trailer_a';
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
