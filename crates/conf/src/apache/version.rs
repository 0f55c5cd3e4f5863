//! The version of Apache that is followed, and conditions on it.

use std::cmp::Ordering::{Equal, Greater, Less};

use crate::diagnostic::Diagnostic;
use crate::tree::Word;

/// The version of the Apache whose behaviour Fulmar follows.
pub const VERSION: [u32; 3] = [2, 4, 71];

/// [`VERSION`] as text.
pub const VERSION_TEXT: &str = "2.4.71";

/// Whether `[[!]OPERATOR] VERSION` holds. `matches` tells whether a pattern matches [`VERSION_TEXT`], and `wrong` makes the
/// error about a word.
///
/// # Errors
/// An operator or a version that is none, and what `matches` returns.
pub fn is_version(
    words: &[Word],
    matches: impl FnOnce(&[u8]) -> Result<bool, Diagnostic>,
    wrong: impl Fn(&str, &Word) -> Diagnostic,
) -> Result<bool, Diagnostic> {
    let (operator, word) = match words {
        [version] => (&b"="[..], version),
        [operator, version, ..] => (&*operator.text, version),
        [] => return Err(Diagnostic::emerg("<IfVersion> needs a version")),
    };
    let (negated, operator) = match operator.strip_prefix(b"!") {
        Some(operator) => (true, operator),
        None => (false, operator),
    };
    let inner = word.text.strip_prefix(b"/").and_then(|text| text.strip_suffix(b"/"));
    let wanted = match (operator, inner) {
        (b"~", None) => return Ok(matches(&word.text)? != negated),
        (b"=" | b"==", Some(text)) => return Ok(matches(text)? != negated),
        (b"=" | b"==", None) => &[Equal][..],
        (b">", None) => &[Greater],
        (b">=", None) => &[Greater, Equal],
        (b"<", None) => &[Less],
        (b"<=", None) => &[Less, Equal],
        _ => return Err(wrong("an unknown operator before", word)),
    };
    let version = version(&word.to_string()).ok_or_else(|| wrong("no version:", word))?;
    Ok(wanted.contains(&VERSION.cmp(&version)) != negated)
}

/// `MAJOR[.MINOR[.PATCH]]`; what is missing is zero.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut version = [0; 3];
    let mut parts = text.split('.');
    for place in &mut version {
        match parts.next() {
            Some(part) => *place = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("2.4"), Some([2, 4, 0]));
        assert_eq!(version("2.4.10"), Some([2, 4, 10]));
        assert_eq!(["", "x", "2.", "2.4.1.1"].map(version), [None; 4]);
    }
}
