//! A client, or a server, that sends and reads frames one by one.

use super::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use tests::client::read;
use tests::wait;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW: u8 = 8;

/// The largest window.
pub(crate) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window that a connection has without an update.
pub(crate) const WINDOW_START: u32 = 65_535;

/// A frame that the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A connection.
pub(crate) struct Raw<S = TcpStream> {
    stream: S,
    input: Vec<u8>,
    /// How much may be sent on a stream, as the other side's settings say.
    pub(crate) window: Option<u32>,
}

/// A frame to send.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A literal field that enters no table.
pub(crate) fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let length =
        |length: usize| u8::try_from(length).ok().filter(|length| *length < 127).expect("a short text");
    [&[0, length(name.len())][..], name.as_bytes(), &[length(value.len())], value].concat()
}

/// The block of a request.
pub(crate) fn block(method: &str, path: &str) -> Vec<u8> {
    let path = field(":path", path.as_bytes());
    [field(":method", method.as_bytes()), vec![0x86], path, field(":authority", b"localhost")].concat()
}

/// A request without a body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, 5, stream, &block("GET", path))
}

/// A larger window.
pub(crate) fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW, 0, stream, &increment.to_be_bytes())
}

/// The window of new streams (SETTINGS_INITIAL_WINDOW_SIZE), if these settings have one.
fn window_of(settings: &[u8]) -> Option<u32> {
    let (settings, _) = settings.as_chunks::<6>();
    settings.iter().find_map(|&[a, b, value @ ..]| ([a, b] == [0, 4]).then_some(u32::from_be_bytes(value)))
}

impl Frame {
    /// Whether it ends its stream.
    pub(crate) fn ends(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & 1 != 0
    }

    pub(crate) fn number(&self, start: usize) -> u32 {
        u32::from_be_bytes(self.payload[start..start + 4].try_into().expect("a number"))
    }
}

impl Raw {
    /// Connects. Streams of the server begin with this window.
    pub(crate) fn connect(address: SocketAddr, initial_window: u32) -> Raw {
        Raw::connect_with_settings(address, initial_window).0
    }

    /// As `connect`, with the server's settings.
    pub(crate) fn connect_with_settings(address: SocketAddr, initial_window: u32) -> (Raw, Vec<u8>) {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Raw::over(stream, initial_window)
    }
}

impl Raw {
    /// Takes a connection, and begins HTTP/2 as a server with these settings.
    pub(crate) fn accept(listener: &TcpListener, settings: &[(u16, u32)]) -> Raw {
        listener.set_nonblocking(true).expect("a listener that does not block");
        let mut accepted = None;
        wait::until(PATIENCE, || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut raw = Raw { stream, input: Vec::new(), window: None };
        raw.set(settings);
        raw
    }

    /// Sends settings.
    pub(crate) fn set(&mut self, settings: &[(u16, u32)]) {
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        self.send(&frame(SETTINGS, 0, 0, &payload));
    }
}

impl<S: Read + Write> Raw<S> {
    /// Begins HTTP/2 over a stream; gives the server's settings, too.
    pub(crate) fn over(stream: S, initial_window: u32) -> (Raw<S>, Vec<u8>) {
        let mut raw = Raw { stream, input: Vec::new(), window: None };
        let settings = [&[0, 4][..], &initial_window.to_be_bytes()].concat();
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        raw.send(&frame(SETTINGS, 0, 0, &settings));
        // The server's own settings are known from here on.
        let theirs = raw.find(|frame| frame.kind == SETTINGS).payload;
        raw.send(&frame(SETTINGS, 1, 0, &[]));
        (raw, theirs)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // The server may have closed already.
        drop(self.stream.write_all(bytes));
    }

    /// The next frame; none at the end. Acknowledged settings are skipped.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, rest @ ..] = &self.input[..]
                && let length = u32::from_be_bytes([0, *a, *b, *c]) as usize
                && let Some((stream, payload)) = rest.split_first_chunk()
                && let Some(payload) = payload.get(..length)
            {
                let stream = u32::from_be_bytes(*stream);
                let next = Frame { kind: *kind, flags: *flags, stream, payload: payload.to_vec() };
                self.input.drain(..9 + length);
                if next.kind == SETTINGS {
                    self.window = window_of(&next.payload).or(self.window);
                }
                if next.kind == SETTINGS && next.flags == 1 {
                    continue;
                }
                return Some(next);
            }
            let mut buffer = [0; 65536];
            match read(&mut self.stream, &mut buffer) {
                Ok(count @ 1..) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing comes"),
                _ => return None,
            }
        }
    }

    /// The next frame that `is_wanted`. Panics at the end.
    pub(crate) fn find(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let next = self.next().expect("a frame");
            if is_wanted(&next) {
                return next;
            }
        }
    }

    /// Sends a PING and reads up to the answer. The server has read what was sent before. Gives the other frames.
    pub(crate) fn ping(&mut self) -> Vec<Frame> {
        self.send(&frame(PING, 0, 0, &[7; 8]));
        let mut others = Vec::new();
        while let Some(next) = self.next() {
            if next.kind == PING {
                break;
            }
            others.push(next);
        }
        others
    }
}
