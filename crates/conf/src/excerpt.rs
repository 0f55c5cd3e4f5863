//! The line that a message is about, with a caret under the part that is meant.

use std::fmt::Write as _;

use crate::source::Span;

/// Columns of text that are shown of a long line.
const COLUMNS_MAX: usize = 100;
/// Columns that are kept before the caret when a long line is cut.
const COLUMNS_BEFORE: usize = 40;

/// Appends `LINE | text` and a line with carets. Appends nothing where the span lies outside the text.
pub(crate) fn write(text: &[u8], span: Span, out: &mut String) {
    let start = usize::try_from(span.start).unwrap_or(usize::MAX).min(text.len());
    let end = usize::try_from(span.end).unwrap_or(usize::MAX).clamp(start, text.len());
    if text.is_empty() {
        return;
    }
    let line_start = text[..start].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let line_end = text[start..].iter().position(|&b| b == b'\n').map_or(text.len(), |at| start + at);
    let number = text[..line_start].iter().filter(|&&b| b == b'\n').count() + 1;
    let line = &text[line_start..line_end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let cells = Cells::new(line, start - line_start, end.min(line_end) - line_start);
    let gutter = number.to_string();
    let blank = " ".repeat(gutter.len());
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {gutter} | {}", cells.text);
    let _ = writeln!(out, "  {blank} | {}", cells.carets);
}

/// A line as it is displayed, and the line of carets below it.
struct Cells {
    text: String,
    carets: String,
}

impl Cells {
    fn new(line: &[u8], start: usize, end: usize) -> Cells {
        let all = cells(line);
        let first = all.iter().position(|(at, _)| *at >= start).unwrap_or(all.len());
        let last = all.iter().position(|(at, _)| *at >= end).unwrap_or(all.len()).max(first + 1);
        let from = if all.len() > COLUMNS_MAX { first.saturating_sub(COLUMNS_BEFORE) } else { 0 };
        let to = all.len().min(from + COLUMNS_MAX);
        let mut shown = Cells { text: String::new(), carets: String::new() };
        if from > 0 {
            shown.push("…", ' ');
        }
        for (index, (_, cell)) in all.iter().enumerate().take(to).skip(from) {
            let mark = if (first..last).contains(&index) { '^' } else { ' ' };
            shown.push(cell, mark);
        }
        if to < all.len() {
            shown.text.push('…');
        }
        if first >= to {
            shown.carets.push('^');
        }
        shown.carets.truncate(shown.carets.trim_end().len());
        shown
    }

    fn push(&mut self, cell: &str, mark: char) {
        self.text.push_str(cell);
        // A tab stays a tab on the line of carets, so that both lines break at the same columns.
        if cell == "\t" && mark == ' ' {
            self.carets.push('\t');
        } else {
            self.carets.extend(std::iter::repeat_n(mark, cell.chars().count()));
        }
    }
}

/// Each displayed character with the offset where it begins: stray bytes and controls are escaped.
fn cells(line: &[u8]) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut offset = 0;
    for chunk in line.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            let cell = if c == '\t' { "\t".to_owned() } else { crate::tree::printable(bytes) };
            out.push((offset, cell));
            offset += c.len_utf8();
        }
        for &byte in chunk.invalid() {
            out.push((offset, format!("\\x{byte:02X}")));
            offset += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileId;

    fn excerpt(text: &[u8], start: u32, end: u32) -> String {
        let mut out = String::new();
        write(text, Span { file: FileId(0), start, end, line: 1 }, &mut out);
        out
    }

    #[test]
    fn the_caret_is_under_what_is_meant() {
        assert_eq!(excerpt(b"a bc d", 2, 4), "  1 | a bc d\n    |   ^^\n");
        assert_eq!(excerpt(b"a\nbc\nd", 2, 4), "  2 | bc\n    | ^^\n");
        assert_eq!(excerpt("é ü x".as_bytes(), 3, 5), "  1 | é ü x\n    |   ^\n");
    }

    #[test]
    fn a_span_ends_with_its_line_and_has_a_caret_at_least() {
        assert_eq!(excerpt(b"ab\r\ncd", 1, 6), "  1 | ab\n    |  ^\n");
        assert_eq!(excerpt(b"ab", 2, 2), "  1 | ab\n    |   ^\n");
        assert_eq!(excerpt(b"ab", 90, 99), "  1 | ab\n    |   ^\n");
        assert_eq!(excerpt(b"", 0, 0), "");
    }

    #[test]
    fn what_cannot_be_printed_is_escaped() {
        assert_eq!(excerpt(b"\x1B[1m\xFFx", 4, 5), "  1 | \\x1B[1m\\xFFx\n    |        ^^^^\n");
        assert_eq!(excerpt(b"\t\ta", 1, 3), "  1 | \t\ta\n    | \t^^\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = [&[b'a'; 200][..], b"X", &[b'b'; 200]].concat();
        let cut = excerpt(&text, 200, 201);
        let (line, carets) = cut.split_once('\n').unwrap();
        assert_eq!(line, format!("  1 | …{}X{}…", "a".repeat(40), "b".repeat(59)));
        assert_eq!(carets.trim_end(), format!("    | {}^", " ".repeat(41)));
        let end = excerpt(&text, 401, 401);
        assert!(end.ends_with(&format!("|{}^\n", " ".repeat(42))), "{end}");
    }
}
