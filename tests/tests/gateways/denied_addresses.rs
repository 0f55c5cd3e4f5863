//! `upstream_deny`: no request leads to an address that is denied, whatever names it, and by whatever gateway.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::application::Language;
use tests::binary::Server;
use tests::dns::{Message, NameServer};
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};

/// Names whose addresses are internal, in every notation, and one that is not denied by `127.0.0.2`.
const ADDRESSES: [(&str, &str); 9] = [
    ("loopback.example", "127.0.0.1"),
    ("other-loopback.example", "127.0.0.2"),
    ("this.example", "0.0.0.0"),
    ("private.example", "10.0.0.1"),
    ("metadata.example", "169.254.169.254"),
    ("six.example", "::1"),
    ("mapped.example", "::ffff:127.0.0.1"),
    ("nat64.example", "64:ff9b::7f00:1"),
    ("local.example", "fe80::1"),
];

fn names() -> NameServer {
    NameServer::start(|question| {
        let known = ADDRESSES.iter().find(|(name, _)| *name == question.name);
        let answer = Message::to(question);
        vec![match known {
            Some((_, address)) => answer.address(60, address).reply(),
            None => answer.error(3).reply(),
        }]
    })
}

fn status(running: &Running, request: &str) -> u16 {
    running.ask(request).last().status
}

