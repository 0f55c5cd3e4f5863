//! Texts whose captures may have to be escaped.

use conf::value::{Part, Template as Parsed};
use conf::{Diagnostic, Span};
use contract::{Exchange, Loading, Template};
use http::escape;
use http::words::{any_marked, where_is};

/// A text with variables, in which captures stand apart.
#[derive(Clone, Debug)]
pub struct Text {
    pieces: Box<[Piece]>,
}

#[derive(Clone, Debug)]
enum Piece {
    Plain(Template),
    Capture(u8),
}

impl Text {
    /// Compiles a text.
    pub(in crate::rewriting) fn parse(
        text: &[u8],
        span: Span,
        loading: &mut Loading,
    ) -> Result<Text, Diagnostic> {
        Ok(Text::new(parts(text, span)?, span, loading))
    }

    /// Compiles the parts of a text.
    pub(super) fn new(parts: Vec<Part>, span: Span, loading: &mut Loading) -> Text {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut flush = |plain: &mut Vec<Part>, pieces: &mut Vec<Piece>| {
            if !plain.is_empty() {
                let parsed = Parsed { parts: std::mem::take(plain).into() };
                pieces.push(Piece::Plain(Template::new(parsed, &mut loading.variables, span)));
            }
        };
        for part in parts {
            match part {
                Part::Capture(index) => {
                    flush(&mut plain, &mut pieces);
                    pieces.push(Piece::Capture(index));
                }
                part => plain.push(part),
            }
        }
        flush(&mut plain, &mut pieces);
        Text { pieces: pieces.into() }
    }

    /// The text for this exchange, with captures escaped for a query or as they are.
    pub(in crate::rewriting) fn evaluate(&self, exchange: &Exchange, escapes: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(template) => template.write(exchange, &mut out),
                Piece::Capture(index) if escapes => {
                    let mut capture = Vec::new();
                    exchange.capture(*index, &mut capture);
                    escape::argument(&capture, &mut out);
                }
                Piece::Capture(index) => {
                    exchange.capture(*index, &mut out);
                }
            }
        }
        out
    }
}

/// Takes a text apart.
pub(super) fn parts(text: &[u8], span: Span) -> Result<Vec<Part>, Diagnostic> {
    let parsed = Parsed::new(text).map_err(|error| Diagnostic::emerg(error.to_string()).at(span))?;
    Ok(parsed.parts.into_vec())
}

/// Whether the path was sent with escapes, so that what a pattern captured of it was decoded and has to be
/// encoded again where it goes into a query or a redirect. The path of a subrequest never was.
pub(super) fn was_escaped(exchange: &Exchange) -> bool {
    let escapes = |word: u64| where_is(word, b'%') | where_is(word, b'+');
    if exchange.subrequest || !any_marked(&exchange.request.uri, escapes) {
        return false;
    }
    let mut parts = exchange.request.uri.split(|&byte| byte == b'?');
    let path = parts.next().unwrap_or_default();
    path.iter().any(|byte| matches!(byte, b'%' | b'+'))
}
