//! HTTP/2 spoken to the other server. A connection carries one request at a time, and the next one after it.

use super::cookies::Cookies;
use super::dialogue::{Asked, Asks, INTERIM_MAX, READING, invalid};
use super::handler::Proxy;
use super::request::{OwnFields, SetField};
use super::response::{self, Answer};
use super::target::{Hosts, Pass};
use crate::shared::gateway::{Gateway, Protocol, hints};
use ::upstream::{Decoded, Dialogue, Failure, Options, Remarks, Settings, TlsOptions};
use bytes::Bytes;
use conf::Diagnostic;
use contract::{Directive, Exchange, LocationKind, LocationName, ScopeBuilder, View, Work};
use http::{Fields, Status, Version};
use http2::{Code, Connection, Content, Event, FRAME_SIZE, HeaderList, Limits, Request, write_request};
use journal::Level;
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use wire::Buffer;

/// The name of the protocol in a TLS handshake (RFC 9113, section 3.2).
pub(super) const ALPN: &[u8] = b"h2";

/// How much content a server may send before it is allowed more, in bytes. What was read is never more than one call reads.
const WINDOW: u32 = 1024 * 1024;

/// How long the names and values of a response may be together, in bytes.
const LIST_MAX: usize = 64 * 1024;

const LIMITS: Limits = Limits { streams: 1, window: WINDOW, list_size: LIST_MAX, field_size: LIST_MAX };

/// The directives of a protocol over HTTP/2 that changes nothing of requests and responses.
pub(crate) struct Streaming {
    /// The name of the module.
    pub(crate) name: &'static str,
    pub(crate) pass: &'static Directive<Pass>,
    pub(crate) set_header: &'static Directive<SetField>,
    pub(crate) options: &'static Options,
    pub(crate) tls: &'static TlsOptions,
}

/// Adds the handler of a scope that passes requests and responses on over HTTP/2 as they come.
pub(crate) fn compile_streaming(
    view: &View<'_>,
    builder: &mut ScopeBuilder,
    directives: &Streaming,
) -> Result<(), Diagnostic> {
    let Streaming { name, pass, set_header, options, tls } = *directives;
    let Some(written) = view.written(pass) else { return Ok(()) };
    let pass_value = written.value.clone();
    let fixed = pass_value.fixed(view).map_err(|error| error.at(written.span))?;
    let location = builder.name.as_ref().filter(|name| name.kind != LocationKind::Named);
    let location: Box<[u8]> = location.map_or_else(Box::default, |name| name.text.clone());
    builder.policy.redirects.to_slash = builder.name.as_ref().is_some_and(LocationName::ends_with_slash);
    let policy = pass_value
        .policy(view, tls, Some(ALPN))
        .map_err(|error| if error.span.is_some() { error } else { error.at(written.span) })?;
    let set: Vec<SetField> = view.all(set_header).into_iter().map(|written| written.value.clone()).collect();
    let proxy = Proxy {
        name,
        redirects: Box::default(),
        cookies: Cookies::default(),
        hosts: pass_value.is_dynamic().then(|| Hosts::new(view)),
        own_kept: None,
        own: OwnFields::new(&set),
        version: Version::Http2,
        method: None,
        body: None,
        passes_trailers: true,
        passes_te: true,
        settings: Arc::new(Settings::streaming(view, options)),
        policy,
        server_name: view.get(&tls.name).cloned(),
        tag: crate::gateway::upstream::tag(view, &location, pass_value.text()),
        pass: pass_value,
        fixed: fixed.map(Arc::new),
        location,
    };
    builder.content(view.place(pass), Gateway(Http2Proxy(proxy)));
    Ok(())
}

/// Passes requests on over HTTP/2.
pub(super) struct Http2Proxy(pub(super) Proxy);

impl Protocol for Http2Proxy {
    type Dialogue = Http2Dialogue;

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn needs_body(&self) -> bool {
        self.0.reads_body()
    }

    fn streams(&self, exchange: &Exchange) -> bool {
        self.0.passes_body_on(exchange)
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        self.0.ask_by::<Http2Dialogue>(exchange)
    }

    fn head(dialogue: &mut Http2Dialogue) -> (Status, &mut Fields) {
        (dialogue.status.unwrap_or(Status::BAD_GATEWAY), &mut dialogue.fields)
    }

    fn reason(dialogue: &Http2Dialogue) -> &[u8] {
        dialogue.status.unwrap_or(Status::BAD_GATEWAY).reason().as_bytes()
    }

    fn restore(dialogue: &mut Http2Dialogue, head: &cache::Head) {
        (dialogue.status, dialogue.fields) = (Some(head.status), head.fields.clone());
        dialogue.length = Some(head.length);
    }

    fn write_key(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        self.0.write_url(exchange, out)
    }

