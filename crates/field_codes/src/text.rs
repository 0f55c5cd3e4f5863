//! Texts: a bit that says whether the Huffman code is used, a length, and so many bytes (RFC 7541, section 5.2; RFC 9204,
//! section 4.1.2).

use crate::{Malformed, huffman, integer};

/// The longest text that is accepted, in bytes. Each list of fields has a lower limit.
const LENGTH_MAX: u64 = 1 << 24;

/// How many ones may fill up the last byte of an encoded text.
pub const PADDING_MAX: u32 = 7;

/// Appends a text to `out` and returns what follows it. The length has so many bits in the first byte, and the bit above
/// them tells whether the text is encoded. Up to `padding` ones may fill up its end, usually [`PADDING_MAX`].
///
/// # Errors
/// The text is malformed, or the input ends before it does.
#[inline]
pub fn read<'a>(
    input: &'a [u8],
    prefix_bits: u32,
    padding: u32,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Malformed> {
    let is_encoded = input.first().is_some_and(|first| first & (1 << prefix_bits) != 0);
    let (length, rest) = integer::read::<LENGTH_MAX>(input, prefix_bits)?;
    let length = usize::try_from(length).map_err(|_| Malformed::Integer)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
    match is_encoded {
        true => huffman::decode(text, padding, out)?,
        false => out.extend_from_slice(text),
    }
    Ok(rest)
}

/// Appends a text, encoded where that is shorter, after the bits that `first` has above the bit that tells this.
#[inline]
pub fn write(out: &mut Vec<u8>, first: u8, prefix_bits: u32, text: &[u8]) {
    let encoded = huffman::encoded_length(text);
    if encoded < text.len() {
        integer::write(out, first | 1 << prefix_bits, prefix_bits, encoded);
        huffman::encode(text, out);
    } else {
        write_plain(out, first, prefix_bits, text);
    }
}

/// As [`write`], without the Huffman code.
#[inline]
pub fn write_plain(out: &mut Vec<u8>, first: u8, prefix_bits: u32, text: &[u8]) {
    integer::write(out, first, prefix_bits, text.len());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::{PADDING_MAX, read, write};
    use crate::Malformed;

    #[test]
    fn texts_read_back_with_every_prefix() {
        let long = vec![b'x'; 300];
        for prefix_bits in 3..=7 {
            for text in [&b""[..], b"a", b"\x00\xff\x01", b"www.example.com", &long] {
                let mut bytes = Vec::new();
                write(&mut bytes, 0, prefix_bits, text);
                bytes.push(7);
                let mut out = Vec::new();
                assert_eq!(read(&bytes, prefix_bits, PADDING_MAX, &mut out), Ok(&[7][..]));
                assert_eq!(out, text);
                for cut in 0..bytes.len() - 1 {
                    let cut = read(&bytes[..cut], prefix_bits, PADDING_MAX, &mut Vec::new());
                    assert_eq!(cut, Err(Malformed::Truncated));
                }
            }
        }
    }
}
