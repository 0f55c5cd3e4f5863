//! What each character of one charset is in another: `charset_map`.

use super::utf8::character;
use conf::spec::unexpected_block;
use conf::{Diagnostic, Node, Word};
use contract::{Args, Loading};
use http::hex;
use std::collections::HashMap;
use std::sync::Arc;

/// Tables between two charsets, one for each direction.
#[derive(Clone, Debug)]
pub struct CharsetMap {
    from: Box<[u8]>,
    to: Box<[u8]>,
    forth: Arc<Table>,
    back: Arc<Table>,
}

/// What happens to each character.
#[derive(Debug)]
pub(super) enum Table {
    /// Of each byte, another byte.
    Bytes(Box<[u8; 256]>),
    /// Of each byte, a character in UTF-8.
    ToUtf8(Box<[Box<[u8]>]>),
    /// Of each character, a byte; others become references, as HTML has them.
    FromUtf8(HashMap<u16, u8>),
}

/// How long a character may be that a byte becomes, in bytes.
const UTF8_MAX: usize = 3;

/// What stands for a byte that no line of a block names.
const UNKNOWN: u8 = b'?';

fn is_utf8(charset: &[u8]) -> bool {
    charset.eq_ignore_ascii_case(b"utf-8")
}

pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<CharsetMap, Diagnostic> {
    let (from, to) = (args.word(0)?, args.word(1)?);
    let error = |text: String| Err(Diagnostic::emerg(text).at(args.node.span).under(from.span));
    if from.text.eq_ignore_ascii_case(&to.text) {
        return error(format!("\"charset_map\" between the same charsets \"{from}\" and \"{to}\""));
    }
    if is_utf8(&from.text) {
        let text = "\"charset_map\" with \"utf-8\" charset should be given in the second column";
        return error(text.to_owned());
    }
    let (forth, back) = match is_utf8(&to.text) {
        true => utf8_tables(args.node.children())?,
        false => byte_tables(args.node.children())?,
    };
    Ok(CharsetMap {
        from: from.text.clone(),
        to: to.text.clone(),
        forth: Arc::new(forth),
        back: Arc::new(back),
    })
}

fn byte_tables(lines: &[Node]) -> Result<(Table, Table), Diagnostic> {
    let mut tables = [ascii(), ascii()];
    for line in lines {
        let (byte, word) = entry(line)?;
        let other = byte_in_hex(word).ok_or_else(|| invalid(line, word))?;
        tables[0][usize::from(byte)] = other;
        tables[1][usize::from(other)] = byte;
    }
    let [forth, back] = tables.map(Table::Bytes);
    Ok((forth, back))
}

fn utf8_tables(lines: &[Node]) -> Result<(Table, Table), Diagnostic> {
    let mut forth: Box<[Box<[u8]>]> = ascii().iter().map(|&byte| Box::from([byte])).collect();
    let mut back = HashMap::new();
    for line in lines {
        let (byte, word) = entry(line)?;
        let bytes = hex::bytes(&word.text).filter(|bytes| bytes.len() <= UTF8_MAX);
        let character = bytes.as_deref().and_then(character);
        let (Some(bytes), Some(character)) = (bytes, character) else { return Err(invalid(line, word)) };
        forth[usize::from(byte)] = bytes.into();
        back.insert(character, byte);
    }
    Ok((Table::ToUtf8(forth), Table::FromUtf8(back)))
}

/// A table that knows ASCII.
fn ascii() -> Box<[u8; 256]> {
    let mut table = Box::new([UNKNOWN; 256]);
    (0..128).for_each(|byte: u8| table[usize::from(byte)] = byte);
    table
}

/// A line of a block: a byte, and the word that says what it becomes.
fn entry(line: &Node) -> Result<(u8, &Word), Diagnostic> {
    if line.block.is_some() {
        return Err(unexpected_block(line));
    }
    let [word] = &line.args[..] else {
        return Err(Diagnostic::emerg("invalid parameters number").at(line.span).under(line.name.span));
    };
    let byte = byte_in_hex(&line.name).ok_or_else(|| invalid(line, &line.name))?;
    Ok((byte, word))
}

fn invalid(line: &Node, word: &Word) -> Diagnostic {
    Diagnostic::emerg(format!("invalid value \"{word}\"")).at(line.span).under(word.span)
}

fn byte_in_hex(word: &Word) -> Option<u8> {
    let text = std::str::from_utf8(&word.text).ok().filter(|text| !text.starts_with('+'))?;
    u8::from_str_radix(text, 16).ok()
}

impl CharsetMap {
    /// The table from one charset to another, where this map has it.
    pub(super) fn table(&self, from: &[u8], to: &[u8]) -> Option<&Arc<Table>> {
        let is = |charsets: [&[u8]; 2]| {
            charsets[0].eq_ignore_ascii_case(from) && charsets[1].eq_ignore_ascii_case(to)
        };
        match (is([&self.from, &self.to]), is([&self.to, &self.from])) {
            (true, _) => Some(&self.forth),
            (_, true) => Some(&self.back),
            _ => None,
        }
    }

    /// A charset as it is written here, which is how it is named to clients.
    pub(super) fn spelling(&self, charset: &[u8]) -> Option<&[u8]> {
        [&self.from, &self.to].into_iter().find(|own| own.eq_ignore_ascii_case(charset)).map(|own| &**own)
    }

    /// The complaint about a second map between the same charsets.
    pub(super) fn duplicate(&self) -> String {
        let [from, to] = [&self.from, &self.to].map(|name| String::from_utf8_lossy(name));
        format!("duplicate \"charset_map\" between \"{from}\" and \"{to}\"")
    }

    /// Whether another map is between the same charsets.
    pub(super) fn is_like(&self, other: &CharsetMap) -> bool {
        self.table(&other.from, &other.to).is_some()
    }
}
