//! Rewrites `$` as `\z` in a pattern for PCRE2, which is what its option DOLLAR_ENDONLY does: the option itself is out of
//! reach from Rust. Also lets group names repeat (DUPNAMES).

/// A dollar that matches at the very end. A quantifier may follow neither.
const VERY_END: &[u8] = br"\z";

/// The pattern in which `$` matches only at the very end of a subject, and group names may repeat.
///
/// A dollar stays as it is where it is a plain character (`\$`, `[$]`, `\Q$\E`) and in multi-line mode (`(?m)`), where the
/// option has no effect.
pub(super) fn at_very_end(pattern: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pattern.len() + 16);
    let mut scan = Scan { rest: pattern, modes: vec![Mode::default()] };
    // `(*UTF)` and the like count only at the beginning.
    while scan.rest.starts_with(b"(*") && scan.rest.get(2).is_some_and(u8::is_ascii_uppercase) {
        out.extend_from_slice(scan.up_to(b')'));
    }
    if [&b"(?<"[..], b"(?P<", b"(?'"].iter().any(|name| contains(pattern, name)) {
        out.extend_from_slice(b"(?J)");
    }
    while !scan.rest.is_empty() {
        let is_dollar = scan.rest.starts_with(b"$") && !scan.mode().multi_line;
        let item = scan.item();
        out.extend_from_slice(if is_dollar { VERY_END } else { item });
    }
    out
}

/// The flags that count at a place of a pattern.
#[derive(Clone, Copy, Default)]
struct Mode {
    multi_line: bool,
    /// `#` begins a comment.
    extended: bool,
}

/// Reads a pattern item by item. A pattern that PCRE2 refuses may be read as anything.
struct Scan<'p> {
    rest: &'p [u8],
    /// Those of the open groups; the last one counts.
    modes: Vec<Mode>,
}

impl<'p> Scan<'p> {
    fn mode(&self) -> Mode {
        self.modes.last().copied().unwrap_or_default()
    }

    /// The next item. It is never empty while there is a rest.
    fn item(&mut self) -> &'p [u8] {
        match self.rest {
            [b'\\', b'Q', ..] => self.past(br"\E"),
            [b'\\', b'c', ..] => self.take(3),
            [b'\\', ..] => self.take(2),
            [b'[', rest @ ..] => self.take(1 + class_length(rest)),
            [b'(', b'?', b'#', ..] => self.up_to(b')'),
            [b'(', b'*', first, ..] if first.is_ascii_uppercase() => self.up_to(b')'),
            [b'(', b'?', b'C', delimiter, ..] if !matches!(delimiter, b')' | b'0'..=b'9') => {
                self.callout(*delimiter)
            }
            [b'(', b'?', ..] => self.open_with_flags(),
            [b'(', ..] => {
                self.modes.push(self.mode());
                self.take(1)
            }
            [b')', ..] => {
                if self.modes.len() > 1 {
                    self.modes.pop();
                }
                self.take(1)
            }
            [b'#', ..] if self.mode().extended => self.up_to(b'\n'),
            _ => self.take(1),
        }
    }

    /// `(?` and what belongs to it: flags for the rest of the group around, or the beginning of another group.
    fn open_with_flags(&mut self) -> &'p [u8] {
        let mut mode = self.mode();
        let mut is_set = true;
        let flags =
            self.rest.iter().skip(2).take_while(|byte| byte.is_ascii_alphabetic() || b"^-".contains(byte));
        let length = 2 + flags.clone().count();
        let end = self.rest.get(length).copied();
        if matches!(end, Some(b')' | b':')) {
            for flag in flags {
                match flag {
                    b'^' => mode = Mode::default(),
                    b'-' => is_set = false,
                    b'm' => mode.multi_line = is_set,
                    b'x' => mode.extended = is_set,
                    _ => {}
                }
            }
        }
        match end {
            Some(b')') => {
                if let Some(around) = self.modes.last_mut() {
                    *around = mode;
                }
                self.take(length + 1)
            }
            Some(b':') => {
                self.modes.push(mode);
                self.take(length + 1)
            }
            // A name, an assertion, a condition: no flags.
            _ => {
                self.modes.push(self.mode());
                self.take(2)
            }
        }
    }

    /// `(?C"text")`: the delimiter stands for itself when it is doubled.
    fn callout(&mut self, delimiter: u8) -> &'p [u8] {
        let end = if delimiter == b'{' { b'}' } else { delimiter };
        let mut length = 4;
        while let Some(at) =
            self.rest.get(length..).and_then(|rest| rest.iter().position(|&byte| byte == end))
        {
            length += at + 1;
            if self.rest.get(length) != Some(&end) {
                return self.take(length + 1);
            }
            length += 1;
        }
        self.take(self.rest.len())
    }

    /// Up to this byte, with it.
    fn up_to(&mut self, byte: u8) -> &'p [u8] {
        self.past(&[byte])
    }

    /// Up to this text, with it.
    fn past(&mut self, text: &[u8]) -> &'p [u8] {
        let found = self.rest.windows(text.len()).position(|window| window == text);
        self.take(found.map_or(self.rest.len(), |at| at + text.len()))
    }

    fn take(&mut self, length: usize) -> &'p [u8] {
        let (item, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        item
    }
}

