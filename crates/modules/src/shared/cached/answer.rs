//! What a response that is kept, or is going to be, means for the answer to the client.

use super::filling::Filling;
use super::following::Following;
use super::{Cached, any_set, uptime_s};
use bytes::Bytes;
use cache::rfc9111::{self, Came, Control, Kept};
use cache::{Arriving, Content, Freshness, Head, Object, Rules, Writer, reason_of};
use contract::{Body, Exchange, Piece};
use h1::tokens;
use http::{Fields, Method, Status, parse_date};
use journal::Level;
use journal::clock::Time;
use std::rc::Rc;
use std::sync::Arc;
use upstream::Kind;
use wire::{Ready, read_ready};

/// How long a content may be that is read to be written once more, in bytes.
const REWRITTEN_MAX: u64 = 64 * 1024;

/// The head of an answer as the upstream server sent it.
pub(crate) struct Answer<'a> {
    pub(crate) status: Status,
    pub(crate) reason: &'a [u8],
    pub(crate) fields: &'a Fields,
}

impl Cached {
    /// How long an answer may be used; none if it may not be kept.
    fn kept(&self, answer: &Answer<'_>) -> Option<Kept> {
        let (ignoring, valid) = (self.settings.ignoring, &self.settings.valid);
        let &Answer { status, fields, .. } = answer;
        let now = Time::now().seconds;
        let kept = match self.settings.rules {
            Rules::Nginx => Freshness::of(status, fields, (ignoring, valid), now)
                .map(|freshness| Kept { freshness, age: 0 }),
            Rules::Rfc9111 => self.came(status, fields, now).kept(ignoring, valid),
        };
        kept.filter(|_| self.stores.get())
    }