#[test]
fn a_name_leads_to_no_internal_address() {
    let (names, origin) = (names(), Origin::start(|_| ok("secret")));
    let port = origin.address().port();
    let running = Site::new(&format!(
        "upstream named {{ server 127.0.0.1:{port}; keepalive 4; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             resolver {names};
             upstream_deny internal;
             location / {{ proxy_pass http://$arg_n:{port}; }}
             location /port/ {{ proxy_pass http://$arg_n; }}
             location /open/ {{ proxy_pass http://$arg_n:{port}; upstream_deny off; }}
             location /listed/ {{ proxy_pass http://$arg_n:{port}; upstream_deny 127.0.0.2 10.0.0.0/8; }}
             location /fixed/ {{ proxy_pass http://named; }}
         }}",
        names = names.address()
    ))
    .start(Server::Fulmar);
    let written =
        ["127.0.0.1", "127.1.2.3", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "10.1.1.1"];
    for name in ADDRESSES.iter().map(|(name, _)| *name).chain(written) {
        assert_eq!(status(&running, &format!("GET /?n={name}")), 403, "{name}: {}", running.all_logs());
    }
    assert_eq!(status(&running, "GET /port/?n=unix:/run/any.sock"), 403);
    assert_eq!(status(&running, "GET /?n=missing.example"), 502);
    assert_eq!(origin.connections(), 0);
    let told = format!(
        "denied by \"upstream_deny\" while connecting to upstream, client: 127.0.0.1, server: , request: \
                        \"GET /?n=metadata.example HTTP/1.1\", upstream: \"http://169.254.169.254:{port}/"
    );
    running.wait_for_log("error.log", &told);
    // Servers that the configuration names are not judged, unless a variable chooses among them.
    assert_eq!(status(&running, "GET /fixed/"), 200);
    assert_eq!(status(&running, "GET /port/?n=named"), 403, "also where a connection is kept");
    assert_eq!(status(&running, "GET /open/?n=loopback.example"), 200);
    assert_eq!(status(&running, "GET /listed/?n=loopback.example"), 200);
    assert_eq!(status(&running, "GET /listed/?n=other-loopback.example"), 403);
    running.stop();
}

/// A name server that answers one question with an address that is allowed, and the next with one that is not.
#[test]
fn a_name_that_changes_leads_only_to_what_is_allowed() {
    let flip = Arc::new(AtomicBool::new(false));
    let names = NameServer::start(move |question| {
        let answer = Message::to(question);
        vec![match question.name.as_str() {
            "both.example" => answer.address(0, "127.0.0.1").address(0, "127.0.0.2").reply(),
            _ if flip.fetch_xor(true, Ordering::SeqCst) => answer.address(0, "127.0.0.2").reply(),
            _ => answer.address(0, "127.0.0.1").reply(),
        }]
    });
    let running = Site::new(&format!(
        "server {{
             listen 127.0.0.1:%%PORT%%;
             resolver {} ipv6=off;
             upstream_deny 127.0.0.2;
             location / {{ proxy_pass http://$arg_n:%%PORT_1%%; }}
         }}
         server {{ listen 127.0.0.1:%%PORT_1%%; return 200 open; }}
         server {{ listen 127.0.0.2:%%PORT_1%%; return 200 secret; }}",
        names.address()
    ))
    .start(Server::Fulmar);
    for name in ["changes.example", "both.example"] {
        let mut statuses = Vec::new();
        for _ in 0..20 {
            let answer = running.ask(&format!("GET /?n={name}"));
            assert_ne!(answer.last().text(), "secret", "{name}");
            statuses.push(answer.last().status);
        }
        assert!(statuses.iter().all(|status| matches!(status, 200 | 403)), "{name}: {statuses:?}");
        assert!(statuses.contains(&200), "{name}: {statuses:?}");
    }
    running.stop();
}

#[test]
fn every_gateway_judges_what_a_request_chooses() {
    let names = names();
    for denies in [true, false] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut gateways: Vec<String> =
            Language::ALL.into_iter().map(|language| language.pass(format!("$arg_n:{port}"))).collect();
        gateways.push(format!("grpc_pass $arg_n:{port};"));
        gateways.push(format!("grpc_pass grpcs://$arg_n:{port};"));
        gateways.push(format!("proxy_pass http://$arg_n:{port};"));
        gateways.push(format!("proxy_pass https://$arg_n:{port};"));
        gateways.push(format!("proxy_pass http://$arg_n:{port}; proxy_http_version 2;"));
        let locations: String =
            gateways.iter().enumerate().map(|(at, pass)| format!("location /{at}/ {{ {pass} }}")).collect();
        let timeouts: String = ["proxy", "grpc", "fastcgi", "scgi", "uwsgi", "tunnel"]
            .map(|name| format!("{name}_read_timeout 300ms; {name}_connect_timeout 300ms;"))
            .concat();
        let rule = if denies { "upstream_deny internal;" } else { "" };
        let running = Site::whole(&format!(
            "daemon off; user root; worker_processes 1; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log;
             events {{ }}
             http {{
                 access_log off;
                 resolver {names}; {timeouts} {rule}
                 server {{ listen 127.0.0.1:%%PORT%%; {locations} }}
                 server {{ listen 127.0.0.1:%%PORT_1%%; allow all; tunnel_pass; }}
             }}
             stream {{
                 resolver {names}; {rule}
                 map $server_port $chosen {{ default loopback.example:{port}; }}
                 server {{ listen 127.0.0.1:%%PORT_2%%; proxy_pass $chosen; proxy_timeout 300ms; }}
             }}",
            names = names.address()
        ))
        .start(Server::Fulmar);
        let mut connections = 0;
        let mut count = |listener: &std::net::TcpListener| {
            connections += std::iter::from_fn(|| listener.accept().ok()).count();
            connections
        };
        for (at, pass) in gateways.iter().enumerate() {
            let status = status(&running, &format!("GET /{at}/?n=loopback.example"));
            assert_eq!(status == 403, denies, "{status}: {pass}");
            assert_eq!(count(&listener) > at, !denies, "{pass}");
        }
        let target = format!("loopback.example:{port}");
        let first = |port: usize, text: &str| {
            let mut stream = TcpStream::connect(running.address_of(port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut got = [0; 12];
            let count = stream.read(&mut got).unwrap_or(0);
            String::from_utf8_lossy(&got[..count]).into_owned()
        };
        let status = first(1, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"));
        assert_eq!(status, if denies { "HTTP/1.1 403" } else { "HTTP/1.1 200" });
        first(2, "any");
        assert_eq!(count(&listener) >= gateways.len() + 2, !denies);
        assert!(!denies || count(&listener) == 0);
        running.stop();
    }
}
