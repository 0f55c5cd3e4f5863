//! Apache's configuration language: lines of words, and sections in angle brackets, as the same tree.

mod allowed;
mod directives;
mod doubts;
mod line;
mod main_file;
mod methods;
mod purposes;
mod version;

use std::path::Path;

use crate::diagnostic::Diagnostic;
use crate::dialect::Dialect;
use crate::loader::Loaded;
use crate::source::{Sources, Span};
use crate::tree::{Node, Word, printable};
pub use allowed::{Allowed, AllowedBelow, Classes, OptionWords};
pub use directives::{
    classes_of, directive_names, instead_of_module, is_module, is_refused, is_section, module_of,
    not_honoured,
};
pub use doubts::{Doubt, SetNames, doubts};
use line::{Line, Lines};
pub use main_file::{LoadedModule, MainFile, Start, load};
pub use methods::Methods;
pub use purposes::purposes;
pub use version::{VERSION, VERSION_TEXT, is_version};

/// The deepest nesting of sections.
const DEPTH_MAX: usize = 32;

/// Reads a text. A line is a directive with its words; one that ends in a backslash goes on in the next
/// line; `<NAME …>` to `</NAME>` is a directive with a block; a line that starts with `#` is a comment.
pub fn parse(path: &Path, text: Vec<u8>) -> Loaded {
    let mut sources = Sources::default();
    let (nodes, error) = parse_among(&mut sources, path, text);
    Loaded { nodes, sources, error }
}

/// As [`parse`], for one of several texts. Each text has its own `FileId` in `sources`.
pub fn parse_among(sources: &mut Sources, path: &Path, text: Vec<u8>) -> (Vec<Node>, Option<Diagnostic>) {
    let file = sources.add(path, text);
    let mut lines = Lines::new(sources.shared_text(file), file);
    let mut parser = Parser { lines: &mut lines };
    let mut nodes = Vec::new();
    let error = parser.block(&mut nodes, None, 0).err();
    (nodes, error)
}

struct Parser<'l> {
    lines: &'l mut Lines,
}

impl Parser<'_> {
    /// Reads up to the end of the open section, or of the text. Returns the line of that end.
    fn block(&mut self, out: &mut Vec<Node>, open: Option<&Word>, depth: usize) -> Result<u32, Diagnostic> {
        while let Some(line) = self.lines.next() {
            let span = line.span;
            refuse_nul(&line)?;
            if let Some(closed) = line.text.strip_prefix(b"</") {
                close(closed, open, span)?;
                return Ok(span.line);
            }
            let node = match line.text.strip_prefix(b"<") {
                Some(head) => self.section(head, span, depth)?,
                None => directive(&line),
            };
            out.push(node);
        }
        match open {
            None => Ok(self.lines.number()),
            Some(name) => Err(Diagnostic::emerg(format!("<{name}> was not closed")).at(name.span)),
        }
    }

    fn section(&mut self, head: &[u8], span: Span, depth: usize) -> Result<Node, Diagnostic> {
        let head = head_of(head, span)?;
        if depth == DEPTH_MAX {
            return Err(Diagnostic::emerg("too many sections within sections").at(span));
        }
        let mut node = directive(&Line { text: head.into(), span });
        let mut nodes = Vec::new();
        node.end_line = self.block(&mut nodes, Some(&node.name), depth + 1)?;
        node.block = Some(nodes);
        Ok(node)
    }
}

fn refuse_nul(line: &Line) -> Result<(), Diagnostic> {
    match line.text.contains(&0) {
        true => Err(Diagnostic::emerg("unexpected NUL byte").at(line.span)),
        false => Ok(()),
    }
}

/// The text between `<` and the last `>` of a line. As in Apache, what follows the `>` does not count.
fn head_of(head: &[u8], span: Span) -> Result<&[u8], Diagnostic> {
    let end = memchr::memrchr(b'>', head).ok_or_else(|| {
        Diagnostic::emerg(format!("<{} directive missing closing '>'", printable(head))).at(span)
    })?;
    Ok(&head[..end])
}

