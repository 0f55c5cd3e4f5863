//! The rules of RFC 9111 and RFC 9213: whether a response may be kept, for how long, and for which requests it may be
//! used. Nothing here reads a clock or a file.
//!
//! Where RFC 9111 leaves a choice, a response is rather asked for once more.

mod targeted;

use crate::freshness::{Freshness, Ignoring, USUAL, ValidTimes, vary};
use crate::head::Head;
use http::{Fields, Method, Status, date_text, parse_exact_date};

/// By which rules responses are kept and used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// nginx's.
    #[default]
    Nginx,
    /// Those of RFC 9111.
    Rfc9111,
}

/// The longest time in seconds: what is longer counts as this (RFC 9111, section 1.2.2).
const SECONDS_MAX: i64 = 1 << 31;

/// How many seconds the time of a kept response may lie ahead of the clock. More means that the clock was set back.
const AHEAD_MAX: i64 = 1;

/// Other statuses whose meaning for a cache is known (`must-understand`).
const UNDERSTOOD: [u16; 24] = [
    201, 202, 205, 302, 303, 305, 307, 400, 401, 402, 403, 406, 408, 409, 411, 412, 413, 415, 417, 421, 500,
    502, 503, 504,
];

/// Fields that a 304 does not change: they frame the content, which stays (RFC 9111, section 3.2).
const CONTENT_FIELDS: [&str; 2] = ["Content-Length", "Content-Range"];

/// Fields that concern one proxy and are not kept (RFC 9111, section 3.1).
const PROXY_FIELDS: [&str; 3] = ["Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization"];

/// What a request says about the use of kept responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// It wants a new response, or one that was found valid again.
    pub no_cache: bool,
    /// Its response is not to be kept.
    pub no_store: bool,
    /// It wants no other server to be asked.
    pub only_if_cached: bool,
    max_age: Option<i64>,
    min_fresh: Option<i64>,
    /// How many seconds after its time it takes a response.
    max_stale: Option<i64>,
    has_authorization: bool,
}

impl Wish {
    /// What the fields of a request say.
    pub fn of(fields: &Fields) -> Wish {
        let mut wish = Wish { has_authorization: fields.get("authorization").is_some(), ..Wish::default() };
        let mut has_control = false;
        for value in fields.all("cache-control") {
            has_control = true;
            each_directive(value, |name, argument| wish.read(name, argument));
        }
        // "Pragma" counts only without "Cache-Control" (RFC 9111, section 5.4).
        if !has_control {
            for value in fields.all("pragma") {
                each_directive(value, |name, _| wish.no_cache |= name.eq_ignore_ascii_case(b"no-cache"));
            }
        }
        wish
    }

    /// Whether it may want no fresh response.
    pub fn refuses(&self) -> bool {
        self.no_cache || self.max_age.is_some() || self.min_fresh.is_some()
    }

    fn read(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let seconds = |invalid: i64| argument.map_or(invalid, |text| seconds(text).unwrap_or(invalid));
        match &*name.to_ascii_lowercase() {
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => self.max_age = self.max_age.or(Some(seconds(0))),
            b"min-fresh" => self.min_fresh = self.min_fresh.or(Some(seconds(SECONDS_MAX))),
            // Without a number any age will do.
            b"max-stale" if argument.is_none() => self.max_stale = Some(SECONDS_MAX),
            b"max-stale" => self.max_stale = self.max_stale.or(Some(seconds(0))),
            _ => {}
        }
    }
}

/// What a response says about being kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    no_store: bool,
    /// Without names of fields.
    no_cache: bool,
    /// Without names of fields.
    private: bool,
    public: bool,
    must_understand: bool,
    must_revalidate: bool,
    proxy_revalidate: bool,
    max_age: Option<i64>,
    s_maxage: Option<i64>,
    while_revalidate: Option<i64>,
    if_error: Option<i64>,
    /// The fields that `no-cache` and `private` name.
    fields: Vec<Box<[u8]>>,
    /// Whether the directives come from `CDN-Cache-Control`, which takes the place of `Expires`, too.
    is_targeted: bool,
}

