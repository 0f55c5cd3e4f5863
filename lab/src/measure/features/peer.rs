//! The server behind a contender: a little of HTTP, WebSocket, FastCGI, uwsgi and SCGI, enough to see that requests arrive.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use super::gateways;

/// What a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// HTTP/1.1, and what comes after an upgrade is sent back.
    Http,
    /// FastCGI.
    FastCgi,
    /// SCGI.
    Scgi,
    /// uwsgi.
    Uwsgi,
    /// AJP 1.3.
    Ajp,
    /// OCSP over HTTP: one answer to every question.
    Ocsp,
}

/// The content of every answer.
pub(super) const CONTENT: &str = "from behind";

/// What RFC 6455, section 1.3, answers to its example of a key.
pub(super) const KEY_AND_ACCEPT: (&str, &str) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

/// A peer that runs. It ends when this is dropped.
pub(super) struct Peer {
    /// Where it listens.
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What a peer's threads share.
#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// Connections on which a request came.
    used: AtomicU64,
    /// What is answered by OCSP.
    answer: Mutex<Vec<u8>>,
}

/// How long a peer waits for bytes.
const LIMIT: Duration = Duration::from_secs(10);

impl Peer {
    /// Starts one.
    pub(super) fn start(speaks: Speaks) -> Result<Peer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for stream in listener.incoming().flatten() {
                    if shared.ends.load(Ordering::Relaxed) {
                        return;
                    }
                    // A contender may look whether its backend is there and send nothing.
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || serve(speaks, stream, &shared));
                }
            }
        });
        Ok(Peer { address, shared, thread: Some(thread) })
    }

    /// Sets what is answered by OCSP.
    pub(super) fn answers_with(&self, answer: &[u8]) {
        answer.clone_into(&mut self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Connections of HTTP on which requests came.
    pub(super) fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers until the contender goes away; an error of the connection ends it.
fn serve(speaks: Speaks, mut stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    match speaks {
        Speaks::Http => http(&mut stream, &shared.used),
        Speaks::FastCgi => fast_cgi(&mut stream),
        Speaks::Scgi => gateways::scgi(&mut stream),
        Speaks::Uwsgi => gateways::uwsgi(&mut stream),
        Speaks::Ajp => gateways::ajp(&mut stream),
        Speaks::Ocsp => ocsp(&mut stream, &shared.answer),
    }
}

fn ocsp(stream: &mut TcpStream, answer: &Mutex<Vec<u8>>) -> Option<()> {
    let head = head(stream)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).ok()?;
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(&[head.as_bytes(), &answer].concat()).ok()
}

/// The head of a request, in lower case.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

fn http(stream: &mut TcpStream, used: &AtomicU64) -> Option<()> {
    let mut is_first = true;
    loop {
        let head = head(stream)?;
        if std::mem::take(&mut is_first) {
            used.fetch_add(1, Ordering::Relaxed);
        }
        if head.contains("upgrade: websocket") {
            let (_, accept) = KEY_AND_ACCEPT;
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).ok()?;
            return echo(stream);
        }
        let length = CONTENT.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{CONTENT}"
        );
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

fn echo(stream: &mut TcpStream) -> Option<()> {
    let mut buffer = [0; 1024];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        stream.write_all(&buffer[..count]).ok()?;
    }
}

/// Types of records: FastCGI 1.0, section 8.
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// A flag of the record that begins a request.
const KEEP_CONNECTION: u8 = 1;

/// Answers each request when its standard input has ended, and closes where the contender does not ask to keep the
/// connection.
fn fast_cgi(stream: &mut TcpStream) -> Option<()> {
    let mut kept = false;
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        if head[1] == BEGIN_REQUEST {
            kept = content.get(2).is_some_and(|flags| flags & KEEP_CONNECTION != 0);
        }
        if head[1] == STDIN && length == 0 {
            let id = [head[2], head[3]];
            let answer = format!("Content-Type: text/plain\r\n\r\n{CONTENT}");
            let records = [
                record(STDOUT, id, answer.as_bytes()),
                record(STDOUT, id, b""),
                record(END_REQUEST, id, &[0; 8]),
            ];
            stream.write_all(&records.concat()).ok()?;
            if !kept {
                return Some(());
            }
        }
    }
}

fn record(kind: u8, id: [u8; 2], content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or_default().to_be_bytes();
    [&[1, kind, id[0], id[1], length[0], length[1], 0, 0], content].concat()
}
