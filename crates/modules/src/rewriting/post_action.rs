//! Runs another location after a response was sent, or after its client disconnected.
//!
//! The argument is a path of this server or a named location. The response of that location is discarded. A typical
//! use is to tell another server how a download ended, with `$body_bytes_sent` and `$request_completion`. The
//! request is logged once, after the action, with the status of the action. The action's own location cannot have
//! another action.
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
        .help("The location that runs after the response was sent.");

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
