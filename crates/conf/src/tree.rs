//! The tree: directives with words, and blocks of directives.

use std::fmt::{self, Write as _};

use crate::dialect::Dialect;
use crate::source::Span;

/// One word of a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The bytes it stands for: quotes removed, escapes resolved.
    pub text: Box<[u8]>,
    /// Whether it was written in quotes.
    pub quoted: bool,
    /// Where it stands, with its quotes; the line is the one where it begins.
    pub span: Span,
}

/// One directive, with its block if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The first word.
    pub name: Word,
    /// The other words.
    pub args: Box<[Word]>,
    /// The directives between `{` and `}`; `None` where `;` ended the directive.
    pub block: Option<Vec<Node>>,
    /// From the name to the last word; the line is the one of the closing `;` or `{`, which messages name.
    pub span: Span,
    /// Line of the `}` of a block, of the `;` otherwise.
    pub end_line: u32,
    /// The language in which it was written.
    pub dialect: Dialect,
}

impl Word {
    /// A word that stands in no text, for nodes that are made rather than read.
    pub fn new(text: &str, span: Span) -> Word {
        Word { text: text.as_bytes().into(), quoted: false, span }
    }

    /// The word as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.text).ok()
    }

    /// Whether the word is exactly this text.
    pub fn is(&self, text: &str) -> bool {
        *self.text == *text.as_bytes()
    }
}

/// The word as messages show it: what cannot be printed is escaped.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.text))
    }
}

impl Node {
    /// Whether the directive has this name.
    pub fn is(&self, name: &str) -> bool {
        self.name.is(name)
    }

    /// The argument at `index`, from 0.
    pub fn arg(&self, index: usize) -> Option<&Word> {
        self.args.get(index)
    }

    /// The directives of the block; none where there is no block.
    pub fn children(&self) -> &[Node] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The place that messages about the end of the block name: the line of its `}`.
    pub fn end_span(&self) -> Span {
        Span { line: self.end_line, ..self.span }
    }
}

/// Bytes as messages show them: UTF-8 is kept, control characters and stray bytes become `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\u{feff}' {
                let mut buffer = [0; 4];
                escape(c.encode_utf8(&mut buffer).as_bytes(), &mut out);
            } else {
                out.push(c);
            }
        }
        escape(chunk.invalid(), &mut out);
    }
    out
}

/// The tree as configuration text that reads back as the same tree.
pub fn to_text(nodes: &[Node]) -> Vec<u8> {
    let mut out = Vec::new();
    write_nodes(nodes, 0, &mut out);
    out
}

fn escape(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{byte:02X}");
    }
}

/// Recursion is bounded by the loader's limit on nested blocks.
fn write_nodes(nodes: &[Node], depth: usize, out: &mut Vec<u8>) {
    for node in nodes {
        out.resize(out.len() + depth * 4, b' ');
        write_word(&node.name, out);
        for arg in &node.args {
            out.push(b' ');
            write_word(arg, out);
        }
        match &node.block {
            None => out.extend_from_slice(b";\n"),
            Some(children) => {
                out.extend_from_slice(b" {\n");
                write_nodes(children, depth + 1, out);
                out.resize(out.len() + depth * 4, b' ');
                out.extend_from_slice(b"}\n");
            }
        }
    }
}

fn write_word(word: &Word, out: &mut Vec<u8>) {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\;{".contains(byte) || *byte >= 0x80;
    let begins_well = word.text.first().is_some_and(|byte| !b"#}".contains(byte));
    if !word.quoted && begins_well && word.text.iter().all(plain) {
        out.extend_from_slice(&word.text);
        return;
    }
    out.push(b'"');
    for &byte in &word.text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
