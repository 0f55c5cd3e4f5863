//! Other servers over HTTP (rows G1–G19), in clear and over TLS: what they get, what they answer, and when they fail.
//!
//! | row | elsewhere |
//! |---|---|
//! | G4 | `proxy::content_that_is_cut_is_never_taken_for_whole` |
//! | G6 | `proxy::what_is_no_response_is_502_and_one_line`, `the_next_server_where_the_policy_says_so` |
//! | G7 | `proxy::a_stalling_server_is_504_and_a_slow_one_is_waited_for` |
//! | G8 | `proxy::a_server_that_failed_is_left_alone`, `the_next_server_where_the_policy_says_so` |
//! | G11, G12 | `proxy::connections_are_kept_and_a_closed_one_costs_nothing`, `the_next_server_…` |
//! | G13 | `proxy::content_where_none_can_be_is_ignored`, `what_is_no_response_is_502_and_one_line` |
//! | G14 | `proxy::protocols_change_only_after_101_and_only_when_asked` |
//! | G16 | also `differential::proxied` |

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use tests::binary::Server;
use tests::origin::{After, Asked, Origin, Wire, ok, raw};
use tests::site::{Running, Site};
use tests::{over_both, wait};

over_both! {
    g1_fields_that_connection_names
    g2_fields_of_servers
    g3_names_that_seem_alike
    g6_resets_in_the_middle
    g8_a_server_that_does_not_accept
    g9_a_slow_drip
    g12_what_has_an_effect_happens_once
    g16_redirects_inside
    g17_servers_that_the_client_chooses
    g19_the_length_of_a_body_of_our_own
}

fn in_front_of((scheme, address): (&str, SocketAddr), settings: &str) -> Running {
    let http = format!(
        "upstream app {{ server {address}; }}
         server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass {scheme}://app; {settings} }} }}"
    );
    Site::new(&http).start(Server::Fulmar)
}

/// Runs a request past an origin that sends back what it was asked.
fn seen(wire: Wire, settings: &str, request: &str) -> String {
    let origin = Origin::over(wire, |asked| ok(&asked.text));
    let running = in_front_of((origin.scheme(), origin.address()), settings);
    let text = running.ask(request).last().text();
    running.stop();
    text
}

fn count(text: &str, name: &str) -> usize {
    let start = format!("{}:", name.to_ascii_lowercase());
    text.to_ascii_lowercase().lines().filter(|line| line.starts_with(&start)).count()
}

