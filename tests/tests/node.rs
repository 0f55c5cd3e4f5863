//! An application in Node.js after the server: kept connections, uploads, events as they happen, WebSockets. What
//! nginx does with it is asked, too.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::node::{Node, have_node};
use tests::site::{Running, Site};
use tests::tls::{Kind as Key, certificate};
use tests::wait;
use tests::websocket::{Frame, Kind, WebSocket};

const PATIENCE: Duration = Duration::from_secs(10);

const UPGRADE: &str =
    "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;";

/// What stands in `http` so that the application is behind `%%PORT%%` in clear and behind `%%PORT_1%%` encrypted.
fn configuration(node: &Node) -> String {
    format!(
        "map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
         upstream node {{ server {}; }}
         client_max_body_size 10m;
         server {{
             listen 127.0.0.1:%%PORT%%;
             listen 127.0.0.1:%%PORT_1%% ssl;
             ssl_certificate %%DIR%%/a.pem;
             ssl_certificate_key %%DIR%%/a.key;
             location / {{ proxy_pass http://node; }}
             location /streamed/ {{ proxy_pass http://node/; proxy_buffering off; proxy_request_buffering off; }}
             location /socket {{ proxy_pass http://node; {UPGRADE} }}
             location /plainly/ {{
                 proxy_pass http://node/;
                 proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade;
                 proxy_set_header Connection \"upgrade\";
             }}
         }}",
        node.address()
    )
}

fn site(configuration: &str) -> Site {
    let made = certificate("localhost", Key::Ecdsa);
    Site::new(configuration).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key)
}

/// Plays a scene in front of Fulmar, and of nginx where there is one, each with its own application.
fn each(scene: impl Fn(&Running, &Node)) {
    if !have_node() {
        return;
    }
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let node = Node::start();
        let running = site(&configuration(&node)).start(server);
        scene(&running, &node);
        running.stop();
    }
}

#[test]
fn many_requests_use_few_connections() {
    each(|running, node| {
        let before = node.counted().connections;
        let address = running.address();
        let client = || {
            thread::spawn(move || {
                let mut client = Client::connect(address);
                for number in 0..100 {
                    let answer = match number % 3 {
                        0 => client.exchange("POST /upload\n\nabc"),
                        1 => client.exchange("GET /chunks?count=3"),
                        _ => client.exchange("GET /nowhere"),
                    };
                    let text = answer.expect("an answer").text();
                    let expected = ["3 96354", "chunk 1\nchunk 2\nchunk 3\n", "nothing here"][number % 3];
                    assert_eq!(text, expected);
                }
            })
        };
        let clients: Vec<_> = (0..4).map(|_| client()).collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let used = node.counted().connections - before - 1;
        assert!((1..=4).contains(&used), "{used} connections for 400 requests of 4 clients");
    });
}

/// What the application says of an upload.
fn summary(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{} {sum}", bytes.len())
}

#[test]
fn uploads_arrive_unchanged() {
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    each(|running, _| {
        for path in ["/upload", "/streamed/upload"] {
            let mut client = running.connect();
            let length = content.len();
            client.send(
                format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").as_bytes(),
            );
            client.send(&content);
            assert_eq!(client.response("POST").unwrap().text(), summary(&content), "{path}");
            client.send(
                format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
            );
            for part in content.chunks(70_001) {
                client.send(format!("{:x}\r\n", part.len()).as_bytes());
                client.send(part);
                client.send(b"\r\n");
            }
            client.send(b"0\r\n\r\n");
            assert_eq!(client.response("POST").unwrap().text(), summary(&content), "{path}, chunked");
        }
    });
}

/// Reads until this text has come.
fn read_until(client: &mut Client, text: &str) {
    while !client.rest().windows(text.len()).any(|part| part == text.as_bytes()) {
        assert!(
            client.read_some(4096) > 0,
            "{text:?} never came: {:?}",
            String::from_utf8_lossy(client.rest())
        );
    }
}

#[test]
fn an_echo_answers_while_it_is_asked() {
    each(|running, _| {
        let mut client = running.connect();
        client.send(b"POST /streamed/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for number in 0..20 {
            client.send(format!("8\r\npart{number:04}\r\n").as_bytes());
            read_until(&mut client, &format!("part{number:04}"));
        }
        client.send(b"0\r\n\r\n");
        assert_eq!(client.response("POST").unwrap().body.len(), 160);
    });
}

#[test]
fn events_come_as_they_happen() {
    each(|running, node| {
        for path in ["/streamed/events", "/events?unbuffered"] {
            let mut client = running.connect();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            read_until(&mut client, ": welcome");
            for number in 0..20 {
                assert_eq!(node.ask(&format!("/tell?text=event{number:04}")), "told");
                read_until(&mut client, &format!("data: event{number:04}\n\n"));
            }
            assert_eq!(node.counted().events, 1);
            drop(client);
            assert!(wait::until(PATIENCE, || node.counted().events == 0), "nobody listens any more");
        }
    });
}

/// A connection, in clear or not.
trait Stream: Read + Write {
    fn leave(&mut self);
}

impl Stream for TcpStream {
    fn leave(&mut self) {
        self.shutdown(Shutdown::Both).expect("shutdown");
    }
}

impl Stream for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn leave(&mut self) {
        self.sock.shutdown(Shutdown::Both).expect("shutdown");
    }
}

fn connect(running: &Running, encrypted: bool) -> Box<dyn Stream> {
    if encrypted {
        return Box::new(tests::tls::Client::new(None).connect(running.address_of(1)).expect("TLS"));
    }
    let stream = TcpStream::connect(running.address()).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_nodelay(true).expect("no delay");
    Box::new(stream)
}

fn open(running: &Running, encrypted: bool) -> WebSocket<Box<dyn Stream>> {
    WebSocket::open(connect(running, encrypted), "/socket").expect("a WebSocket")
}

#[test]
fn websockets_carry_all_kinds_of_frames() {
    each(|running, _| {
        for encrypted in [false, true] {
            for path in ["/socket", "/plainly/socket"] {
                let mut socket = WebSocket::open(connect(running, encrypted), path).expect("a WebSocket");
                socket.say("hello");
                assert_eq!(socket.hear(), "hello");
                let binary: Vec<u8> = (0..=255).collect();
                socket.send(Kind::Binary, true, &binary);
                let frame = Frame { kind: Kind::Binary, last: true, payload: binary };
                assert_eq!(socket.receive(), Some(frame));
                let large = "x".repeat(1_000_000);
                socket.say(&large);
                assert!(socket.hear() == large);
                socket.send(Kind::Text, false, b"one ");
                socket.send(Kind::Ping, true, b"in between");
                socket.send(Kind::Continuation, false, b"two ");
                socket.send(Kind::Continuation, true, b"three");
                let pong = Frame { kind: Kind::Pong, last: true, payload: b"in between".to_vec() };
                assert_eq!(socket.receive(), Some(pong));
                assert_eq!(socket.hear(), "one two three");
                socket.send(Kind::Close, true, &[3, 232]);
                let close = Frame { kind: Kind::Close, last: true, payload: vec![3, 232] };
                assert_eq!(socket.receive(), Some(close));
                assert_eq!(socket.receive(), None);
            }
        }
    });
}

#[test]
fn frames_behind_the_request_are_not_lost() {
    each(|running, _| {
        let early: Vec<Frame> = (0..3)
            .map(|number| Frame { kind: Kind::Text, last: true, payload: format!("early {number}").into() })
            .collect();
        for encrypted in [false, true] {
            let stream = connect(running, encrypted);
            let mut socket = WebSocket::open_with(stream, "/socket", &early).expect("a WebSocket");
            let heard: Vec<String> = (0..3).map(|_| socket.hear()).collect();
            assert_eq!(heard, ["early 0", "early 1", "early 2"]);
        }
    });
}

#[test]
fn without_the_fields_there_is_no_websocket() {
    each(|running, node| {
        let mut client = running.connect();
        client.send(b"GET /fields HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        let answer = client.response("GET").unwrap();
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("upgrade"), "{}", answer.text());
        assert_eq!(node.counted().sockets, 0);
    });
}

#[test]
fn many_websockets_at_once() {
    const COUNT: usize = 200;
    each(|running, node| {
        for encrypted in [false, true] {
            let mut sockets: Vec<_> = (0..COUNT).map(|_| open(running, encrypted)).collect();
            assert_eq!(node.counted().sockets, COUNT);
            for turn in 0..3 {
                for (number, socket) in sockets.iter_mut().enumerate() {
                    socket.say(&format!("{turn} for {number}"));
                }
                for (number, socket) in sockets.iter_mut().enumerate().rev() {
                    assert_eq!(socket.hear(), format!("{turn} for {number}"));
                }
            }
            drop(sockets);
            assert!(wait::until(PATIENCE, || node.counted().sockets == 0), "{:?}", node.counted());
        }
    });
}

#[test]
fn the_end_of_one_side_is_the_end_of_the_other() {
    each(|running, node| {
        for encrypted in [false, true] {
            let mut socket = open(running, encrypted);
            socket.say("please close");
            let close = Frame { kind: Kind::Close, last: true, payload: vec![3, 232] };
            assert_eq!(socket.receive(), Some(close));
            assert_eq!(socket.receive(), None);
            // A tunnel is over when both sides have ended.
            drop(socket);
            let mut socket = open(running, encrypted);
            socket.say("please drop");
            assert_eq!(socket.receive(), None);
            drop(socket);
            assert!(wait::until(PATIENCE, || node.counted().sockets == 0), "{:?}", node.counted());
            let mut socket = open(running, encrypted);
            socket.say("still here");
            assert_eq!(socket.hear(), "still here");
            assert_eq!(node.counted().sockets, 1);
            socket.stream().leave();
            assert!(
                wait::until(PATIENCE, || node.counted().sockets == 0),
                "the application's side stays open"
            );
        }
    });
}

/// A configuration that says what it is called at `/name`.
fn named(node: &Node, name: &str, timeout: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} daemon off; {timeout} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{
             access_log off;
             server {{
                 listen 127.0.0.1:%%PORT%%;
                 location = /name {{ return 200 {name}; }}
                 location / {{
                     proxy_pass http://{};
                     proxy_set_header Upgrade $http_upgrade;
                     proxy_set_header Connection upgrade;
                 }}
             }}
         }}",
        node.address()
    )
}

