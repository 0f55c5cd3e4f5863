//! Applications that speak FastCGI, SCGI or uwsgi, the last also over TLS (rows H1–H13). FastCGI and SCGI have no TLS.
//!
//! | row | elsewhere |
//! |---|---|
//! | H1 | `fastcgi::faults::answers_that_are_none`; the decoder's own properties in the crate `fcgi` |
//! | H2 | `fastcgi::requests::a_connection_is_kept_only_where_nothing_follows_the_answer` |
//! | H3 | `fastcgi::faults::messages_are_logged_and_floods_are_not` |
//! | H4 | `fastcgi::faults::answers_that_are_none`, `gateways::answers` |
//! | H6 | `fastcgi::requests::parameters_may_be_longer_than_a_record`, `gateways::requests::a_uwsgi_request_has_an_end` |
//! | H7, H8 | `fastcgi::requests::the_environment_and_the_body` |
//! | H9 | `fastcgi::php::paths_that_could_run_what_is_no_script` |
//! | H11, H12 | `fastcgi::faults::silence_ends`, `nobody_listens` |
//! | H13 | `fastcgi::requests::a_chunked_body_has_a_length`, `gateways::requests::a_chunked_body_has_a_length` |

use tests::application::{Application, Language, Request, answer, end, record, stderr, stdout};
use tests::binary::Server;
use tests::site::{Running, Site};

/// An application behind a server, whose answers depend on the path alone.
fn start(
    language: Language,
    settings: &str,
    answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) -> (Application, Running) {
    let application = Application::speaking(language, move |request, stream| {
        stream.write_all(&answer(request.param("SCRIPT_NAME"))).is_ok() && request.keep
    });
    let running = site(language, &application, settings, "").start(Server::Fulmar);
    (application, running)
}

fn site(language: Language, application: &Application, settings: &str, more: &str) -> Site {
    let name = language.name();
    // SCGI has the length in any case.
    let length = match language {
        Language::Scgi => String::new(),
        _ => format!("{name}_param CONTENT_LENGTH $content_length;"),
    };
    Site::new(&format!(
        "upstream app {{ server {}; keepalive 4; }}
         server {{ listen 127.0.0.1:%%PORT%%; large_client_header_buffers 4 200k; {more}
             location / {{ {} {name}_param SCRIPT_NAME $uri; {length} {settings} }}
             location = /is-it-kept {{ return 204; }} }}",
        application.address(),
        language.pass("app"),
    ))
}

fn last(application: &Application) -> Request {
    application.requests().pop().unwrap()
}

