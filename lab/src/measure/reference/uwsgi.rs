//! The uwsgi protocol as far as a responder needs it: one request on a connection, which ends with the response. The answer
//! to every request is the file of the root that has the name at the end of `REQUEST_URI`.
//! <https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>

use super::cache::Entry;

/// What the bytes that have come so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The beginning of a request.
    Partial,
    /// A request for a file, as a path that begins with a slash.
    Request(String),
    /// No request of uwsgi.
    Refused,
}

const HEADER_BYTES: usize = 4;

/// Reads a request with its content, which is dropped.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let Some(([modifier, low, high, _], rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Parsed::Partial;
    };
    if *modifier != 0 {
        return Parsed::Refused;
    }
    let Some((mut params, content)) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))
    else {
        return Parsed::Partial;
    };
    let (mut target, mut length) = (None, 0);
    while !params.is_empty() {
        let Some((name, value, after)) = pair(params) else { return Parsed::Refused };
        let value = String::from_utf8_lossy(value);
        match name {
            b"REQUEST_URI" => target = value.rsplit('/').next().map(|name| format!("/{name}")),
            b"CONTENT_LENGTH" => length = value.parse().unwrap_or(0),
            _ => {}
        }
        params = after;
    }
    match target {
        Some(_) if content.len() < length => Parsed::Partial,
        Some(target) => Parsed::Request(target),
        None => Parsed::Refused,
    }
}

/// A name, its value, and what stands behind them.
fn pair(params: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = |input: &'_ [u8]| -> Option<(usize, usize)> {
        let length = usize::from(u16::from_le_bytes(*input.first_chunk()?));
        (input.len() >= 2 + length).then_some((2, 2 + length))
    };
    let (start, end) = text(params)?;
    let (name, rest) = (&params[start..end], &params[end..]);
    let (start, end) = text(rest)?;
    Some((name, &rest[start..end], &rest[end..]))
}

/// Writes the whole answer to a request.
pub(super) fn answer(entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(entry.head.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&entry.content);
}

#[cfg(test)]
mod tests {
    use super::{Parsed, parse};

    fn request(params: &[(&str, &str)], content: &[u8]) -> Vec<u8> {
        let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
        let params: Vec<u8> =
            params.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        let length = u16::try_from(params.len()).unwrap().to_le_bytes();
        [&[0, length[0], length[1], 0], &params[..], content].concat()
    }

    #[test]
    fn requests_are_read_with_their_content() {
        let params = [("REQUEST_METHOD", "POST"), ("REQUEST_URI", "/passed/1k"), ("CONTENT_LENGTH", "3")];
        let whole = request(&params, b"abc");
        assert_eq!(parse(&whole), Parsed::Request("/1k".to_owned()));
        assert!((0..whole.len()).all(|length| parse(&whole[..length]) == Parsed::Partial));
        let empty = request(&[("CONTENT_LENGTH", ""), ("REQUEST_URI", "/a")], b"");
        assert_eq!(parse(&empty), Parsed::Request("/a".to_owned()));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Parsed::Refused);
        assert_eq!(parse(&request(&[("A", "b")], b"")), Parsed::Refused);
        assert_eq!(parse(&[0, 3, 0, 0, 9, 0, b'A']), Parsed::Refused);
    }
}
