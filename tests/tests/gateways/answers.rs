//! Odd answers: whatever nginx makes of them is right.

use tests::application::{Application, Language};
use tests::binary::Server;
use tests::differential::agree;
use tests::site::Site;

const LANGUAGES: [Language; 3] = [Language::Scgi, Language::Uwsgi, Language::UwsgiOverTls];

/// Heads with what follows.
const ODD: [&str; 25] = [
    "\r\nno head at all",
    "\nonly a line feed",
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\na status line",
    "HTTP/1.0 404 Gone Fishing\nContent-Type: a/b\n\nx",
    "HTTP/1.1 204 None\r\nX-A: b\r\n\r\n",
    "HTTP/1.1 304 Same\r\nETag: \"x\"\r\n\r\n",
    "HTTP/1.1 500 Oops\r\n\r\noops",
    "Content-Type: text/plain\n\nline feeds",
    "Status: 404\r\n\r\nx",
    "Status: 404 Gone Fishing\r\nContent-Type: a/b\r\n\r\nx",
    "Status: 299 Odd\r\n\r\nx",
    "Status: 304 Same\r\nETag: \"x\"\r\n\r\n",
    "Location: http://localhost/there\r\n\r\n",
    "Location: /local\r\n\r\n",
    "Status: 201 Made\r\nLocation: /made\r\n\r\nx",
    "X-Empty:\r\nX-Two: a\r\nx-two: b\r\n\r\nx",
    "Set-Cookie: a=b\r\nSet-Cookie: c=d; Path=/\r\n\r\nx",
    "Date: Tue, 02 Jan 2024 03:04:05 GMT\r\nServer: mine\r\nX-Powered-By: tests\r\n\r\nx",
    "Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: \"x\"\r\n\r\nx",
    "Content-Length: 3\r\n\r\nabc",
    "Content-Length: 0\r\n\r\n",
    "X-Accel-Redirect: /local\r\n\r\nnever",
    "X-Accel-Buffering: no\r\nX-Accel-Limit-Rate: 1000000\r\n\r\nx",
    "Status: 401 No\r\nWWW-Authenticate: Basic realm=\"a\"\r\n\r\nx",
    "Content-Encoding: gzip\r\n\r\nx",
];

fn application(language: Language, odd: &'static [&'static str]) -> Application {
    Application::speaking(language, |request, stream| {
        let name = request.param("PATH_INFO").rsplit('/').next().unwrap_or_default();
        let text = name.parse::<usize>().map_or("\r\nok", |at| odd[at]);
        match request.param("QUERY_STRING") {
            "pieces" => text.as_bytes().chunks(3).for_each(|piece| drop(stream.write_all(piece))),
            _ => drop(stream.write_all(text.as_bytes())),
        }
        false
    })
}

fn site(language: Language, application: &Application) -> Site {
    Site::new(&format!(
        "log_format short '$request $status $upstream_status $upstream_response_length';
        access_log %%LOGS%%/access.log short;
        server {{
            listen 127.0.0.1:%%PORT%%;
            {name}_param PATH_INFO $uri;
            {name}_param QUERY_STRING $query_string;
            {name}_param CONTENT_LENGTH $content_length if_not_empty;
            error_log %%LOGS%%/error.log warn;
            location / {{ {pass} }}
            location /streamed/ {{ {name}_buffering off; {pass} }}
            location = /local {{ return 200 local; }}
            location = /is-it-kept {{ return 204; }}
        }}",
        name = language.name(),
        pass = language.pass(application.address())
    ))
}

#[test]
fn odd_heads() {
    for language in LANGUAGES {
        let application = application(language, &ODD);
        let mut requests = Vec::new();
        // nginx passes the field `Status` of uwsgi on, which is the head's own.
        let is_shown = |at: &usize| language == Language::Scgi || !ODD[*at].starts_with("Status");
        for at in (0..ODD.len()).filter(is_shown) {
            requests.push(format!("GET /{at}"));
            requests.push(format!("HEAD /{at}"));
            requests.push(format!("GET /streamed/{at}"));
            requests.push(format!("GET /{at}?pieces"));
        }
        requests.push("GET /2 HTTP/1.0".to_owned());
        agree(&site(language, &application), &requests.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// What is no answer, with what the error log says.
const BROKEN: [(&str, &str); 8] = [
    ("", "upstream prematurely closed connection while reading response header from upstream"),
    ("HTTP/1.1 2", "upstream prematurely closed connection while reading response header from upstream"),
    ("A: b\r\n", "upstream prematurely closed connection while reading response header from upstream"),
    ("HTTP/1.1 100 Continue\r\n\r\n", "upstream sent unexpected status 100"),
    ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "upstream switched protocols unasked"),
    ("no field\r\n\r\n", "upstream sent invalid header: \"no\\x20...\""),
    ("Status: abc\r\n\r\n", "upstream sent invalid status \"abc\""),
    ("Content-Length: 1\nContent-Length: 2\n\nab", "upstream sent duplicate header line"),
];

#[test]
fn broken_answers() {
    const TEXTS: [&str; 8] = {
        let mut texts = [""; 8];
        let mut at = 0;
        while at < 8 {
            texts[at] = BROKEN[at].0;
            at += 1;
        }
        texts
    };
    for language in LANGUAGES {
        let application = application(language, &TEXTS);
        let running = site(language, &application).start(Server::Fulmar);
        for (at, broken) in BROKEN.iter().enumerate() {
            let answer = running.ask(&format!("GET /{at}"));
            assert_eq!(answer.last().status, 502, "{language:?} {broken:?}");
        }
        let log = running.stop_and(|running| running.log("error.log"));
        for (_, message) in BROKEN {
            assert!(log.contains(message), "{language:?}: {message} is not in\n{log}");
        }
        let scheme = if language == Language::UwsgiOverTls { "suwsgi" } else { language.name() };
        assert!(log.contains(&format!("upstream: \"{scheme}://{}", application.address())), "{log}");
    }
}

#[test]
fn content_that_is_too_long_ends_with_its_length() {
    for language in LANGUAGES {
        let application = application(language, &["Content-Length: 3\r\n\r\nabcde"]);
        let running = site(language, &application).start(Server::Fulmar);
        assert_eq!(running.ask("GET /0").last().text(), "abc", "{language:?}");
        let log = running.stop_and(|running| running.log("error.log"));
        assert!(log.contains("upstream sent more data than"), "{log}");
    }
}

#[test]
fn content_that_is_too_short_is_cut() {
    for language in LANGUAGES {
        let application = application(language, &["Content-Length: 10\r\n\r\nabc"]);
        let running = site(language, &application).start(Server::Fulmar);
        let answer = running.ask("GET /0");
        assert!(answer.responses.iter().all(|response| response.broken.is_some()), "{language:?}");
        let log = running.stop_and(|running| running.log("error.log"));
        assert!(log.contains("upstream prematurely closed connection while reading upstream"), "{log}");
    }
}
