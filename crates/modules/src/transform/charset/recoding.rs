//! Recoding content that comes in pieces; how it is cut makes no difference.

use super::table::Table;
use super::utf8::{Begin, begin};
use crate::shared::changed::Change;
use std::io::Write;
use std::sync::Arc;

/// A recoding in the middle of its work.
pub(super) struct Recoding {
    table: Arc<Table>,
    /// The beginning of a character whose end is still to come.
    begun: Vec<u8>,
}

/// The largest character (RFC 3629).
const CHARACTER_MAX: u32 = 0x10_ffff;

impl Recoding {
    pub(super) fn new(table: Arc<Table>) -> Recoding {
        Recoding { table, begun: Vec::new() }
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        let Table::FromUtf8(table) = &*self.table else { return };
        loop {
            let plain = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..plain]);
            bytes = &bytes[plain..];
            if bytes.is_empty() {
                return;
            }
            let length = match begin(bytes) {
                Begin::Character(character, length) => {
                    let known = u16::try_from(character).ok().and_then(|character| table.get(&character));
                    match known {
                        Some(byte) => out.push(*byte),
                        None if character > CHARACTER_MAX => out.push(b'?'),
                        // Nothing can go wrong in memory.
                        None => drop(write!(out, "&#{character};")),
                    }
                    length
                }
                Begin::Invalid(length) => {
                    out.push(b'?');
                    length
                }
                Begin::Incomplete => {
                    self.begun = bytes.to_vec();
                    return;
                }
            };
            bytes = &bytes[length..];
        }
    }
}

impl Change for Recoding {
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &*self.table {
            Table::Bytes(table) => out.extend(bytes.iter().map(|byte| table[usize::from(*byte)])),
            Table::ToUtf8(table) => {
                bytes.iter().for_each(|byte| out.extend_from_slice(&table[usize::from(*byte)]));
            }
            Table::FromUtf8(_) if self.begun.is_empty() => self.decode(bytes, out),
            Table::FromUtf8(_) => {
                let whole = [&std::mem::take(&mut self.begun), bytes].concat();
                self.decode(&whole, out);
            }
        }
    }

    /// The beginning of a character that never ended is left out, as in nginx.
    fn end(&mut self, _: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests {
    use super::{Begin, Recoding, Table, begin};
    use crate::shared::changed::Change;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    fn table() -> Arc<Table> {
        Arc::new(Table::FromUtf8(HashMap::from([(0xe4, 0xe4), (0x20ac, 0x80)])))
    }

    fn recoded(pieces: &[&[u8]]) -> Vec<u8> {
        let mut recoding = Recoding::new(table());
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| recoding.add(piece, &mut out));
        recoding.end(&mut out);
        out
    }

    #[test]
    fn characters_bytes_and_references() {
        assert_eq!(recoded(&["aä€b".as_bytes()]), b"a\xe4\x80b");
        assert_eq!(recoded(&["яx𝄞".as_bytes()]), b"&#1103;x&#119070;");
    }

    #[test]
    fn what_is_no_utf8() {
        assert_eq!(recoded(&[b"\x80a\xc0\xaf\xffb"]), b"?a???b");
        assert_eq!(recoded(&[b"\xc3<p>"]), b"?p>");
        assert_eq!(recoded(&[b"\xe2\x82<\xe4"]), b"?", "and an incomplete end");
        assert_eq!(recoded(&[b"\xe0\x80\x80\xf4\x90\x80\x80"]), b"??", "too long, and too large");
        assert_eq!(begin(b"\xc3"), Begin::Incomplete);
    }

    proptest! {
        /// Bytes that were read beyond the end of what came, or before its beginning, would show here: the output
        /// depends on nothing but the whole.
        #[test]
        fn cutting_makes_no_difference(
            text in proptest::collection::vec(
                prop_oneof![
                    Just(b'a'), Just(0x80), Just(0xbf), Just(0xc3), Just(0xa4), Just(0xe2), Just(0x82),
                    Just(0xac), Just(0xf0), Just(0xf4), Just(0xf9), any::<u8>(),
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(0..40_usize, 0..8),
        ) {
            let whole = recoded(&[&text]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(recoded(&pieces), &whole[..]);
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(recoded(&bytes), whole);
        }

        #[test]
        fn there_and_back(text in "[aä€ я𝄞]{0,20}") {
            let expected: Vec<u8> = text.chars().flat_map(|c| match c {
                'ä' => vec![0xe4],
                '€' => vec![0x80],
                c if c.is_ascii() => vec![c as u8],
                c => format!("&#{};", u32::from(c)).into_bytes(),
            }).collect();
            prop_assert_eq!(recoded(&[text.as_bytes()]), expected);
        }
    }
}
