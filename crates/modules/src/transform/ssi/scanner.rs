//! Commands in the text of a page: `<!--#name parameter="value" -->`. How the text is cut makes no difference.

use memchr::memmem;

const START: &[u8] = b"<!--#";
const END: &[u8] = b"-->";

/// How long the name of a command or of a parameter may be, in bytes, as in nginx.
const NAME_MAX: usize = 32;

/// How many parameters a command may have, as in nginx.
const PARAMETERS_MAX: usize = 16;

/// How long the text of a command may be beyond its values, in bytes.
const BLANKS_MAX: usize = 4096;

/// A part of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Text that is sent as it is.
    Text(Vec<u8>),
    Command(Command),
    /// A command that cannot be read, with the message for the log.
    Broken(String),
}

impl Token {
    /// Whether it is the command of this name.
    pub(super) fn is_command(&self, name: &str) -> bool {
        matches!(self, Token::Command(command) if command.name == name)
    }
}

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: String,
    /// Names and values, in the order of the page. A backslash in a value stands there as written.
    pub(super) parameters: Vec<(String, Vec<u8>)>,
    /// The command as it stands in the page.
    pub(super) written: Vec<u8>,
}

/// Reads a page.
pub(super) struct Scanner {
    /// How long a value may be, in bytes.
    value_max: usize,
    /// What was not taken yet.
    held: Vec<u8>,
    /// Whether the rest of a broken command is skipped, with the message about it.
    skipping: Option<String>,
}

impl Scanner {
    pub(super) fn new(value_max: usize) -> Scanner {
        Scanner { value_max, held: Vec::new(), skipping: None }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next part; none if more of the page is needed.
    pub(super) fn next(&mut self) -> Option<Token> {
        if self.skipping.is_some() {
            return self.skip();
        }
        let found = memmem::find(&self.held, START);
        let text = found.unwrap_or_else(|| self.held.len() - self.beginning());
        if text > 0 {
            return Some(Token::Text(self.held.drain(..text).collect()));
        }
        found?;
        match Reading::command(&self.held, self.value_max) {
            Ok(Some((name, parameters, length))) => {
                let written = self.held.drain(..length).collect();
                Some(Token::Command(Command { name, parameters, written }))
            }
            Ok(None) => None,
            Err(Wrong { message, at }) => {
                self.held.drain(..at);
                self.skipping = Some(message);
                self.skip()
            }
        }
    }

    /// What is left at the end of the page. A command that is not complete is left out, as in nginx.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.held);
        if self.skipping.is_some() || rest.starts_with(START) { Vec::new() } else { rest }
    }

    /// How many of the last bytes may begin a command.
    fn beginning(&self) -> usize {
        let most = self.held.len().min(START.len() - 1);
        (1..=most).rev().find(|&length| self.held.ends_with(&START[..length])).unwrap_or(0)
    }

    /// Leaves out what is left of a broken command.
    fn skip(&mut self) -> Option<Token> {
        match memmem::find(&self.held, END) {
            Some(at) => {
                self.held.drain(..at + END.len());
                self.skipping.take().map(Token::Broken)
            }
            None => {
                let kept = self.held.len().min(END.len() - 1);
                self.held.drain(..self.held.len() - kept);
                None
            }
        }
    }
}

/// Why a command cannot be read, and where the rest of it begins.
struct Wrong {
    message: String,
    at: usize,
}

/// What was read of a command, with its length in the page.
type Read = (String, Vec<(String, Vec<u8>)>, usize);

/// Reads one command. Each step gives nothing where the text ends.
struct Reading<'a> {
    text: &'a [u8],
    at: usize,
    name: String,
}

impl<'a> Reading<'a> {
    /// The command at the start of a text; none if it is not complete.
    fn command(text: &'a [u8], value_max: usize) -> Result<Option<Read>, Wrong> {
        let mut reading = Reading { text, at: START.len(), name: String::new() };
        let read = reading.whole(value_max)?;
        let most = BLANKS_MAX + PARAMETERS_MAX * (NAME_MAX + value_max);
        if read.is_none() && text.len() > most {
            return Err(reading.wrong("is too long"));
        }
        Ok(read)
    }

