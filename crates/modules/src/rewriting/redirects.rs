//! Sets the form of the redirects that the server itself sends.
//!
//! A target that starts with a slash becomes an absolute URL, unless `absolute_redirect` is off. Its host is the
//! host of the request; with `server_name_in_redirect`, it is the first `server_name`. The port is left out with
//! `port_in_redirect off`, and if it is the default port of the scheme.
//!
//! With `msie_refresh on`, old versions of Internet Explorer (`MSIE`) get a page with status 200 that leads to the
//! target instead of a redirect. `msie_padding` is accepted and has no effect: the browsers that needed it are
//! gone.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     server_name example.com;
//!     port_in_redirect off;
//!     location /asked {
//!         return 301 /there;
//!     }
//!     location /named {
//!         server_name_in_redirect on;
//!         return 301 /there;
//!     }
//!     location /relative {
//!         absolute_redirect off;
//!         return 301 /there;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /asked HTTP/1.1
//! Host: www.example.net
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: http://www.example.net/there
//! ---
//! GET /named HTTP/1.1
//! Host: www.example.net
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: http://example.com/there
//! ---
//! GET /relative HTTP/1.1
//! Host: www.example.net
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: /there
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};

/// How the server writes the target of its own redirections.
pub static MODULE: Module = Module {
    name: "redirects",
    directives: &[
        &ABSOLUTE_REDIRECT,
        &SERVER_NAME_IN_REDIRECT,
        &PORT_IN_REDIRECT,
        &MSIE_REFRESH,
        &MSIE_PADDING,
    ],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `absolute_redirect on | off`
pub static ABSOLUTE_REDIRECT: Directive<bool> = Directive::flag("absolute_redirect")
    .within(LEVELS)
    .default("on")
    .help("Whether the target of a redirect becomes an absolute URL.");

/// `server_name_in_redirect on | off`
pub static SERVER_NAME_IN_REDIRECT: Directive<bool> = Directive::flag("server_name_in_redirect")
    .within(LEVELS)
    .default("off")
    .help("Whether the host of a redirect is the first `server_name`.");

/// `port_in_redirect on | off`
pub static PORT_IN_REDIRECT: Directive<bool> = Directive::flag("port_in_redirect")
    .within(LEVELS)
    .default("on")
    .help("Whether a redirect contains the port of the connection.");

/// `msie_refresh on | off`
pub static MSIE_REFRESH: Directive<bool> = Directive::flag("msie_refresh")
    .within(LEVELS)
    .default("off")
    .help("Whether Internet Explorer gets a page that leads to the target.");

/// `msie_padding on | off`
pub static MSIE_PADDING: Directive<bool> = Directive::flag("msie_padding")
    .within(LEVELS)
    .default("on")
    .help("Accepted and not needed: browsers that hid short error pages are gone.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.redirects;
    view.assign(&ABSOLUTE_REDIRECT, &mut policy.absolute_redirect);
    view.assign(&SERVER_NAME_IN_REDIRECT, &mut policy.server_name_in_redirect);
    view.assign(&PORT_IN_REDIRECT, &mut policy.port_in_redirect);
    view.assign(&MSIE_REFRESH, &mut policy.msie_refresh);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn settings_reach_the_policy() {
        let site = Site::location(
            "absolute_redirect off; server_name_in_redirect on; port_in_redirect off; msie_refresh on;",
        );
        let policy = &site.get("/").scope.policy.redirects;
        assert!(policy.msie_refresh);
        assert!(!policy.absolute_redirect && policy.server_name_in_redirect && !policy.port_in_redirect);
    }
}