fn reload(running: &Running, configuration: &str, name: &str) {
    running.rewrite(configuration);
    running.signal(Signal::HUP);
    let said = || running.ask("GET /name\nConnection: close").last().text() == name;
    assert!(wait::until(PATIENCE, said), "{}", running.all_logs());
}

#[test]
fn a_websocket_survives_a_reload() {
    if !have_node() {
        return;
    }
    let node = Node::start();
    let running = Site::whole(&named(&node, "first", "")).start(Server::Fulmar);
    let mut socket = open(&running, false);
    for name in ["second", "third"] {
        reload(&running, &named(&node, name, ""), name);
        socket.say(name);
        assert_eq!(socket.hear(), name);
    }
    let mut other = open(&running, false);
    other.say("new");
    assert_eq!(other.hear(), "new");
    drop((socket, other));
    running.stop();
}

#[test]
fn an_earlier_generation_keeps_a_websocket_for_its_time() {
    if !have_node() {
        return;
    }
    let node = Node::start();
    let timeout = "worker_shutdown_timeout 1s;";
    let running = Site::whole(&named(&node, "first", timeout)).start(Server::Fulmar);
    let mut socket = open(&running, false);
    socket.say("before");
    assert_eq!(socket.hear(), "before");
    reload(&running, &named(&node, "second", timeout), "second");
    assert_eq!(socket.receive(), None);
    assert!(wait::until(PATIENCE, || node.counted().sockets == 0));
    running.stop();
}
