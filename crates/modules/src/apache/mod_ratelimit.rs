//! Limits how fast responses are sent, as `.htaccess` files say: the output filter `RATE_LIMIT`.
//!
//! The variable `rate-limit` of the environment is the number of KiB per second. `limit_rate` of the server's
//! configuration applies, too: the lower one is the limit. `rate-initial-burst` has no effect.
//!
//! nginx: none
//!
//! ```file html/film.bin
//! film
//! ```
//!
//! ```file html/.htaccess
//! SetOutputFilter RATE_LIMIT
//! SetEnv rate-limit 400
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /film.bin HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! film
//! ```

use crate::apache::mod_filter::{Output, OutputFilter, filtered};
use crate::shared::apache::environment;
use conf::Diagnostic;
use contract::{Body, Exchange, Filter, Module, ScopeBuilder, View};

/// How fast responses are sent.
pub static MODULE: Module =
    Module { name: "mod_ratelimit", directives: &[], variables: &[], compile: Some(compile) };

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let filters = filtered(view, Output::RateLimit);
    if !filters.is_empty() {
        builder.filter(RateLimit { filters });
    }
    Ok(())
}

struct RateLimit {
    filters: Vec<OutputFilter>,
}

impl Filter for RateLimit {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.filters.iter().any(|filter| filter.applies(exchange)) {
            return body;
        }
        let Some(rate) = rate(exchange) else { return body };
        let known = exchange.scope.policy.sending.limit_rate.as_ref().map(|amount| amount.evaluate(exchange));
        let known = exchange.wire.limit_rate.or(known).filter(|known| *known > 0);
        exchange.wire.limit_rate = Some(known.map_or(rate, |known| known.min(rate)));
        body
    }
}

/// Bytes per second; none if the environment has no number.
fn rate(exchange: &Exchange) -> Option<u64> {
    let value = environment::get(exchange, b"rate-limit")?;
    let kib: u64 = std::str::from_utf8(&value).ok()?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|rate| *rate > 0)
}
