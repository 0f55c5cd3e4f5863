//! Responses compressed on their way: `gzip` and its kin.
//!
//! With `gzip on` content whose media type is in `gzip_types` (`text/html` always is, `*` is all) is sent
//! compressed to clients that accept it, if it has at least `gzip_min_length` bytes or is of unknown
//! length. `gzip_comp_level` is from 1 (fast) to 9 (small); little is gained above 6. The compressed
//! length is not known when the head is sent, so the content is chunked; ranges of it are not on offer,
//! and its entity tag becomes a weak one. Content that comes bit by bit is flushed whenever the server
//! waits for more. `$gzip_ratio` is how many times smaller the content became.
//!
//! `gzip_vary on` sends `Vary: Accept-Encoding`, which every site behind a shared cache needs. Requests
//! that came through a proxy (they have a `Via` field) get compressed content only as `gzip_proxied`
//! says, those of HTTP/1.0 only with `gzip_http_version 1.0`, and clients whose `User-Agent` matches one
//! of the patterns of `gzip_disable` never do.
//!
//! The compressed form of a small file is kept in memory until the file changes: up to 8 MB a thread, of
//! files up to 256 KB. Files beside which a compressed one stands already are for `gzip_static`.
//!
//! Compression tells a listener how alike two texts are: who can put text of his own into a page that
//! holds a secret, and see how long the encrypted response is, can guess the secret byte by byte (the
//! BREACH attack). Leave `gzip` off for pages that show both what a client sent and a token or other
//! secret, or let the application mask the secret anew in each response. Style sheets, scripts and
//! pages that are the same for everybody are safe.
//!
//! `gzip_window` limits how far back a repetition is found. `gzip_buffers`, `gzip_hash`,
//! `gzip_no_buffer` and `postpone_gzipping` are checked and have no effect: content is compressed in
//! blocks of 64 KB, as fast as the client takes it.
//!
//! ```file html/page.html
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ```
//!
//! ```file html/short.html
//! <p>short</p>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     gzip on;
//!     gzip_min_length 20;
//!     gzip_vary on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//! Vary: Accept-Encoding
//! Content-Encoding: gzip
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 67
//! Vary: Accept-Encoding
//!
//! <p>A page that repeats itself, repeats itself, repeats itself.</p>
//! ---
//! GET /short.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Length: 13
//!
//! <p>short</p>
//! ```

mod deflate;
mod kept;
mod rules;
mod stream;

pub(crate) use rules::Rules;
pub use rules::{Disabled, GZIP_DISABLE, GZIP_HTTP_VERSION, GZIP_PROXIED, GZIP_VARY};

use crate::shared::media_types::{self, MediaTypes, Words};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic, value};
use contract::clock::Time;
use contract::{
    Args, Body, Directive, Exchange, Filter, Loading, Module, Piece, Rule, ScopeBuilder, Variable, View,
};
use deflate::{Deflate, Settings};
use http::Status;
use std::cell::Cell;
use std::rc::Rc;
use stream::Compressed;

/// Responses compressed on their way.
pub static MODULE: Module = Module {
    name: "gzip",
    directives: &[
        &GZIP,
        &GZIP_TYPES,
        &GZIP_COMP_LEVEL,
        &GZIP_MIN_LENGTH,
        &GZIP_VARY,
        &GZIP_PROXIED,
        &GZIP_HTTP_VERSION,
        &GZIP_DISABLE,
        &GZIP_WINDOW,
        &GZIP_BUFFERS,
        &GZIP_HASH,
        &GZIP_NO_BUFFER,
        &POSTPONE_GZIPPING,
    ],
    variables: &[Variable::new("gzip_ratio", gzip_ratio)],
    compile: Some(compile),
};

pub(crate) const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `gzip on | off`
pub static GZIP: Directive<bool> = Directive::flag("gzip")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether responses are compressed for clients that accept it.");

