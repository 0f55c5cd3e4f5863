//! Shows counters of connections, in the four lines of nginx that monitoring programs read.
//!
//! All clients of the location can see them: add `allow` and `deny`. `accepts` counts the accepted connections,
//! `handled` those that were not closed for lack of room. A connection is reading (a request head is arriving),
//! writing (a request is being answered) or waiting. The counts are those of the worker process: they begin at zero
//! if a reload or an upgrade starts another one.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location = /basic_status {
//!         stub_status;
//!         allow 127.0.0.1;
//!         deny all;
//!     }
//! }
//! ```

use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Handler, Module, Rule, ScopeBuilder, Step, Variable, View};
use http::{Method, Status};
use journal::counters::{Count, active, total};

/// Counters of connections.
pub static MODULE: Module = Module {
    name: "stub_status",
    directives: &[&STUB_STATUS],
    variables: &[
        Variable::new("connections_active", |_, _, out| put(active(), out)),
        Variable::new("connections_reading", |_, _, out| put(total(Count::Reading), out)),
        Variable::new("connections_writing", |_, _, out| put(total(Count::Writing), out)),
        Variable::new("connections_waiting", |_, _, out| put(total(Count::Waiting), out)),
    ],
    compile: Some(compile),
};

/// `stub_status`
pub static STUB_STATUS: Directive<()> = Directive::new("stub_status", |_, _| Ok(()))
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .args(Arity::Range(0, 1))
    .rule(Rule::Unnamed)
    .help("Answers with the counters of connections.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&STUB_STATUS).is_some() {
        builder.content(view.place(&STUB_STATUS), StubStatus);
    }
    Ok(())
}

fn put(value: u64, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.to_string().as_bytes());
    true
}

struct StubStatus;

impl Handler for StubStatus {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.request.method, Method::Get | Method::Head) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        let [accepts, handled, requests] = [Count::Accepted, Count::Handled, Count::Requests].map(total);
        let [reading, writing, waiting] = [Count::Reading, Count::Writing, Count::Waiting].map(total);
        let text = format!(
            "Active connections: {} \nserver accepts handled requests\n {accepts} {handled} {requests} \n\
             Reading: {reading} Writing: {writing} Waiting: {waiting} \n",
            active()
        );
        exchange.response.status = Status::OK;
        exchange.response.content_type = Some("text/plain".into());
        exchange.response.content_length = Some(text.len() as u64);
        Step::Respond(Body::bytes(text))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Phase, Step};
    use http::Method;

    #[test]
    fn four_lines_for_get_alone() {
        let site = Site::location("stub_status;");
        let mut exchange = site.get("/");
        let Step::Respond(body) = site.run(Phase::Content, &mut exchange) else { panic!() };
        let text = body_text(&body);
        assert!(text.starts_with("Active connections: ") && text.lines().count() == 4, "{text}");
        let mut exchange = site.get("/");
        exchange.request.method = Method::Post;
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 405);
    }
}
