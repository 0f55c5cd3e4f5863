//! Configuration text in one layout. Words and comments stay as they are written; only white space changes.

mod columns;

use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::layout::columns::Row;
use crate::lexer::{Lexer, Token};
use crate::loader::{BLOCK_DEPTH_MAX, BYTE_ORDER_MARK};
use crate::lua;
use crate::source::{Sources, Span};
use crate::tree::{Word, printable};

/// Spaces for each level of blocks.
const INDENT: usize = 4;

/// Why a text has no layout: an error of the grammar, and the text that it refers to.
#[derive(Debug)]
pub struct Rejected {
    /// What is wrong, and where.
    pub error: Diagnostic,
    /// The text, for [`crate::render`].
    pub sources: Sources,
}

/// The text of one file in Fulmar's layout: one directive a line, four spaces for each level, at most one empty line
/// in a row. A directive that is written over several lines keeps its line breaks, and adjacent directives whose words
/// stand in columns keep their columns. A text that has this layout stays as it is. Files that the text includes are not read.
///
/// # Errors
/// The first error of the grammar.
pub fn layout(path: &Path, text: Vec<u8>) -> Result<Vec<u8>, Box<Rejected>> {
    let mut sources = Sources::default();
    let file = sources.add(path, text);
    let text = sources.shared_text(file);
    let lexer = Lexer::new(Arc::clone(&text), file);
    match (Writer {
        lexer,
        text: &text,
        from: 0,
        out: Vec::new(),
        open: Vec::new(),
        opened: true,
        fresh: true,
        bare: false,
        rows: Vec::new(),
    })
    .run()
    {
        Ok((out, rows)) => Ok(columns::keep(&out, &rows)),
        Err(error) => Err(Box::new(Rejected { error, sources })),
    }
}

struct Writer<'a> {
    lexer: Lexer,
    text: &'a [u8],
    /// What precedes this offset is written.
    from: usize,
    out: Vec<u8>,
    /// The blocks that are open: each one's name and place.
    open: Vec<(String, Span)>,
    /// No directive and no line with only a comment was written since the beginning of the block.
    opened: bool,
    /// The last line is complete, and the next byte begins another one.
    fresh: bool,
    /// The last byte but for the line end is the `{` of a block.
    bare: bool,
    /// The directives that take one line each.
    rows: Vec<Row>,
}

/// What stood between two words.
struct Gap {
    /// Line ends after the last comment.
    lines: usize,
    /// The gap had no byte.
    empty: bool,
}

