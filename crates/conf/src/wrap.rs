//! A file that holds `server {}` without `http {}` around it.

use crate::diagnostic::Diagnostic;
use crate::loader::parse_bytes;
use crate::source::Span;
use crate::tree::{Node, Word};

/// A `types` block with the media types of the usual extensions, as the packages install it.
pub const MEDIA_TYPES: &str = include_str!("mime.types");

/// Puts the top-level directives whose names are in `http_only` into an `http` block, at the place of the
/// first of them, with a note. Without `types` among them the block gets [`MEDIA_TYPES`]: with nginx's own three types
/// a browser would reject scripts and styles. Leaves everything as it is where there is an `http` block, or none of them.
pub fn wrap_bare(nodes: Vec<Node>, http_only: &[&str]) -> (Vec<Node>, Option<Diagnostic>) {
    let bare = |node: &Node| http_only.iter().any(|name| node.is(name));
    let Some(place) = nodes.iter().position(bare) else {
        return (nodes, None);
    };
    if nodes.iter().any(|node| node.is("http")) {
        return (nodes, None);
    }
    let (mut inner, mut outer): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(bare);
    let first = &inner[0];
    let message = format!("\"{}\" is outside of \"http\", and is read as if it were inside", first.name);
    let note = Diagnostic::notice(message).at(first.span);
    let span = Span { end: first.span.start, ..first.span };
    let end_line = inner.last().map_or(span.line, |node| node.end_line);
    let name = Word::new("http", span);
    if !inner.iter().any(|node| node.is("types")) {
        inner.splice(0..0, parse_bytes(MEDIA_TYPES.as_bytes()).nodes);
    }
    // What stands before the first bare directive stays before the block.
    let dialect = inner[0].dialect;
    outer.insert(place, Node { name, args: Box::new([]), block: Some(inner), span, end_line, dialect });
    (outer, Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_bytes;
    use crate::tree::to_text;

    fn wrapped(text: &str) -> (String, Option<Diagnostic>) {
        let (nodes, note) = wrap_bare(parse_bytes(text.as_bytes()).nodes, &["server", "types", "map"]);
        (String::from_utf8(to_text(&nodes)).unwrap().replace("\n", " "), note)
    }

    #[test]
    fn bare_blocks_go_into_one_http_block() {
        let (text, note) = wrapped("pid x;\nserver { }\nuser a;\ntypes { }");
        assert_eq!(text, "pid x; http {     server {     }     types {     } } user a; ");
        let note = note.unwrap();
        assert_eq!(note.span.unwrap().line, 2);
        assert_eq!(note.message, "\"server\" is outside of \"http\", and is read as if it were inside");
    }

    #[test]
    fn scripts_have_their_type_in_a_bare_server() {
        let (text, _) = wrapped("server { }");
        assert!(text.starts_with("http {     types {") && text.contains("text/javascript js mjs;"), "{text}");
    }

    #[test]
    fn what_needs_no_wrapping_stays() {
        assert_eq!(wrapped("events { } http { }"), ("events { } http { } ".into(), None));
        assert_eq!(wrapped("http { } server { }"), ("http { } server { } ".into(), None));
        assert_eq!(wrapped(""), (String::new(), None));
    }
}
