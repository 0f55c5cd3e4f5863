//! HTTP/1 spoken to the upstream server: a request goes out, a head comes back, content follows.

use super::target::{Passing, Target};
use crate::shared::gateway::hints;
use ::upstream::{Decoded, Dialogue, Failure, Remarks};
use bytes::Bytes;
use h1::{
    Chunk, ReceivedFraming, ReceivedHead, ResponseDecoder, ResponseLength, examine_response, parse_response,
};
use http::{Fields, Status, Version};
use journal::Level;
use std::rc::Rc;
use std::sync::Arc;
use wire::Buffer;

/// How many interim responses may come before the final one.
pub(super) const INTERIM_MAX: usize = 32;

pub(super) const READING: &str = "reading response header from upstream";

/// A request with a text that grew past this is not kept for others, in bytes.
const KEPT_TEXT: usize = 4096;

/// What is asked for, whatever the version of HTTP.
#[derive(Default)]
pub(super) struct Asked {
    /// The head of the request, as HTTP/1 writes it.
    pub(super) head: Vec<u8>,
    /// Whether the request has a body, which may turn out to be empty.
    pub(super) has_body: bool,
    /// Whether the length of the request's body is not known.
    pub(super) is_chunked: bool,
    /// Whether the method is HEAD.
    pub(super) is_head: bool,
    /// Whether another protocol is asked for.
    pub(super) asks_upgrade: bool,
    /// How long the head of the response may be, in bytes.
    pub(super) limit: usize,
    /// Whether fields after the content are passed on.
    pub(super) passes_trailers: bool,
    /// Whether the server is spoken to over TLS.
    pub(super) is_secure: bool,
    /// What variables reported about the last request.
    passing: Option<Rc<Passing>>,
}

/// A dialogue in some version of HTTP.
pub(super) trait Asks: Dialogue {
    /// What is asked for.
    fn asked(&mut self) -> &mut Asked;
}

/// Early hints of one response, of which there may be several heads.
#[derive(Default)]
pub(super) struct Hints {
    /// How long all heads were, in bytes.
    length: usize,
}

impl Hints {
    /// Forwards an interim response. `lengths` are the length of its head in bytes, and the limit for the heads of all interim
    /// responses.
    pub(super) fn pass(&mut self, head: (Status, &Fields), lengths: [usize; 2], remarks: &Remarks<'_>) {
        let ((status, fields), [length, limit]) = (head, lengths);
        // 100 is about the body of the request to the upstream server only.
        if status <= Status::SWITCHING_PROTOCOLS {
            return;
        }
        self.length = self.length.saturating_add(length);
        match self.length <= limit {
            true => remarks.hint(status, hints(fields)),
            false => remarks.write(Level::Info, "upstream sent too big early hints"),
        }
    }
}

/// One request and its response in HTTP/1.
pub(super) struct HttpDialogue {
    asked: Asked,
    interim: usize,
    hints: Hints,
    pub(super) head: ReceivedHead,
    pub(super) framing: ReceivedFraming,
    decoder: ResponseDecoder,
    /// The media type of the answer, or of one before.
    pub(super) media_type: Bytes,
}

/// How a response is framed of which nothing is known.
const UNFRAMED: ReceivedFraming =
    ReceivedFraming { body: ResponseLength::None, announced: None, keep_alive: false };

impl Default for HttpDialogue {
    fn default() -> HttpDialogue {
        HttpDialogue {
            asked: Asked::default(),
            interim: 0,
            hints: Hints::default(),
            head: ReceivedHead::default(),
            framing: UNFRAMED,
            decoder: ResponseDecoder::new(ResponseLength::None),
            media_type: Bytes::new(),
        }
    }
}

impl Asked {
    /// What variables tell of a request that goes there.
    pub(super) fn passing(&mut self, target: &Arc<Target>) -> Rc<Passing> {
        match &self.passing {
            Some(passing) if Arc::ptr_eq(&passing.0, target) => Rc::clone(passing),
            _ => Rc::clone(self.passing.insert(Rc::new(Passing(Arc::clone(target))))),
        }
    }

    /// Forgets the request, and keeps the memory of it that is worth it.
    pub(super) fn clear(&mut self) {
        if self.head.capacity() > KEPT_TEXT {
            self.head = Vec::new();
        }
        self.head.clear();
    }
}

pub(super) fn invalid(message: &str) -> Failure {
    Failure::invalid(format!("{message} while {READING}"))
}

impl Asks for HttpDialogue {
    fn asked(&mut self) -> &mut Asked {
        &mut self.asked
    }
}

impl Dialogue for HttpDialogue {
    fn clear(&mut self) {
        let HttpDialogue { asked, head, .. } = self;
        asked.clear();
        head.fields.clear();
        head.reason.clear();
        self.framing = UNFRAMED;
        self.decoder = ResponseDecoder::new(ResponseLength::None);
    }

    fn memory(&self) -> usize {
        self.asked.head.capacity()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        (self.interim, self.hints) = (0, Hints::default());
        out.extend_from_slice(&self.asked.head);
    }

    /// A body of unknown length goes in chunks (RFC 9112, section 7.1).
    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if self.asked.is_chunked {
            h1::encode_chunk_head(piece.len() as u64, out);
            out.extend_from_slice(piece);
            out.extend_from_slice(h1::CHUNK_END);
        } else {
            out.extend_from_slice(piece);
        }
    }

    fn append_end(&mut self, out: &mut Vec<u8>) {
        if self.asked.is_chunked {
            h1::encode_last_chunk(&Fields::new(), out);
        }
    }

    fn read_head(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        loop {
            let head = &mut self.head;
            let parsed = parse_response(input.bytes(), self.asked.limit, head);
            let Some(used) = parsed.map_err(|error| invalid(&error.0))? else { return Ok(None) };
            input.consume(used);
            if head.status == Status::SWITCHING_PROTOCOLS {
                if !self.asked.asks_upgrade {
                    return Err(invalid("upstream switched protocols unasked"));
                }
            } else if head.status < Status::OK {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(invalid("upstream sent too many interim responses"));
                }
                if head.status == Status::EARLY_HINTS && head.version < Version::Http11 {
                    return Err(invalid("upstream sent HTTP/1.0 response with early hints"));
                }
                self.hints.pass((head.status, &head.fields), [used, self.asked.limit], remarks);
                continue;
            }
            let framing = examine_response(head, self.asked.is_head);
            self.framing = framing.map_err(|error| invalid(&error.0))?;
            self.decoder = ResponseDecoder::new(self.framing.body);
            return Ok(Some(self.head.status));
        }
    }

    fn read_content(&mut self, input: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        let chunk = self.decoder.decode(input.bytes());
        match chunk.map_err(|_| "upstream sent invalid chunked response while reading upstream")? {
            Chunk::Data { skip, length } => {
                let data = Bytes::copy_from_slice(&input.bytes()[skip..skip + length]);
                input.consume(skip + length);
                Ok(if self.decoder.is_over() { Decoded::Last(data) } else { Decoded::Data(data) })
            }
            Chunk::NeedMore { consumed } => {
                input.consume(consumed);
                Ok(Decoded::More)
            }
            Chunk::End { consumed } => {
                input.consume(consumed);
                Ok(Decoded::End)
            }
        }
    }

    fn ends_with_connection(&self) -> bool {
        self.decoder.ends_with_connection()
    }

    fn trailers(&self) -> Option<&Fields> {
        // As in nginx, those of HTTP/1 are known only where they are passed on.
        self.decoder.trailers().filter(|_| self.asked.passes_trailers)
    }

    fn keeps_connection(&self) -> bool {
        self.framing.keep_alive
    }
}
