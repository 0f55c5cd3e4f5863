//! Classes of bytes (RFC 9110, section 5.6).

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
    use super::trim;

    #[test]
    fn white_space_is_space_and_tab_only() {
        for (bytes, trimmed) in
            [("", ""), (" \t ", ""), ("\t a b \t", "a b"), ("\x0ba", "\x0ba"), ("a\r", "a\r")]
        {
            assert_eq!(trim(bytes.as_bytes()), trimmed.as_bytes(), "{bytes:?}");
        }
    }
}
