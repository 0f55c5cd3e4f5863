//! Ranges: whatever is asked for, what is sent is a part of the content and as long as it says. The first
//! byte of the input is the length of the content, the rest the value of the `Range` field.

use bytes::Bytes;
use contract::{Body, Exchange, Piece};
use http::{RequestHead, Status, Version};

use crate::served;

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let Some((&length, ranges)) = input.split_first() else { return };
    let Some(mut exchange) = exchange(ranges) else { return };
    let content: Bytes = (0..length).collect::<Vec<u8>>().into();
    exchange.response.content_length = Some(u64::from(length));
    exchange.response.accept_ranges = true;
    let mut body = Body::bytes(content.clone());
    let scope = std::sync::Arc::clone(&exchange.scope);
    for filter in scope.filters() {
        body = filter.apply(&mut exchange, body);
    }
    let sent = exchange.response.content_length;
    match exchange.response.status {
        Status::OK => assert_eq!(flat(&body), content),
        Status::PARTIAL_CONTENT => assert_eq!(sent, body.length()),
        Status::RANGE_NOT_SATISFIABLE => assert_eq!(body.length(), Some(0)),
        status => panic!("{status:?}"),
    }
    let is_single = exchange.response.fields.get("content-range").is_some();
    if exchange.response.status == Status::PARTIAL_CONTENT && is_single {
        let part = flat(&body);
        assert!(!part.is_empty() && content.windows(part.len()).any(|window| window == part));
    }
}

/// A GET with this `Range` field, if a field can have that value, where nothing is configured.
fn exchange(ranges: &[u8]) -> Option<Exchange> {
    let mut head = RequestHead::new();
    head.set_line(b"GET / HTTP/1.1", (4, 5), Version::Http11);
    head.fields.push(b"Range", &[b"bytes=", ranges].concat()).ok()?;
    Some(served::exchange("", head))
}

fn flat(body: &Body) -> Vec<u8> {
    let bytes = body.pieces().unwrap_or_default().iter().map(|piece| match piece {
        Piece::Bytes(bytes) => bytes.as_ref(),
        Piece::File { .. } => &[],
    });
    bytes.collect::<Vec<_>>().concat()
}