impl Control {
    /// What the fields of a response say. `CDN-Cache-Control` takes the place of `Cache-Control` (RFC 9213).
    pub fn of(fields: &Fields, ignoring: Ignoring) -> Control {
        if ignoring.cache_control {
            return Control::default();
        }
        if let Some(control) = Control::targeted(fields) {
            return control;
        }
        let mut control = Control::default();
        for value in fields.all("cache-control") {
            each_directive(value, |name, argument| control.read(name, argument));
        }
        control
    }

    fn read(&mut self, name: &[u8], argument: Option<&[u8]>) {
        // A time that cannot be read is over (RFC 9111, section 4.2.1). Of several the first one counts.
        let time = |before: Option<i64>| before.or(Some(argument.and_then(seconds).unwrap_or(0)));
        match &*name.to_ascii_lowercase() {
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-understand" => self.must_understand = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"max-age" => self.max_age = time(self.max_age),
            b"s-maxage" => self.s_maxage = time(self.s_maxage),
            b"stale-while-revalidate" => self.while_revalidate = time(self.while_revalidate),
            b"stale-if-error" => self.if_error = time(self.if_error),
            b"no-cache" => match argument {
                Some(names) => self.name_fields(names),
                None => self.no_cache = true,
            },
            b"private" => match argument {
                Some(names) => self.name_fields(names),
                None => self.private = true,
            },
            _ => {}
        }
    }

    fn name_fields(&mut self, names: &[u8]) {
        let names = names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        self.fields.extend(names.map(Box::from));
    }

    /// Whether a response may never be used after its time without asking (RFC 9111, section 4.2.4).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some() || self.no_cache
    }

    /// Whether a field of the response may be kept.
    pub fn keeps(&self, name: &[u8]) -> bool {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        !self.fields.iter().any(|other| is(other)) && !PROXY_FIELDS.iter().any(|other| is(other.as_bytes()))
    }

    /// For how many seconds the response is fresh from its origin on, if it says so.
    fn lifetime(&self, fields: &Fields, ignoring: Ignoring, now: i64) -> Option<i64> {
        let said = self.s_maxage.or(self.max_age);
        if said.is_some() || ignoring.expires || self.is_targeted {
            return said;
        }
        let expires = fields.get("expires")?;
        let date = date_field(fields, now).unwrap_or(now);
        let expires = parse_exact_date(expires, now);
        Some(expires.map_or(0, |expires| expires.saturating_sub(date).clamp(0, SECONDS_MAX)))
    }
}

/// A response that may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// How long it may be used.
    pub freshness: Freshness,
    /// How old it was when it came, in seconds.
    pub age: i64,
}

/// A response that came for a request.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// What its request said.
    pub wish: Wish,
    /// Its status.
    pub status: Status,
    /// Its fields.
    pub fields: &'a Fields,
    /// Seconds since 1970 when it was asked for.
    pub asked: i64,
    /// Seconds since 1970 when it came.
    pub now: i64,
    /// Whether it was asked for as one part of a content, which the key names.
    pub is_part: bool,
}

