//! Pages in place of errors: `ErrorDocument`.

use crate::shared::apache::expression::Text;
use crate::shared::apache::urls::is_url;
use crate::shared::apache::{environment, in_all_files, values};
use conf::value::status;
use conf::{Arity, Diagnostic};
use contract::policy::{ErrorAnswer, ErrorPage};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Made, Phase, Reach, Replaced, ScopeBuilder, Step, Template,
    View,
};
use http::Status;
use std::rc::Rc;
use std::sync::Arc;

/// `ErrorDocument STATUS PATH | URL | TEXT | default`
pub(crate) static ERROR_DOCUMENT: Directive<Document> = in_all_files(Directive::new("ErrorDocument", parse))
    .args(Arity::AtLeast(2))
    .help("The replacement of an error: another page, a redirect, or a text.");

/// What is sent in place of an error with this status.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    status: Status,
    /// `None` for the server's own page (`default`).
    page: Option<ErrorPage>,
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Document, Diagnostic> {
    let status = args.value(0, status).ok();
    let status = status
        .filter(|code| (400..600).contains(code))
        .ok_or_else(|| args.error("needs a status from 400 to 599 as its first argument"))?;
    let words: Vec<&[u8]> = args.words().iter().skip(1).map(|word| &*word.text).collect();
    let replacement = words.join(&b' ');
    if replacement.is_empty() {
        return Err(args.error("needs a path, a URL or a text as its second argument"));
    }
    let status = Status(status);
    if replacement.eq_ignore_ascii_case(b"default") {
        return Ok(Document { status, page: None });
    }
    if status == Status::UNAUTHORIZED && is_url(&replacement) {
        // As in Apache it has no effect: a redirect could not ask for a password.
        return Ok(Document { status: Status(0), page: None });
    }
    // Otherwise it is a path or a URL.
    let is_page_text = !replacement.starts_with(b"/") && !is_url(&replacement);
    let expression = Arc::new(Text::parse(args, loading, &replacement)?);
    let replacement = match expression.constant() {
        Some(constant) => Template::literal(constant),
        // If the expression takes too long, the budget ends it, and the path, the URL or the text is empty.
        None => Template::made(Made(Arc::new(move |exchange| {
            expression.value(exchange, &exchange.budget()).unwrap_or_default()
        }))),
    };
    let page = ErrorPage {
        statuses: Box::new([status]),
        answer: ErrorAnswer::Original,
        target: replacement,
        is_text: is_page_text,
        is_public: true,
        // Messages about the page point to a `place`. Only the main configuration has one.
        place: None,
    };
    Ok(Document { status, page: Some(page) })
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let documents = values(view, &ERROR_DOCUMENT);
    if documents.is_empty() {
        return;
    }
    let mut pages: Vec<ErrorPage> = builder.policy.error_pages.to_vec();
    for Document { status, page } in documents {
        for page in &mut pages {
            page.statuses = page.statuses.iter().copied().filter(|known| *known != status).collect();
        }
        pages.extend(page);
    }
    builder.policy.error_pages = pages.into();
}

/// Lets a program that makes an error document learn about the request that failed (`REDIRECT_URL` and others). It runs
/// before the variables of the document's own request are set. The document may be in a directory with other settings.
pub(crate) fn remember(view: &View<'_>, builder: &mut ScopeBuilder) {
    if view.context().is_per_directory() {
        builder.handle(Phase::Preaccess, Remember { stores: !view.all(&ERROR_DOCUMENT).is_empty() });
    }
}

/// The request that failed.
struct Failed {
    path: Vec<u8>,
    args: Option<Vec<u8>>,
    method: Vec<u8>,
}

/// Runs twice. For the client's request it stores path, arguments and method. For the request of the error document it
/// turns what was stored into `REDIRECT_…` variables.
struct Remember {
    /// Whether the settings name error documents.
    stores: bool,
}

impl Handler for Remember {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let request = &exchange.request;
        let status = exchange.error.filter(|_| exchange.error_page_used == Replaced::Kept);
        // Most requests are no error documents.
        let Some((status, failed)) = status.and_then(|status| Some((status, exchange.attached::<Failed>()?)))
        else {
            if !self.stores {
                return Step::Next;
            }
            let (path, args) = (request.path.clone(), request.args.clone());
            exchange.attach(
                Reach::Own,
                Rc::new(Failed { path, args, method: request.head.method_name().to_vec() }),
            );
            return Step::Next;
        };
        let environment = environment::of(exchange);
        if let Err(failure) = environment.set(b"REQUEST_METHOD", &failed.method) {
            return failure.refuse(exchange);
        }
        // It puts `REDIRECT_` before each name.
        environment.redirect((&failed.path, failed.args.as_deref()), status);
        Step::Next
    }
}