    fn came<'a>(&self, status: Status, fields: &'a Fields, now: i64) -> Came<'a> {
        Came { wish: self.wish, status, fields, asked: self.asked, now, is_part: self.is_part }
    }

    /// Keeps the status of an answer whose place another page takes.
    pub(crate) fn note_replaced(&self, answer: &Answer<'_>) {
        let is_redirect = answer.fields.get("X-Accel-Redirect").is_some();
        match self.kept(answer).filter(|_| !is_redirect) {
            Some(kept) => self.note_failure(answer.status, Some(kept.freshness)),
            None => self.release(),
        }
    }

    /// Begins to keep an answer; none if it is not kept.
    pub(crate) fn keep(&self, exchange: &Exchange, answer: &Answer<'_>) -> Option<Writer> {
        // The content that belongs to the answer did not come with it.
        let lacks_content = exchange.request.method == Method::Head && !self.settings.convert_head;
        let kept = self.kept(answer).filter(|_| !lacks_content);
        let kept = kept.filter(|_| !any_set(&self.settings.no_cache, exchange));
        let writer = kept.and_then(|kept| self.writer(exchange, answer, kept));
        self.is_stored.set(writer.is_some());
        if writer.is_none() {
            self.release();
        }
        writer
    }

    fn writer(&self, exchange: &Exchange, answer: &Answer<'_>, kept: Kept) -> Option<Writer> {
        let Kept { freshness, age } = kept;
        let vary = &freshness.vary;
        let variant = (!vary.is_empty()).then(|| self.main.variant(vary, &exchange.request.head.fields));
        if self.key.get() != self.main && variant != Some(self.key.get()) {
            // The answer depends on other fields than the one before it.
            self.key.set(self.main);
        }
        let head = Head {
            freshness,
            date: Time::now().seconds,
            length: 0,
            checksum: 0,
            key: (*self.text).into(),
            variant,
            status: answer.status,
            reason: reason_of(answer.status, answer.reason),
            fields: self.kept_fields(answer.fields, age),
        };
        let writer = Writer::new(&self.store.zone, self.key.get(), head);
        let writer = writer.inspect_err(|error| self.complain(exchange, error)).ok();
        writer.map(|writer| writer.after(self.removals))
    }

    /// Logs that an answer cannot be kept.
    pub(super) fn complain(&self, exchange: &Exchange, error: &std::io::Error) {
        let directory = self.store.zone.directory().display();
        let text = net::system_message(error);
        exchange.log(Level::Crit, &format!("a response cannot be kept in \"{directory}\" ({text})"));
    }

    /// Writes the content of an answer as it comes, and returns the content for the client.
    pub(crate) fn fill(
        self: &Rc<Self>,
        exchange: &mut Exchange,
        mut writer: Writer,
        body: Body,
        buffers: usize,
    ) -> Body {
        match body {
            Body::Source(source) => {
                exchange.wire.outlasts = true;
                // A content of unknown length may never end. Other requests wait for it, and give up in time.
                let announced = exchange.response.content_length;
                if let Some(fill) = self.fill.borrow().as_ref().filter(|_| announced.is_some()) {
                    writer.share(fill, announced);
                }
                Body::Source(Box::new(Filling::new(Rc::clone(self), writer, source, buffers)))
            }
            Body::Tunnel(_) => body,
            Body::Empty | Body::Piece(_) | Body::Pieces(_) => {
                self.write_whole(exchange, writer, &body);
                body
            }
        }
    }

    fn write_whole(&self, exchange: &Exchange, writer: Writer, body: &Body) {
        // Most contents are one piece, which needs no list.
        if let Body::Piece(Piece::Bytes(content)) = body {
            return self.finish(exchange, writer, &[content]);
        }
        let content = body.pieces().unwrap_or_default().iter().map(|piece| match piece {
            Piece::Bytes(bytes) => Ok(&**bytes),
            Piece::File { .. } => Err(std::io::Error::other("the content is in another file")),
        });
        match content.collect::<Result<Vec<&[u8]>, _>>() {
            Ok(content) => self.finish(exchange, writer, &content),
            Err(error) => {
                self.complain(exchange, &error);
                self.release();
            }
        }
    }

    /// Adds the rest of the content, and gives the file its name.
    pub(super) fn finish(&self, exchange: &Exchange, writer: Writer, rest: &[&[u8]]) {
        if let Err(error) = writer.finish(rest, self.expires(uptime_s())) {
            self.complain(exchange, &error);
        }
        self.release();
    }

    /// The fields of an answer that are kept. By the rules of RFC 9111 `Age` is one of them.
    fn kept_fields(&self, fields: &Fields, age: i64) -> Fields {
        match self.settings.rules {
            Rules::Nginx => kept_fields(fields, |_| true),
            Rules::Rfc9111 => {
                let control = Control::of(fields, self.settings.ignoring);
                let mut kept = kept_fields(fields, |name| control.keeps(name));
                rfc9111::kept_age(&mut kept, age);
                kept
            }
        }
    }

    /// Takes notice of the answer to a HEAD request that was passed on as such: what is kept for GET changes with it, or is
    /// no longer valid (RFC 9111, section 4.3.5).
    pub(crate) fn take_head(&self, exchange: &Exchange, status: Status, said: &Fields) {
        let is_head = exchange.request.method == Method::Head && !self.settings.convert_head;
        if !is_head || status != Status::OK || self.settings.rules != Rules::Rfc9111 {
            return;
        }
        let Some(object) = self.object.borrow().clone() else { return };
        let now = Time::now().seconds;
        if rfc9111::describes(said, &object.head) {
            self.renew(exchange, &object, said, now);
        } else if let Err(error) = self.store.zone.outdate(&self.key.get(), &object, now) {
            self.complain(exchange, &error);
            self.store.zone.discard(&self.key.get());
        }
    }

    /// Notes that a response is still valid, as the upstream server says with these fields, and returns what is sent.
    pub(crate) fn refresh(&self, exchange: &Exchange, object: Arc<Object>, said: &Fields) -> Arc<Object> {
        let now = Time::now().seconds;
        if self.settings.rules == Rules::Rfc9111 {
            let object = self.renew(exchange, &object, said, now);
            self.release();
            return Arc::new(object);
        }
        let ignoring = self.settings.ignoring;
        let of = |fields: &Fields| {
            let times = cache::Times::of(fields, ignoring, now);
            (times.valid_until != 0).then_some((times.valid_until, times.updating_s, times.error_s))
        };
        let configured = || {
            let seconds = self.settings.valid.of(object.head.status)?;
            let times = cache::Times::of(&object.head.fields, ignoring, now);
            Some((now.saturating_add(seconds), times.updating_s, times.error_s))
        };
        if let Some((valid_until, updating_s, error_s)) =
            of(said).or_else(|| of(&object.head.fields)).or_else(configured)
        {
            let freshness = Freshness { valid_until, updating_s, error_s, vary: Box::default() };
            let written = self.store.zone.refresh(&self.key.get(), &object, &freshness, now);
            let _ = written.inspect_err(|error| self.complain(exchange, error));
        }
        self.release();
        object
    }

    /// The object with the fields of an answer that says that it is still valid (RFC 9111, section 4.3.4).
    fn renew(&self, exchange: &Exchange, object: &Object, said: &Fields, now: i64) -> Object {
        let (status, zone, key) = (object.head.status, &self.store.zone, self.key.get());
        let age = self.came(status, said, now).age();
        let all = rfc9111::updated(&object.head.fields, said, age);
        // The time that the upstream server took is part of the age already.
        let came = Came { asked: now, ..self.came(status, &all, now) };
        let kept = came.kept(self.settings.ignoring, &self.settings.valid);
        let fields = self.kept_fields(&all, age);
        let mut head = Head { date: now, fields, ..object.head.clone() };
        let is_same = kept.as_ref().is_some_and(|kept| kept.freshness.vary == head.freshness.vary);
        let Some(kept) = kept.filter(|_| is_same) else {
            zone.discard(&key);
            return object.with_head(head);
        };
        head.freshness = kept.freshness;
        let written = match zone.replace_head(&key, object, &head) {
            Ok(false) => self.rewrite(object, head.clone()),
            written => written.map(drop),
        };
        if let Err(error) = written {
            // What is on the disk has fields that no longer hold.
            self.complain(exchange, &error);
            zone.discard(&key);
        }
        object.with_head(head)
    }

    /// Writes an object anew whose head has another length. A long content is got anew at the next request.
    fn rewrite(&self, object: &Object, head: Head) -> std::io::Result<()> {
        let (zone, key) = (&self.store.zone, self.key.get());
        let content = match (&object.content, object.head.length) {
            (Content::Memory(bytes), _) => Some(bytes.clone()),
            (Content::File(file), length) if length <= REWRITTEN_MAX => {
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                let count = match bytes.len() {
                    0 => 0,
                    _ => match read_ready(file, &mut bytes, object.start)? {
                        Ready::Bytes(count) => count,
                        Ready::Unknown | Ready::Waits => 0,
                    },
                };
                (count == bytes.len()).then(|| bytes.into())
            }
            (Content::File(_), _) => None,
        };
        let Some(content) = content else {
            zone.discard(&key);
            return Ok(());
        };
        Writer::new(zone, key, head)?.after(self.removals).finish(&[&content], self.expires(uptime_s()))
    }
}

