//! What a response that is kept, or is going to be, means for the answer to the client.

use super::filling::Filling;
use super::following::Following;
use super::{Cached, any_set};
use bytes::Bytes;
use cache::{Arriving, Content, Freshness, Head, Object, Writer};
use contract::{Body, Exchange, Piece};
use h1::tokens;
use http::{Fields, Method, Status, parse_date};
use journal::Level;
use journal::clock::Time;
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Kind, Settings};

/// The head of an answer as the other server sent it.
pub(crate) struct Answer<'a> {
    pub(crate) status: Status,
    pub(crate) reason: &'a [u8],
    pub(crate) fields: &'a Fields,
}

impl Cached {
    /// How long an answer may be used; none if it may not be kept.
    pub(crate) fn freshness(&self, settings: &Settings, answer: &Answer<'_>) -> Option<Freshness> {
        let rules = (settings.ignored.of_freshness(), &self.settings.valid);
        Freshness::of(answer.status, answer.fields, rules, Time::now().seconds).filter(|_| self.stores.get())
    }

    /// Keeps the status of an answer whose place another page takes.
    pub(crate) fn note_replaced(&self, settings: &Settings, answer: &Answer<'_>) {
        let is_redirect = answer.fields.get("X-Accel-Redirect").is_some();
        match self.freshness(settings, answer).filter(|_| !is_redirect) {
            Some(freshness) => self.note_failure(answer.status, Some(freshness)),
            None => self.release(),
        }
    }

    /// Begins to keep an answer; none if it is not kept.
    pub(crate) fn keep(
        &self,
        settings: &Settings,
        exchange: &Exchange,
        answer: &Answer<'_>,
    ) -> Option<Writer> {
        // The content that belongs to the answer did not come with it.
        let lacks_content = exchange.request.method == Method::Head && !self.settings.convert_head;
        let freshness = self.freshness(settings, answer).filter(|_| !lacks_content);
        let freshness = freshness.filter(|_| !any_set(&self.settings.no_cache, exchange));
        let writer = freshness.and_then(|freshness| self.writer(exchange, answer, freshness));
        self.is_stored.set(writer.is_some());
        if writer.is_none() {
            self.release();
        }
        writer
    }

    fn writer(&self, exchange: &Exchange, answer: &Answer<'_>, freshness: Freshness) -> Option<Writer> {
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
            key: self.text.clone(),
            variant,
            status: answer.status,
            reason: answer.reason.into(),
            fields: kept_fields(answer.fields),
        };
        let writer = Writer::new(&self.store.zone, self.key.get(), head);
        writer.inspect_err(|error| self.complain(exchange, error)).ok()
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

    fn write_whole(&self, exchange: &Exchange, mut writer: Writer, body: &Body) {
        let pieces = body.pieces().unwrap_or_default();
        let mut append = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => writer.append(bytes),
            Piece::File { .. } => Err(std::io::Error::other("the content is in another file")),
        };
        match pieces.iter().try_for_each(&mut append) {
            Ok(()) => self.finish(exchange, writer),
            Err(error) => self.complain(exchange, &error),
        }
        self.release();
    }

    /// Gives a file that is whole its name.
    pub(super) fn finish(&self, exchange: &Exchange, writer: Writer) {
        let finished = writer.finish(self.store.path.inactive_s, Time::now().seconds);
        let _ = finished.inspect_err(|error| self.complain(exchange, error));
        self.release();
    }

    /// Notes that a response is still valid, as the other server says with these fields.
    pub(crate) fn refresh(&self, settings: &Settings, exchange: &Exchange, object: &Object, said: &Fields) {
        let now = Time::now().seconds;
        let ignoring = settings.ignored.of_freshness();
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
            let written = self.store.zone.refresh(&self.key.get(), object, &freshness, now);
            let _ = written.inspect_err(|error| self.complain(exchange, error));
        }
        self.release();
    }
}

/// The fields of an answer that are kept: not those of the connection and of framing.
fn kept_fields(fields: &Fields) -> Fields {
    let is_listed = |name: &[u8]| tokens(fields, "Connection").any(|token| name.eq_ignore_ascii_case(token));
    let mut kept = Fields::new();
    for field in fields.iter() {
        let is_own = matches!(Kind::of(&field), Kind::Own | Kind::Upgrade);
        if !is_own && !is_listed(field.name) {
            // A field that breaks the rules cannot have been parsed.
            let _ = kept.push(field.name, field.value);
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

/// Makes this server judge the conditions of the request, and cut the content to ranges: the other server was asked for
/// all of it.
pub(crate) fn judge_here(exchange: &mut Exchange) {
    exchange.wire.relayed = false;
    cut_here(exchange);
}

/// Makes this server cut the content to ranges, if the other server allows ranges.
pub(crate) fn cut_here(exchange: &mut Exchange) {
    let response = &mut exchange.response;
    if let Some(time) = response.fields.get("last-modified").and_then(parse_date) {
        response.last_modified = Some(time);
        response.fields.remove("last-modified");
    }
    if let Some(tag) = response.fields.get("etag").map(Bytes::copy_from_slice) {
        response.etag = Some(tag);
        response.fields.remove("etag");
    }
    let ranges = response.fields.get("accept-ranges");
    if ranges.is_some_and(|ranges| ranges.eq_ignore_ascii_case(b"bytes")) {
        response.accept_ranges = true;
        response.fields.remove("accept-ranges");
    }
}