/// H1: padding as long as it can be, records without content, and records of other kinds in between.
#[test]
fn h1_records() {
    let (_application, running) = start(Language::FastCgi, "", |path| match path {
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
    let (application, running) = start(Language::FastCgi, "fastcgi_keep_conn on;", |path| match path {
        "/twice" => [answer("\r\nright"), end()].concat(),
        "/data" => [answer("\r\nright"), stdout("\r\nwrong")].concat(),
        "/late" => [stdout("\r\nright"), end(), stderr("late")].concat(),
        _ => answer("\r\nright"),
    });
    for path in ["/", "/twice", "/data", "/late"] {
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
    for language in Language::ALL {
        let (_application, running) = start(language, "", move |path| {
            let status = path.trim_start_matches('/').replace('_', " ");
            language.answer(&format!("Status: {status}\r\nX-A: b\r\n\r\ntext"))
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
            assert_eq!(found, (code, reason), "{language:?} {status}");
        }
        running.stop();
    }
}

/// H6: lengths of one byte and of four, and a stream of parameters over several records. A request of uwsgi is shorter
/// than 64 KB.
#[test]
fn h6_long_parameters() {
    for language in Language::ALL {
        let (application, running) = start(language, "", move |_| language.answer("\r\nfine"));
        let is_bounded = matches!(language, Language::Uwsgi | Language::UwsgiOverTls);
        let longest = if is_bounded { 65_000 } else { usize::MAX };
        let lengths = [0, 1, 127, 128, 255, 256, 65_000, 65_535, 65_536, 131_080];
        for length in lengths.into_iter().filter(|length| *length <= longest) {
            let request = format!("GET /\nX-Value: {}\nX-Last: z", "v".repeat(length));
            assert_eq!(running.ask(&request).statuses(), [200], "{language:?} {length}");
            let request = last(&application);
            assert_eq!(request.param("HTTP_X_VALUE").len(), length, "{language:?}");
            assert_eq!(request.param("HTTP_X_LAST"), "z", "{language:?} {length}");
        }
        let name = "N".repeat(300);
        running.ask(&format!("GET /\nX-{name}: v"));
        assert_eq!(last(&application).param(&format!("HTTP_X_{name}")), "v", "{language:?}");
        running.stop();
    }
}

/// H7: no way to write it makes `Proxy` a parameter.
#[test]
fn h7_proxy() {
    for language in Language::ALL {
        let (application, running) = start(language, "", move |_| language.answer("\r\nfine"));
        running.ask("GET /\nProxy: http://evil/\nproxy: x\nPROXY: y\nProxy-Connection: z\nHTTP-Proxy: w");
        let request = last(&application);
        assert!(!request.params.contains_key("HTTP_PROXY"), "{language:?} {:?}", request.names);
        assert!(request.params.contains_key("HTTP_HTTP_PROXY"), "{language:?} {:?}", request.names);
        assert!(!request.params.values().any(|value| value.contains("evil")), "{language:?}");
        running.stop();
    }
}

/// H8: fields of the client never stand for parameters that are not theirs, with underscores or without.
#[test]
fn h8_names_that_seem_alike() {
    for language in Language::ALL {
        let name = language.name();
        let own =
            format!("{name}_param HTTP_X_REAL_IP $remote_addr; {name}_param HTTPS $https if_not_empty;");
        for underscores in ["off", "on"] {
            let about = format!("{language:?}, underscores {underscores}");
            let application = Application::speaking(language, move |_, stream| {
                stream.write_all(&language.answer("\r\nfine")).is_err()
            });
            let more = format!("underscores_in_headers {underscores}; {name}_pass_request_headers on;");
            let running = site(language, &application, &own, &more).start(Server::Fulmar);
            running.ask("POST /\nContent_Length: 99\nX_Foo: bad\nX-Foo: good\nX-Real-IP: 6.6.6.6\nX_Real_IP: 6.6.6.6\nHTTPS: on\nRemote-Addr: 6.6.6.6\n\nbody");
            let request = last(&application);
            let of = |name: &str| request.names.iter().filter(|known| *known == name).count();
            for (name, value) in
                [("CONTENT_LENGTH", "4"), ("HTTP_X_FOO", "good"), ("HTTP_X_REAL_IP", "127.0.0.1")]
            {
                assert_eq!((request.param(name), of(name)), (value, 1), "{about}: {name}");
            }
            assert!(of("HTTPS") == 0 && of("REMOTE_ADDR") == 0, "{about}: {:?}", request.names);
            running.stop();
        }
    }
}

/// H11: an application that dies gives 502 before its head, and never a whole answer after it.
#[test]
fn h11_death() {
    for language in Language::ALL {
        let (_application, running) = start(language, "", move |path| {
            let whole = language.answer("Content-Length: 9\r\n\r\nwhole one");
            match path {
                "/whole" => whole,
                "/at-once" => Vec::new(),
                "/in-head" => whole[..10].to_vec(),
                _ => {
                    let content = whole.windows(5).position(|window| window == b"whole").unwrap();
                    whole[..content + 5].to_vec()
                }
            }
        });
        assert_eq!(running.ask("GET /whole").last().text(), "whole one", "{language:?}");
        for path in ["/at-once", "/in-head"] {
            assert_eq!(running.ask(&format!("GET {path}")).statuses(), [502], "{language:?} {path}");
        }
        let answer = running.ask("GET /in-content");
        assert!(answer.responses.iter().all(|response| response.broken.is_some()), "{language:?} {answer:?}");
        running.stop();
    }
}

/// H12: an application that says nothing is waited for no longer than its timeout, by however many clients.
#[test]
fn h12_silence() {
    for language in Language::ALL {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let application = Application::speaking(language, move |_, _| {
            // It is released when the test ends.
            let _ = released.lock().unwrap().recv();
            false
        });
        let settings = format!("{}_read_timeout 300ms;", language.name());
        let running = site(language, &application, &settings, "").start(Server::Fulmar);
        let mut clients: Vec<_> = (0..20).map(|_| running.connect()).collect();
        for client in &mut clients {
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.response("GET").unwrap().status, 504, "{language:?}");
        }
        assert_eq!(running.ask("GET /is-it-kept").statuses(), [204]);
        drop(release);
        running.stop();
    }
}
