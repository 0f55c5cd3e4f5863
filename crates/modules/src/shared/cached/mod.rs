//! Responses that are kept, as a request meets them: it looks for its key, waits for another request, sends what it finds,
//! or asks the upstream server and keeps the response.

pub(crate) mod answer;
mod details;
mod filling;
mod following;
pub(crate) mod keeper;
mod keys;
pub(crate) mod prepared;
pub(crate) mod purge;
pub(crate) mod survey;
mod updates;
mod variables;

use crate::shared::eventually::Eventually;
use crate::shared::host::host_and_port;
use crate::shared::scratch::with_scratch;
use crate::shared::slices::{self, slice_range};
use cache::rfc9111::{self, Use, Wish};
use cache::{Arriving, Asking, Demand, FillRight, Freshness, Head, Key, Look, Object, ReadError, Rules};
use contract::{Content, Event, Exchange, Reach, Subrequest, Template, Work};
use details::Details;
use http::{Fields, Method, Status};
use journal::Level;
use journal::clock::Time;
use keys::Named;
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::future::poll_fn;
use std::num::NonZeroI64;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use updates::Updates;
use upstream::{CacheSettings, Failures, Purge, Store, is_set};
pub(crate) use variables::{asks_for_content, conditions, etag, is_kept, last_modified, status};
use wire::{Ready, Timer, read_ready};

/// The result of the look for a response (`$upstream_cache_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing was looked for.
    Unasked,
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl Found {
    /// The words, in the order of the numbers.
    pub(crate) const TEXTS: [Option<&'static str>; 8] = [
        Found::Unasked.text(),
        Found::Miss.text(),
        Found::Bypass.text(),
        Found::Expired.text(),
        Found::Stale.text(),
        Found::Updating.text(),
        Found::Revalidated.text(),
        Found::Hit.text(),
    ];

    const fn text(self) -> Option<&'static str> {
        Some(match self {
            Found::Unasked => return None,
            Found::Miss => "MISS",
            Found::Bypass => "BYPASS",
            Found::Expired => "EXPIRED",
            Found::Stale => "STALE",
            Found::Updating => "UPDATING",
            Found::Revalidated => "REVALIDATED",
            Found::Hit => "HIT",
        })
    }
}

/// Why the upstream server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    UriMiss,
    VaryMiss,
    Bypass,
    Request,
    Stale,
}

impl Reason {
    /// The word of RFC 9211.
    fn word(self) -> &'static str {
        match self {
            Reason::UriMiss => "uri-miss",
            Reason::VaryMiss => "vary-miss",
            Reason::Bypass => "bypass",
            Reason::Request => "request",
            Reason::Stale => "stale",
        }
    }
}

/// What a request does next.
pub(crate) enum Next {
    /// It asks the upstream server.
    Ask,
    /// It sends this.
    Serve(Arc<Object>),
    /// It sends this as it comes.
    Follow(Arc<Arriving>),
    /// It waits.
    Wait(Work),
    /// It removes what is kept, and ends with this status.
    Remove(Status),
    /// It ends with a status.
    Finish(Status),
}

/// A request for a response that may be kept; attached to the exchange.
pub(crate) struct Cached {
    settings: Arc<CacheSettings>,
    store: Arc<Store>,
    /// The text of the key.
    text: Rc<[u8]>,
    main: Key,
    /// Seconds since 1970 when the look began, and how many removals there had been in the zone.
    asked: i64,
    removals: u64,
    details: OnceCell<Box<Details>>,
    /// The object that is sent with a head that was made before.
    sent: Cell<Option<Arc<Object>>>,
    /// Until when the response is valid that is sent, in seconds since 1970.
    valid_until: Cell<Option<NonZeroI64>>,
    /// The status that the upstream server answered, and whether its response is being kept.
    answered: Cell<Option<Status>>,
    is_stored: Cell<bool>,
    /// Whether the thread knows the text with its key.
    is_known: Cell<bool>,
    found: Cell<Found>,
    reason: Cell<Reason>,
    /// Whether the response may be kept.
    stores: Cell<bool>,
    /// Whether the request was counted among the uses of its key.
    is_counted: Cell<bool>,
    /// Whether the response is one that another request was getting.
    is_collapsed: Cell<bool>,
    /// Whether the request is for one part of a content, which the key names.
    is_part: bool,
    /// Whether nothing may be sent in place of the upstream server's answer.
    is_strict: Cell<bool>,
    /// Whether this request updates a response that another one has sent.
    pub(crate) is_update: bool,
}

