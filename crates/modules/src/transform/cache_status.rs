//! Tells clients what the cache did for a response (`Cache-Status`, RFC 9211).
//!
//! The argument is the name of this cache in the header; `off` adds none. `hit` means that the response came from the
//! cache; `ttl` is for how many seconds it stays valid, negative if it has expired. `fwd` says why the upstream
//! server was asked: no response is cached for the key (`uri-miss`) or for the request's headers (`vary-miss`), the cached
//! response has expired (`stale`), the request refuses it (`request`, with `proxy_cache_rules rfc9111`), or
//! `proxy_cache_bypass` applies (`bypass`). `fwd-status` is the status of its response. `stored` means
//! that the response is now in the cache. `collapsed` means that another request was already fetching the response.
//! If the response came through another cache, the header of that cache comes before this one.
//! `$upstream_cache_status` has nginx's word for the same. The example's second response has
//! `Cache-Status: Fulmar; hit; ttl=600`; the `*` stands for it, because `ttl` counts down.
//!
//! nginx: none
//!
//! ```conf
//! proxy_cache_path cache keys_zone=pages:1m;
//! server {
//!     listen 8080;
//!     location / {
//!         proxy_pass http://127.0.0.1:8081;
//!         proxy_cache pages;
//!         proxy_cache_valid 10m;
//!         cache_status Fulmar;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     return 200 page;
//! }
//! ```
//!
//! ```http
//! GET /page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Cache-Status: Fulmar; fwd=uri-miss; fwd-status=200; stored
//! ---
//! GET /page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Cache-Status: *
//! ```

use crate::shared::cached::Cached;
use conf::{Contexts, Diagnostic};
use contract::{Args, Body, Directive, Exchange, Filter, Loading, Module, ScopeBuilder, View};

/// What the cache did.
pub static MODULE: Module =
    Module { name: "cache_status", directives: &[&CACHE_STATUS], variables: &[], compile: Some(compile) };

/// `cache_status NAME | off`
pub static CACHE_STATUS: Directive<Option<Box<[u8]>>> = Directive::new("cache_status", parse)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("off")
    .help("The name of this cache in the field `Cache-Status` of responses; `off` adds none.");

fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Option<Box<[u8]>>, Diagnostic> {
    let name = &args.word(0)?.text;
    // A token of RFC 9651, section 3.3.4.
    let is_token = name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte));
    match &**name {
        b"off" => Ok(None),
        _ if is_token => Ok(Some(name.clone())),
        _ => Err(args.error("the name of a cache begins with a letter and has no spaces or quotes")),
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(Some(name)) = view.get(&CACHE_STATUS) {
        builder.filter(Tells(name.clone()));
    }
    Ok(())
}

/// Adds the field.
struct Tells(Box<[u8]>);

impl Filter for Tells {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let mut text = self.0.to_vec();
        if Cached::of(exchange).is_some_and(|cached| cached.write_status(&mut text)) {
            // The name has no character that a field must not have.
            let _ = exchange.response.fields.push(b"Cache-Status", &text);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn a_name_is_a_token() {
        assert!(Site::error("cache_status \"a b\";").contains("begins with a letter"));
        assert!(Site::error("cache_status 1;").contains("begins with a letter"));
        Site::location("cache_status a.example:80/b;");
    }
}
