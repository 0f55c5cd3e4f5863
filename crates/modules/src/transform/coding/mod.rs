//! Chooses the coding with which a response is compressed.
//!
//! If several of `brotli`, `zstd` and `gzip` are on, the client decides: Fulmar uses the coding with the highest
//! weight in `Accept-Encoding`. If weights are equal, the order is brotli, zstd, gzip. A coding with `q=0`, or one
//! that is not named, is not used. `*` applies only if the client refuses uncompressed content (`identity;q=0`). A
//! client that prefers uncompressed content (`identity, gzip;q=0.5`) gets it.
//!
//! Compressed content has its own weak entity tag. Its length is not known when the head is sent, so it is sent in
//! chunks, and ranges do not work. Fulmar compresses only responses with status 200, 403 or 404 that are not
//! compressed yet, and no responses of subrequests. `gzip_vary on` adds `Vary: Accept-Encoding` for all codings.
//!
//! If content arrives slowly, Fulmar sends what it has: it flushes the compressor whenever it waits for more. Until
//! its end, such a connection holds up to 64 KB of content and the compressor: about 320 KB for gzip, 160 KB for zstd
//! and 2.4 MB for brotli at their default levels.
//!
//! Each thread keeps up to 8 MB of compressed files in memory, for files of up to 1 MB, until the file changes. So a
//! file is compressed once, and a high level costs little. If a compressed file already exists next to the original,
//! use `gzip_static`, `brotli_static` and `zstd_static`.
//!
//! **Secrets.** The length of a compressed response shows how similar two parts of it are. An attacker who can put
//! text into a page with a secret, and who sees the length of the encrypted response, can guess the secret byte by
//! byte (the BREACH attack). Do not compress pages that contain both text from a client and a token or another
//! secret, or let the application mask the secret differently in each response. Style sheets, scripts and pages that
//! are equal for all clients are safe.
//!
//! differs: brotli and zstd are third-party modules in nginx.
//!
//! ```file html/page.html
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     gzip on;
//!     brotli on;
//!     zstd on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, deflate, br, zstd
//!
//! HTTP/1.1 200 OK
//! Transfer-Encoding: chunked
//! Content-Encoding: br
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip;q=0.8, br;q=0.5, zstd;q=0
//!
//! HTTP/1.1 200 OK
//! Content-Encoding: gzip
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: identity, gzip;q=0.5
//!
//! HTTP/1.1 200 OK
//! Content-Length: 67
//!
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```

mod brotli;
mod coder;
mod deflate;
mod encoder;
mod kept;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
mod zstd;

use crate::apache::mod_filter;
use crate::shared::blocks::Blocks;
use crate::shared::cached::Cached;
use crate::shared::compression::{Accept, Offer, Ratio, RatioOf, Settings, Weight, varies};
use crate::shared::validators;
use cache::rfc9111;
use conf::Diagnostic;
use contract::{Body, Event, Exchange, Filter, Module, Piece, Reach, ScopeBuilder, View};
use http::{ResponseHead, Status};
use journal::clock::Time;
use std::rc::Rc;
use stream::Compressed;

/// Which coding a response is compressed with.
pub static MODULE: Module =
    Module { name: "coding", directives: &[], variables: &[], compile: Some(compile) };

/// Content up to this many bytes that is there is compressed at once, so that it leaves with its head.
const AT_ONCE_MAX: u64 = 64 * 1024;

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let offers = [
        crate::transform::brotli::offer(view),
        crate::transform::zstd::offer(view),
        crate::transform::gzip::offer(view),
    ];
    let filters = mod_filter::offers(view);
    let vary = varies(view) || !filters.is_empty();
    let offers: Box<[Offer]> = offers.into_iter().flatten().chain(filters).collect();
    if !offers.is_empty() {
        builder.filter(Compression { offers, vary });
    }
    Ok(())
}

/// Compresses content.
struct Compression {
    /// Those that give fewer bytes come first.
    offers: Box<[Offer]>,
    /// Whether `Vary` is sent.
    vary: bool,
}

impl Filter for Compression {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !may_be_coded(&exchange.response) || !self.offers.iter().any(|offer| offer.suits(exchange)) {
            return body;
        }
        exchange.response.vary |= self.vary;
        let Some(offer) = self.choose(exchange) else { return body };
        if Cached::has_rfc9111(exchange) && rfc9111::forbids_transforming(&exchange.response.fields) {
            return body;
        }
        exchange
            .tell(|| Event::new("coding", "the content is compressed").with("coding", offer.coding.name()));
        let body = if exchange.is_head() { Body::Empty } else { compressed(offer, exchange, body) };
        let response = &mut exchange.response;
        // Neither name nor value can break a field.
        let _ = response.fields.push(b"Content-Encoding", offer.coding.name().as_bytes());
        validators::is_another_form(response);
        body
    }
}

impl Compression {
    /// The offer that the client wants most.
    fn choose(&self, exchange: &Exchange) -> Option<&Offer> {
        let accept = Accept::of(&exchange.request.head.fields);
        let mut best: (Weight, Option<&Offer>) = (accept.identity().unwrap_or(0).saturating_sub(1), None);
        for offer in self.offers.iter().filter(|offer| offer.suits(exchange)) {
            let weight = accept.weight(offer.coding.name());
            if weight > best.0 && offer.rules.as_ref().is_none_or(|rules| rules.allow(exchange)) {
                best = (weight, Some(offer));
            }
        }
        best.1
    }
}

/// Whether a response is one whose content is compressed, if it is long enough and of the right kind.
fn may_be_coded(response: &ResponseHead) -> bool {
    matches!(response.status, Status::OK | Status::FORBIDDEN | Status::NOT_FOUND) && !response.is_coded()
}

/// The body in the coding of an offer.
fn compressed(offer: &Offer, exchange: &Exchange, body: Body) -> Body {
    let blocks = match Blocks::of(body) {
        Ok(blocks) => blocks,
        Err(tunnel) => return tunnel,
    };
    let ratio = Rc::new(Ratio::default());
    exchange.attach(Reach::Shared, Rc::new(RatioOf { coding: offer.coding, ratio: Rc::clone(&ratio) }));
    let key = key(exchange, &blocks, &offer.settings, Time::now().seconds);
    // Another server may have said how long the content is that comes bit by bit.
    let length = blocks.length().or(exchange.response.content_length);
    compress((blocks, length), &offer.settings, key, ratio)
}

/// What the compressed form is kept by, if the content is a file that is small and left alone.
fn key(exchange: &Exchange, blocks: &Blocks, settings: &Settings, now: i64) -> Option<kept::Key> {
    let file = exchange.file.filter(|file| file.is_settled(now))?;
    let whole = blocks.single().map(Piece::length) == Some(file.size());
    let unchanged = exchange.response.content_length == Some(file.size());
    let fits = file.size() <= kept::FILE_BYTES_MAX;
    (whole && unchanged && fits).then(|| kept::Key { file, settings: settings.clone() })
}

/// Compresses content whose length may be known, or takes its compressed form from those that are kept.
fn compress(
    content: (Blocks, Option<u64>),
    settings: &Settings,
    key: Option<kept::Key>,
    ratio: Rc<Ratio>,
) -> Body {
    let is_there = content.0.length().is_some();
    let length = content.1;
    if let Some(content) = key.as_ref().and_then(kept::get) {
        ratio.set(length.unwrap_or_default(), content.len() as u64);
        return Body::bytes(content);
    }
    let compressed = Compressed::new(content, settings.clone(), ratio, key);
    match is_there && length.is_some_and(|length| length <= AT_ONCE_MAX) {
        true => compressed.at_once(),
        false => Body::Source(Box::new(compressed)),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{CODINGS, decode, drain};
    use super::{Settings, compress, kept, key};
    use crate::shared::blocks::Blocks;
    use crate::shared::compression::{Coding, show_ratio};
    use crate::testing::Site;
    use contract::{Body, Exchange, FileIdentity, Piece};
    use http::Status;
    use journal::clock::Time;
    use std::os::unix::fs::MetadataExt;
    use std::rc::Rc;

    const TEXT: &str = "0123456789 0123456789 0123456789";

    fn filter(exchange: &mut Exchange, mut body: Body) -> Body {
        let scope = std::sync::Arc::clone(&exchange.scope);
        for filter in scope.filters() {
            body = filter.apply(exchange, body);
        }
        body
    }

    /// The head and the plain content of a text that is sent as `text/html` to a client that accepts this.
    fn send(settings: &str, accept: &str, change: impl FnOnce(&mut Exchange)) -> (Exchange, String) {
        let site = Site::location(settings);
        let mut exchange = site.get("/");
        exchange.request.head.fields.push(b"Accept-Encoding", accept.as_bytes()).unwrap();
        exchange.response.content_type = Some(b"text/html".as_slice().into());
        exchange.response.content_length = Some(TEXT.len() as u64);
        exchange.response.etag = Some(b"\"a\"".as_slice().into());
        exchange.response.accept_ranges = true;
        change(&mut exchange);
        let body = filter(&mut exchange, Body::bytes(TEXT));
        let bytes = drain(body).unwrap();
        let plain = CODINGS.iter().find_map(|settings| decode(settings, &bytes)).unwrap_or(bytes);
        (exchange, String::from_utf8(plain).unwrap())
    }

    fn coding(exchange: &Exchange) -> &str {
        std::str::from_utf8(exchange.response.fields.get("content-encoding").unwrap_or_default()).unwrap()
    }

    const ALL: &str = "gzip on; brotli on; zstd on; gzip_vary on;";

    #[test]
    fn the_head_tells_what_became_of_the_content() {
        for (accept, ratio) in [("gzip", Coding::Gzip), ("br", Coding::Brotli), ("zstd", Coding::Zstd)] {
            let (exchange, text) = send(ALL, accept, |_| {});
            assert_eq!(text, TEXT);
            let response = &exchange.response;
            assert_eq!(coding(&exchange), accept);
            assert!(response.vary && !response.accept_ranges);
            assert_eq!((response.content_length, response.etag.as_deref()), (None, Some(&b"W/\"a\""[..])));
            let mut shown = Vec::new();
            assert!(show_ratio(&exchange, ratio, &mut shown));
            assert_eq!(shown.len(), 4, "{}", shown.escape_ascii());
            let others =
                [Coding::Gzip, Coding::Brotli, Coding::Zstd].into_iter().filter(|other| *other != ratio);
            assert!(!others.into_iter().any(|other| show_ratio(&exchange, other, &mut shown)));
        }
    }

    #[test]
    fn the_client_chooses() {
        let of = |settings: &str, accept: &str| coding(&send(settings, accept, |_| {}).0).to_owned();
        assert_eq!(of(ALL, "gzip, zstd, br"), "br");
        assert_eq!(of(ALL, "gzip, zstd, br;q=0.9"), "zstd");
        assert_eq!(of(ALL, "gzip;q=0.9, zstd;q=0.8, br;q=0"), "gzip");
        assert_eq!(of("gzip on; zstd on;", "gzip, zstd, br"), "zstd");
        assert_eq!(of(ALL, "*"), "");
        assert_eq!(of(ALL, "identity;q=0, *"), "br");
        assert_eq!(of(ALL, "identity, br;q=0.5"), "");
        assert_eq!(of(ALL, "identity;q=0.5, br;q=0.5"), "br");
        assert_eq!(of("gzip on; brotli on; brotli_types text/css;", "br, gzip"), "br", "text/html always is");
        assert_eq!(of("gzip on; brotli on; brotli_min_length 33;", "br, gzip"), "gzip");
        let old = |exchange: &mut Exchange| exchange.request.head.fields.push(b"Via", b"1.1 x").unwrap();
        assert_eq!(coding(&send(ALL, "gzip", old).0), "");
        assert_eq!(coding(&send(ALL, "gzip, br;q=0.1", old).0), "br", "gzip_proxied is about gzip");
    }

    #[test]
    fn what_is_left_as_it_is() {
        let on = |settings: &str, change: fn(&mut Exchange)| {
            let (exchange, text) = send(settings, "gzip, br", change);
            assert_eq!(text, TEXT);
            coding(&exchange).to_owned()
        };
        assert_eq!(on("gzip on;", |_| {}), "gzip");
        assert_eq!(on("", |_| {}), "", "off is the default");
        assert_eq!(on("gzip on;", |exchange| exchange.request.head.fields.clear()), "");
        assert_eq!(on("gzip on; gzip_min_length 33;", |_| {}), "");
        assert_eq!(
            on("gzip on; gzip_min_length 33;", |exchange| exchange.response.content_length = None),
            "gzip"
        );
        for status in [201, 206, 301, 304, 500] {
            let (exchange, _) = send(ALL, "gzip, br", |exchange| exchange.response.status = Status(status));
            assert_eq!((coding(&exchange), exchange.response.vary), ("", false), "{status}");
        }
        let coded = |exchange: &mut Exchange| {
            exchange.response.fields.push(b"Content-Encoding", b"x").unwrap();
        };
        assert_eq!(on(ALL, coded), "x");
    }

    #[test]
    fn types() {
        let of = |settings: &str, media_type: &'static str| {
            let set = move |exchange: &mut Exchange| {
                exchange.response.content_type =
                    (!media_type.is_empty()).then(|| media_type.as_bytes().into());
            };
            coding(&send(&format!("gzip on; {settings}"), "gzip", set).0) == "gzip"
        };
        assert!(of("", "text/html") && of("", "Text/HTML ; charset=utf-8") && !of("", "text/htmlx"));
        assert!(of("gzip_types text/CSS;", "text/css") && of("gzip_types text/css;", "text/html"));
        assert!(!of("gzip_types text/css;", "text/plain") && !of("", ""));
        assert!(of("gzip_types *;", "text/plain") && of("gzip_types *;", ""));
    }

    fn blocks(piece: Piece) -> Blocks {
        Blocks::of(Body::Piece(piece)).ok().unwrap()
    }

    fn with_length(blocks: Blocks) -> (Blocks, Option<u64>) {
        let length = blocks.length();
        (blocks, length)
    }

    #[test]
    fn a_state_of_a_file_is_compressed_once_for_each_coding() {
        let site = Site::location("");
        let long = TEXT.repeat(3000);
        for (name, text) in [("short.html", TEXT), ("long.html", &long)] {
            site.file(name, text);
            let file = std::fs::File::open(site.root().join(name)).unwrap();
            let identity = FileIdentity::new(&file.metadata().unwrap());
            assert!(
                !identity.is_settled(Time::now().seconds - 1),
                "it may change within a tick of its clock"
            );
            let piece = Piece::File { file: file.into(), offset: 0, length: text.len() as u64 };
            for settings in CODINGS {
                let key = || Some(kept::Key { file: identity, settings: settings.clone() });
                let run = |piece: Piece| {
                    drain(compress(with_length(blocks(piece)), &settings, key(), Rc::default())).unwrap()
                };
                let once = run(piece.clone());
                assert_eq!(decode(&settings, &once).unwrap(), text.as_bytes());
                assert_eq!(run(Piece::Bytes("something else".into())), once, "{settings:?}");
            }
        }
    }

    #[test]
    fn only_a_whole_and_settled_file_is_kept() {
        let is_kept = |length: u64, settled: bool, announced: u64| {
            let site = Site::location("");
            site.file("a.html", TEXT);
            let mut exchange = site.get("/a.html");
            let metadata = std::fs::metadata(site.root().join("a.html")).unwrap();
            exchange.file = Some(FileIdentity::new(&metadata));
            exchange.response.content_length = Some(announced);
            let now = metadata.ctime() + if settled { 2 } else { 1 };
            let piece = Piece::Bytes(vec![0; usize::try_from(length).unwrap()].into());
            key(&exchange, &blocks(piece), &Settings::Gzip { level: 1, window: 15 }, now).is_some()
        };
        let whole = TEXT.len() as u64;
        assert!(is_kept(whole, true, whole));
        assert!(!is_kept(whole, false, whole) && !is_kept(whole - 1, true, whole));
        assert!(!is_kept(whole, true, whole + 1));
    }
}
