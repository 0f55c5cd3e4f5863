//! From a list of fields to the head of a response (RFC 9113, section 8.3.2; RFC 9114, section 4.3.2).

use super::HeaderList;
use crate::{Fields, Status, breaks_framing};

/// A response that breaks the rules: the line for the error log, without "upstream" in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedResponse(pub &'static str);

/// Reads the head of a response, an interim one or the final one. `fields` gets its fields.
///
/// # Errors
/// The head breaks the rules.
pub fn read_response(list: &HeaderList, fields: &mut Fields) -> Result<Status, MalformedResponse> {
    let mut all = list.iter();
    let status = match all.next() {
        Some((b":status", value)) => read_status(value)?,
        _ => return Err(MalformedResponse("sent no :status header")),
    };
    add_fields(all, fields)?;
    Ok(status)
}

/// Reads the fields after the content.
///
/// # Errors
/// They break the rules.
pub fn read_trailers(list: &HeaderList, fields: &mut Fields) -> Result<(), MalformedResponse> {
    add_fields(list.iter(), fields)
}

fn read_status(value: &[u8]) -> Result<Status, MalformedResponse> {
    let digits = value.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(value).ok()).flatten();
    let number = digits.filter(|digits| digits.len() == 3).and_then(|digits| digits.parse().ok());
    match number {
        Some(number @ 100..) => Ok(Status(number)),
        _ => Err(MalformedResponse("sent invalid :status header")),
    }
}

fn add_fields<'a>(
    all: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    fields: &mut Fields,
) -> Result<(), MalformedResponse> {
    fields.clear();
    for (name, value) in all {
        let is_small = name.iter().all(|byte| !matches!(byte, b'A'..=b'Z' | b':' | 0..=b' ' | 0x7f..));
        if name.is_empty() || !is_small {
            return Err(MalformedResponse("sent invalid header name"));
        }
        let pushed = if breaks_framing(value) { None } else { fields.push(name, value.trim_ascii()).ok() };
        pushed.ok_or(MalformedResponse("sent invalid header value"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::read_response;
    use crate::multiplexed::HeaderList;
    use crate::{Fields, Status};

    fn read(fields: &[(&str, &str)]) -> Result<(Status, usize), &'static str> {
        let mut list = HeaderList::new(10_000);
        fields.iter().for_each(|(name, value)| list.add(name.as_bytes(), value.as_bytes()));
        let mut read = Fields::new();
        let status = read_response(&list, &mut read).map_err(|error| error.0)?;
        Ok((status, read.iter().count()))
    }

    #[test]
    fn heads_are_read_or_rejected() {
        assert_eq!(read(&[(":status", "200"), ("a", "1"), ("a", " 2")]), Ok((Status(200), 2)));
        for fields in [
            &[][..],
            &[("a", "1")],
            &[("a", "1"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "20")],
            &[(":status", "099")],
            &[(":status", "+20")],
            &[(":status", "200"), ("A", "1")],
            &[(":status", "200"), ("", "1")],
            &[(":status", "200"), ("a b", "1")],
            &[(":status", "200"), ("a", "1\r\nb: 2")],
        ] {
            assert!(read(fields).is_err(), "{fields:?}");
        }
    }
}
