//! A client that sends exactly the bytes it is given and never waits without a limit.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::request;
use crate::response::{self, Response};

/// No exchange takes longer than this.
const LIMIT: Duration = Duration::from_secs(30);
/// Silence after which a server that answered once is taken to wait for more.
const QUIET: Duration = Duration::from_millis(600);
/// Silence after which a server that never answered is taken to wait for more.
const SILENT: Duration = Duration::from_millis(2000);
/// How often it is seen to do other things in such a time.
const LOOKS: u32 = 4;

/// What happened to the connection after the last response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server closed it.
    Closed,
    /// It answered, or would answer, another request.
    Kept,
}

/// All that a server answered to a piece of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Responses in order, interim ones included.
    pub responses: Vec<Response>,
    /// Fate of the connection.
    pub end: End,
}

impl Answer {
    /// The last response. Panics when there is none.
    pub fn last(&self) -> &Response {
        self.responses.last().expect("a response")
    }

    /// Statuses in order.
    pub fn statuses(&self) -> Vec<u16> {
        self.responses.iter().map(|response| response.status).collect()
    }
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    ended: bool,
    deadline: Instant,
}

impl Client {
    /// Connects. Panics when nobody listens.
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Client { stream, buffer: Vec::new(), ended: false, deadline: Instant::now() + LIMIT })
    }

    /// A second handle of the same connection, to send from another thread.
    pub fn try_clone(&self) -> Client {
        let stream = self.stream.try_clone().expect("clone of a socket");
        Client { stream, buffer: Vec::new(), ended: false, deadline: self.deadline }
    }

    /// Moves the end of all waiting to `limit` from now.
    pub fn extend(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    /// Sends bytes; `false` when the server no longer takes them, which is its right.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Tells the server that no more bytes will come.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next response, to a request of this method; `None` when the server closed or stays silent to the end of all
    /// waiting.
    pub fn response(&mut self, method: &str) -> Option<Response> {
        self.response_within(method, Duration::MAX)
    }

    /// As `response`, giving up after `limit` without a byte.
    pub fn response_within(&mut self, method: &str, limit: Duration) -> Option<Response> {
        loop {
            if let Some((response, used)) = response::take(method, &self.buffer, self.ended) {
                self.buffer.drain(..used);
                return Some(response);
            }
            if self.ended || !self.receive(limit) {
                return None;
            }
        }
    }

    /// As `response_within`. A machine that has much to do is no silence: the server has to do other things meanwhile.
    fn response_unless_silent(&mut self, method: &str, limit: Duration) -> Option<Response> {
        for _ in 0..LOOKS {
            let response = self.response_within(method, limit / LOOKS);
            if response.is_some() || self.ended {
                return response;
            }
            self.see_another();
        }
        self.response_within(method, limit / LOOKS)
    }

    /// Waits until the server has taken notice of a further client, which asks for nothing and so is in no log.
    fn see_another(&self) {
        let another = self.stream.peer_addr().and_then(Client::try_connect);
        if let Ok(mut another) = another {
            another.finish();
            another.closes_within(LIMIT);
        }
    }

    /// One request in the short form (see `request::expand`) and its final response.
    pub fn exchange(&mut self, short: &str) -> Option<Response> {
        let bytes = request::expand(short);
        self.send(&bytes);
        let method = short.split(' ').next().unwrap_or_default();
        loop {
            let response = self.response(method)?;
            if response.status >= 200 || response.status == 0 {
                return Some(response);
            }
        }
    }

    /// Reads whatever comes until the server closes, or `limit` without a byte; whether it closed.
    pub fn closes_within(&mut self, limit: Duration) -> bool {
        while !self.ended && self.receive(limit) {}
        self.ended
    }

    /// Bytes received and not yet taken as a response.
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads up to `len` bytes, leaving what follows in the socket, so that the server has to wait.
    pub fn read_some(&mut self, len: usize) -> usize {
        let mut bytes = vec![0; len];
        let _ = self.stream.set_read_timeout(Some(LIMIT));
        let read = read(&mut self.stream, &mut bytes).unwrap_or(0);
        self.buffer.extend_from_slice(&bytes[..read]);
        read
    }

    /// Waits up to `limit` for bytes or the end; `false` when neither came.
    fn receive(&mut self, limit: Duration) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now()).min(limit);
        if left.is_zero() {
            return false;
        }
        let _ = self.stream.set_read_timeout(Some(left));
        let mut bytes = [0; 65536];
        match read(&mut self.stream, &mut bytes) {
            Ok(0) => self.ended = true,
            Ok(read) => self.buffer.extend_from_slice(&bytes[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(_) => self.ended = true,
        }
        true
    }
}

/// Sends a request in the short form on a separate connection and tells all that came back.
///
/// Whether a connection is kept is learnt by asking for something more on it; text sent as it stands is
/// followed by nothing, and there silence means kept.
pub fn ask(address: SocketAddr, short: &str) -> Answer {
    let bytes = request::expand(short);
    if bytes == short.as_bytes() {
        return ask_bytes(address, &bytes);
    }
    let mut client = Client::connect(address);
    client.send(&bytes);
    let method = short.split(' ').next().unwrap_or_default();
    let mut responses = Vec::new();
    while let Some(response) = client.response(method) {
        let interim = (100..200).contains(&response.status);
        responses.push(response);
        if !interim {
            break;
        }
    }
    let end = fate(&mut client, &mut responses);
    Answer { responses, end }
}

/// Sends bytes as they stand on a separate connection and tells all that came back.
pub fn ask_bytes(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut client = Client::connect(address);
    client.send(bytes);
    let mut methods = request::methods(bytes).into_iter();
    let mut responses: Vec<Response> = Vec::new();
    let mut method = methods.next().unwrap_or_default();
    loop {
        let limit = if responses.is_empty() { SILENT } else { QUIET };
        let Some(response) = client.response_unless_silent(&method, limit) else { break };
        if !(100..200).contains(&response.status) {
            method = methods.next().unwrap_or_default();
        }
        let announced = response.status >= 200 && response.announces_close();
        responses.push(response);
        if announced {
            break;
        }
    }
    if responses.last().is_some_and(Response::announces_close) {
        let end = closing(&mut client, &mut responses);
        return Answer { responses, end };
    }
    let end = if client.ended { End::Closed } else { End::Kept };
    Answer { responses, end }
}

fn fate(client: &mut Client, responses: &mut Vec<Response>) -> End {
    let Some(last) = responses.last() else {
        return if client.ended { End::Closed } else { End::Kept };
    };
    if last.announces_close() || client.ended {
        return closing(client, responses);
    }
    client.send(ANOTHER);
    if client.response("GET").is_some() { End::Kept } else { End::Closed }
}

/// After an announced end nothing more may be answered. The client ends its side too, for a server may
/// linger until then.
fn closing(client: &mut Client, responses: &mut Vec<Response>) -> End {
    client.send(ANOTHER);
    client.finish();
    client.extend(LIMIT);
    let closed = client.closes_within(LIMIT);
    if !client.buffer.is_empty() {
        let broken = Some("bytes after the last response");
        responses.push(Response { body: client.buffer.clone(), broken, ..Response::default() });
    }
    if closed { End::Closed } else { End::Kept }
}

/// Reads once. The end of a child may interrupt a read that has a time limit, also where no signal is handled: it arrives
/// while another thread, which starts a child, has blocked all signals.
pub fn read(stream: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Path of the request that finds out whether a connection is kept.
pub const ANOTHER_PATH: &str = "/is-it-kept";

const ANOTHER: &[u8] = b"GET /is-it-kept HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
