//! Any bytes are a configuration or an error that can be shown, and a tree written out reads back.

use conf::{Diagnostic, Loaded, Node, parse_bytes, render};

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let loaded = parse_bytes(input);
    if let Some(error) = &loaded.error {
        assert!(render(error, &loaded.sources, "fulmar").ends_with('\n'));
    }
    for node in &loaded.nodes {
        show(node, &loaded);
    }
    if loaded.error.is_none() {
        let text = conf::tree::to_text(&loaded.nodes);
        let again = parse_bytes(&text);
        assert!(again.error.is_none(), "{:?}", again.error);
        assert!(same(&loaded.nodes, &again.nodes));
    }
}

/// Renders a message about the directive, about each of its words, and about its end.
fn show(node: &Node, loaded: &Loaded) {
    for word in std::iter::once(&node.name).chain(&node.args) {
        let message = Diagnostic::warn(format!("about \"{word}\"")).at(node.span).under(word.span);
        render(&message, &loaded.sources, "fulmar");
    }
    render(&Diagnostic::emerg("at the end").at(node.end_span()), &loaded.sources, "fulmar");
    for child in node.children() {
        show(child, loaded);
    }
}

/// Whether two trees hold the same words; their places differ.
fn same(left: &[Node], right: &[Node]) -> bool {
    let words = |node: &Node| {
        std::iter::once(&node.name).chain(&node.args).map(|word| word.text.clone()).collect::<Vec<_>>()
    };
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            words(left) == words(right)
                && left.block.is_some() == right.block.is_some()
                && same(left.children(), right.children())
        })
}
