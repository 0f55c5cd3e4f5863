//! The user of Basic authentication (RFC 7617).

/// The user that an `Authorization` field names, before any password is checked.
pub(super) fn of_basic(field: &[u8]) -> Option<Vec<u8>> {
    credentials(field).map(|(user, _)| user)
}

/// The user and the password of an `Authorization` field; what they mean is not looked at.
pub(crate) fn credentials(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = field.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut user = decode(rest.trim_ascii_start())?;
    let colon = user.iter().position(|&byte| byte == b':')?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    (colon > 0).then_some((user, password))
}

/// Decodes Base64 (RFC 4648, section 4); the padding may be left out, and what follows it is not looked at.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'=').unwrap_or(text.len());
    let digits = text[..end].iter().map(|&byte| digit(byte)).collect::<Option<Vec<u8>>>()?;
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let bits = group.iter().fold(0u32, |bits, &digit| bits << 6 | u32::from(digit));
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len()]);
    }
    (!out.is_empty()).then_some(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn base64() {
        assert_eq!(decode(b"Zm9vYmFy").as_deref(), Some(&b"foobar"[..]));
        assert_eq!(decode(b"Zm9vYmE=").as_deref(), Some(&b"fooba"[..]));
        assert_eq!(decode(b"Zm9vYg").as_deref(), Some(&b"foob"[..]));
        for wrong in [&b"Z"[..], b"Zm9v*", b"", b"Zm9vY"] {
            assert_eq!(decode(wrong), None);
        }
    }
}
