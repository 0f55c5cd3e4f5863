//! How Apache answers methods for files.

use super::variables;
use bytes::Bytes;
use contract::{Body, Exchange, Reach, Replaced, Step};
use http::{Method, Status, TypesByExtension};
use std::rc::Rc;
use std::sync::Arc;

/// The methods that Apache knows.
pub(crate) const METHODS: [&str; 27] = [
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];

/// The methods that files have.
const ALLOWED: &[u8] = b"HEAD,GET,POST,OPTIONS";

/// Answers a method other than GET, HEAD and POST.
pub(crate) fn answer(exchange: &mut Exchange) -> Step {
    let path = without_info(exchange).unwrap_or_else(|| exchange.request.path.clone());
    let media_type = exchange.media_type(&path);
    exchange.attach(Reach::Own, Rc::new(Answered(path)));
    answer_with(exchange, media_type)
}

/// The path of the file that such an answer is about.
struct Answered(Vec<u8>);

/// The path of the file whose content, or whose methods, the response is about.
pub(crate) fn path_of_file(exchange: &Exchange) -> Option<Vec<u8>> {
    match exchange.file {
        Some(_) => Some(exchange.request.path.clone()),
        None if exchange.error.is_some() => None,
        None => exchange.attached::<Answered>().map(|answered| answered.0.clone()),
    }
}

/// The path of the file that made the response, if it is neither a page of the server's own nor about a directory.
pub(crate) fn path_of_program(exchange: &Exchange) -> Option<Vec<u8>> {
    let is_own_page = exchange.error.is_some() && exchange.error_page_used == Replaced::No;
    without_info(exchange).filter(|path| !is_own_page && !path.ends_with(b"/"))
}

/// The path of a request without what comes after that of the file.
fn without_info(exchange: &Exchange) -> Option<Vec<u8>> {
    let file = exchange.path().ok()?;
    let end = variables::file_end(exchange, &file, &exchange.budget()).ok()?;
    let path = &exchange.request.path;
    Some(path[..path.len().checked_sub(file.len() - end)?].to_vec())
}

/// Whether the method is one by which files are fetched.
pub(crate) fn is_fetched(exchange: &Exchange) -> bool {
    matches!(exchange.request.method, Method::Get | Method::Head | Method::Post)
}

/// The media types of files without the one that `ForceType` gives to all of them.
pub(crate) struct Unforced(pub(crate) Arc<TypesByExtension>);

/// As [`answer`], for a directory.
pub(crate) fn answer_for_directory(exchange: &mut Exchange) -> Step {
    let forced = exchange.scope.kept::<Unforced>().map(|_| exchange.scope.policy.default_type.clone());
    answer_with(exchange, forced.unwrap_or(Bytes::from_static(b"httpd/unix-directory")))
}

fn answer_with(exchange: &mut Exchange, media_type: Bytes) -> Step {
    // The value is text.
    let _ = exchange.response.fields.set("Allow", ALLOWED);
    let method = exchange.request.head.method_name();
    if method != b"OPTIONS" {
        let is_known = METHODS.iter().any(|name| name.as_bytes() == method);
        return Step::Finish(if is_known { Status::METHOD_NOT_ALLOWED } else { Status::NOT_IMPLEMENTED });
    }
    // A rule may have set another type.
    let content_type = exchange.response.content_type.take().unwrap_or(media_type);
    exchange.response.content_type = Some(content_type).filter(|media_type| !media_type.is_empty());
    exchange.response.content_length = Some(0);
    Step::Respond(Body::Empty)
}
