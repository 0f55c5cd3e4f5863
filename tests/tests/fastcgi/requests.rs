//! What an application is sent.

use tests::application::{Application, answer};
use tests::binary::{Server, have_nginx};
use tests::site::Site;

/// A site whose locations all go to this application.
fn site(application: &Application, more: &str) -> Site {
    let params = "fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; \
                  fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param SCRIPT_NAME $fastcgi_script_name;";
    Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; large_client_header_buffers 4 100k; {params} {more}\n\
         location / {{ fastcgi_pass {}; }} location = /is-it-kept {{ return 204; }} }}",
        application.address()
    ))
}

#[test]
fn the_environment_and_the_body() {
    let application = Application::start(|_, stream| {
        stream.write_all(&answer("Content-Type: text/plain\r\n\r\nfine")).is_err()
    });
    let running = site(&application, "underscores_in_headers on;").start(Server::Fulmar);
    let answer = running.ask(
        "POST /a/b.php?q=1\nX-Id: good\nX_Id: bad\nX_Other: kept\nProxy: evil\nContent_Length: 99\n\
         Cookie: a=b\nCookie: c\n\nbody",
    );
    assert_eq!((answer.last().status, answer.last().text()), (200, "fine".to_owned()));
    let requests = application.requests();
    let [request] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    assert_eq!(request.body, b"body");
    assert!(!request.keep);
    for (name, value) in [
        ("REQUEST_METHOD", "POST"),
        ("QUERY_STRING", "q=1"),
        ("CONTENT_LENGTH", "4"),
        ("SCRIPT_NAME", "/a/b.php"),
        ("HTTP_X_ID", "good"),
        ("HTTP_X_OTHER", "kept"),
        ("HTTP_COOKIE", "a=b; c"),
        ("HTTP_HOST", "localhost"),
    ] {
        assert_eq!(request.param(name), value, "{name}");
    }
    assert!(!request.params.contains_key("HTTP_PROXY"));
    let twice: Vec<_> = request.names.iter().filter(|name| *name == "HTTP_X_ID").collect();
    assert_eq!(twice.len(), 1);
    running.stop();
}

