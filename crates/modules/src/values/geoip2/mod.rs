//! Defines variables from databases about IP addresses, in MaxMind's format (`.mmdb`): the country of a client, its city,
//! its network.
//!
//! Each line of the block defines a variable by the path of a value in the database. A number in the path is a place in
//! a list, counted from zero: `subdivisions 0 iso_code`. `mmdblookup --file FILE --ip ADDRESS` shows what a database says
//! of an address. `default=TEXT` is the value if the database has none. `source=$VARIABLE` looks up the address in that
//! variable, in place of the client's. The line `$VARIABLE metadata build_epoch` gives the time when the database was
//! built, in seconds since 1970; `last_check` and `last_change` give the times when Fulmar last looked at the file and
//! last read it.
//!
//! With `auto_reload 5m`, Fulmar looks at the file each five minutes, and reads it if it has changed. If the new file
//! cannot be read, the log has an error, and the old state stays in use. A reload of the configuration also reads
//! a file that has changed. The user of the worker process must be able to read the file. All threads share one copy in
//! memory.
//!
//! `geoip2_proxy` lists networks of trusted proxies. For a request from one of them, the last address of
//! `X-Forwarded-For` is used; with `geoip2_proxy_recursive on`, the last address that is not a trusted proxy's.
//!
//! The directives are those of the module geoip2, which nginx loads with `load_module`. Fulmar does not need that line.
//!
//! Such a database is, for example, `/usr/share/GeoIP/GeoLite2-Country.mmdb`. In this one, the networks have these
//! countries:
//!
//! ```countries world.mmdb
//! 127.0.0.0/8 LO
//! 192.0.2.0/24 AQ
//! ```
//!
//! ```conf
//! geoip2 world.mmdb {
//!     auto_reload 1h;
//!     $country default=none country iso_code;
//!     $other   source=$arg_ip country iso_code;
//! }
//! map $other $is_closed {
//!     default 0;
//!     AQ      1;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         if ($is_closed) {
//!             return 403;
//!         }
//!         return 200 "you are in $country";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! you are in LO
//! ---
//! GET /?ip=192.0.2.7 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```
//!
//! nginx: ngx_http_geoip2_module

mod database;

use super::geo::network;
use crate::shared::forwarded::{Proxies, address_of};
use crate::shared::names;
use conf::spec::unexpected_block;
use conf::value;
use conf::{Arity, Contexts, Diagnostic, Node, Word};
use contract::{
    Args, Definition, Directive, Evaluate, Exchange, Identity, Loading, Module, Rule, ScopeBuilder, Service,
    Template, Threads, View,
};
use database::{Database, Metadata, Step};
use ipnet::IpNet;
use journal::{ErrorLog, Level};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::{Job, Timer};

/// Variables from databases about addresses.
pub static MODULE: Module = Module {
    name: "geoip2",
    directives: &[&GEOIP2, &GEOIP2_PROXY, &GEOIP2_PROXY_RECURSIVE],
    variables: &[],
    compile: Some(compile),
};

/// `geoip2 FILE { … }`
pub static GEOIP2: Directive<Used> = Directive::new("geoip2", parse)
    .within(Contexts::HTTP)
    .block(Arity::Exactly(1))
    .rule(Rule::List)
    .repeats()
    .help("Defines variables from a database about addresses.");

/// `geoip2_proxy ADDRESS | NETWORK`
pub static GEOIP2_PROXY: Directive<IpNet> = Directive::new("geoip2_proxy", parse_proxy)
    .within(Contexts::HTTP)
    .rule(Rule::List)
    .repeats()
    .help("A proxy that is trusted to name its client in `X-Forwarded-For`.");

/// `geoip2_proxy_recursive on | off`
pub static GEOIP2_PROXY_RECURSIVE: Directive<bool> = Directive::flag("geoip2_proxy_recursive")
    .within(Contexts::HTTP)
    .default("off")
    .help("Whether the last address that is not a trusted proxy's is used.");

