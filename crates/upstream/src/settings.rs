//! What the options of a protocol come to in one scope.

use crate::bind::Bind;
use crate::cache_options::{CacheOptions, UsedZone};
use crate::cache_settings::{CacheSettings, stores};
use crate::denied::Denied;
use crate::failures::Failures;
use crate::ignored::Ignored;
use crate::kind::Kind;
use crate::options::Options;
use crate::store_options::StorePath;
use cache::Rules;
use conf::{Diagnostic, Span};
use contract::{Amount, Directive, View, Written};
use http::{Field, Fields};
use net::ConnectOptions;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What the options of a protocol come to in one scope.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is the option of that name")]
pub struct Settings {
    pub timeouts: Timeouts,
    pub buffers: Buffers,
    pub next_upstream: NextUpstream,
    pub connecting: Connecting,
    pub ignore_client_abort: bool,
    pub pass_request_headers: bool,
    pub pass_request_body: bool,
    pub intercept_errors: bool,
    pub limit_rate: Option<Amount>,
    pub ignored: Ignored,
    pub force_ranges: bool,
    /// Where responses are stored, if they are, and the permissions of their files.
    pub store: Option<(StorePath, u32)>,
    /// How responses are kept, if they are.
    pub cache: Option<Arc<CacheSettings>>,
    /// Fields of responses that are not passed on, in lower case.
    pub hidden: FieldNames,
}

/// How long a server is waited for, at each step.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// `connect_timeout`
    pub connect: Duration,
    /// `send_timeout`
    pub send: Duration,
    /// `read_timeout`
    pub read: Duration,
}

/// How much is kept of requests and responses on their way.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// Whether a server need not wait for the client (`buffering`).
    pub of_response: bool,
    /// Whether the request's body is read whole before a server is asked (`request_buffering`).
    pub of_request: bool,
    /// The bytes of a response's head (`buffer_size`).
    pub head: usize,
    /// The directive that limits heads of responses.
    pub head_limit: &'static str,
    /// The bytes of all buffers (`buffers`).
    pub in_memory: usize,
    /// The bytes of a file (`max_temp_file_size`).
    pub in_file: u64,
    /// The directory of the files (`temp_path`).
    pub directory: Arc<Path>,
}

/// When another server is asked.
#[derive(Clone, Copy, Debug)]
pub struct NextUpstream {
    /// After which failures (`next_upstream`).
    pub failures: Failures,
    /// How many servers in all; 0 is no limit (`next_upstream_tries`).
    pub tries: usize,
    /// For how long; zero is no limit (`next_upstream_timeout`).
    pub timeout: Duration,
}

/// How connections to servers are opened.
#[derive(Clone, Debug)]
pub struct Connecting {
    /// From which address (`bind`).
    pub bind: Option<Bind>,
    /// The addresses that no connection is opened to (`upstream_deny`).
    pub denied: Option<Arc<Denied>>,
    /// With which options, but for the local address.
    pub socket: ConnectOptions,
}

/// Fields that no server's response hands to the client unless `pass_header` says so.
const HIDDEN: [&str; 8] = [
    "date",
    "server",
    "x-pad",
    "x-accel-expires",
    "x-accel-redirect",
    "x-accel-limit-rate",
    "x-accel-buffering",
    "x-accel-charset",
];

const MINUTE: Duration = Duration::from_secs(60);

impl Settings {
    /// What holds for one scope.
    ///
    /// # Errors
    /// Sizes that do not go together.
    pub fn new(view: &View<'_>, options: &Options) -> Result<Settings, Diagnostic> {
        let sizes = Sizes::new(view, options)?;
        let store = store(view, options)?;
        // Of both the inner level counts.
        let cache = CacheSettings::new(view, &options.cache)?.filter(|_| store.is_none());
        let settings = Settings::with(view, options, sizes);
        let ignoring = settings.ignored.of_freshness();
        let cache = cache.map(|cache| Arc::new(CacheSettings { ignoring, ..cache }));
        Ok(Settings { store, cache, ..settings })
    }

