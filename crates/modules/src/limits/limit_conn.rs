//! Limits the number of concurrent requests per key.
//!
//! `limit_conn_zone` defines a key, such as the client's address, and a zone of memory for the counts of the keys.
//! `limit_conn` applies the zone to a location, with the largest number of requests at a time. A request above the
//! limit gets `limit_conn_status`. A request counts from the moment its head is complete until its response is sent
//! or the client disconnects. A request with an empty key is not limited. With several zones, a request must pass
//! all of them.
//!
//! A count takes 64 bytes for keys of up to 28 bytes. If the zone is full, a request with a new key is rejected.
//! All threads share the zone. A reload keeps its counts, if name, size and key are the same.
//!
//! `limit_conn_dry_run on` logs what would happen and limits nothing. `$limit_conn_status` is `PASSED`, `REJECTED`
//! or `REJECTED_DRY_RUN`.
//!
//! ```conf
//! limit_conn_zone $binary_remote_addr zone=addresses:1m;
//! server {
//!     listen 8080;
//!     root html;
//!     limit_conn addresses 1;
//!     add_header X-Limit $limit_conn_status always;
//! }
//! ```
//!
//! ```http
//! GET /none HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! X-Limit: PASSED
//! ```

use crate::limits::limit_req::{must_have_zone, parse_level, parse_status, too_long};
use crate::shared::zones::{self, Named, Shards, ZoneSpec};
use conf::value::number;
use conf::{Arity, Contexts, Diagnostic, Span};
use contract::hash::KeyedMap;
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Phase, Reach, Rule, ScopeBuilder, Step,
    Template, Variable, View,
};
use http::Status;
use journal::Level;
use std::rc::Rc;
use std::sync::Arc;

/// Limits of requests at a time.
pub static MODULE: Module = Module {
    name: "limit_conn",
    directives: &[
        &LIMIT_CONN_ZONE,
        &LIMIT_CONN,
        &LIMIT_CONN_STATUS,
        &LIMIT_CONN_LOG_LEVEL,
        &LIMIT_CONN_DRY_RUN,
    ],
    variables: &[Variable::new("limit_conn_status", |exchange, _, out| {
        let told = exchange.attached::<Told>();
        told.inspect(|told| out.extend_from_slice(told.status.as_bytes())).is_some()
    })
    .everywhere()],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `limit_conn_zone KEY zone=NAME:SIZE`
pub static LIMIT_CONN_ZONE: Directive<DefinedZone> = Directive::new("limit_conn_zone", DefinedZone::parse)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .help("Names a key and a zone for the counts of its values.");

/// `limit_conn ZONE NUMBER`
pub static LIMIT_CONN: Directive<Limit> = Directive::new("limit_conn", |args, _| Limit::parse(args))
    .within(LEVELS.or(Contexts::ALL_STREAM))
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .help("Limits how many requests are answered at a time.");

/// `limit_conn_status STATUS`
pub static LIMIT_CONN_STATUS: Directive<Status> = Directive::new("limit_conn_status", parse_status)
    .within(LEVELS)
    .default("503")
    .help("The status of a response to a request above the limit.");

/// `limit_conn_log_level info | notice | warn | error`
pub static LIMIT_CONN_LOG_LEVEL: Directive<Level> = Directive::new("limit_conn_log_level", parse_level)
    .within(LEVELS.or(Contexts::ALL_STREAM))
    .default("error")
    .help("The level at which refusals are logged.");

/// `limit_conn_dry_run on | off`
pub static LIMIT_CONN_DRY_RUN: Directive<bool> = Directive::flag("limit_conn_dry_run")
    .within(LEVELS.or(Contexts::ALL_STREAM))
    .default("off")
    .help("Whether the limit is only logged, and not enforced.");

/// What `limit_conn_zone` defines.
pub struct DefinedZone(Arc<Zone>);

impl Named for DefinedZone {
    fn name(&self) -> &[u8] {
        &self.0.spec.name
    }

    fn key(&self) -> &str {
        &self.0.key_text
    }
}

impl DefinedZone {
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<DefinedZone, Diagnostic> {
        let (key, word) = (args.word(0)?, args.word(1)?);
        let template = loading.template(key)?;
        let rest = word.text.strip_prefix(b"zone=").ok_or_else(|| args.invalid(word))?;
        let spec = ZoneSpec::parse(args, word, rest)?;
        if spec.name.is_empty() {
            return Err(must_have_zone(args));
        }
        let key_text = key.to_string();
        let make = || Shards::new(&spec, Counts::new);
        let shards = loading.origin.keep(spec.identity(&key_text), make);
        Ok(DefinedZone(Arc::new(Zone { spec, key: template, key_text, shards })))
    }
}

/// What `limit_conn` says.
#[derive(Clone, Debug)]
pub struct Limit {
    zone: Box<[u8]>,
    most: u32,
}

impl Limit {
    fn parse(args: &Args<'_>) -> Result<Limit, Diagnostic> {
        let word = args.word(1)?;
        let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
        let most = number(word).ok().filter(|most| *most > 0);
        let most = most.ok_or_else(|| error(format!("invalid number of connections \"{word}\"")))?;
        match u16::try_from(most) {
            Ok(most) => Ok(Limit { zone: args.word(0)?.text.clone(), most: u32::from(most) }),
            Err(_) => Err(error("connection limit must be less 65536".to_owned())),
        }
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let zones = view.all(&LIMIT_CONN_ZONE);
    zones::check_names("limit_conn_zone", &zones)?;
    let mut limits: Vec<Bound> = Vec::new();
    for written in view.all(&LIMIT_CONN) {
        let Limit { zone: name, most } = written.value;
        let zone = zones.iter().find(|zone| zone.value.name() == &**name);
        let unknown = || zones::unknown(name, "limit_conn_zone").at(written.span);
        let zone = Arc::clone(&zone.ok_or_else(unknown)?.value.0);
        if limits.iter().any(|bound| Arc::ptr_eq(&bound.zone, &zone)) {
            return Err(Diagnostic::emerg("\"limit_conn\" directive is duplicate").at(written.span));
        }
        limits.push(Bound { zone, most: *most, place: written.span });
    }
    if !limits.is_empty() {
        let handler = LimitConn {
            limits: limits.into(),
            status: view.get(&LIMIT_CONN_STATUS).copied().unwrap_or(Status::SERVICE_UNAVAILABLE),
            log_level: view.get(&LIMIT_CONN_LOG_LEVEL).copied().unwrap_or(Level::Error),
            dry_run: view.get(&LIMIT_CONN_DRY_RUN).copied().unwrap_or(false),
        };
        builder.handle(Phase::Preaccess, handler);
    }
    Ok(())
}

struct Zone {
    spec: ZoneSpec,
    key: Template,
    key_text: String,
    /// They outlive a configuration where the next one has the same zone.
    shards: Arc<Shards<Counts>>,
}

/// How many requests of each key there are.
struct Counts {
    by_key: KeyedMap<Box<[u8]>, u32>,
    used_bytes: u64,
    capacity_bytes: u64,
}

/// What nginx spends on a count besides its key, in bytes.
const COUNT_ACCOUNT: usize = 36;

fn cost(key: &[u8]) -> u64 {
    zones::cost(COUNT_ACCOUNT + key.len())
}

impl Counts {
    fn new(capacity_bytes: u64) -> Counts {
        Counts { by_key: KeyedMap::default(), used_bytes: 0, capacity_bytes }
    }

    fn enter(&mut self, key: &[u8], most: u32) -> Result<(), Refusal> {
        if let Some(count) = self.by_key.get_mut(key) {
            if *count >= most {
                return Err(Refusal::TooMany);
            }
            *count += 1;
            return Ok(());
        }
        if self.used_bytes + cost(key) > self.capacity_bytes {
            return Err(Refusal::ZoneFull);
        }
        self.used_bytes += cost(key);
        self.by_key.insert(key.into(), 1);
        Ok(())
    }

    fn leave(&mut self, key: &[u8]) {
        let Some(count) = self.by_key.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.by_key.remove(key);
            self.used_bytes -= cost(key);
        }
    }
}

enum Refusal {
    TooMany,
    ZoneFull,
}

/// A request that counts, until it is dropped.
struct Counted {
    zone: Arc<Zone>,
    key: Vec<u8>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.zone.shards.of(&self.key).leave(&self.key);
    }
}

