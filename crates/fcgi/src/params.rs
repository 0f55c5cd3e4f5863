//! Parameters: the pairs of names and values that are the request's environment (FastCGI 1.0,
//! section 3.4).

use crate::record::{HEADER_LENGTH, PARAMS, STDIN_LIMIT, encode_stream, encode_stream_end, header};

/// Writes the parameters of one request, as records after what the output has.
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    /// Where the header of the first record stands.
    start: usize,
}

/// The parameters would be longer than [`Params::LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fastcgi request record is too big")]
pub struct TooLong;

impl<'a> Params<'a> {
    /// How long all parameters may be together.
    pub const LIMIT: usize = 16 * 1024 * 1024;

    /// Begins the stream of parameters.
    pub fn begin(out: &'a mut Vec<u8>) -> Params<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LENGTH]);
        Params { out, start }
    }

    /// Adds a parameter. The order is kept, and one name may come more than once.
    ///
    /// # Errors
    /// The parameters are too long with this one; it is left out.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLong> {
        self.write(name, true, |out| out.extend_from_slice(value)).map(|_| ())
    }

    /// Adds a parameter whose value the function appends, and tells whether it did: an empty value counts only with
    /// `keeps_empty`.
    ///
    /// # Errors
    /// As [`Params::push`].
    pub fn write(
        &mut self,
        name: &[u8],
        keeps_empty: bool,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, TooLong> {
        let before = self.out.len();
        push_length(name.len(), self.out)?;
        // Most values are short; a long one is moved to make room for its length.
        let length_at = self.out.len();
        self.out.push(0);
        self.out.extend_from_slice(name);
        let value_at = self.out.len();
        value(self.out);
        let length = self.out.len() - value_at;
        if length == 0 && !keeps_empty {
            self.out.truncate(before);
            return Ok(false);
        }
        self.check(before)?;
        if let Some(short) = short(length) {
            self.out[length_at] = short;
        } else {
            self.out.splice(length_at..=length_at, long(length)?);
        }
        Ok(true)
    }

    /// Ends the stream.
    pub fn end(self) {
        let Params { out, start } = self;
        let content = start + HEADER_LENGTH;
        match u16::try_from(out.len() - content) {
            Ok(0) => out.truncate(start),
            Ok(length) if length <= STDIN_LIMIT => {
                let (header, padding) = header(PARAMS, length);
                out[start..content].copy_from_slice(&header);
                out.extend_from_slice(padding);
            }
            _ => {
                let all = out.split_off(content);
                out.truncate(start);
                encode_stream(PARAMS, &all, out);
            }
        }
        encode_stream_end(PARAMS, out);
    }

    /// Takes back what was added since then if it is too much.
    fn check(&mut self, before: usize) -> Result<(), TooLong> {
        if self.out.len() - self.start <= Params::LIMIT {
            return Ok(());
        }
        self.out.truncate(before);
        Err(TooLong)
    }
}

/// A length takes one byte below 128, else four, of which the first bit is set.
fn push_length(length: usize, out: &mut Vec<u8>) -> Result<(), TooLong> {
    match short(length) {
        Some(short) => out.push(short),
        None => out.extend_from_slice(&long(length)?),
    }
    Ok(())
}

fn short(length: usize) -> Option<u8> {
    u8::try_from(length).ok().filter(|&short| short < 128)
}

fn long(length: usize) -> Result<[u8; 4], TooLong> {
    let long = u32::try_from(length).ok().filter(|&long| long >> 31 == 0).ok_or(TooLong)?;
    Ok((long | 1 << 31).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Params, TooLong};

    /// The records of what is added, after a byte that was there.
    fn encoded(add: impl FnOnce(&mut Params<'_>)) -> Vec<u8> {
        let mut out = vec![0xee];
        let mut params = Params::begin(&mut out);
        add(&mut params);
        params.end();
        assert_eq!(out.remove(0), 0xee);
        out
    }

    #[test]
    fn lengths_have_one_byte_or_four() {
        let expected =
            [&[1, 127, b'A'][..], &[b'v'; 127], &[2, 0x80, 0, 0, 128, b'B', b'C'], &[b'w'; 128], &[0, 0]];
        let expected = expected.concat();
        let out = encoded(|params| {
            params.push(b"A", &[b'v'; 127]).unwrap();
            params.push(b"BC", &[b'w'; 128]).unwrap();
            assert_eq!(params.write(b"D", false, |_| {}), Ok(false));
            assert_eq!(params.write(b"", true, |_| {}), Ok(true));
        });
        assert_eq!(out[..8], [1, 4, 0, 1, 1, 11, 5, 0]);
        assert_eq!(out[8..8 + 267], expected);
        assert_eq!(out[8 + 267..], [0, 0, 0, 0, 0, 1, 4, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_value_larger_than_a_record_goes_on_in_the_next() {
        let out = encoded(|params| params.push(b"LARGE", &vec![b'v'; 70_000]).unwrap());
        assert_eq!(out[..8], [1, 4, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[8..18], [5, 0x80, 1, 0x11, 0x70, b'L', b'A', b'R', b'G', b'E']);
        let second = 8 + 0xfff8;
        let rest = u16::try_from(70_010 - 0xfff8).unwrap().to_be_bytes();
        assert_eq!(out[second..second + 7], [1, 4, 0, 1, rest[0], rest[1], 6]);
    }

    #[test]
    fn there_is_a_limit_and_what_exceeds_it_leaves_no_trace() {
        let add = |params: &mut Params<'_>| params.push(b"A", b"b").unwrap();
        let long = vec![0; Params::LIMIT];
        let refused = encoded(|params| {
            add(params);
            assert_eq!(params.push(b"B", &long), Err(TooLong));
        });
        assert_eq!(refused, encoded(add));
    }

    #[test]
    fn no_parameters_are_an_empty_stream() {
        assert_eq!(encoded(|_| {}), [1, 4, 0, 1, 0, 0, 0, 0]);
    }
}
