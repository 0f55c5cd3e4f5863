//! Applications that speak FastCGI (rows H1–H9).
//!
//! | row | elsewhere |
//! |---|---|
//! | H1 | `fastcgi::faults::answers_that_are_none`; the decoder's own properties in the crate `fcgi` |
//! | H2 | `fastcgi::requests::a_connection_is_kept_only_where_nothing_follows_the_answer` |
//! | H3 | `fastcgi::faults::messages_are_logged_and_floods_are_not` |
//! | H4 | `fastcgi::faults::answers_that_are_none` |
//! | H6 | `fastcgi::requests::parameters_may_be_longer_than_a_record` |
//! | H7, H8 | `fastcgi::requests::the_environment_and_the_body` |
//! | H9 | `fastcgi::php::paths_that_could_run_what_is_no_script` |

use std::io::Write;

use tests::application::{Application, answer, end, record, stderr, stdout};
use tests::binary::Server;
use tests::site::{Running, Site};

/// An application behind a server, whose answers depend on the path alone.
fn start(settings: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (Application, Running) {
    let application = Application::start(move |request, stream| {
        stream.write_all(&answer(request.param("SCRIPT_NAME"))).is_ok() && request.keep
    });
    let http = format!(
        "upstream app {{ server {}; keepalive 4; }}
         server {{ listen 127.0.0.1:%%PORT%%; large_client_header_buffers 4 200k;
             location / {{ fastcgi_pass app; fastcgi_param SCRIPT_NAME $uri; {settings} }}
             location = /is-it-kept {{ return 204; }} }}",
        application.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    (application, running)
}

/// H1: padding as long as it can be, records without content, and records of other kinds in between.
#[test]
fn h1_records() {
    let (_application, running) = start("", |path| match path {
        "/padded" => [
            record(6, b"\r\nri", 255),
            record(7, b"", 255),
            record(6, b"ght", 255),
            record(6, b"", 255),
            record(3, &[0; 8], 255),
        ]
        .concat(),
        "/single" => [b"\r\nright".chunks(1).flat_map(|byte| record(6, byte, 7)).collect(), end()].concat(),
        "/version" => [stdout("\r\nwrong"), vec![2, 6, 0, 1, 0, 1, 0, 0, b'x']].concat(),
        "/id" => [stdout("\r\nwrong"), vec![1, 6, 0, 9, 0, 1, 0, 0, b'x']].concat(),
        "/kind" => [stdout("\r\nwrong"), record(9, b"x", 0)].concat(),
        "/beyond" => [stdout("\r\nwrong"), vec![1, 6, 0, 1, 0xff, 0xff, 0, 0, b'x']].concat(),
        _ => [stdout("\r\nwrong"), record(3, &[0; 3], 0)].concat(),
    });
    for path in ["/padded", "/single"] {
        assert_eq!(running.ask(&format!("GET {path}")).last().text(), "right", "{path}");
    }
    for path in ["/version", "/id", "/kind", "/beyond", "/short-end"] {
        let answer = running.ask(&format!("GET {path}"));
        assert!(answer.responses.iter().all(|response| response.broken.is_some()), "{path}: {answer:?}");
    }
    running.stop();
}

/// H2: what comes after the end is never content, and its connection serves nobody else.
#[test]
fn h2_behind_the_end() {
    let (application, running) = start("fastcgi_keep_conn on;", |path| match path {
        "/twice" => [answer("\r\nright"), end()].concat(),
        "/data" => [answer("\r\nright"), stdout("\r\nwrong")].concat(),
        "/late" => [stdout("\r\nright"), end(), stderr("late")].concat(),
        "/reopened" => [stdout("\r\nright"), record(6, b"", 0), stdout("wrong"), end()].concat(),
        _ => answer("\r\nright"),
    });
    for path in ["/", "/twice", "/data", "/late", "/reopened"] {
        assert_eq!(running.ask(&format!("GET {path}")).last().text(), "right", "{path}");
        let before = application.connections();
        for _ in 0..2 {
            assert_eq!(running.ask("GET /").last().text(), "right", "after {path}");
        }
        let made = application.connections() - before;
        assert_eq!(made, usize::from(path != "/"), "after {path}");
    }
    running.stop();
}

/// H4: statuses with and without words.
#[test]
fn h4_statuses() {
    let (_application, running) = start("", |path| {
        let status = path.trim_start_matches('/').replace('_', " ");
        answer(&format!("Status: {status}\r\nX-A: b\r\n\r\ntext"))
    });
    for (status, code, reason) in [
        ("404", 404, "Not Found"),
        ("404_", 404, "Not Found"),
        ("404_Gone_Fishing", 404, "Gone Fishing"),
        ("299", 299, ""),
        ("99999", 502, "Bad Gateway"),
        ("abc", 502, "Bad Gateway"),
        ("20", 502, "Bad Gateway"),
        ("-200", 502, "Bad Gateway"),
        ("200x", 502, "Bad Gateway"),
        ("000", 502, "Bad Gateway"),
    ] {
        let answer = running.ask(&format!("GET /{status}"));
        let found = (answer.last().status, answer.last().reason.trim());
        assert_eq!(found, (code, reason), "{status}");
    }
    running.stop();
}

/// H6: lengths of one byte and of four, and a stream of parameters over several records.
#[test]
fn h6_long_parameters() {
    let (application, running) = start("", |_| answer("\r\nfine"));
    for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 131_080] {
        let value = "v".repeat(length);
        assert_eq!(running.ask(&format!("GET /\nX-Value: {value}\nX-Last: z")).statuses(), [200], "{length}");
        let request = application.requests().pop().unwrap();
        assert!(request.param("HTTP_X_VALUE") == value && request.param("HTTP_X_LAST") == "z", "{length}");
    }
    let name = "N".repeat(300);
    running.ask(&format!("GET /\nX-{name}: v"));
    assert_eq!(application.requests().pop().unwrap().param(&format!("HTTP_X_{name}")), "v");
    running.stop();
}

/// H7: no way to write it makes `Proxy` a parameter.
#[test]
fn h7_proxy() {
    let (application, running) = start("", |_| answer("\r\nfine"));
    running.ask("GET /\nProxy: http://evil/\nproxy: x\nPROXY: y\nProxy-Connection: z\nHTTP-Proxy: w");
    let request = application.requests().pop().unwrap();
    assert!(!request.params.contains_key("HTTP_PROXY"), "{:?}", request.names);
    assert!(
        request.params.contains_key("HTTP_HTTP_PROXY")
            && !request.params.values().any(|value| value.contains("evil"))
    );
    running.stop();
}

/// H8: fields of the client never stand for parameters that are not theirs, with underscores or without.
#[test]
fn h8_names_that_seem_alike() {
    let own = "fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param HTTP_X_REAL_IP $remote_addr; fastcgi_param HTTPS $https if_not_empty;";
    for underscores in ["off", "on"] {
        let settings = own.to_owned();
        let application = Application::start(|_, stream| stream.write_all(&answer("\r\nfine")).is_err());
        let http = format!(
            "server {{ listen 127.0.0.1:%%PORT%%; underscores_in_headers {underscores}; fastcgi_pass_request_headers on;
             location / {{ fastcgi_pass {}; {settings} }} location = /is-it-kept {{ return 204; }} }}",
            application.address()
        );
        let running = Site::new(&http).start(Server::Fulmar);
        running.ask("POST /\nContent_Length: 99\nX_Foo: bad\nX-Foo: good\nX-Real-IP: 6.6.6.6\nX_Real_IP: 6.6.6.6\nHTTPS: on\nRemote-Addr: 6.6.6.6\n\nbody");
        let request = application.requests().pop().unwrap();
        let of = |name: &str| request.names.iter().filter(|known| *known == name).count();
        assert_eq!(request.param("CONTENT_LENGTH"), "4", "{underscores}");
        assert_eq!((request.param("HTTP_X_FOO"), of("HTTP_X_FOO")), ("good", 1), "{underscores}");
        assert_eq!(
            (request.param("HTTP_X_REAL_IP"), of("HTTP_X_REAL_IP")),
            ("127.0.0.1", 1),
            "{underscores}"
        );
        assert!(of("HTTPS") == 0 && of("REMOTE_ADDR") == 0, "{:?}", request.names);
        assert_eq!(of("CONTENT_LENGTH"), 1);
        running.stop();
    }
}
