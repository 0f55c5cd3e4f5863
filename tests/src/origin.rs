//! A server behind the server: it answers as a test tells it to, faults included.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::client;
use crate::tls::{Kind, certificate, server_config};
use crate::wait;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The target of its request line.
    pub target: String,
    /// Head and body.
    pub text: Vec<u8>,
    /// How many requests the connection had before.
    pub before: usize,
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It waits for another request.
    Keep,
    /// It closes.
    Close,
    /// It is reset.
    Reset,
    /// It stays open and silent.
    Hang,
    /// It sends back what it gets.
    Echo,
    /// It sends so many bytes more, each after a pause of 50 ms, and closes.
    Drip(usize),
}

/// An answer, byte by byte, and what comes after it.
pub type Reply = (Vec<u8>, After);

/// What a server and its clients exchange bytes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// TCP.
    Clear,
    /// TLS.
    Tls,
}

impl Wire {
    /// The scheme of the URLs of a server over HTTP.
    pub fn scheme(self) -> &'static str {
        if self == Wire::Tls { "https" } else { "http" }
    }

    /// Lets a stream that was just accepted speak as the server's end of this wire.
    pub fn accept(self, stream: TcpStream) -> Box<dyn Connection> {
        match self {
            Wire::Clear => Box::new(stream),
            Wire::Tls => {
                static CONFIG: LazyLock<Arc<ServerConfig>> =
                    LazyLock::new(|| server_config(&certificate("origin.example", Kind::Ecdsa)));
                let connection = ServerConnection::new(Arc::clone(&CONFIG)).expect("a server");
                Box::new(StreamOwned::new(connection, stream))
            }
        }
    }
}

/// Makes two tests of each of these functions: one with servers in clear, and one with servers over TLS.
#[macro_export]
macro_rules! over_both {
    ($($name:ident)*) => {
        mod in_clear {
            $(#[test]
            fn $name() {
                super::$name($crate::origin::Wire::Clear);
            })*
        }

        mod encrypted {
            $(#[test]
            fn $name() {
                super::$name($crate::origin::Wire::Tls);
            })*
        }
    };
}

/// A connection of either kind.
pub trait Connection: Read + Write {
    /// The socket.
    fn socket(&self) -> &TcpStream;

    /// Sends what is left to be sent, and says goodbye where the protocol has a word for it.
    fn end(&mut self);
}

impl Connection for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn end(&mut self) {}
}

impl Connection for StreamOwned<ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn end(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }
}

/// A server that runs until the test ends.
#[derive(Debug)]
pub struct Origin {
    wire: Wire,
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Origin {
    /// Starts a server with this behaviour.
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::over(Wire::Clear, answer)
    }

    /// As `start`, in clear or over TLS.
    pub fn over(wire: Wire, answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let address = listener.local_addr().expect("address");
        let (connections, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, living, answer) = (Arc::clone(&connections), Arc::clone(&open), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                living.fetch_add(1, Ordering::SeqCst);
                let (answer, living) = (Arc::clone(&answer), Arc::clone(&living));
                thread::spawn(move || {
                    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
                    serve(&mut *wire.accept(stream), &*answer);
                    living.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Origin { wire, address, connections, open }
    }

    /// The scheme of its URLs.
    pub fn scheme(&self) -> &'static str {
        self.wire.scheme()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it took so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// An answer with a length.
pub fn ok(body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    (bytes, After::Keep)
}

/// An answer as it stands.
pub fn raw(text: &str, after: After) -> Reply {
    (text.as_bytes().to_vec(), after)
}

fn serve(stream: &mut dyn Connection, answer: &(dyn Fn(&Asked) -> Reply + Send + Sync)) {
    let mut before = 0;
    while let Some(text) = read(stream) {
        let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned();
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (bytes, after) = answer(&Asked { target, text, before });
        before += 1;
        if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
            return;
        }
        match after {
            After::Keep => {}
            After::Close => return stream.end(),
            After::Reset => {
                let _ = rustix::net::sockopt::set_socket_linger(stream.socket(), Some(Duration::ZERO));
                return;
            }
            After::Hang => drop(stream.read(&mut [0; 1])),
            After::Echo => return echo(stream),
            After::Drip(count) => {
                for _ in 0..count {
                    wait::pause(Duration::from_millis(50));
                    if stream.write_all(b"x").and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
                return stream.end();
            }
        }
    }
}

fn echo(stream: &mut dyn Connection) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

/// One request, with a body of its length.
fn read(stream: &mut dyn Connection) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        if let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let length: usize = length.unwrap_or(0);
            if text.len() >= end + 4 + length {
                return Some(text);
            }
        }
        match client::read(stream, &mut buffer) {
            Ok(count @ 1..) => text.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}