impl Writer<'_> {
    fn run(mut self) -> Result<(Vec<u8>, Vec<Row>), Diagnostic> {
        loop {
            match self.lexer.next_token()? {
                Token::Simple(words, _) => self.simple(&words)?,
                Token::Open(words, line) => self.block(&words, line)?,
                Token::Close(span) => self.close(span)?,
                Token::End(span) => return self.end(span),
            }
        }
    }

    fn simple(&mut self, words: &[Word]) -> Result<(), Diagnostic> {
        let row = self.words(words)?;
        let goes_on = self.before_end_of_directive(1);
        self.write(b";");
        self.end_line();
        self.rows.extend(row.filter(|_| goes_on));
        Ok(())
    }

    fn block(&mut self, words: &[Word], line: u32) -> Result<(), Diagnostic> {
        let Some(name) = words.first() else { return Ok(()) };
        self.words(words)?;
        let place = Span { line, ..name.span };
        if self.open.len() == BLOCK_DEPTH_MAX {
            let message = format!("blocks are nested more than {BLOCK_DEPTH_MAX} deep");
            return Err(Diagnostic::emerg(message).at(place));
        }
        if self.before_end_of_directive(0) {
            self.write(b" ");
        }
        self.write(b"{");
        self.open.push((name.to_string(), place));
        self.opened = true;
        if lua::holds_lua(&name.text) {
            self.lexer.skip_lua();
            let lua = &self.text[self.from..self.lexer.position()];
            self.write(lua);
            self.from = self.lexer.position();
        } else {
            self.end_line();
            self.bare = true;
        }
        Ok(())
    }

    fn close(&mut self, span: Span) -> Result<(), Diagnostic> {
        if self.open.is_empty() {
            return Err(Diagnostic::emerg("unexpected \"}\"").at(span).hint("no block is open here"));
        }
        self.gap(self.lexer.position() - 1, 0);
        self.from = self.lexer.position();
        self.open.pop();
        if self.bare {
            self.out.pop();
        } else if self.fresh {
            self.indent(0);
        }
        self.write(b"}");
        self.end_line();
        self.opened = false;
        Ok(())
    }

    fn end(mut self, span: Span) -> Result<(Vec<u8>, Vec<Row>), Diagnostic> {
        if let Some((name, place)) = self.open.last() {
            let hint = format!("the block \"{name}\" that begins on line {} is not closed", place.line);
            let error = Diagnostic::emerg("unexpected end of file, expecting \"}\"");
            return Err(error.at(span).under(*place).hint(hint));
        }
        self.gap(self.text.len(), 0);
        Ok((self.out, self.rows))
    }

    /// Writes the words of a directive as they stand in the text, without what ends it; their places if they are on one
    /// line.
    fn words(&mut self, words: &[Word]) -> Result<Option<Row>, Diagnostic> {
        let mut row = Row::default();
        for (index, word) in words.iter().enumerate() {
            let (start, end) = (offset(word.span.start), offset(word.span.end));
            if start == 0 && word.text.starts_with(BYTE_ORDER_MARK) {
                let error = Diagnostic::emerg(format!("unknown directive \"{}\"", printable(&word.text)));
                let hint = "the file begins with a UTF-8 byte order mark: save it without one";
                return Err(error.at(word.span).hint(hint));
            }
            let gap = self.gap(start, usize::from(index > 0));
            match index {
                0 => {
                    self.empty_line(&gap);
                    self.indent(0);
                    self.opened = false;
                }
                _ if self.fresh => self.indent(1),
                _ if gap.lines > 0 => {
                    self.end_line();
                    self.indent(1);
                }
                // A parenthesis may touch the quote in front of it.
                _ if gap.empty => {}
                _ => self.write(b" "),
            }
            row.words.push(self.out.len()..self.out.len() + (end - start));
            row.columns.push(columns::of(self.text, start));
            self.write(&self.text[start..end]);
            self.from = end;
        }
        let first = row.words.first().map_or(0, |range| range.start);
        let one_line = !self.out[first..].iter().any(|byte| matches!(byte, b'\n' | b'\t'));
        Ok(one_line.then_some(row))
    }

    /// Writes the comments in front of the `;` or `{` that was just read; whether the line of the last word goes on.
    fn before_end_of_directive(&mut self, deeper: usize) -> bool {
        let end = self.lexer.position() - 1;
        self.gap(end, 1);
        self.from = end + 1;
        let goes_on = !self.fresh;
        if !goes_on {
            self.indent(deeper);
        }
        goes_on
    }

    /// Writes the comments up to an offset. All else there is white space.
    fn gap(&mut self, to: usize, deeper: usize) -> Gap {
        let text = self.text.get(self.from..to).unwrap_or_default();
        let mut gap = Gap { lines: 0, empty: text.is_empty() };
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if byte != b'#' {
                gap.lines += usize::from(byte == b'\n');
                at += 1;
                continue;
            }
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            self.comment(text[at..end].trim_ascii_end(), &gap, deeper);
            gap.lines = 0;
            at = end;
        }
        self.from = to;
        gap
    }

    /// Writes a comment: on the line of what it follows, or on a separate line.
    fn comment(&mut self, comment: &[u8], gap: &Gap, deeper: usize) {
        if gap.lines == 0 && !self.out.is_empty() {
            if self.fresh {
                self.out.pop();
            }
            self.write(b" ");
        } else {
            match deeper {
                0 => {
                    self.empty_line(gap);
                    self.opened = false;
                }
                _ if self.fresh => {}
                _ => self.end_line(),
            }
            self.indent(deeper);
        }
        self.write(comment);
        self.end_line();
    }

    /// Adds bytes to the last line.
    fn write(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        (self.fresh, self.bare) = (false, false);
    }

    fn end_line(&mut self) {
        self.out.push(b'\n');
        (self.fresh, self.bare) = (true, false);
    }

    /// Keeps one of the empty lines in front of a directive or a comment; none at the beginning of a block.
    fn empty_line(&mut self, gap: &Gap) {
        if gap.lines > 1 && !self.opened {
            self.out.push(b'\n');
        }
    }

    fn indent(&mut self, deeper: usize) {
        let spaces = (self.open.len() + deeper) * INDENT;
        self.out.resize(self.out.len() + spaces, b' ');
        (self.fresh, self.bare) = (false, false);
    }
}

