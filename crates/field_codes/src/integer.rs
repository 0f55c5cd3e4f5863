//! Integers with a prefix (RFC 7541, section 5.1; RFC 9204, section 4.1.1).

use crate::Malformed;

/// Reads an integer of up to `MAX`, whose first byte has so many bits for it. Returns the value and what follows it. `MAX`
/// has at most 62 bits, as numbers of QUIC have.
///
/// # Errors
/// The integer is larger, or written with more bytes than `MAX` needs, or the input ends before it does.
#[inline]
pub fn read<const MAX: u64>(input: &[u8], prefix_bits: u32) -> Result<(u64, &[u8]), Malformed> {
    let (&first, rest) = input.split_first().ok_or(Malformed::Truncated)?;
    let mask = (1 << prefix_bits) - 1;
    let value = u64::from(first) & mask;
    if value < mask { Ok((value, rest)) } else { read_rest::<MAX>(value, rest) }
}

fn read_rest<const MAX: u64>(prefix: u64, input: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let (mut value, mut rest) = (prefix, input);
    for shift in (0..u64::BITS - MAX.leading_zeros()).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Malformed::Truncated)?;
        rest = after;
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= MAX { Ok((value, rest)) } else { Err(Malformed::Integer) };
        }
    }
    Err(Malformed::Integer)
}

/// Appends an integer after the bits that `first` has above the prefix.
#[inline]
pub fn write(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        out.push(first | low_byte(value));
        return;
    }
    out.push(first | low_byte(mask));
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(low_byte(rest & 0x7f) | 0x80);
        rest >>= 7;
    }
    out.push(low_byte(rest));
}

/// The last eight bits.
fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use crate::Malformed;

    const SMALL: u64 = 1 << 24;
    const LARGE: u64 = (1 << 62) - 1;

    #[test]
    fn examples_of_the_rfc() {
        for (value, bits, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])]
        {
            let mut out = Vec::new();
            write(&mut out, 0, bits, usize::try_from(value).unwrap());
            assert_eq!(out, bytes);
            assert_eq!(read::<SMALL>(&out, bits).unwrap(), (value, &[][..]));
        }
    }

    #[test]
    fn every_prefix_reads_back() {
        for bits in 3..=8 {
            for value in (0..1000).chain([0xffff, SMALL, SMALL + 1, LARGE]) {
                let mut out = Vec::new();
                write(&mut out, 0, bits, usize::try_from(value).unwrap());
                out.push(9);
                assert_eq!(read::<LARGE>(&out, bits).unwrap(), (value, &[9][..]));
                let is_small = value <= SMALL;
                assert_eq!(read::<SMALL>(&out, bits).is_ok(), is_small);
                let is_cut = |cut| read::<LARGE>(&out[..cut], bits) == Err(Malformed::Truncated);
                assert!((0..out.len() - 1).all(is_cut));
            }
        }
    }

    #[test]
    fn large_integers_are_rejected() {
        for tail in
            [&[0xff, 0xff, 0xff, 0xff, 0x7f][..], &[0x80, 0x80, 0x80, 0x80, 0], &[0xff, 0xff, 0xff, 0x7f]]
        {
            let read = read::<SMALL>(&[&[0x7f][..], tail].concat(), 7).map(|(value, _)| value);
            assert_eq!(read, Err(Malformed::Integer), "{tail:?}");
        }
        for tail in [&[0xff; 8][..], &[0xff; 9]] {
            let read = read::<LARGE>(&[&[0xff][..], tail, &[0x7f]].concat(), 8).map(|(value, _)| value);
            assert_eq!(read, Err(Malformed::Integer), "{tail:?}");
        }
    }
}
