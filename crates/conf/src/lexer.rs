//! Bytes → words, in nginx's grammar.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::lua;
use crate::source::{FileId, Span};
use crate::tree::{Word, printable};

/// Bytes that one word of a file may take as it is written, and so may a comment.
pub const WORD_BYTES_MAX: usize = 4095;

/// What ended a run of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Words and `;`, which stands on the given line.
    Simple(Vec<Word>, u32),
    /// Words and `{`, which stands on the given line.
    Open(Vec<Word>, u32),
    /// `}` on its own.
    Close(Span),
    /// The text ended where it may.
    End(Span),
}

/// Reads one text, a run of words at a time.
#[derive(Debug)]
pub struct Lexer {
    text: Arc<[u8]>,
    file: FileId,
    /// A parameter of the command line: its words have no separate limit, and its end is named so.
    parameter: bool,
    pos: usize,
    line: u32,
}

/// Where the lexer stands within a run of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    Bare,
    Quoted(u8),
    AfterQuote,
}

/// A run of words that is being read.
struct Run {
    words: Vec<Word>,
    state: State,
    /// The byte before was a backslash: this one means nothing.
    escaped: bool,
    /// After `$`: a `{` belongs to the word.
    variable: bool,
    start: usize,
    start_line: u32,
}

/// The bytes that a word without quotes goes on with, whatever was in front of them.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let special = b"\0 \t\r\n;{$\\";
    let mut at = 0;
    while at < special.len() {
        plain[special[at] as usize] = false;
        at += 1;
    }
    plain
};

impl Lexer {
    /// A lexer of a file's text.
    pub fn new(text: Arc<[u8]>, file: FileId) -> Lexer {
        Lexer { text, file, parameter: false, pos: 0, line: 1 }
    }

    /// A lexer of directives given on the command line.
    pub fn of_parameter(text: Arc<[u8]>, file: FileId) -> Lexer {
        Lexer { parameter: true, ..Lexer::new(text, file) }
    }

    /// Whether the text was given on the command line.
    pub fn is_parameter(&self) -> bool {
        self.parameter
    }

    /// The offset after what was read.
    pub(crate) fn position(&self) -> usize {
        self.pos
    }

    /// Reads up to the next `;`, `{`, `}` or the end.
    ///
    /// # Errors
    /// The grammar's messages, with the line that nginx would name. The lexer must not be used after one.
    pub fn next_token(&mut self) -> Result<Token, Diagnostic> {
        let mut run = Run {
            words: Vec::new(),
            state: State::Between,
            escaped: false,
            variable: false,
            start: self.pos,
            start_line: self.line,
        };
        while let Some(&byte) = self.text.get(self.pos) {
            if !self.parameter && self.pos - run.start > WORD_BYTES_MAX {
                return Err(self.too_long(&run));
            }
            self.pos += 1;
            self.line += u32::from(byte == b'\n');
            if let Some(token) = self.step(&mut run, byte)? {
                return Ok(token);
            }
            if run.state == State::Bare && !run.escaped {
                self.skip_plain(&mut run);
            }
        }
        self.at_end(run)
    }

