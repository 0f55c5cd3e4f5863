//! What is done on one connection, in all architectures.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, SystemTime};

use super::cache::{Cache, Entry};
use super::fastcgi;
use super::grpc::Calls;
use super::message::{LIMIT_BYTES, Parsed, Request, parse};
use super::{uwsgi, websocket};

/// A connection with what was read and not answered, and what was answered and not sent.
#[derive(Debug)]
pub(super) struct Session {
    stream: TcpStream,
    input: Vec<u8>,
    /// The answer that is being sent.
    head: Vec<u8>,
    content: &'static [u8],
    sent: usize,
    /// Whether the connection ends with that answer.
    is_last: bool,
    /// Content of the last request that has not come yet. It is dropped as it comes, and answered then.
    unread: u64,
    /// What is answered then.
    owed: Option<Owed>,
    /// Whether the connection is a WebSocket.
    is_websocket: bool,
    /// The calls of a connection of gRPC.
    calls: Option<Box<Calls>>,
}

/// An answer to a request whose content has not come wholly.
#[derive(Clone, Copy, Debug)]
struct Owed {
    entry: &'static Entry,
    is_head: bool,
    keep_alive: bool,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.0 and 1.1.
    Http,
    /// FastCGI.
    FastCgi,
    /// gRPC.
    Grpc,
    /// uwsgi.
    Uwsgi,
}

/// How far a session got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits for bytes of the client's.
    Reading,
    /// There was nothing to read.
    Silent,
    /// It waits until the client takes more bytes.
    Writing,
    /// It is over.
    Over,
}

/// What a thread needs to answer: the protocol, the files, and the date.
#[derive(Debug)]
pub(super) struct Worker {
    protocol: Protocol,
    cache: &'static Cache,
    date_s: u64,
    date: String,
}

/// How long a connection may be silent where something waits for it alone.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

impl Worker {
    pub(super) fn new(cache: &'static Cache) -> Worker {
        Worker::of(Protocol::Http, cache)
    }

    pub(super) fn of(protocol: Protocol, cache: &'static Cache) -> Worker {
        Worker { protocol, cache, date_s: 0, date: String::new() }
    }

    /// The field of the date, which changes every second.
    fn date(&mut self) -> &str {
        let now = SystemTime::now();
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.date_s != now_s {
            self.date_s = now_s;
            self.date = format!("Date: {}\r\n", httpdate::fmt_http_date(now));
        }
        &self.date
    }
}