fn offset(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse_bytes, tree};
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let out = layout(Path::new("a.conf"), text.as_bytes().to_vec());
        out.map_or_else(|rejected| rejected.error.message, |out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn one_directive_a_line_with_its_block_indented() {
        let text = "a 1  2;b{c   d;e{}}\n\n\n\nf;";
        assert_eq!(written(text), "a 1 2;\nb {\n    c d;\n    e {}\n}\n\nf;\n");
        assert_eq!(written(""), "");
        assert_eq!(written("\r\n  a;\r\n"), "a;\n");
        assert_eq!(written("a {\n\n  b;\n\n}\n"), "a {\n    b;\n}\n");
    }

    #[test]
    fn words_stay_as_they_are_written() {
        let text = "if ($a = \"b\") { c 'd  e' f\\ g \"h\\\"\n i\" ${j}k; }";
        assert_eq!(written(text), "if ($a = \"b\") {\n    c 'd  e' f\\ g \"h\\\"\n i\" ${j}k;\n}\n");
    }

    #[test]
    fn a_directive_over_several_lines_keeps_its_breaks() {
        let text = "http {\nlog_format main '$a '\n                '$b'\n;\n}";
        assert_eq!(written(text), "http {\n    log_format main '$a '\n        '$b';\n}\n");
    }

    #[test]
    fn columns_stay() {
        let text = "types {\n\ttext/html   html  htm;\n  \timage/x     x;  # y\n\n\tz/z    z;\n}";
        let expected = "types {\n    text/html   html htm;\n    image/x     x; # y\n\n    z/z z;\n}\n";
        assert_eq!(written(text), expected);
        let text = "p  A\t\ta;\np  BBBBBBB\tb;\np  C CC\tc;";
        assert_eq!(written(text), "p  A a;\np  BBBBBBB b;\np  C CC c;\n");
    }

    #[test]
    fn comments_stay_where_they_are() {
        let text = "# first\n\n#second\na; # third\nb { # fourth\n\n  # fifth\n c # sixth\n d\n # seventh\n; }#eighth\n# last";
        let expected = "# first\n\n#second\na; # third\nb { # fourth\n    # fifth\n    c # sixth\n        d\n        # \
                        seventh\n        ;\n} #eighth\n# last\n";
        assert_eq!(written(text), expected);
        assert_eq!(written("a {\n# b\n}"), "a {\n    # b\n}\n");
        assert_eq!(written("a { # b\n}"), "a { # b\n}\n");
        assert_eq!(written("a # b\n{\n}"), "a # b\n{}\n");
        assert_eq!(written("a { # {\n}"), "a { # {\n}\n");
        assert_eq!(written("a b\\\n # c\n;"), "a b\\\n # c\n    ;\n", "the line end belongs to the word");
    }

    #[test]
    fn blocks_of_lua_are_left_as_they_are() {
        let text = "a  { b_by_lua_block { if x then\n  y()  -- }\n end }  c; }";
        let expected = "a {\n    b_by_lua_block { if x then\n  y()  -- }\n end }\n    c;\n}\n";
        assert_eq!(written(text), expected);
    }

    #[test]
    fn errors_of_the_grammar_are_told() {
        assert_eq!(written("a {"), "unexpected end of file, expecting \"}\"");
        assert_eq!(written("a; }"), "unexpected \"}\"");
        assert_eq!(written("a"), "unexpected end of file, expecting \";\" or \"}\"");
        assert_eq!(written(&"a{".repeat(BLOCK_DEPTH_MAX + 1)), "blocks are nested more than 128 deep");
    }

    /// Pieces of configuration text, which together make valid and invalid texts.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a",
            "b ",
            " c",
            ";",
            ";\n",
            "a;",
            "b c;\n",
            "a;",
            "{",
            "}",
            " {\n",
            "}\n",
            "\n",
            "\n\n\n",
            "  ",
            "\t",
            "\r\n",
            "# d\n",
            "#",
            " # e  \n",
            "a  b;\n",
            "a  cc  d;\n",
            "a  b\tb;\n",
            "aa b;\n",
            "\"f  g\"",
            "'h\ni'",
            "\"j\"",
            ")",
            "(",
            "$",
            "${k}",
            "\\",
            "\\;",
            "x_by_lua_block {",
            "\"",
        ]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn the_tree_and_the_comments_stay_and_a_second_layout_changes_nothing(text in pieces()) {
            let before = parse_bytes(text.as_bytes());
            match layout(Path::new("a.conf"), text.clone().into_bytes()) {
                Err(rejected) => prop_assert!(before.error.is_some(), "{}", rejected.error.message),
                Ok(out) => {
                    prop_assert_eq!(before.error.map(|error| error.message), None);
                    let after = parse_bytes(&out);
                    prop_assert_eq!(after.error.map(|error| error.message), None);
                    prop_assert_eq!(tree::to_text(&before.nodes), tree::to_text(&after.nodes));
                    let marks = |text: &[u8]| text.iter().filter(|byte| **byte == b'#').count();
                    prop_assert_eq!(marks(text.as_bytes()), marks(&out));
                    let again = layout(Path::new("a.conf"), out.clone());
                    prop_assert_eq!(again.ok(), Some(out));
                }
            }
        }
    }
}
