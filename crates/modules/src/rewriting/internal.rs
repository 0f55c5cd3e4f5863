//! Allows a location for internal requests only.
//!
//! A client's request for such a location gets 404. Internal redirects (`error_page`, `index`, `try_files`,
//! `rewrite`) and subrequests are allowed.
//!
//! ```file html/error.txt
//! sorry
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     error_page 404 /error.txt;
//!     location = /error.txt {
//!         internal;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//!
//! sorry
//! ```

use conf::{Arity, Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};

/// Locations for internal redirects only.
pub static MODULE: Module =
    Module { name: "internal", directives: &[&INTERNAL], variables: &[], compile: Some(compile) };

/// `internal`
pub static INTERNAL: Directive<()> = Directive::new("internal", |_, _| Ok(()))
    .within(Contexts::LOCATION)
    .args(Arity::None)
    .help("Allows internal redirects and subrequests only; other requests get 404.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.internal = view.get(&INTERNAL).is_some();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn only_where_it_is_written() {
        assert!(Site::location("internal;").get("/").scope.policy.internal);
        assert!(!Site::location("").get("/").scope.policy.internal);
    }
}