// The allocator has memory of this length at hand, with the two counts of an `Rc` and its eight bytes.
const _: () = assert!(size_of::<Cached>() <= 128 - 24);

/// The outcome of waiting for another request.
pub(crate) struct Waited;

/// How long an update may take before another request tries it, too.
const UPDATE_AGE: Duration = Duration::from_secs(3600);

/// How long a content may be that is kept in memory, in bytes. The files of longer ones are kept open: the kernel copies what is
/// sent from memory, and not what is sent from a file. That saves more than the further system call costs.
const LOADED_MAX: u64 = 48 * 1024;

impl Cached {
    /// Begins the look for a response; none if the request uses no cache. `default_key` writes the key where the
    /// configuration has none, and tells whether there is one.
    ///
    /// # Errors
    /// The status of a request whose key cannot be computed.
    pub(crate) fn begin(
        settings: Option<&Arc<CacheSettings>>,
        exchange: &Exchange,
        default_key: impl FnOnce(&mut Vec<u8>) -> Result<bool, Status>,
    ) -> Result<Option<Rc<Cached>>, Status> {
        if let Some(before) = Cached::of(exchange) {
            // An internal redirect leads here from another location.
            before.found.set(Found::Unasked);
            before.release();
        }
        let Some(settings) = settings else { return Ok(None) };
        let removes = Purge::status(&settings.purge, exchange)?;
        let is_kept = match settings.rules {
            Rules::Nginx => settings.methods.has(exchange.request.method),
            Rules::Rfc9111 => matches!(exchange.request.method, Method::Get | Method::Head),
        };
        if removes.is_none() && !is_kept {
            return Ok(None);
        }
        let Some((store, named)) = find(settings, exchange, default_key)? else { return Ok(None) };
        let Named { text, key: main, is_known } = named;
        let fill = Updates::take(exchange, &text);
        let is_update = fill.is_some();
        let now = Time::now().seconds;
        let cached = Rc::new(Cached {
            settings: Arc::clone(settings),
            asked: now,
            removals: store.zone.removals(),
            details: match fill.is_some() || removes.is_some() || settings.rules != Rules::Nginx {
                true => Details::new(wish(settings, exchange, is_update), removes, fill),
                false => OnceCell::new(),
            },
            sent: Cell::default(),
            valid_until: Cell::default(),
            answered: Cell::default(),
            is_stored: Cell::new(false),
            is_known: Cell::new(is_known),
            found: Cell::new(Found::Miss),
            reason: Cell::new(Reason::UriMiss),
            stores: Cell::new(true),
            is_counted: Cell::new(false),
            is_collapsed: Cell::new(false),
            is_part: is_part(exchange, &text),
            is_strict: Cell::new(false),
            is_update,
            store: Arc::clone(store),
            text,
            main,
        });
        exchange.attach(Reach::Own, Rc::clone(&cached));
        Ok(Some(cached))
    }

    /// The look of this exchange, if it made one.
    pub(crate) fn of(exchange: &Exchange) -> Option<Rc<Cached>> {
        exchange.attached::<Cached>().filter(|cached| cached.found.get() != Found::Unasked)
    }

    /// What the request does first.
    pub(crate) fn start(&self, exchange: &Exchange) -> Next {
        if let Some(status) = self.details.get().and_then(|details| details.removes) {
            return Next::Remove(status);
        }
        // The key says nothing about a body, on which the response may depend.
        let has_body = has_body(exchange) && matches!(exchange.request.method, Method::Get | Method::Head);
        if has_body {
            self.stores.set(false);
        }
        let next = match has_body || any_set(&self.settings.bypass, exchange) {
            true => {
                self.found.set(Found::Bypass);
                self.reason.set(Reason::Bypass);
                Next::Ask
            }
            false => self.look(exchange),
        };
        self.tell(exchange, next)
    }

