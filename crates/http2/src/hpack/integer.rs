//! Integers with a prefix (RFC 7541, section 5.1).

use super::Malformed;

/// The largest value that is accepted. Nothing that is numbered here needs more.
const VALUE_MAX: u32 = 1 << 24;

/// Reads an integer whose first byte has so many bits for it. Returns the value and what follows it.
pub(super) fn read(input: &[u8], prefix_bits: u32) -> Result<(u32, &[u8]), Malformed> {
    let (&first, mut rest) = input.split_first().ok_or(Malformed::Truncated)?;
    let mask = (1u32 << prefix_bits) - 1;
    let mut value = u32::from(first) & mask;
    if value < mask {
        return Ok((value, rest));
    }
    for shift in (0..=21).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Malformed::Truncated)?;
        rest = after;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= VALUE_MAX { Ok((value, rest)) } else { Err(Malformed::Integer) };
        }
    }
    Err(Malformed::Integer)
}

/// Appends an integer after the bits that `first` has above the prefix.
pub(super) fn write(out: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
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
    use super::{VALUE_MAX, read, write};

    #[test]
    fn examples_of_the_rfc() {
        for (value, bits, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])]
        {
            let mut out = Vec::new();
            write(&mut out, 0, bits, value as usize);
            assert_eq!(out, bytes);
            assert_eq!(read(&out, bits).unwrap(), (value, &[][..]));
        }
    }

    #[test]
    fn every_prefix_reads_back() {
        for bits in 4..=7 {
            for value in (0..1000).chain([0xffff, VALUE_MAX]) {
                let mut out = Vec::new();
                write(&mut out, 0x80, bits, value as usize);
                out.push(9);
                assert_eq!(read(&out, bits).unwrap(), (value, &[9][..]));
                assert!((1..out.len()).all(|cut| read(&out[..cut - 1], bits).is_err()));
            }
        }
    }

    #[test]
    fn large_integers_are_rejected() {
        for tail in
            [&[0xff, 0xff, 0xff, 0xff, 0x7f][..], &[0x80, 0x80, 0x80, 0x80, 0], &[0xff, 0xff, 0xff, 0x7f]]
        {
            assert!(read(&[&[0x7f][..], tail].concat(), 7).is_err(), "{tail:?}");
        }
    }
}
