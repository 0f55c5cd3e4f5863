//! What the server says of itself.
//!
//! The `Server` field and the pages that the server writes itself have its name and version, with
//! `server_tokens off` the name alone, and with `build` the name of the build behind the version.
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
use contract::policy::ServerTokens;
use contract::{Directive, Module, ScopeBuilder, View};

/// What the server says of itself.
pub static MODULE: Module =
    Module { name: "server_tokens", directives: &[&SERVER_TOKENS], variables: &[], compile: Some(compile) };

/// `server_tokens on | off | build`
pub static SERVER_TOKENS: Directive<ServerTokens> = Directive::new("server_tokens", |args, _| {
    let choice = args.value(0, |word| value::choice(word, &[("off", 0), ("on", 1), ("build", 2)]))?;
    Ok([ServerTokens::Off, ServerTokens::On, ServerTokens::Build][choice].clone())
})
.within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
.default("on")
.help("Whether the server tells its version.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    view.assign(&SERVER_TOKENS, &mut builder.policy.server_tokens);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::policy::ServerTokens;

    #[test]
    fn three_answers() {
        let of = |text| Site::location(text).get("/").scope.policy.server_tokens.clone();
        assert!(matches!(of("server_tokens OFF;"), ServerTokens::Off));
        assert!(matches!(of("server_tokens build;"), ServerTokens::Build));
        assert!(matches!(of(""), ServerTokens::On));
    }
}