    /// Goes on after waiting for another request.
    pub(crate) fn look_again(&self, exchange: &Exchange) -> Next {
        let next = self.look(exchange);
        self.tell(exchange, next)
    }

    /// Goes on with what a job has read.
    pub(crate) fn take_read(&self, exchange: &Exchange, read: Result<Object, ReadError>) -> Next {
        let next = self.judge_read(exchange, read);
        self.tell(exchange, next)
    }

    /// The object that is to be sent after the work that was begun for it.
    pub(crate) fn take_object(&self) -> Option<Arc<Object>> {
        let is_sent = matches!(self.found.get(), Found::Stale | Found::Updating | Found::Hit);
        if is_sent { self.take_met() } else { None }
    }

    /// Reports what was found, and notes what follows from it for the response.
    fn tell(&self, exchange: &Exchange, next: Next) -> Next {
        // As in nginx, a request that bypasses the cache gets all of the response.
        let is_looked_for = matches!(next, Next::Ask) && self.found.get() != Found::Bypass;
        if is_looked_for && self.stores.get() && is_beyond(&self.settings, exchange) {
            self.release();
        }
        let next = match next {
            Next::Ask if self.wish().only_if_cached => {
                self.release();
                Next::Finish(Status::GATEWAY_TIMEOUT)
            }
            next => next,
        };
        exchange.tell(|| {
            let found = self.found.get().text().unwrap_or_default();
            let key = String::from_utf8_lossy(&self.text);
            Event::new("cache", format!("{found} for the key \"{key}\"")).with("key", &self.text)
        });
        next
    }

    fn look(&self, exchange: &Exchange) -> Next {
        let (zone, key) = (&self.store.zone, self.key());
        let (has_file, may_store) = match zone.look(&key, &self.asking()) {
            Look::Failed(status) => {
                self.found.set(Found::Hit);
                return Next::Finish(status);
            }
            Look::Ready(object) => {
                self.is_counted.set(true);
                return self.judge_key(exchange, object);
            }
            Look::Known { has_file, may_store, reading } => {
                if reading != self.reading() {
                    self.details().reading.set(reading);
                }
                (has_file, may_store)
            }
        };
        self.is_counted.set(true);
        if has_file {
            match zone.open(&key) {
                Ok(Some(file)) => return self.read(exchange, Arc::new(file)),
                Ok(None) => zone.note_missing(&key),
                Err(error) => {
                    let file = zone.directory().join(zone.levels().path(&key));
                    let message =
                        format!("open() \"{}\" failed ({})", file.display(), net::system_message(&error));
                    exchange.log(Level::Crit, &message);
                    self.stores.set(false);
                    return Next::Ask;
                }
            }
        }
        if !may_store {
            self.stores.set(false);
            return Next::Ask;
        }
        self.lock(exchange)
    }

    /// Sends the response that another request is getting, if it is the one for this request.
    fn follow(&self, exchange: &Exchange, arriving: Arc<Arriving>) -> Next {
        let head = &arriving.head;
        let wanted = head.variant.map(|_| self.variant(exchange, head));
        if *head.key == *self.text && wanted == head.variant {
            self.found.set(Found::Hit);
            self.is_collapsed.set(true);
            return Next::Follow(arriving);
        }
        match wanted.filter(|_| *head.key == *self.text && self.key() == self.main) {
            Some(wanted) => self.look_for_variant(exchange, wanted, head),
            None => {
                self.stores.set(false);
                Next::Ask
            }
        }
    }

    /// The key of the variant for this request, of those that a response with this head has.
    fn variant(&self, exchange: &Exchange, head: &Head) -> Key {
        self.main.variant(head.family, &head.freshness.vary, &exchange.request.head.fields)
    }

    fn look_for_variant(&self, exchange: &Exchange, wanted: Key, head: &Head) -> Next {
        self.set_key(wanted);
        self.details().vary.replace(head.freshness.vary.clone());
        self.details().family.set(Some(head.family));
        self.reason.set(Reason::VaryMiss);
        // Uses of a variant are counted for its own key, too (as nginx).
        self.is_counted.set(false);
        self.look(exchange)
    }

