//! Patterns that are plain texts, such as `^old/page\.html/?$`. They need no engine, and so next to no memory.

/// The longest text, in bytes.
const BYTES_MAX: usize = 256;

/// Characters with a meaning of their own in patterns.
const SPECIAL: &[u8] = b"\\^$.|?*+()[]{}";

/// A plain text and where it has to stand.
#[derive(Debug)]
pub(super) struct Literal {
    text: Box<[u8]>,
    case_insensitive: bool,
    /// `^`
    at_start: bool,
    /// `/?`
    optional_slash: bool,
    /// `$`
    at_end: bool,
    /// Whether it also matches before a final newline.
    before_newline: bool,
}

impl Literal {
    /// The pattern as a literal, if it is one.
    pub(super) fn parse(pattern: &[u8], case_insensitive: bool, before_newline: bool) -> Option<Literal> {
        if pattern.len() > BYTES_MAX {
            return None;
        }
        let rest = pattern.strip_prefix(b"^");
        let (at_start, rest) = (rest.is_some(), rest.unwrap_or(pattern));
        let inner = rest.strip_suffix(b"$").filter(|inner| !ends_in_escape(inner));
        let (at_end, rest) = (inner.is_some(), inner.unwrap_or(rest));
        let inner = rest.strip_suffix(b"/?");
        let (optional_slash, mut rest) = (inner.is_some(), inner.unwrap_or(rest));
        let mut text = Vec::with_capacity(rest.len());
        while let [byte, tail @ ..] = rest {
            let (byte, tail) = match (byte, tail) {
                (b'\\', [escaped, tail @ ..]) if escaped.is_ascii_punctuation() => (escaped, tail),
                (byte, tail) if !SPECIAL.contains(byte) => (byte, tail),
                _ => return None,
            };
            text.push(*byte);
            rest = tail;
        }
        let text = text.into();
        Some(Literal { text, case_insensitive, at_start, optional_slash, at_end, before_newline })
    }

    /// A text that may stand anywhere.
    pub(super) fn anywhere(text: Box<[u8]>, case_insensitive: bool) -> Literal {
        let (at_start, optional_slash, at_end, before_newline) = (false, false, false, false);
        Literal { text, case_insensitive, at_start, optional_slash, at_end, before_newline }
    }

    /// Where the literal first is in a subject.
    pub(super) fn find(&self, subject: &[u8]) -> Option<(usize, usize)> {
        let last = subject.len().checked_sub(self.text.len())?;
        let first = match (self.at_start, self.at_end) {
            (true, _) => return self.end_at(subject, 0).map(|end| (0, end)),
            // A slash and a newline may follow.
            (false, true) => last.saturating_sub(2),
            (false, false) => return self.find_anywhere(subject, last),
        };
        (first..=last).find_map(|start| self.end_at(subject, start).map(|end| (start, end)))
    }

    /// As [`Literal::find`], for a match that starts at `last` or before.
    fn find_anywhere(&self, subject: &[u8], last: usize) -> Option<(usize, usize)> {
        let Some(first) = self.text.first() else { return self.end_at(subject, 0).map(|end| (0, end)) };
        let (lower, upper) = match self.case_insensitive {
            true => (first.to_ascii_lowercase(), first.to_ascii_uppercase()),
            false => (*first, *first),
        };
        memchr::memchr2_iter(lower, upper, &subject[..=last])
            .find_map(|start| self.end_at(subject, start).map(|end| (start, end)))
    }

    /// Where the match ends that starts here.
    fn end_at(&self, subject: &[u8], start: usize) -> Option<usize> {
        let end = start + self.text.len();
        let found = subject.get(start..end)?;
        let is_same = match self.case_insensitive {
            true => found.eq_ignore_ascii_case(&self.text),
            false => *found == *self.text,
        };
        if !is_same {
            return None;
        }
        let is_end = |rest: &[u8]| rest.is_empty() || (self.before_newline && rest == b"\n");
        let fits = |end: usize| !self.at_end || subject.get(end..).is_some_and(is_end);
        let with_slash = (self.optional_slash && subject.get(end) == Some(&b'/')).then_some(end + 1);
        with_slash.filter(|end| fits(*end)).or(Some(end)).filter(|end| fits(*end))
    }
}

/// Whether the character after this text is escaped.
fn ends_in_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}
