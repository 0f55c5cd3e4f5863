//! Passing a request on to another server and its answer on to the client, whatever the protocol.

use crate::shared::cached::answer::{Answer, Keeping};
use crate::shared::cached::prepared::Prepared;
use crate::shared::cached::survey::Survey;
use crate::shared::cached::{self, Cached, Next, Waited, purge};
use crate::shared::slices;
use crate::shared::store::Filing;
use bytes::Bytes;
use cache::{Object, ReadError, rfc9111};
use conf::value::size_in_text;
use contract::policy::BodyFile;
use contract::{
    Body, Exchange, Handler, LocationKind, LocationName, Outcome, Reach, Reroute, ScopeBuilder, Step,
    Streaming, Work,
};
use http::uri::split_unchecked_uri;
use http::{Field, Fields, Method, Status};
use journal::Level;
use journal::clock::Time;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Attempts, Conversation, Dialogue, Failures, Ignored, Kind, Settings, Upload};

/// Fields that an internal redirect by `X-Accel-Redirect` keeps.
const KEPT: [&str; 6] =
    ["content-disposition", "set-cookie", "cache-control", "expires", "accept-ranges", "content-language"];

/// Redirects requests that lack the slash at the end of the location's path, as nginx does where requests are passed on.
pub(crate) fn redirect_to_slash(builder: &mut ScopeBuilder) {
    let ends_with_slash = |name: &LocationName| {
        !matches!(name.kind, LocationKind::Regex | LocationKind::Named) && name.text.ends_with(b"/")
    };
    builder.policy.redirects.to_slash = builder.name.as_ref().is_some_and(ends_with_slash);
}

/// A protocol that requests are passed on by, with what one location says about it.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// The protocol's view of one request and its response.
    type Dialogue: Dialogue;

    /// The options that all protocols share.
    fn settings(&self) -> &Settings;

    /// Whether the body of the request has to be read before it is passed on.
    fn needs_body(&self) -> bool {
        self.settings().pass_request_body
    }

    /// Whether the body may be passed on as it comes.
    fn streams(&self, exchange: &Exchange) -> bool {
        let _ = exchange;
        !self.settings().buffers.of_request
    }

    /// Whether requests of this method are passed on.
    fn takes(&self, method: Method) -> bool {
        method != Method::Connect
    }

    /// The work of asking the servers. It evaluates all that the request needs, and tells of it.
    ///
    /// # Errors
    /// The status of a request that cannot be passed on.
    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status>;

    /// The status and the fields of the answer.
    fn head(dialogue: &mut Self::Dialogue) -> (Status, &mut Fields);

    /// The fields as the client should see them.
    fn rewritten(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        let _ = exchange;
        fields
    }

    /// Sets status, headers and length of the response to those of the answer, which has these headers.
    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Self::Dialogue, fields: &Fields);

    /// The words after the answer's status.
    fn reason(dialogue: &Self::Dialogue) -> &[u8];

    /// Makes the dialogue what it was when the answer came that is kept with this head.
    fn restore(dialogue: &mut Self::Dialogue, head: &cache::Head);

    /// Writes the key of a response that is kept, where the configuration has none. Tells whether there is one.
    ///
    /// # Errors
    /// The status of a request that cannot be passed on.
    fn write_key(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        let _ = (exchange, out);
        Ok(false)
    }

    /// The status with which the request ends in place of the answer.
    fn replaced(dialogue: &Self::Dialogue) -> Option<Status> {
        let _ = dialogue;
        None
    }

    /// Whether the response is a switch of the protocol only.
    fn switches(dialogue: &Self::Dialogue) -> bool {
        let _ = dialogue;
        false
    }

    /// `Ok` if the content of the answer is passed on. Otherwise `Err`, with the number of its bytes that have arrived if they
    /// count.
    fn has_content(&self, exchange: &Exchange, dialogue: &Self::Dialogue) -> Result<(), Option<usize>> {
        let _ = (exchange, dialogue);
        Ok(())
    }
}