    fn whole(&mut self, value_max: usize) -> Result<Option<Read>, Wrong> {
        if self.blank().is_none() {
            return Ok(None);
        }
        let Some(()) = self.command_name()? else { return Ok(None) };
        let mut parameters = Vec::new();
        loop {
            match self.blank() {
                None => return Ok(None),
                Some(b'-') => {
                    let Some(()) = self.end()? else { return Ok(None) };
                    return Ok(Some((std::mem::take(&mut self.name), parameters, self.at)));
                }
                Some(_) if parameters.len() == PARAMETERS_MAX => {
                    return Err(self.wrong("has too many parameters"));
                }
                Some(_) => match self.parameter(value_max)? {
                    Some(parameter) => parameters.push(parameter),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Goes to the next byte that is no white space, and gives it.
    fn blank(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn command_name(&mut self) -> Result<Option<()>, Wrong> {
        let start = self.at;
        loop {
            match self.text.get(self.at) {
                None => return Ok(None),
                // A hyphen is the end of the command unless it comes first.
                Some(&byte) if is_blank(byte) || (byte == b'-' && self.at > start) => break,
                Some(_) => self.at += 1,
            }
            self.name = shown(&self.text[start..self.at]);
            if self.at - start > NAME_MAX {
                return Err(self.wrong("is too long"));
            }
        }
        Ok(Some(()))
    }

    fn parameter(&mut self, value_max: usize) -> Result<Option<(String, Vec<u8>)>, Wrong> {
        let start = self.at;
        let end = loop {
            match self.text.get(self.at) {
                None => return Ok(None),
                Some(&byte) if byte == b'=' || is_blank(byte) => break self.at,
                Some(b'-') if self.at > start => {
                    let name = shown(&self.text[start..self.at]);
                    return Err(self.unexpected(&format!("after parameter \"{name}\"")));
                }
                Some(_) => self.at += 1,
            }
            if self.at - start > NAME_MAX {
                let name = shown(&self.text[start..self.at]);
                return Err(self.wrong(&format!("has the too long parameter \"{name}\"")));
            }
        };
        let name = shown(&self.text[start..end]);
        match self.blank() {
            None => return Ok(None),
            Some(b'=') => self.at += 1,
            Some(_) => return Err(self.unexpected(&format!("after parameter \"{name}\""))),
        }
        let quote = match self.blank() {
            None => return Ok(None),
            Some(quote @ (b'"' | b'\'')) => quote,
            Some(_) => return Err(self.unexpected(&format!("before the value of parameter \"{name}\""))),
        };
        self.at += 1;
        let Some(value) = self.value(quote, &name, value_max)? else { return Ok(None) };
        match self.text.get(self.at) {
            None => Ok(None),
            Some(&byte) if byte == b'-' || is_blank(byte) => Ok(Some((name, value))),
            Some(_) => Err(self.unexpected(&format!("after the value of parameter \"{name}\""))),
        }
    }

    fn value(&mut self, quote: u8, name: &str, value_max: usize) -> Result<Option<Vec<u8>>, Wrong> {
        let start = self.at;
        let mut is_escaped = false;
        while let Some(&byte) = self.text.get(self.at) {
            if byte == quote && !is_escaped {
                self.at += 1;
                return Ok(Some(self.text[start..self.at - 1].to_vec()));
            }
            if self.at - start == value_max {
                return Err(self.wrong(&format!("has a too long value of parameter \"{name}\"")));
            }
            is_escaped = byte == b'\\' && !is_escaped;
            self.at += 1;
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<Option<()>, Wrong> {
        for expected in END {
            match self.text.get(self.at) {
                None => return Ok(None),
                Some(byte) if byte == expected => self.at += 1,
                Some(_) => return Err(self.unexpected("at its end")),
            }
        }
        Ok(Some(()))
    }

    fn unexpected(&self, place: &str) -> Wrong {
        let byte = self.text.get(self.at..=self.at).map(shown).unwrap_or_default();
        self.wrong(&format!("has an unexpected \"{byte}\" {place}"))
    }

    fn wrong(&self, problem: &str) -> Wrong {
        Wrong { message: format!("SSI command \"{}\" {problem}", self.name), at: self.at }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Scanner, Token};
    use proptest::prelude::*;

    /// The parts of a page that comes in these pieces; texts that follow each other are one.
    fn scan(pieces: &[&[u8]]) -> Vec<Token> {
        let mut scanner = Scanner::new(20);
        let mut all = Vec::new();
        let mut push = |token| match (all.last_mut(), token) {
            (Some(Token::Text(before)), Token::Text(text)) => before.extend(text),
            (_, token) => all.push(token),
        };
        for piece in pieces {
            scanner.add(piece);
            while let Some(token) = scanner.next() {
                push(token);
            }
        }
        push(Token::Text(scanner.rest()));
        all.retain(|token| *token != Token::Text(Vec::new()));
        all
    }

    /// A short form of a page's parts.
    fn short(page: &str) -> String {
        let each = scan(&[page.as_bytes()]).into_iter().map(|token| match token {
            Token::Text(text) => String::from_utf8(text).unwrap(),
            Token::Broken(message) => format!("({message})"),
            Token::Command(command) => {
                let values = command.parameters.iter();
                let values =
                    values.map(|(name, value)| format!(" {name}:{}", String::from_utf8_lossy(value)));
                format!("[{}{}]", command.name, values.collect::<String>())
            }
        });
        each.collect()
    }

    #[test]
    fn commands_stand_in_text() {
        assert_eq!(short("a<!--#echo var=\"b\" -->c"), "a[echo var:b]c");
        assert_eq!(short("<!--# include\tvirtual = '/x'\nwait='yes'-->"), "[include virtual:/x wait:yes]");
        assert_eq!(short("<!--#endif--><!--#else -->"), "[endif][else]");
        assert_eq!(short(r#"<!--#set value="a\"b\\" -->"#), r#"[set value:a\"b\\]"#);
        assert_eq!(short("<!-- no --><<!--<!--#x -->"), "<!-- no --><<!--[x]");
        assert_eq!(short("a<!--#ech"), "a", "it has no end");
        assert_eq!(short("a<!--"), "a<!--");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let broken = |page: &str| short(&format!("{page} x -->y"));
        assert_eq!(broken("<!--#a b"), "(SSI command \"a\" has an unexpected \"x\" after parameter \"b\")y");
        assert_eq!(
            broken("<!--#a b=c"),
            "(SSI command \"a\" has an unexpected \"c\" before the value of parameter \"b\")y"
        );
        assert_eq!(broken("<!--#a b-"), "(SSI command \"a\" has an unexpected \"-\" after parameter \"b\")y");
        assert_eq!(
            broken("<!--#a b='1'2"),
            "(SSI command \"a\" has an unexpected \"2\" after the value of parameter \"b\")y"
        );
        assert_eq!(broken("<!--#a -x"), "(SSI command \"a\" has an unexpected \"x\" at its end)y");
        let long = "x".repeat(40);
        assert!(broken(&format!("<!--#{long}")).ends_with(" is too long)y"));
        assert!(broken(&format!("<!--#a {long}=''")).contains("too long parameter"));
        assert!(broken(&format!("<!--#a b='{long}'")).ends_with("too long value of parameter \"b\")y"));
        assert!(broken(&format!("<!--#a {}", "b='' ".repeat(17))).contains("too many parameters"));
    }

    #[test]
    fn a_command_without_an_end_takes_bounded_memory() {
        let mut scanner = Scanner::new(20);
        scanner.add(b"<!--#a");
        for _ in 0..1000 {
            scanner.add(&[b' '; 100]);
            assert_eq!(scanner.next(), None);
            assert!(scanner.held.len() < 8192);
        }
        scanner.add(b"-->z");
        assert!(matches!(scanner.next(), Some(Token::Broken(_))));
        assert_eq!(scanner.next(), Some(Token::Text(b"z".to_vec())));
    }

    proptest! {
        #[test]
        fn cutting_makes_no_difference(
            page in "(<!--#[ab]{1,3}( [ab]=\"[ab'\\\\]{0,4}\")?( -->|-->|-|x)|[a<!#-]{0,6}){0,6}",
            cuts in proptest::collection::vec(0..80_usize, 0..8),
        ) {
            let page = page.as_bytes();
            let whole = scan(&[page]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(page.len())).collect();
            cuts.extend([0, page.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &page[pair[0]..pair[1]]).collect();
            prop_assert_eq!(&scan(&pieces), &whole);
            let bytes: Vec<&[u8]> = page.chunks(1).collect();
            prop_assert_eq!(&scan(&bytes), &whole);
        }
    }
}