    fn rewritten(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        self.0.cookies.rewrite_all(exchange, fields)
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Http2Dialogue, fields: &Fields) {
        let Http2Dialogue { status, length, media_type, .. } = dialogue;
        let status = status.unwrap_or(Status::BAD_GATEWAY);
        let answer = Answer { status, reason: status.reason().as_bytes(), length: *length, media_type };
        response::describe(&self.0, exchange, answer, fields);
    }
}

/// A connection, with what it has to send besides requests.
struct Session {
    machine: Connection,
    list: HeaderList,
    out: Vec<u8>,
    /// Whether the server ends the connection.
    is_leaving: bool,
}

/// One request and its response in HTTP/2.
#[derive(Default)]
pub(super) struct Http2Dialogue {
    asked: Asked,
    session: Option<Box<Session>>,
    /// The number of the stream; 0 if there is none.
    stream: u32,
    /// What the server has not allowed yet of the request's body.
    held: Vec<u8>,
    /// Whether the body ends after that, and the server does not know yet.
    ends: bool,
    interim: usize,
    /// How many bytes early hints had, over all heads.
    hints_bytes: usize,
    status: Option<Status>,
    fields: Fields,
    trailers: Fields,
    /// How long the content is, if the answer says so, in bytes.
    length: Option<u64>,
    /// Whether the response is whole.
    is_over: bool,
    /// The media type of the answer, or of one before.
    media_type: Bytes,
}

/// What the server did.
enum Met {
    Head {
        ends: bool,
    },
    Data {
        bytes: Bytes,
        ends: bool,
        is_wrong: bool,
    },
    Trailers {
        is_wrong: bool,
    },
    Reset(Code),
    /// The server does not act on the request, and ends the connection.
    Left(Code),
    More,
}

impl Session {
    fn new() -> Session {
        let mut out = Vec::new();
        let machine = Connection::client(LIMITS, &mut out);
        Session { machine, list: HeaderList::default(), out, is_leaving: false }
    }

    /// What comes next on a stream.
    fn read(&mut self, stream: u32, input: &mut Buffer) -> Result<Met, String> {
        loop {
            let read = self.machine.read(input.bytes(), &mut self.list, &mut self.out);
            // The machine names its peer as a server does.
            let read =
                read.map_err(|failure| format!("upstream {}", failure.reason.trim_start_matches("client ")))?;
            let met = match read.event {
                Some(Event::Data { stream: id, bytes, ends, is_wrong }) if id == stream => {
                    self.machine.widen(stream, 0, WINDOW, &mut self.out);
                    let bytes = input.bytes().get(bytes).unwrap_or_default();
                    Some(Met::Data { bytes: Bytes::copy_from_slice(bytes), ends, is_wrong })
                }
                Some(Event::Response { stream: id, ends }) if id == stream => Some(Met::Head { ends }),
                Some(Event::Trailers { stream: id, is_wrong }) if id == stream => {
                    Some(Met::Trailers { is_wrong })
                }
                Some(Event::Reset { stream: id, code }) if id == stream => Some(Met::Reset(code)),
                Some(Event::Goaway { last, code }) => {
                    self.is_leaving = true;
                    (last < stream).then_some(Met::Left(code))
                }
                Some(_) => None,
                None => Some(Met::More),
            };
            input.consume(read.consumed);
            if let Some(met) = met {
                return Ok(met);
            }
        }
    }
}

impl Http2Dialogue {
    fn next(&mut self, input: &mut Buffer) -> Result<Met, String> {
        match &mut self.session {
            Some(session) => session.read(self.stream, input),
            None => Err("upstream connection is gone".to_owned()),
        }
    }

    /// Sends as much of a piece as the server allows, and returns how much that was.
    fn send(&mut self, piece: &[u8], ends: bool, out: &mut Vec<u8>) -> usize {
        let Some(session) = &mut self.session else { return piece.len() };
        if session.machine.is_reset(self.stream) {
            // The server does not want it.
            return piece.len();
        }
        session.machine.data(self.stream, Content { bytes: piece, ends, frame: FRAME_SIZE }, out)
    }

