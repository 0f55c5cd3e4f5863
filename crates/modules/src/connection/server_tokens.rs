//! Sets whether responses show the version of the server.
//!
//! The `Server` header and the server's own error pages contain its name and version. With `server_tokens off` they
//! contain the name only. `build` is the same as `on`, because builds of Fulmar have no names.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     server_tokens off;
//!     location / {
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
//! Server: *
//! ```

use conf::{Contexts, Diagnostic, value};
use contract::{Directive, Module, ScopeBuilder, View};

/// What the server says of itself.
pub static MODULE: Module =
    Module { name: "server_tokens", directives: &[&SERVER_TOKENS], variables: &[], compile: Some(compile) };

/// `server_tokens on | off | build`
pub static SERVER_TOKENS: Directive<bool> = Directive::new("server_tokens", |args, _| {
    args.value(0, |word| value::choice(word, &[("off", false), ("on", true), ("build", true)]))
})
.within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
.default("on")
.help("Whether responses show the server's version.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    view.assign(&SERVER_TOKENS, &mut builder.policy.server_tokens);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn three_answers() {
        let of = |text| Site::location(text).get("/").scope.policy.server_tokens;
        assert!(!of("server_tokens OFF;") && of("server_tokens build;") && of(""));
    }
}