/// `gzip_types TYPE … | *`
pub static GZIP_TYPES: Directive<Words> = Directive::new("gzip_types", media_types::parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("text/html")
    .help("The media types that are compressed, besides `text/html`.");

/// `gzip_comp_level 1 … 9`
pub static GZIP_COMP_LEVEL: Directive<u64> =
    Directive::new("gzip_comp_level", |args, _| args.value(0, |word| value::bounded(word, 1, Some(9))))
        .within(LEVELS)
        .default("1")
        .help("How much work goes into compression.");

/// `gzip_min_length LENGTH`
pub static GZIP_MIN_LENGTH: Directive<u64> = Directive::size("gzip_min_length")
    .within(LEVELS)
    .default("20")
    .help("The shortest content that is compressed, in bytes.");

/// `gzip_window SIZE`
pub static GZIP_WINDOW: Directive<u64> =
    Directive::new("gzip_window", |args, _| parse_power(args, &WINDOWS, WINDOW_WORDS))
        .within(LEVELS)
        .default("32k")
        .help("How far back a repetition is found.");

/// `gzip_buffers NUMBER SIZE`
pub static GZIP_BUFFERS: Directive<()> = Directive::new("gzip_buffers", parse_buffers)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .default("32 4k")
    .help("Accepted; memory does not depend on it.");

/// `gzip_hash SIZE`
pub static GZIP_HASH: Directive<u64> =
    Directive::new("gzip_hash", |args, _| parse_power(args, &HASHES, HASH_WORDS))
        .within(LEVELS)
        .help("Accepted; the compressor chooses the size of its tables itself.");

/// `gzip_no_buffer on | off`
pub static GZIP_NO_BUFFER: Directive<bool> =
    Directive::flag("gzip_no_buffer").within(LEVELS).default("off").help("Accepted; nothing is held back.");

/// `postpone_gzipping SIZE`
pub static POSTPONE_GZIPPING: Directive<u64> =
    Directive::size("postpone_gzipping").within(LEVELS).default("0").help("Accepted; nothing is held back.");

/// Window sizes as powers of two.
const WINDOWS: std::ops::RangeInclusive<u32> = 9..=15;
const WINDOW_WORDS: &str = "must be 512, 1k, 2k, 4k, 8k, 16k, or 32k";

/// Sizes of hash tables as powers of two.
const HASHES: std::ops::RangeInclusive<u32> = 9..=17;
const HASH_WORDS: &str = "must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k";

/// Content in memory up to this many bytes is compressed at once, so that it leaves with its head.
const AT_ONCE_MAX: u64 = 64 * 1024;

fn parse_power(
    args: &Args<'_>,
    powers: &std::ops::RangeInclusive<u32>,
    words: &str,
) -> Result<u64, Diagnostic> {
    let size = args.value(0, value::size)?;
    let fits = size.is_power_of_two() && powers.contains(&size.trailing_zeros());
    if fits { Ok(size) } else { Err(args.error(words)) }
}

fn parse_buffers(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    let invalid = || args.error("invalid value");
    let number = args.value(0, value::number).map_err(|_| invalid())?;
    let size = args.value(1, value::size)?;
    if number > 0 && size > 0 { Ok(()) } else { Err(invalid()) }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.get(&GZIP).copied().unwrap_or(false) {
        return Ok(());
    }
    let number = |directive, default| view.get(directive).copied().unwrap_or(default);
    let level = u8::try_from(number(&GZIP_COMP_LEVEL, 1)).unwrap_or(1);
    let window = u8::try_from(number(&GZIP_WINDOW, 1 << 15).trailing_zeros()).unwrap_or(15);
    builder.filter(Gzip {
        types: MediaTypes::of(view, &GZIP_TYPES, &[]),
        settings: Settings { level, window },
        min_length: number(&GZIP_MIN_LENGTH, 20),
        rules: Rules::new(view),
    });
    Ok(())
}

/// Compresses content.
struct Gzip {
    types: MediaTypes,
    settings: Settings,
    min_length: u64,
    rules: Rules,
}

impl Filter for Gzip {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.is_worth(exchange) {
            return body;
        }
        exchange.response.vary |= self.rules.vary;
        if !self.rules.allow(exchange) {
            return body;
        }
        let head_only = exchange.is_head();
        let body = if head_only { Body::Empty } else { self.compress(exchange, body) };
        let response = &mut exchange.response;
        // Neither name nor value can break a field.
        let _ = response.fields.push(b"Content-Encoding", b"gzip");
        response.content_length = None;
        response.accept_ranges = false;
        response.etag = response.etag.take().and_then(weak);
        clear_fields(&mut response.fields);
        body
    }
}