    /// What holds for one scope of a protocol that passes bodies on as they come ([`Options::streaming`]).
    pub fn streaming(view: &View<'_>, options: &Options) -> Settings {
        let mut buffer_size = 4096;
        view.assign_size(&options.buffer_size, &mut buffer_size);
        let sizes = Sizes { buffer_size, buffers: 0, max_temp_file_size: 0 };
        let mut settings = Settings::with(view, options, sizes);
        (settings.buffers.of_response, settings.buffers.of_request) = (false, false);
        settings
    }

    fn with(view: &View<'_>, options: &Options, sizes: Sizes) -> Settings {
        let head_limit = (&options.buffer_size as &dyn contract::AnyDirective).info().name;
        let mut settings = Settings::usual(head_limit, hidden(view, options));
        let Sizes { buffer_size, buffers, max_temp_file_size } = sizes;
        let sized = &mut settings.buffers;
        (sized.head, sized.in_memory, sized.in_file) = (buffer_size, buffers, max_temp_file_size);
        settings.assign(view, options);
        settings
    }

    /// nginx's defaults. The directive of this name limits heads; these fields are hidden from the client.
    pub(crate) fn usual(head_limit: &'static str, hidden: FieldNames) -> Settings {
        Settings {
            timeouts: Timeouts { connect: MINUTE, send: MINUTE, read: MINUTE },
            buffers: Buffers {
                of_response: true,
                of_request: true,
                head: 4096,
                head_limit,
                in_memory: 8 * 4096,
                in_file: 1 << 30,
                directory: net::temporary::directory().into(),
            },
            next_upstream: NextUpstream {
                failures: Failures::ERROR.with(Failures::TIMEOUT),
                tries: 0,
                timeout: Duration::ZERO,
            },
            connecting: Connecting { bind: None, denied: None, socket: ConnectOptions::default() },
            ignore_client_abort: false,
            pass_request_headers: true,
            pass_request_body: true,
            intercept_errors: false,
            limit_rate: None,
            ignored: Ignored(0),
            force_ranges: false,
            store: None,
            cache: None,
            hidden,
        }
    }

    /// Whether responses are kept by the rules of RFC 9111.
    pub fn follows_rfc9111(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.rules == Rules::Rfc9111)
    }

    /// Checks a scope that passes nothing on.
    ///
    /// # Errors
    /// As [`Settings::new`].
    pub fn check(view: &View<'_>, options: &Options) -> Result<(), Diagnostic> {
        stores(view, &options.cache)?;
        Sizes::new(view, options).map(drop)
    }

    fn assign(&mut self, view: &View<'_>, options: &Options) {
        view.assign(&options.connect_timeout, &mut self.timeouts.connect);
        view.assign(&options.send_timeout, &mut self.timeouts.send);
        view.assign(&options.read_timeout, &mut self.timeouts.read);
        view.assign(&options.buffering, &mut self.buffers.of_response);
        view.assign(&options.request_buffering, &mut self.buffers.of_request);
        view.assign(&options.temp_path, &mut self.buffers.directory);
        view.assign_size(&options.next_upstream_tries, &mut self.next_upstream.tries);
        view.assign(&options.next_upstream_timeout, &mut self.next_upstream.timeout);
        view.assign(&options.bind, &mut self.connecting.bind);
        view.assign(&options.socket_keepalive, &mut self.connecting.socket.keepalive);
        self.connecting.socket.receive_buffer = buffer(view, &options.socket_rcvbuf);
        self.connecting.socket.send_buffer = buffer(view, &options.socket_sndbuf);
        view.assign(&options.ignore_client_abort, &mut self.ignore_client_abort);
        view.assign(&options.pass_request_headers, &mut self.pass_request_headers);
        view.assign(&options.pass_request_body, &mut self.pass_request_body);
        view.assign(&options.force_ranges, &mut self.force_ranges);
        view.assign(&options.intercept_errors, &mut self.intercept_errors);
        self.limit_rate =
            view.get(&options.limit_rate).filter(|rate| !matches!(rate, Amount::Fixed(0))).cloned();
        let failures = view.all(&options.next_upstream);
        self.next_upstream.failures = Failures::chosen(&failures).unwrap_or(self.next_upstream.failures);
        let ignored = view.all(&options.ignore_headers);
        self.ignored = Ignored(ignored.iter().fold(0, |all, written| all | written.value.0));
    }
}

