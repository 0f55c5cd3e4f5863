//! Hexadecimal digits.

/// The value of a hexadecimal digit.
pub const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The value of the first two bytes of a text as hexadecimal digits.
pub fn pair(text: &[u8]) -> Option<u8> {
    match text {
        [high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// The text of bytes: two digits for each, in lower case.
pub fn text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
    bytes.iter().flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::{pair, text};

    #[test]
    fn a_byte_is_two_digits() {
        assert_eq!(text(&[0, 0x7f, 0xa5]), "007fa5");
    }

    #[test]
    fn a_pair_needs_two_digits() {
        assert_eq!(pair(b"fF0"), Some(0xff));
        for text in ["", "4", "4g", "g4", "+4"] {
            assert_eq!(pair(text.as_bytes()), None, "{text}");
        }
    }
}