/// The length of a class after its `[`, with its `]`.
fn class_length(inner: &[u8]) -> usize {
    let mut at = usize::from(inner.starts_with(b"^"));
    // The first `]` is a plain character.
    at += usize::from(inner.get(at) == Some(&b']'));
    while let Some(rest) = inner.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            [b']', ..] => return at + 1,
            [b'\\', b'Q', literal @ ..] => {
                literal.windows(2).position(|window| window == br"\E").map_or(rest.len(), |end| end + 4)
            }
            [b'\\', b'c', ..] => 3,
            [b'\\', ..] => 2,
            [b'[', kind @ (b':' | b'.' | b'='), name @ ..] => 2 + class_name_length(name, *kind),
            _ => 1,
        };
    }
    inner.len()
}

/// The length of `alpha:]` in `[:alpha:]`; 0 where it is no name.
fn class_name_length(name: &[u8], kind: u8) -> usize {
    let mut at = 0;
    while let [byte, next, ..] = name.get(at..).unwrap_or_default() {
        match (*byte, *next) {
            (b'\\', b']' | b'\\') => at += 1,
            (b']', _) => return 0,
            (b'[', next) if next == kind => return 0,
            (byte, b']') if byte == kind => return at + 2,
            _ => {}
        }
        at += 1;
    }
    0
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::at_very_end;
    use proptest::prelude::*;

    #[test]
    fn only_a_dollar_that_is_a_place_is_rewritten() {
        for (pattern, expected) in [
            ("^a$", r"^a\z"),
            ("(a|b$)$", r"(a|b\z)\z"),
            (r"\$$", r"\$\z"),
            (r"\\$", r"\\\z"),
            (r"[$]$", r"[$]\z"),
            (r"[]$][^]$][a\]$][[:alpha:]$][\Q]$\E$]", r"[]$][^]$][a\]$][[:alpha:]$][\Q]$\E$]"),
            (r"[[:$]$", r"[[:$]\z"),
            (r"\Q$\E$", r"\Q$\E\z"),
            (r"\c$$", r"\c$\z"),
            ("(?#$)$", r"(?#$)\z"),
            ("(?m)$", "(?m)$"),
            ("(?m:$)$", r"(?m:$)\z"),
            ("((?m)a$|$)$", r"((?m)a$|$)\z"),
            ("(?im-s)$(?-m)$", r"(?im-s)$(?-m)\z"),
            ("(?m)(?^:$)$", r"(?m)(?^:\z)$"),
            ("(?x)a # [$\n$", "(?x)a # [$\n\\z"),
            ("a # [$\n$]", "a # [$\n$]"),
            ("(*UTF)(*ANY)a$", r"(*UTF)(*ANY)a\z"),
            ("(?<n>a)|(?<n>$)", r"(?J)(?<n>a)|(?<n>\z)"),
            ("(*UTF)(?P<n>a)", "(*UTF)(?J)(?P<n>a)"),
            ("(?=a$)(?!$)", r"(?=a\z)(?!\z)"),
            // A look-behind begins as a name does.
            ("(?<=$)", r"(?J)(?<=\z)"),
            ("(*pla:a$)", r"(*pla:a\z)"),
            ("(?C'$''$')$", r"(?C'$''$')\z"),
            ("(?C1)$", r"(?C1)\z"),
        ] {
            assert_eq!(String::from_utf8(at_very_end(pattern.as_bytes())).unwrap(), expected, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(pattern in proptest::collection::vec(any::<u8>(), 0..40)) {
            let without: Vec<u8> = pattern.iter().copied().filter(|&byte| byte != b'$').collect();
            let has_names = [&b"(?<"[..], b"(?P<", b"(?'"].iter().any(|name| super::contains(&without, name));
            if !has_names {
                prop_assert_eq!(at_very_end(&without), without);
            }
            prop_assert!(at_very_end(&pattern).len() >= pattern.len());
        }
    }
}