/// What was decided about a request; it is decided once.
struct Told {
    status: &'static str,
    /// What it counts for, as long as it or a request inside of it runs.
    _counted: Vec<Counted>,
}

/// A limit by its zone.
struct Bound {
    zone: Arc<Zone>,
    most: u32,
    place: Span,
}

impl Bound {
    fn event(&self, entered: Result<(), &Refusal>, key: &[u8]) -> Event {
        let name = String::from_utf8_lossy(&self.zone.spec.name);
        let text = match entered {
            Ok(()) => format!("within zone \"{name}\""),
            Err(Refusal::TooMany) => format!("beyond zone \"{name}\""),
            Err(Refusal::ZoneFull) => format!("zone \"{name}\" is full"),
        };
        Event::new("limit_conn", text).at(Some(self.place)).with("key", key)
    }
}

struct LimitConn {
    limits: Box<[Bound]>,
    status: Status,
    log_level: Level,
    dry_run: bool,
}

impl Handler for LimitConn {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.attached::<Told>().is_some() {
            return Step::Next;
        }
        let mut counted = Vec::new();
        for bound in &self.limits {
            let Bound { zone, most, .. } = bound;
            let key = zone.key.evaluate(exchange);
            if key.is_empty() {
                continue;
            }
            if key.len() > KEY_MAX {
                exchange.log(Level::Error, &too_long(&zone.key_text, &key, KEY_MAX));
                continue;
            }
            let entered = zone.shards.of(&key).enter(&key, *most);
            exchange.tell(|| bound.event(entered.as_ref().copied(), &key));
            match entered {
                Ok(()) => counted.push(Counted { zone: Arc::clone(zone), key }),
                // What the zones before this one have counted does not count after all.
                Err(refusal) => return self.refuse(exchange, zone, &refusal),
            }
        }
        if !counted.is_empty() {
            exchange.attach(Reach::Shared, Rc::new(Told { status: "PASSED", _counted: counted }));
        }
        Step::Next
    }
}

