//! An application for FastCGI, SCGI or uwsgi, which may be over TLS, that misbehaves as a test wants: bytes in, bytes
//! out, whatever they are.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::origin::{Connection, Wire};

/// A request never takes longer to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an application speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Records.
    FastCgi,
    /// A netstring with the parameters, then the body.
    Scgi,
    /// Four bytes and the parameters, then the body.
    Uwsgi,
    /// The same over TLS.
    UwsgiOverTls,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 4] =
        [Language::FastCgi, Language::Scgi, Language::Uwsgi, Language::UwsgiOverTls];

    /// How its directives begin.
    pub fn name(self) -> &'static str {
        match self {
            Language::FastCgi => "fastcgi",
            Language::Scgi => "scgi",
            Language::Uwsgi | Language::UwsgiOverTls => "uwsgi",
        }
    }

    /// The directive that passes requests to this place.
    pub fn pass(self, place: impl Display) -> String {
        let scheme = if self == Language::UwsgiOverTls { "suwsgi://" } else { "" };
        format!("{}_pass {scheme}{place};", self.name())
    }

    /// An answer with this head and body, as an application sends it.
    pub fn answer(self, text: &str) -> Vec<u8> {
        if self == Language::FastCgi { answer(text) } else { text.as_bytes().to_vec() }
    }

    fn wire(self) -> Wire {
        if self == Language::UwsgiOverTls { Wire::Tls } else { Wire::Clear }
    }
}

/// A request as the application read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether the connection is to be kept.
    pub keep: bool,
    /// The parameters; of those with one name the last.
    pub params: BTreeMap<String, String>,
    /// The names of the parameters in their order.
    pub names: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A parameter, empty where there is none.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
}

/// A listening application. Its thread ends with the test's process.
#[derive(Debug)]
pub struct Application {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Application {
    /// Starts one that speaks FastCGI. `answer` is given each request and the connection, which closes when it returns `false`.
    pub fn start(
        answer: impl Fn(&Request, &mut dyn Connection) -> bool + Send + Sync + 'static,
    ) -> Application {
        Application::speaking(Language::FastCgi, answer)
    }

    /// As [`Application::start`], with another protocol.
    pub fn speaking(
        language: Language,
        answer: impl Fn(&Request, &mut dyn Connection) -> bool + Send + Sync + 'static,
    ) -> Application {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let application =
            Application { address, connections: Arc::clone(&connections), requests: Arc::clone(&requests) };
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(PATIENCE));
                    let _ = stream.set_nodelay(true);
                    serve(language, &mut *language.wire().accept(stream), &*answer, &requests);
                });
            }
        });
        application
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// All requests that were read to their end.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("requests").clone()
    }
}

fn serve(
    language: Language,
    stream: &mut dyn Connection,
    answer: &dyn Fn(&Request, &mut dyn Connection) -> bool,
    requests: &Mutex<Vec<Request>>,
) {
    let read = match language {
        Language::FastCgi => read_request,
        Language::Scgi => read_scgi,
        Language::Uwsgi | Language::UwsgiOverTls => read_uwsgi,
    };
    while let Some(request) = read(stream) {
        requests.lock().expect("requests").push(request.clone());
        if !answer(&request, stream) {
            return stream.end();
        }
    }
}

/// A record, with `padding` bytes after its content.
pub fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("a record's length").to_be_bytes();
    let header = [1, kind, 0, 1, high, low, padding, 0];
    [&header[..], content, &vec![b'P'; usize::from(padding)]].concat()
}

/// Standard output in records.
pub fn stdout(content: &str) -> Vec<u8> {
    content.as_bytes().chunks(65_535).flat_map(|part| record(6, part, 3)).collect()
}

/// A message on standard error.
pub fn stderr(content: &str) -> Vec<u8> {
    record(7, content.as_bytes(), 0)
}

/// The end of standard output and of the request.
pub fn end() -> Vec<u8> {
    [record(6, b"", 0), record(3, &[0; 8], 0)].concat()
}

/// A whole answer.
pub fn answer(content: &str) -> Vec<u8> {
    [stdout(content), end()].concat()
}

/// The next request; none when the connection ends before its end.
fn read_request(stream: &mut dyn Connection) -> Option<Request> {
    let mut request = Request::default();
    let mut params = Vec::new();
    loop {
        let (kind, content) = read_record(stream)?;
        match (kind, content.is_empty()) {
            (1, _) => request.keep = content[2] & 1 == 1,
            (4, false) => params.extend_from_slice(&content),
            (4, true) => read_params(&params, &mut request),
            (5, false) => request.body.extend_from_slice(&content),
            (5, true) => return Some(request),
            _ => panic!("a record of kind {kind} from a server"),
        }
    }
}

fn read_record(stream: &mut dyn Connection) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    stream.read_exact(&mut header).ok()?;
    let [version, kind, id_high, id_low, high, low, padding, _] = header;
    assert_eq!((version, id_high, id_low), (1, 0, 1));
    let length = usize::from(u16::from_be_bytes([high, low]));
    let mut content = vec![0; length + usize::from(padding)];
    stream.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((kind, content))
}

fn read_params(mut stream: &[u8], request: &mut Request) {
    while !stream.is_empty() {
        let (name, value) = (take_length(&mut stream), take_length(&mut stream));
        let (name, rest) = stream.split_at(name);
        let (value, rest) = rest.split_at(value);
        add(request, name, value);
        stream = rest;
    }
}

fn take_length(stream: &mut &[u8]) -> usize {
    let (taken, rest) = stream.split_at(if stream[0] < 128 { 1 } else { 4 });
    *stream = rest;
    taken.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)) & 0x7fff_ffff
}

fn read_scgi(stream: &mut dyn Connection) -> Option<Request> {
    let mut digits = String::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).ok()?;
        if byte == *b":" {
            break;
        }
        digits.push(byte[0].into());
    }
    let mut block = vec![0; digits.parse::<usize>().expect("a length") + 1];
    stream.read_exact(&mut block).ok()?;
    assert!(block.ends_with(b"\0,"), "a netstring of pairs");
    let mut request = Request::default();
    let mut parts = block[..block.len() - 2].split(|&byte| byte == 0);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        add(&mut request, name, value);
    }
    assert_eq!(request.names.first().map(String::as_str), Some("CONTENT_LENGTH"));
    read_body(stream, request)
}

fn read_uwsgi(stream: &mut dyn Connection) -> Option<Request> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut request = Request::default();
    add(&mut request, b"modifiers", format!("{} {}", head[0], head[3]).as_bytes());
    let mut block = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    stream.read_exact(&mut block).ok()?;
    let mut rest = &block[..];
    let mut take = || {
        let (length, after) = rest.split_at_checked(2)?;
        let (taken, after) =
            after.split_at_checked(usize::from(u16::from_le_bytes([length[0], length[1]])))?;
        rest = after;
        Some(taken)
    };
    while let (Some(name), Some(value)) = (take(), take()) {
        add(&mut request, name, value);
    }
    read_body(stream, request)
}

fn add(request: &mut Request, name: &[u8], value: &[u8]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    request.names.push(text(name));
    request.params.insert(text(name), text(value));
}

/// The body, which is as long as the parameters say.
fn read_body(stream: &mut dyn Connection, mut request: Request) -> Option<Request> {
    request.body = vec![0; request.param("CONTENT_LENGTH").parse().unwrap_or(0)];
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}
