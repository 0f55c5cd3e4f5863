//! How Apache answers methods for files.

use bytes::Bytes;
use contract::{Body, Exchange, Step};
use http::Status;

/// The methods that files have.
const ALLOWED: &[u8] = b"HEAD,GET,POST,OPTIONS";

/// Answers a method other than GET, HEAD and POST.
pub(crate) fn answer(exchange: &mut Exchange) -> Step {
    let media_type = exchange.media_type(&exchange.request.path);
    answer_with(exchange, media_type)
}

/// As [`answer`], for a directory.
pub(crate) fn answer_for_directory(exchange: &mut Exchange) -> Step {
    answer_with(exchange, Bytes::from_static(b"httpd/unix-directory"))
}

fn answer_with(exchange: &mut Exchange, media_type: Bytes) -> Step {
    // The value is text.
    let _ = exchange.response.fields.set("Allow", ALLOWED);
    if exchange.request.head.method_name() != b"OPTIONS" {
        return Step::Finish(Status::METHOD_NOT_ALLOWED);
    }
    exchange.response.content_type = Some(media_type).filter(|media_type| !media_type.is_empty());
    exchange.response.content_length = Some(0);
    Step::Respond(Body::Empty)
}
