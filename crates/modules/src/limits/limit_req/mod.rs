//! Limits the request rate per key.
//!
//! `limit_req_zone` defines a key, such as the client's address, a zone of memory for the states of the keys, and a
//! rate. `limit_req` applies the zone to a location. The rate is enforced by the millisecond: at one request per
//! second, a second request is allowed only a full second after the first.
//!
//! - `burst` allows that many requests in advance. They wait until the rate allows them.
//! - `nodelay` lets them pass at once; `delay=NUMBER` lets the first NUMBER of them pass at once.
//! - A request above the limit gets `limit_req_status`.
//! - A request with an empty key, or one of more than 65,535 bytes, is not limited. With several zones, a request must pass all of them.
//! - A request counts once, even after internal redirects.
//!
//! The size of a zone sets how many keys it holds: as in nginx about 8,000 for each megabyte, with keys of up to 48
//! bytes. The memory that they take is less. If the zone is full, the key that was unused for longest is removed. If
//! that leaves too little room for a long key, the request is rejected, with an alert in the log. All threads share the zone. A reload keeps its states, if name, size and key are the same.
//!
//! A request whose client disconnects while it waits is dropped. `limit_req_dry_run on` logs what would happen and
//! limits nothing. `$limit_req_status` is `PASSED`, `DELAYED`, `REJECTED`, `DELAYED_DRY_RUN` or `REJECTED_DRY_RUN`.
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```conf
//! limit_req_zone $arg_user zone=users:1m rate=1r/m;
//! server {
//!     listen 8080;
//!     root html;
//!     limit_req zone=users burst=1 nodelay;
//!     limit_req_status 429;
//!     add_header X-Limit $limit_req_status always;
//! }
//! ```
//!
//! ```http
//! GET /a.txt?user=1 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Limit: PASSED
//!
//! a
//! ---
//! GET /a.txt?user=1 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Limit: PASSED
//!
//! a
//! ---
//! GET /a.txt?user=1 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 429 Too Many Requests
//! X-Limit: REJECTED
//! ---
//! GET /a.txt?user=2 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Limit: PASSED
//!
//! a
//! ```

mod zone;

use crate::shared::scratch::with_scratch;
use crate::shared::zones::{self, Named, ZoneSpec};
use conf::value::{bounded, choice, number};
use conf::{Arity, Contexts, Diagnostic, Span, Word};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Phase, Reach, Rule, ScopeBuilder, Step,
    Variable, View, Work,
};
use http::Status;
use journal::Level;
use journal::clock::Time;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zone::{Verdict, Zone};

