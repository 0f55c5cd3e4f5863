//! Any word has a value of every type or an error that can be shown.

use std::path::Path;

use conf::value::{self, ValueError};
use conf::{Node, Span, Word, parse_bytes, render};

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let loaded = parse_bytes(b"directive word;");
    let node = &loaded.nodes[0];
    let word = Word { text: input.into(), quoted: false, span: node.args[0].span };
    for error in errors(&word) {
        render(&error.at(node, &word), &loaded.sources, "fulmar");
    }
    let words = split(input, node);
    let _ = value::access(&words);
    let _ = value::bitmask(&words, &[("error", 1), ("timeout", 2), ("http_500", 4)], |_| ());
    check_bounds(&word);
    check_addresses(&word);
    value::path(&word, Path::new("/prefix"));
}

/// What the parsers of single words say against this one.
fn errors(word: &Word) -> Vec<ValueError> {
    [
        value::size(word).err(),
        value::offset(word).err(),
        value::number(word).err(),
        value::bounded(word, 1, Some(9)).err(),
        value::bounded(word, 5, None).err(),
        value::status(word).err(),
        value::time_s(word).err(),
        value::time_ms(word).err(),
        value::flag(word).err(),
        value::choice(word, &[("on", 1), ("off", 2), ("always", 3)]).err(),
        value::listen(word, 80).err(),
        value::endpoint(word, 80).err(),
        value::target(&word.text, 80).err(),
        value::cidr(word).err(),
        value::template(word).err(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Values keep within what their documentation promises.
fn check_bounds(word: &Word) {
    let most = u64::MAX >> 1;
    for value in [value::size(word), value::offset(word), value::number(word)].into_iter().flatten() {
        assert!(value <= most);
    }
    if let (Ok(size), Ok(offset)) = (value::size(word), value::offset(word)) {
        assert_eq!(size, offset);
    }
    if let (Ok(seconds), Ok(milliseconds)) = (value::time_s(word), value::time_ms(word)) {
        assert!(milliseconds / 1000 >= seconds / 1000);
    }
    assert!(value::status(word).is_ok_and(|status| status > 999).eq(&false));
    if let Ok(template) = value::template(word) {
        assert!(template.variables().all(|name| !name.is_empty()));
    }
}

/// An address that was read can be asked for its socket addresses.
fn check_addresses(word: &Word) {
    if let Ok(address) = value::listen(word, 80) {
        address.is_wildcard();
        assert!(address.socket_addrs().take(3).count() <= 3);
    }
    if let Ok((_, rest)) = value::target(&word.text, 80) {
        assert!(word.text.ends_with(rest));
    }
}

fn split(input: &[u8], node: &Node) -> Vec<Word> {
    let span: Span = node.args[0].span;
    input.split(|&byte| byte == b' ').map(|text| Word { text: text.into(), quoted: false, span }).collect()
}