    fn asking(&self) -> Asking {
        let now = uptime_s();
        Asking {
            min_uses: self.settings.min_uses,
            counts: !self.is_counted.get(),
            expires: self.expires(now),
            now,
        }
    }

    /// Until when an object stays that nothing uses from now on.
    fn expires(&self, now: i64) -> i64 {
        now.saturating_add(self.store.path.inactive_s)
    }

    /// Gets the right to ask the upstream server, or waits for the request that has it.
    fn lock(&self, exchange: &Exchange) -> Next {
        let settings = &self.settings;
        if !settings.lock.is_on || self.has_fill() || self.wish().only_if_cached {
            return Next::Ask;
        }
        let (zone, key, now) = (&self.store.zone, self.key(), Time::now().instant);
        if zone.is_passed(&key, now) {
            return Next::Ask;
        }
        if let Some(fill) = zone.try_fill(&key, settings.lock.age, now) {
            self.details().fill.replace(Some(fill));
            return Next::Ask;
        }
        if let Some(arriving) = zone.arriving(&key) {
            return self.follow(exchange, arriving);
        }
        let until = self.details().waits_until.get().unwrap_or(now + settings.lock.timeout);
        self.details().waits_until.set(Some(until));
        if now >= until || self.details().gave_up.get() {
            if !self.details().gave_up.replace(true) {
                exchange.log(Level::Info, "cache lock timeout");
            }
            self.stores.set(false);
            return Next::Ask;
        }
        let left = until.saturating_duration_since(now).min(zone.fill_left(&key, now).unwrap_or_default());
        let zone = Arc::clone(zone);
        let waiting = async move {
            let Ok(timer) = Timer::here() else { return Waited };
            timer.set(left);
            poll_fn(|cx| match zone.poll_filled(&key, cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => timer.poll(cx),
            })
            .await;
            Waited
        };
        Next::Wait(Work::Task(Eventually::boxed(waiting)))
    }

    /// Reads the head of a file, in another thread if the disk has to be waited for.
    fn read(&self, exchange: &Exchange, file: Arc<File>) -> Next {
        let reading = self.reading();
        let loads = if reading.admits { LOADED_MAX } else { 0 };
        let demand = Demand { check: reading.check(), loads, may_block: false };
        match Object::read(Arc::clone(&file), demand, &mut read_if_ready) {
            Err(ReadError::Waits) => Next::Wait(Work::Job(Box::new(move || {
                let mut read =
                    |file: &File, buffer: &mut [u8], offset| file.read_at(buffer, offset).map(Some);
                Box::new(Object::read(file, Demand { may_block: true, ..demand }, &mut read))
            }))),
            read => self.judge_read(exchange, read),
        }
    }

    fn judge_read(&self, exchange: &Exchange, read: Result<Object, ReadError>) -> Next {
        let complain = |what: &str| self.complain_of_file(exchange, what);
        match read {
            Ok(object) => {
                let object = Arc::new(object);
                self.store.zone.note_read(&self.key(), &object, self.reading(), &self.asking());
                return self.judge_key(exchange, object);
            }
            Err(ReadError::Io(error)) => {
                complain(&format!("cannot be read ({}), and is removed", net::system_message(&error)));
            }
            // Another request writes it, or another process. The own response replaces it.
            Err(ReadError::Unfinished(changed)) if is_recent(changed) => return self.lock(exchange),
            Err(ReadError::Unfinished(_)) => complain("was cut off, and is removed"),
            Err(ReadError::Damaged | ReadError::Waits) => {
                complain("is damaged, or of another format, and is removed");
            }
        }
        if !survey::is_explained(exchange) {
            self.store.zone.discard(&self.key());
        }
        Next::Ask
    }

    fn complain_of_file(&self, exchange: &Exchange, what: &str) {
        let zone = &self.store.zone;
        let file = zone.directory().join(zone.levels().path(&self.key()));
        exchange.log(Level::Crit, &format!("cache file \"{}\" {what}", file.display()));
    }