impl Came<'_> {
    /// How long the response may be used; `None` where it may not be kept (RFC 9111, section 3).
    pub fn kept(&self, ignoring: Ignoring, valid: &ValidTimes) -> Option<Kept> {
        let Came { wish, status, fields, .. } = *self;
        let control = Control::of(fields, ignoring);
        let is_part = self.is_part && status == Status::PARTIAL_CONTENT && has_strong_tag(fields);
        let is_usual = is_part || USUAL.contains(&status.0);
        let is_understood = is_usual || UNDERSTOOD.contains(&status.0);
        // "no-store" does not count with "must-understand" where the status is known.
        let is_refused = match control.must_understand {
            true => !is_understood,
            false => control.no_store,
        };
        let is_incomplete = !is_part && matches!(status, Status::PARTIAL_CONTENT | Status::NOT_MODIFIED);
        let needs_leave = wish.has_authorization;
        let has_leave = control.public || control.must_revalidate || control.s_maxage.is_some();
        if is_refused || is_incomplete || wish.no_store || control.private || (needs_leave && !has_leave) {
            return None;
        }
        if !ignoring.set_cookie && fields.get("set-cookie").is_some() {
            return None;
        }
        self.with_times(
            &control,
            ignoring,
            (is_usual || control.public).then(|| valid.for_response(status, fields, self.now)).flatten(),
        )
    }

    fn with_times(&self, control: &Control, ignoring: Ignoring, configured: Option<i64>) -> Option<Kept> {
        let vary = vary(self.fields, ignoring)?;
        let age = self.age();
        let lifetime = match control.no_cache {
            true => 0,
            false => control.lifetime(self.fields, ignoring, self.now).or(configured)?,
        };
        let left = lifetime.saturating_sub(age);
        let (updating_s, error_s) = match control.forbids_stale() {
            true => (0, 0),
            false => (control.while_revalidate.unwrap_or(0), control.if_error.unwrap_or(0)),
        };
        // What has no time left is worth keeping only if it may be used later.
        let can_be_checked = ["etag", "last-modified"].iter().any(|name| self.fields.get(name).is_some());
        if left <= 0 && !can_be_checked && updating_s.max(error_s) <= left.saturating_neg() {
            return None;
        }
        // A response is fresh while its lifetime is greater than its age.
        let valid_until = self.now.saturating_add(left).saturating_sub(1);
        Some(Kept { freshness: Freshness { valid_until, updating_s, error_s, vary }, age })
    }

    /// How old the response was when it came (RFC 9111, section 4.2.3).
    pub fn age(&self) -> i64 {
        let date = date_field(self.fields, self.now);
        let apparent = date.map_or(0, |date| self.now.saturating_sub(date)).max(0);
        let delay = self.now.saturating_sub(self.asked).max(0);
        apparent.max(age_field(self.fields).saturating_add(delay)).min(SECONDS_MAX)
    }
}

/// Whether a response has a strong validator: parts with the same one are parts of the same content (RFC 9111, section
/// 3.4).
fn has_strong_tag(fields: &Fields) -> bool {
    fields.get("etag").is_some_and(|tag| tag.starts_with(b"\""))
}

/// Whether a response to HEAD has the validators and the length of a kept response to GET (RFC 9111, section 4.3.5).
pub fn describes(said: &Fields, kept: &Head) -> bool {
    let is_same = |name: &str| said.get(name).is_none_or(|value| kept.fields.get(name) == Some(value));
    let length = said.get("content-length").map(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
    is_same("etag") && is_same("last-modified") && length.is_none_or(|length| length == Some(kept.length))
}

/// Whether a 304 with these fields is about a kept response: if the 304 has an `ETag`, it must be that of the response.
/// A weak one may have a strong one in the response (RFC 9111, section 4.3.4).
pub fn selects(said: &Fields, kept: &Head) -> bool {
    let Some(tag) = said.get("etag") else { return true };
    let other = kept.fields.get("etag");
    match tag.strip_prefix(b"W/") {
        None => other == Some(tag),
        Some(tag) => other.is_some_and(|other| other.strip_prefix(b"W/").unwrap_or(other) == tag),
    }
}

/// What the field `Date` says, if it is a date.
fn date_field(fields: &Fields, now: i64) -> Option<i64> {
    fields.get("date").and_then(|text| parse_exact_date(text, now))
}

/// What the field `Age` says; 0 if it is not there or wrong. Of several the first one counts.
fn age_field(fields: &Fields) -> i64 {
    let first = fields.get("age").and_then(|value| value.split(|&byte| byte == b',').next());
    first.and_then(|value| seconds(value.trim_ascii())).unwrap_or(0)
}

/// How old a kept response is at a time. Its field `Age` says how old it was when it was kept.
pub fn age(head: &Head, now: i64) -> i64 {
    age_field(&head.fields).saturating_add(now.saturating_sub(head.date).max(0)).min(SECONDS_MAX)
}

/// Whether a response was kept in the future: the clock was set back since, and its age is not known.
pub fn is_ahead(head: &Head, now: i64) -> bool {
    head.date > now.saturating_add(AHEAD_MAX)
}

/// What a kept response is to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It may be sent.
    Sent,
    /// The other server has to be asked, but its failure lets it be sent if the response allows that.
    Stale,
    /// The other server has to be asked, and nothing replaces its answer.
    Asked,
}