/// Where responses are stored. Of this and a cache the inner level counts.
fn store(view: &View<'_>, options: &Options) -> Result<Option<(StorePath, u32)>, Diagnostic> {
    let stores = |written: &Written<'_, StorePath>| !matches!(written.value, StorePath::Off);
    let Some(written) = view.written(&options.store).filter(stores) else { return Ok(None) };
    let keeps = |used: &UsedZone| !matches!(used, UsedZone::Off);
    let depth = |level: Option<View<'_>>| level.map_or(0, |level| level.depth());
    let cache =
        view.level_of(&options.cache.cache).filter(|_| view.get(&options.cache.cache).is_some_and(keeps));
    let (inner, outer) = (depth(view.level_of(&options.store)), depth(cache));
    if cache.is_some() && inner < outer {
        return Ok(None);
    }
    if cache.is_some() && inner == outer {
        let [store, cache]: [&dyn contract::AnyDirective; 2] = [&options.store, &options.cache.cache];
        let message = format!("\"{}\" is incompatible with \"{}\"", store.info().name, cache.info().name);
        return Err(Diagnostic::emerg(message).at(written.span));
    }
    let access = view.get(&options.store_access).copied().unwrap_or(0o600);
    Ok(Some((written.value.clone(), access)))
}

/// The size of a buffer of the system, unless the system chooses it.
fn buffer(view: &View<'_>, option: &Directive<u64>) -> Option<usize> {
    view.get(option).and_then(|&size| usize::try_from(size).ok()).filter(|&size| size > 0)
}

/// The sizes of a scope, which have to go together also where nothing is passed on.
struct Sizes {
    buffer_size: usize,
    buffers: usize,
    max_temp_file_size: u64,
}

impl Sizes {
    fn new(view: &View<'_>, options: &Options) -> Result<Sizes, Diagnostic> {
        let mut buffer_size = 4096;
        view.assign_size(&options.buffer_size, &mut buffer_size);
        let mut max_temp_file_size = 1 << 30;
        view.assign(&options.max_temp_file_size, &mut max_temp_file_size);
        let buffers = view.written(&options.buffers);
        let (count, size) = buffers.as_ref().map_or((8, 4096), |written| *written.value);
        let name = |directive: &dyn contract::AnyDirective| directive.info().name;
        if count < 2 {
            let message = format!("there must be at least 2 \"{}\"", name(&options.buffers));
            return Err(at(Diagnostic::emerg(message), buffers.map(|written| written.span)));
        }
        let least = size.max(buffer_size as u64);
        let of_sizes = || {
            format!(
                "equal to or greater than the maximum of the value of \"{}\" and one of the \"{}\"",
                name(&options.buffer_size),
                name(&options.buffers)
            )
        };
        let busy = view.written(&options.busy_buffers_size);
        let busy_size = busy.as_ref().map_or(2 * least, |written| *written.value);
        // Where a default is at odds with what was written, that is to blame.
        let head = view.written(&options.buffer_size).map(|written| written.span);
        let buffers = buffers.map(|written| written.span);
        let busy = busy.map(|written| written.span).or(buffers).or(head);
        if busy_size < least {
            let message = format!("\"{}\" must be {}", name(&options.busy_buffers_size), of_sizes());
            return Err(at(Diagnostic::emerg(message), busy));
        }
        if busy_size > (count - 1).saturating_mul(size) {
            let message = format!(
                "\"{}\" must be less than the size of all \"{}\" minus one buffer",
                name(&options.busy_buffers_size),
                name(&options.buffers)
            );
            return Err(at(Diagnostic::emerg(message), busy));
        }
        if max_temp_file_size != 0 && max_temp_file_size < least {
            let message = format!(
                "\"{}\" must be equal to zero to disable temporary files usage or must be {}",
                name(&options.max_temp_file_size),
                of_sizes()
            );
            let temporary = view.written(&options.max_temp_file_size).map(|written| written.span);
            return Err(at(Diagnostic::emerg(message), temporary.or(buffers).or(head)));
        }
        let buffers = usize::try_from(count.saturating_mul(size)).unwrap_or(usize::MAX);
        Ok(Sizes { buffer_size, buffers, max_temp_file_size })
    }
}