    /// Decides about an object that is there, if it is the one of the key and of no other one with the same digest.
    fn judge_key(&self, exchange: &Exchange, object: Arc<Object>) -> Next {
        if *object.head.key == *self.text {
            if !self.is_known.replace(true) {
                keys::know(&self.text, self.main);
            }
            return self.judge(exchange, object);
        }
        self.complain_of_file(exchange, "has md5 collision");
        Next::Ask
    }

    /// Decides about an object that is there.
    fn judge(&self, exchange: &Exchange, object: Arc<Object>) -> Next {
        let freshness = &object.head.freshness;
        if let Some(variant) = object.head.variant {
            let wanted = self.variant(exchange, &object.head);
            if wanted != variant {
                if self.key() != self.main {
                    return Next::Ask;
                }
                return self.look_for_variant(exchange, wanted, &object.head);
            }
        }
        if object.head.is_bare && exchange.request.method != Method::Head {
            // It came without its content, which this request is for.
            return self.lock(exchange);
        }
        let now = Time::now();
        let is_fresh = is_fresh(&object.head, now.seconds);
        let usage = self.usage(&object.head, now.seconds);
        if usage == Use::Sent {
            self.found.set(if is_fresh { Found::Hit } else { Found::Stale });
            let written = self.store.zone.write_due(&self.key(), &object);
            let _ = written.inspect_err(|error| self.complain(exchange, error));
            return Next::Serve(object);
        }
        self.is_strict.set(usage == Use::Asked);
        self.reason.set(if is_fresh && self.wish().refuses() { Reason::Request } else { Reason::Stale });
        let is_promised = freshness.serves_updating(now.seconds);
        // A fresh response that the client finds too old is no stale one.
        let serves = usage == Use::Stale
            && !is_fresh
            && (self.settings.stale.used_after.has(Failures::UPDATING) || is_promised);
        let updates = self.settings.stale.background_update || (is_promised && self.is_rfc9111());
        let fill = match self.is_update {
            true => None,
            false => self.store.zone.try_fill(&self.key(), UPDATE_AGE, now.instant),
        };
        match fill {
            Some(fill) if serves && updates => {
                self.found.set(Found::Stale);
                self.details().object.replace(Some(object));
                return Next::Wait(self.update(exchange, fill));
            }
            Some(fill) => drop(self.details().fill.replace(Some(fill))),
            None if serves && !self.is_update => {
                self.found.set(Found::Updating);
                return Next::Serve(object);
            }
            None if self.settings.lock.is_on && !self.is_update => {
                if let Some(arriving) = self.store.zone.arriving(&self.key()) {
                    return self.follow(exchange, arriving);
                }
            }
            None => {}
        }
        self.found.set(Found::Expired);
        self.details().object.replace(Some(object));
        Next::Ask
    }

    fn is_rfc9111(&self) -> bool {
        self.settings.rules == Rules::Rfc9111
    }

    /// Whether the response comes from, or goes to, a cache that keeps the rules of RFC 9111.
    pub(crate) fn has_rfc9111(exchange: &Exchange) -> bool {
        Cached::of(exchange).is_some_and(|cached| cached.is_rfc9111())
    }

    /// What an object is to the request.
    fn usage(&self, head: &Head, now: i64) -> Use {
        if !self.is_rfc9111() {
            return if is_fresh(head, now) { Use::Sent } else { Use::Stale };
        }
        rfc9111::judge(&self.wish(), head, self.settings.ignoring, now)
    }

    /// The work of fetching a response again, by a detached subrequest.
    fn update(&self, exchange: &Exchange, fill: FillRight) -> Work {
        Updates::add(exchange, &self.text, fill);
        let request = &exchange.request;
        Work::Aside(vec![Subrequest {
            args: request.args.clone(),
            same_method: true,
            with_body: true,
            repeats: true,
            ..Subrequest::get(request.path.clone(), Content::Unused)
        }])
    }

