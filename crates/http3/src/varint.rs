//! Integers of QUIC: the first two bits tell the length (RFC 9000, section 16).

/// The largest integer.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// The most bytes that an integer has.
pub(crate) const LENGTH_MAX: usize = 8;

/// The integer at the start of these bytes and what follows it, if all of it is there.
pub(crate) fn read(input: &[u8]) -> Option<(u64, &[u8])> {
    let length = 1 << (input.first()? >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    // The two bits of the length are the highest ones.
    Some((value & (u64::MAX >> (66 - 8 * length)), rest))
}

/// Appends an integer, as short as can be. One above [`MAX`] is written as that.
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX);
    let (length, bits) = match value {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let start = out.len();
    out.extend_from_slice(&value.to_be_bytes()[LENGTH_MAX - length..]);
    out[start] |= bits;
}

#[cfg(test)]
mod tests {
    use super::{MAX, read, write};

    #[test]
    fn examples_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!((&out[..], read(bytes)), (bytes, Some((value, &[][..]))));
        }
        assert_eq!(read(&[0x40, 0x25, 9]), Some((37, &[9][..])), "it may be longer than it has to");
    }

    #[test]
    fn every_length_reads_back() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(read(&out), Some((value, &[][..])));
            assert!((0..out.len()).all(|cut| read(&out[..cut]).is_none()));
        }
    }
}