fn at(error: Diagnostic, place: Option<Span>) -> Diagnostic {
    match place {
        Some(place) => error.at(place),
        None => error,
    }
}

fn hidden(view: &View<'_>, options: &Options) -> FieldNames {
    let names = |directive: &Directive<Box<[u8]>>| {
        let all = view.all(directive);
        all.into_iter().map(|written| written.value.clone()).collect::<Vec<_>>()
    };
    // A cache sends the time of a response with it (RFC 9111, section 3.1).
    let is_passed = |name: &str| name.eq_ignore_ascii_case("date") && has_rfc9111(view, &options.cache);
    let usual = HIDDEN.iter().filter(|name| !is_passed(name));
    let mut hidden: HashSet<Box<[u8]>> = usual.map(|name| name.as_bytes().into()).collect();
    hidden.extend(names(&options.hide_header));
    for passed in names(&options.pass_header) {
        hidden.remove(&passed);
    }
    FieldNames::new(hidden)
}

/// Whether a scope has a cache with the rules of RFC 9111.
fn has_rfc9111(view: &View<'_>, options: &CacheOptions) -> bool {
    let is_used = view.get(&options.cache).is_some_and(|used| !matches!(used, UsedZone::Off));
    is_used && view.get(&options.rules) == Some(&Rules::Rfc9111)
}

/// Names of fields.
#[derive(Clone, Debug)]
pub struct FieldNames {
    names: Box<[Box<[u8]>]>,
    /// A bit for each length that names have, so that most that are not among them are known not to be.
    lengths: u64,
    /// A bit for each kind of field that is among them.
    kinds: u32,
}

impl FieldNames {
    pub(crate) fn new(names: HashSet<Box<[u8]>>) -> FieldNames {
        let mut names: Box<[_]> = names.into_iter().collect();
        names.sort();
        let lengths = names.iter().fold(0, |lengths, name| lengths | length_bit(name));
        let mut fields = Fields::new();
        // A name that no field can have hides none.
        for name in &names {
            let _ = fields.push(name, b"");
        }
        let kinds = fields.iter().fold(0, |kinds, field| kinds | Kind::of(&field).bit());
        FieldNames { names, lengths, kinds }
    }

    /// Whether the name of a field of this kind is among them.
    #[inline]
    pub fn has_field(&self, kind: Kind, field: &Field<'_>) -> bool {
        match kind {
            Kind::Own | Kind::Other => self.has(field.name),
            // All fields of this kind have one name.
            kind => self.has_kind(kind),
        }
    }

    /// Whether the name is among them that all fields of this kind have.
    pub fn has_kind(&self, kind: Kind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// Whether this name is among them, in any case.
    pub fn has(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0
            && self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}

#[cfg(test)]
mod tests {
    use super::Failures;
    use http::Status;

    #[test]
    fn each_failure_has_its_status() {
        assert_eq!(Failures::ERROR.status(), Status::BAD_GATEWAY);
        assert_eq!(Failures::TIMEOUT.status(), Status::GATEWAY_TIMEOUT);
        assert_eq!(Failures::INVALID_HEADER.with(Failures::NON_IDEMPOTENT).status(), Status::BAD_GATEWAY);
        for status in [500, 502, 503, 504, 403, 404, 429] {
            let failure = Failures::of_status(Status(status)).unwrap();
            assert_eq!(failure.status(), Status(status));
            assert_eq!(failure.counts(), !matches!(status, 403 | 404));
        }
        assert_eq!(Failures::of_status(Status(501)), None);
        assert!(!Failures::ERROR.has(Failures::ERROR.with(Failures::NON_IDEMPOTENT)));
    }
}