#[test]
fn the_host_is_the_one_that_the_request_is_for() {
    let application = Application::start(|_, stream| stream.write_all(&answer("\r\nfine")).is_err());
    let configuration = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; server_name first.example; fastcgi_pass_request_headers on;
            location / {{ fastcgi_pass {address}; }}
            location /set/ {{ fastcgi_pass {address}; fastcgi_param HTTP_HOST $http_host; }}
            location /empty/ {{ fastcgi_pass {address}; fastcgi_param HTTP_HOST \"\"; fastcgi_param HTTP_X_ID \"\"; }}
            location /lower/ {{ fastcgi_pass {address}; fastcgi_param HTTP_x_id lower; }}
            location /bare/ {{ fastcgi_pass {address}; fastcgi_pass_request_headers off; }}
            location /blank/ {{ fastcgi_pass {address}; fastcgi_param HTTP_X_ID $arg_none; fastcgi_param X \"\"; }}
            location = /is-it-kept {{ return 204; }} }}
         server {{ listen 127.0.0.1:%%PORT_1%%; location / {{ fastcgi_pass {address}; }} }}",
        address = application.address()
    );
    let site = Site::new(&configuration);
    let sent = |server: Server| {
        let running = site.start(server);
        let requests = [
            (0, "GET / HTTP/1.1\r\nHost: FIRST.example.:8080\r\nConnection: close\r\n\r\n"),
            (0, "GET http://Other.Example:81/ HTTP/1.1\r\nHost: first.example\r\nConnection: close\r\n\r\n"),
            (0, "GET / HTTP/1.1\r\nHost: first.example:\r\nConnection: close\r\n\r\n"),
            (0, "GET / HTTP/1.0\r\n\r\n"),
            (1, "GET / HTTP/1.0\r\n\r\n"),
            (0, "GET /set/ HTTP/1.1\r\nHost: FIRST.example.:8080\r\nConnection: close\r\n\r\n"),
            (0, "GET /empty/ HTTP/1.1\r\nHost: a\r\nX-Id: b\r\nConnection: close\r\n\r\n"),
            (0, "GET /lower/ HTTP/1.1\r\nHost: a\r\nX-Id: b\r\nConnection: close\r\n\r\n"),
            (0, "GET /bare/ HTTP/1.1\r\nHost: A\r\nX-Id: b\r\nConnection: close\r\n\r\n"),
            (0, "GET /blank/ HTTP/1.1\r\nHost: a\r\nX-Id: b\r\nConnection: close\r\n\r\n"),
        ];
        let all = requests.map(|(port, request)| {
            assert_eq!(tests::client::ask(running.address_of(port), request).last().status, 200, "{request}");
            let params = application.requests().pop().unwrap().params;
            let shown = params.into_iter().filter(|(name, _)| name != "HTTP_CONNECTION");
            shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        });
        running.stop();
        all
    };
    let expected = [
        "HTTP_HOST=first.example:8080",
        "HTTP_HOST=other.example:81",
        "HTTP_HOST=first.example",
        "HTTP_HOST=first.example",
        "",
        "HTTP_HOST=FIRST.example.:8080",
        "",
        "HTTP_HOST=a HTTP_x_id=lower",
        "HTTP_HOST=a",
        "HTTP_HOST=a HTTP_X_ID= X=",
    ];
    assert_eq!(sent(Server::Fulmar), expected);
    if have_nginx() {
        assert_eq!(sent(Server::Nginx), expected);
    }
}

#[test]
fn a_chunked_body_has_a_length() {
    let application = Application::start(|_, stream| stream.write_all(&answer("\r\nfine")).is_err());
    for buffering in ["", "fastcgi_request_buffering off;"] {
        let running = site(&application, buffering).start(Server::Fulmar);
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked";
        let answer = running.ask(&format!("{head}\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"));
        assert_eq!(answer.last().status, 200, "{buffering}");
        let request = application.requests().pop().unwrap();
        assert_eq!((request.param("CONTENT_LENGTH"), &*request.body), ("11", &b"hello world"[..]));
        running.stop();
    }
}

#[test]
fn parameters_may_be_longer_than_a_record() {
    let application = Application::start(|_, stream| stream.write_all(&answer("\r\nfine")).is_err());
    let running = site(&application, "").start(Server::Fulmar);
    let long = "v".repeat(90_000);
    let answer = running.ask(&format!("GET /\nX-Long: {long}\nX-{}: 128", "N".repeat(200)));
    assert_eq!(answer.last().status, 200);
    let request = application.requests().pop().unwrap();
    assert_eq!(request.param("HTTP_X_LONG"), long);
    assert_eq!(request.param(&format!("HTTP_X_{}", "N".repeat(200))), "128");
    running.stop();
}

#[test]
fn a_connection_is_kept_only_where_nothing_follows_the_answer() {
    let application = Application::start(|request, stream| {
        let mut bytes = answer("\r\nfine");
        if request.param("QUERY_STRING") == "more" {
            bytes.extend_from_slice(&answer("\r\nnever seen"));
        }
        stream.write_all(&bytes).is_ok()
    });
    let configuration = format!(
        "upstream application {{ server {}; keepalive 2; }} server {{ listen 127.0.0.1:%%PORT%%; \
         fastcgi_param QUERY_STRING $query_string; fastcgi_keep_conn on; \
         location / {{ fastcgi_pass application; }} location = /is-it-kept {{ return 204; }} }}",
        application.address()
    );
    let running = Site::new(&configuration).start(Server::Fulmar);
    for (query, connections) in [("", 1), ("", 1), ("more", 1), ("", 2), ("", 2)] {
        let answer = running.ask(&format!("GET /?{query}"));
        assert_eq!((answer.last().status, answer.last().text()), (200, "fine".to_owned()));
        assert_eq!(application.connections(), connections, "{query:?}");
    }
    assert!(application.requests().iter().all(|request| request.keep));
    running.stop();
}