/// What a kept response is to a request that says this (RFC 9111, sections 4.2 and 5.2.1).
pub fn judge(wish: &Wish, head: &Head, ignoring: Ignoring, now: i64) -> Use {
    let freshness = &head.freshness;
    let age = age(head, now);
    let is_young = wish.max_age.is_none_or(|most| age <= most);
    let left = freshness.valid_until.saturating_add(1).saturating_sub(now);
    if wish.no_cache || is_ahead(head, now) {
        return Use::Asked;
    }
    if left > 0 {
        let lasts = wish.min_fresh.is_none_or(|least| left >= least);
        return if is_young && lasts { Use::Sent } else { Use::Stale };
    }
    if Control::of(&head.fields, ignoring).forbids_stale() {
        return Use::Asked;
    }
    let is_taken = wish.max_stale.is_some_and(|most| left.saturating_neg() <= most);
    if is_taken && is_young && wish.min_fresh.is_none() { Use::Sent } else { Use::Stale }
}

/// The fields of a kept response after another server said with these that it is still valid (RFC 9111, section 3.2).
/// `age` is how old the answer was, which came at this time.
pub fn updated(kept: &Fields, said: &Fields, (age, now): (i64, i64)) -> Fields {
    let changes =
        |name: &[u8]| !CONTENT_FIELDS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    let mut fields = Fields::new();
    let is_said = |name: &[u8]| said.iter().any(|field| field.name.eq_ignore_ascii_case(name));
    let old = kept.iter().filter(|field| !(changes(field.name) && is_said(field.name)));
    for field in old.chain(said.iter().filter(|field| changes(field.name))) {
        // Fields that were parsed have no wrong bytes.
        let _ = fields.push(field.name, field.value);
    }
    if said.get("date").is_none() {
        fields.remove("date");
    }
    kept_age(&mut fields, age);
    kept_date(&mut fields, now);
    fields
}

/// Makes a response without `Date` say when it came (RFC 9110, section 6.6.1).
pub fn kept_date(fields: &mut Fields, now: i64) {
    if fields.get("date").is_none() {
        // Digits and letters are no wrong bytes.
        let _ = fields.push(b"Date", &date_text(now));
    }
}

/// Makes `Age` say how old a response was when it was kept. All ages have one length, so that another one fits into the
/// file.
pub fn kept_age(fields: &mut Fields, age: i64) {
    // Digits are no wrong bytes.
    let _ = fields.set("Age", format!("{age:010}").as_bytes());
}

/// Makes `Age` say how old a response is.
pub fn set_age(fields: &mut Fields, age: i64) {
    // Digits are no wrong bytes.
    let _ = fields.set("Age", age.to_string().as_bytes());
}

/// Whether a response forbids to change its content (RFC 9111, section 5.2.2.6).
pub fn forbids_transforming(fields: &Fields) -> bool {
    let mut is_forbidden = false;
    for value in fields.all("cache-control") {
        each_directive(value, |name, _| is_forbidden |= name.eq_ignore_ascii_case(b"no-transform"));
    }
    is_forbidden
}

/// Whether a method may change what is at a URI, so that what is kept of it no longer counts.
pub fn is_unsafe(method: Method) -> bool {
    !matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Propfind)
}

/// Calls `take` for each directive of a list: its name, and its argument without quotes.
fn each_directive(mut list: &[u8], mut take: impl FnMut(&[u8], Option<&[u8]>)) {
    while !list.is_empty() {
        let end = end_of_member(list);
        let (member, rest) = list.split_at(end);
        list = rest.get(1..).unwrap_or_default();
        let mark = member.iter().position(|&byte| byte == b'=');
        let (name, argument) = member.split_at(mark.unwrap_or(member.len()));
        let argument = mark.map(|_| unquoted(argument.get(1..).unwrap_or_default().trim_ascii()));
        if !name.trim_ascii().is_empty() {
            take(name.trim_ascii(), argument);
        }
    }
}

/// Where the first member of a list ends: at a comma outside of quotes, or at the end.
fn end_of_member(list: &[u8]) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return at,
            _ => {}
        }
    }
    list.len()
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").map_or(text, |rest| rest.strip_suffix(b"\"").unwrap_or(rest))
}

/// A number of seconds, at most [`SECONDS_MAX`]; `None` where it is no number.
fn seconds(text: &[u8]) -> Option<i64> {
    let digit = |number: i64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit).min(SECONDS_MAX))
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, digit) }
}

#[cfg(test)]
mod tests;
