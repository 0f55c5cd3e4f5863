//! Sets how long connections stay open between requests.
//!
//! An idle connection is closed after `keepalive_timeout`. A connection ends after `keepalive_requests` requests,
//! and after `keepalive_time`. A second argument of `keepalive_timeout` is sent to the client in a `Keep-Alive`
//! header.
//!
//! When the server stops, or a reload ends a connection, an idle connection stays open until
//! `keepalive_min_timeout` after its last response; without that directive, for one more second. The reason: a
//! request may be on its way.
//!
//! `keepalive_disable` lists browsers whose connections are not kept: `msie6` (after POST requests), `safari`, or
//! `none`.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     keepalive_timeout 75s 20s;
//!     location / {
//!         return 204;
//!     }
//!     location /close {
//!         keepalive_timeout 0;
//!         return 204;
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 204 No Content
//! Connection: keep-alive
//! Keep-Alive: timeout=20
//! ---
//! GET /close HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 204 No Content
//! Connection: close
//! ```

use conf::{Arity, Contexts, Diagnostic, value};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use std::time::Duration;

/// How long connections stay open between requests.
pub static MODULE: Module = Module {
    name: "keepalive",
    directives: &[
        &KEEPALIVE_TIMEOUT,
        &KEEPALIVE_REQUESTS,
        &KEEPALIVE_TIME,
        &KEEPALIVE_MIN_TIMEOUT,
        &KEEPALIVE_DISABLE,
    ],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `keepalive_timeout TIME [ANNOUNCED]`
pub static KEEPALIVE_TIMEOUT: Directive<Timeout> = Directive::new("keepalive_timeout", parse_timeout)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .default("75s")
    .help("How long an idle connection stays open, and what is announced in `Keep-Alive`.");

/// `keepalive_requests NUMBER`
pub static KEEPALIVE_REQUESTS: Directive<u64> = Directive::number("keepalive_requests")
    .within(LEVELS)
    .default("1000")
    .help("After how many requests a connection is closed.");

/// `keepalive_time TIME`
pub static KEEPALIVE_TIME: Directive<Duration> = Directive::time("keepalive_time")
    .within(LEVELS)
    .default("1h")
    .help("After how long a connection is closed with its next response.");

/// `keepalive_min_timeout TIME`
pub static KEEPALIVE_MIN_TIMEOUT: Directive<Duration> = Directive::time("keepalive_min_timeout")
    .within(LEVELS)
    .default("0")
    .help("How long an idle connection stays open while the server stops.");

/// `keepalive_disable none | BROWSER …`
pub static KEEPALIVE_DISABLE: Directive<u32> = Directive::new("keepalive_disable", parse_disable)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .rule(Rule::List)
    .default("msie6")
    .help("The browsers whose connections are closed after a response.");

/// A time, and what is announced of it, in seconds.
#[derive(Clone)]
pub struct Timeout {
    kept: Duration,
    announced: Option<u64>,
}

const MSIE6: u32 = 1;
const SAFARI: u32 = 2;
const NONE: u32 = 4;

fn parse_timeout(args: &Args<'_>, _: &mut Loading) -> Result<Timeout, Diagnostic> {
    let kept = Duration::from_millis(args.value(0, value::time_ms)?);
    let announced = match args.words() {
        [_, _] => Some(args.value(1, value::time_s)?),
        _ => None,
    };
    Ok(Timeout { kept, announced })
}

fn parse_disable(args: &Args<'_>, loading: &mut Loading) -> Result<u32, Diagnostic> {
    let table = [("none", NONE), ("msie6", MSIE6), ("safari", SAFARI)];
    let duplicate = |word: &conf::Word| {
        let message = format!("duplicate value \"{word}\"");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
    };
    value::bitmask(args.words(), &table, duplicate).map_err(|(error, word)| error.at(args.node, word))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.keepalive;
    if let Some(timeout) = view.get(&KEEPALIVE_TIMEOUT) {
        policy.timeout = timeout.kept;
        // nginx inherits the two times separately.
        let announced = view.nearest(&KEEPALIVE_TIMEOUT, |timeout| timeout.announced);
        policy.announced = announced.filter(|&seconds| seconds > 0);
    }
    view.assign(&KEEPALIVE_REQUESTS, &mut policy.requests);
    view.assign(&KEEPALIVE_TIME, &mut policy.time);
    view.assign(&KEEPALIVE_MIN_TIMEOUT, &mut policy.min_timeout);
    let disabled = view.all(&KEEPALIVE_DISABLE);
    if !disabled.is_empty() {
        let browsers = disabled.iter().fold(0, |all, written| all | written.value);
        policy.disable_msie6 = browsers & MSIE6 != 0;
        policy.disable_safari = browsers & SAFARI != 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::policy::KeepalivePolicy;
    use std::time::Duration;

    fn policy(text: &str) -> KeepalivePolicy {
        Site::location(text).get("/").scope.policy.keepalive.clone()
    }

    #[test]
    fn a_second_value_is_announced() {
        let of = |text| (policy(text).timeout, policy(text).announced);
        assert_eq!(of("keepalive_timeout 10 1m;"), (Duration::from_secs(10), Some(60)));
        assert_eq!(of("keepalive_timeout 10 0;"), (Duration::from_secs(10), None));
        assert_eq!(of(""), (Duration::from_secs(75), None));
        assert_eq!(Site::error("keepalive_timeout 10 x;"), "\"keepalive_timeout\" directive invalid value");
    }

    #[test]
    fn naming_one_browser_takes_the_default_away() {
        let of = |text| (policy(text).disable_msie6, policy(text).disable_safari);
        assert_eq!(of(""), (true, false));
        assert_eq!(of("keepalive_disable safari;"), (false, true));
        assert_eq!(of("keepalive_disable none;"), (false, false));
        assert_eq!(of("keepalive_disable msie6; keepalive_disable safari;"), (true, true));
    }
}