    /// Goes to the end of a block of Lua, which was opened just now.
    pub fn skip_lua(&mut self) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let end = lua::end(rest);
        let lines = memchr::memchr_iter(b'\n', &rest[..end]).count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.pos += end;
    }

    /// Goes past bytes that only make a word longer.
    fn skip_plain(&mut self, run: &mut Run) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| PLAIN[usize::from(**byte)]).count();
        self.pos += length.min(self.most(run.start, length));
        run.variable &= length == 0;
    }

    /// Goes past the rest of an indentation.
    fn skip_spaces(&mut self, run: &mut Run) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        self.pos += rest.iter().take_while(|byte| **byte == b' ').count();
        run.start = self.pos - 1;
    }

    /// How many of so many bytes a word or a comment may have that began there.
    fn most(&self, start: usize, length: usize) -> usize {
        if self.parameter { length } else { start + WORD_BYTES_MAX + 1 - self.pos }
    }

    fn step(&mut self, run: &mut Run, byte: u8) -> Result<Option<Token>, Diagnostic> {
        if byte == 0 {
            return Err(self.error_here("unexpected NUL byte").hint("this is not a text file"));
        }
        if run.escaped {
            run.escaped = false;
            return Ok(None);
        }
        match run.state {
            State::AfterQuote => match byte {
                b';' | b'{' => Ok(Some(self.finish(run, byte))),
                b' ' | b'\t' | b'\r' | b'\n' | b')' => {
                    run.state = State::Between;
                    if byte == b')' { self.between(run, byte) } else { Ok(None) }
                }
                _ => Err(self.unexpected(byte).hint("a space or \";\" must follow the closing quote")),
            },
            State::Between => self.between(run, byte),
            State::Bare | State::Quoted(_) => Ok(self.within(run, byte)),
        }
    }

    fn between(&mut self, run: &mut Run, byte: u8) -> Result<Option<Token>, Diagnostic> {
        run.start = self.pos - 1;
        run.start_line = self.line;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => self.skip_spaces(run),
            b';' | b'{' if run.words.is_empty() => return Err(self.unexpected(byte)),
            b';' | b'{' => return Ok(Some(self.finish(run, byte))),
            b'}' if run.words.is_empty() => return Ok(Some(Token::Close(self.byte_span()))),
            b'}' => {
                let error = self.unexpected(byte);
                return Err(error.hint(format!("is a \";\" missing after \"{}\"?", last(&run.words))));
            }
            b'#' => self.skip_comment(run.start),
            b'"' | b'\'' => {
                run.start += 1;
                run.state = State::Quoted(byte);
            }
            _ => {
                run.escaped = byte == b'\\';
                run.variable = byte == b'$';
                run.state = State::Bare;
            }
        }
        Ok(None)
    }

    /// Goes to the end of the line, or to where the comment is too long.
    fn skip_comment(&mut self, start: usize) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.pos += length.min(self.most(start, length));
    }

    fn within(&mut self, run: &mut Run, byte: u8) -> Option<Token> {
        if byte == b'{' && run.variable {
            return None;
        }
        run.variable = byte == b'$';
        run.escaped = byte == b'\\';
        match run.state {
            State::Quoted(quote) if byte == quote => {
                run.words.push(self.word(run, true));
                run.state = State::AfterQuote;
            }
            State::Bare if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{') => {
                run.words.push(self.word(run, false));
                run.state = State::Between;
                if matches!(byte, b';' | b'{') {
                    return Some(self.finish(run, byte));
                }
            }
            _ => {}
        }
        None
    }

    fn word(&self, run: &Run, quoted: bool) -> Word {
        let end = self.pos - 1;
        let around = usize::from(quoted);
        let text = resolve(self.text.get(run.start..end).unwrap_or_default());
        Word { text, quoted, span: self.span(run.start - around, end + around, run.start_line) }
    }

    fn finish(&self, run: &mut Run, byte: u8) -> Token {
        let words = std::mem::take(&mut run.words);
        if byte == b';' { Token::Simple(words, self.line) } else { Token::Open(words, self.line) }
    }

    fn at_end(&self, run: Run) -> Result<Token, Diagnostic> {
        let here = self.span(self.pos, self.pos, self.line);
        if run.words.is_empty() && run.state == State::Between {
            return Ok(Token::End(here));
        }
        let message = if self.parameter {
            "unexpected end of parameter, expecting \";\""
        } else {
            "unexpected end of file, expecting \";\" or \"}\""
        };
        let error = Diagnostic::emerg(message).at(here);
        if let State::Quoted(_) = run.state {
            let quote = self.span(run.start - 1, run.start, run.start_line);
            let hint = format!("the quote that begins on line {} is not closed", run.start_line);
            return Err(error.under(quote).hint(hint));
        }
        let begun = run.words.first().map_or(self.span(run.start, self.pos, self.line), |word| word.span);
        Err(error.under(begun))
    }

    fn too_long(&self, run: &Run) -> Diagnostic {
        let message = match run.state {
            State::Quoted(quote) => {
                let quote = char::from(quote);
                format!("too long parameter, probably missing terminating \"{quote}\" character")
            }
            _ => {
                let begun = self.text.get(run.start..run.start + 10).unwrap_or_default();
                format!("too long parameter \"{}...\" started", printable(begun))
            }
        };
        Diagnostic::emerg(message).at(self.span(run.start, run.start + 10, run.start_line))
    }

    fn unexpected(&self, byte: u8) -> Diagnostic {
        self.error_here(&format!("unexpected \"{}\"", printable(&[byte])))
    }

    fn error_here(&self, message: &str) -> Diagnostic {
        Diagnostic::emerg(message).at(self.byte_span())
    }

    /// The byte that was just read.
    fn byte_span(&self) -> Span {
        self.span(self.pos - 1, self.pos, self.line)
    }

    fn span(&self, start: usize, end: usize, line: u32) -> Span {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { file: self.file, start: offset(start), end: offset(end), line }
    }
}

