//! Variables of the environment in a text: the files of `include_template`.

use memchr::memchr;

/// The text with `$NAME` and `${NAME}` replaced by `value(NAME)`. Names without a value stay as they are written: they are
/// variables of requests, such as `$host`. A value is not searched for further names.
pub fn fill_in(text: &[u8], value: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'$', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (name, length) = name(&rest[1..]);
        match std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).and_then(&value) {
            Some(value) => {
                out.extend_from_slice(&value);
                rest = &rest[1 + length..];
            }
            None => {
                out.push(b'$');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The name after a `$`, and how many bytes it takes with its braces.
fn name(text: &[u8]) -> (&[u8], usize) {
    let in_braces = text.first() == Some(&b'{');
    let start = usize::from(in_braces);
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = text[start..].iter().take_while(|byte| is_part(byte)).count();
    let name = &text[start..start + length];
    match (in_braces, text.get(start + length)) {
        (false, _) => (name, length),
        (true, Some(b'}')) => (name, length + 2),
        (true, _) => (&[], 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_value_are_replaced() {
        let value = |name: &str| match name {
            "PORT" => Some(b"8080".to_vec()),
            "EMPTY" => Some(Vec::new()),
            "LOOP" => Some(b"$PORT".to_vec()),
            _ => None,
        };
        for (text, expected) in [
            ("listen ${PORT};", "listen 8080;"),
            ("listen $PORT;", "listen 8080;"),
            ("$host$PORT$", "$host8080$"),
            ("$PORTS ${PORT ${} $$PORT", "$PORTS ${PORT ${} $8080"),
            ("a${EMPTY}b $LOOP", "ab $PORT"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(fill_in(text.as_bytes(), value)).unwrap(), expected, "{text}");
        }
    }
}
