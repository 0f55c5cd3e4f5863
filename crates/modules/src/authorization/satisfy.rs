//! Chooses whether a request must pass all access checks or one of them.
//!
//! The checks are addresses (`allow`, `deny`), passwords (`auth_basic`) and subrequests (`auth_request`). With
//! `all`, a request must pass each of them. With `any`, one check that allows the request is enough.
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     satisfy any;
//!     allow 127.0.0.0/8;
//!     deny all;
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ```

use conf::value::choice;
use conf::{Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};

/// How access rules go together.
pub static MODULE: Module =
    Module { name: "satisfy", directives: &[&SATISFY], variables: &[], compile: Some(compile) };

/// `satisfy all | any`
pub static SATISFY: Directive<bool> =
    Directive::new("satisfy", |args, _| args.value(0, |word| choice(word, &[("all", false), ("any", true)])))
        .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
        .default("all")
        .help("Whether all access rules have to grant access, or any one of them.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.satisfy_any = view.get(&SATISFY).copied().unwrap_or(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn any_or_all() {
        assert!(Site::location("satisfy any;").get("/").scope.policy.satisfy_any);
        assert!(!Site::location("satisfy all;").get("/").scope.policy.satisfy_any);
        assert_eq!(Site::error("satisfy some;"), "invalid value \"some\"");
    }
}
