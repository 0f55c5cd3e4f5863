//! What clients accept: `Accept`, `Accept-Language` and so on, and the parameters of media types.

use contract::Exchange;

/// An item of a list, with the parameters that matter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accepted {
    /// In lower case.
    pub(super) name: Vec<u8>,
    pub(super) quality: f32,
    pub(super) level: f32,
    pub(super) charset: Vec<u8>,
}

/// The level of HTML that is meant where none is said.
const HTML_LEVEL: f32 = 2.0;

/// Items of one field that count.
const ITEMS_MAX: usize = 256;

/// The items of a field.
pub(super) fn items(field: &[u8]) -> Vec<Accepted> {
    let mut items = Vec::new();
    let mut rest = field.trim_ascii();
    while !rest.is_empty() && items.len() < ITEMS_MAX {
        let (item, after) = item(rest);
        items.push(item);
        // Each step takes at least a byte.
        rest = if after.len() < rest.len() { after } else { &rest[1..] };
    }
    items
}

/// The name of an encoding that a client uses: some write `x-gzip`.
pub(crate) fn known_name(exchange: &Exchange, encoding: &[u8]) -> Vec<u8> {
    let plain = encoding.strip_prefix(b"x-").unwrap_or(encoding);
    let Some(field) = exchange.request.head.fields.get("accept-encoding") else { return encoding.to_vec() };
    let accepted = items(field);
    let is_plain = |name: &[u8]| name == plain;
    let is_other = |name: &[u8]| name.strip_prefix(b"x-") == Some(plain);
    match (accepted.iter().any(|item| is_plain(&item.name)), accepted.iter().any(|item| is_other(&item.name)))
    {
        (true, _) => plain.to_vec(),
        (false, true) => [b"x-", plain].concat(),
        (false, false) => encoding.to_vec(),
    }
}

/// The first item of a list, and what follows it.
pub(super) fn item(text: &[u8]) -> (Accepted, &[u8]) {
    let (name, mut rest) = token(text.trim_ascii_start(), false);
    let name = name.to_ascii_lowercase();
    let level = if name == b"text/html" { HTML_LEVEL } else { 0.0 };
    let mut item = Accepted { name, quality: 1.0, level, charset: Vec::new() };
    while let Some(after) = rest.strip_prefix(b";") {
        let (parameter, after) = token(after.trim_ascii_start(), true);
        rest = after;
        let Some(equals) = parameter.iter().position(|byte| *byte == b'=' || byte.is_ascii_whitespace())
        else {
            continue;
        };
        let is_filler = |byte: &&u8| **byte == b'=' || byte.is_ascii_whitespace();
        let skipped = parameter[equals..].iter().take_while(is_filler).count();
        let value = value(&parameter[equals + skipped..]).to_ascii_lowercase();
        match parameter[..equals].to_ascii_lowercase().as_slice() {
            b"q" | b"qs" => item.quality = quality(&value),
            b"level" => item.level = number(&value),
            b"charset" => item.charset = value,
            _ => {}
        }
    }
    (item, rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start())
}

/// A token or a quoted string, and what follows it. A token ends with a comma, a semicolon, and often with a space.
fn token(text: &[u8], spaces: bool) -> (&[u8], &[u8]) {
    let mut is_quoted = false;
    let end = text.iter().position(|byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted && (matches!(byte, b',' | b';') || !spaces && byte.is_ascii_whitespace())
    });
    let (token, rest) = text.split_at(end.unwrap_or(text.len()));
    (token.trim_ascii_end(), rest.trim_ascii_start())
}

/// What a parameter is set to, without quotes.
fn value(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"\"") {
        Some(text) => &text[..text.iter().position(|&byte| byte == b'"').unwrap_or(text.len())],
        None => &text[..text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len())],
    }
}

/// A quality (RFC 9110, section 12.4.2). An invalid one counts as 1.
fn quality(text: &[u8]) -> f32 {
    let digits = match text {
        [b'.', digits @ ..] | [b'0', b'.', digits @ ..] => digits,
        [b'0', ..] => return 0.0,
        _ => return 1.0,
    };
    let digits = digits.iter().take(3).take_while(|byte| byte.is_ascii_digit());
    let (sum, _) =
        digits.fold((0.0, 100.0), |(sum, unit), digit| (sum + f32::from(digit - b'0') * unit, unit / 10.0));
    sum / 1000.0
}

fn number(text: &[u8]) -> f32 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).take(6);
    digits.fold(0.0, |number, digit| number * 10.0 + f32::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::{Accepted, items};

    #[test]
    fn items_and_their_qualities() {
        let read = |field: &str| -> Vec<(String, f32)> {
            let text = |item: Accepted| (String::from_utf8(item.name).unwrap(), item.quality);
            items(field.as_bytes()).into_iter().map(text).collect()
        };
        let expected = [("text/html", 1.0), ("a/*", 0.5), ("*/*", 0.123), ("x", 0.0), ("y", 1.0)];
        let expected = expected.map(|(name, quality)| (name.to_owned(), quality));
        assert_eq!(read("Text/HTML, a/*;q=0.5 , */*;q=.1234,x;q=0, y;q=7"), expected);
        assert_eq!(items(b"text/html;level=1;charset=\"A b\"")[0].level, 1.0);
        assert_eq!(items(b"text/html;level=1;charset=\"A b\"")[0].charset, b"a b");
        assert!(read("").is_empty());
        for odd in [",", ";", ",,;;,", "a;q", "\"", "a b c", ";q=1"] {
            assert!(items(odd.as_bytes()).len() < 8, "{odd}");
        }
    }
}
