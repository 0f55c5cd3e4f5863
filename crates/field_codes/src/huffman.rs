//! The Huffman code of HPACK and QPACK (RFC 7541, appendix B). It is canonical: the lengths of the codes determine the codes.

use crate::Malformed;

/// The symbol that ends a text. It must not be sent.
const END: usize = 256;

const SYMBOLS: usize = 257;
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// The bits of each symbol's code.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The code, in the shapes that reading and writing need.
struct Code {
    /// The code of each symbol.
    codes: [u32; SYMBOLS],
    /// All symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// For each length the first code, aligned to the left of 32 bits.
    first: [u32; LONGEST + 2],
    /// For each length the place of its first symbol among `symbols`.
    place: [u16; LONGEST + 2],
    /// For each first byte the symbol whose code is its beginning, with its length; zero for a longer code.
    short: [(u8, u8); 256],
}

static CODE: Code = make_code();

#[expect(
    clippy::cast_possible_truncation,
    reason = "symbols and lengths are small, and known at compile time"
)]
const fn make_code() -> Code {
    let mut made = Code {
        codes: [0; SYMBOLS],
        symbols: [0; SYMBOLS],
        first: [u32::MAX; LONGEST + 2],
        place: [0; LONGEST + 2],
        short: [(0, 0); 256],
    };
    let (mut code, mut place, mut length) = (0u32, 0, SHORTEST);
    while length <= LONGEST {
        made.first[length] = code << (32 - length);
        made.place[length] = place as u16;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                made.codes[symbol] = code;
                made.symbols[place] = symbol as u16;
                if length <= 8 {
                    let mut byte = (code << (8 - length)) as usize;
                    let end = byte + (1 << (8 - length));
                    while byte < end {
                        made.short[byte] = (symbol as u8, length as u8);
                        byte += 1;
                    }
                }
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    made
}

/// The first 32 bits.
fn upper_half(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Appends the text that was encoded. Up to so many ones fill up its end: 7, or 8.
pub(crate) fn decode(encoded: &[u8], padding: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
    // Bits that were read, aligned to the left, and how many.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = encoded.iter();
    loop {
        while count <= 56
            && let Some(&byte) = rest.next()
        {
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        let window = upper_half(bits);
        let (symbol, length) = match CODE.short[(window >> 24) as usize] {
            (_, 0) => long_symbol(window),
            (symbol, length) => (usize::from(symbol), u32::from(length)),
        };
        if length > count {
            let is_padding = count <= padding && bits >> 56 == 0xff << (8 - count) & 0xff;
            return if is_padding { Ok(()) } else { Err(Malformed::Huffman) };
        }
        out.push(u8::try_from(symbol).map_err(|_| Malformed::Huffman)?);
        bits <<= length;
        count -= length;
    }
}

/// The symbol whose code of more than eight bits begins a window, and the length of the code.
fn long_symbol(window: u32) -> (usize, u32) {
    let mut length = 9;
    while (length as usize) < LONGEST && window >= CODE.first[length as usize + 1] {
        length += 1;
    }
    let offset = (window - CODE.first[length as usize]) >> (32 - length);
    let place = usize::from(CODE.place[length as usize]) + offset as usize;
    (CODE.symbols.get(place).map_or(END, |&symbol| usize::from(symbol)), length)
}

/// The length of a text when encoded, in bytes.
pub(crate) fn encoded_length(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends a text, encoded.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&upper_half(bits << (32 - count)).to_be_bytes());
        }
    }
    let rest = count.div_ceil(8);
    // The last byte is filled up with ones.
    let padded = bits << (8 * rest - count) | (0xff >> (8 - (8 * rest - count)));
    out.extend_from_slice(&padded.to_be_bytes()[8 - rest as usize..]);
}

#[cfg(test)]
mod tests {
    use super::{CODE, LENGTHS, decode, encode, encoded_length};

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_length(text));
        out
    }

    #[test]
    fn examples_of_the_rfc() {
        for (text, bytes) in [
            (
                "www.example.com",
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
            ),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("302", &[0x64, 0x02]),
            ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ] {
            assert_eq!(encoded(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn the_last_code_is_all_ones() {
        assert_eq!((CODE.codes[256], LENGTHS[256]), ((1 << 30) - 1, 30));
        assert_eq!((CODE.codes[usize::from(b'\n')], CODE.codes[255]), (0x3fff_fffc, 0x03ff_ffee));
    }

    #[test]
    fn every_byte_reads_back_wherever_it_stands() {
        for byte in 0..=255 {
            for before in 0..8 {
                let mut text = vec![b'0'; before];
                text.extend([byte, b'a', byte, 255, byte]);
                let mut out = Vec::new();
                decode(&encoded(&text), 7, &mut out).unwrap();
                assert_eq!(out, text);
            }
        }
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_rejected() {
        for bytes in [
            &[0xff][..],
            &[0xff, 0xff, 0xff, 0xff],
            &[0x00],
            &[0x07, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert!(decode(bytes, 7, &mut Vec::new()).is_err(), "{bytes:?}");
        }
        let mut out = Vec::new();
        decode(&[0x07], 7, &mut out).unwrap();
        assert_eq!(out, b"0", "three ones fill up the byte");
    }
}