impl LimitConn {
    fn refuse(&self, exchange: &Exchange, zone: &Zone, refusal: &Refusal) -> Step {
        if let Refusal::TooMany = refusal {
            let dry = if self.dry_run { ", dry run," } else { "" };
            let name = String::from_utf8_lossy(&zone.spec.name);
            exchange.log(self.log_level, &format!("limiting connections{dry} by zone \"{name}\""));
        }
        let status = if self.dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" };
        exchange.attach(Reach::Shared, Rc::new(Told { status, _counted: Vec::new() }));
        if self.dry_run { Step::Next } else { Step::Finish(self.status) }
    }
}

/// The longest key that has a count, in bytes.
const KEY_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{Exchange, Phase, Step};

    const ZONES: &str = "limit_conn_zone $arg_a zone=one:1m; limit_conn_zone $arg_b zone=two:32k;";

    fn site(text: &str) -> Site {
        Site::location(&format!("{ZONES} map 1 $x {{ default $limit_conn_status; }} {text}"))
    }

    /// The request, to be held, and its result: `+` or the status, and the variable.
    fn run(site: &Site, target: &str) -> (Exchange, String) {
        let mut exchange = site.get(target);
        let text = match site.run(Phase::Preaccess, &mut exchange) {
            Step::Next => "+".to_owned(),
            step => status(&step).to_string(),
        };
        let told = site.variable("x", &exchange);
        (exchange, format!("{text} {told}"))
    }

    #[test]
    fn a_request_counts_until_it_ends() {
        let site = site("limit_conn one 2;");
        let (first, told) = run(&site, "/?a=1");
        assert_eq!(told, "+ PASSED");
        let second = run(&site, "/?a=1").0;
        assert_eq!(run(&site, "/?a=1").1, "503 REJECTED");
        assert_eq!(run(&site, "/?a=2").1, "+ PASSED");
        assert_eq!(run(&site, "/").1, "+ ", "no key");
        let inner = first.inner(first.request.clone());
        drop(first);
        assert_eq!(run(&site, "/?a=1").1, "503 REJECTED", "a request inside of it still runs");
        drop(inner);
        assert_eq!(run(&site, "/?a=1").1, "+ PASSED");
        drop(second);
    }

    #[test]
    fn a_refused_request_counts_nowhere() {
        let site = site("limit_conn one 1; limit_conn two 1; limit_conn_status 429;");
        let held = run(&site, "/?a=1&b=1").0;
        let refused = run(&site, "/?a=2&b=1");
        assert_eq!(refused.1, "429 REJECTED");
        assert_eq!(run(&site, "/?a=2").1, "+ PASSED", "though the refused one still exists");
        drop((held, refused.0));
    }

    #[test]
    fn a_request_is_counted_once_and_a_dry_run_does_nothing() {
        let site = site("limit_conn one 1; limit_conn_dry_run on;");
        let mut held = run(&site, "/?a=1").0;
        assert!(matches!(site.run(Phase::Preaccess, &mut held), Step::Next));
        assert_eq!(site.variable("x", &held), "PASSED");
        assert_eq!(run(&site, "/?a=1").1, "+ REJECTED_DRY_RUN");
    }

    #[test]
    fn a_full_zone_refuses_whom_it_does_not_know() {
        let site = site("limit_conn two 1;");
        let held: Vec<_> = (0..2000).map(|n| run(&site, &format!("/?b={n}"))).collect();
        let passed = held.iter().take_while(|(_, told)| told == "+ PASSED").count();
        assert!((300..512).contains(&passed), "{passed}");
        assert_eq!(held[passed].1, "503 REJECTED");
        drop(held);
        assert_eq!(run(&site, "/?b=1999").1, "+ PASSED", "all room is given back");
        assert_eq!(run(&site, &format!("/?b={}", "x".repeat(256))).1, "+ ", "a key that is too long");
    }

    #[test]
    fn what_is_wrong_is_said_as_nginx_says_it() {
        let limit = |text: &str| Site::error(&format!("{ZONES} {text}"));
        assert_eq!(limit("limit_conn one 0;"), "invalid number of connections \"0\"");
        assert_eq!(limit("limit_conn one 65536;"), "connection limit must be less 65536");
        assert_eq!(limit("limit_conn none 1;"), "zero size shared memory zone \"none\"");
        assert_eq!(limit("limit_conn one 1; limit_conn one 2;"), "\"limit_conn\" directive is duplicate");
        assert_eq!(
            limit("limit_conn_zone $arg_c zone=:1m;"),
            "\"limit_conn_zone\" must have \"zone\" parameter"
        );
        assert_eq!(limit("limit_conn_zone $arg_c one:1m;"), "invalid parameter \"one:1m\"");
        let twice = "limit_conn_zone $arg_c zone=one:1m;";
        assert_eq!(limit(twice), "limit_conn_zone \"one\" is already bound to key \"$arg_a\"");
    }
}
