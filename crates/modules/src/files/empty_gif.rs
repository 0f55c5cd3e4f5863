//! Answers with a transparent picture of one pixel.
//!
//! The picture comes from memory. Pages use it to count visitors. Only GET and HEAD are allowed.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location = /pixel.gif {
//!         empty_gif;
//!     }
//! }
//! ```
//!
//! ```http
//! HEAD /pixel.gif HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: image/gif
//! Content-Length: 43
//! ---
//! POST /pixel.gif HTTP/1.1
//! Host: localhost
//! Content-Length: 0
//!
//! HTTP/1.1 405 Not Allowed
//! ```

use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Handler, Module, Rule, ScopeBuilder, Step, View};
use http::{Method, Status};
use std::sync::LazyLock;

/// A transparent picture of one pixel.
pub static MODULE: Module =
    Module { name: "empty_gif", directives: &[&EMPTY_GIF], variables: &[], compile: Some(compile) };

/// `empty_gif`
pub static EMPTY_GIF: Directive<()> = Directive::new("empty_gif", |_, _| Ok(()))
    .within(Contexts::LOCATION)
    .args(Arity::None)
    .rule(Rule::Unnamed)
    .help("Answers with a transparent picture of one pixel.");

/// The picture, part by part as GIF89a has it.
const PARTS: [&[u8]; 7] = [
    b"GIF89a",
    // One pixel wide and high, with a table of two colours.
    b"\x01\0\x01\0\x80\x01\0",
    // Black and white.
    b"\0\0\0\xff\xff\xff",
    // White is transparent.
    b"\x21\xf9\x04\x01\0\0\x01\0",
    // A picture in the corner, as large as all.
    b"\x2c\0\0\0\0\x01\0\x01\0\0",
    // Its pixel is white: three codes of three bits that clear, name the colour, and end.
    &[2, 2, 0b0100_1100, 0b0000_0001, 0],
    // The end.
    b";",
];

static PICTURE: LazyLock<Bytes> = LazyLock::new(|| PARTS.concat().into());

/// When the picture changed last, in seconds since 1970; the same as everywhere else, so that clients may ask.
const MODIFIED: i64 = 23_349_600;

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&EMPTY_GIF).is_some() {
        builder.content(view.place(&EMPTY_GIF), Picture);
    }
    Ok(())
}

struct Picture;

impl Handler for Picture {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.request.method, Method::Get | Method::Head) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.content_type = Some(Bytes::from_static(b"image/gif"));
        response.content_length = Some(PICTURE.len() as u64);
        response.last_modified = Some(MODIFIED);
        Step::Respond(Body::bytes(PICTURE.clone()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{Body, Phase, Piece, Step};
    use http::Method;

    #[test]
    fn the_picture_and_nothing_else() {
        let site = Site::location("empty_gif;");
        let mut exchange = site.get("/any");
        let Step::Respond(Body::Piece(Piece::Bytes(bytes))) = site.run(Phase::Content, &mut exchange) else {
            panic!("no picture")
        };
        assert!(bytes.starts_with(b"GIF89a") && bytes.ends_with(b";"));
        assert_eq!(exchange.response.content_length, Some(bytes.len() as u64));
        let mut exchange = site.get("/any");
        exchange.request.method = Method::Post;
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 405);
    }
}
