//! Splits a large response into parts of one size, which are requested and kept one by one: `slice`.
//!
//! With `slice 1m`, `$slice_range` is the range of the part that is requested. Send it to the upstream server in
//! `Range`, and add it to the cache key. Fulmar then requests one part after the other, until the client has what it
//! requested. A client that asks for a range near the end of a large file does not wait until all of it is kept. All
//! parts must have the same `ETag` and the same total length; else the connection to the client is closed.
//!
//! If the upstream server does not answer with 206 (Partial Content), Fulmar makes no further request, and passes its
//! response on as it is.
//!
//! nginx: --with-http_slice_module
//!
//! ```file html/digits
//! 0123456789
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /parts/ {
//!         slice 4;
//!         proxy_pass http://127.0.0.1:8081/;
//!         proxy_set_header Range $slice_range;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//! }
//! ```
//!
//! ```http
//! GET /parts/digits HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 11
//!
//! 0123456789
//! ---
//! GET /parts/digits HTTP/1.1
//! Host: localhost
//! Range: bytes=3-8
//!
//! HTTP/1.1 206 Partial Content
//! Content-Range: bytes 3-8/11
//!
//! 345678
//! ```

use crate::shared::cached::answer::cut_here;
use crate::shared::slices::{Next, PartSize, first, read_part, slice_range};
use conf::{Contexts, Diagnostic};
use contract::{
    Body, Content, Directive, Exchange, Filter, Module, Outcome, PartStart, Piece, Pull, Reach, ScopeBuilder,
    Source, Subrequest, Turn, Variable, View, Work,
};
use http::{ResponseHead, Status};
use journal::Level;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Splits a large response into parts.
pub static MODULE: Module = Module {
    name: "slice",
    directives: &[&SLICE],
    variables: &[Variable::new("slice_range", slice_range)],
    compile: Some(compile),
};

/// `slice SIZE`
pub static SLICE: Directive<u64> = Directive::size("slice")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("0")
    .help("The size of the parts in which a response is requested; 0 requests all of it at once.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(&size) = view.get(&SLICE).filter(|&&size| size > 0) {
        builder.keep(PartSize(size));
        builder.filter(Slices { size });
    }
    Ok(())
}

/// Makes one response of the parts.
struct Slices {
    size: u64,
}

impl Filter for Slices {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_partial = exchange.response.status == Status::PARTIAL_CONTENT;
        let Some(start) = first(exchange, self.size).filter(|_| is_partial) else { return body };
        let part = match read_part(&exchange.response, self.size, start) {
            Ok(part) => part,
            Err(message) => {
                exchange.log(Level::Error, &message);
                // As in nginx: the connection closes without a response.
                exchange.response = ResponseHead::new(Status::CLOSE);
                return Body::Empty;
            }
        };
        cut_here(exchange);
        // The requests for the other parts repeat this one, and are for their own part.
        exchange.attach(Reach::Own, Rc::new(PartStart(None)));
        // The parts that are still to come are requested only for a client that takes them.
        exchange.wire.outlasts = false;
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.reason = None;
        response.content_length = Some(part.whole);
        response.accept_ranges = true;
        response.fields.remove("content-range");
        response.fields.remove("accept-ranges");
        let next = Next { start: Cell::new(0), size: self.size, whole: part.whole, etag: part.etag };
        let next = Rc::new(next);
        exchange.attach(Reach::Shared, Rc::clone(&next));
        Body::Source(Box::new(Parts {
            wanted: 0..part.whole,
            current: Some(Current { body, at: part.range.start, end: part.range.end }),
            next,
            failure: None,
        }))
    }
}

/// The content of all parts.
struct Parts {
    /// What is still to be sent.
    wanted: Range<u64>,
    current: Option<Current>,
    next: Rc<Next>,
    /// Why the content cannot be completed: the line for the error log.
    failure: Option<String>,
}

/// A part that is being read.
struct Current {
    body: Body,
    /// Where the next byte of its content is in the whole.
    at: u64,
    end: u64,
}

impl Parts {
    /// The part of a piece that is still to be sent. The rest of a part is read, too: it may be kept.
    fn cut(&mut self, piece: &Piece, at: u64) -> Option<Piece> {
        let end = at.saturating_add(piece.length());
        let (from, to) = (self.wanted.start.max(at), self.wanted.end.min(end));
        if from >= to {
            return None;
        }
        self.wanted.start = to;
        Some(piece.slice(from - at, to - from))
    }

    /// The request for the part that has the next byte.
    fn request(&self, exchange: &Exchange) -> Work {
        self.next.start.set(self.wanted.start / self.next.size * self.next.size);
        let request = &exchange.request;
        Work::Subrequest(Subrequest {
            args: request.args.clone(),
            same_method: true,
            with_body: true,
            repeats: true,
            ..Subrequest::get(request.path.clone(), Content::Streamed)
        })
    }
}

/// The next piece of a body.
fn pull(body: &mut Body, turn: &mut Turn<'_, '_>) -> Pull {
    match body {
        Body::Source(source) => source.pull(turn),
        Body::Pieces(pieces) if !pieces.is_empty() => Pull::Piece(pieces.remove(0)),
        Body::Piece(_) => match std::mem::replace(body, Body::Empty) {
            Body::Piece(piece) => Pull::Piece(piece),
            _ => Pull::End,
        },
        Body::Empty | Body::Pieces(_) | Body::Tunnel(_) => Pull::End,
    }
}

impl Source for Parts {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            if let Some(failure) = &self.failure {
                turn.exchange.log(Level::Error, failure);
                return Pull::Failed;
            }
            let Some(current) = &mut self.current else {
                return match self.wanted.is_empty() {
                    true => Pull::End,
                    false => Pull::Await(self.request(turn.exchange)),
                };
            };
            match pull(&mut current.body, turn) {
                Pull::Piece(piece) => {
                    let at = current.at;
                    current.at = at.saturating_add(piece.length());
                    if let Some(piece) = self.cut(&piece, at) {
                        return Pull::Piece(piece);
                    }
                }
                Pull::End => {
                    if current.at != current.end {
                        self.failure = Some("the content of a slice response is too short".to_owned());
                    }
                    self.current = None;
                }
                other => return other,
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match (&mut self.current, outcome) {
            (Some(Current { body: Body::Source(source), .. }), outcome) => source.resume(outcome),
            (None, Outcome::Streamed(answer)) => match self.next.check(&answer.head) {
                Ok(part) => {
                    let Range { start, end } = part.range;
                    self.current = Some(Current { body: answer.body, at: start, end });
                }
                Err(message) => self.failure = Some(message),
            },
            _ => self.failure = Some("missing slice response".to_owned()),
        }
    }

    fn seek(&mut self, range: Range<u64>) -> bool {
        self.wanted = range;
        true
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if let Some(Current { body: Body::Source(source), .. }) = &mut self.current {
            source.read_ahead(turn);
        }
    }
}
