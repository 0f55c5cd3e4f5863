//! Decompresses content for clients that do not accept gzip: `gunzip`.
//!
//! With `gunzip on`, content with `Content-Encoding: gzip`, from an upstream server or from a file by `gzip_static
//! always`, is decompressed for clients that would get no gzip: those that do not accept it, and those that
//! `gzip_proxied`, `gzip_http_version` and `gzip_disable` exclude. So a cache or a disk needs only the compressed
//! form. The length is not known when the head is sent, so the content is sent in chunks, ranges do not work, and the
//! entity tag becomes a weak one. `gzip_vary on` adds `Vary: Accept-Encoding`.
//!
//! If the content is not valid gzip, the connection is closed, so that the client notices that it is incomplete, and
//! the error log says so. At most 64 KB of decompressed content are in memory for a connection. `gunzip_buffers` is
//! checked and has no effect.
//!
//! nginx: --with-http_gunzip_module
//!
//! ```conf
//! server {
//!     listen 8080;
//!     gunzip on;
//!     location / {
//!         proxy_pass http://127.0.0.1:8081;
//!         proxy_set_header Accept-Encoding gzip;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     gzip on;
//!     gzip_http_version 1.0;
//!     location / {
//!         default_type text/html;
//!         return 200 "A text that repeats itself, repeats itself, repeats itself.\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Transfer-Encoding: chunked
//!
//! A text that repeats itself, repeats itself, repeats itself.
//! ---
//! GET / HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Encoding: gzip
//! ```

use crate::shared::blocks::{Block, Blocks};
use crate::shared::compression::{LEVELS, Rules, parse_buffers, varies};
use crate::shared::validators;
use bytes::Bytes;
use conf::{Arity, Diagnostic};
use contract::{
    Body, Directive, Event, Exchange, Filter, Module, Outcome, Piece, Pull, RequestLog, ScopeBuilder, Source,
    Turn, View,
};
use flate2::{Decompress, FlushDecompress, Status as State};
use http::Status;
use journal::Level;

/// Compressed content for clients that cannot read it.
pub static MODULE: Module = Module {
    name: "gunzip",
    directives: &[&GUNZIP, &GUNZIP_BUFFERS],
    variables: &[],
    compile: Some(compile),
};

/// `gunzip on | off`
pub static GUNZIP: Directive<bool> = Directive::flag("gunzip")
    .within(LEVELS)
    .default("off")
    .help("Whether compressed content is decompressed for clients that do not accept gzip.");

/// `gunzip_buffers NUMBER SIZE`
pub static GUNZIP_BUFFERS: Directive<()> = Directive::new("gunzip_buffers", parse_buffers)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .default("32 4k")
    .help("Accepted; memory does not depend on it.");

/// The longest piece of content that is made at once, in bytes.
const PIECE_MAX: usize = 64 * 1024;

/// The window of the gzip format, as a power of two.
const WINDOW: u8 = 15;

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&GUNZIP).copied().unwrap_or(false) {
        builder.filter(Gunzip { rules: Rules::new(view), vary: varies(view) });
    }
    Ok(())
}

/// Uncompresses content.
struct Gunzip {
    rules: Rules,
    /// Whether `Vary` is sent.
    vary: bool,
}

impl Filter for Gunzip {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let response = &exchange.response;
        let coding = response.fields.get("content-encoding").unwrap_or_default();
        // A part of the compressed form cannot be read alone.
        if !coding.eq_ignore_ascii_case(b"gzip") || response.status == Status::PARTIAL_CONTENT {
            return body;
        }
        exchange.response.vary |= self.vary;
        if self.rules.accept(exchange) {
            return body;
        }
        exchange.tell(|| Event::new("gunzip", "the content is uncompressed"));
        let body = if exchange.is_head() { Body::Empty } else { uncompress(exchange, body) };
        let response = &mut exchange.response;
        response.fields.remove("content-encoding");
        validators::is_another_form(response);
        body
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

fn uncompress(exchange: &Exchange, body: Body) -> Body {
    match Blocks::of(body) {
        Ok(blocks) => Body::Source(Box::new(Gunzipped::new(blocks, exchange.request_log()))),
        Err(tunnel) => tunnel,
    }
}

/// Content on its way out of the gzip format.
struct Gunzipped {
    blocks: Blocks,
    /// What is left of the block.
    input: Bytes,
    inflate: Decompress,
    /// Whether a member of the format is complete; there may be another.
    member_ended: bool,
    /// Whether the last output filled its memory, so that there may be more without more input.
    was_full: bool,
    ended: Option<Result<(), Broken>>,
    log: RequestLog,
}

/// The content is not what it claims to be.
#[derive(Clone, Copy)]
struct Broken;

impl Gunzipped {
    fn new(blocks: Blocks, log: RequestLog) -> Gunzipped {
        Gunzipped {
            blocks,
            input: Bytes::new(),
            inflate: Decompress::new_gzip(WINDOW),
            member_ended: false,
            was_full: false,
            ended: None,
            log,
        }
    }

