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

/// The bytes of a text: two hexadecimal digits for each, and nothing else.
pub fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    text.chunks(2).map(pair).collect()
}

/// The text of bytes: two digits for each, in lower case.
pub fn text(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|&byte| digits(byte)).map(char::from).collect()
}

/// The digits of as many bytes as are known when the program is compiled: without a look for the end, and without memory.
pub fn pairs<const N: usize>(bytes: [u8; N]) -> [[u8; 2]; N] {
    let mut pairs = [[0; 2]; N];
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = digits(byte);
    }
    pairs
}

fn digits(byte: u8) -> [u8; 2] {
    // One look for each byte: half of the instructions of two.
    static PAIRS: [[u8; 2]; 256] = all_pairs();
    PAIRS[usize::from(byte)]
}

const fn all_pairs() -> [[u8; 2]; 256] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{bytes, pair, pairs, text};

    #[test]
    fn a_byte_is_two_digits() {
        assert_eq!(text(&[0, 0x7f, 0xa5]), "007fa5");
        assert_eq!(pairs([0, 0x7f, 0xa5]).as_flattened(), b"007fa5");
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(bytes(b"007fA5"), Some(vec![0, 0x7f, 0xa5]));
        assert_eq!(bytes(b""), Some(Vec::new()));
        for text in ["0", "007", "0g", " 0"] {
            assert_eq!(bytes(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_pair_needs_two_digits() {
        assert_eq!(pair(b"fF0"), Some(0xff));
        for text in ["", "4", "4g", "g4", "+4"] {
            assert_eq!(pair(text.as_bytes()), None, "{text}");
        }
    }
}