/// The fields of an answer that are kept: not those of the connection and of framing.
fn kept_fields(fields: &Fields, keeps: impl Fn(&[u8]) -> bool) -> Fields {
    // No field is named by the two usual words.
    let is_usual =
        |token: &[u8]| [&b"keep-alive"[..], b"close"].iter().any(|word| token.eq_ignore_ascii_case(word));
    let listed: Vec<&[u8]> = tokens(fields, "Connection").filter(|token| !is_usual(token)).collect();
    let is_listed = |name: &[u8]| listed.iter().any(|token| name.eq_ignore_ascii_case(token));
    let mut kept = Fields::with_room_for(fields);
    for field in fields.iter() {
        let is_own = matches!(Kind::of(&field), Kind::Own | Kind::Upgrade);
        if !is_own && !is_listed(field.name) && keeps(field.name) {
            // The list that the field comes from has room for it.
            let _ = kept.push_checked(&field);
        }
    }
    kept
}

/// The content of an object.
pub(crate) fn body(object: &Object) -> Body {
    match (&object.content, object.head.length) {
        (_, 0) => Body::Empty,
        (Content::Memory(bytes), _) => Body::bytes(bytes.clone()),
        (Content::File(file), length) => {
            Body::Piece(Piece::File { file: Arc::clone(file), offset: object.start, length })
        }
    }
}

/// The content of an object that another request is getting.
pub(crate) fn following(arriving: &Arc<Arriving>) -> Body {
    Body::Source(Box::new(Following::new(arriving)))
}

/// Whether a request depends on the response that there is: it has a condition, or is for a part.
pub(crate) fn is_conditional(exchange: &Exchange) -> bool {
    const FIELDS: [&str; 5] =
        ["If-Modified-Since", "If-None-Match", "Range", "If-Unmodified-Since", "If-Match"];
    FIELDS.iter().any(|name| exchange.request.head.fields.get(name).is_some())
}

/// Makes this server judge the conditions of the request, and cut the content to ranges: the upstream server was asked
/// for all of it.
pub(crate) fn judge_here(exchange: &mut Exchange) {
    exchange.wire.relayed = false;
    cut_here(exchange);
}

/// Makes this server cut the content to ranges, if the upstream server allows ranges.
pub(crate) fn cut_here(exchange: &mut Exchange) {
    // Names in the usual spelling are found faster.
    let response = &mut exchange.response;
    if let Some(time) = response.fields.get("Last-Modified").and_then(parse_date) {
        response.last_modified = Some(time);
        response.fields.remove("Last-Modified");
    }
    if let Some(tag) = response.fields.get("ETag").map(Bytes::copy_from_slice) {
        response.etag = Some(tag);
        response.fields.remove("ETag");
    }
    let ranges = response.fields.get("Accept-Ranges");
    if ranges.is_some_and(|ranges| ranges.eq_ignore_ascii_case(b"bytes")) {
        response.accept_ranges = true;
        response.fields.remove("Accept-Ranges");
    }
}
