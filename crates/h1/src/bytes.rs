//! Classes of bytes (RFC 9110, section 5.6; RFC 3986, section 2).

/// A byte that may stand in a token.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// The bytes that may stand in a URI's host as themselves: unreserved or sub-delims.
pub(crate) static HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        #[expect(clippy::cast_possible_truncation, reason = "below 128")]
        let value = byte as u8;
        table[byte] = value.is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// The value of a hexadecimal digit.
pub(crate) const fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The byte that two hexadecimal digits at the start of `digits` stand for.
pub(crate) fn hex_pair(digits: &[u8]) -> Option<u8> {
    match digits {
        [high, low, ..] => Some(hex_value(*high)? << 4 | hex_value(*low)?),
        _ => None,
    }
}

/// The bytes without the spaces and tabs around them.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    if let [b' ', rest @ ..] = bytes
        && let [first, ..] = rest
        && let [.., last] = rest
        && !blank(first)
        && !blank(last)
    {
        return rest;
    }
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

#[cfg(test)]
mod tests {
    use super::{hex_pair, trim};

    #[test]
    fn white_space_is_space_and_tab_only() {
        for (bytes, trimmed) in
            [("", ""), (" \t ", ""), ("\t a b \t", "a b"), ("\x0ba", "\x0ba"), ("a\r", "a\r")]
        {
            assert_eq!(trim(bytes.as_bytes()), trimmed.as_bytes(), "{bytes:?}");
        }
    }

    #[test]
    fn two_digits_are_needed() {
        assert_eq!(hex_pair(b"fF0"), Some(0xff));
        for digits in ["", "4", "4g", "g4", "+4"] {
            assert_eq!(hex_pair(digits.as_bytes()), None, "{digits}");
        }
    }
}
