//! CRC-32 as Ethernet and gzip have it (ITU-T V.42), for hashes that other programs have to agree with.

const TABLE: [u32; 256] = table();

/// A checksum that is being computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    pub(crate) fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// The same with these bytes after the others.
    #[must_use]
    pub(crate) fn and(self, bytes: &[u8]) -> Crc32 {
        let step = |crc: u32, &byte: &u8| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8);
        Crc32(bytes.iter().fold(self.0, step))
    }

    pub(crate) fn value(self) -> u32 {
        !self.0
    }
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0_u32;
    while index < 256 {
        let mut value = index;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index as usize] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(Crc32::new().and(b"1234").and(b"56789").value(), 0xcbf4_3926);
        assert_eq!(Crc32::new().value(), 0);
    }
}
