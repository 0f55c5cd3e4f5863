//! Parameters: the pairs of names and values that are the request's environment (FastCGI 1.0,
//! section 3.4).

use crate::record::{PARAMS, encode_stream, encode_stream_end};

/// The parameters of one request, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Params {
    encoded: Vec<u8>,
}

/// A name or value longer than the 31 bits of a length can say, or more parameters than [`Params::LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fastcgi request record is too big")]
pub struct TooLong;

impl Params {
    /// How many bytes all parameters of a request may have. Heads are far smaller: what exceeds this is
    /// a value that a configuration multiplied.
    pub const LIMIT: usize = 16 * 1024 * 1024;

    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// Adds a parameter behind the others; none replaces another.
    ///
    /// # Errors
    ///
    /// [`TooLong`], with which nothing was added.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLong> {
        self.push_joined(name, &[value])
    }

    /// Adds a parameter whose value is these parts, one behind the other.
    ///
    /// # Errors
    ///
    /// [`TooLong`], with which nothing was added.
    pub fn push_joined(&mut self, name: &[u8], parts: &[&[u8]]) -> Result<(), TooLong> {
        let length = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
        let total = self.encoded.len().saturating_add(name.len()).saturating_add(length);
        if total.saturating_add(8) > Params::LIMIT {
            return Err(TooLong);
        }
        self.push_length(name.len())?;
        self.push_length(length)?;
        self.encoded.extend_from_slice(name);
        parts.iter().for_each(|part| self.encoded.extend_from_slice(part));
        Ok(())
    }

    /// Appends the parameters and their end as records.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_stream(PARAMS, &self.encoded, out);
        encode_stream_end(PARAMS, out);
    }

    /// One byte below 128; four bytes, of which the first has its high bit set, from there on.
    fn push_length(&mut self, length: usize) -> Result<(), TooLong> {
        match u8::try_from(length) {
            Ok(short) if short < 128 => self.encoded.push(short),
            _ => {
                let long = u32::try_from(length).map_err(|_| TooLong)?;
                self.encoded.extend_from_slice(&(long | 1 << 31).to_be_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Params, TooLong};

    fn encoded(params: &Params) -> Vec<u8> {
        let mut out = Vec::new();
        params.encode(&mut out);
        out
    }

    #[test]
    fn lengths_have_one_byte_or_four() {
        let mut params = Params::new();
        params.push(b"A", &[b'v'; 127]).unwrap();
        params.push_joined(b"BC", &[&[b'w'; 100], b", ", &[b'w'; 26]]).unwrap();
        params.push(b"", b"").unwrap();
        let expected = [
            &[1, 127, b'A'][..],
            &[b'v'; 127],
            &[2, 0x80, 0, 0, 128, b'B', b'C'],
            &[b'w'; 100],
            b", ",
            &[b'w'; 26],
            &[0, 0],
        ];
        let expected = expected.concat();
        let out = encoded(&params);
        assert_eq!(out[..8], [1, 4, 0, 1, 1, 11, 5, 0]);
        assert_eq!(out[8..8 + 267], expected);
        assert_eq!(out[8 + 267..], [0, 0, 0, 0, 0, 1, 4, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_value_larger_than_a_record_goes_on_in_the_next() {
        let mut params = Params::new();
        params.push(b"LARGE", &vec![b'v'; 70_000]).unwrap();
        let out = encoded(&params);
        assert_eq!(out[..8], [1, 4, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(out[8..18], [5, 0x80, 1, 0x11, 0x70, b'L', b'A', b'R', b'G', b'E']);
        let second = 8 + 0xfff8;
        let rest = u16::try_from(70_010 - 0xfff8).unwrap().to_be_bytes();
        assert_eq!(out[second..second + 7], [1, 4, 0, 1, rest[0], rest[1], 6]);
    }

    #[test]
    fn there_is_a_limit_and_what_exceeds_it_leaves_no_trace() {
        let mut params = Params::new();
        params.push(b"A", b"b").unwrap();
        let before = encoded(&params);
        assert_eq!(params.push(b"B", &vec![0; Params::LIMIT]), Err(TooLong));
        assert_eq!(encoded(&params), before);
    }

    #[test]
    fn no_parameters_are_an_empty_stream() {
        assert_eq!(encoded(&Params::new()), [1, 4, 0, 1, 0, 0, 0, 0]);
    }
}
