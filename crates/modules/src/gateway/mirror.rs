//! Sends copies of requests to other locations: `mirror`.
//!
//! For each request, Fulmar makes a subrequest to each URI, with the same method, headers and body. The response of
//! the copy is discarded. The client and its next request do not wait for it, and the copy continues if the client
//! disconnects. So another server can get the same traffic as the one in use. A worker makes at most 4,096 copies at
//! a time; further copies are dropped, with a line in the error log. `off` cancels an outer level's directive.
//!
//! Fulmar reads the whole body first, because the request and the copies need it. With `mirror_request_body off` it
//! does not, and the copies have no body.
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         mirror /copy;
//!     }
//!     location = /copy {
//!         internal;
//!         return 204;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! page
//! ```

use conf::{Contexts, Diagnostic};
use contract::{
    Content, Directive, Exchange, Handler, Module, Outcome, Phase, Reach, Rule, ScopeBuilder, Step,
    Subrequest, View, Work,
};
use std::cell::Cell;
use std::rc::Rc;

/// Copies of requests.
pub static MODULE: Module = Module {
    name: "mirror",
    directives: &[&MIRROR, &MIRROR_REQUEST_BODY],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `mirror URI | off`
pub static MIRROR: Directive<Option<Box<[u8]>>> = Directive::new("mirror", |args, _| {
    let uri = args.word(0)?;
    Ok((!uri.is("off")).then(|| uri.text.clone()))
})
.within(LEVELS)
.rule(Rule::List)
.default("off")
.help("The URI of a copy of each request.");

/// `mirror_request_body on | off`
pub static MIRROR_REQUEST_BODY: Directive<bool> =
    Directive::flag("mirror_request_body").within(LEVELS).default("on").help("Whether copies have the body.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&MIRROR);
    let off = written.iter().find(|written| written.value.is_none());
    if let Some(off) = off.filter(|_| written.len() > 1) {
        return Err(Diagnostic::emerg("\"mirror\" directive is duplicate").at(off.span));
    }
    let uris: Box<[Box<[u8]>]> = written.into_iter().filter_map(|written| written.value.clone()).collect();
    if !uris.is_empty() {
        let with_body = view.get(&MIRROR_REQUEST_BODY).copied().unwrap_or(true);
        builder.handle(Phase::Precontent, Mirror { uris, with_body });
    }
    Ok(())
}

struct Mirror {
    uris: Box<[Box<[u8]>]>,
    with_body: bool,
}

/// Whether the handler waits for the request's body.
struct AwaitsBody(Cell<bool>);

impl Handler for Mirror {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.subrequest {
            return Step::Next;
        }
        exchange.attach(Reach::Own, Rc::new(AwaitsBody(Cell::new(self.with_body))));
        if self.with_body {
            return Step::Await(Work::RequestBody);
        }
        self.copies(exchange)
    }

    fn resume(&self, exchange: &mut Exchange, _: Outcome) -> Step {
        match exchange.attached::<AwaitsBody>() {
            Some(awaits) if awaits.0.replace(false) => self.copies(exchange),
            _ => Step::Next,
        }
    }
}

impl Mirror {
    fn copies(&self, exchange: &Exchange) -> Step {
        let copy = |uri: &[u8]| {
            let wanted = Subrequest::get(uri, Content::Unused);
            // As in nginx, a copy has the query of the request.
            let args = exchange.request.args.clone();
            Subrequest { args, same_method: true, with_body: self.with_body, ..wanted }
        };
        Step::Await(Work::Aside(self.uris.iter().map(|uri| copy(uri)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Outcome, Phase, Step, Work};

    #[test]
    fn the_body_first_then_the_copies() {
        let site = Site::location("mirror /a; mirror /b;");
        let mut exchange = site.get("/?x");
        let handler = &exchange.scope.clone().handlers(Phase::Precontent)[0].clone();
        assert!(matches!(handler.run(&mut exchange), Step::Await(Work::RequestBody)));
        let Step::Await(Work::Aside(copies)) = handler.resume(&mut exchange, Outcome::Done) else {
            panic!("no copies");
        };
        let paths: Vec<&[u8]> = copies.iter().map(|copy| &*copy.path).collect();
        assert_eq!(paths, [b"/a", b"/b"]);
        assert!(copies.iter().all(|copy| copy.same_method && copy.with_body));
        assert_eq!(copies[0].args.as_deref(), Some(&b"x"[..]));
        assert!(matches!(handler.resume(&mut exchange, Outcome::Done), Step::Next));
    }

    #[test]
    fn without_the_body() {
        let site = Site::location("mirror /a; mirror_request_body off;");
        let Step::Await(Work::Aside(copies)) = site.run(Phase::Precontent, &mut site.get("/")) else {
            panic!("no copies");
        };
        assert!(!copies[0].with_body);
    }

    #[test]
    fn a_copy_is_not_copied() {
        let site = Site::location("mirror /a;");
        let mut exchange = site.get("/");
        exchange.subrequest = true;
        assert!(matches!(site.run(Phase::Precontent, &mut exchange), Step::Next));
    }

    #[test]
    fn off() {
        let site = Site::location("mirror off;");
        assert!(matches!(site.run(Phase::Precontent, &mut site.get("/")), Step::Next));
        assert_eq!(Site::error("mirror /a; mirror off;"), "\"mirror\" directive is duplicate");
    }
}
