//! What an application is sent.

use tests::application::{Application, Language, Request};
use tests::binary::{Server, have_nginx};
use tests::site::Site;

fn fine(language: Language) -> Application {
    Application::speaking(language, |_, stream| stream.write_all(b"\r\nfine").is_err())
}

/// What applications get of these requests, sent by each server.
fn sent(site: &Site, application: &Application, requests: &[&str]) -> Vec<Vec<Request>> {
    let servers = if have_nginx() { &[Server::Fulmar, Server::Nginx][..] } else { &[Server::Fulmar] };
    let all = servers.iter().map(|server| {
        let running = site.start(*server);
        let before = application.requests().len();
        for request in requests {
            let answer = running.ask(request);
            assert_eq!((answer.last().status, answer.last().text()), (200, "fine".to_owned()), "{request}");
        }
        running.stop();
        let mut got = application.requests().split_off(before);
        // Each server asks with its port of the client's, and in its order of fields.
        got.iter_mut().for_each(|request| request.names.sort());
        got
    });
    all.collect()
}

const REQUESTS: [&str; 6] = [
    "GET /a?b=c\nX-Id: one\nX-Id: two\nCookie: a=b\nCookie: c=d\nX-Dropped: x\nX-Lower: y",
    "POST /\n\nbody",
    "POST /streamed/\n\nbody",
    "GET /bare/\nX-Id: one",
    "GET /bodiless/",
    "GET /set/\nHost: other.example:81",
];

fn configuration(language: Language, application: &Application, more: &str) -> Site {
    Site::new(&format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            {name}_param PATH_INFO $uri;
            {name}_param EMPTY $arg_none;
            {name}_param LEFT_OUT $arg_none if_not_empty;
            {name}_param HTTP_X_DROPPED \"\";
            {name}_param HTTP_X_LOWER own;
            {more}
            location / {{ {pass} }}
            location /streamed/ {{ {name}_request_buffering off; {pass} }}
            location /bare/ {{ {name}_pass_request_headers off; {pass} }}
            location /bodiless/ {{ {name}_pass_request_body off; {pass} }}
            location /set/ {{ {name}_param HTTP_HOST $http_host; {pass} }}
            location = /is-it-kept {{ return 204; }}
        }}",
        name = language.name(),
        pass = language.pass(application.address())
    ))
}

#[test]
fn scgi_parameters_and_bodies() {
    let application = fine(Language::Scgi);
    let all =
        sent(&configuration(Language::Scgi, &application, "scgi_param SCGI 1;"), &application, &REQUESTS);
    let fulmar = &all[0];
    assert_eq!(fulmar[0].param("HTTP_X_ID"), "one, two");
    assert_eq!(fulmar[0].param("HTTP_COOKIE"), "a=b; c=d");
    assert_eq!((fulmar[0].param("SCGI"), fulmar[0].param("CONTENT_LENGTH")), ("1", "0"));
    assert_eq!((fulmar[0].param("EMPTY"), fulmar[0].params.contains_key("LEFT_OUT")), ("", false));
    assert_eq!(
        (fulmar[0].param("HTTP_X_LOWER"), fulmar[0].params.contains_key("HTTP_X_DROPPED")),
        ("own", false)
    );
    assert_eq!((fulmar[1].param("CONTENT_LENGTH"), &*fulmar[1].body), ("4", &b"body"[..]));
    assert_eq!((fulmar[2].param("CONTENT_LENGTH"), &*fulmar[2].body), ("4", &b"body"[..]));
    all.iter().for_each(|got| assert_eq!(got, fulmar));
}

#[test]
fn uwsgi_parameters_bodies_and_modifiers() {
    for language in [Language::Uwsgi, Language::UwsgiOverTls] {
        let application = fine(language);
        let more = "uwsgi_param CONTENT_LENGTH $content_length; uwsgi_modifier1 5; uwsgi_modifier2 255; \
                    uwsgi_string \"\\x01\\x02\";";
        let site = configuration(language, &application, more);
        let all = sent(&site, &application, &REQUESTS);
        let fulmar = &all[0];
        assert_eq!(fulmar[0].param("modifiers"), "5 255");
        assert_eq!(fulmar[0].param("HTTP_X_ID"), "one, two");
        assert_eq!((fulmar[1].param("CONTENT_LENGTH"), &*fulmar[1].body), ("4", &b"body"[..]));
        assert_eq!((fulmar[2].param("CONTENT_LENGTH"), &*fulmar[2].body), ("4", &b"body"[..]));
        all.iter().for_each(|got| assert_eq!(got, fulmar));
    }
}

