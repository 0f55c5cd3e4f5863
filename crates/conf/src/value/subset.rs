//! The patterns by which both engines mean the same: in doubt, a pattern is not one of them.

/// Bytes of a group's name in PCRE2.
const NAME_BYTES_MAX: usize = 32;
/// Repetitions that still compile into a small automaton.
const REPEAT_MAX: u32 = 255;
/// Groups within groups.
const DEPTH_MAX: usize = 32;

/// Whether the linear engine finds in this pattern what PCRE2 finds, in subjects without a final newline.
///
/// The engines differ in possessive quantifiers, sets within sets, `{,n}`, `\v`, `\<`, letters beyond ASCII,
/// flags in the middle, and in loops over what may be empty; and PCRE2 alone has what needs backtracking.
pub(super) fn means_the_same(pattern: &[u8]) -> bool {
    let rest = pattern.strip_prefix(b"(?i)").unwrap_or(pattern);
    let mut scan = Scan { rest, groups: vec![Group::default()] };
    while !scan.rest.is_empty() {
        if scan.item().is_none() {
            return false;
        }
    }
    scan.groups.len() == 1
}

/// Reads a pattern item by item; `None` means that the pattern is not in the subset.
struct Scan<'p> {
    rest: &'p [u8],
    groups: Vec<Group>,
}

/// What is known of a group that is open.
#[derive(Default)]
struct Group {
    /// The alternative that is being read needs a byte.
    needs_byte: bool,
    /// An alternative before it can be empty.
    can_be_empty: bool,
}

impl Group {
    fn end_alternative(&mut self) {
        self.can_be_empty |= !self.needs_byte;
        self.needs_byte = false;
    }
}

/// What an item takes of the subject.
enum Item {
    /// At least a byte.
    Bytes,
    /// Perhaps nothing: a place, or a group that can be empty. No quantifier may follow.
    MaybeEmpty,
}

impl<'p> Scan<'p> {
    fn item(&mut self) -> Option<()> {
        let byte = self.next()?;
        let item = match byte {
            b'(' => return self.open(),
            b'|' => {
                self.groups.last_mut()?.end_alternative();
                return Some(());
            }
            b')' => self.close()?,
            b'[' => self.class()?,
            b'\\' => self.escape()?,
            b'^' | b'$' => Item::MaybeEmpty,
            // Also a second quantifier, or one after a place or at the beginning of a group.
            b'*' | b'+' | b'?' | b'{' => return None,
            0x80.. => return None,
            _ => Item::Bytes,
        };
        // Only what takes a byte may be repeated: what a loop over nothing captures is each engine's own.
        let needs_byte = matches!(item, Item::Bytes) && self.quantifier()? != Some(0);
        self.groups.last_mut()?.needs_byte |= needs_byte;
        Some(())
    }

    fn open(&mut self) -> Option<()> {
        if self.take(b"?") && !self.take(b":") {
            let named = self.take(b"<") || self.take(b"P<");
            let end = self.rest.iter().position(|&byte| byte == b'>').filter(|_| named)?;
            let (name, rest) = self.rest.split_at(end);
            let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let first = name.first()?;
            if name.len() > NAME_BYTES_MAX || !name.iter().all(word) || first.is_ascii_digit() {
                return None;
            }
            self.rest = &rest[1..];
        }
        if self.groups.len() > DEPTH_MAX {
            return None;
        }
        self.groups.push(Group::default());
        Some(())
    }

    fn close(&mut self) -> Option<Item> {
        let mut group = self.groups.pop()?;
        if self.groups.is_empty() {
            return None;
        }
        group.end_alternative();
        Some(if group.can_be_empty { Item::MaybeEmpty } else { Item::Bytes })
    }

    fn class(&mut self) -> Option<Item> {
        let begin = self.rest;
        self.take(b"^");
        if self.rest.starts_with(b"]") {
            return None;
        }
        loop {
            match self.next()? {
                b']' => {
                    let inner = &begin[..begin.len() - self.rest.len() - 1];
                    // PCRE2 takes `[.a.]`, `[:a:]` and `[=a=]` for names of classes in the wrong place.
                    let is_name = matches!(inner, [a @ (b'.' | b':' | b'='), .., b] if a == b);
                    return (!is_name).then_some(Item::Bytes);
                }
                b'\\' => match self.escape()? {
                    Item::Bytes => {}
                    _ => return None,
                },
                b'[' | 0x80.. => return None,
                byte @ (b'&' | b'-' | b'~') if self.rest.first() == Some(&byte) => return None,
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Option<Item> {
        match self.next()? {
            b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'n' | b'r' | b't' | b'f' => Some(Item::Bytes),
            b'b' | b'B' | b'A' | b'z' => Some(Item::MaybeEmpty),
            b'x' => {
                let digits = self.rest.get(..2)?;
                self.rest = &self.rest[2..];
                digits.iter().all(u8::is_ascii_hexdigit).then_some(Item::Bytes)
            }
            b'<' | b'>' => None,
            byte => byte.is_ascii_punctuation().then_some(Item::Bytes),
        }
    }

    /// The least number of repetitions, if a quantifier follows.
    fn quantifier(&mut self) -> Option<Option<u32>> {
        let least = match self.rest.first() {
            Some(b'*' | b'?') => 0,
            Some(b'+') => 1,
            Some(b'{') => self.counted()?,
            _ => return Some(None),
        };
        self.rest = &self.rest[1..];
        self.take(b"?");
        Some(Some(least))
    }

    /// `{n}`, `{n,}` or `{n,m}`, up to its `}`.
    fn counted(&mut self) -> Option<u32> {
        let end = self.rest.iter().position(|&byte| byte == b'}')?;
        let inner = std::str::from_utf8(self.rest.get(1..end)?).ok()?;
        self.rest = &self.rest[end..];
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|count| digits && *count <= REPEAT_MAX)
        };
        let (least, most) = match inner.split_once(',') {
            None => (number(inner)?, number(inner)?),
            Some((least, "")) => (number(least)?, REPEAT_MAX),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        (least <= most && most > 0).then_some(least)
    }

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn take(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_doubt_it_is_not() {
        for same in [
            "",
            "a",
            "a|",
            "()",
            "^$",
            r"[a-z\d_]+",
            "a{2}",
            "a{2,}?",
            "(a|b)*",
            r"\x41",
            "a]}",
            "(a?b)+",
            "[.]",
        ] {
            assert!(means_the_same(same.as_bytes()), "{same}");
        }
        for other in [
            "(",
            ")",
            "[",
            "a**",
            "a+*",
            "a?+",
            "a{2}{3}",
            "a{1",
            "a{x}",
            "a{0}",
            "a{3,2}",
            "a{256}",
            "(a|)*",
            "(a*)+",
            "(|a)?",
            "^*",
            r"\b+",
            r"\b{start}",
            "(?x)a",
            "a(?i)b",
            "(?i:a)",
            "(?>a)",
            "(?=a)",
            r"\1",
            r"\Qa\E",
            r"\h",
            r"\v",
            r"\R",
            r"\Z",
            r"\<",
            "[a&&b]",
            "[[:digit:]]",
            "[]a]",
            r"[\b]",
            "[a--b]",
            "[.a.]",
            "[::]",
            "(?<1a>x)",
            "(?<a.b>x)",
            "(*UTF8)a",
            "a{ 1 }",
            r"\",
            r"\x4",
            r"\x{41}",
        ] {
            assert!(!means_the_same(other.as_bytes()), "{other}");
        }
    }
}