/// Another server's fields say the same as the typed ones, but of its own form of the content.
fn clear_fields(fields: &mut http::Fields) {
    fields.remove("accept-ranges");
    if let Some(tag) = fields.get("etag").map(Bytes::copy_from_slice) {
        fields.remove("etag");
        // What was a field's value is one again.
        let _ = weak(tag).map(|tag| fields.push(b"ETag", &tag));
    }
}

impl Gzip {
    /// Whether the content is of a kind that is compressed.
    fn is_worth(&self, exchange: &Exchange) -> bool {
        let response = &exchange.response;
        let encoded = response.fields.get("content-encoding").is_some_and(|coding| !coding.is_empty());
        let long = response.content_length.is_none_or(|length| length >= self.min_length);
        matches!(response.status, Status::OK | Status::FORBIDDEN | Status::NOT_FOUND)
            && !encoded
            && long
            && self.types.hold(response.content_type.as_deref())
    }

    fn compress(&self, exchange: &Exchange, body: Body) -> Body {
        let ratio = Rc::new(Ratio::default());
        exchange.attach(Rc::clone(&ratio));
        let pieces = match body {
            Body::Source(source) => return stream::of_source(source, self.settings, ratio),
            Body::Piece(piece) => vec![piece],
            Body::Pieces(pieces) => pieces,
            Body::Empty => Vec::new(),
            Body::Tunnel(_) => return body,
        };
        let key = key(exchange, &pieces, self.settings, Time::now().seconds);
        compress(pieces, self.settings, key, &ratio)
    }
}

/// What the compressed form is kept by, if the content is a file that is small and left alone.
fn key(exchange: &Exchange, pieces: &[Piece], settings: Settings, now: i64) -> Option<kept::Key> {
    let file = exchange.file.filter(|file| file.is_settled(now))?;
    let whole = matches!(pieces, [piece] if piece.length() == file.size());
    let unchanged = exchange.response.content_length == Some(file.size());
    let fits = file.size() <= kept::FILE_BYTES_MAX;
    (whole && unchanged && fits).then_some(kept::Key { file, settings })
}

/// Compresses content whose pieces are known, or takes its compressed form from those that are kept.
fn compress(pieces: Vec<Piece>, settings: Settings, key: Option<kept::Key>, ratio: &Rc<Ratio>) -> Body {
    let length = pieces.iter().map(Piece::length).sum();
    if let Some(content) = key.and_then(|key| kept::get(&key)) {
        ratio.set(length, content.len() as u64);
        return Body::bytes(content);
    }
    let in_memory = pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)));
    if !in_memory || length > AT_ONCE_MAX {
        return Body::Source(Box::new(Compressed::new(pieces, settings, Rc::clone(ratio)).kept_as(key)));
    }
    let content = at_once(&pieces, settings);
    ratio.set(length, content.len() as u64);
    if let Some(key) = key {
        kept::put(key, content.clone());
    }
    Body::bytes(content)
}

/// Compresses content that is in memory.
fn at_once(pieces: &[Piece], settings: Settings) -> Bytes {
    let mut deflate = Deflate::new(settings);
    let mut out = Vec::new();
    for piece in pieces {
        if let Piece::Bytes(bytes) = piece {
            deflate.add(bytes, &mut out);
        }
    }
    deflate.finish(&mut out);
    out.into()
}

/// The weak form of an entity tag (RFC 9110, section 8.8.1): the compressed content means the same, but
/// its bytes are others. What is no entity tag has no weak form.
fn weak(tag: Bytes) -> Option<Bytes> {
    if tag.starts_with(b"W/") && tag.len() > 2 {
        return Some(tag);
    }
    tag.starts_with(b"\"").then(|| [b"W/", &*tag].concat().into())
}

/// The lengths of content before and after it was compressed, once that is done.
#[derive(Debug, Default)]
struct Ratio {
    lengths: Cell<(u64, u64)>,
}

impl Ratio {
    fn set(&self, plain: u64, compressed: u64) {
        self.lengths.set((plain, compressed));
    }

