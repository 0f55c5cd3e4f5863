//! What a response that is kept, or is going to be, means for the answer to the client.

use super::filling::Filling;
use super::following::Following;
use super::{Cached, any_set, read_if_ready, uptime_s};
use crate::shared::connection_fields::{is_listed, lists_fields};
use crate::shared::validators;
use cache::rfc9111::{self, Came, Control, Kept};
use cache::{
    Arriving, Content, Freshness, Head, HeadParts, Lookup, Object, Rules, Storing, Whole, Writer, reason_of,
};
use contract::{Body, Exchange, Piece};
use http::{Field, Fields, KnownName, Method, Status};
use journal::Level;
use journal::clock::Time;
use std::borrow::Cow;
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
            Rules::Rfc9111 => self.kept_strictly(self.came(status, fields, now)),
        };
        kept.filter(|_| self.is_kept())
    }

    /// How long a response may be used by the rules of RFC 9111. Beside responses with `Vary`, one without does not take the place
    /// of all variants: servers omit the field by mistake (section 4.1).
    fn kept_strictly(&self, came: Came<'_>) -> Option<Kept> {
        let mut kept = came.kept(self.settings.ignoring, &self.settings.valid)?;
        if self.key() != self.main && kept.freshness.vary.is_empty() {
            kept.freshness.vary.clone_from(&self.details().vary.borrow());
        }
        Some(kept)
    }

    fn came<'a>(&self, status: Status, fields: &'a Fields, now: i64) -> Came<'a> {
        Came { wish: self.wish(), status, fields, asked: self.asked, now, is_part: self.is_part }
    }

    /// Keeps the status of an answer whose place another page takes.
    pub(crate) fn note_replaced(&self, answer: &Answer<'_>) {
        let is_redirect = answer.fields.get("X-Accel-Redirect").is_some();
        match self.kept(answer).filter(|_| !is_redirect) {
            Some(kept) => self.note_failure(answer.status, Some(kept.freshness)),
            None => self.pass(),
        }
    }

    /// Whether this server may cut an answer to ranges and judge conditions, as nginx decides it: by the request and the fields
    /// of the answer. Whether the answer gets a time or is kept has no effect.
    pub(crate) fn is_cacheable(&self, answer: &Answer<'_>) -> bool {
        let now = Time::now().seconds;
        match self.settings.rules {
            Rules::Nginx => Freshness::may_be_kept(answer.fields, self.settings.ignoring, now),
            Rules::Rfc9111 => {
                let came = self.came(answer.status, answer.fields, now);
                came.kept(self.settings.ignoring, &self.settings.valid).is_some()
            }
        }
    }

    /// Decides whether an answer is kept.
    pub(crate) fn keep(&self, exchange: &Exchange, answer: &Answer<'_>) -> Option<Keeping> {
        let is_bare = exchange.request.method == Method::Head && !self.settings.convert_head;
        // Without its content an answer does not replace one that has it.
        let is_barred = is_bare && self.met().is_some_and(|object| !object.head.is_bare);
        let kept = self.kept(answer).filter(|_| !is_barred && !any_set(&self.settings.no_cache, exchange));
        let keeping = kept.map(|kept| Keeping {
            kept,
            status: answer.status,
            reason: reason_of(answer.status, answer.reason),
            is_bare,
        });
        match keeping {
            Some(_) => self.storing.set(Storing::Stored),
            None => self.pass(),
        }
        keeping
    }

    /// What is known of an answer that is kept. It also sets the key of the file.
    fn parts<'a>(&'a self, exchange: &Exchange, keeping: &'a Keeping) -> HeadParts<'a> {
        let Keeping { kept: Kept { freshness, .. }, status, reason, is_bare } = keeping;
        let vary = &freshness.vary;
        let family = if vary.is_empty() { 0 } else { self.family() };
        let variant = (family != 0).then(|| self.main.variant(family, vary, &exchange.request.head.fields));
        if self.key() != self.main && variant != Some(self.key()) {
            // The answer depends on other fields than the one before it.
            self.set_key(self.main);
        }
        let (status, is_bare) = (*status, *is_bare);
        let date = Time::now().seconds;
        HeadParts { freshness, date, key: &self.text, variant, family, status, reason, is_bare }
    }

    /// The number that the response shares with its variants: that of the response which it replaces or joins, or a new one.
    fn family(&self) -> u64 {
        let joined = self.details.get().and_then(|details| details.family.get());
        let known = joined.or_else(|| self.met().map(|object| object.head.family));
        // A request that bypasses the cache has not looked. If the disk would have to be waited for, the variants get lost.
        let there = || {
            let there = self.store.zone.read_head_by(&self.main, &mut read_if_ready);
            there.ok().flatten().map(|object| object.head.family)
        };
        let found = if self.lookup.get() == Lookup::Bypass { known.or_else(there) } else { known };
        found.filter(|&family| family != 0).unwrap_or_else(cache::new_family)
    }

    fn writer(&self, exchange: &Exchange, (keeping, fields): &KeptAnswer<'_>) -> Option<Writer> {
        let HeadParts { freshness, date, key, variant, family, status, is_bare, .. } =
            self.parts(exchange, keeping);
        let head = Head {
            freshness: freshness.clone(),
            date,
            length: 0,
            checksum: 0,
            key: key.into(),
            variant,
            family,
            status,
            reason: keeping.reason.clone(),
            fields: self.kept_fields(fields, (keeping.kept.age, is_bare)),
            is_bare,
        };
        let writer = Writer::new(&self.store.zone, self.key(), head);
        let writer = writer.inspect_err(|error| self.complain(exchange, error)).ok();
        writer.map(|writer| writer.after(self.removals))
    }

    /// Logs that an answer cannot be kept.
    pub(super) fn complain(&self, exchange: &Exchange, error: &std::io::Error) {
        let directory = self.store.zone.directory().display();
        let text = net::system_message(error);
        exchange.log(Level::Crit, &format!("a response cannot be kept in \"{directory}\" ({text})"));
    }

    /// Writes an answer with these fields, whose content may be still to come, and returns the content for the client.
    pub(crate) fn fill(
        self: &Rc<Self>,
        exchange: &mut Exchange,
        answer: KeptAnswer<'_>,
        body: Body,
        buffers: usize,
    ) -> Body {
        let source = match body {
            Body::Source(source) => source,
            Body::Tunnel(_) => return body,
            Body::Empty | Body::Piece(_) | Body::Pieces(_) => {
                self.write_whole(exchange, &answer, &body);
                self.release();
                return body;
            }
        };
        let announced = exchange.response.content_length;
        let is_taken = announced.is_none_or(|length| self.store.zone.takes(length));
        let writer = if is_taken { self.writer(exchange, &answer) } else { None };
        let Some(mut writer) = writer else {
            self.storing.set(Storing::Refused);
            self.pass();
            return Body::Source(source);
        };
        exchange.wire.outlasts = true;
        // A content of unknown length may never end. Other requests wait for it, and give up in time.
        if let Some(details) = self.details.get().filter(|_| announced.is_some()) {
            details.fill.borrow().iter().for_each(|fill| writer.share(fill, announced));
        }
        Body::Source(Box::new(Filling::new(Rc::clone(self), writer, source, buffers)))
    }

    fn write_whole(&self, exchange: &Exchange, answer: &KeptAnswer<'_>, body: &Body) {
        // Most contents are one piece, which needs no list.
        let written = match body {
            Body::Piece(Piece::Bytes(content)) => self.write(exchange, answer, &[content]),
            body => {
                let content = body.pieces().unwrap_or_default().iter().map(|piece| match piece {
                    Piece::Bytes(bytes) => Ok(&**bytes),
                    Piece::File { .. } => Err(std::io::Error::other("the content is in another file")),
                });
                let content = content.collect::<Result<Vec<&[u8]>, _>>();
                content.and_then(|content| self.write(exchange, answer, &content))
            }
        };
        if let Err(error) = written {
            self.storing.set(Storing::Refused);
            self.complain(exchange, &error);
        }
    }

    /// Writes an answer whose content is there.
    fn write(
        &self,
        exchange: &Exchange,
        (keeping, fields): &KeptAnswer<'_>,
        content: &[&[u8]],
    ) -> std::io::Result<()> {
        let head = self.parts(exchange, keeping);
        let (removals, expires) = (self.removals, self.expires(uptime_s()));
        let lines = fields.lines_max();
        let whole = Whole { key: self.key(), head, lines, content, removals, expires };
        whole.store(&self.store.zone, |out| match self.settings.rules {
            Rules::Nginx => {
                fields.write_some(keeps(fields, keeping.is_bare), out);
            }
            Rules::Rfc9111 => {
                let kept = self.kept_fields(fields, (keeping.kept.age, keeping.is_bare));
                out.extend_from_slice(&kept.lines());
            }
        })
    }

    /// Gives the file of an answer its name.
    pub(super) fn finish(&self, exchange: &Exchange, writer: Writer) {
        if let Err(error) = writer.finish(self.expires(uptime_s())) {
            self.complain(exchange, &error);
        }
        self.release();
    }

    /// The fields of an answer that are kept. By the rules of RFC 9111 `Age` and `Date` are among them.
    fn kept_fields(&self, fields: &Fields, (age, is_bare): (i64, bool)) -> Fields {
        let mut kept = Fields::with_room_for(fields);
        let keeps = keeps(fields, is_bare);
        let mut add = |field: &Field<'_>| {
            // The list that the field comes from has room for it.
            let _ = kept.push_checked(field);
        };
        match self.settings.rules {
            Rules::Nginx => fields.iter().filter(keeps).for_each(|field| add(&field)),
            Rules::Rfc9111 => {
                let control = Control::of(fields, self.settings.ignoring);
                let keeps = |field: &Field<'_>| keeps(field) && control.keeps(field.name);
                fields.iter().filter(keeps).for_each(|field| add(&field));
                rfc9111::kept_age(&mut kept, age);
                rfc9111::kept_date(&mut kept, Time::now().seconds);
            }
        }
        kept
    }

    /// Takes notice of the answer to a HEAD request that was passed on as such: what is kept for GET changes with it, or is
    /// no longer valid (RFC 9111, section 4.3.5).
    pub(crate) fn take_head(&self, exchange: &Exchange, status: Status, said: &Fields) {
        let is_head = exchange.request.method == Method::Head && !self.settings.convert_head;
        if !is_head || status != Status::OK || self.settings.rules != Rules::Rfc9111 {
            return;
        }
        let object = self.met().filter(|object| !object.head.is_bare);
        let Some(object) = object else { return };
        let now = Time::now().seconds;
        if rfc9111::describes(said, &object.head) {
            self.renew(exchange, &object, said, now);
        } else if let Err(error) = self.store.zone.outdate(&self.key(), &object, now) {
            self.complain(exchange, &error);
            self.store.zone.discard(&self.key());
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
            let fields = &object.head.fields;
            let seconds = self.settings.valid.for_response(object.head.status, fields, now)?;
            let times = cache::Times::of(fields, ignoring, now);
            Some((now.saturating_add(seconds), times.updating_s, times.error_s))
        };
        if let Some((valid_until, updating_s, error_s)) =
            of(said).or_else(|| of(&object.head.fields)).or_else(configured)
        {
            let freshness = Freshness { valid_until, updating_s, error_s, vary: Box::default() };
            let written = self.store.zone.refresh(&self.key(), &object, &freshness, now);
            let _ = written.inspect_err(|error| self.complain(exchange, error));
        }
        self.release();
        object
    }

    /// The object with the fields of an answer that says that it is still valid (RFC 9111, section 4.3.4).
    fn renew(&self, exchange: &Exchange, object: &Object, said: &Fields, now: i64) -> Object {
        let (status, zone, key) = (object.head.status, &self.store.zone, self.key());
        let age = self.came(status, said, now).age();
        let all = rfc9111::updated(&object.head.fields, said, (age, now));
        // The time that the upstream server took is part of the age already.
        let came = Came { asked: now, ..self.came(status, &all, now) };
        let kept = self.kept_strictly(came);
        let fields = self.kept_fields(&all, (age, object.head.is_bare));
        let mut head = Head { date: now, fields, ..object.head.clone() };
        let is_same = kept.as_ref().is_some_and(|kept| kept.freshness.vary == head.freshness.vary);
        let Some(kept) = kept.filter(|_| is_same) else {
            zone.discard(&key);
            return object.with_head(head);
        };
        head.freshness = kept.freshness;
        let written = match zone.replace_head(&key, object, &head) {
            Ok(false) => self.rewrite(object, &head),
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
    fn rewrite(&self, object: &Object, head: &Head) -> std::io::Result<()> {
        let (zone, key) = (&self.store.zone, self.key());
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
        let (content, removals, expires) = ([&content[..]], self.removals, self.expires(uptime_s()));
        let (parts, lines) = (head.parts(), head.fields.lines_max());
        let whole = Whole { key, head: parts, lines, content: &content, removals, expires };
        whole.store(zone, |out| out.extend_from_slice(&head.fields.lines()))
    }
}

/// An answer that is going to be kept, before its content is there.
pub(crate) struct Keeping {
    kept: Kept,
    status: Status,
    reason: Cow<'static, [u8]>,
    /// Whether it came without its content.
    is_bare: bool,
}

/// An answer that is going to be kept, with its fields.
type KeptAnswer<'a> = (Keeping, &'a Fields);

/// Tells whether a field of an answer is kept: not those of the connection and of framing. A response to HEAD keeps the length
/// that it says.
fn keeps(fields: &Fields, is_bare: bool) -> impl Fn(&Field<'_>) -> bool {
    let has_list = lists_fields(fields);
    move |field| {
        let is_own = matches!(Kind::of(field), Kind::Own | Kind::Upgrade);
        let is_length = is_bare && field.known == KnownName::ContentLength;
        let is_listed = has_list && is_listed(fields, field);
        (!is_own || is_length) && !is_listed
    }
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
    validators::adopt(&mut exchange.response);
    offer_ranges(exchange);
}

/// Lets this server decide whether it offers ranges, if the upstream server has said anything about them (as nginx).
pub(crate) fn offer_ranges(exchange: &mut Exchange) {
    let response = &mut exchange.response;
    if response.fields.get("Accept-Ranges").is_some() {
        response.accept_ranges = true;
        response.fields.remove("Accept-Ranges");
    }
}
