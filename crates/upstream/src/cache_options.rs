//! The directives about keeping responses, written once for all protocols.

use crate::cache_purge::{Purge, parse as parse_purge};
use crate::failures::Failures;
use crate::names::Names;
use crate::option::{bits, flag, of, time};
use cache::{DiskUse, Levels, Rules};
use conf::value::{self, ValueError};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Loading, Rule, Template};
use http::Method;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The directives about keeping responses, under one protocol's names.
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct CacheOptions {
    pub path: Directive<Arc<CachePath>>,
    pub cache: Directive<UsedZone>,
    pub key: Directive<Template>,
    pub valid: ValidOptions,
    pub methods: Directive<CacheMethods>,
    pub min_uses: Directive<u64>,
    pub bypass: Directive<Vec<Template>>,
    pub no_cache: Directive<Vec<Template>>,
    pub lock: LockOptions,
    pub use_stale: Directive<Failures>,
    pub background_update: Directive<bool>,
    pub revalidate: Directive<bool>,
    pub max_range_offset: Directive<u64>,
    pub purge: Directive<Purge>,
    pub rules: Directive<Rules>,
}

/// The directives about how long responses are valid that do not say so.
pub struct ValidOptions {
    pub valid: Directive<Vec<(Option<u16>, u64)>>,
    pub heuristic: Directive<bool>,
}

/// The directives by which one request asks for a response and others wait for it.
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct LockOptions {
    pub lock: Directive<bool>,
    pub timeout: Directive<Duration>,
    pub age: Directive<Duration>,
}

/// Where responses are kept (`proxy_cache_path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePath {
    /// The name of the zone.
    pub name: Box<[u8]>,
    /// The directory of the files.
    pub directory: PathBuf,
    /// The directories below it.
    pub levels: Levels,
    /// How many objects there may be.
    pub capacity: usize,
    /// How much memory objects may take that are ready to be sent, in bytes.
    pub memory: usize,
    /// When a response gets a file.
    pub disk_use: DiskUse,
    /// For how many seconds an object stays that nothing uses.
    pub inactive_s: i64,
    /// How much of the disk the files may take, in bytes.
    pub max_size: u64,
    /// How much of the disk stays free, in bytes.
    pub min_free: u64,
    /// How files are found after a start.
    pub loader: Pace,
    /// How objects are removed.
    pub manager: Pace,
}

/// How much is done at once, and the pause after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many files.
    pub files: usize,
    /// How long it goes on.
    pub threshold: Duration,
    /// The pause.
    pub sleep: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { files: 100, threshold: Duration::from_millis(200), sleep: Duration::from_millis(50) }
    }
}

/// The zone that a scope uses.
#[derive(Clone, Debug)]
pub enum UsedZone {
    /// None.
    Off,
    /// The one of this name.
    Named(Box<[u8]>),
    /// The one whose name a request computes.
    Computed(Template),
}

/// Methods whose responses may be kept, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMethods(pub u32);

