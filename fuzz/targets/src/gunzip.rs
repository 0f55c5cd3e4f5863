//! Content in the gzip format that a client gets uncompressed. The first byte of the input says how the rest is cut.
//! Whatever the content claims to be, what comes out comes in bounded pieces, is no more than the format can hold, and
//! is the same however it was cut.

use bytes::Bytes;
use contract::{Body, NoBody, Piece, Pull, Turn};
use http::RequestHead;
use std::task::{Context, Waker};

use crate::{cuts, served};

const SETTINGS: &str = "gunzip on;";

/// The longest piece, in bytes.
const PIECE_MAX: u64 = 64 * 1024;

/// How many times longer than itself content in the format can become, with some to spare.
const GROWTH_MAX: u64 = 1100;

/// Holds `gunzip` to it.
pub fn run(input: &[u8]) {
    let Some((&seed, content)) = input.split_first() else { return };
    let mut pieces = Vec::new();
    let mut rest = Bytes::copy_from_slice(content);
    let mut lengths = cuts(seed);
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(1).min(rest.len());
        pieces.push(Piece::Bytes(rest.split_to(length)));
    }
    let cut = uncompressed(Body::Pieces(pieces));
    let whole = uncompressed(Body::bytes(Bytes::copy_from_slice(content)));
    match (&whole, &cut) {
        (Ok(whole), Ok(cut)) => assert!(whole == cut, "the cuts change what comes out"),
        // Where it ends badly more or less of it came out before.
        (Err(_), Err(_)) => {}
        _ => panic!("the cuts decide whether it is whole"),
    }
    let made = whole.unwrap_or_else(|made| made).len() as u64;
    assert!(made <= content.len() as u64 * GROWTH_MAX, "{made} bytes of {}", content.len());
}

/// What comes out; an error where it is cut off.
fn uncompressed(body: Body) -> Result<Vec<u8>, Vec<u8>> {
    let mut exchange = served::exchange(SETTINGS, RequestHead::new());
    let _ = exchange.response.fields.push(b"Content-Encoding", b"gzip");
    let scope = std::sync::Arc::clone(&exchange.scope);
    let body = scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
    let Body::Source(mut source) = body else { panic!("it is left as it is") };
    let (mut out, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
    loop {
        let mut turn = Turn { cx: &mut cx, exchange: &mut exchange, body: &mut NoBody };
        match source.pull(&mut turn) {
            Pull::Piece(Piece::Bytes(bytes)) => {
                assert!(!bytes.is_empty() && bytes.len() as u64 <= PIECE_MAX);
                out.extend_from_slice(&bytes);
            }
            Pull::End => return Ok(out),
            Pull::Failed => return Err(out),
            Pull::Piece(Piece::File { .. }) | Pull::Await(_) | Pull::Pending { .. } => {
                panic!("there is no file, and nothing to wait for")
            }
        }
    }
}
