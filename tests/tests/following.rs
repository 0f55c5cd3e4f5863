//! Requests for a response that another request is getting: they read it as it comes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use tests::binary::Server;
use tests::crowd::allowed;
use tests::site::{Running, Site};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(30);

/// A server that sends the parts of one response as the test says.
pub(super) struct Origin {
    port: u16,
    count: Arc<AtomicUsize>,
    parts: Sender<Vec<u8>>,
}

impl Origin {
    /// Sends each part that it is given, and closes the connection at an empty one.
    pub(super) fn start() -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, (parts, given)) = (Arc::new(AtomicUsize::new(0)), channel());
        let (counted, given) = (Arc::clone(&count), Arc::new(Mutex::new(given)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counted, given) = (Arc::clone(&counted), Arc::clone(&given));
                thread::spawn(move || send_parts(stream, &counted, &given.lock().unwrap()));
            }
        });
        Origin { port, count, parts }
    }

    pub(super) fn send(&self, part: &[u8]) {
        self.parts.send(part.to_vec()).unwrap();
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn site(&self) -> Running {
        self.page().start(Server::Fulmar)
    }

    /// A site that asks this server.
    pub(super) fn page(&self) -> Site {
        Site::new(&self.configuration())
    }

    /// The same with two threads, and room for many clients.
    fn crowded(&self) -> Running {
        let user = if geteuid().is_root() { "user root;" } else { "" };
        let main = "daemon off; worker_processes 2; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info;";
        let http = format!("access_log %%LOGS%%/access.log; {}", self.configuration());
        let text = format!("{main} {user} events {{ worker_connections 4096; }} http {{ {http} }}");
        Site::whole(&text).start(Server::Fulmar)
    }

    fn configuration(&self) -> String {
        let text = "proxy_cache_path %%LOGS%%/cache keys_zone=one:1m;
            server {
                listen 127.0.0.1:%%PORT%%;
                add_header X-Cache $upstream_cache_status always;
                location / {
                    proxy_pass http://127.0.0.1:ORIGIN;
                    proxy_cache one; proxy_cache_lock on; proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s;
                }
            }";
        text.replace("ORIGIN", &self.port.to_string())
    }
}

fn send_parts(mut stream: TcpStream, counted: &AtomicUsize, given: &Receiver<Vec<u8>>) {
    let mut request = [0; 4096];
    if !matches!(stream.read(&mut request), Ok(1..)) {
        return;
    }
    counted.fetch_add(1, Ordering::SeqCst);
    while let Ok(part) = given.recv() {
        if part.is_empty() || stream.write_all(&part).is_err() {
            return;
        }
    }
}

/// A client, and what it received.
pub(super) struct Reader {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Reader {
    pub(super) fn ask(running: &Running, fields: &str) -> Reader {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Reader { stream, received: Vec::new() }
    }

    /// Reads until a text is there.
    pub(super) fn wait_for(&mut self, text: &str) {
        let mut buffer = [0; 65536];
        while !self.text().contains(text) {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the end came after {:?}", self.text());
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Reads to the end of the connection.
    pub(super) fn rest(mut self) -> String {
        self.stream.read_to_end(&mut self.received).unwrap();
        self.text()
    }
}

pub(super) fn head(rest: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nAccept-Ranges: bytes\r\n{rest}\r\n\r\n")
        .into_bytes()
}

#[test]
fn all_clients_get_the_first_bytes_as_they_arrive() {
    let clients = allowed(1_000);
    let origin = Origin::start();
    let running = origin.crowded();
    let mut first = Reader::ask(&running, "");
    origin.send(&head("Content-Length: 11"));
    origin.send(b"first");
    first.wait_for("first");
    let mut readers: Vec<Reader> = (0..clients).map(|_| Reader::ask(&running, "")).collect();
    let mut part = Reader::ask(&running, "Range: bytes=3-7\r\n");
    readers.iter_mut().for_each(|reader| reader.wait_for("first"));
    part.wait_for("st");
    assert_eq!(origin.count(), 1);
    origin.send(b"second");
    for text in readers.into_iter().map(Reader::rest) {
        assert!(text.contains("X-Cache: HIT") && text.contains("Content-Length: 11"), "{text}");
        assert!(text.ends_with("\r\n\r\nfirstsecond"), "{text}");
    }
    assert!(first.rest().ends_with("\r\n\r\nfirstsecond"));
    let part = part.rest();
    assert!(
        part.contains(" 206 ") && part.contains("bytes 3-7/11") && part.ends_with("\r\n\r\nstsec"),
        "{part}"
    );
    assert!(Reader::ask(&running, "").rest().ends_with("firstsecond"));
    assert_eq!(origin.count(), 1);
    running.stop();
}

#[test]
fn a_content_of_unknown_length_is_awaited_to_its_end() {
    let origin = Origin::start();
    let running = origin.site();
    let mut first = Reader::ask(&running, "");
    origin.send(&head("Transfer-Encoding: chunked"));
    origin.send(b"5\r\nfirst\r\n");
    first.wait_for("first");
    let second = Reader::ask(&running, "");
    origin.send(b"6\r\nsecond\r\n0\r\n\r\n");
    let text = second.rest();
    assert!(text.contains("X-Cache: HIT") && text.ends_with("\r\n\r\nfirstsecond"), "{text}");
    assert_eq!(origin.count(), 1);
    running.stop();
}

#[test]
fn a_client_that_reads_nothing_or_leaves_holds_up_no_other_one() {
    const LENGTH: usize = 16 << 20;
    let origin = Origin::start();
    let running = origin.site();
    let mut first = Reader::ask(&running, "");
    origin.send(&head(&format!("Content-Length: {LENGTH}")));
    origin.send(b"first");
    first.wait_for("first");
    let mut idle = Reader::ask(&running, "");
    idle.wait_for("first");
    let mut busy = Reader::ask(&running, "");
    busy.wait_for("first");
    drop(first);
    origin.send(&vec![b'x'; LENGTH - 5]);
    let text = busy.rest();
    let content = text.split_once("\r\n\r\n").unwrap().1;
    assert!(content.len() == LENGTH && content.starts_with("first") && content.ends_with('x'));
    assert_eq!(idle.rest().split_once("\r\n\r\n").unwrap().1, content);
    assert_eq!(origin.count(), 1);
    running.stop();
}

#[test]
fn a_content_that_is_cut_off_ends_those_who_read_it() {
    let origin = Origin::start();
    let running = origin.site();
    let mut first = Reader::ask(&running, "");
    origin.send(&head("Content-Length: 11"));
    origin.send(b"first");
    first.wait_for("first");
    let mut second = Reader::ask(&running, "");
    second.wait_for("first");
    origin.send(b"");
    let text = second.rest();
    assert!(text.contains("Content-Length: 11") && text.ends_with("\r\n\r\nfirst"), "{text}");
    first.rest();
    let is_gone = || fs::read_dir(running.log_path("cache")).unwrap().count() == 0;
    assert!(wait::until(LIMIT, is_gone), "nothing stays of it");
    let mut third = Reader::ask(&running, "");
    origin.send(&head("Content-Length: 3"));
    origin.send(b"new");
    third.wait_for("new");
    assert_eq!(origin.count(), 2);
    running.stop();
}
