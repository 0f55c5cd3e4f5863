//! Asks another location whether a request is allowed.
//!
//! The argument is a URI; `off` cancels an outer level's directive. Before Fulmar answers a request, it sends a GET
//! subrequest to that URI, with the headers of the request and without its body. The status of the subrequest
//! decides: 2xx allows the request; 401, with its `WWW-Authenticate` headers, and 403 deny it; any other status is
//! an error (500). `satisfy` combines this check with passwords and addresses.
//!
//! `auth_request_set` sets a variable after the subrequest. Variables in its value refer to the subrequest and its
//! response.
//!
//! ```file html/a.txt
//! for members
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         auth_request /may;
//!         auth_request_set $verdict $status;
//!         add_header X-Verdict $verdict always;
//!     }
//!     location = /may {
//!         internal;
//!         if ($http_x_key = secret) {
//!             return 204;
//!         }
//!         return 403;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//! X-Key: secret
//!
//! HTTP/1.1 200 OK
//! X-Verdict: 204
//!
//! for members
//! ---
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! X-Verdict: 403
//! ```

use crate::rewriting::rewrite::Target;
use crate::shared::names;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Content, Definition, Directive, Exchange, Handler, Loading, Module, Outcome, Phase, Rule,
    ScopeBuilder, Step, Subrequest, Subresponse, Template, View, Work,
};
use http::Status;
use journal::Level;

/// Access by the word of another location.
pub static MODULE: Module = Module {
    name: "auth_request",
    directives: &[&AUTH_REQUEST, &AUTH_REQUEST_SET],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `auth_request URI | off`
pub static AUTH_REQUEST: Directive<Option<Vec<u8>>> = Directive::new("auth_request", |args, _| {
    let uri = args.word(0)?;
    Ok((!uri.is("off")).then(|| uri.text.to_vec()))
})
.within(LEVELS)
.default("off")
.help("Asks another location whether a request is allowed.");

/// `auth_request_set $VARIABLE TEXT`
pub static AUTH_REQUEST_SET: Directive<Assignment> = Directive::new("auth_request_set", Assignment::parse)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .help("Sets a variable after the subrequest.");

/// A variable and what it is set to.
#[derive(Clone, Debug)]
pub struct Assignment {
    target: Target,
    text: Template,
}

impl Assignment {
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Assignment, Diagnostic> {
        let name = names::variable(args, args.word(0)?, loading)?;
        let target = Target::new(&name, loading, || Definition::Slot);
        Ok(Assignment { target, text: loading.template(args.word(1)?)? })
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(Some(uri)) = view.get(&AUTH_REQUEST) {
        let written = view.all(&AUTH_REQUEST_SET);
        let assignments = written.into_iter().map(|written| written.value.clone()).collect();
        builder.handle(Phase::Access, AuthRequest { uri: uri.clone(), assignments });
    }
    Ok(())
}

struct AuthRequest {
    uri: Vec<u8>,
    assignments: Box<[Assignment]>,
}

impl Handler for AuthRequest {
    fn run(&self, _: &mut Exchange) -> Step {
        Step::Await(Work::Subrequest(Subrequest::get(self.uri.clone(), Content::Unused)))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Outcome::Subresponse(Subresponse { exchange: inner, .. }) = outcome else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        for Assignment { target, text } in &self.assignments {
            target.set(exchange, text.evaluate(&inner));
        }
        let status = inner.response.status;
        match status.0 {
            200..=299 => Step::Allow,
            403 => Step::Finish(status),
            401 => {
                for challenge in inner.response.fields.all("www-authenticate") {
                    // It was a field already, so that it is a good one.
                    let _ = exchange.response.fields.push(b"WWW-Authenticate", challenge);
                }
                Step::Finish(status)
            }
            code => {
                exchange.log(Level::Error, &format!("auth request unexpected status: {code}"));
                Step::Finish(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{Exchange, Outcome, Phase, Step, Subresponse, Work};
    use http::Status;
    use std::sync::Arc;

    /// What the handler says when the other location answers so.
    fn answer(exchange: &mut Exchange, code: u16) -> Step {
        let scope = Arc::clone(&exchange.scope);
        let handler = &scope.handlers(Phase::Access)[0];
        let Step::Await(Work::Subrequest(wanted)) = handler.run(exchange) else { panic!("nothing is asked") };
        assert_eq!((wanted.path, wanted.args), (b"/auth?x".to_vec(), None));
        let mut inner = Box::new(exchange.inner(exchange.request.clone()));
        inner.response.status = Status(code);
        inner.response.fields.push(b"WWW-Authenticate", b"one").unwrap();
        inner.response.fields.push(b"www-authenticate", b"two").unwrap();
        handler.resume(
            exchange,
            Outcome::Subresponse(Subresponse { exchange: inner, content: Default::default() }),
        )
    }

    #[test]
    fn statuses() {
        let site = Site::location("auth_request /auth?x;");
        for (code, expected) in [(401, 401), (403, 403), (404, 500), (302, 500), (500, 500), (304, 500)] {
            assert_eq!(status(&answer(&mut site.get("/"), code)), expected, "{code}");
        }
        for code in [200, 204, 299] {
            assert!(matches!(answer(&mut site.get("/"), code), Step::Allow));
        }
    }

    #[test]
    fn all_challenges_are_passed_on() {
        let site = Site::location("auth_request /auth?x;");
        let mut exchange = site.get("/");
        answer(&mut exchange, 403);
        assert!(exchange.response.fields.get("www-authenticate").is_none());
        answer(&mut exchange, 401);
        assert_eq!(exchange.response.fields.all("www-authenticate").collect::<Vec<_>>(), [b"one", b"two"]);
    }

    #[test]
    fn variables_show_the_answer() {
        let site =
            Site::location("auth_request /auth?x; auth_request_set $x $status; auth_request_set $args z;");
        let mut exchange = site.get("/?a");
        assert_eq!(site.variable("x", &exchange), "");
        answer(&mut exchange, 403);
        assert_eq!(site.variable("x", &exchange), "403", "whatever the verdict");
        assert_eq!(exchange.request.args.as_deref(), Some(&b"z"[..]));
        assert_eq!(Site::error("auth_request_set x y;"), "invalid variable name \"x\"");
        assert_eq!(Site::error("auth_request_set $uri y;"), "the duplicate \"uri\" variable");
    }

    #[test]
    fn off_asks_nobody() {
        assert!(matches!(
            Site::location("auth_request off;").run(Phase::Access, &mut Site::location("").get("/")),
            Step::Next
        ));
    }
}