impl Session {
    /// A connection that was just accepted.
    pub(super) fn new(stream: TcpStream) -> io::Result<Session> {
        stream.set_nodelay(true)?;
        Ok(Session {
            stream,
            input: Vec::new(),
            head: Vec::new(),
            content: &[],
            sent: 0,
            is_last: false,
            unread: 0,
            owed: None,
            is_websocket: false,
            calls: None,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads once, and answers what is complete. Where the connection blocks, so does this, for as long as it may be
    /// silent.
    pub(super) fn read(&mut self, worker: &mut Worker) -> Progress {
        let mut bytes = [0; LIMIT_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Progress::Over,
                Ok(count) => {
                    self.input.extend_from_slice(&bytes[..count]);
                    return self.advance(worker);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Silent,
                Err(_) => return Progress::Over,
            }
        }
    }

    /// Sends what is left of an answer, and answers the requests after it.
    pub(super) fn advance(&mut self, worker: &mut Worker) -> Progress {
        loop {
            match self.send() {
                Ok(true) if self.is_last => {
                    // Whatever comes of it, the connection is over.
                    let _ = self.stream.shutdown(Shutdown::Write);
                    return Progress::Over;
                }
                Ok(true) => {}
                Ok(false) => return Progress::Writing,
                Err(_) => return Progress::Over,
            }
            if !self.answer(worker) {
                return Progress::Reading;
            }
        }
    }

    /// Prepares the answer to the next request, if it has come wholly.
    fn answer(&mut self, worker: &mut Worker) -> bool {
        match worker.protocol {
            Protocol::Http if self.is_websocket => self.echo(),
            Protocol::Http => self.answer_http(worker),
            Protocol::FastCgi => self.answer_fastcgi(worker.cache),
            Protocol::Grpc => self.answer_grpc(),
            Protocol::Uwsgi => self.answer_uwsgi(worker.cache),
        }
    }

    fn answer_http(&mut self, worker: &mut Worker) -> bool {
        let owed = match self.owed.take() {
            Some(owed) => owed,
            None => match self.parse(worker) {
                Ok(Some(owed)) => owed,
                Ok(None) => return false,
                Err(()) => return true,
            },
        };
        let dropped = self.input.len().min(usize::try_from(self.unread).unwrap_or(usize::MAX));
        self.input.drain(..dropped);
        self.unread -= dropped as u64;
        if self.unread > 0 {
            self.owed = Some(owed);
            return false;
        }
        self.content = if owed.is_head { &[] } else { &owed.entry.content };
        self.prepare(&owed.entry.head, worker.date(), owed.keep_alive);
        true
    }

    /// Echoes all messages that are complete.
    fn echo(&mut self) -> bool {
        self.sent = 0;
        self.head.clear();
        let echoed = websocket::echo(&self.input, &mut self.head);
        self.input.drain(..echoed.used);
        self.is_last = echoed.is_over;
        self.is_last || !self.head.is_empty()
    }

    /// Takes the head of the next request, if it has come wholly. Fails where the answer is ready that refuses it, or that
    /// opens a WebSocket.
    fn parse(&mut self, worker: &mut Worker) -> Result<Option<Owed>, ()> {
        let (owed, length, content_length) = match parse(&self.input) {
            Parsed::Partial => return Ok(None),
            Parsed::Request(Request { websocket_key: Some(key), length, .. }) => {
                let head = websocket::head(key);
                self.input.drain(..length);
                self.is_websocket = true;
                self.sent = 0;
                self.head.clear();
                for part in [&head, worker.date(), "Connection: Upgrade\r\n\r\n"] {
                    self.head.extend_from_slice(part.as_bytes());
                }
                return Err(());
            }
            Parsed::Request(request) => {
                let entry = worker.cache.find(request.target).unwrap_or(&worker.cache.missing);
                let owed = Owed { entry, is_head: request.is_head, keep_alive: request.keep_alive };
                (owed, request.length, request.content_length)
            }
            Parsed::Refused(status) => {
                // It ends the connection, so that it is rare.
                let entry = Entry::new(status, "text/plain", "", Vec::new());
                self.prepare(&entry.head, worker.date(), false);
                return Err(());
            }
        };
        self.input.drain(..length);
        self.unread = content_length;
        Ok(Some(owed))
    }

    /// What is no FastCGI ends the connection.
    fn answer_fastcgi(&mut self, cache: &'static Cache) -> bool {
        self.sent = 0;
        self.head.clear();
        match fastcgi::parse(&self.input) {
            fastcgi::Parsed::Partial => return false,
            fastcgi::Parsed::Request(request) => {
                let entry = cache.find(&request.target).unwrap_or(&cache.missing);
                self.input.drain(..request.length);
                fastcgi::answer(&request, entry, &mut self.head);
                self.is_last = !request.keep_conn;
            }
            fastcgi::Parsed::Refused => self.is_last = true,
        }
        true
    }

    /// Every answer ends the connection, and so does what is no uwsgi.
    fn answer_uwsgi(&mut self, cache: &'static Cache) -> bool {
        self.sent = 0;
        self.head.clear();
        match uwsgi::parse(&self.input) {
            uwsgi::Parsed::Partial => return false,
            uwsgi::Parsed::Request(target) => {
                uwsgi::answer(cache.find(&target).unwrap_or(&cache.missing), &mut self.head);
            }
            uwsgi::Parsed::Refused => {}
        }
        self.is_last = true;
        true
    }

    /// Answers all calls that are complete at once. What is no gRPC ends the connection.
    fn answer_grpc(&mut self) -> bool {
        self.sent = 0;
        self.head.clear();
        match self.calls.get_or_insert_default().take(&self.input, &mut self.head) {
            Some(length) => drop(self.input.drain(..length)),
            None => self.is_last = true,
        }
        self.is_last || !self.head.is_empty()
    }

    fn prepare(&mut self, head: &str, date: &str, keep_alive: bool) {
        self.sent = 0;
        self.is_last = !keep_alive;
        self.head.clear();
        let connection =
            if keep_alive { "Connection: keep-alive\r\n\r\n" } else { "Connection: close\r\n\r\n" };
        for part in [head, date, connection] {
            self.head.extend_from_slice(part.as_bytes());
        }
    }

    /// Sends as much of the answer as the client takes. Says whether that was all.
    fn send(&mut self) -> io::Result<bool> {
        let total = self.head.len() + self.content.len();
        while self.sent < total {
            let head = self.head.get(self.sent..).unwrap_or_default();
            let content = &self.content[self.sent.saturating_sub(self.head.len())..];
            match self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(content)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.head.clear();
        self.content = &[];
        self.sent = 0;
        Ok(true)
    }
}

/// Serves one connection to its end, and waits for it alone.
pub(super) fn serve_one(stream: TcpStream, worker: &mut Worker) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut session = Session::new(stream)?;
    while session.read(worker) == Progress::Reading {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn worker(length: usize) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file.txt"), vec![b'x'; length]).unwrap();
        Worker::new(Box::leak(Box::new(Cache::read(folder.path()).unwrap())))
    }

    /// What a client gets for these bytes, up to the end of the connection.
    fn answers(input: &[u8]) -> String {
        let (mut client, server) = pair();
        client.write_all(input).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        serve_one(server, &mut worker(3)).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_are_answered_in_their_order() {
        let text = answers(
            b"GET /file.txt HTTP/1.1\r\nHost: a\r\n\r\nHEAD /file.txt HTTP/1.1\r\nHost: a\r\n\r\n\
              GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        let bodies: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(bodies.len(), 3, "{text}");
        assert!(
            bodies[0].starts_with("200 OK\r\n") && bodies[0].ends_with("keep-alive\r\n\r\nxxx"),
            "{text}"
        );
        assert!(bodies[1].contains("Content-Length: 3\r\n") && bodies[1].ends_with("\r\n\r\n"), "{text}");
        assert!(bodies[2].starts_with("404") && bodies[2].contains("Connection: close\r\n"), "{text}");
        assert!(bodies[2].contains("\r\nDate: "), "{text}");
        let text = answers(
            b"POST /file.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /HEAD /file.txt HTTP/1.0\r\n\r\n",
        );
        assert!(text.contains("keep-alive\r\n\r\nxxxHTTP/1.1 200 OK\r\n"), "content is no request: {text}");
        assert_eq!(answers(b"POST /file.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET"), "");
        assert!(answers(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 501 "));
        assert_eq!(answers(b"GET /file.txt HTTP/1.1\r\n"), "");
    }

    #[test]
    fn a_client_that_takes_nothing_is_waited_for() {
        let (mut client, server) = pair();
        server.set_nonblocking(true).unwrap();
        let (mut session, mut worker) = (Session::new(server).unwrap(), worker(32 << 20));
        assert_eq!(session.read(&mut worker), Progress::Silent);
        client.write_all(b"GET /file.txt HTTP/1.0\r\n\r\n").unwrap();
        let mut progress = Progress::Silent;
        while progress == Progress::Silent {
            progress = session.read(&mut worker);
        }
        assert_eq!(progress, Progress::Writing, "32 MiB are more than the buffers hold");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).map(|_| all)
        });
        while progress == Progress::Writing {
            progress = session.advance(&mut worker);
            std::thread::yield_now();
        }
        drop(session);
        let all = reader.join().unwrap().unwrap();
        assert!(all.ends_with(&vec![b'x'; 32 << 20]) && all.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}