/// Limits of requests.
pub static MODULE: Module = Module {
    name: "limit_req",
    directives: &[&LIMIT_REQ_ZONE, &LIMIT_REQ, &LIMIT_REQ_STATUS, &LIMIT_REQ_LOG_LEVEL, &LIMIT_REQ_DRY_RUN],
    variables: &[Variable::new("limit_req_status", |exchange, _, out| {
        let told = exchange.attached::<Told>();
        told.inspect(|told| out.extend_from_slice(told.0.as_bytes())).is_some()
    })],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `limit_req_zone KEY zone=NAME:SIZE rate=RATE`
pub static LIMIT_REQ_ZONE: Directive<DefinedZone> = Directive::new("limit_req_zone", DefinedZone::parse)
    .within(Contexts::HTTP)
    .args(Arity::Exactly(3))
    .rule(Rule::List)
    .help("Names a key, a zone for its states, and a rate of requests.");

/// `limit_req zone=NAME [burst=NUMBER] [nodelay | delay=NUMBER]`
pub static LIMIT_REQ: Directive<Limit> = Directive::new("limit_req", |args, _| Limit::parse(args))
    .within(LEVELS)
    .args(Arity::Range(1, 3))
    .rule(Rule::List)
    .help("Limits requests by the rate of a zone.");

/// `limit_req_status STATUS`
pub static LIMIT_REQ_STATUS: Directive<Status> = Directive::new("limit_req_status", parse_status)
    .within(LEVELS)
    .default("503")
    .help("The status of a response to a request above the limit.");

/// `limit_req_log_level info | notice | warn | error`
pub static LIMIT_REQ_LOG_LEVEL: Directive<Level> = Directive::new("limit_req_log_level", parse_level)
    .within(LEVELS)
    .default("error")
    .help("The level at which refusals are logged; delays are logged one level below.");

/// `limit_req_dry_run on | off`
pub static LIMIT_REQ_DRY_RUN: Directive<bool> = Directive::flag("limit_req_dry_run")
    .within(LEVELS)
    .default("off")
    .help("Whether the limit is only logged, and not enforced.");

/// A status that a limit may answer with.
pub(crate) fn parse_status(args: &Args<'_>, _: &mut Loading) -> Result<Status, Diagnostic> {
    let status = args.value(0, |word| bounded(word, 400, Some(599)))?;
    Ok(Status(u16::try_from(status).unwrap_or(503)))
}

/// A level at which a limit may log.
pub(crate) fn parse_level(args: &Args<'_>, _: &mut Loading) -> Result<Level, Diagnostic> {
    const LEVELS: [(&str, Level); 4] =
        [("info", Level::Info), ("notice", Level::Notice), ("warn", Level::Warn), ("error", Level::Error)];
    args.value(0, |word| choice(word, &LEVELS))
}

/// What `limit_req_zone` defines.
pub struct DefinedZone(Arc<Zone>);

impl Named for DefinedZone {
    fn name(&self) -> &[u8] {
        self.0.name()
    }

    fn key(&self) -> &str {
        self.0.key()
    }
}

impl DefinedZone {
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<DefinedZone, Diagnostic> {
        let key = args.word(0)?;
        let template = loading.template(key)?;
        let (mut spec, mut rate) = (None, 1000);
        for word in args.words().iter().skip(1) {
            if let Some(rest) = word.text.strip_prefix(b"zone=") {
                spec = Some(ZoneSpec::parse(args, word, rest)?);
            } else if let Some(text) = word.text.strip_prefix(b"rate=") {
                rate = parse_rate(word, text).ok_or_else(|| {
                    let message = format!("invalid rate \"{word}\"");
                    Diagnostic::emerg(message).at(args.node.span).under(word.span)
                })?;
            } else {
                return Err(args.invalid(word));
            }
        }
        let spec = spec.filter(|spec| !spec.name.is_empty());
        let spec = spec.ok_or_else(|| must_have_zone(args))?;
        let key = (template, key.to_string());
        Ok(DefinedZone(Arc::new(Zone::new(spec, key, rate, &loading.origin))))
    }
}

/// The error about a directive that names no zone.
pub(crate) fn must_have_zone(args: &Args<'_>) -> Diagnostic {
    let message = format!("\"{}\" must have \"zone\" parameter", args.node.name);
    Diagnostic::emerg(message).at(args.node.span)
}

/// Thousandths of a request a second.
fn parse_rate(word: &Word, text: &[u8]) -> Option<i64> {
    let (digits, seconds) = match (text.strip_suffix(b"r/s"), text.strip_suffix(b"r/m")) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 60),
        (None, None) => (text, 1),
    };
    let count = number(&Word { text: digits.into(), ..*word }).ok().filter(|count| *count > 0)?;
    Some(i64::try_from(count).ok()?.saturating_mul(1000) / seconds)
}

/// What `limit_req` says, in thousandths of a request.
#[derive(Clone, Debug)]
pub struct Limit {
    zone: Box<[u8]>,
    burst: i64,
    delay: i64,
}

