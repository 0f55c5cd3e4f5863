//! Sends FLV videos from any position.
//!
//! In a location with `flv`, a request with the argument `start` gets the part of the file from that byte on, behind a header
//! of an FLV file, so that a player can show it. Without the argument, or if it is not a position in the file, the client
//! gets the whole file. Only GET and HEAD are allowed.
//!
//! nginx: --with-http_flv_module
//!
//! ```file html/video.flv
//! 0123456789
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     types { video/x-flv flv; }
//!     location ~ \.flv$ {
//!         flv;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /video.flv?start=8 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: video/x-flv
//! Content-Length: 16
//! Accept-Ranges: bytes
//! ---
//! GET /video.flv HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 11
//!
//! 0123456789
//! ---
//! POST /video.flv HTTP/1.1
//! Host: localhost
//! Content-Length: 0
//!
//! HTTP/1.1 405 Not Allowed
//! ```

use crate::files::open_file_cache::Files;
use crate::files::static_files::{self, describe, describe_part};
use crate::values::variables::argument;
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Handler, Module, Phase, Piece, Rule, ScopeBuilder, Step, View};
use http::Status;

/// FLV videos from any position.
pub static MODULE: Module =
    Module { name: "flv", directives: &[&FLV], variables: &[], compile: Some(compile) };

/// `flv`
pub static FLV: Directive<()> = Directive::new("flv", |_, _| Ok(()))
    .within(Contexts::LOCATION)
    .args(Arity::None)
    .rule(Rule::Unnamed)
    .help("Sends videos from the byte that the argument `start` names.");

/// The header of a file with audio and video, and the length of the tag before the first one.
const HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&FLV).is_some() {
        builder.handle(Phase::Content, Flv(Files::of(view)));
    }
    Ok(())
}

struct Flv(Files);

impl Handler for Flv {
    fn run(&self, exchange: &mut Exchange) -> Step {
        self.serve(exchange).unwrap_or_else(Step::Finish)
    }
}

impl Flv {
    fn serve(&self, exchange: &mut Exchange) -> Result<Step, Status> {
        let Some(opened) = static_files::requested(&self.0, exchange)? else { return Ok(Step::Next) };
        let body = opened.body(exchange.is_head());
        let size = opened.identity.size();
        let start = start(exchange).filter(|start| (1..size).contains(start));
        let (Some(start), Body::Piece(piece)) = (start, &body) else {
            describe(exchange, &opened);
            return Ok(Step::Respond(body));
        };
        describe_part(exchange, &opened, HEADER.len() as u64 + size - start);
        let header = Piece::Bytes(Bytes::from_static(HEADER));
        Ok(Step::Respond(Body::Pieces(vec![header, piece.slice(start, size - start)])))
    }
}

/// The position that the client asks for.
fn start(exchange: &Exchange) -> Option<u64> {
    let mut text = Vec::new();
    let is_number = argument(exchange, "start", &mut text) && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(&text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Phase, Step};

    #[test]
    fn a_position_in_the_file_and_others() {
        let site = Site::location("flv;");
        site.file("a.flv", "0123456789");
        for (query, expected) in [
            ("?start=1", "FLV\x01\x05\0\0\0\x09\0\0\0\x00123456789"),
            ("?START=9&start=1", "FLV\x01\x05\0\0\0\x09\0\0\0\x009"),
            ("?start=10", "0123456789"),
            ("?start=0", "0123456789"),
            ("?start=-1", "0123456789"),
            ("?start=+1", "0123456789"),
            ("?start=", "0123456789"),
            ("?start=99999999999999999999", "0123456789"),
            ("", "0123456789"),
        ] {
            let mut exchange = site.get(&format!("/a.flv{query}"));
            let Step::Respond(body) = site.run(Phase::Content, &mut exchange) else { panic!("{query}") };
            assert_eq!(body_text(&body), expected, "{query}");
            assert_eq!(exchange.response.content_length, Some(expected.len() as u64));
            assert_eq!(exchange.file.is_none(), expected.len() != 10);
        }
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/none.flv"))), 404);
    }
}
