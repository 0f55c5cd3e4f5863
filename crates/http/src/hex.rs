//! Reading hexadecimal digits.

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

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn a_pair_needs_two_digits() {
        assert_eq!(pair(b"fF0"), Some(0xff));
        for text in ["", "4", "4g", "g4", "+4"] {
            assert_eq!(pair(text.as_bytes()), None, "{text}");
        }
    }
}
