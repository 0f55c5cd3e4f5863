//! Limits the speed of a response: `limit_rate` and `limit_rate_after`.
//!
//! The first `limit_rate_after` bytes are sent at full speed, the rest at `limit_rate` bytes per second. The limit
//! is per response: a client with two connections gets twice as much (`limit_conn` can prevent this). Zero means no
//! limit. Both arguments may contain variables, such as one of a `map`; a value that is not a size means zero.
//!
//! `$limit_rate` is the limit of the current response. `set $limit_rate 4k` overrides the directive. An upstream
//! can set it with the header `X-Accel-Limit-Rate`.
//!
//! ```file html/video.txt
//! content
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /video.txt {
//!         limit_rate 100k;
//!         limit_rate_after 1m;
//!     }
//!     location /set {
//!         set $limit_rate 4k;
//!         return 200 "$limit_rate\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /video.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 8
//!
//! content
//! ---
//! GET /set HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! 4096
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Amount, Directive, Exchange, Module, ScopeBuilder, Variable, View};

/// How fast a response is sent.
pub static MODULE: Module = Module {
    name: "limit_rate",
    directives: &[&LIMIT_RATE, &LIMIT_RATE_AFTER],
    variables: &[Variable::new("limit_rate", limit_rate)],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF);

/// `limit_rate SIZE`
pub static LIMIT_RATE: Directive<Amount> = Directive::amount("limit_rate")
    .within(LEVELS)
    .default("0")
    .help("The speed of a response in bytes per second; 0 means no limit.");

/// `limit_rate_after SIZE`
pub static LIMIT_RATE_AFTER: Directive<Amount> = Directive::amount("limit_rate_after")
    .within(LEVELS)
    .default("0")
    .help("How many bytes are sent at full speed first.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.sending;
    policy.limit_rate = view.get(&LIMIT_RATE).filter(|rate| !matches!(rate, Amount::Fixed(0))).cloned();
    policy.limit_rate_after = view.get(&LIMIT_RATE_AFTER).cloned();
    Ok(())
}

/// The limit that was set, or, when the response is on its way, that of the directive.
fn limit_rate(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let rate = exchange.wire.limit_rate.unwrap_or(0);
    out.extend_from_slice(rate.to_string().as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::Phase;

    /// The limit and what goes before it, for a request.
    fn limits(text: &str, target: &str) -> (Option<u64>, Option<u64>) {
        let site = Site::location(text);
        let exchange = site.get(target);
        let policy = &exchange.scope.policy.sending;
        let of = |amount: &Option<contract::Amount>| amount.as_ref().map(|amount| amount.evaluate(&exchange));
        (of(&policy.limit_rate), of(&policy.limit_rate_after))
    }

    #[test]
    fn fixed_or_computed() {
        assert_eq!(limits("limit_rate 2k; limit_rate_after 1m;", "/"), (Some(2048), Some(1 << 20)));
        assert_eq!(limits("limit_rate $arg_r; limit_rate_after $arg_a;", "/?r=5k"), (Some(5120), Some(0)));
        assert_eq!(limits("limit_rate $arg_r;", "/?r=fast"), (Some(0), None));
        assert_eq!(limits("limit_rate 0;", "/"), (None, None));
        assert_eq!(Site::error("limit_rate fast;"), "\"limit_rate\" directive invalid value");
        assert_eq!(Site::error("limit_rate_after 1g;"), "\"limit_rate_after\" directive invalid value");
    }

    #[test]
    fn the_variable_can_be_set_to_a_size() {
        let set = |text: &str| {
            let site = Site::location(&format!("set $limit_rate {text}; set $x $limit_rate;"));
            let mut exchange = site.get("/");
            site.run(Phase::Rewrite, &mut exchange);
            (exchange.wire.limit_rate, site.variable("x", &exchange))
        };
        assert_eq!(set("40k"), (Some(40_960), "40960".to_owned()));
        assert_eq!(set("0"), (Some(0), "0".to_owned()));
        assert_eq!(set("$arg_none"), (None, "0".to_owned()));
    }
}
