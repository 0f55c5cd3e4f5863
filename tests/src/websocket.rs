//! The client's side of a WebSocket (RFC 6455) over any stream.

use std::io::{Read, Write};

/// The key of RFC 6455, section 1.3, and what a server makes of it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Frames of clients are masked; any mask will do here.
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of section 11.8")]
pub enum Kind {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Whether it ends its message.
    pub last: bool,
    /// Its content.
    pub payload: Vec<u8>,
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket<S> {
    stream: S,
}

impl<S: Read + Write> WebSocket<S> {
    /// Opens a WebSocket on a connection.
    ///
    /// # Errors
    /// The head of an answer that is no consent.
    pub fn open(stream: S, path: &str) -> Result<WebSocket<S>, String> {
        WebSocket::open_with(stream, path, &[])
    }

    /// As `open`, with frames that are sent after the request at once.
    ///
    /// # Errors
    /// The head of an answer that is no consent.
    pub fn open_with(mut stream: S, path: &str, frames: &[Frame]) -> Result<WebSocket<S>, String> {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        let bytes = [head.into_bytes(), frames.iter().flat_map(encode).collect()].concat();
        stream.write_all(&bytes).and_then(|()| stream.flush()).expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let consents = head.starts_with("HTTP/1.1 101 ")
            && head.contains(&format!("Sec-WebSocket-Accept: {ACCEPT}\r\n"));
        if consents { Ok(WebSocket { stream }) } else { Err(head) }
    }

    /// A WebSocket that was opened otherwise.
    pub fn opened(stream: S) -> WebSocket<S> {
        WebSocket { stream }
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: Kind, last: bool, payload: &[u8]) {
        let frame = Frame { kind, last, payload: payload.to_vec() };
        self.stream.write_all(&encode(&frame)).and_then(|()| self.stream.flush()).expect("a frame is taken");
    }

    /// Sends a message of one frame.
    pub fn say(&mut self, text: &str) {
        self.send(Kind::Text, true, text.as_bytes());
    }

    /// The next frame; none where the connection ends.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        let length = match head[1] & 127 {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).ok()?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).ok()?;
                u64::from_be_bytes(length)
            }
            length => u64::from(length),
        };
        let mut payload = vec![0; usize::try_from(length).ok()?];
        self.stream.read_exact(&mut payload).ok()?;
        assert_eq!(head[1] & 128, 0, "a server masks nothing");
        Some(Frame { kind: kind(head[0] & 15), last: head[0] & 128 != 0, payload })
    }

    /// The text of the next message, which has to be one frame.
    pub fn hear(&mut self) -> String {
        let frame = self.receive().expect("a frame");
        assert_eq!((frame.kind, frame.last), (Kind::Text, true));
        String::from_utf8(frame.payload).expect("text")
    }

    /// The connection.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }
}

fn encode(frame: &Frame) -> Vec<u8> {
    let last = if frame.last { 128 } else { 0 };
    let mut bytes = vec![last | frame.kind as u8];
    match frame.payload.len() {
        length @ 0..126 => bytes.push(128 | u8::try_from(length).expect("small")),
        length @ 126..65536 => {
            bytes.push(128 | 126);
            bytes.extend_from_slice(&u16::try_from(length).expect("small").to_be_bytes());
        }
        length => {
            bytes.push(128 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&MASK);
    bytes.extend(frame.payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn kind(opcode: u8) -> Kind {
    match opcode {
        0 => Kind::Continuation,
        1 => Kind::Text,
        2 => Kind::Binary,
        8 => Kind::Close,
        9 => Kind::Ping,
        10 => Kind::Pong,
        _ => panic!("a frame of the unknown kind {opcode}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Kind, encode};

    #[test]
    fn lengths_have_three_forms() {
        let head = |length: usize| {
            let payload = vec![0; length];
            let bytes = encode(&Frame { kind: Kind::Binary, last: true, payload });
            bytes[..bytes.len() - length - 4].to_vec()
        };
        assert_eq!(head(125), [0x82, 0xfd]);
        assert_eq!(head(126), [0x82, 0xfe, 0, 126]);
        assert_eq!(head(65535), [0x82, 0xfe, 255, 255]);
        assert_eq!(head(65536), [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]);
        let masked = encode(&Frame { kind: Kind::Text, last: false, payload: b"abcde".to_vec() });
        assert_eq!(masked[..6], [0x01, 0x85, 0x12, 0x34, 0x56, 0x78]);
        assert_eq!(masked[6..], [b'a' ^ 0x12, b'b' ^ 0x34, b'c' ^ 0x56, b'd' ^ 0x78, b'e' ^ 0x12]);
    }
}