/// G1: what `Connection` names is taken away before our own fields are set, and nothing else.
fn g1_fields_that_connection_names(wire: Wire) {
    let settings = "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;";
    let request = "POST /\nHost: shop.example\nConnection: close, Host, Content-Length, Content-Type, X-Forwarded-For\n\
        connection: x-real-ip , COOKIE,,\"x\"\nX-Real-IP: 6.6.6.6\nX-Forwarded-For: 6.6.6.6\nCookie: a=b\n\
        Content-Type: text/plain\nX-Other: stays\n\nthe body";
    let text = seen(wire, settings, request);
    for kept in [
        "Host: shop.example\r\n",
        "Content-Length: 8\r\n",
        "X-Real-IP: 127.0.0.1\r\n",
        "X-Forwarded-For: 127.0.0.1\r\n",
        "X-Forwarded-Proto: http\r\n",
        "X-Other: stays\r\n",
        "\r\n\r\nthe body",
    ] {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
    for gone in ["6.6.6.6", "a=b", "Connection", "text/plain"] {
        assert!(!text.contains(gone), "{gone} is in {text}");
    }
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let text = seen(wire, "", chunked);
    assert_eq!((count(&text, "content-length"), count(&text, "transfer-encoding")), (1, 0), "{text}");
}

/// G2: what only another server may say, no client says.
fn g2_fields_of_servers(wire: Wire) {
    let request = "GET /\nX-Accel-Redirect: /internal\nx-accel-limit-rate: 1\nX-ACCEL-Mapping: /=/etc\nX-Accelerate: fine\n\
        X-Forwarded-For: 1.2.3.4\nForwarded: for=1.2.3.4\nX-Real-IP: 1.2.3.4";
    let text = seen(wire, "proxy_set_header X-Real-IP $remote_addr;", request);
    assert!(!text.to_ascii_lowercase().contains("x-accel-"), "{text}");
    assert!(text.contains("X-Real-IP: 127.0.0.1\r\n") && count(&text, "X-Real-IP") == 1, "{text}");
    // As in nginx: headers of other proxies are passed on unless the configuration changes them.
    for passed in ["X-Forwarded-For: 1.2.3.4\r\n", "Forwarded: for=1.2.3.4\r\n", "X-Accelerate: fine\r\n"] {
        assert!(text.contains(passed), "{passed} is not in {text}");
    }
}

/// G3: a field that we set is there once, whatever the client calls it.
fn g3_names_that_seem_alike(wire: Wire) {
    let set = "proxy_set_header X-Auth-User $remote_user; proxy_set_header X-Real-IP $remote_addr;";
    let request = "GET /\nX_Auth_User: admin\nX-Auth_User: admin\nx-auth-user: admin\nX_Real_IP: 6.6.6.6\nX-REAL-IP: 6.6.6.6\nX-Real-Ip: 6.6.6.6\nX-Two: a\nx-two: b\nX_Three: c";
    let text = seen(wire, set, request);
    assert!(!text.contains("admin") && !text.contains("6.6.6.6") && !text.contains("X_Three"), "{text}");
    assert!(text.contains("X-Two: a\r\nx-two: b\r\n"), "duplicates stay in order: {text}");
    let origin = Origin::over(wire, |asked| ok(&asked.text));
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; underscores_in_headers on;
         location / {{ proxy_pass {}://{}; {set} }} }}",
        origin.scheme(),
        origin.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    let text = running.ask(&format!("{request}\nX_Accel_Redirect: /x")).last().text();
    assert!(!text.contains("admin") && !text.contains("6.6.6.6"), "{text}");
    assert!(text.contains("X_Three: c\r\n") && !text.to_ascii_lowercase().contains("accel"), "{text}");
    running.stop();
}

/// G6: nothing of a response that was cut is taken for a whole one, however it is framed for the client.
fn g6_resets_in_the_middle(wire: Wire) {
    let origin = Origin::over(wire, |asked| match &*asked.target {
        "/head" => raw("HTTP/1.1 200 OK\r\nContent-Len", After::Reset),
        "/length" => raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", After::Reset),
        _ => raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", After::Reset),
    });
    for settings in ["", "proxy_buffering off;", "gzip on; gzip_min_length 1; gzip_types *;"] {
        let running = in_front_of((origin.scheme(), origin.address()), settings);
        for path in ["/length", "/chunks"] {
            let answer = running.ask(&format!("GET {path}\nAccept-Encoding: gzip"));
            let is_whole = |status: u16, broken: Option<&str>| status == 200 && broken.is_none();
            let responses = &answer.responses;
            assert!(
                responses.iter().all(|one| !is_whole(one.status, one.broken)),
                "{settings} {path}: {responses:?}"
            );
        }
        assert_eq!(running.ask("GET /head").statuses(), [502]);
        running.stop();
    }
}

/// G8: nobody takes the connection, and nobody refuses it.
fn g8_a_server_that_does_not_accept(wire: Wire) {
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&full, 0).unwrap();
    let address: SocketAddr = getsockname(&full).unwrap().try_into().unwrap();
    let mut waiting = Vec::new();
    while waiting.len() < 64
        && let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500))
    {
        waiting.push(stream);
    }
    let good = Origin::over(wire, |_| ok("good"));
    let http = format!(
        "proxy_connect_timeout 300ms;
         upstream two {{ server {address}; server {0} backup; }}
         server {{ listen 127.0.0.1:%%PORT%%;
             location / {{ proxy_pass {1}://{address}; }} location /two {{ proxy_pass {1}://two; }} }}",
        good.address(),
        good.scheme()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    assert_eq!(running.ask("GET /").statuses(), [504]);
    running.wait_for_log(
        "error.log",
        "upstream timed out (110: Connection timed out) while connecting to upstream",
    );
    assert_eq!(running.ask("GET /two").last().text(), "good");
    running.stop();
}

/// G9: a response that drips is not cut by the time between reads, and one that nobody wants any more ends.
fn g9_a_slow_drip(wire: Wire) {
    let origin = Origin::over(wire, |asked: &Asked| {
        raw("HTTP/1.1 200 OK\r\n\r\n", After::Drip(if asked.target == "/endless" { 1000 } else { 12 }))
    });
    for settings in ["", "proxy_buffering off;"] {
        let settings = format!("proxy_read_timeout 500ms; {settings}");
        let running = in_front_of((origin.scheme(), origin.address()), &settings);
        assert_eq!(running.ask("GET /").last().text(), "x".repeat(12), "{settings}");
        let mut client = running.connect();
        client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.read_some(1) > 0 && origin.open() == 1);
        drop(client);
        assert!(wait::until(Duration::from_secs(10), || origin.open() == 0), "{settings}");
        running.stop();
    }
}

/// G12: a request that may have had an effect is sent once, whatever goes wrong after that.
fn g12_what_has_an_effect_happens_once(wire: Wire) {
    let times = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&times);
    let origin = Origin::over(wire, move |asked: &Asked| {
        counted.fetch_add(1, Ordering::SeqCst);
        match &*asked.target {
            "/closes" => raw("", After::Close),
            "/half" => raw("HTTP/1.1 200 O", After::Close),
            _ => raw("", After::Reset),
        }
    });
    let (scheme, address) = (origin.scheme(), origin.address());
    let http = format!(
        "upstream app {{ server {address} max_fails=0; server {address} max_fails=0; server {address} max_fails=0; }}
         server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass {scheme}://app; }} location = /is-it-kept {{ return 204; }} }}"
    );
    let running = Site::new(&http).start(Server::Fulmar);
    for (method, expected) in [("POST", 1), ("PATCH", 1), ("LOCK", 1), ("GET", 3), ("PUT", 3), ("DELETE", 3)]
    {
        for path in ["/closes", "/half", "/resets"] {
            times.store(0, Ordering::SeqCst);
            assert_eq!(running.ask(&format!("{method} {path}\n\nx")).statuses(), [502]);
            assert_eq!(times.load(Ordering::SeqCst), expected, "{method} {path}");
        }
    }
    running.stop();
}

/// G16: where a response sends the request inside of the server.
fn g16_redirects_inside(wire: Wire) {
    let targets = [
        ("/plain", "/inside/a.txt", 200),
        ("/escaped", "/inside/%61.txt", 200),
        ("/other", "/elsewhere", 200),
        ("/climbs", "/inside/../../etc/passwd", 404),
        ("/climbs-escaped", "/inside/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/climbs-slash", "/inside/..%2f..%2fetc/passwd", 404),
        ("/twice", "/inside/%252e%252e/%252e%252e/etc/passwd", 404),
        ("/ends", "/inside/..", 404),
        ("/nul", "/inside/a.txt%00.jpg", 404),
        ("/url", "http://elsewhere.example/", 404),
        ("/relative", "inside/a.txt", 404),
        ("/nowhere", "@nowhere", 500),
        ("/again", "/again", 500),
    ];
    let origin = Origin::over(wire, move |asked: &Asked| {
        let found = targets.iter().find(|(path, _, _)| asked.target.ends_with(path)).unwrap();
        let text =
            format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {}\r\nContent-Length: 3\r\n\r\nown", found.1);
        raw(&text, After::Keep)
    });
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
             location / {{ proxy_pass {1}://{0}; }}
             location /ignoring/ {{ proxy_pass {1}://{0}; proxy_ignore_headers X-Accel-Redirect; }}
             location /inside/ {{ internal; }} location = /elsewhere {{ return 200 elsewhere; }} }}",
        origin.address(),
        origin.scheme()
    );
    let running = Site::new(&http).file("inside/a.txt", "inside").start(Server::Fulmar);
    for (path, target, status) in targets {
        let answer = running.ask(&format!("GET {path}"));
        assert_eq!(answer.statuses(), [status], "{target}");
        assert!(!answer.last().text().contains("root:") && answer.last().text() != "own", "{target}");
        let ignored = running.ask(&format!("GET /ignoring{path}"));
        assert_eq!((ignored.statuses(), ignored.last().text()), (vec![200], "own".to_owned()), "{target}");
        assert_eq!(ignored.last().field("X-Accel-Redirect"), None);
    }
    running.stop();
}

/// G17: who chooses the server by what the client says is warned.
fn g17_servers_that_the_client_chooses(wire: Wire) {
    let warned = |settings: &str| {
        let settings = match wire {
            Wire::Clear => settings.to_owned(),
            Wire::Tls => {
                settings.replace("http://", "https://").replace("fastcgi_pass ", "uwsgi_pass suwsgi://")
            }
        };
        let configuration = format!(
            "upstream app {{ server 127.0.0.1:1; }} server {{ listen 127.0.0.1:%%PORT%%; {settings} }}"
        );
        let site = Site::new("");
        site.write_configuration(Server::Fulmar, &configuration);
        let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{settings}: {text}");
        text.contains("[warn] the client can choose the server of ")
    };
    for settings in [
        "location / { proxy_pass http://$http_host; }",
        "location / { proxy_pass http://$arg_x/path; }",
        "location / { proxy_pass $arg_url; }",
        "location / { proxy_pass http://app.${cookie_server}:80/; }",
        "location ~ ^/to/(.*)$ { proxy_pass http://$1; }",
        "location / { proxy_pass $scheme://$host$request_uri; }",
        "location / { fastcgi_pass $http_x_backend; }",
    ] {
        assert!(warned(settings), "{settings}");
    }
    for settings in [
        "location / { proxy_pass http://app$request_uri; }",
        "location / { proxy_pass http://app/$arg_x; }",
        "set $to app; location / { proxy_pass http://$to/$arg_x; }",
        "location / { proxy_pass http://app; }",
        "set $to app; location / { fastcgi_pass $to; }",
    ] {
        assert!(!warned(settings), "{settings}");
    }
}

/// G19: a body that the configuration makes has its own length.
fn g19_the_length_of_a_body_of_our_own(wire: Wire) {
    let request = "POST /?x=12345678901234567890\nContent-Length: 3\n\nabc";
    let text = seen(wire, "proxy_set_body \"<$arg_x>\";", request);
    assert!(
        text.contains("Content-Length: 22\r\n") && text.ends_with("\r\n\r\n<12345678901234567890>"),
        "{text}"
    );
    assert_eq!(count(&text, "content-length"), 1, "{text}");
    let text = seen(wire, "proxy_set_body \"\"; proxy_set_header Content-Length 99;", request);
    assert!(!text.contains("99") && !text.contains("abc"), "{text}");
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let text = seen(wire, "proxy_set_body own; proxy_set_header Transfer-Encoding chunked;", chunked);
    assert!(text.contains("Content-Length: 3\r\n") && count(&text, "transfer-encoding") == 0, "{text}");
}
