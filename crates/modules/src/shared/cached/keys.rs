//! The keys of the texts that a thread met last with an object: a text that comes again is neither copied nor digested.

use cache::Key;
use contract::hash::Keyed;
use std::cell::RefCell;
use std::hash::BuildHasher;
use std::rc::Rc;

/// How many texts a thread knows: one for each byte that a hash may start with.
const TEXTS: usize = 256;

/// How long these are at most, in bytes.
const TEXT_MAX: usize = 256;

/// A text with its key.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) text: Rc<[u8]>,
    pub(super) key: Key,
    /// Whether the thread knows it.
    pub(super) is_known: bool,
}

thread_local! {
    /// Each text has one place, which it shares with others.
    static KNOWN: RefCell<Vec<Option<Named>>> = const { RefCell::new(Vec::new()) };
}

/// The place of a text.
fn place(text: &[u8]) -> usize {
    let [place, ..] = Keyed::default().hash_one(text).to_le_bytes().map(usize::from);
    place
}

/// A text with its key.
pub(super) fn named(text: &[u8]) -> Named {
    let find = |known: &Vec<Option<Named>>| {
        let named = known.get(place(text))?.as_ref()?;
        (*named.text == *text).then(|| named.clone())
    };
    let known = if text.len() <= TEXT_MAX { KNOWN.with_borrow(find) } else { None };
    known.unwrap_or_else(|| Named { text: text.into(), key: Key::of(text), is_known: false })
}

/// Keeps a text with its key. Most texts of which there is no object do not come again.
pub(super) fn know(text: &Rc<[u8]>, key: Key) {
    if text.len() > TEXT_MAX {
        return;
    }
    KNOWN.with_borrow_mut(|known| {
        known.resize_with(TEXTS, || None);
        known[place(text)] = Some(Named { text: Rc::clone(text), key, is_known: true });
    });
}

#[cfg(test)]
mod tests {
    use super::{TEXT_MAX, know, named};
    use cache::Key;

    #[test]
    fn each_text_has_its_key() {
        let texts: Vec<Vec<u8>> = (0..2000).map(|number| format!("/{number}").into_bytes()).collect();
        for text in texts.iter().chain(&texts).chain([&vec![b'x'; TEXT_MAX + 1], &Vec::new()]) {
            for is_known in [false, text.len() <= TEXT_MAX] {
                let named = named(text);
                assert_eq!((&*named.text, named.key), (&**text, Key::of(text)));
                // A text of the first round may still be known.
                assert!(named.is_known || !is_known);
                know(&named.text, named.key);
            }
        }
    }
}
