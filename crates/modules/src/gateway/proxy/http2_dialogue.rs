//! HTTP/2 spoken to the upstream server: one request and its response, on a connection with others.

use super::dialogue::{Asked, Asks, Hints, READING, invalid};
use super::http2_session::{GONE, Head, Met, Session, Stream};
use ::upstream::{Carrier, Decoded, Dialogue, Failure, Remarks};
use bytes::Bytes;
use http::{Fields, Status};
use http2::{BlockWriter, Code, Request, write_request};
use std::any::Any;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::Buffer;

/// One request and its response in HTTP/2.
#[derive(Default)]
pub(super) struct Http2Dialogue {
    asked: Asked,
    session: Option<Rc<Session>>,
    stream: Option<Stream>,
    /// What the server has not allowed yet of the request's body.
    held: Vec<u8>,
    /// Whether the body ends after that, and the server does not know yet.
    ends: bool,
    /// How much content may be taken now, in bytes.
    most: usize,
    hints: Hints,
    pub(super) status: Option<Status>,
    pub(super) fields: Fields,
    trailers: Fields,
    /// How long the content is, if the answer says so, in bytes.
    pub(super) length: Option<u64>,
    /// Whether the response is whole.
    is_over: bool,
    /// The media type of the answer, or of one before.
    pub(super) media_type: Bytes,
}

impl Http2Dialogue {
    /// Sends as much of a piece as the server allows, and returns how much that was.
    fn send(&self, piece: &[u8], ends: bool, out: &mut Vec<u8>) -> usize {
        self.stream.as_ref().map_or(piece.len(), |stream| stream.send(piece, ends, out))
    }

    fn next(&mut self) -> Met {
        match &self.stream {
            Some(stream) => stream.next(&mut self.most),
            None => Met::Fault(GONE.to_owned()),
        }
    }

    /// Takes the head of a response. Returns whether it is the final one.
    fn take_head(&mut self, head: Head, remarks: &Remarks<'_>) -> Result<bool, Failure> {
        if head.wire_length > self.asked.limit {
            return Err(invalid("upstream sent too big header"));
        }
        let Head { status, fields, length, wire_length } = head;
        (self.status, self.fields, self.length) = (Some(status), fields, length);
        if status < Status::OK {
            self.hints.pass((status, &self.fields), [wire_length, self.asked.limit], remarks);
        }
        Ok(status >= Status::OK)
    }
}

fn why_reset(code: Code) -> String {
    format!("upstream rejected request with error {}", code.0)
}

impl Asks for Http2Dialogue {
    fn asked(&mut self) -> &mut Asked {
        &mut self.asked
    }
}

impl Dialogue for Http2Dialogue {
    const CARRIER: Option<fn() -> Rc<dyn Carrier>> = Some(Session::begin);

    fn clear(&mut self) {
        let media_type = std::mem::take(&mut self.media_type);
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        *self = Http2Dialogue { asked, media_type, ..Http2Dialogue::default() };
    }

    fn connect(&mut self, carrier: &Rc<dyn Carrier>) {
        let carrier: Rc<dyn Any> = Rc::<dyn Carrier>::clone(carrier);
        (self.stream, self.session) = (None, carrier.downcast().ok());
    }

    fn disconnect(&mut self) {
        (self.stream, self.session) = (None, None);
    }

    fn poll_input(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<usize> {
        self.most = most;
        self.stream.as_ref().map_or(Poll::Ready(0), |stream| stream.poll_input(cx))
    }

    fn memory(&self) -> usize {
        self.asked.head.capacity()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        (self.hints, self.ends, self.is_over) = (Hints::default(), false, false);
        self.held.clear();
        self.stream = self.session.as_ref().and_then(|session| session.open(self.asked.is_head));
        if let Some(stream) = &self.stream {
            stream.head(!self.asked.has_body, |block| write_head(&self.asked, block), out);
        }
    }

    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let sent = self.send(piece, false, out);
        self.held.extend_from_slice(&piece[sent..]);
    }

    fn append_last_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let sent = self.send(piece, true, out);
        self.held.extend_from_slice(&piece[sent..]);
        self.ends = !self.held.is_empty();
    }

    fn append_end(&mut self, out: &mut Vec<u8>) {
        match self.held.is_empty() {
            true => drop(self.send(b"", true, out)),
            false => self.ends = true,
        }
    }

    fn has_pending(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        stream.has_pending() || (!self.held.is_empty() && stream.has_room())
    }

    fn append_pending(&mut self, out: &mut Vec<u8>) {
        if let Some(stream) = &self.stream {
            stream.append_pending(out);
        }
        if !self.held.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            let sent = self.send(&held, self.ends, out);
            held.drain(..sent);
            self.held = held;
        }
    }

    fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    fn read_head(&mut self, _: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        loop {
            match self.next() {
                Met::Head(head) => {
                    if self.take_head(head, remarks)? {
                        return Ok(self.status);
                    }
                }
                Met::Reset(Code::REFUSED_STREAM) => {
                    let message = format!("{} while {READING}", why_reset(Code::REFUSED_STREAM));
                    return Err(Failure::refused(message));
                }
                Met::Reset(code) => return Err(invalid(&why_reset(code))),
                Met::Left(code) => {
                    let message = format!("upstream sent goaway with error {} while {READING}", code.0);
                    return Err(Failure::refused(message));
                }
                Met::Fault(message) => return Err(invalid(&message)),
                Met::Data(_) | Met::Trailers(_) | Met::End => {
                    return Err(invalid("upstream sent content before its head"));
                }
                Met::More => return Ok(None),
            }
        }
    }

    fn read_content(&mut self, _: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        let reading = |message: &str| format!("{message} while reading upstream");
        loop {
            match self.next() {
                Met::Data(bytes) => return Ok(Decoded::Data(bytes)),
                Met::Trailers(trailers) => self.trailers = trailers,
                Met::End => {
                    self.is_over = true;
                    return Ok(Decoded::End);
                }
                Met::Reset(code) | Met::Left(code) => return Err(reading(&why_reset(code))),
                Met::Fault(message) => return Err(reading(&message)),
                Met::Head(_) => {}
                Met::More => return Ok(Decoded::More),
            }
        }
    }

    fn ends_with_connection(&self) -> bool {
        false
    }

    fn is_whole(&self) -> bool {
        self.is_over
    }

    fn trailers(&self) -> Option<&Fields> {
        Some(&self.trailers)
    }

    fn passes_trailers(&self) -> bool {
        self.asked.passes_trailers
    }

    fn keeps_connection(&self) -> bool {
        true
    }
}

/// Writes a head that is there in the form of HTTP/1.
fn write_head(asked: &Asked, block: &mut BlockWriter<'_>) {
    let mut lines =
        asked.head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(|&byte| byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fields = || {
        lines.clone().filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    };
    let is_host = |name: &[u8]| name.eq_ignore_ascii_case(b"host");
    let authority = fields().find(|(name, _)| is_host(name)).map_or(&b""[..], |(_, value)| value);
    let scheme: &[u8] = if asked.is_secure { b"https" } else { b"http" };
    let request = Request { method, scheme, path, authority };
    write_request(&request, fields().filter(|(name, _)| !is_host(name)), block);
}
