//! Splits a text in Apache's language into logical lines, and each line into words.

use std::ops::Range;
use std::sync::Arc;

use crate::source::{FileId, Span};
use crate::tree::Word;

/// A logical line: physical lines that a backslash joins, without white space at both ends.
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    pub(super) span: Span,
}

/// The logical lines of a text, without empty lines and comments.
pub(super) struct Lines {
    text: Arc<[u8]>,
    file: FileId,
    pos: usize,
    line: u32,
}

impl Lines {
    pub(super) fn new(text: Arc<[u8]>, file: FileId) -> Lines {
        Lines { text, file, pos: 0, line: 0 }
    }

    /// How many physical lines were read.
    pub(super) fn number(&self) -> u32 {
        self.line
    }

    fn physical(&mut self) -> Option<Range<usize>> {
        let rest = self.text.get(self.pos..).filter(|rest| !rest.is_empty())?;
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let length = rest[..end].strip_suffix(b"\r").map_or(end, <[u8]>::len);
        let line = self.pos..self.pos + length;
        self.pos += (end + 1).min(rest.len());
        self.line += 1;
        Some(line)
    }

    /// A line and the lines that continue it, be it empty or a comment. A comment can be continued, too.
    pub(super) fn logical(&mut self) -> Option<Line> {
        let start = self.pos;
        let mut part = self.physical()?;
        let line = self.line;
        let mut text = Vec::new();
        while let Some(before) = self.text[part.clone()].strip_suffix(b"\\") {
            text.extend_from_slice(before);
            part = self.physical().unwrap_or(self.pos..self.pos);
        }
        text.extend_from_slice(&self.text[part]);
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let span = Span { file: self.file, start: offset(start), end: offset(self.pos), line };
        Some(Line { text: text.trim_ascii().to_vec(), span })
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let line = self.logical()?;
            if !line.text.is_empty() && !line.text.starts_with(b"#") {
                return Some(line);
            }
        }
    }
}

impl Line {
    /// The words. `\\` means one backslash, but the rewrite directives keep both. `\ ` does not end
    /// the word, and the backslash is kept. Inside quotes, a backslash before the quote is dropped, and the quote belongs to the
    /// word.
    pub(super) fn words(&self) -> Vec<Word> {
        let is_rewrite = self.text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"rewrite"));
        let mut words = Vec::new();
        let mut rest = self.text.trim_ascii_start();
        while let Some(&first) = rest.first() {
            let quote = Some(first).filter(|byte| matches!(byte, b'"' | b'\''));
            let inside = if quote.is_some() { &rest[1..] } else { rest };
            let (text, used) = word(inside, quote, is_rewrite);
            words.push(Word { text: text.into(), quoted: quote.is_some(), span: self.span });
            rest = inside[used..].trim_ascii_start();
        }
        words
    }
}

/// One word, and how many bytes of the text it took, the closing quote included. Without a closing quote, the word is the
/// rest of the line.
fn word(text: &[u8], quote: Option<u8>, is_rewrite: bool) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied();
        let ends = quote.map_or(byte.is_ascii_whitespace(), |quote| byte == quote);
        if ends {
            return (out, at + usize::from(quote.is_some()));
        }
        at += 1;
        let Some(next) = next.filter(|_| byte == b'\\') else {
            out.push(byte);
            continue;
        };
        if next == b'\\' && !is_rewrite || Some(next) == quote {
            out.push(next);
            at += 1;
        } else if next == b'\\' || next.is_ascii_whitespace() {
            out.extend_from_slice(&[byte, next]);
            at += 1;
        } else {
            out.push(byte);
        }
    }
    (out, at)
}