    /// What comes out of the input, up to a limit.
    fn inflate(&mut self) -> Result<Vec<u8>, Broken> {
        let mut out = Vec::with_capacity(PIECE_MAX);
        while out.len() < PIECE_MAX && (self.was_full || !self.input.is_empty()) {
            if std::mem::take(&mut self.member_ended) {
                self.inflate.reset(true);
            }
            let (taken, made) = (self.inflate.total_in(), out.len());
            let state = self.inflate.decompress_vec(&self.input, &mut out, FlushDecompress::None);
            let taken = usize::try_from(self.inflate.total_in() - taken).unwrap_or_default();
            let progress = taken > 0 || out.len() > made;
            self.input = self.input.split_off(taken.min(self.input.len()));
            self.was_full = out.len() == out.capacity();
            match state {
                Ok(State::StreamEnd) => (self.member_ended, self.was_full) = (true, false),
                Ok(State::Ok | State::BufError) if progress => {}
                Ok(State::Ok | State::BufError) if self.input.is_empty() => self.was_full = false,
                _ => {
                    self.log.write(
                        Level::Error,
                        "inflate() failed: the content is not in the gzip format",
                        None,
                    );
                    return Err(Broken);
                }
            }
        }
        Ok(out)
    }

    fn end(&mut self) -> Result<(), Broken> {
        if self.member_ended {
            return Ok(());
        }
        self.log.write(Level::Error, "the content in the gzip format is cut off", None);
        Err(Broken)
    }

    fn run(&mut self, turn: &mut Turn<'_, '_>) -> Result<Option<Pull>, Broken> {
        if self.was_full || !self.input.is_empty() {
            let out = self.inflate()?;
            return Ok((!out.is_empty()).then(|| Pull::Piece(Piece::Bytes(out.into()))));
        }
        match self.blocks.next(turn) {
            Block::Bytes(bytes) => self.input = bytes,
            Block::Await(work) => return Ok(Some(Pull::Await(work))),
            Block::Pending { lasts } => return Ok(Some(Pull::Pending { lasts })),
            Block::End => {
                self.end()?;
                self.ended = Some(Ok(()));
            }
            Block::Failed => return Err(Broken),
        }
        Ok(None)
    }
}

impl Source for Gunzipped {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            match self.ended {
                Some(Ok(())) => return Pull::End,
                Some(Err(Broken)) => return Pull::Failed,
                None => {}
            }
            match self.run(turn) {
                Ok(Some(pull)) => return pull,
                Ok(None) => {}
                Err(Broken) => self.ended = Some(Err(Broken)),
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.blocks.resume(outcome);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        self.blocks.read_ahead(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::{Gunzipped, PIECE_MAX};
    use crate::shared::blocks::Blocks;
    use crate::testing::{Site, pull};
    use crate::transform::coding::testing::{Slow, drain, file};
    use contract::{Body, Exchange, Piece, Pull};
    use flate2::Compression;
    use flate2::read::GzEncoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzEncoder::new(bytes, Compression::new(6)).read_to_end(&mut out).unwrap();
        out
    }

    fn gunzipped(body: Body) -> Gunzipped {
        let log = Site::location("").get("/").request_log();
        Gunzipped::new(Blocks::of(body).ok().unwrap(), log)
    }

    fn gunzip(body: Body) -> Option<Vec<u8>> {
        drain(Body::Source(Box::new(gunzipped(body))))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_compressed_comes_out_however_it_is_cut(
            members in proptest::collection::vec(
                prop_oneof![
                    (any::<u8>(), 0..300_000_usize).prop_map(|(byte, length)| vec![byte; length]),
                    proptest::collection::vec(any::<u8>(), 0..2000),
                ],
                1..4,
            ),
            cuts in proptest::collection::vec(0..100_usize, 0..5),
        ) {
            let coded: Vec<u8> = members.iter().flat_map(|member| gzip(member)).collect();
            let mut pieces = Vec::new();
            let mut rest = &coded[..];
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece.to_vec());
                rest = behind;
            }
            pieces.push(rest.to_vec());
            let plain = members.concat();
            prop_assert_eq!(gunzip(Body::Source(Box::new(Slow::new(&pieces)))).unwrap(), &plain[..]);
            let pieces = pieces.into_iter().map(|piece| Piece::Bytes(piece.into())).collect();
            prop_assert_eq!(gunzip(Body::Pieces(pieces)).unwrap(), &plain[..]);
            let length = coded.len() as u64;
            let piece = Piece::File { file: file(&coded), offset: 0, length };
            prop_assert_eq!(gunzip(Body::Piece(piece)).unwrap(), &plain[..]);
        }

