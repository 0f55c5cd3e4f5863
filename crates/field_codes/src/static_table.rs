//! The search in a static table.

/// The names of a static table, found by a hash. It is made when the program is compiled.
#[derive(Debug)]
pub struct StaticTable<const ENTRIES: usize> {
    entries: &'static [(&'static str, &'static str); ENTRIES],
    /// The first entry of a name. 0 is free; entries count from 1.
    names: [u8; PLACES],
    /// The next entry with the same name, counted in the same way.
    next: [u8; ENTRIES],
}

const PLACES: usize = 256;

impl<const ENTRIES: usize> StaticTable<ENTRIES> {
    /// A table with these names and values. It must have fewer than 200 entries.
    pub const fn new(entries: &'static [(&'static str, &'static str); ENTRIES]) -> StaticTable<ENTRIES> {
        assert!(ENTRIES < 200);
        let (mut names, mut next) = ([0; PLACES], [0; ENTRIES]);
        let mut index = 0;
        while index < ENTRIES {
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 200 entries")]
            let number = index as u8 + 1;
            let name = entries[index].0.as_bytes();
            let mut place = hash_name(name);
            while names[place] != 0 && !is_same(entries[names[place] as usize - 1].0.as_bytes(), name) {
                place = (place + 1) % PLACES;
            }
            if names[place] == 0 {
                names[place] = number;
            } else {
                let mut last = names[place] as usize - 1;
                while next[last] != 0 {
                    last = next[last] as usize - 1;
                }
                next[last] = number;
            }
            index += 1;
        }
        StaticTable { entries, names, next }
    }

    /// The place of an entry with this name and this value, with `true`, or else of the first one with this name.
    #[inline]
    pub fn find(&self, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
        let mut place = hash_name(name);
        let first = loop {
            let index = usize::from(self.names[place]).checked_sub(1)?;
            if self.entries[index].0.as_bytes() == name {
                break index;
            }
            place = (place + 1) % PLACES;
        };
        let mut index = first;
        loop {
            if self.entries[index].1.as_bytes() == value {
                return Some((index, true));
            }
            match usize::from(self.next[index]).checked_sub(1) {
                Some(next) => index = next,
                None => return Some((first, false)),
            }
        }
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut same = one.len() == other.len();
    let mut at = 0;
    while same && at < one.len() {
        same = one[at] == other[at];
        at += 1;
    }
    same
}

/// The hash uses the length of a name and three of its bytes.
const fn hash_name(name: &[u8]) -> usize {
    if name.is_empty() {
        return 0;
    }
    let (first, middle, last) =
        (name[0] as usize, name[name.len() / 2] as usize, name[name.len() - 1] as usize);
    (first * 3 + middle * 17 + last * 29 + name.len() * 7) % PLACES
}

#[cfg(test)]
mod tests {
    use super::StaticTable;

    static TABLE: StaticTable<5> =
        StaticTable::new(&[("server", ""), ("age", "0"), ("vary", "a"), ("age", "1"), ("age", "2")]);

    #[test]
    fn names_and_values_are_found() {
        for (name, value, expected) in [
            ("server", "", Some((0, true))),
            ("server", "x", Some((0, false))),
            ("age", "0", Some((1, true))),
            ("age", "2", Some((4, true))),
            ("age", "3", Some((1, false))),
            ("vary", "0", Some((2, false))),
            ("", "", None),
            ("x", "", None),
            ("serve", "", None),
            ("servers", "", None),
            ("Server", "", None),
        ] {
            assert_eq!(TABLE.find(name.as_bytes(), value.as_bytes()), expected, "{name}: {value}");
        }
    }
}