/// Passes requests on by a protocol.
pub(crate) struct Gateway<P>(pub(crate) P);

impl<P: Protocol> Handler for Gateway<P> {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !self.0.takes(exchange.request.method) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        if (self.0.needs_body() || has_body_file(exchange))
            && let Some(work) = body_to_read(exchange, self.0.streams(exchange))
        {
            return Step::Await(work);
        }
        self.ask(exchange)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        match outcome {
            // The body of the request is there, or a response that is kept is being updated.
            Outcome::Done => {
                let cached = Cached::of(exchange);
                match cached.as_ref().and_then(|cached| Some((cached, cached.take_object()?))) {
                    Some((cached, object)) => self.serve(exchange, cached, &object),
                    None => self.ask(exchange),
                }
            }
            Outcome::Task(task) => match task.downcast::<Conversation<P::Dialogue>>() {
                Ok(conversation) => self.answer(exchange, conversation),
                Err(other) => self.look_on(exchange, |cached, exchange| {
                    other.is::<Waited>().then(|| cached.look_again(exchange))
                }),
            },
            Outcome::Job(done) => match done.downcast::<Survey>() {
                Ok(survey) => purge::go_on(exchange, survey),
                Err(read) => self.look_on(exchange, |cached, exchange| {
                    let read: Result<Object, ReadError> = *read.downcast().ok()?;
                    Some(cached.take_read(exchange, read))
                }),
            },
            _ => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl<P: Protocol> Gateway<P> {
    /// Looks for a response that is kept, or asks the other server.
    fn ask(&self, exchange: &mut Exchange) -> Step {
        let cache = self.0.settings().cache.as_ref();
        match Cached::begin(cache, exchange, |out| self.0.write_key(exchange, out)) {
            Ok(Some(cached)) => {
                let next = cached.start(exchange);
                self.go_on(exchange, &cached, next)
            }
            Ok(None) => self.pass(exchange, None),
            Err(status) => Step::Finish(status),
        }
    }

    /// Goes on with the look for a response after what was waited for.
    fn look_on(
        &self,
        exchange: &mut Exchange,
        look: impl FnOnce(&Cached, &Exchange) -> Option<Next>,
    ) -> Step {
        let cached = Cached::of(exchange);
        match cached.as_ref().and_then(|cached| Some((cached, look(cached, exchange)?))) {
            Some((cached, next)) => self.go_on(exchange, cached, next),
            None => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// Does what follows from the look for a response.
    fn go_on(&self, exchange: &mut Exchange, cached: &Cached, next: Next) -> Step {
        match next {
            Next::Ask => self.pass(exchange, Some(cached)),
            Next::Serve(object) => self.serve(exchange, cached, &object),
            Next::Follow(arriving) => {
                let body = match exchange.is_head() {
                    true => Body::Empty,
                    false => cached::answer::following(&arriving),
                };
                cached.count(Some(&arriving.head));
                let step = self.serve_as(exchange, (&arriving.head, arriving.announced), body);
                self.with_age(exchange, &arriving.head, step)
            }
            Next::Wait(work) => Step::Await(work),
            Next::Remove(status) => cached.remove(exchange, status),
            Next::Finish(status) => Step::Finish(status),
        }
    }

    /// The look of a request that this location has asked. A location without a cache makes none, and [`Cached::begin`] has
    /// ended those of locations before.
    fn cached(&self, exchange: &Exchange) -> Option<Rc<Cached>> {
        self.0.settings().cache.as_ref().and_then(|_| Cached::of(exchange))
    }

    fn pass(&self, exchange: &mut Exchange, cached: Option<&Cached>) -> Step {
        match self.0.ask(exchange) {
            // A response that others get does not end with the client.
            Ok(Work::Upstream { task, lasts }) => {
                let is_kept = cached.is_some_and(Cached::is_kept);
                let lasts = lasts || is_kept || self.0.settings().store.is_some();
                Step::Await(Work::Upstream { task, lasts })
            }
            Ok(work) => Step::Await(work),
            Err(status) => Step::Finish(status),
        }
    }

    /// Sends a response that is kept.
    fn serve(&self, exchange: &mut Exchange, cached: &Cached, object: &Arc<Object>) -> Step {
        let (length, body) = (object.head.content_length(), cached::answer::body(object));
        // An object that only this request has was read for it.
        let is_ready = Arc::strong_count(object) > 1;
        let is_usual = is_ready && Prepared::is_usual(exchange);
        if let Some(prepared) = Prepared::find(object, exchange).filter(|_| is_usual) {
            cached.count_sent(object);
            prepared.apply(exchange);
            exchange.response.content_length = length;
            return self.with_age(exchange, &object.head, Step::Respond(body));
        }
        cached.count(Some(&object.head));
        let step = self.serve_as(exchange, (&object.head, length), body);
        if is_usual && matches!(step, Step::Respond(_)) {
            Prepared::keep(object, exchange);
        }
        self.with_age(exchange, &object.head, step)
    }

    /// Says how old a response is that is kept, by the rules of RFC 9111.
    fn with_age(&self, exchange: &mut Exchange, head: &cache::Head, step: Step) -> Step {
        if self.0.settings().follows_rfc9111() && matches!(step, Step::Respond(_)) {
            rfc9111::set_age(&mut exchange.response.fields, rfc9111::age(head, Time::now().seconds));
        }
        step
    }

    /// Sends content with the head of a response that is kept, and its length if that is known.
    fn serve_as(
        &self,
        exchange: &mut Exchange,
        (head, length): (&cache::Head, Option<u64>),
        body: Body,
    ) -> Step {
        let mut dialogue = P::Dialogue::default();
        P::restore(&mut dialogue, head);
        let attempts = Attempts::of(exchange);
        if let Err(step) = self.present(exchange, &mut dialogue, &attempts) {
            return step;
        }
        cached::answer::judge_here(exchange);
        exchange.response.content_length = length.filter(|_| !head.status.is_bodiless());
        Step::Respond(body)
    }

    /// Describes an answer as the response. Gives its fields as the other server sent them.
    ///
    /// # Errors
    /// What the request does instead.
    fn present(
        &self,
        exchange: &mut Exchange,
        dialogue: &mut P::Dialogue,
        attempts: &Attempts,
    ) -> Result<Rc<Fields>, Step> {
        let settings = self.0.settings();
        let (status, fields) = P::head(dialogue);
        let sent = attempts.set_fields(fields);
        let fields = self.0.rewritten(exchange, Rc::clone(&sent));
        accel_settings(settings, exchange, &fields);
        let elsewhere = accel_redirect(settings, exchange, &fields)
            .or_else(|| intercept(settings, exchange, status, &fields));
        if let Some(step) = elsewhere {
            return Err(step);
        }
        self.0.describe(exchange, dialogue, &fields);
        if settings.force_ranges && !P::switches(dialogue) {
            cached::answer::cut_here(exchange);
            exchange.response.accept_ranges = true;
        }
        Ok(sent)
    }

    /// The response that is kept and is sent in place of an answer; none if the answer is to be sent.
    fn kept_instead(
        &self,
        exchange: &Exchange,
        cached: &Cached,
        conversation: &mut Conversation<P::Dialogue>,
    ) -> Option<Arc<Object>> {
        if conversation.answered().is_err() {
            return conversation.failure().and_then(|failure| cached.stale(failure));
        }
        let (status, fields) = P::head(&mut conversation.dialogue);
        if let Some(stale) = Failures::of_status(status).and_then(|failure| cached.stale(failure)) {
            return Some(stale);
        }
        let object = cached.still_valid(status)?;
        match cached.removes_other(&object, fields) {
            true => Some(object),
            false => Some(cached.refresh(exchange, object, fields)),
        }
    }

    /// Removes what is kept of a URI if an answer says that a request has changed it.
    fn invalidate(&self, exchange: &Exchange, conversation: &mut Conversation<P::Dialogue>) {
        if conversation.answered().is_ok() {
            let (status, cache) = (P::head(&mut conversation.dialogue).0, self.0.settings().cache.as_ref());
            purge::invalidate(cache, exchange, status, |out| self.0.write_key(exchange, out));
        }
    }

    /// Passes an answer on to the client.
    fn answer(&self, exchange: &mut Exchange, mut conversation: Box<Conversation<P::Dialogue>>) -> Step {
        let settings = self.0.settings();
        let cached = self.cached(exchange);
        if conversation.answered().is_ok() {
            conversation.learn(exchange, |dialogue| P::head(dialogue).1);
        }
        if let (Some(cached), Ok(())) = (&cached, conversation.answered()) {
            let (status, fields) = P::head(&mut conversation.dialogue);
            cached.note_answer(status);
            cached.take_head(exchange, status, fields);
        }
        self.invalidate(exchange, &mut conversation);
        if let Some(cached) = &cached {
            if let Some(object) = self.kept_instead(exchange, cached, &mut conversation) {
                return self.serve(exchange, cached, &object);
            }
            cached.count(None);
        }
        if let Err(status) = conversation.answered() {
            let is_kept = matches!(status, Status::BAD_GATEWAY | Status::GATEWAY_TIMEOUT);
            cached.iter().filter(|_| is_kept).for_each(|cached| cached.note_failure(status, None));
            return Step::Finish(status);
        }
        if let Some(status) = P::replaced(&conversation.dialogue) {
            // Reading to the end of the answer gives the connection back.
            drop(conversation.into_body(exchange, false));
            return Step::Finish(status);
        }
        let Conversation { dialogue, call, .. } = &mut *conversation;
        let (status, _) = P::head(dialogue);
        let sent = match self.present(exchange, dialogue, &call.attempts) {
            Ok(sent) => sent,
            Err(step) => {
                let fields = call.attempts.fields();
                let answer = Answer { status, reason: b"", fields: &fields };
                cached.iter().for_each(|cached| cached.note_replaced(&answer));
                return step;
            }
        };
        let is_buffered = is_buffered(settings, &sent);
        if P::switches(dialogue) {
            cached.iter().for_each(|cached| cached.release());
            return Step::Respond(
                conversation.take_tunnel().map_or(Body::Empty, |tunnel| Body::Tunnel(Box::new(tunnel))),
            );
        }
        let has_content = self.0.has_content(exchange, dialogue);
        let answer = Answer { status, reason: P::reason(dialogue), fields: &sent };
        let kept = cached.and_then(|cached| Some((keep(exchange, &cached, &answer, is_buffered)?, cached)));
        match (has_content, kept) {
            (Err(known), kept) => {
                conversation.without_content(exchange, known);
                if let Some((keeping, cached)) = kept {
                    cached.fill(exchange, (keeping, &sent), Body::Empty, 0);
                }
                Step::Respond(Body::Empty)
            }
            (Ok(()), None) => {
                let filing =
                    is_buffered.then(|| Filing::begin(settings, exchange, (status, &sent))).flatten();
                let body = conversation.into_body(exchange, is_buffered);
                Step::Respond(match filing {
                    Some(filing) => filing.pass(exchange, body),
                    None => body,
                })
            }
            (Ok(()), Some((keeping, cached))) => {
                let body = conversation.into_body(exchange, true);
                Step::Respond(cached.fill(exchange, (keeping, &sent), body, settings.buffers.in_memory))
            }
        }
    }
}

/// Decides whether an answer is kept, and what this server does for the client with one that might be: it was requested
/// without conditions and as a whole.
fn keep(exchange: &mut Exchange, cached: &Cached, answer: &Answer<'_>, is_buffered: bool) -> Option<Keeping> {
    let may_be_kept = cached.is_kept();
    // As in nginx: what is not buffered may be meant for one client, such as a stream of events.
    if !is_buffered || !slices::may_be_kept(exchange, cached.is_update) {
        cached.pass();
    }
    let keeping = cached.keep(exchange, answer);
    let is_conditional = cached::answer::is_conditional(exchange);
    let has_ranges = exchange.response.fields.get("Accept-Ranges").is_some();
    let is_judged = || keeping.is_some() || (may_be_kept && cached.is_cacheable(answer));
    if (is_conditional || has_ranges) && is_judged() {
        // Without a condition there is nothing to judge: the client gets the other fields as they came.
        match is_conditional {
            true => cached::answer::judge_here(exchange),
            false => cached::answer::offer_ranges(exchange),
        }
    }
    keeping
}

/// Whether the body has to be there although it is not passed on: the other server gets the name of its file.
fn has_body_file(exchange: &Exchange) -> bool {
    exchange.scope.policy.request_body.client_body_in_file_only != BodyFile::WhenLong
}

/// What has to be waited for before the request's body can be passed on; `streams` tells whether it need not be
/// whole. A subrequest has its parent's body, or none.
fn body_to_read(exchange: &Exchange, streams: bool) -> Option<Work> {
    let request = &exchange.request;
    let has_body = request.chunked || request.content_length.is_some_and(|length| length > 0);
    let is_unread = request.body.is_none() && request.streaming.is_none() && !exchange.subrequest;
    (has_body && is_unread).then_some(if streams { Work::RequestStream } else { Work::RequestBody })
}

/// The request's body as it is passed on, whole or as it comes.
///
/// # Errors
/// A part of it went to another server already.
pub(crate) fn upload(exchange: &Exchange) -> Result<Upload, Status> {
    let request = &exchange.request;
    match request.streaming {
        None => Ok(request.body.clone().map_or(Upload::None, Upload::Whole)),
        Some(Streaming::Untouched) => Ok(Upload::Stream),
        // A page in place of an answer is fetched without the body, a part of which is gone.
        Some(_) if exchange.routing.internal && matches!(request.method, Method::Get | Method::Head) => {
            Ok(Upload::None)
        }
        Some(Streaming::Begun | Streaming::Over) => {
            exchange.log(Level::Error, "the body of the request was passed on to another server already");
            Err(Status::BAD_GATEWAY)
        }
    }
}

/// Whether the request may be sent twice (RFC 9110, section 9.2.2; nginx's list).
pub(crate) fn is_idempotent(exchange: &Exchange) -> bool {
    !matches!(exchange.request.method, Method::Post | Method::Lock | Method::Patch)
}

/// Tells which fields of an answer count: of those that it should have once, the first.
#[derive(Default)]
pub(crate) struct Counting {
    /// A bit for each kind that was there.
    seen: u32,
}

impl Counting {
    /// Whether the next field counts, which is of this kind.
    #[inline]
    pub(crate) fn counts(&mut self, kind: Kind) -> bool {
        let is_first = self.seen & kind.bit() == 0;
        self.seen |= kind.bit();
        is_first || !kind.is_single()
    }

    /// Whether there was a field of this kind.
    pub(crate) fn has_seen(&self, kind: Kind) -> bool {
        self.seen & kind.bit() != 0
    }
}

/// Logs that a header of a response is not passed on: `of` is whose response it is.
pub(crate) fn log_dropped(exchange: &Exchange, name: &[u8], of: &str, why: &str) {
    let name = String::from_utf8_lossy(name);
    exchange.log(Level::Error, &format!("header \"{name}\" of the {of}'s response is dropped: {why}"));
}

/// The fields of early hints that do not concern the connection to the other server.
pub(crate) fn hints(fields: &Fields) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(|field| !matches!(Kind::of(field), Kind::Own | Kind::Upgrade))
}

/// An answer's own words for its status, unless an `error_page` has given it another one: that has its own words.
#[inline]
pub(crate) fn reason(
    exchange: &Exchange,
    status: Status,
    text: &[u8],
) -> Option<(Status, Cow<'static, [u8]>)> {
    let usual = status.reason().as_bytes();
    // Most values are usual ones, which take no memory.
    let is_usual = || text == usual || text.trim_ascii() == usual;
    let words = || if is_usual() { Cow::Borrowed(usual) } else { Cow::Owned(text.trim_ascii().to_vec()) };
    exchange.error.is_none().then(|| (status, words()))
}

/// The media type that an answer says it has; an empty one says nothing. The one before takes no memory once more.
pub(crate) fn media_type(value: &[u8], before: &mut Bytes) -> Option<Bytes> {
    if before != value {
        *before = Bytes::copy_from_slice(value);
    }
    (!value.is_empty()).then(|| before.clone())
}

/// Where the other server sends the request instead of answering it itself.
fn accel_redirect(settings: &Settings, exchange: &mut Exchange, fields: &Fields) -> Option<Step> {
    let uri = fields.get("X-Accel-Redirect")?;
    if settings.ignored.has(Ignored::REDIRECT) {
        return None;
    }
    for field in fields.iter().filter(|field| KEPT.iter().any(|name| field.is(name))) {
        let _ = exchange.response.fields.push(field.name, field.value);
    }
    exchange.response.content_type =
        fields.get("Content-Type").and_then(|value| media_type(value, &mut Bytes::new()));
    if uri.starts_with(b"@") {
        return Some(Step::Reroute(Reroute::Named(uri.into())));
    }
    let Some((path, args)) = split_unchecked_uri(uri).filter(|_| uri.starts_with(b"/")) else {
        let shown = String::from_utf8_lossy(uri).into_owned();
        exchange.log(Level::Error, &format!("unsafe URI \"{shown}\" was detected"));
        return Some(Step::Finish(Status::NOT_FOUND));
    };
    if exchange.request.method != Method::Head {
        exchange.request.method = Method::Get;
    }
    Some(Step::Reroute(Reroute::Internal { path, args }))
}

/// The step of a status whose place an `error_page` takes.
#[inline]
fn intercept(settings: &Settings, exchange: &mut Exchange, status: Status, fields: &Fields) -> Option<Step> {
    let pages = &exchange.scope.policy.error_pages;
    if !settings.intercept_errors
        || status.0 < 300
        || !pages.iter().any(|page| page.statuses.contains(&status))
    {
        return None;
    }
    for value in fields.all("WWW-Authenticate").filter(|_| status == Status::UNAUTHORIZED) {
        let _ = exchange.response.fields.push(b"WWW-Authenticate", value);
    }
    Some(Step::Finish(status))
}

/// The charset that another server wants a response to have (`X-Accel-Charset`); attached to the exchange.
pub(crate) struct NamedCharset(pub(crate) Bytes);

/// Sets how fast the response is sent and which charset it gets, where the answer says so.
fn accel_settings(settings: &Settings, exchange: &mut Exchange, fields: &Fields) {
    let said = fields.get("X-Accel-Limit-Rate").filter(|_| !settings.ignored.has(Ignored::LIMIT_RATE));
    // Digits without a unit, as in nginx.
    let digits = said.filter(|text| text.iter().all(u8::is_ascii_digit));
    if let Some(rate) = digits.and_then(size_in_text) {
        exchange.wire.limit_rate = Some(rate);
    }
    let charset = fields.get("X-Accel-Charset").filter(|_| !settings.ignored.has(Ignored::CHARSET));
    if let Some(charset) = charset.filter(|name| !name.is_empty()) {
        exchange.attach(Reach::Own, Rc::new(NamedCharset(Bytes::copy_from_slice(charset))));
    }
}

/// Whether the answer is taken from the server as fast as it comes; the answer itself may say so.
fn is_buffered(settings: &Settings, fields: &Fields) -> bool {
    let said = fields.get("X-Accel-Buffering").filter(|_| !settings.ignored.has(Ignored::BUFFERING));
    match said {
        Some(value) if value.eq_ignore_ascii_case(b"no") => false,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
        _ => settings.buffers.of_response,
    }
}