impl Limit {
    fn parse(args: &Args<'_>) -> Result<Limit, Diagnostic> {
        let (mut zone, mut burst, mut delay) = (None, 0, 0);
        for word in args.words() {
            let thousandths = |text: &[u8], what: &str| {
                let count = number(&Word { text: text.into(), ..*word }).ok().filter(|count| *count > 0);
                let count = count.and_then(|count| i64::try_from(count).ok()).ok_or_else(|| {
                    let message = format!("invalid {what} value \"{word}\"");
                    Diagnostic::emerg(message).at(args.node.span).under(word.span)
                })?;
                Ok::<i64, Diagnostic>(count.saturating_mul(1000))
            };
            if let Some(name) = word.text.strip_prefix(b"zone=") {
                zone = Some(name.into());
            } else if let Some(text) = word.text.strip_prefix(b"burst=") {
                burst = thousandths(text, "burst")?;
            } else if let Some(text) = word.text.strip_prefix(b"delay=") {
                delay = thousandths(text, "delay")?;
            } else if word.is("nodelay") {
                delay = i64::MAX;
            } else {
                return Err(args.invalid(word));
            }
        }
        Ok(Limit { zone: zone.ok_or_else(|| must_have_zone(args))?, burst, delay })
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let zones = view.all(&LIMIT_REQ_ZONE);
    zones::check_names("limit_req_zone", &zones)?;
    let mut limits: Vec<Bound> = Vec::new();
    for written in view.all(&LIMIT_REQ) {
        let limit = written.value.clone();
        let zone = zones.iter().find(|zone| zone.value.name() == &*limit.zone);
        let unknown = || zones::unknown(&limit.zone, "limit_req_zone").at(written.span);
        let zone = Arc::clone(&zone.ok_or_else(unknown)?.value.0);
        if limits.iter().any(|bound| Arc::ptr_eq(&bound.zone, &zone)) {
            return Err(Diagnostic::emerg("\"limit_req\" directive is duplicate").at(written.span));
        }
        limits.push(Bound { zone, limit, place: written.span });
    }
    if !limits.is_empty() {
        let log_level = view.get(&LIMIT_REQ_LOG_LEVEL).copied().unwrap_or(Level::Error);
        builder.handle(
            Phase::Preaccess,
            LimitReq {
                limits: limits.into(),
                status: view.get(&LIMIT_REQ_STATUS).copied().unwrap_or(Status::SERVICE_UNAVAILABLE),
                log_level,
                dry_run: view.get(&LIMIT_REQ_DRY_RUN).copied().unwrap_or(false),
            },
        );
    }
    Ok(())
}

/// A limit by its zone.
struct Bound {
    zone: Arc<Zone>,
    limit: Limit,
    place: Span,
}

impl Bound {
    fn event(&self, verdict: Verdict, key: &[u8]) -> Event {
        let name = String::from_utf8_lossy(&self.zone.spec.name);
        let text = match verdict {
            Verdict::Within(excess) => format!("within zone \"{name}\", excess: {}", requests(excess)),
            Verdict::Over(excess) => format!("beyond zone \"{name}\", excess: {}", requests(excess)),
            Verdict::Full => format!("zone \"{name}\" is full"),
        };
        Event::new("limit_req", text).at(Some(self.place)).with("key", key)
    }
}

struct LimitReq {
    limits: Box<[Bound]>,
    status: Status,
    log_level: Level,
    dry_run: bool,
}

/// What was decided about a request; it is decided once.
struct Told(&'static str);

/// What the limits together say.
enum Decision<'a> {
    /// Every key is empty or too long.
    Free,
    /// This zone rejects the request. There is no excess if the zone had no room for the key.
    Refused(&'a Zone, Option<i64>),
    /// This zone delays most, by so many milliseconds, for its excess.
    Passed { delay: u64, excess: i64, zone: &'a Zone },
}

impl Handler for LimitReq {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.attached::<Told>().is_some() {
            return Step::Next;
        }
        let dry = if self.dry_run { ", dry run" } else { "" };
        let tell = |status| exchange.attach(Reach::Shared, Rc::new(Told(status)));
        match with_scratch(|key| self.decide(exchange, key)) {
            Decision::Free => Step::Next,
            Decision::Refused(zone, excess) => {
                let name = String::from_utf8_lossy(&zone.spec.name);
                match excess.map(requests) {
                    Some(excess) => exchange.log(
                        self.log_level,
                        &format!("limiting requests{dry}, excess: {excess} by zone \"{name}\""),
                    ),
                    None => exchange
                        .log(Level::Alert, &format!("could not allocate node in limit_req zone \"{name}\"")),
                }
                tell(if self.dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" });
                if self.dry_run { Step::Next } else { Step::Finish(self.status) }
            }
            Decision::Passed { delay: 0, .. } => {
                tell("PASSED");
                Step::Next
            }
            Decision::Passed { delay, excess, zone } => {
                let (excess, name) = (requests(excess), String::from_utf8_lossy(&zone.spec.name));
                let message = format!("delaying request{dry}, excess: {excess}, by zone \"{name}\"");
                exchange.log(one_below(self.log_level), &message);
                tell(if self.dry_run { "DELAYED_DRY_RUN" } else { "DELAYED" });
                if self.dry_run { Step::Next } else { Step::Await(Work::Sleep(Duration::from_millis(delay))) }
            }
        }
    }
}

impl LimitReq {
    /// A request that one zone refuses is counted by none: all but the last zone are asked first, and
    /// count when the last one has agreed.
    fn decide(&self, exchange: &Exchange, key: &mut Vec<u8>) -> Decision<'_> {
        let now = Time::now().uptime_ms;
        let mut asked = Vec::new();
        let mut last = None;
        for (at, bound) in self.limits.iter().enumerate() {
            let Bound { zone, limit, .. } = bound;
            key.clear();
            zone.key.write(exchange, key);
            if key.is_empty() {
                continue;
            }
            if key.len() > KEY_MAX {
                exchange.log(Level::Error, &too_long(zone.key(), key, KEY_MAX));
                continue;
            }
            let is_last = at + 1 == self.limits.len();
            let verdict = zone.check(key, limit.burst, is_last, now);
            exchange.tell(|| bound.event(verdict, key));
            match verdict {
                Verdict::Over(excess) => return Decision::Refused(zone, Some(excess)),
                Verdict::Full => return Decision::Refused(zone, None),
                Verdict::Within(excess) if is_last => last = Some((zone, limit, excess)),
                Verdict::Within(_) => asked.push((zone, limit, key.clone())),
            }
        }
        let counted = asked.iter().rev().map(|(zone, limit, key)| (*zone, *limit, zone.count(key, now)));
        let delays = last.into_iter().chain(counted).map(|(zone, limit, excess)| {
            let over = excess.saturating_sub(limit.delay).max(0);
            (zone.delay(over), excess, zone)
        });
        // The first of several equal delays counts.
        let longest = delays.reduce(|longest, next| if next.0 > longest.0 { next } else { longest });
        longest.map_or(Decision::Free, |(delay, excess, zone)| Decision::Passed { delay, excess, zone })
    }
}

/// The longest key that has a state, in bytes.
const KEY_MAX: usize = 65_535;

/// The line about a key whose value is too long.
pub(crate) fn too_long(key: &str, value: &[u8], most: usize) -> String {
    let value = String::from_utf8_lossy(value);
    format!("the value of the \"{key}\" key is more than {most} bytes: \"{value}\"")
}

/// Thousandths as a number of requests.
fn requests(thousandths: i64) -> String {
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn one_below(level: Level) -> Level {
    match level {
        Level::Error => Level::Warn,
        Level::Warn => Level::Notice,
        _ => Level::Info,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{Phase, Step, Work};

    const ZONES: &str =
        "limit_req_zone $arg_a zone=one:1m rate=1r/s; limit_req_zone $arg_b zone=two:1m rate=60r/m;";

    /// The status, `+` for passed or the seconds of the delay, and the variable.
    fn run(site: &Site, target: &str) -> (String, String) {
        let mut exchange = site.get(target);
        let step = site.run(Phase::Preaccess, &mut exchange);
        let text = match &step {
            Step::Next => "+".to_owned(),
            Step::Await(Work::Sleep(time)) => format!("{}s", time.as_millis().div_ceil(1000)),
            step => status(step).to_string(),
        };
        (text, site.variable("x", &exchange))
    }

    fn site(text: &str) -> Site {
        Site::location(&format!("{ZONES} map 1 $x {{ default $limit_req_status; }} {text}"))
    }

    fn texts(site: &Site, targets: &[&str]) -> String {
        targets.iter().map(|target| run(site, target).0 + " ").collect()
    }

    #[test]
    fn each_value_has_its_rate() {
        let site = site("limit_req zone=one;");
        assert_eq!(texts(&site, &["/?a=1", "/?a=2", "/?a=1", "/?a=2", "/", "/?a="]), "+ + 503 503 + + ");
        assert_eq!(run(&site, "/?a=3").1, "PASSED");
        assert_eq!(run(&site, "/?a=3").1, "REJECTED");
        assert_eq!(run(&site, "/").1, "");
    }

    #[test]
    fn bursts_wait_or_not() {
        let targets = &["/?a=1"; 5];
        assert_eq!(texts(&site("limit_req zone=one burst=3;"), targets), "+ 1s 2s 3s 503 ");
        assert_eq!(texts(&site("limit_req zone=one burst=3 nodelay;"), targets), "+ + + + 503 ");
        assert_eq!(texts(&site("limit_req zone=one burst=3 delay=2;"), targets), "+ + + 1s 503 ");
    }

    #[test]
    fn all_zones_have_to_agree_and_none_counts_what_one_refuses() {
        let site =
            site("limit_req zone=one burst=1 nodelay; limit_req zone=two burst=2; limit_req_status 429;");
        assert_eq!(texts(&site, &["/?a=1&b=1", "/?a=2&b=1", "/?a=2&b=1", "/?a=3&b=1"]), "+ 1s 2s 429 ");
        assert_eq!(texts(&site, &["/?a=3", "/?a=3", "/?a=3"]), "+ + 429 ", "the refused one did not count");
    }

    #[test]
    fn a_request_is_counted_once() {
        let site = site("limit_req zone=one;");
        let mut exchange = site.get("/?a=1");
        for _ in 0..3 {
            assert!(matches!(site.run(Phase::Preaccess, &mut exchange), Step::Next));
        }
        assert!(matches!(
            site.run(Phase::Preaccess, &mut exchange.inner(exchange.request.clone())),
            Step::Next
        ));
    }

    #[test]
    fn a_dry_run_does_nothing() {
        let site = site("limit_req zone=one burst=1; limit_req_dry_run on;");
        let told = ["PASSED", "DELAYED_DRY_RUN", "REJECTED_DRY_RUN"];
        assert_eq!(told.map(|_| run(&site, "/?a=1")), told.map(|told| ("+".to_owned(), told.to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said_as_nginx_says_it() {
        let zone = |text: &str| Site::error(&format!("limit_req_zone $arg_a {text};"));
        assert_eq!(zone("zone=z rate=1r/s"), "invalid zone size \"zone=z\"");
        assert_eq!(zone("zone=z:1x rate=1r/s"), "invalid zone size \"zone=z:1x\"");
        assert_eq!(zone("zone=z:1k rate=1r/s"), "zone \"zone=z:1k\" is too small");
        assert_eq!(zone("zone=z:1m rate=0r/s"), "invalid rate \"rate=0r/s\"");
        assert_eq!(zone("zone=z:1m rate=1r/h"), "invalid rate \"rate=1r/h\"");
        assert_eq!(zone("zone=z:1m burst=1"), "invalid parameter \"burst=1\"");
        assert_eq!(zone("rate=1 rate=1"), "\"limit_req_zone\" must have \"zone\" parameter");
        let limit = |text: &str| Site::error(&format!("{ZONES} {text}"));
        assert_eq!(limit("limit_req burst=1;"), "\"limit_req\" must have \"zone\" parameter");
        assert_eq!(limit("limit_req zone=one burst=0;"), "invalid burst value \"burst=0\"");
        assert_eq!(limit("limit_req zone=one delay=x;"), "invalid delay value \"delay=x\"");
        assert_eq!(limit("limit_req zone=none;"), "zero size shared memory zone \"none\"");
        assert_eq!(limit("limit_req zone=one; limit_req zone=one;"), "\"limit_req\" directive is duplicate");
        assert_eq!(limit("limit_req_status 399;"), "value must be between 400 and 599");
        let twice = "limit_req_zone $arg_c zone=one:1m rate=1r/s;";
        assert_eq!(limit(twice), "limit_req_zone \"one\" is already bound to key \"$arg_a\"");
    }
}
