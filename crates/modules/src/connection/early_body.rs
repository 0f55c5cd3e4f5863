//! Reads request bodies before rewrite rules, access rules and locations: `client_body_early_read`.
//!
//! If at least one argument of `client_body_early_read` is neither empty nor `0`, Fulmar reads the whole body before
//! it looks at rewrite rules, access rules and locations. `1` means always; a variable of a `map` decides for each
//! request. So `$request_length` is complete in `if` and `map`, and so is `$request_body`, unless the body is longer
//! than `client_body_buffer_size`: then it is in a file, and `$request_body` is empty. A rule that must see every body
//! needs a `client_max_body_size` of that size, as below. A client whose body exceeds the server's
//! `client_max_body_size` gets 413 before any rule runs. The limits and `client_body_…` settings of the server apply,
//! because no location is chosen yet: a larger `client_max_body_size` in a location has no effect.
//! `proxy_request_buffering off` has no effect for such a request.
//!
//! nginx: none
//!
//! ```conf
//! server {
//!     listen 8080;
//!     client_body_early_read 1;
//!     client_body_buffer_size 16k;
//!     client_max_body_size 16k;
//!     if ($request_body ~ "secret") {
//!         return 403;
//!     }
//!     location / {
//!         return 200 "[$request_body]\n";
//!     }
//! }
//! ```
//!
//! ```http
//! POST / HTTP/1.1
//! Host: localhost
//! Content-Length: 4
//!
//! text
//!
//! HTTP/1.1 200 OK
//!
//! [text]
//! ---
//! POST / HTTP/1.1
//! Host: localhost
//! Content-Length: 8
//!
//! a secret
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::shared::cached::any_set;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Directive, Exchange, Handler, Module, Outcome, Phase, Rule, ScopeBuilder, Step, Template, View, Work,
};

/// Bodies of requests that are read before anything else.
pub static MODULE: Module = Module {
    name: "early_body",
    directives: &[&CLIENT_BODY_EARLY_READ],
    variables: &[],
    compile: Some(compile),
};

/// `client_body_early_read STRING …`
pub static CLIENT_BODY_EARLY_READ: Directive<Vec<Template>> =
    Directive::new("client_body_early_read", |args, loading| {
        args.words().iter().map(|word| loading.template(word)).collect()
    })
    .within(Contexts::HTTP.or(Contexts::SERVER))
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .help("Reads the body of a request first if an argument is neither empty nor `0`.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&CLIENT_BODY_EARLY_READ);
    if !written.is_empty() {
        let strings = written.iter().flat_map(|written| written.value).cloned().collect();
        builder.handle(Phase::ServerRewrite, EarlyBody { strings });
    }
    Ok(())
}

struct EarlyBody {
    strings: Box<[Template]>,
}

impl Handler for EarlyBody {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let request = &exchange.request;
        let has_body = request.chunked || request.content_length.is_some_and(|length| length > 0);
        let is_unread = request.body.is_none() && request.streaming.is_none() && !exchange.subrequest;
        if !has_body || !is_unread || !any_set(&self.strings, exchange) {
            return Step::Next;
        }
        let (length, limit) =
            (request.content_length, exchange.scope.policy.request_body.client_max_body_size);
        match (length, limit) {
            (Some(length), Some(limit)) if length > limit => Step::Finish(exchange.refuse_long_body(length)),
            _ => Step::Await(Work::RequestBody),
        }
    }

    fn resume(&self, _: &mut Exchange, _: Outcome) -> Step {
        Step::Next
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Phase, Step, Work};

    #[test]
    fn a_body_is_read_where_a_string_is_set() {
        let site = Site::server("client_body_early_read $arg_a $arg_b;");
        for (target, length, expected) in [
            ("/?a=1", 1, true),
            ("/?b=x", 1, true),
            ("/?a=0", 1, false),
            ("/", 1, false),
            ("/?a=1", 0, false),
        ] {
            let mut exchange = site.get(target);
            exchange.request.content_length = Some(length);
            let step = site.run(Phase::ServerRewrite, &mut exchange);
            assert_eq!(matches!(step, Step::Await(Work::RequestBody)), expected, "{target}");
        }
    }
}
