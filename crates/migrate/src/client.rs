//! One request on a separate connection, bounded in time and size.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::response::{self, Response};

/// The time of one exchange.
pub const EXCHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one response. A longer one is compared as far as it was read.
pub const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// A request: its header fields contain no `Host` and no `Connection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The path and the query, percent-encoded.
    pub target: String,
    /// The header `Host`.
    pub host: String,
    /// Other header fields.
    pub fields: Vec<(&'static str, String)>,
}

impl Request {
    /// A GET request.
    pub fn get(host: &str, target: &str) -> Request {
        Request { method: "GET", target: target.to_owned(), host: host.to_owned(), fields: Vec::new() }
    }

    /// The header fields as lines, without `Host`.
    pub fn lines(&self) -> Vec<String> {
        self.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    /// The request, as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let Request { method, target, host, .. } = self;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for line in self.lines() {
            head.push_str(&line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Sends a request and reads the response.
///
/// # Errors
/// No connection, no complete response in time, or a closed connection.
pub fn exchange(address: SocketAddr, request: &Request) -> io::Result<Response> {
    let end = Instant::now() + EXCHANGE_PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, EXCHANGE_PATIENCE)?;
    stream.set_write_timeout(Some(EXCHANGE_PATIENCE))?;
    // A server may reject a long request before all of it was sent.
    let sent = stream.write_all(&request.bytes());
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while received.len() < RESPONSE_BYTES_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => received.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            // A reset after a rejected request, whose response may have arrived.
            Err(_) if !received.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    match last(request.method, &received) {
        Some(response) => Ok(response),
        None => Err(sent.err().unwrap_or(ErrorKind::UnexpectedEof.into())),
    }
}

/// The response after interim ones.
fn last(method: &str, bytes: &[u8]) -> Option<Response> {
    let mut rest = bytes;
    loop {
        let (response, used) = response::take(method, rest, true)?;
        if !(100..200).contains(&response.status) || used == 0 {
            return Some(response);
        }
        rest = rest.get(used..)?;
    }
}
