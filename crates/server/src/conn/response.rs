//! A response in every version of HTTP: which fields the server adds, and which bodies leave together with their head.

use contract::{Body, Exchange, Piece, Replaced};
use http::{HTTP_DATE_LENGTH, Status};
use journal::clock::{self, Time};

/// A body up to this many bytes is copied after its head, so that both leave in one write.
const COPY_LIMIT: u64 = 64 * 1024;

/// Whether a body can be copied after its head.
pub(crate) fn fits_in_memory(body: &Body) -> bool {
    let in_memory = |piece: &Piece| matches!(piece, Piece::Bytes(_));
    body.pieces().is_some_and(|pieces| pieces.iter().all(in_memory))
        && body.length().is_some_and(|length| length <= COPY_LIMIT)
}

/// What a head says beyond the response.
pub(crate) struct ResponseFields {
    pub(crate) date: Option<[u8; HTTP_DATE_LENGTH]>,
    pub(crate) server: Option<&'static str>,
}

/// Removes from a response what is not sent, and finds what the server says besides.
pub(crate) fn response_fields(exchange: &mut Exchange) -> ResponseFields {
    // What is not sent is taken away here, and not where the head is written, so that a log shows what was sent.
    // As in Apache, a page that a `.htaccess` file names for an error keeps the date of its file.
    let is_named_page = exchange.error_page_used == Replaced::Kept;
    let response = &mut exchange.response;
    if !response.status.is_dated() && !is_named_page {
        response.last_modified = None;
    }
    // What another server, in its own words, says of a content that is not there is passed on.
    if response.status == Status::NO_CONTENT && response.reason().is_none() {
        (response.content_type, response.content_length) = (None, None);
    }
    let with_version = concat!("Fulmar/", env!("CARGO_PKG_VERSION"));
    let server = match exchange.scope.policy.server_tokens {
        true => with_version,
        false => "Fulmar",
    };
    ResponseFields {
        date: (!response.omits_date).then(|| clock::http_date(Time::now())),
        server: (!response.omits_server).then_some(server),
    }
}
