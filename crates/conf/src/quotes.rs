//! Quotes of word processors, which are letters of a word in this language.

use crate::diagnostic::Diagnostic;
use crate::tree::{Node, Word};

/// “ ” ‘ ’ „ and «.
const CURLY: [&str; 6] = ["\u{201c}", "\u{201d}", "\u{2018}", "\u{2019}", "\u{201e}", "\u{ab}"];

/// A warning for each word that begins with a curly quote and is not inside of real quotes.
pub fn curly_quotes(nodes: &[Node]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    look(nodes, &mut warnings);
    warnings
}

fn look(nodes: &[Node], warnings: &mut Vec<Diagnostic>) {
    for node in nodes {
        warnings.extend(node.args.iter().filter_map(warning));
        look(node.children(), warnings);
    }
}

fn warning(word: &Word) -> Option<Diagnostic> {
    let quote = CURLY.iter().find(|quote| !word.quoted && word.text.starts_with(quote.as_bytes()))?;
    let message = format!("{quote} is not a quote here, but a part of the word");
    Some(Diagnostic::warn(message).at(word.span).hint("write \" or '"))
}

#[cfg(test)]
mod tests {
    use super::curly_quotes;
    use crate::parse_bytes;

    #[test]
    fn words_in_curly_quotes_are_warned_of() {
        let count = |text: &str| curly_quotes(&parse_bytes(text.as_bytes()).nodes).len();
        assert_eq!(count("a { b \u{201c}c d\u{201d} \u{2018}e\u{2019}; }"), 2);
        assert_eq!(count("a \"\u{201c}b\u{201d}\" b\u{2019}s;"), 0);
    }
}
