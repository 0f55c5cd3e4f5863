//! Numbers: plain, with units of bytes, in a range, status codes.

use super::ValueError;
use crate::tree::Word;
use http::parse_number;

/// Largest number that nginx reads on 64-bit systems.
const MAX: u64 = i64::MAX.unsigned_abs();

/// A size in bytes: digits, then optionally `k` or `m`, in upper or lower case.
///
/// # Errors
/// [`ValueError::Size`].
pub fn size(word: &Word) -> Result<u64, ValueError> {
    scaled(&word.text, &[(b'k', 10), (b'm', 20)])
}

/// As [`size`], for a text that variables gave while a request is served; `None` if it is not a size.
pub fn size_in_text(text: &[u8]) -> Option<u64> {
    scaled(text, &[(b'k', 10), (b'm', 20)]).ok()
}

/// An offset in a file in bytes: digits, and `k`, `m` or `g` in either case.
///
/// # Errors
/// [`ValueError::Size`].
pub fn offset(word: &Word) -> Result<u64, ValueError> {
    scaled(&word.text, &[(b'k', 10), (b'm', 20), (b'g', 30)])
}

/// Digits.
///
/// # Errors
/// [`ValueError::Number`].
pub fn number(word: &Word) -> Result<u64, ValueError> {
    parse_number(&word.text).ok_or(ValueError::Number)
}

/// Digits, from `least` to `most`, both included; no `most` means no upper end.
///
/// # Errors
/// [`ValueError::Number`], [`ValueError::Range`].
pub fn bounded(word: &Word, least: u64, most: Option<u64>) -> Result<u64, ValueError> {
    let value = number(word)?;
    let fits = value >= least && most.is_none_or(|most| value <= most);
    if fits { Ok(value) } else { Err(ValueError::Range(least, most)) }
}

/// A status code: digits, at most 999. Each directive checks which codes it allows.
///
/// # Errors
/// [`ValueError::Invalid`].
pub fn status(word: &Word) -> Result<u16, ValueError> {
    let code = parse_number(&word.text).and_then(|value| u16::try_from(value).ok());
    code.filter(|code| *code <= 999).ok_or(ValueError::Invalid)
}

fn scaled(text: &[u8], units: &[(u8, u32)]) -> Result<u64, ValueError> {
    let wrong = ValueError::Size { has_gigabytes: units.len() > 2 };
    let unit = text.last().and_then(|last| units.iter().find(|(unit, _)| last.eq_ignore_ascii_case(unit)));
    let (number, shift) = match (unit, text.split_last()) {
        (Some((_, shift)), Some((_, number))) => (number, *shift),
        _ => (text, 0),
    };
    let value = parse_number(number).ok_or(wrong.clone())?;
    if value > MAX >> shift { Err(wrong) } else { Ok(value << shift) }
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    #[test]
    fn sizes_have_units_up_to_m_and_offsets_up_to_g() {
        assert_eq!(size(&word("0")), Ok(0));
        assert_eq!(size(&word("8k")), Ok(8192));
        assert_eq!(size(&word("1M")), Ok(1 << 20));
        assert_eq!(size(&word("1g")), Err(ValueError::Size { has_gigabytes: false }));
        assert_eq!(offset(&word("1G")), Ok(1 << 30));
        for wrong in ["", "k", "-1", "1 k", "1kk", "0x10", "+1", "1.5m"] {
            assert_eq!(size(&word(wrong)), Err(ValueError::Size { has_gigabytes: false }), "{wrong}");
        }
    }

    #[test]
    fn numbers_stop_at_the_largest_signed_one() {
        assert_eq!(number(&word("9223372036854775807")), Ok(MAX));
        assert_eq!(number(&word("9223372036854775808")), Err(ValueError::Number));
        assert_eq!(offset(&word("8589934591g")), Ok(8_589_934_591 << 30));
        assert_eq!(offset(&word("8589934592g")), Err(ValueError::Size { has_gigabytes: true }));
        assert_eq!(number(&word("99999999999999999999999")), Err(ValueError::Number));
    }

    #[test]
    fn ranges_include_their_ends() {
        assert_eq!(bounded(&word("1"), 1, Some(9)), Ok(1));
        assert_eq!(bounded(&word("9"), 1, Some(9)), Ok(9));
        assert_eq!(bounded(&word("10"), 1, Some(9)), Err(ValueError::Range(1, Some(9))));
        assert_eq!(bounded(&word("31"), 32, None), Err(ValueError::Range(32, None)));
        assert_eq!(bounded(&word("x"), 1, None), Err(ValueError::Number));
    }

    #[test]
    fn status_codes_are_at_most_999() {
        assert_eq!(status(&word("404")), Ok(404));
        assert_eq!(status(&word("0")), Ok(0));
        assert_eq!(status(&word("1000")), Err(ValueError::Invalid));
        assert_eq!(status(&word("40x")), Err(ValueError::Invalid));
    }
}
