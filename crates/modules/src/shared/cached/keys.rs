//! The keys of the texts that a thread met last: a text that comes again is neither copied nor digested.

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
pub(super) type Named = (Rc<[u8]>, Key);

thread_local! {
    /// Each text has one place, which it shares with others.
    static KNOWN: RefCell<Vec<Option<Named>>> = const { RefCell::new(Vec::new()) };
}

/// A text with its key.
pub(super) fn named(text: &[u8]) -> Named {
    if text.len() > TEXT_MAX {
        return (text.into(), Key::of(text));
    }
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize_with(TEXTS, || None);
        }
        let [place, ..] = Keyed::default().hash_one(text).to_le_bytes().map(usize::from);
        match &known[place] {
            Some((other, key)) if **other == *text => (Rc::clone(other), *key),
            _ => {
                let named = (text.into(), Key::of(text));
                known[place].insert(named).clone()
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{TEXT_MAX, named};
    use cache::Key;

    #[test]
    fn each_text_has_its_key() {
        let texts: Vec<Vec<u8>> = (0..2000).map(|number| format!("/{number}").into_bytes()).collect();
        for text in texts.iter().chain(&texts).chain([&vec![b'x'; TEXT_MAX + 1], &Vec::new()]) {
            for _ in 0..2 {
                let (known, key) = named(text);
                assert_eq!((&*known, key), (&**text, Key::of(text)));
            }
        }
    }
}
