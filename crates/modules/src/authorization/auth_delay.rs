//! Delays responses with status 401.
//!
//! A request that the access phase rejects with 401 gets its response after this time, which slows down guessing of
//! passwords. Other requests are not delayed.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     auth_delay 10ms;
//!     location / {
//!         auth_request /never;
//!     }
//!     location = /never {
//!         return 401;
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 401 Unauthorized
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};
use std::time::Duration;

/// Slow refusals.
pub static MODULE: Module =
    Module { name: "auth_delay", directives: &[&AUTH_DELAY], variables: &[], compile: Some(compile) };

/// `auth_delay TIME`
pub static AUTH_DELAY: Directive<Duration> = Directive::time("auth_delay")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("0s")
    .help("How long a response with status 401 is delayed.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    view.assign(&AUTH_DELAY, &mut builder.policy.auth_delay);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use std::time::Duration;

    #[test]
    fn the_time_is_kept() {
        assert_eq!(Site::location("auth_delay 2s;").get("/").scope.policy.auth_delay, Duration::from_secs(2));
        assert!(Site::location("").get("/").scope.policy.auth_delay.is_zero());
    }
}
