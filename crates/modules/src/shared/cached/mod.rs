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
use cache::rfc9111::Wish;
use cache::{
    Arriving, Asking, CacheStatus, Demand, FillRight, Fit, Freshness, Head, Key, Look, Lookup, Object,
    ReadError, Reason, Renewal, RenewalStep, Rules, Sought, Storing, Terms, Verdict, starts_beyond,
};
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

/// A request for a response that may be kept; attached to the exchange. [`cache`] decides what happens to it, and
/// this type does that.
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
    lookup: Cell<Lookup>,
    storing: Cell<Storing>,
    sent: Cell<Sent>,
    /// The status that the upstream server answered.
    answered: Cell<Option<Status>>,
    /// Whether the thread knows the text with its key.
    is_known: Cell<bool>,
    /// Whether the request was counted among the uses of its key.
    is_counted: Cell<bool>,
    /// Whether the request is for one part of a content, which the key names.
    is_part: bool,
    /// Whether this request updates a response that another one has sent.
    pub(crate) is_update: bool,
}

/// The object whose head is sent.
#[derive(Default)]
enum Sent {
    /// The head is an answer of the upstream server, or was not chosen yet.
    #[default]
    None,
    /// The head was made for this request. The response is valid until then, in seconds since 1970.
    Made(NonZeroI64),
    /// The head was made before.
    Prepared(Arc<Object>),
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
            before.lookup.set(Lookup::Over);
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
            lookup: Cell::new(Lookup::Miss(Reason::UriMiss)),
            storing: Cell::new(Storing::Allowed),
            sent: Cell::default(),
            answered: Cell::default(),
            is_known: Cell::new(is_known),
            is_counted: Cell::new(false),
            is_part: is_part(exchange, &text),
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
        exchange.attached::<Cached>().filter(|cached| cached.lookup.get() != Lookup::Over)
    }

    /// What the request does first.
    pub(crate) fn start(&self, exchange: &Exchange) -> Next {
        if let Some(status) = self.details.get().and_then(|details| details.removes) {
            return Next::Remove(status);
        }
        // The key says nothing about a body, on which the response may depend.
        let has_body = has_body(exchange) && matches!(exchange.request.method, Method::Get | Method::Head);
        if has_body {
            self.storing.set(Storing::Refused);
        }
        let next = match has_body || any_set(&self.settings.bypass, exchange) {
            true => {
                self.lookup.set(Lookup::Bypass);
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
        if self.lookup.get() == Lookup::Stale { self.take_met() } else { None }
    }

    /// Reports what was found, and notes what follows from it for the response.
    fn tell(&self, exchange: &Exchange, next: Next) -> Next {
        // As in nginx, a request that bypasses the cache gets all of the response.
        let is_looked_for = matches!(next, Next::Ask) && self.lookup.get() != Lookup::Bypass;
        if is_looked_for && self.is_kept() && is_beyond(&self.settings, exchange) {
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
            let found = self.lookup.get().status().map_or("", CacheStatus::text);
            let key = String::from_utf8_lossy(&self.text);
            Event::new("cache", format!("{found} for the key \"{key}\"")).with("key", &self.text)
        });
        next
    }

    fn look(&self, exchange: &Exchange) -> Next {
        let (zone, key) = (&self.store.zone, self.key());
        let (has_file, may_store) = match zone.look(&key, &self.asking()) {
            Look::Failed(status) => {
                self.lookup.set(Lookup::Hit);
                return Next::Finish(status);
            }
            Look::Ready(object) => {
                self.is_counted.set(true);
                return self.judge(exchange, object);
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
                    self.storing.set(Storing::Refused);
                    return Next::Ask;
                }
            }
        }
        if !may_store {
            self.storing.set(Storing::Refused);
            return Next::Ask;
        }
        self.lock(exchange)
    }

    /// Sends the response that another request is getting, if it is the one for this request.
    fn follow(&self, exchange: &Exchange, arriving: Arc<Arriving>) -> Next {
        match self.fit(exchange, &arriving.head) {
            Fit::Fits => {
                self.lookup.set(Lookup::Collapsed(self.lookup.get().reason().unwrap_or(Reason::UriMiss)));
                Next::Follow(arriving)
            }
            Fit::Variant(wanted) => self.look_for_variant(exchange, wanted, &arriving.head),
            Fit::OtherVariant | Fit::OtherText => {
                self.storing.set(Storing::Refused);
                Next::Ask
            }
        }
    }

    /// What an object with this head is to the request.
    fn fit(&self, exchange: &Exchange, head: &Head) -> Fit {
        let (main, key, fields) = (self.main, self.key(), &exchange.request.head.fields);
        Sought { text: &self.text, main, key, fields }.fit(head)
    }

    fn look_for_variant(&self, exchange: &Exchange, wanted: Key, head: &Head) -> Next {
        self.set_key(wanted);
        self.details().vary.replace(head.freshness.vary.clone());
        self.details().family.set(Some(head.family));
        self.lookup.set(Lookup::Miss(Reason::VaryMiss));
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
        if now >= until {
            exchange.log(Level::Info, "cache lock timeout");
            self.storing.set(Storing::Refused);
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
                return self.judge(exchange, object);
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

    /// Goes on with an object that has the key.
    fn judge(&self, exchange: &Exchange, object: Arc<Object>) -> Next {
        let fit = self.fit(exchange, &object.head);
        if fit == Fit::OtherText {
            self.complain_of_file(exchange, "has md5 collision");
            return Next::Ask;
        }
        if !self.is_known.replace(true) {
            keys::know(&self.text, self.main);
        }
        match fit {
            Fit::OtherText | Fit::OtherVariant => return Next::Ask,
            Fit::Variant(wanted) => return self.look_for_variant(exchange, wanted, &object.head),
            Fit::Fits => {}
        }
        if object.head.is_bare && exchange.request.method != Method::Head {
            // It came without its content, which this request is for.
            return self.lock(exchange);
        }
        let terms = self.terms();
        match terms.judge(&object.head, Time::now().seconds) {
            Verdict::Send(lookup) => {
                self.lookup.set(lookup);
                let written = self.store.zone.write_due(&self.key(), &object);
                let _ = written.inspect_err(|error| self.complain(exchange, error));
                Next::Serve(object)
            }
            Verdict::Renew(renewal) => self.get_again(exchange, object, (terms, renewal)),
        }
    }

    /// What the request and its location say about stored responses.
    fn terms(&self) -> Terms {
        let CacheSettings { stale, rules, ignoring, lock, .. } = &*self.settings;
        Terms {
            rules: *rules,
            ignoring: *ignoring,
            wish: self.wish(),
            sends_updating: stale.used_after.has(Failures::UPDATING),
            updates_aside: stale.background_update,
            shares: lock.is_on,
            is_update: self.is_update,
        }
    }

    /// Gets an object again or asks whether it is still valid, and sends it before if that is allowed.
    fn get_again(
        &self,
        exchange: &Exchange,
        object: Arc<Object>,
        (terms, renewal): (Terms, Renewal),
    ) -> Next {
        let (zone, key, now) = (&self.store.zone, self.key(), Time::now().instant);
        let right = if self.is_update { None } else { zone.try_fill(&key, UPDATE_AGE, now) };
        match (terms.renew(&renewal, right.is_some()), right) {
            (RenewalStep::SendAndUpdate, Some(right)) => {
                self.lookup.set(Lookup::Stale);
                self.details().object.replace(Some(object));
                return Next::Wait(self.update(exchange, right));
            }
            (RenewalStep::Send, _) => {
                self.lookup.set(Lookup::Updating);
                return Next::Serve(object);
            }
            (RenewalStep::FollowOrAsk, _) => {
                if let Some(arriving) = zone.arriving(&key) {
                    self.lookup.set(Lookup::Miss(renewal.reason));
                    return self.follow(exchange, arriving);
                }
            }
            (_, Some(right)) => drop(self.details().fill.replace(Some(right))),
            (_, None) => {}
        }
        self.lookup.set(renewal.expired());
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
        let Lookup::Expired { is_strict: false, .. } = self.lookup.get() else { return None };
        let is_covered = {
            let object = self.details.get()?.object.borrow();
            let freshness = &object.as_ref()?.head.freshness;
            let is_named = self.settings.stale.used_after.has(failure);
            let answered = failure.is_status().then(|| failure.status());
            self.terms().covers(freshness, is_named, answered, Time::now().seconds)
        };
        let object = if is_covered { self.take_met() } else { None };
        if object.is_some() {
            self.lookup.set(Lookup::Stale);
            self.release();
        }
        object
    }

    /// The response that the upstream server says is still valid, if this was asked.
    pub(crate) fn still_valid(&self, status: Status) -> Option<Arc<Object>> {
        let Lookup::Expired { reason, .. } = self.lookup.get() else { return None };
        if !self.settings.stale.revalidate || status != Status::NOT_MODIFIED {
            return None;
        }
        let object = self.take_met()?;
        self.lookup.set(Lookup::Revalidated(reason));
        Some(object)
    }

    /// Notes what the upstream server answered.
    pub(crate) fn note_answer(&self, status: Status) {
        self.answered.set(Some(status));
    }

    /// Counts what happened to the request; the head of this object is sent, or an answer of the upstream server.
    pub(crate) fn count(&self, head: Option<&Head>) {
        let until = head.and_then(|head| NonZeroI64::new(head.freshness.valid_until));
        self.sent.set(until.map_or(Sent::None, Sent::Made));
        let age_s = head.map(|head| self.asked.saturating_sub(head.date).max(0).unsigned_abs());
        if let Some(status) = self.lookup.get().status() {
            self.store.zone.count(status, age_s);
        }
    }

    /// Counts a request that this object is sent to, with a head that was made before.
    pub(crate) fn count_sent(&self, object: &Arc<Object>) {
        self.count(Some(&object.head));
        self.sent.set(Sent::Prepared(Arc::clone(object)));
    }

    /// Looks at the fields of the object that is sent with a head that was made before.
    pub(crate) fn with_sent<T>(exchange: &Exchange, look: impl FnOnce(&Fields) -> T) -> Option<T> {
        let cached = Cached::of(exchange)?;
        let sent = cached.sent.take();
        let result = if let Sent::Prepared(object) = &sent { Some(look(&object.head.fields)) } else { None };
        cached.sent.set(sent);
        result
    }

    /// Keeps a failure of the upstream server, if the configuration gives it a time, and the request does not bypass the cache.
    pub(crate) fn note_failure(&self, status: Status, freshness: Option<Freshness>) {
        let left = match freshness {
            Some(freshness) => Some(freshness.valid_until.saturating_sub(Time::now().seconds)),
            None => self.settings.valid.of(status),
        };
        if let Some(left) = left.filter(|_| self.is_kept() && self.lookup.get() != Lookup::Bypass) {
            let until = uptime_s().saturating_add(left);
            self.store.zone.note_failure(&self.key(), (status, until), self.expires(uptime_s()));
        }
        self.release();
    }

    /// Whether the response may be kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.storing.get() != Storing::Refused
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
        if self.storing.get() == Storing::Allowed {
            self.storing.set(Storing::Refused);
        }
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
    let range = exchange.request.head.fields.get("range");
    settings.max_range_offset.zip(range).is_some_and(|(most, range)| starts_beyond(range, most))
}