/// Removes the backslash before quotes and backslashes, and reads `\t`, `\r` and `\n`; any other backslash
/// stands for itself.
fn resolve(raw: &[u8]) -> Box<[u8]> {
    if memchr::memchr(b'\\', raw).is_none() {
        return raw.into();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, tail)) = rest.split_first() {
        let meaning = match (byte, tail.first()) {
            (b'\\', Some(&next @ (b'"' | b'\'' | b'\\'))) => Some(next),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        out.push(meaning.unwrap_or(byte));
        rest = if meaning.is_some() { &tail[1..] } else { tail };
    }
    out.into()
}

fn last(words: &[Word]) -> String {
    words.last().map(Word::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::parse_bytes;

    fn message(text: &str) -> String {
        parse_bytes(text.as_bytes()).error.map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn words_and_comments_have_4095_bytes_at_most() {
        let long = |count: usize| "x".repeat(count);
        assert_eq!(message(&format!("a {};\n", long(4095))), "");
        assert_eq!(message(&format!("a {};\n", long(4096))), "too long parameter \"xxxxxxxxxx...\" started");
        assert_eq!(message(&format!("a \"{}\";", long(4094))), "");
        // The end of the quote and the end of the directive count with it.
        assert_eq!(
            message(&format!("a \"{}\";", long(4095))),
            "too long parameter \"xxxxxxxxxx...\" started"
        );
        let unclosed = "too long parameter, probably missing terminating \"'\" character";
        assert_eq!(message(&format!("a '{}';", long(4096))), unclosed);
        assert_eq!(message(&format!("#{}\na;", long(4094))), "");
        assert_eq!(message(&format!("#{}\na;", long(4095))), "too long parameter \"#xxxxxxxxx...\" started");
        assert_eq!(message(&format!("#{}", long(4095))), "");
        let comment = format!("#{} {}\na;", long(4094), long(5));
        assert_eq!(message(&comment), "too long parameter \"#xxxxxxxxx...\" started");
        // At the very end of a text a word is not finished.
        let unfinished = "unexpected end of file, expecting \";\" or \"}\"";
        assert_eq!(message(&long(4096)), unfinished);
        assert_eq!(message(&long(4097)), "too long parameter \"xxxxxxxxxx...\" started");
        assert_eq!(message(&format!("a{}b;", " ".repeat(5000))), "");
    }

    #[test]
    fn words_are_read_whole_and_their_lines_are_counted() {
        let text = "  a b${c}d\n\n   e\\;f {  h\\\"i 'j  k';\n} # l\n m\\{n;";
        let parsed = parse_bytes(text.as_bytes());
        assert_eq!(parsed.error.map(|error| error.message), None);
        let [outer, last] = &*parsed.nodes else { panic!("{:?}", parsed.nodes) };
        let words: Vec<_> = outer.args.iter().map(|word| (word.to_string(), word.span.line)).collect();
        assert_eq!(words, [("b${c}d".to_owned(), 1), ("e\\;f".to_owned(), 3)]);
        let inner = &outer.children()[0];
        assert_eq!((inner.name.to_string().as_str(), inner.args[0].to_string().as_str()), ("h\"i", "j  k"));
        assert_eq!((last.name.to_string().as_str(), last.name.span.line), ("m\\{n", 5));
    }

    #[test]
    fn nul_bytes_are_errors_but_in_comments() {
        assert_eq!(message("a\0b;"), "unexpected NUL byte");
        assert_eq!(message("a \"\0\";"), "unexpected NUL byte");
        assert_eq!(message("a \\\0;"), "unexpected NUL byte");
        assert_eq!(message("# \0\na;"), "");
    }
}