#[test]
fn parameters_that_are_set_twice_are_sent_twice() {
    for language in Language::ALL {
        let application = Application::speaking(language, move |_, stream| {
            stream.write_all(&language.answer("\r\nfine")).is_err()
        });
        let lines =
            ["TWICE one", "TWICE two", "LAST_EMPTY one", "LAST_EMPTY ''", "HTTP_X_A one", "HTTP_X_A two"];
        let more = lines.map(|line| format!("{}_param {line};", language.name())).concat();
        let all = sent(&configuration(language, &application, &more), &application, &["GET /\nX-A: client"]);
        for got in &all {
            let count = |name: &str| got[0].names.iter().filter(|other| *other == name).count();
            assert_eq!(["TWICE", "LAST_EMPTY", "HTTP_X_A"].map(count), [2, 2, 2], "{language:?}");
            assert_eq!(
                ["TWICE", "LAST_EMPTY", "HTTP_X_A"].map(|name| got[0].param(name)),
                ["two", "", "two"]
            );
            assert_eq!(got, &all[0], "{language:?}");
        }
    }
}

#[test]
fn a_chunked_body_has_a_length() {
    for language in [Language::Scgi, Language::Uwsgi, Language::UwsgiOverTls] {
        let application = fine(language);
        let length =
            if language == Language::Scgi { "" } else { "uwsgi_param CONTENT_LENGTH $content_length;" };
        let running = configuration(language, &application, length).start(Server::Fulmar);
        for path in ["/", "/streamed/"] {
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked"
            );
            let answer = running.ask(&format!("{head}\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"));
            assert_eq!(answer.last().status, 200, "{language:?} {path}");
            let request = application.requests().pop().unwrap();
            assert_eq!((request.param("CONTENT_LENGTH"), &*request.body), ("11", &b"hello world"[..]));
        }
        running.stop();
    }
}

#[test]
fn a_uwsgi_request_has_an_end() {
    for language in [Language::Uwsgi, Language::UwsgiOverTls] {
        let application = fine(language);
        let running = configuration(language, &application, "large_client_header_buffers 4 100k;")
            .start(Server::Fulmar);
        let ask = |request: &str| running.ask(request).last().status;
        let long = |length: usize| format!("GET /\nX-Long: {}", "v".repeat(length));
        assert_eq!((ask(&long(60_000)), ask(&long(70_000))), (200, 500), "{language:?}");
        assert_eq!(ask(&format!("{}\nX-Other: {}", long(40_000), "v".repeat(40_000))), 500, "{language:?}");
        let log = running.stop_and(|running| running.log("error.log"));
        assert!(log.contains("uwsgi request is too big: "), "{log}");
    }
}

#[test]
fn a_websocket_over_uwsgi() {
    for language in [Language::Uwsgi, Language::UwsgiOverTls] {
        let application = Application::speaking(language, |_, stream| {
            let head = "HTTP/1.1 101 Web Socket Protocol Handshake\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            false
        });
        let running = configuration(language, &application, "").start(Server::Fulmar);
        let mut client = running.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let head = client.response("GET").unwrap();
        assert_eq!(
            (head.status, head.reason.as_str()),
            (101, "Web Socket Protocol Handshake"),
            "{language:?}"
        );
        assert_eq!(head.field("Upgrade"), Some("websocket"), "{language:?}");
        client.send(b"ping over uwsgi");
        while client.rest().len() < 15 && client.read_some(15) > 0 {}
        assert_eq!(client.rest(), b"ping over uwsgi", "{language:?}");
        drop(client);
        running.stop();
    }
}