    /// How many times smaller the content became, in hundredths and rounded.
    fn hundredths(&self) -> Option<u64> {
        let (plain, compressed) = self.lengths.get();
        let thousandths = plain.saturating_mul(1000).checked_div(compressed)?;
        Some(thousandths.saturating_add(5) / 10)
    }
}

fn gzip_ratio(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let ratio = exchange.attached::<Rc<Ratio>>().and_then(|ratio| ratio.hundredths());
    let text = ratio.map(|ratio| format!("{}.{:02}", ratio / 100, ratio % 100));
    text.inspect(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

#[cfg(test)]
mod tests {
    use super::{Ratio, Settings, compress, kept, key, weak};
    use crate::testing::Site;
    use contract::clock::Time;
    use contract::{Body, Exchange, FileIdentity, Outcome, Piece, Pull, Work};
    use http::Status;
    use std::io::Read;
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

    fn asking(site: &Site, target: &str) -> Exchange {
        let mut exchange = site.get(target);
        exchange.request.head.fields.push(b"Accept-Encoding", b"gzip").unwrap();
        exchange
    }

    /// The head and the plain content of a text that is sent as `text/html`.
    fn send(settings: &str, change: impl FnOnce(&mut Exchange)) -> (Exchange, String) {
        let site = Site::location(settings);
        let mut exchange = asking(&site, "/");
        exchange.response.content_type = Some(b"text/html".as_slice().into());
        exchange.response.content_length = Some(TEXT.len() as u64);
        exchange.response.etag = Some(b"\"a\"".as_slice().into());
        exchange.response.accept_ranges = true;
        change(&mut exchange);
        let body = filter(&mut exchange, Body::bytes(TEXT));
        let bytes = bytes_of(body);
        let mut text = String::new();
        if flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).is_err() {
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        (exchange, text)
    }

    fn bytes_of(body: Body) -> Vec<u8> {
        let mut out = Vec::new();
        let mut add = |piece: Piece| match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(&bytes),
            Piece::File { .. } => panic!("a file"),
        };
        match body {
            Body::Piece(piece) => add(piece),
            Body::Pieces(pieces) => pieces.into_iter().for_each(add),
            Body::Source(mut source) => loop {
                match source.pull() {
                    Pull::Piece(piece) => add(piece),
                    Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                    _ => break,
                }
            },
            Body::Empty | Body::Tunnel(_) => {}
        }
        out
    }

    fn is_coded(exchange: &Exchange) -> bool {
        exchange.response.fields.get("content-encoding") == Some(b"gzip")
    }

    #[test]
    fn the_head_tells_what_became_of_the_content() {
        let (exchange, text) = send("gzip on; gzip_vary on;", |_| {});
        assert_eq!(text, TEXT);
        let response = &exchange.response;
        assert!(is_coded(&exchange) && response.vary && !response.accept_ranges);
        assert_eq!((response.content_length, response.etag.as_deref()), (None, Some(&b"W/\"a\""[..])));
        let mut ratio = Vec::new();
        assert!(super::gzip_ratio(&exchange, "", &mut ratio));
        assert_eq!(ratio.len(), 4, "{}", ratio.escape_ascii());
    }

    #[test]
    fn what_is_left_as_it_is() {
        let on = |settings: &str, change: fn(&mut Exchange)| {
            let (exchange, text) = send(settings, change);
            assert_eq!(text, TEXT);
            is_coded(&exchange)
        };
        assert!(on("gzip on;", |_| {}));
        assert!(!on("", |_| {}), "off is the default");
        assert!(!on("gzip on;", |exchange| exchange.request.head.fields.clear()));
        assert!(!on("gzip on;", |exchange| exchange.subrequest = true));
        assert!(!on("gzip on; gzip_min_length 33;", |_| {}));
        assert!(on("gzip on; gzip_min_length 33;", |exchange| exchange.response.content_length = None));
        for status in [201, 206, 301, 304, 500] {
            let (exchange, _) = send("gzip on;", |exchange| exchange.response.status = Status(status));
            assert!(!is_coded(&exchange), "{status}");
        }
        let coded = |exchange: &mut Exchange| {
            exchange.response.fields.push(b"Content-Encoding", b"br").unwrap();
        };
        assert!(!on("gzip on;", coded));
    }

    #[test]
    fn types() {
        let of = |settings: &str, media_type: &'static str| {
            let set = move |exchange: &mut Exchange| {
                exchange.response.content_type =
                    (!media_type.is_empty()).then(|| media_type.as_bytes().into());
            };
            is_coded(&send(&format!("gzip on; {settings}"), set).0)
        };
        assert!(of("", "text/html") && of("", "Text/HTML ; charset=utf-8") && !of("", "text/htmlx"));
        assert!(of("gzip_types text/CSS;", "text/css") && of("gzip_types text/css;", "text/html"));
        assert!(!of("gzip_types text/css;", "text/plain") && !of("", ""));
        assert!(of("gzip_types *;", "text/plain") && of("gzip_types *;", ""));
    }

    #[test]
    fn a_state_of_a_file_is_compressed_once() {
        let site = Site::location("");
        site.file("a.html", TEXT);
        let file = std::fs::File::open(site.root().join("a.html")).unwrap();
        let identity = FileIdentity::new(&file.metadata().unwrap());
        assert!(!identity.is_settled(Time::now().seconds - 1), "it may change within a tick of its clock");
        let file = Piece::File { file: file.into(), offset: 0, length: TEXT.len() as u64 };
        for (level, first) in [(1, Piece::Bytes(TEXT.into())), (2, file)] {
            let settings = Settings { level, window: 15 };
            let key = kept::Key { file: identity, settings };
            let run = |piece: Piece| bytes_of(compress(vec![piece], settings, Some(key), &Rc::default()));
            let once = run(first);
            assert_eq!(run(Piece::Bytes("something else".into())), once);
        }
    }

    #[test]
    fn only_a_whole_and_settled_file_is_kept() {
        let gzip = |length: u64, settled: bool, announced: u64| {
            let site = Site::location("");
            site.file("a.html", TEXT);
            let mut exchange = site.get("/a.html");
            let metadata = std::fs::metadata(site.root().join("a.html")).unwrap();
            exchange.file = Some(FileIdentity::new(&metadata));
            exchange.response.content_length = Some(announced);
            let now = metadata.ctime() + if settled { 2 } else { 1 };
            let piece = Piece::Bytes(vec![0; usize::try_from(length).unwrap()].into());
            key(&exchange, &[piece], Settings { level: 1, window: 15 }, now).is_some()
        };
        let whole = TEXT.len() as u64;
        assert!(gzip(whole, true, whole));
        assert!(!gzip(whole, false, whole) && !gzip(whole - 1, true, whole) && !gzip(whole, true, whole + 1));
    }

    #[test]
    fn ratios() {
        let of = |plain, compressed| {
            let ratio = Ratio::default();
            ratio.set(plain, compressed);
            ratio.hundredths()
        };
        assert_eq!((of(2125, 1000), of(2124, 1000), of(1999, 1000)), (Some(213), Some(212), Some(200)));
        assert_eq!(of(0, 0), None);
    }

    #[test]
    fn fields_of_another_server() {
        let mut fields = http::Fields::new();
        for (name, value) in [("ETag", "\"a\""), ("Accept-Ranges", "bytes"), ("X-A", "b")] {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        super::clear_fields(&mut fields);
        assert_eq!((fields.get("etag"), fields.len()), (Some(&b"W/\"a\""[..]), 2));
    }

    #[test]
    fn weak_tags() {
        let weak = |tag: &'static str| weak(tag.into()).map(|tag| String::from_utf8(tag.into()).unwrap());
        assert_eq!(weak("\"a\"").as_deref(), Some("W/\"a\""));
        assert_eq!(weak("W/\"a\"").as_deref(), Some("W/\"a\""));
        assert_eq!(weak("a"), None);
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("gzip_comp_level 10;"), "value must be between 1 and 9");
        assert_eq!(
            Site::error("gzip_window 3k;"),
            "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"
        );
        assert_eq!(Site::error("gzip_buffers 0 4k;"), "\"gzip_buffers\" directive invalid value");
        assert_eq!(Site::error("gzip_static some;"), "invalid value \"some\"");
    }
}