    /// The stale response to send in place of a failure.
    pub(crate) fn stale(&self, failure: Failures) -> Option<Arc<Object>> {
        if self.found.get() != Found::Expired || self.is_strict.get() {
            return None;
        }
        let is_allowed = {
            let object = self.details.get()?.object.borrow();
            let freshness = &object.as_ref()?.head.freshness;
            // To nginx's rules a status of the upstream server is no failure to reach it, and has to be named. RFC 5861
            // names four.
            let is_reached = failure.is_status() && !(self.is_rfc9111() && failure.status().0 >= 500);
            self.settings.stale.used_after.has(failure)
                || (!is_reached && freshness.serves_errors(Time::now().seconds))
        };
        let object = if is_allowed { self.take_met() } else { None };
        if object.is_some() {
            self.found.set(Found::Stale);
            self.release();
        }
        object
    }

    /// The response that the upstream server says is still valid, if this was asked.
    pub(crate) fn still_valid(&self, status: Status) -> Option<Arc<Object>> {
        let was_asked = self.found.get() == Found::Expired && self.settings.stale.revalidate;
        if !was_asked || status != Status::NOT_MODIFIED {
            return None;
        }
        let object = self.take_met()?;
        self.found.set(Found::Revalidated);
        Some(object)
    }

    /// Notes what the upstream server answered.
    pub(crate) fn note_answer(&self, status: Status) {
        self.answered.set(Some(status));
    }

    /// Counts what happened to the request; the head of this object is sent, or an answer of the upstream server.
    pub(crate) fn count(&self, head: Option<&Head>) {
        self.valid_until.set(head.and_then(|head| NonZeroI64::new(head.freshness.valid_until)));
        let age_s = head.map(|head| self.asked.saturating_sub(head.date).max(0).unsigned_abs());
        self.store.zone.count(self.found.get() as usize, age_s);
    }

    /// Counts a request that this object is sent to, with a head that was made before.
    pub(crate) fn count_sent(&self, object: &Arc<Object>) {
        self.count(Some(&object.head));
        self.sent.replace(Some(Arc::clone(object)));
    }

    /// Looks at the fields of the object that is sent with a head that was made before.
    pub(crate) fn with_sent<T>(exchange: &Exchange, look: impl FnOnce(&Fields) -> T) -> Option<T> {
        let cached = Cached::of(exchange)?;
        let sent = cached.sent.take()?;
        let result = look(&sent.head.fields);
        cached.sent.set(Some(sent));
        Some(result)
    }

    /// Keeps a failure of the upstream server, if the configuration gives it a time, and the request does not bypass the cache.
    pub(crate) fn note_failure(&self, status: Status, freshness: Option<Freshness>) {
        let left = match freshness {
            Some(freshness) => Some(freshness.valid_until.saturating_sub(Time::now().seconds)),
            None => self.settings.valid.of(status),
        };
        if let Some(left) = left.filter(|_| self.stores.get() && self.found.get() != Found::Bypass) {
            let until = uptime_s().saturating_add(left);
            self.store.zone.note_failure(&self.key(), (status, until), self.expires(uptime_s()));
        }
        self.release();
    }

    /// Whether the response may be kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.stores.get()
    }

    /// Whether the upstream server may find a response valid again.
    pub(crate) fn revalidates(&self) -> bool {
        self.settings.stale.revalidate
    }

    /// Lets another request get the response.
    pub(crate) fn release(&self) {
        drop(self.take_fill());
    }

    /// Lets all other requests get the response at once: the one that came is not kept, and neither may the next one be.
    pub(crate) fn pass(&self) {
        self.take_fill().into_iter().for_each(|fill| fill.pass(Time::now().instant));
    }

    fn take_fill(&self) -> Option<FillRight> {
        self.stores.set(false);
        self.details.get().and_then(|details| details.fill.take())
    }
}

/// Reads bytes of a file from an offset on; `None` where the disk would have to be waited for.
fn read_if_ready(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<Option<usize>> {
    match read_ready(file, buffer, offset)? {
        Ready::Bytes(count) => Ok(Some(count)),
        Ready::Unknown => file.read_at(buffer, offset).map(Some),
        Ready::Waits => Ok(None),
    }
}

/// The clock of the indexes, in seconds, which is never set.
fn uptime_s() -> i64 {
    i64::try_from(Time::now().uptime_ms / 1000).unwrap_or(i64::MAX)
}

/// The zone that a request uses, and the text of its key with the key.
type Place<'a> = (&'a Arc<Store>, Named);