/// A database that a configuration uses.
pub struct Used {
    database: Arc<Database>,
    /// How often the file is looked at.
    reload: Option<Duration>,
    /// The service that does so, in all servers.
    renewal: OnceLock<Arc<Renewal>>,
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Used, Diagnostic> {
    let word = args.word(0)?;
    let path = loading.path(&word.text);
    let failed = |reason: String| {
        let message = format!("MMDB_open(\"{word}\") failed - {reason}");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    let identity = Identity::default().bytes(path.as_os_str().as_bytes());
    let origin = Arc::clone(&loading.origin);
    let database = origin.share(identity, || Database::open(&path)).map_err(failed)?;
    database.refresh().map_err(failed)?;
    let mut reload = None;
    for entry in args.node.children() {
        if entry.block.is_some() {
            return Err(unexpected_block(entry));
        }
        match &*entry.args {
            [word] if entry.name.is("auto_reload") => {
                let seconds = value::time_s(word).map_err(|error| error.at(entry, word))?;
                reload = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            _ => define(args, entry, &database, loading)?,
        }
    }
    Ok(Used { database, reload, renewal: OnceLock::new() })
}

/// Defines the variable of a line.
fn define(
    args: &Args<'_>,
    entry: &Node,
    database: &Arc<Database>,
    loading: &mut Loading,
) -> Result<(), Diagnostic> {
    let word = &entry.name;
    if !word.text.starts_with(b"$") {
        let message = format!("invalid setting \"{word}\"");
        let hint = "a line is \"$variable path …\", or \"auto_reload 5m\"";
        return Err(Diagnostic::emerg(message).at(entry.span).under(word.span).hint(hint));
    }
    let name = names::variable(args, word, loading)?;
    let what = match &*entry.args {
        [first, rest @ ..] if first.is("metadata") => What::Metadata(metadata(entry, rest)?),
        words => value_at(entry, words, loading)?,
    };
    let looked_up = LookedUp { database: Arc::clone(database), what };
    loading.variables.define(&name, Definition::Evaluated(Arc::new(looked_up)));
    Ok(())
}

fn metadata(entry: &Node, words: &[Word]) -> Result<Metadata, Diagnostic> {
    let known = if let [word] = words { Metadata::of(&word.text) } else { None };
    known.ok_or_else(|| {
        let error = Diagnostic::emerg("invalid metadata".to_owned()).at(entry.span).under(entry.name.span);
        error.hint("write \"metadata build_epoch\", \"last_check\" or \"last_change\"")
    })
}

/// `[default=TEXT] [source=$VARIABLE] STEP …`
fn value_at(entry: &Node, mut words: &[Word], loading: &mut Loading) -> Result<What, Diagnostic> {
    let (mut default, mut source) = (None, None);
    while let [word, rest @ ..] = words {
        if let Some(text) = word.text.strip_prefix(b"default=") {
            default = Some(text.to_vec()).filter(|text| !text.is_empty());
        } else if let Some(text) = word.text.strip_prefix(b"source=") {
            if !text.starts_with(b"$") {
                let message = format!("invalid variable name \"{}\"", String::from_utf8_lossy(text));
                return Err(Diagnostic::emerg(message).at(entry.span).under(word.span));
            }
            source = Some(loading.template(&Word { text: text.into(), ..word.clone() })?);
        } else {
            break;
        }
        words = rest;
    }
    if words.is_empty() {
        let error = Diagnostic::emerg(format!("no path of a value for \"{}\"", entry.name)).at(entry.span);
        return Err(error.hint("name the steps to the value, such as \"country iso_code\""));
    }
    let steps: Result<_, Diagnostic> = words.iter().map(Step::of).collect();
    Ok(What::Value { source, steps: steps.map_err(|error| error.at(entry.span))?, default })
}

fn parse_proxy(args: &Args<'_>, loading: &mut Loading) -> Result<IpNet, Diagnostic> {
    network(args.node, args.word(0)?, loading)
}

/// The proxies that `geoip2_proxy` lists.
struct Listed(Proxies);

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.is_anywhere(&GEOIP2) {
        return Ok(());
    }
    let proxies = view.all(&GEOIP2_PROXY);
    if !proxies.is_empty() {
        let recursive = view.get(&GEOIP2_PROXY_RECURSIVE).copied().unwrap_or(false);
        builder.keep(Listed(Proxies::new(proxies.iter().map(|proxy| *proxy.value), recursive)));
    }
    for used in view.all(&GEOIP2) {
        let Used { database, reload, renewal } = used.value;
        if let Some(every) = *reload {
            let log = || builder.policy.error_log.clone();
            let renewal = renewal
                .get_or_init(|| Arc::new(Renewal { database: Arc::clone(database), every, log: log() }));
            builder.serve(Threads::One, Arc::clone(renewal) as _);
        }
    }
    Ok(())
}

/// Reads a database again when its file has changed.
struct Renewal {
    database: Arc<Database>,
    every: Duration,
    log: ErrorLog,
}

impl Service for Renewal {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let Ok(timer) = Timer::here() else { return };
            loop {
                timer.set(self.every);
                poll_fn(|cx| timer.poll(cx)).await;
                let database = Arc::clone(&self.database);
                let path = database.path().display().to_string();
                match Job::start(move || Ok(database.refresh())).await {
                    Ok(Ok(false)) => {}
                    Ok(Ok(true)) => self.log.write(Level::Info, &format!("reload MMDB \"{path}\"")),
                    Ok(Err(reason)) => {
                        let message = format!("MMDB_open(\"{path}\") failed to reload - {reason}");
                        self.log.write(Level::Error, &message);
                    }
                    Err(error) => self.log.write(Level::Error, &error.to_string()),
                }
            }
        })
    }
}

/// A variable.
struct LookedUp {
    database: Arc<Database>,
    what: What,
}

enum What {
    Metadata(Metadata),
    /// The value at the end of these steps, for the address in the source.
    Value {
        source: Option<Template>,
        steps: Vec<Step>,
        default: Option<Vec<u8>>,
    },
}

impl Evaluate for LookedUp {
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        match &self.what {
            What::Metadata(what) => {
                out.extend_from_slice(self.database.metadata(*what).to_string().as_bytes());
                true
            }
            What::Value { source, steps, default } => {
                let address = match source {
                    Some(source) => address_in(&source.evaluate(exchange)),
                    None => address_of_client(exchange),
                };
                if address.is_some_and(|address| self.database.write(address, steps, out)) {
                    return true;
                }
                out.extend(default.iter().flatten());
                default.is_some()
            }
        }
    }
}

fn address_in(text: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

fn address_of_client(exchange: &Exchange) -> Option<IpAddr> {
    let peer = &exchange.connection.peer;
    match exchange.scope.kept() {
        Some(Listed(proxies)) => proxies.address(exchange, peer),
        None => address_of(peer),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn files_that_are_no_databases() {
        let error = |block: &str| Site::error(&format!("geoip2 /dev/null {{ {block} }}"));
        assert!(error("").starts_with("MMDB_open(\"/dev/null\") failed - "), "{}", error(""));
        let missing = Site::error("geoip2 /nowhere/a.mmdb { $x country iso_code; }");
        assert!(missing.contains("No such file"), "{missing}");
    }
}
