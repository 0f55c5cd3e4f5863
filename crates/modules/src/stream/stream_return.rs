//! Sends a text to clients of `stream`, and closes the connection.
//!
//! The text may contain variables. It takes the place of `proxy_pass`.
//!
//! ```conf
//! events {
//! }
//! stream {
//!     server {
//!         listen 8080;
//!         return "HTTP/1.0 200 OK\r\n\r\nport $server_port\n";
//!     }
//! }
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Handler, Module, Rule, ScopeBuilder, Step, Template, View};

/// A text for clients.
pub static MODULE: Module =
    Module { name: "stream_return", directives: &[&RETURN], variables: &[], compile: Some(compile) };

/// `return TEXT`
pub static RETURN: Directive<Template> =
    Directive::new("return", |args, loading| loading.template(args.word(0)?))
        .slot("stream return")
        .within(Contexts::STREAM_SERVER)
        .rule(Rule::Never)
        .help("Sends a text to the client and closes the connection.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(text) = view.get(&RETURN) {
        // Each datagram of UDP has its own answer.
        builder.policy.keepalive.requests = 1;
        builder.content(view.place(&RETURN), Answer(text.clone()));
    }
    Ok(())
}

struct Answer(Template);

impl Handler for Answer {
    fn run(&self, exchange: &mut Exchange) -> Step {
        // An empty piece would be an empty datagram.
        let text = self.0.evaluate(exchange);
        Step::Respond(if text.is_empty() { Body::Empty } else { Body::bytes(text) })
    }
}
