//! Requests passed to servers that fail, lie, stall or go away, and what only Fulmar is asked.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tests::binary::Server;
use tests::origin::{After, Asked, Origin, Reply, Wire, ok, raw};
use tests::site::{Running, Site};
use tests::{over_both, wait};

over_both! {
    what_is_no_response_is_502_and_one_line
    a_stalling_server_is_504_and_a_slow_one_is_waited_for
    content_that_is_cut_is_never_taken_for_whole
    content_where_none_can_be_is_ignored
    connections_are_kept_and_a_closed_one_costs_nothing
    the_next_server_where_the_policy_says_so
    a_client_that_leaves_frees_the_server
    a_client_that_leaves_with_more_said_frees_the_server
    long_content_goes_both_ways
    protocols_change_only_after_101_and_only_when_asked
}

const PATIENCE: Duration = Duration::from_secs(5);

fn start(origin: &Origin, http: &str) -> Running {
    let address = origin.address().to_string();
    Site::new(&http.replace("ORIGIN", &address).replace("SCHEME", origin.scheme())).start(Server::Fulmar)
}

/// The content of the answer to one request on a separate connection.
fn text(running: &Running, short: &str) -> String {
    running.connect().exchange(short).unwrap().text()
}

/// All bytes that come until the connection ends. A reset may overtake the response of the upstream: then there is an error
/// page, and the connection may stay.
fn until_end(running: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !(bytes.starts_with(b"HTTP/1.1 502 ") && bytes.ends_with(b"</html>\r\n")) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{path} stays open after {}: {error}", bytes.escape_ascii()),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// One location in front of the origin.
fn simple(origin: &Origin, settings: &str) -> Running {
    start(
        origin,
        &format!(
            "log_format up '$status $upstream_status';
             access_log %%LOGS%%/access.log up;
             upstream u {{ server ORIGIN; }}
             server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass SCHEME://u; {settings} }} }}"
        ),
    )
}

fn what_is_no_response_is_502_and_one_line(wire: Wire) {
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "X-A: b\r\n".repeat(10_000));
    let origin = Origin::over(wire, move |asked| match &*asked.target {
        "/closed" => raw("", After::Close),
        "/reset" => raw("HTTP/1.1 200 O", After::Reset),
        "/half" => raw("HTTP/1.1 200 OK\r\nContent-Le", After::Close),
        "/garbage" => raw("<html>hello</html>", After::Close),
        "/twolengths" => {
            raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", After::Close)
        }
        "/both" => {
            raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", After::Close)
        }
        "/coding" => raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", After::Close),
        "/endless" => (endless.clone().into_bytes(), After::Hang),
        "/interim" => ("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000).into_bytes(), After::Hang),
        "/unasked" => raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", After::Hang),
        _ => ok("fine"),
    });
    let running = simple(&origin, "");
    for (path, line) in [
        ("/closed", "upstream prematurely closed connection while reading response header from upstream"),
        ("/reset", "recv() failed (104: Connection reset by peer) while reading response header"),
        ("/half", "upstream prematurely closed connection while reading response header from upstream"),
        ("/garbage", "upstream sent no valid HTTP/1.0 header while reading response header"),
        ("/twolengths", "upstream sent duplicate header line: \"Content-Length\""),
        ("/both", "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"),
        ("/coding", "upstream sent unknown \"Transfer-Encoding\": \"gzip\""),
        ("/endless", "header while reading response header from upstream, \"proxy_buffer_size\" limits it"),
        ("/interim", "upstream sent too many interim responses"),
        ("/unasked", "upstream switched protocols unasked"),
    ] {
        let before = running.log("error.log").matches("[error]").count();
        assert_eq!(running.ask(&format!("GET {path}")).last().status, 502, "{path}");
        let log = running.log("error.log");
        assert_eq!(log.matches("[error]").count(), before + 1, "{path}\n{log}");
        let told = log.lines().last().unwrap_or_default();
        assert!(told.contains(line), "{path}: {told}");
        assert!(
            told.contains(&format!("upstream: \"{}://{}{path}\"", origin.scheme(), origin.address())),
            "{told}"
        );
    }
    assert_eq!(running.ask("GET /fine").last().text(), "fine");
    running.stop();
}

fn a_stalling_server_is_504_and_a_slow_one_is_waited_for(wire: Wire) {
    let origin = Origin::over(wire, |asked| match &*asked.target {
        "/stalls" => raw("", After::Hang),
        "/late" => raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", After::Hang),
        _ => ok("fine"),
    });
    let running = simple(&origin, "proxy_read_timeout 300ms;");
    assert_eq!(running.ask("GET /stalls").last().status, 504);
    running.wait_for_log(
        "error.log",
        "upstream timed out (110: Connection timed out) while reading response header from upstream",
    );
    let mut client = running.connect();
    client.send(b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    running
        .wait_for_log("error.log", "upstream timed out (110: Connection timed out) while reading upstream");
    assert_eq!(running.ask("GET /fine").last().status, 200);
    running.stop();
}

fn content_that_is_cut_is_never_taken_for_whole(wire: Wire) {
    let origin = Origin::over(wire, |asked| match &*asked.target {
        "/short" => raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", After::Close),
        "/chunks" => raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", After::Close),
        "/badchunk" => {
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n", After::Keep)
        }
        "/reset" => raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", After::Reset),
        "/long" => raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", After::Keep),
        _ => ok("fine"),
    });
    for buffering in ["on", "off"] {
        let running = simple(&origin, &format!("proxy_buffering {buffering};"));
        for path in ["/short", "/chunks", "/badchunk", "/reset"] {
            let text = until_end(&running, path);
            assert!(
                !text.ends_with("0\r\n\r\n") && text.matches("abcdefghij").count() == 0,
                "{path}: {text}"
            );
        }
        let before = origin.connections();
        assert_eq!(text(&running, "GET /long"), "abc");
        assert_eq!(text(&running, "GET /fine"), "fine");
        assert_eq!(
            origin.connections(),
            before + 2,
            "a connection with more than was asked is not used again"
        );
        running.wait_for_log("error.log", "upstream sent more data than its response has");
        running.stop();
    }
}

fn content_where_none_can_be_is_ignored(wire: Wire) {
    let origin = Origin::over(wire, |asked| match &*asked.target {
        "/nothing" => raw("HTTP/1.1 204 No Content\r\n\r\nevil", After::Keep),
        "/same" => raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil", After::Keep),
        "/head" => raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", After::Keep),
        _ => ok("fine"),
    });
    let running = simple(&origin, "");
    for (request, status) in [("GET /nothing", 204), ("GET /same", 304), ("HEAD /head", 200)] {
        let answer = running.ask(request);
        assert_eq!((answer.statuses(), answer.last().body.len()), (vec![status], 0), "{request}");
        assert_eq!(running.ask("GET /fine").last().text(), "fine", "after {request}");
    }
    running.stop();
}

fn connections_are_kept_and_a_closed_one_costs_nothing(wire: Wire) {
    let origin = Origin::over(wire, |asked: &Asked| match (&*asked.target, asked.before) {
        ("/dies", 1..) => raw("", After::Close),
        _ => ok(asked.before.to_string()),
    });
    let running = simple(&origin, "");
    assert_eq!(text(&running, "GET /a"), "0");
    assert_eq!(text(&running, "GET /a"), "1");
    assert_eq!(text(&running, "POST /a\n\nx"), "2");
    assert_eq!(origin.connections(), 1);
    assert_eq!(text(&running, "GET /dies"), "0", "asked again on a separate connection");
    assert_eq!(origin.connections(), 2);
    assert_eq!(running.ask("POST /dies\n\nx").last().status, 502, "it may have had its effect");
    running.stop();
    let running = start(
        &origin,
        "upstream u { server ORIGIN; keepalive 0; }
         server { listen 127.0.0.1:%%PORT%%; location / { proxy_pass SCHEME://u; } }",
    );
    assert_eq!(text(&running, "GET /a"), "0");
    assert_eq!(text(&running, "GET /a"), "0");
    running.stop();
}

fn the_next_server_where_the_policy_says_so(wire: Wire) {
    let bad = Origin::over(wire, |asked| match &*asked.target {
        "/dies" => raw("", After::Close),
        "/broken" => raw("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", After::Keep),
        "/garbage" => raw("garbage", After::Close),
        _ => ok("bad"),
    });
    let good = Origin::over(wire, |_| ok("good"));
    let http = "log_format up '$upstream_status';
        access_log %%LOGS%%/access.log up;
        upstream u { server BAD max_fails=0; server GOOD backup; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { proxy_pass SCHEME://u; }
            location /off/ { rewrite ^/off(.*)$ $1 break; proxy_pass SCHEME://u; proxy_next_upstream off; }
            location /all/ {
                rewrite ^/all(.*)$ $1 break;
                proxy_pass SCHEME://u;
                proxy_next_upstream error invalid_header http_503 non_idempotent;
            }
            location /once/ {
                rewrite ^/once(.*)$ $1 break;
                proxy_pass SCHEME://u;
                proxy_next_upstream_tries 1;
            }
        }";
    let http = http.replace("BAD", &bad.address().to_string()).replace("GOOD", &good.address().to_string());
    let http = http.replace("SCHEME", good.scheme());
    let running = Site::new(&http).start(Server::Fulmar);
    for (request, status, text) in [
        ("GET /", 200, "bad"),
        ("GET /dies", 200, "good"),
        ("POST /dies\n\nx", 502, ""),
        ("GET /broken", 503, ""),
        ("GET /garbage", 502, ""),
        ("GET /off/dies", 502, ""),
        ("GET /once/dies", 502, ""),
        ("GET /all/broken", 200, "good"),
        ("GET /all/garbage", 200, "good"),
        ("POST /all/dies\n\nx", 200, "good"),
    ] {
        let answer = running.ask(request);
        assert_eq!(answer.last().status, status, "{request}");
        assert!(status != 200 || answer.last().text() == text, "{request}: {}", answer.last().text());
    }
    running.stop_and(|running| assert!(running.log("access.log").contains("503, 200\n")));
}

#[test]
fn a_server_that_failed_is_left_alone() {
    let good = Origin::start(|_| ok("good"));
    let running = start(
        &good,
        "upstream u { server 127.0.0.1:1; server ORIGIN; }
         upstream dead { server 127.0.0.1:1; server 127.0.0.1:2; }
         server {
             listen 127.0.0.1:%%PORT%%;
             location / { proxy_pass http://u; }
             location /dead { proxy_pass http://dead; }
         }",
    );
    for _ in 0..6 {
        assert_eq!(running.ask("GET /").last().text(), "good");
    }
    assert_eq!(running.ask("GET /dead").last().status, 502);
    assert_eq!(running.ask("GET /dead").last().status, 502);
    let log = running.log("error.log");
    assert_eq!(log.matches("connect() failed (111: Connection refused)").count(), 3, "{log}");
    assert!(log.contains("no live upstreams while connecting to upstream"), "{log}");
    assert!(log.contains("upstream server temporarily disabled"), "{log}");
    running.stop();
}

fn a_client_that_leaves_frees_the_server(wire: Wire) {
    let origin = Origin::over(wire, |_| raw("", After::Hang));
    let running = simple(&origin, "");
    let mut client = running.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait::until(PATIENCE, || origin.open() == 1));
    drop(client);
    assert!(wait::until(PATIENCE, || origin.open() == 0), "the origin still waits");
    running.wait_for_log("access.log", "499 -");
    running.stop();
}

fn a_client_that_leaves_with_more_said_frees_the_server(wire: Wire) {
    let origin = Origin::over(wire, |_| raw("", After::Hang));
    let running = simple(&origin, "");
    let mut client = running.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait::until(PATIENCE, || origin.open() == 1));
    client.send(b"GET /next HTTP/1.1\r\n");
    assert!(!client.closes_within(Duration::from_millis(100)) && origin.open() == 1, "the client is there");
    drop(client);
    assert!(wait::until(PATIENCE, || origin.open() == 0), "the origin still waits");
    running.wait_for_log("access.log", "499 -");
    running.stop();
}

fn long_content_goes_both_ways(wire: Wire) {
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let copy = content.clone();
    let origin = Origin::over(wire, move |asked: &Asked| match &*asked.target {
        "/length" => ok(asked.text.len().to_string()),
        _ => ok(&copy),
    });
    for settings in
        ["", "proxy_buffering off;", "proxy_max_temp_file_size 0;", "proxy_max_temp_file_size 64k;"]
    {
        let running = simple(&origin, &format!("client_max_body_size 10m; {settings}"));
        let answer = running.ask("GET /content");
        assert!(answer.last().body == content, "{settings}");
        let mut client = running.connect();
        client.send(
            format!("POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len())
                .as_bytes(),
        );
        client.send(&content);
        let length: usize = client.response("POST").unwrap().text().parse().unwrap();
        assert!(length > content.len(), "{settings}: {length}");
        running.wait_for_log("error.log", "a client request body is buffered to a temporary file in ");
        running.stop();
    }
}

#[test]
fn a_server_need_not_wait_for_a_slow_client() {
    let origin = Origin::start(|_| (ok(vec![7; 8_000_000]).0, After::Close));
    let running = simple(&origin, "");
    let mut client = running.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(wait::until(PATIENCE, || origin.connections() == 1 && origin.open() == 0), "it had to wait");
    assert_eq!(client.response("GET").unwrap().body.len(), 8_000_000);
    let told =
        running.log("error.log").matches("an upstream response is buffered to a temporary file in ").count();
    assert_eq!(told, 1);
    running.stop();
}

fn websocket(asked: &Asked) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).to_ascii_lowercase();
    if asked.target == "/refuses" || !text.contains("upgrade: test") {
        return ok("no tunnel");
    }
    raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: upgrade\r\n\r\nhi", After::Echo)
}

fn protocols_change_only_after_101_and_only_when_asked(wire: Wire) {
    let origin = Origin::over(wire, websocket);
    let running =
        simple(&origin, "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\";");
    let ask = |path: &str| {
        let mut client = running.connect();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n");
        client.send(head.as_bytes());
        client
    };
    let mut client = ask("/socket");
    let head = client.response("GET").unwrap();
    assert_eq!((head.status, head.field("Upgrade")), (101, Some("test")));
    client.send(b" there");
    client.read_some(8);
    assert!(b"hi there".ends_with(client.rest()) && client.rest().len() >= 6);
    drop(client);
    let mut client = ask("/refuses");
    assert_eq!(client.response("GET").unwrap().text(), "no tunnel");
    client.send(b"GET /socket HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").unwrap().text(), "no tunnel", "the connection still speaks HTTP");
    running.stop();
}

#[test]
fn fields_of_the_connection_end_here() {
    let origin = Origin::start(|asked| ok(&asked.text));
    let running = simple(&origin, "proxy_set_header X-Real-IP $remote_addr;");
    let answer = running.ask(
        "GET /\nConnection: close, X-Mine, X-Real-IP, Host, Authorization\nX-Mine: 1\nX-Real-IP: 6.6.6.6\n\
         Authorization: Basic eA==\nX-Accel-Mapping: /=/etc\nKeep-Alive: 5\nTE: trailers\nX-Other: 2",
    );
    let text = answer.last().text();
    assert!(text.contains("Host: u\r\n") && text.contains("X-Real-IP: 127.0.0.1\r\n"), "{text}");
    assert!(text.contains("X-Other: 2\r\n"), "{text}");
    for gone in ["X-Mine", "6.6.6.6", "Authorization", "X-Accel", "Keep-Alive", "TE:", "Connection"] {
        assert!(!text.contains(gone), "{gone} in {text}");
    }
    running.stop();
}

#[test]
fn what_cannot_be_is_said_at_load() {
    for (http, message) in [
        ("proxy_pass ftp://127.0.0.1;", "invalid URL prefix"),
        ("proxy_pass http://no-such-host.invalid;", "host not found in upstream \"no-such-host.invalid\""),
        ("if ($x) { proxy_pass http://127.0.0.1/uri; }", "\"proxy_pass\" cannot have URI part in location"),
        ("proxy_pass http://127.0.0.1; proxy_buffers 1 4k;", "there must be at least 2 \"proxy_buffers\""),
    ] {
        let site = Site::new(&format!(
            "map $uri $x {{ }} server {{ listen 127.0.0.1:%%PORT%%; location / {{ {http} }} }}"
        ));
        let text = site.test(Server::Fulmar).unwrap_err();
        assert!(text.contains(message), "{http}: {text}");
    }
}