impl CacheMethods {
    const NAMES: [(&'static str, u32); 3] = [("GET", 1), ("HEAD", 2), ("POST", 4)];

    /// Whether a method is among them. GET and HEAD always are.
    pub fn has(self, method: Method) -> bool {
        match method {
            Method::Get | Method::Head => true,
            Method::Post => self.0 & 4 != 0,
            _ => false,
        }
    }
}

impl CacheOptions {
    /// How many there are.
    pub const COUNT: usize = 18;

    pub(crate) const fn new(names: &'static Names) -> CacheOptions {
        CacheOptions {
            path: Directive::new(names.of("cache_path"), parse_path)
                .within(Contexts::HTTP)
                .args(Arity::AtLeast(2))
                .rule(Rule::List)
                .help(PATH),
            cache: of(Directive::new(names.of("cache"), parse_zone), CACHE).default("off"),
            key: of(Directive::new(names.of("cache_key"), parse_template), KEY),
            valid: ValidOptions {
                valid: of(Directive::new(names.of("cache_valid"), parse_valid), VALID)
                    .args(Arity::AtLeast(1))
                    .rule(Rule::List),
                heuristic: flag(names.of("cache_heuristic"), "off", HEURISTIC),
            },
            methods: of(Directive::new(names.of("cache_methods"), parse_methods), METHODS)
                .args(Arity::AtLeast(1))
                .rule(Rule::List)
                .default("GET HEAD"),
            min_uses: of(Directive::number(names.of("cache_min_uses")), MIN_USES).default("1"),
            bypass: templates(names.of("cache_bypass"), BYPASS),
            no_cache: templates(names.of("no_cache"), NO_CACHE),
            lock: LockOptions {
                lock: flag(names.of("cache_lock"), "off", LOCK),
                timeout: time(names.of("cache_lock_timeout"), "5s", LOCK_TIMEOUT),
                age: time(names.of("cache_lock_age"), "5s", LOCK_AGE),
            },
            use_stale: of(Directive::new(names.of("cache_use_stale"), parse_stale), USE_STALE)
                .args(Arity::AtLeast(1))
                .rule(Rule::List)
                .default("off"),
            background_update: flag(names.of("cache_background_update"), "off", BACKGROUND),
            revalidate: flag(names.of("cache_revalidate"), "off", REVALIDATE),
            max_range_offset: of(Directive::new(names.of("cache_max_range_offset"), parse_offset), MAX_RANGE),
            purge: of(Directive::new(names.of("cache_purge"), parse_purge), PURGE)
                .args(Arity::AtLeast(1))
                .rule(Rule::List),
            rules: of(Directive::new(names.of("cache_rules"), parse_rules), RULES).default("nginx"),
        }
    }
}

const PATH: &str = "A directory where responses are kept, with the zone that knows them: `levels=`, `keys_zone=NAME:SIZE`, \
     `inactive=`, `max_size=`, `min_free=`, `memory=` (not in nginx; `32m` by default), `disk_min_uses=` (not in nginx), `use_temp_path=`, `loader_files=`, `loader_sleep=`, `loader_threshold=`, \
     `manager_files=`, `manager_sleep=`, `manager_threshold=`.";
const CACHE: &str = "The zone in which responses are kept and looked up; `off` keeps none.";
const KEY: &str = "The key of a response: requests with the same key get the same response.";
const VALID: &str = "How long responses with these statuses are valid if their headers do not say it; `any` means \
     all statuses, and no status means 200, 301 and 302.";
const METHODS: &str = "The methods whose responses are kept. GET and HEAD are always included.";
const MIN_USES: &str = "After how many requests for it a response is kept.";
const BYPASS: &str = "Sends the request to the upstream server although a response is kept, if a value is neither empty nor `0`.";
const NO_CACHE: &str = "Does not keep the response if a value is neither empty nor `0`.";
const LOCK: &str = "Whether only one request at a time goes to the upstream server for a response that is not kept yet; others wait for it.";
const LOCK_TIMEOUT: &str = "How long a request waits for another one. After that it goes to the upstream server, too, and its \
     response is not kept.";
const LOCK_AGE: &str = "How long the request that others wait for may take before one of them is sent, too.";
const USE_STALE: &str = "The failures of the upstream server after which an expired response is sent; `updating` sends \
     it while another request gets a new one.";
const BACKGROUND: &str =
    "Whether an expired response that `updating` allows is sent at once, and updated after that.";
const REVALIDATE: &str = "Whether Fulmar asks the upstream server if an expired response has changed (`If-Modified-Since`, `If-None-Match`).";
const MAX_RANGE: &str =
    "From this byte on, a request for a range is forwarded with its range, and the response is not kept.";
const PURGE: &str = "Removes the response of the request's key if a value is neither empty nor `0`. The client gets 204, \
     or 404 if there was no such response. `METHOD from NETWORK …` and `ZONE KEY` are as in the module cache_purge \
     (see [Caching](../caching.md#removing-responses)).";

const RULES: &str =
    "By which rules responses are kept and used: `nginx`, or `rfc9111` (see [Caching](../caching.md)).";

const HEURISTIC: &str = "Whether a response that neither its headers nor the configuration give a time is kept for a tenth of the time since its `Last-Modified`, \
     at most a day (RFC 9111, 4.2.2; see [Caching](../caching.md#without-a-stated-time)).";

const fn templates(name: &'static str, help: &'static str) -> Directive<Vec<Template>> {
    of(Directive::new(name, parse_templates), help).args(Arity::AtLeast(1)).rule(Rule::List)
}

fn parse_template(args: &Args<'_>, loading: &mut Loading) -> Result<Template, Diagnostic> {
    loading.template(args.word(0)?)
}

fn parse_templates(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<Template>, Diagnostic> {
    args.words().iter().map(|word| loading.template(word)).collect()
}

fn parse_zone(args: &Args<'_>, loading: &mut Loading) -> Result<UsedZone, Diagnostic> {
    let word = args.word(0)?;
    if *word.text == *b"off" {
        return Ok(UsedZone::Off);
    }
    let template = loading.template(word)?;
    match template.constant() {
        Some(name) => Ok(UsedZone::Named(name.into())),
        None => Ok(UsedZone::Computed(template)),
    }
}

/// What statuses are meant where none is written.
const USUAL: [u16; 3] = [200, 301, 302];

fn parse_valid(args: &Args<'_>, _: &mut Loading) -> Result<Vec<(Option<u16>, u64)>, Diagnostic> {
    let words = args.words();
    let Some((time, statuses)) = words.split_last() else {
        return Err(args.error("invalid number of arguments"));
    };
    let error = |what: &str, word: &Word| {
        Diagnostic::emerg(format!("invalid {what} \"{word}\"")).at(args.node.span).under(word.span)
    };
    let seconds = value::time_s(time).map_err(|_| error("time value", time))?;
    if statuses.is_empty() {
        return Ok(USUAL.map(|status| (Some(status), seconds)).to_vec());
    }
    let status = |word: &Word| match &*word.text {
        b"any" => Ok((None, seconds)),
        _ => match value::bounded(word, 100, Some(599)).map(u16::try_from) {
            Ok(Ok(status)) => Ok((Some(status), seconds)),
            _ => Err(error("status", word)),
        },
    };
    statuses.iter().map(status).collect()
}

fn parse_methods(args: &Args<'_>, loading: &mut Loading) -> Result<CacheMethods, Diagnostic> {
    bits(args, loading, &CacheMethods::NAMES).map(CacheMethods)
}

fn parse_stale(args: &Args<'_>, loading: &mut Loading) -> Result<Failures, Diagnostic> {
    let names: Vec<_> =
        Failures::NAMES.iter().filter(|(name, _)| *name != "non_idempotent").copied().collect();
    bits(args, loading, &names).map(Failures)
}

fn parse_rules(args: &Args<'_>, _: &mut Loading) -> Result<Rules, Diagnostic> {
    args.value(0, |word| value::choice(word, &[("nginx", Rules::Nginx), ("rfc9111", Rules::Rfc9111)]))
}

fn parse_offset(args: &Args<'_>, _: &mut Loading) -> Result<u64, Diagnostic> {
    args.value(0, value::offset)
}

/// What nginx takes of a zone for its account, and for each key, in bytes.
const ZONE_ACCOUNT: u64 = 8192;
const KEY_ACCOUNT: u64 = 128;

/// The least size of a zone, in bytes.
const ZONE_LEAST: u64 = 8192;

/// The fewest objects that a zone has room for.
const CAPACITY_LEAST: u64 = 16;

/// How much memory the objects of a zone take that are ready to be sent, in bytes, unless the configuration says more.
const MEMORY_DEFAULT: usize = 32 << 20;

fn parse_path(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<CachePath>, Diagnostic> {
    let mut path = CachePath {
        name: Box::default(),
        directory: loading.directory(args.word(0)?, args.node.span),
        levels: Levels::default(),
        capacity: 0,
        memory: MEMORY_DEFAULT,
        disk_use: DiskUse::default(),
        inactive_s: 600,
        max_size: u64::MAX,
        min_free: 0,
        loader: Pace::default(),
        manager: Pace::default(),
    };
    for word in args.words().iter().skip(1) {
        let split = word.text.iter().position(|&byte| byte == b'=').map(|at| word.text.split_at(at + 1));
        let (name, rest) = split.unwrap_or((&word.text, b""));
        let parameter = Parameter { args, word, value: Word { text: rest.into(), ..word.clone() } };
        parameter.read(name, &mut path)?;
    }
    if path.name.is_empty() {
        let message = format!("\"{}\" must have \"keys_zone\" parameter", args.node.name);
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    if path.disk_use != DiskUse::default() && path.memory < MEMORY_LEAST {
        let message = "\"disk_min_uses\" keeps responses in memory, but \"memory\" has less than 1m";
        let hint = "write a larger \"memory=\", or leave \"disk_min_uses\" out";
        let word = args.words().iter().find(|word| word.text.starts_with(b"disk_min_uses="));
        let error = Diagnostic::emerg(message).at(args.node.span).hint(hint);
        return Err(word.map_or(error.clone(), |word| error.under(word.span)));
    }
    Ok(Arc::new(path))
}

/// How much memory there is at least where responses are only in memory, in bytes.
const MEMORY_LEAST: usize = 1 << 20;

/// A parameter of `cache_path`.
struct Parameter<'a> {
    args: &'a Args<'a>,
    word: &'a Word,
    value: Word,
}

impl Parameter<'_> {
    fn read(&self, name: &[u8], path: &mut CachePath) -> Result<(), Diagnostic> {
        match name {
            b"levels=" => {
                let levels = Levels::parse(&self.value.text);
                path.levels =
                    levels.ok_or_else(|| self.error(&format!("invalid \"levels\" \"{}\"", self.word)))?;
            }
            b"keys_zone=" => self.read_zone(path)?,
            b"use_temp_path=" => self.check_temp_path()?,
            b"inactive=" => path.inactive_s = self.signed(self.parse("inactive", value::time_s)?),
            b"memory=" => {
                let bytes = self.parse("memory", value::size)?;
                path.memory = usize::try_from(bytes).unwrap_or(usize::MAX);
            }
            b"disk_min_uses=" => path.disk_use = self.disk_use()?,
            b"max_size=" => path.max_size = self.parse("max_size", value::offset)?,
            b"min_free=" => path.min_free = self.parse("min_free", value::offset)?,
            b"loader_files=" => path.loader.files = self.count("loader_files")?,
            b"loader_sleep=" => path.loader.sleep = self.time("loader_sleep")?,
            b"loader_threshold=" => path.loader.threshold = self.time("loader_threshold")?,
            b"manager_files=" => path.manager.files = self.count("manager_files")?,
            b"manager_sleep=" => path.manager.sleep = self.time("manager_sleep")?,
            b"manager_threshold=" => path.manager.threshold = self.time("manager_threshold")?,
            _ => return Err(self.args.invalid(self.word)),
        }
        Ok(())
    }

    fn disk_use(&self) -> Result<DiskUse, Diagnostic> {
        if *self.value.text == *b"never" {
            return Ok(DiskUse::Never);
        }
        match self.parse("disk_min_uses", value::number)? {
            0 => Err(self
                .error("invalid disk_min_uses value \"0\"")
                .hint("write a number of requests, or \"never\" to keep responses only in memory")),
            uses => Ok(DiskUse::At(u32::try_from(uses).unwrap_or(u32::MAX))),
        }
    }

    fn read_zone(&self, path: &mut CachePath) -> Result<(), Diagnostic> {
        let invalid = || self.error(&format!("invalid keys zone size \"{}\"", self.word));
        let text = &self.value.text;
        let colon = text.iter().position(|&byte| byte == b':').ok_or_else(invalid)?;
        let size = Word { text: text[colon + 1..].into(), ..self.word.clone() };
        let size = value::size(&size).map_err(|_| invalid())?;
        path.name = text[..colon].into();
        if size < ZONE_LEAST {
            return Err(self.error(&format!("keys zone \"{}\" is too small", self.word)));
        }
        let capacity = (size.saturating_sub(ZONE_ACCOUNT) / KEY_ACCOUNT).max(CAPACITY_LEAST);
        path.capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(u32::MAX as usize - 1);
        Ok(())
    }

    /// Files get their names in the directory of the zone, which is right for both values.
    fn check_temp_path(&self) -> Result<(), Diagnostic> {
        match &*self.value.text {
            b"on" | b"off" => Ok(()),
            _ => Err(self.error(&format!(
                "invalid use_temp_path value \"{}\", it must be \"on\" or \"off\"",
                self.word
            ))),
        }
    }

    fn parse<T>(&self, name: &str, parse: impl Fn(&Word) -> Result<T, ValueError>) -> Result<T, Diagnostic> {
        parse(&self.value).map_err(|_| self.error(&format!("invalid {name} value \"{}\"", self.word)))
    }

    fn signed(&self, seconds: u64) -> i64 {
        i64::try_from(seconds).unwrap_or(i64::MAX)
    }

    fn count(&self, name: &str) -> Result<usize, Diagnostic> {
        let count = self.parse(name, value::number)?;
        // Without a file at a time nothing would ever be done.
        Ok(usize::try_from(count).unwrap_or(usize::MAX).max(1))
    }

    fn time(&self, name: &str) -> Result<Duration, Diagnostic> {
        self.parse(name, value::time_ms).map(Duration::from_millis)
    }

    fn error(&self, message: &str) -> Diagnostic {
        Diagnostic::emerg(message).at(self.args.node.span).under(self.word.span)
    }
}