        #[test]
        fn what_is_not_whole_is_never_taken_for_whole(
            plain in proptest::collection::vec(any::<u8>(), 0..500),
            place in any::<prop::sample::Index>(),
            change in 1..=255_u8,
            is_cut in any::<bool>(),
        ) {
            let mut coded = gzip(&plain);
            let at = place.index(coded.len());
            if is_cut {
                coded.truncate(at);
                prop_assert_eq!(gunzip(Body::bytes(coded)), None);
            } else {
                coded[at] ^= change;
                // Some bits of the header mean nothing, such as those of the time.
                prop_assert!(gunzip(Body::bytes(coded)).is_none_or(|out| out == plain));
            }
        }
    }

    #[test]
    fn what_is_behind_the_end_is_content_of_the_format_or_an_error() {
        let whole = gzip(b"text");
        assert_eq!(gunzip(Body::bytes([&whole[..], &whole].concat())).unwrap(), b"texttext");
        assert_eq!(gunzip(Body::bytes([&whole[..], b"x"].concat())), None);
        assert_eq!(gunzip(Body::bytes(&b"plain"[..])), None);
        assert_eq!(gunzip(Body::Empty), None, "nothing is nothing in this format");
    }

    #[test]
    fn little_becomes_much_only_as_fast_as_it_is_taken() {
        let bomb = gzip(&vec![0; 100 * PIECE_MAX]);
        assert!(bomb.len() < 10_000);
        let mut source = gunzipped(Body::bytes(bomb));
        let mut length = 0;
        loop {
            match pull(&mut source) {
                Pull::Piece(piece) => {
                    assert!(piece.length() <= PIECE_MAX as u64);
                    length += piece.length();
                }
                Pull::End => break,
                _ => panic!("neither waits nor fails"),
            }
        }
        assert_eq!(length, 100 * PIECE_MAX as u64);
    }

    /// The head of a response in this coding, to a client that accepts that one.
    fn head(settings: &str, coding: &str, accept: &str, change: impl FnOnce(&mut Exchange)) -> Exchange {
        let site = Site::location(settings);
        let mut exchange = site.get("/");
        exchange.request.head.fields.push(b"Accept-Encoding", accept.as_bytes()).unwrap();
        exchange.response.fields.push(b"Content-Encoding", coding.as_bytes()).unwrap();
        exchange.response.content_length = Some(10);
        exchange.response.etag = Some(b"\"a\"".as_slice().into());
        exchange.response.accept_ranges = true;
        change(&mut exchange);
        let scope = std::sync::Arc::clone(&exchange.scope);
        let body = Body::bytes(gzip(b"text"));
        scope.filters().iter().fold(body, |body, filter| filter.apply(&mut exchange, body));
        exchange
    }

    #[test]
    fn who_gets_plain_content() {
        let is_plain = |settings: &str, coding: &str, accept: &str| {
            let exchange = head(settings, coding, accept, |_| {});
            let response = &exchange.response;
            let plain = response.fields.get("content-encoding").is_none();
            assert_eq!(response.content_length.is_none(), plain);
            assert_eq!(response.etag.as_deref() == Some(b"W/\"a\""), plain);
            (plain, response.vary)
        };
        let on = "gunzip on; gzip_vary on;";
        assert_eq!(is_plain("gzip_vary on;", "gzip", ""), (false, false), "off is the default");
        assert_eq!(is_plain(on, "GZip", "br"), (true, true));
        assert_eq!(is_plain(on, "gzip", "gzip"), (false, true));
        assert_eq!(is_plain(on, "gzip", "gzip;q=0"), (true, true));
        assert_eq!(is_plain("gunzip on;", "gzip", ""), (true, false));
        assert_eq!(is_plain(on, "gzip, gzip", "br"), (false, false));
        assert_eq!(is_plain(on, "br", ""), (false, false));
        let old = head(on, "gzip", "gzip", |exchange| {
            exchange.request.head.fields.push(b"Via", b"1.1 x").unwrap();
        });
        assert!(old.response.fields.get("content-encoding").is_none());
        let part = head(on, "gzip", "", |exchange| exchange.response.status = http::Status::PARTIAL_CONTENT);
        assert!(part.response.fields.get("content-encoding").is_some());
    }
}
