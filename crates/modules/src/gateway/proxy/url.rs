//! The URL of a directive like `proxy_pass` with variables. What comes from the decoded path is encoded again, so that the
//! upstream server reads the path that a location was chosen by.

use conf::value::{self, Part, Template as Parsed};
use conf::{Diagnostic, Span, Word};
use contract::{Exchange, Loading, Request, Template};
use http::words::{any_marked, where_is};
use http::{escape, uri};
use memchr::{memchr, memmem};

/// A URL with variables.
#[derive(Clone, Debug)]
pub(super) struct Url {
    pieces: Box<[Piece]>,
}

#[derive(Clone, Debug)]
struct Piece {
    template: Template,
    /// Whether its value can be decoded text.
    may_be_decoded: bool,
}

/// Variables whose values are as the client sent them, by name or by the beginning of the name.
const AS_SENT: [&str; 5] = ["args", "is_args", "query_string", "request", "request_uri"];
const AS_SENT_FAMILIES: [&str; 3] = ["arg_", "cookie_", "http_"];

impl Url {
    /// Compiles a URL.
    pub(super) fn new(word: &Word, loading: &mut Loading) -> Result<Url, Diagnostic> {
        let parsed =
            value::template(word).map_err(|error| Diagnostic::emerg(error.to_string()).at(word.span))?;
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        for part in parsed.parts {
            if may_be_decoded(&part) {
                push(&mut pieces, std::mem::take(&mut plain), (false, word.span), loading);
                push(&mut pieces, vec![part], (true, word.span), loading);
            } else {
                plain.push(part);
            }
        }
        push(&mut pieces, plain, (false, word.span), loading);
        Ok(Url { pieces: pieces.into() })
    }

    /// The URL for this exchange.
    pub(super) fn evaluate(&self, exchange: &Exchange) -> Vec<u8> {
        let mut url = Vec::new();
        // What the client sent plain stays plain.
        let was_decoded = self.pieces.iter().any(|piece| piece.may_be_decoded)
            && (exchange.routing.internal || has_escapes(&exchange.request));
        for Piece { template, may_be_decoded } in &self.pieces {
            let start = url.len();
            template.write(exchange, &mut url);
            if was_decoded && *may_be_decoded {
                encode(exchange, &mut url, start);
            }
        }
        url
    }
}

fn push(
    pieces: &mut Vec<Piece>,
    parts: Vec<Part>,
    (may_be_decoded, span): (bool, Span),
    loading: &mut Loading,
) {
    if !parts.is_empty() {
        let template = Template::new(Parsed { parts: parts.into() }, &mut loading.variables, span);
        pieces.push(Piece { template, may_be_decoded });
    }
}

fn may_be_decoded(part: &Part) -> bool {
    match part {
        Part::Literal(_) => false,
        Part::Capture(_) => true,
        Part::Variable(name) => {
            let name = name.to_ascii_lowercase();
            let in_family = AS_SENT_FAMILIES.iter().any(|family| name.starts_with(family));
            !in_family && !AS_SENT.contains(&&*name)
        }
    }
}

/// Encodes the value from `start` on if it is a part of the decoded path, as it must be in its place: the path or the query.
fn encode(exchange: &Exchange, url: &mut Vec<u8>, start: usize) {
    let (before, value) = url.split_at(start);
    let uri = memmem::find(before, b"://").map(|at| &before[at + 3..]).unwrap_or_default();
    // A value that also has the host is a URL, which has its own escapes.
    let in_uri = memchr(b'/', uri).is_some() || (!uri.is_empty() && value.starts_with(b"/"));
    let in_query = memchr(b'?', uri).is_some();
    let escape: fn(&[u8], &mut Vec<u8>) = match (in_query, in_uri) {
        // As in `rewrite`: an internal redirect alone escapes nothing in a query.
        (true, _) if !has_escapes(&exchange.request) => return,
        (true, _) => escape::argument,
        (false, true) => escape::path,
        (false, false) => return,
    };
    if is_of_path(exchange, value) {
        let value = url.split_off(start);
        escape(&value, url);
    }
}

/// Whether a text is a part of the decoded path: the current one, or the one that the client asked for.
fn is_of_path(exchange: &Exchange, text: &[u8]) -> bool {
    let request = &exchange.request;
    let is_of_sent = || {
        let mut sent = uri::Target::default();
        let merge = exchange.scope.policy.head.merge_slashes;
        uri::parse_target(request.head.target(), merge, &mut sent).is_ok()
            && memmem::find(&sent.path, text).is_some()
    };
    memmem::find(&request.path, text).is_some() || is_of_sent()
}

/// Whether the client escaped anything of the path. Where it did not, its own spelling is kept.
pub(super) fn has_escapes(request: &Request) -> bool {
    let has_percent = |text: &[u8]| any_marked(text, |word| where_is(word, b'%'));
    let path = || memchr(b'?', &request.uri).map_or(&request.uri[..], |end| &request.uri[..end]);
    has_percent(&request.uri) && has_percent(path())
}