    /// Reads the head of a response. Returns whether it is the final one.
    fn take_head(&mut self, ends: bool, remarks: &Remarks<'_>) -> Result<bool, Failure> {
        let Some(session) = &mut self.session else { return Ok(false) };
        let read = http2::read_response(&session.list, &mut self.fields);
        let status = read.map_err(|malformed| invalid(&format!("upstream {}", malformed.0)))?;
        self.status = Some(status);
        if status == Status::SWITCHING_PROTOCOLS {
            return Err(invalid("upstream switched protocols unasked"));
        }
        if status < Status::OK {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(invalid("upstream sent too many interim responses"));
            }
            if status == Status::EARLY_HINTS {
                self.pass_hints(remarks);
            }
            return Ok(false);
        }
        self.is_over = ends;
        self.length = announced(&self.fields).map_err(invalid)?;
        let has_content = !self.asked.is_head && !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
        if let Some(length) = self.length.filter(|_| has_content) {
            if ends && length > 0 {
                return Err(invalid("upstream sent no content although it has announced some"));
            }
            session.machine.expect(self.stream, length);
        }
        Ok(true)
    }

    /// Sends early hints on, unless all of them together are longer than a head may be.
    fn pass_hints(&mut self, remarks: &Remarks<'_>) {
        let lengths = self.fields.iter().map(|field| field.name.len() + field.value.len());
        self.hints_bytes = self.hints_bytes.saturating_add(lengths.sum());
        match self.hints_bytes <= self.asked.limit {
            true => remarks.hint(hints(&self.fields)),
            false => remarks.write(Level::Info, "upstream sent too big early hints"),
        }
    }

    /// The response is whole. What the server says about the connection after it is read, too.
    fn finish(&mut self, input: &mut Buffer) -> Result<Decoded, String> {
        loop {
            match self.next(input)? {
                // The server does not want the rest of the request.
                Met::Reset(Code::NO_ERROR) => {}
                Met::Reset(_) | Met::Left(_) | Met::More => return Ok(Decoded::End),
                Met::Head { .. } | Met::Data { .. } | Met::Trailers { .. } => {}
            }
        }
    }
}

/// The length in a head.
fn announced(fields: &Fields) -> Result<Option<u64>, &'static str> {
    const INVALID: &str = "upstream sent invalid \"Content-Length\" header";
    let mut all = fields.all("content-length");
    let Some(first) = all.next() else { return Ok(None) };
    let is_number = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(first).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    match number {
        Some(number) if all.all(|other| other == first) => Ok(Some(number)),
        _ => Err(INVALID),
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
    fn clear(&mut self) {
        let media_type = std::mem::take(&mut self.media_type);
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        *self = Http2Dialogue { asked, media_type, ..Http2Dialogue::default() };
    }

    fn connect(&mut self, kept: Option<Box<dyn Any>>) {
        let kept = kept.and_then(|kept| kept.downcast().ok());
        self.session = Some(kept.unwrap_or_else(|| Box::new(Session::new())));
    }

    fn disconnect(&mut self) -> Option<Box<dyn Any>> {
        let mut session = self.session.take()?;
        session.machine.release(self.stream, Code::CANCEL, &mut session.out);
        Some(session)
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        (self.interim, self.hints_bytes, self.ends, self.is_over) = (0, 0, false, false);
        self.held.clear();
        let Some(session) = &mut self.session else { return };
        out.append(&mut session.out);
        self.stream = session.machine.open_stream().unwrap_or(0);
        let ends = !self.asked.has_body;
        let (asked, stream) = (&self.asked, self.stream);
        session.machine.head(stream, ends, |block| write_head(asked, block), out);
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
        let Some(session) = &self.session else { return false };
        let has_room = || session.machine.room(self.stream) > 0 || session.machine.is_reset(self.stream);
        !session.out.is_empty() || (!self.held.is_empty() && has_room())
    }

    fn append_pending(&mut self, out: &mut Vec<u8>) {
        if let Some(session) = &mut self.session {
            out.append(&mut session.out);
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

    fn read_head(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        loop {
            match self.next(input).map_err(|message| invalid(&message))? {
                Met::Head { ends } => {
                    if self.take_head(ends, remarks)? {
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
                Met::Data { .. } | Met::Trailers { .. } => {
                    return Err(invalid("upstream sent content before its head"));
                }
                Met::More => return Ok(None),
            }
        }
    }

    fn read_content(&mut self, input: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        const WRONG: &str = "upstream sent content of another length than it has announced";
        let reading = |message: &str| format!("{message} while reading upstream");
        loop {
            if self.is_over {
                return self.finish(input);
            }
            match self.next(input).map_err(|message| reading(&message))? {
                Met::Data { is_wrong: true, .. } | Met::Trailers { is_wrong: true } => {
                    return Err(reading(WRONG));
                }
                Met::Data { bytes, ends, .. } => {
                    self.is_over = ends;
                    // What has no content is over when it says so.
                    if !bytes.is_empty() {
                        return Ok(Decoded::Data(bytes));
                    }
                }
                Met::Trailers { .. } => {
                    self.is_over = true;
                    let Some(session) = &self.session else { continue };
                    http2::read_trailers(&session.list, &mut self.trailers)
                        .map_err(|malformed| reading(&format!("upstream {}", malformed.0)))?;
                }
                Met::Reset(code) | Met::Left(code) => return Err(reading(&why_reset(code))),
                Met::Head { .. } => {}
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
        Some(&self.trailers).filter(|_| self.asked.passes_trailers)
    }

    fn keeps_connection(&self) -> bool {
        let Some(session) = &self.session else { return false };
        let has_said_all =
            session.machine.has_sent_all(self.stream) && !session.machine.is_reset(self.stream);
        self.is_over && has_said_all && !session.is_leaving
    }
}

/// Writes a head that is there in the form of HTTP/1.
fn write_head(asked: &Asked, block: &mut http2::BlockWriter<'_>) {
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
