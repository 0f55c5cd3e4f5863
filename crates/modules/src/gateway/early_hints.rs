//! Forwards interim responses such as 103 (Early Hints), which an upstream server sends before its response.
//!
//! `early_hints A B …` passes the hints on if at least one argument is neither empty nor `0` when they arrive. Without
//! `early_hints` clients get no hints, and clients with HTTP/1.0 never get any. The headers of hints are treated as
//! those of a response: `proxy_hide_header` applies to them, and headers of the connection to the upstream server are
//! left out. All hints of a response together are limited to `proxy_buffer_size`; hints beyond that are dropped.
//!
//! Other interim responses, such as 102 (Processing) of a WebDAV server, are forwarded in the same way. nginx takes them for the response. 100 and 101 are
//! never forwarded like this.
//!
//! Some clients cannot handle a 103. Browsers can, and send `Sec-Fetch-Mode: navigate` when they load a page. So this
//! configuration sends hints to browsers only:
//!
//! ```conf
//! map $http_sec_fetch_mode $hints {
//!     navigate 1;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         early_hints $hints;
//!         proxy_pass http://127.0.0.1:8081;
//!     }
//! }
//! ```
//!
//! ```answer 127.0.0.1:8081
//! HTTP/1.1 103 Early Hints
//! Link: </style.css>; rel=preload; as=style
//!
//! HTTP/1.1 200 OK
//! Content-Length: 4
//!
//! page
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//! Sec-Fetch-Mode: navigate
//!
//! HTTP/1.1 103 Early Hints
//! Link: </style.css>; rel=preload; as=style
//!
//! HTTP/1.1 200 OK
//!
//! page
//! ```

use conf::{Arity, Contexts, Diagnostic};
use contract::{Directive, Module, Rule, ScopeBuilder, Template, View};

/// Whether early hints of upstream servers are passed on.
pub static MODULE: Module =
    Module { name: "early_hints", directives: &[&EARLY_HINTS], variables: &[], compile: Some(compile) };

/// `early_hints TEXT ...`
pub static EARLY_HINTS: Directive<Vec<Template>> = Directive::new("early_hints", |args, loading| {
    args.words().iter().map(|word| loading.template(word)).collect()
})
.args(Arity::AtLeast(1))
.within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
.rule(Rule::List)
.help("Passes early hints on if an argument is neither empty nor `0`.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&EARLY_HINTS);
    builder.policy.sending.early_hints = written.iter().flat_map(|written| written.value).cloned().collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn the_nearest_level_counts_with_all_its_lines() {
        let count = |text| Site::location(text).get("/").scope.policy.sending.early_hints.len();
        assert_eq!(count("early_hints 0; early_hints $arg_a $arg_b;"), 3);
        assert_eq!(count(""), 0);
    }
}
