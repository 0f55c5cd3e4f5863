//! The order of a listing, and what a client's query asks for.

use super::options::Flags;
use super::row::Row;
use crate::shared::apache::urls::escape_uri;
use crate::shared::apache::variables::unescape;
use std::cmp::Ordering;

/// The column that entries are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Key {
    #[default]
    Name,
    Modified,
    Size,
    Description,
}

const KEYS: [(u8, Key); 4] =
    [(b'N', Key::Name), (b'M', Key::Modified), (b'S', Key::Size), (b'D', Key::Description)];

impl Key {
    /// The letter in the query.
    pub(super) fn letter(self) -> u8 {
        KEYS.iter().find(|(_, key)| *key == self).map_or(b'N', |(letter, _)| *letter)
    }
}

/// The order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) key: Key,
    pub(crate) descends: bool,
}

/// What a listing is made of after the client had its say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) flags: Flags,
    pub(crate) order: Order,
    /// Only these names.
    pub(crate) pattern: Option<Vec<u8>>,
    /// What the links of the headings keep of the query.
    pub(crate) kept_args: Vec<u8>,
}

impl Wanted {
    /// What the settings and the query ask for. What the query has after a mistake does not count.
    pub(crate) fn of(flags: Flags, order: Order, args: &[u8]) -> Wanted {
        if flags.has(Flags::IGNORE_CLIENT) {
            let flags = flags.with(Flags::NO_SORTING);
            return Wanted { flags, order, ..Wanted::default() };
        }
        let mut wanted = Wanted { flags, order, ..Wanted::default() };
        let (mut form, mut version) = (Vec::new(), Vec::new());
        let mut rest = args;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'&' | b';'));
            let (argument, more) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &b""[..]),
            };
            match argument {
                [b'P', b'=', pattern @ ..] => wanted.names(pattern),
                [b'C', b'=', letter] => match KEYS.iter().find(|(known, _)| known == letter) {
                    Some((_, key)) => wanted.order.key = *key,
                    None => break,
                },
                [b'O', b'=', letter @ (b'A' | b'D')] => wanted.order.descends = *letter == b'D',
                [b'F', b'=', digit @ b'0'..=b'2'] => {
                    wanted.flags = match digit {
                        b'0' => wanted.flags.without(Flags::FANCY.with(Flags::TABLE)),
                        b'1' => wanted.flags.with(Flags::FANCY).without(Flags::TABLE),
                        _ => wanted.flags.with(Flags::FANCY).with(Flags::TABLE),
                    };
                    form = [b";", argument].concat();
                }
                [b'V', b'=', digit @ (b'0' | b'1')] => {
                    wanted.flags = match digit {
                        b'0' => wanted.flags.without(Flags::VERSION_SORT),
                        _ => wanted.flags.with(Flags::VERSION_SORT),
                    };
                    version = [b";", argument].concat();
                }
                _ => break,
            }
            rest = more;
        }
        wanted.kept_args = [form, version, wanted.kept_args].concat();
        wanted
    }

    fn names(&mut self, pattern: &[u8]) {
        self.pattern = Some(unescape(pattern)).filter(|pattern| !pattern.is_empty() && !pattern.contains(&0));
        if let Some(pattern) = &self.pattern {
            self.kept_args = b";P=".to_vec();
            escape_uri(pattern, &mut self.kept_args);
        }
    }

    /// Sorts the entries; the parent directory stays in front.
    pub(crate) fn sort(&self, rows: &mut [Row<'_>]) {
        rows.sort_by(|a, b| {
            let by_kind = b.is_parent().cmp(&a.is_parent());
            by_kind.then_with(|| b.is_first.cmp(&a.is_first)).then_with(|| {
                let order = self.compare(a, b);
                if self.order.descends { order.reverse() } else { order }
            })
        });
    }

    fn compare(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let versions = self.flags.has(Flags::VERSION_SORT);
        let by_key = match self.order.key {
            Key::Name => Ordering::Equal,
            Key::Modified => a.modified.cmp(&b.modified),
            Key::Size => a.size.cmp(&b.size),
            Key::Description => {
                let [a, b] = [a, b].map(|row| row.description.as_deref().unwrap_or_default());
                if versions { natural(a, b, false) } else { a.cmp(b) }
            }
        };
        let ignores_case = self.flags.has(Flags::IGNORE_CASE);
        by_key
            .then_with(|| {
                if versions && ignores_case { natural(&a.name, &b.name, true) } else { Ordering::Equal }
            })
            .then_with(|| if versions { natural(&a.name, &b.name, false) } else { Ordering::Equal })
            .then_with(|| match ignores_case {
                true => a.name.to_ascii_lowercase().cmp(&b.name.to_ascii_lowercase()),
                false => Ordering::Equal,
            })
            .then_with(|| a.name.cmp(&b.name))
    }
}

/// Compares texts so that numbers in them are in the order of their values. Numbers that start with a zero are compared
/// as decimal places. Spaces do not count.
fn natural(a: &[u8], b: &[u8], ignores_case: bool) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        (a, b) = (a.trim_ascii_start(), b.trim_ascii_start());
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (left, right) = (digits(a), digits(b));
        if left > 0 && right > 0 {
            let is_fraction = a[0] == b'0' || b[0] == b'0';
            let order = match is_fraction {
                true => a[..left].cmp(&b[..right]),
                false => left.cmp(&right).then_with(|| a[..left].cmp(&b[..right])),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        let (Some((&first, after)), Some((&second, rest))) = (a.split_first(), b.split_first()) else {
            return a.len().min(1).cmp(&b.len().min(1));
        };
        let fold = |byte: u8| if ignores_case { byte.to_ascii_uppercase() } else { byte };
        match fold(first).cmp(&fold(second)) {
            Ordering::Equal => (a, b) = (after, rest),
            order => return order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, Key, Order, Wanted, natural};
    use std::cmp::Ordering;

    #[test]
    fn numbers_in_names() {
        for (a, b) in [("a2", "a10"), ("a1.01", "a1.1"), ("a", "b"), ("a", "a1"), ("x 9", "x10"), ("", "a")] {
            assert_eq!(natural(a.as_bytes(), b.as_bytes(), false), Ordering::Less, "{a} {b}");
            assert_eq!(natural(b.as_bytes(), a.as_bytes(), false), Ordering::Greater, "{a} {b}");
        }
        assert_eq!(natural(b"aB", b"Ab", true), Ordering::Equal);
    }

    #[test]
    fn queries() {
        let of = |args: &str| Wanted::of(Flags::FANCY, Order::default(), args.as_bytes());
        assert_eq!(of("C=S;O=D").order, Order { key: Key::Size, descends: true });
        assert_eq!(of("C=S&x&O=D").order, Order { key: Key::Size, descends: false }, "a mistake ends it");
        let wanted = of("V=1;F=2;P=a%20*&C=M");
        assert_eq!(wanted.kept_args, b";F=2;V=1;P=a%20*");
        assert!(wanted.flags.has(Flags::TABLE) && wanted.flags.has(Flags::VERSION_SORT));
        assert_eq!((wanted.pattern.as_deref(), wanted.order.key), (Some(&b"a *"[..]), Key::Modified));
    }
}
