//! A file that holds `server {}` without `http {}` around it.

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Node, Word};

/// Puts the top-level directives whose names are in `http_only` into an `http` block, at the place of the
/// first of them, with a note. Leaves everything as it is where there is an `http` block, or none of them.
pub fn wrap_bare(nodes: Vec<Node>, http_only: &[&str]) -> (Vec<Node>, Option<Diagnostic>) {
    let bare = |node: &Node| http_only.iter().any(|name| node.is(name));
    let Some(place) = nodes.iter().position(bare) else {
        return (nodes, None);
    };
    if nodes.iter().any(|node| node.is("http")) {
        return (nodes, None);
    }
    let (inner, mut outer): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(bare);
    let first = &inner[0];
    let message = format!("\"{}\" is outside of \"http\", and is read as if it were inside", first.name);
    let note = Diagnostic::notice(message).at(first.span);
    let span = Span { end: first.span.start, ..first.span };
    let end_line = inner.last().map_or(span.line, |node| node.end_line);
    let name = Word::new("http", span);
    // What stands before the first bare directive stays before the block.
    outer.insert(place, Node { name, args: Box::new([]), block: Some(inner), span, end_line });
    (outer, Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_bytes;
    use crate::tree::to_text;

    fn wrapped(text: &str) -> (String, Option<Diagnostic>) {
        let (nodes, note) = wrap_bare(parse_bytes(text.as_bytes()).nodes, &["server", "upstream", "map"]);
        (String::from_utf8(to_text(&nodes)).unwrap().replace("\n", " "), note)
    }

    #[test]
    fn bare_blocks_go_into_one_http_block() {
        let (text, note) = wrapped("pid x;\nserver { }\nuser a;\nupstream u { }");
        assert_eq!(text, "pid x; http {     server {     }     upstream u {     } } user a; ");
        let note = note.unwrap();
        assert_eq!(note.span.unwrap().line, 2);
        assert_eq!(note.message, "\"server\" is outside of \"http\", and is read as if it were inside");
    }

    #[test]
    fn what_needs_no_wrapping_stays() {
        assert_eq!(wrapped("events { } http { }"), ("events { } http { } ".into(), None));
        assert_eq!(wrapped("http { } server { }"), ("http { } server { } ".into(), None));
        assert_eq!(wrapped(""), (String::new(), None));
    }
}