/// Where the response to a request is kept, if it may be.
fn find<'a>(
    settings: &'a CacheSettings,
    exchange: &Exchange,
    default_key: impl FnOnce(&mut Vec<u8>) -> Result<bool, Status>,
) -> Result<Option<Place<'a>>, Status> {
    let store = settings.store(exchange).map_err(|message| {
        exchange.log(Level::Error, &message);
        Status::INTERNAL_SERVER_ERROR
    })?;
    let Some(store) = store else { return Ok(None) };
    let key = with_scratch(|text| key(settings, exchange, text, default_key))?;
    if key.is_none() {
        exchange.log(Level::Warn, "no response is kept: a cache without a cache key");
    }
    Ok(key.map(|key| (store, key)))
}

/// The key of a request, whose text is written in this memory; none if there is no key.
fn key(
    settings: &CacheSettings,
    exchange: &Exchange,
    text: &mut Vec<u8>,
    default_key: impl FnOnce(&mut Vec<u8>) -> Result<bool, Status>,
) -> Result<Option<Named>, Status> {
    let has_key = match &settings.key {
        Some(key) => {
            key.write(exchange, text);
            true
        }
        None => {
            if settings.rules == Rules::Rfc9111 {
                // What the client asks for is its URI (RFC 9111, section 2).
                text.extend_from_slice(if exchange.connection.secure { b"https://" } else { b"http://" });
                host_and_port(exchange, text);
                text.push(b'/');
            }
            default_key(text)?
        }
    };
    Ok(has_key.then(|| keys::named(text)))
}

/// For how many seconds a file that is too short may be one that is being written.
const WRITING_S: u64 = 2;

/// Whether a file that was changed at this time may still be written to.
fn is_recent(changed: i64) -> bool {
    Time::now().seconds.abs_diff(changed) <= WRITING_S
}

/// Whether a response is fresh. One that was kept in the future is not: the clock was set back since.
fn is_fresh(head: &Head, now: i64) -> bool {
    head.freshness.is_fresh(now) && !rfc9111::is_ahead(head, now)
}

/// What a request says about kept responses. An update is no wish of the client whose request it repeats.
fn wish(settings: &CacheSettings, exchange: &Exchange, is_update: bool) -> Wish {
    if settings.rules == Rules::Nginx {
        return Wish::default();
    }
    let mut wish = Wish::of(&exchange.request.head.fields);
    wish.only_if_cached &= !is_update;
    wish
}

/// Whether a key names the part of a content that the request is for.
fn is_part(exchange: &Exchange, key: &[u8]) -> bool {
    if !slices::is_on(exchange) {
        return false;
    }
    let mut range = Vec::new();
    let has_range = key.windows(6).any(|text| text == b"bytes=") && slice_range(exchange, "", &mut range);
    has_range && key.windows(range.len().max(1)).any(|text| text == range)
}

/// Whether a request has a body.
fn has_body(exchange: &Exchange) -> bool {
    exchange.request.chunked || exchange.request.content_length.is_some_and(|length| length > 0)
}

/// Whether a text is neither empty nor `0`.
pub(crate) fn any_set(templates: &[Template], exchange: &Exchange) -> bool {
    templates.iter().any(|template| is_set(template, exchange))
}

/// Whether the request is for a range that starts too far into the content to get all of it.
fn is_beyond(settings: &CacheSettings, exchange: &Exchange) -> bool {
    let (Some(most), Some(range)) = (settings.max_range_offset, exchange.request.head.fields.get("range"))
    else {
        return false;
    };
    let Some((unit, rest)) = range.split_at_checked("bytes=".len()) else { return most == 0 };
    if most == 0 {
        return true;
    }
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.is_empty() {
        return false;
    }
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse::<u64>().ok());
    rest.starts_with(b"-") || start.map_or(digits > 0, |start| start >= most)
}
