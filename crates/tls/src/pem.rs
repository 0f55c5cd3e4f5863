//! PEM texts (RFC 7468), read as strictly as OpenSSL reads them: a damaged line never hides a section.
//!
//! The library that decodes a section ignores what it does not understand. A file that was put together by `cat` would lose
//! the section that begins in the line of an end.

use std::ops::ControlFlow;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Some editors write it in front of a text. OpenSSL skips it, too.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The line with this number begins or ends a section in a wrong way, or begins one that has no end.
    Line(usize),
    /// A section has content that is not what its label says.
    Content,
}

/// A section of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// What the content is, such as `CERTIFICATE`.
    pub(crate) label: &'a str,
    /// The lines between begin and end, without white space at their ends.
    body: Vec<u8>,
}

impl Section<'_> {
    /// The section as a separate text, with this label.
    pub(crate) fn text(&self, label: &str) -> Vec<u8> {
        let (begin, end) = (format!("-----BEGIN {label}-----\n"), format!("-----END {label}-----\n"));
        [begin.as_bytes(), &self.body, end.as_bytes()].concat()
    }
}

/// The sections of a text, in order. Text outside of them is a comment. Nothing follows an error.
pub(crate) struct Sections<'a> {
    rest: &'a [u8],
    /// How many lines were read.
    lines: usize,
}

/// The sections of a text.
pub(crate) fn sections(text: &[u8]) -> Sections<'_> {
    Sections { rest: text, lines: 0 }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut open, mut begun) = (None, 0);
        while let Some(line) = self.line() {
            match read(line, &mut open) {
                ControlFlow::Continue(()) if open.is_none() => {}
                ControlFlow::Continue(()) => begun = if begun == 0 { self.lines } else { begun },
                ControlFlow::Break(Some(section)) => return Some(Ok(section)),
                ControlFlow::Break(None) => return Some(Err(self.fail(self.lines))),
            }
        }
        open.map(|_| Err(self.fail(begun)))
    }
}

impl<'a> Sections<'a> {
    /// The next line, without its end and the white space before that. CR ends a line, too.
    fn line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (line, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let length = if after.starts_with(b"\r\n") { 2 } else { after.len().min(1) };
        (self.rest, self.lines) = (&after[length..], self.lines + 1);
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        Some(line.trim_ascii_end())
    }

    fn fail(&mut self, line: usize) -> Unreadable {
        self.rest = &[];
        Unreadable::Line(line)
    }
}

/// Reads a line: breaks with a section that is whole, or with none where the line is wrong.
fn read<'a>(line: &'a [u8], open: &mut Option<Section<'a>>) -> ControlFlow<Option<Section<'a>>> {
    const WRONG: ControlFlow<Option<Section<'_>>> = ControlFlow::Break(None);
    let marked = [BEGIN, END].map(|mark| line.trim_ascii_start().starts_with(mark));
    match (open.take(), marked) {
        (None, [true, _]) => match label(line, BEGIN) {
            Some(label) => *open = Some(Section { label, body: Vec::new() }),
            None => return WRONG,
        },
        (None, [_, true]) | (Some(_), [true, _]) => return WRONG,
        (None, _) => {}
        (Some(section), [_, true]) => {
            let is_same = label(line, END) == Some(section.label);
            return ControlFlow::Break(is_same.then_some(section));
        }
        (Some(mut section), _) => {
            section.body.extend_from_slice(line);
            section.body.push(b'\n');
            *open = Some(section);
        }
    }
    ControlFlow::Continue(())
}

/// The label of a line that begins with this mark and has nothing else.
fn label<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a str> {
    let label = line.strip_prefix(mark)?.strip_suffix(DASHES)?;
    std::str::from_utf8(label).ok().filter(|label| !label.contains('-'))
}

#[cfg(test)]
mod tests {
    use super::{Unreadable, sections};

    fn labels(text: &str) -> Result<Vec<&str>, Unreadable> {
        sections(text.as_bytes()).map(|section| Ok(section?.label)).collect()
    }

    #[test]
    fn sections_are_read_or_a_line_is_at_fault() {
        let (one, two) =
            ("-----BEGIN A-----\nYQ==\n-----END A-----\n", "-----BEGIN B-----\n\n-----END B-----");
        let both = Ok(vec!["A", "B"]);
        let line = |number| Err(Unreadable::Line(number));
        for (text, expected) in [
            (format!("{one}{two}"), both.clone()),
            (format!("a comment\n{one}# -----BEGIN C-----\n{two}\n"), both.clone()),
            (format!("{one}{two}").replace('\n', "\r\n"), both.clone()),
            (format!("{one}{two}").replace('\n', "  \r"), both.clone()),
            (format!("\u{feff}{one}\u{feff}{two}"), both),
            (format!("{}{two}", one.trim_end()), line(3)),
            (format!("{one} {two}"), line(4)),
            (one.replace("-----END", "----END"), line(1)),
            (one.replace("-----BEGIN", "----BEGIN"), line(3)),
            (one.replace("BEGIN A-----", "BEGIN A----"), line(1)),
            (one.replace("END A", "END B"), line(3)),
            (format!("-----BEGIN A-----\nYQ\n{one}"), line(3)),
            (format!("{one}-----BEGIN"), Ok(vec!["A"])),
            (format!("{one}-----BEGIN A-----\nYQ=="), line(4)),
            (String::new(), Ok(vec![])),
        ] {
            assert_eq!(labels(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_section_is_written_with_another_label() {
        let text = b"-----BEGIN A-----\nkey: value\n\nYQ== \n-----END A-----\n";
        let section = sections(text).next().unwrap().unwrap();
        assert_eq!(section.text("B"), b"-----BEGIN B-----\nkey: value\n\nYQ==\n-----END B-----\n");
    }
}
