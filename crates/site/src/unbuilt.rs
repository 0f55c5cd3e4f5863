//! Content handlers of nginx that do not exist here.

use contract::{Directive, Exchange, Handler, Rule, Step};
use http::Status;
use journal::Level;

/// A content handler of nginx that does not exist here: its locations answer 501.
pub(crate) struct Unbuilt {
    pub directive: String,
}

pub(crate) static UNBUILT: Directive<Unbuilt> =
    Directive::new("content handler", |args, _| Err(args.error("has no separate value")))
        .rule(Rule::Unnamed)
        .repeats();

impl Handler for Unbuilt {
    fn run(&self, exchange: &mut Exchange) -> Step {
        exchange.log(Level::Error, &format!("\"{}\" is not built into this server", self.directive));
        Step::Finish(Status::NOT_IMPLEMENTED)
    }
}
