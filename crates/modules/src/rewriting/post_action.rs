//! What follows when a response was sent, or its client has left.
//!
//! The request goes through one more location: a path of this server, as by an internal redirect, or a named location.
//! What that answers goes nowhere. So another server can be told how a download ended, by `$body_bytes_sent` and
//! `$request_completion`. The request is logged once, when all is over, with the status of what followed. A location that
//! is gone through in this way has no follower itself.
//!
//! ```file html/large.txt
//! content
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /large.txt {
//!         post_action @count;
//!     }
//!     location @count {
//!         return 204;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /large.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 8
//!
//! content
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};

/// What follows a response.
pub static MODULE: Module =
    Module { name: "post_action", directives: &[&POST_ACTION], variables: &[], compile: Some(compile) };

/// `post_action PATH | @NAME`
pub static POST_ACTION: Directive<Box<[u8]>> =
    Directive::new("post_action", |args, _| Ok(args.word(0)?.text.clone()))
        .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF))
        .help("The location that a request goes through when its response was sent.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.post_action = view.get(&POST_ACTION).cloned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn it_reaches_the_policy() {
        let of = |text| Site::location(text).get("/").scope.policy.post_action.clone();
        assert_eq!(of("post_action @a;").as_deref(), Some(&b"@a"[..]));
        assert_eq!(of(""), None);
    }
}
