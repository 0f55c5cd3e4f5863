//! Pages in place of errors: `ErrorDocument`.

use crate::shared::apache::urls::is_url;
use crate::shared::apache::{in_all_files, values};
use conf::value::status;
use conf::{Arity, Diagnostic};
use contract::policy::{ErrorAnswer, ErrorPage};
use contract::{Args, Directive, Loading, ScopeBuilder, Template, View};
use http::Status;

/// `ErrorDocument STATUS PATH | URL | TEXT | default`
pub(crate) static ERROR_DOCUMENT: Directive<Document> = in_all_files(Directive::new("ErrorDocument", parse))
    .args(Arity::AtLeast(2))
    .help("What is shown in the place of an error: another page, a redirect, or a text.");

/// What is shown in the place of an error.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    status: Status,
    /// None is the server's own page.
    page: Option<ErrorPage>,
}

fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Document, Diagnostic> {
    let status = args.value(0, status).ok();
    let status =
        status.filter(|code| (400..600).contains(code)).ok_or_else(|| args.error("has no error status"))?;
    let words: Vec<&[u8]> = args.words().iter().skip(1).map(|word| &*word.text).collect();
    let target = words.join(&b' ');
    let status = Status(status);
    if target.eq_ignore_ascii_case(b"default") {
        return Ok(Document { status, page: None });
    }
    let is_text = !target.starts_with(b"/") && !is_url(&target);
    let page = ErrorPage {
        statuses: Box::new([status]),
        answer: ErrorAnswer::Original,
        target: Template::literal(&target),
        is_text,
        is_public: true,
        // `place` refers to the main configuration only.
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