fn directive(line: &Line) -> Node {
    let mut words = line.words().into_iter();
    let name = words.next().unwrap_or_else(|| Word::new("", line.span));
    let (args, span, end_line) = (words.collect(), line.span, line.span.line);
    Node { name, args, block: None, span, end_line, dialect: Dialect::Apache }
}

/// Checks that the closing tag belongs to the open section.
fn close(closed: &[u8], open: Option<&Word>, span: Span) -> Result<(), Diagnostic> {
    let closed = closed.strip_suffix(b">").unwrap_or(closed).trim_ascii();
    let message = match open {
        Some(open) if open.text.eq_ignore_ascii_case(closed) => return Ok(()),
        Some(open) => format!("expected </{open}> but saw </{}>", printable(closed)),
        None => format!("</{0}> without matching <{0}> section", printable(closed)),
    };
    Err(Diagnostic::emerg(message).at(span))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::tree::Node;
    use proptest::prelude::*;
    use std::path::Path;

    fn shown(nodes: &[Node]) -> String {
        let node = |node: &Node| {
            let words: Vec<_> = node.args.iter().map(|word| format!("[{word}]")).collect();
            let block = node.block.as_ref().map(|nodes| format!("{{{}}}", shown(nodes))).unwrap_or_default();
            format!("{}:{}{}{block};", node.span.line, node.name, words.concat())
        };
        nodes.iter().map(node).collect()
    }

    fn tree(text: &str) -> String {
        let loaded = parse(Path::new("/x"), text.into());
        assert_eq!(loaded.error, None, "{text}");
        shown(&loaded.nodes)
    }

    fn error(text: &str) -> (String, u32) {
        let error = parse(Path::new("/x"), text.into()).error.unwrap();
        (error.message, error.span.unwrap().line)
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(
            tree("A b  c\n\n  # no\nB \"x y\" 'z \"q\"' \"a\\\"b\"\n"),
            "1:A[b][c];4:B[x y][z \"q\"][a\"b];"
        );
        assert_eq!(tree("A a\\\\b \\. \"c\\d\""), "1:A[a\\b][\\.][c\\d];");
        assert_eq!(tree("RewriteRule ^a\\ b$ \\\\x\r\n"), "1:RewriteRule[^a\\ b$][\\\\x];");
        assert_eq!(tree("A \"open"), "1:A[open];", "a quote that is not closed ends with the line");
    }

    #[test]
    fn lines_go_on_behind_a_backslash() {
        assert_eq!(tree("A b \\\n  c\nB\n"), "1:A[b][c];3:B;");
        assert_eq!(tree("# comment \\\nA b\nB"), "3:B;");
        assert_eq!(tree("A b\\"), "1:A[b];");
    }

    #[test]
    fn sections() {
        let text = "<IfModule mod_x.c>\n  A\n  <files \"*.a\">\n B c\n</Files>\n</ifmodule>\nC\n";
        assert_eq!(tree(text), "1:IfModule[mod_x.c]{2:A;3:files[*.a]{4:B[c];};};7:C;");
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        assert_eq!(error("A\n<B>\nC"), ("<B> was not closed".into(), 2));
        assert_eq!(error("<B>\n</C>"), ("expected </B> but saw </C>".into(), 2));
        assert_eq!(error("A\n</C>"), ("</C> without matching <C> section".into(), 2));
        assert_eq!(error("<B c"), ("<B c directive missing closing '>'".into(), 1));
        assert_eq!(error("A\nB \0"), ("unexpected NUL byte".into(), 2));
        assert_eq!(error(&"<a>\n".repeat(100)).0, "too many sections within sections");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[A-Za-z<>/#\\\\\"' \n]{0,80}") {
            let loaded = parse(Path::new("/x"), text.clone().into());
            prop_assert!(loaded.nodes.len() <= text.len());
        }
    }
}
