//! Tokens and lists of them (RFC 9110, section 5.6).

use crate::Fields;

/// A byte that may stand in a token.
#[inline]
pub const fn is_token_byte(byte: u8) -> bool {
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
#[inline]
pub fn trim(bytes: &[u8]) -> &[u8] {
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

/// Whether a list of tokens in fields of this name has this one, in any case.
pub fn has_token(fields: &Fields, name: &str, token: &str) -> bool {
    let is_it = |member: &[u8]| trim(member).eq_ignore_ascii_case(token.as_bytes());
    fields.all(name).any(|value| value.split(|&byte| byte == b',').any(is_it))
}

/// The members of the lists in all fields of this name (RFC 9110, section 5.6.1).
pub fn tokens<'a>(fields: &'a Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let members = fields.all(name).flat_map(|value| value.split(|&byte| byte == b','));
    members.map(trim).filter(|token| !token.is_empty())
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
