//! WebSockets over HTTP/2 (RFC 8441) with the usual recipe for those over HTTP/1.

use super::raw::{DATA, HEADERS, Raw, SETTINGS, WINDOW, field, frame, window};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use tests::binary::Server;
use tests::node::{Node, have_node};
use tests::site::{Running, Site};
use tests::wait;
use tests::websocket::{Frame, Kind, WebSocket};

const PATIENCE: Duration = Duration::from_secs(20);

/// The first bytes of the blocks of responses: `:status`, from the static table or encoded.
const OK: &[u8] = &[0x88];
const NOT_FOUND: &[u8] = &[0x8d];
const NOT_IMPLEMENTED: &[u8] = &[0x08, 0x82, 0x6c, 0x01];
const BAD_GATEWAY: &[u8] = &[0x08, 0x82, 0x6c, 0x02];

/// How much content of one stream the server takes before it says so (`http2_body_preread_size`).
const FIRST_WINDOW: usize = 64 * 1024;

/// A stream after its request was answered.
struct Stream {
    client: Raw,
    input: Vec<u8>,
    room: usize,
    /// Whether the server ended it in order.
    has_ended: bool,
}

impl Stream {
    /// Takes a frame into account.
    fn read_frame(&mut self) -> bool {
        let Some(frame) = self.client.next() else { return false };
        match frame.kind {
            DATA => {
                self.has_ended = frame.ends();
                self.input.extend_from_slice(&frame.payload);
                if let Some(length) = u32::try_from(frame.payload.len()).ok().filter(|length| *length > 0) {
                    self.client.send(&[window(0, length), window(1, length)].concat());
                }
            }
            WINDOW if frame.stream == 1 => self.room += frame.number(0) as usize,
            WINDOW => {}
            kind => panic!("a frame of type {kind}: {:?}", frame.payload),
        }
        !self.has_ended
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.input.is_empty() && self.read_frame() {}
        let count = buffer.len().min(self.input.len());
        buffer[..count].copy_from_slice(&self.input[..count]);
        self.input.drain(..count);
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        while self.room == 0 {
            assert!(self.read_frame(), "the stream goes on");
        }
        let count = bytes.len().min(self.room).min(10_000);
        self.client.send(&frame(DATA, 0, 1, &bytes[..count]));
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn site(upstream: &str) -> Site {
    Site::new(&format!(
        "map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             http2 on;
             client_max_body_size 10;
             proxy_http_version 1.1;
             proxy_set_header Upgrade $http_upgrade;
             proxy_set_header Connection $connection_upgrade;
             location / {{ proxy_pass http://{upstream}; }}
             location /page {{ return 200 text; }}
             location /nothing {{ return 404; }}
             location /hidden {{ error_page 501 =200 /page; return 200 text; }}
         }}"
    ))
}

/// Asks for a WebSocket; gives the block of the answer.
fn open(running: &Running, path: &str) -> (Stream, Vec<u8>) {
    let mut client = Raw::connect(running.address(), 1 << 20);
    let block: Vec<u8> = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("sec-websocket-version", "13"),
    ]
    .iter()
    .flat_map(|(name, value)| field(name, value.as_bytes()))
    .collect();
    client.send(&frame(HEADERS, 4, 1, &block));
    let head = client.find(|frame| frame.kind == HEADERS).payload;
    (Stream { client, input: Vec::new(), room: FIRST_WINDOW, has_ended: false }, head)
}

#[test]
fn a_websocket_carries_messages_both_ways() {
    if !have_node() {
        return;
    }
    let node = Node::start();
    let running = site(&node.address().to_string()).start(Server::Fulmar);
    let (stream, head) = open(&running, "/socket");
    assert!(head.starts_with(OK), "{head:x?}");
    let mut socket = WebSocket::opened(stream);
    socket.say("hello");
    assert_eq!(socket.hear(), "hello");
    let large = "large ".repeat(50_000);
    socket.say(&large);
    assert!(socket.hear() == large);
    socket.send(Kind::Ping, true, b"ping");
    assert_eq!(socket.receive(), Some(Frame { kind: Kind::Pong, last: true, payload: b"ping".to_vec() }));
    socket.send(Kind::Close, true, &[3, 232]);
    assert_eq!(socket.receive().map(|frame| frame.kind), Some(Kind::Close));
    assert_eq!(socket.receive(), None);
    assert!(socket.stream().has_ended, "the stream ends in order");
    drop(socket);
    running.stop();
}

/// A browser ends its side together with its closing frame, and waits for that of the server.
#[test]
fn a_websocket_closes_in_order_after_the_end_of_the_clients_side() {
    if !have_node() {
        return;
    }
    let node = Node::start();
    let running = site(&node.address().to_string()).start(Server::Fulmar);
    let (mut stream, head) = open(&running, "/socket");
    assert!(head.starts_with(OK), "{head:x?}");
    stream.client.send(&frame(DATA, 1, 1, &[0x88, 0x80, 1, 2, 3, 4]));
    let mut socket = WebSocket::opened(stream);
    assert_eq!(socket.receive().map(|frame| frame.kind), Some(Kind::Close));
    assert_eq!(socket.receive(), None);
    assert!(socket.stream().has_ended, "the stream ends in order");
    drop(socket);
    running.stop();
}

/// What the server says after the end of the client's side arrives, and the other way round.
#[test]
fn each_side_of_a_websocket_may_end_first() {
    if !have_node() {
        return;
    }
    let node = Node::start();
    let running = site(&node.address().to_string()).start(Server::Fulmar);
    let (mut stream, head) = open(&running, "/last");
    assert!(head.starts_with(OK), "{head:x?}");
    stream.client.send(&frame(DATA, 1, 1, b"all that I say"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer == "14 bytes" && stream.has_ended, "{answer}");
    let (mut stream, head) = open(&running, "/first");
    assert!(head.starts_with(OK), "{head:x?}");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer == "first" && stream.has_ended, "{answer}");
    stream.client.send(&frame(DATA, 1, 1, b"still here"));
    assert!(wait::until(PATIENCE, || node.ask("/last") == "10"), "{}", node.ask("/last"));
    drop(stream);
    running.stop();
}

/// A success would be taken for an open WebSocket.
#[test]
fn what_opens_no_websocket_is_no_success() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap().to_string();
    let answers = thread::spawn(move || {
        // The key of each request is another one.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let answer = "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
            let head = String::from_utf8(head).unwrap().to_lowercase();
            assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
            assert!(head.contains("\r\nsec-websocket-key: "), "{head}");
        }
    });
    let running = site(&upstream).start(Server::Fulmar);
    for (path, status) in [
        ("/page", NOT_IMPLEMENTED),
        ("/hidden", NOT_IMPLEMENTED),
        ("/nothing", NOT_FOUND),
        ("/wrong", BAD_GATEWAY),
        ("/wrong", BAD_GATEWAY),
    ] {
        let (_, head) = open(&running, path);
        assert!(head.starts_with(status), "{path} {head:x?}");
    }
    answers.join().unwrap();
    running.stop();
}

#[test]
fn the_settings_say_that_websockets_are_served() {
    let running = site("127.0.0.1:1").start(Server::Fulmar);
    let (mut client, settings) = Raw::connect_with_settings(running.address(), 1000);
    assert!(settings.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1]), "{settings:?}");
    assert_eq!(settings.len() % 6, 0);
    assert!(client.ping().iter().all(|frame| frame.kind != SETTINGS));
    drop(client);
    running.stop();
}
