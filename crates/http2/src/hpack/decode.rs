//! Decodes field blocks.

use super::Malformed;
use super::table::STATIC;
use crate::HeaderList;
use field_codes::{DynamicTable, integer, text};

/// How often a block may resize the table (RFC 7541, section 4.2).
const RESIZES_MAX: u32 = 2;

/// The largest index or size of a table that is accepted.
const NUMBER_MAX: u64 = 1 << 24;

/// A whole byte of ones fills up texts of some servers.
const PADDING_LENIENT: u32 = 8;

/// A field list may exceed its limit by this factor and is still read to its end.
const TOLERANCE: usize = 4;

/// Decodes the field blocks of a connection in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    /// The largest table that our settings allow, in bytes.
    allowed: usize,
    /// Whether the peer is a server. If a client sends too much, its connection is closed. A connection to a server carries
    /// requests of other clients, so it is kept.
    is_lenient: bool,
}

/// How a literal is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    Indexed,
    Plain,
}

impl Decoder {
    pub(crate) fn new(table_size: usize) -> Decoder {
        Decoder { table: DynamicTable::new(table_size), allowed: table_size, is_lenient: false }
    }

    /// The same for a connection to a server. It reads a list that is too large, up to [`TOLERANCE`] times the limit, and
    /// accepts a text that is padded by a whole byte of ones, because some servers send that.
    pub(crate) fn lenient(self) -> Decoder {
        Decoder { is_lenient: true, ..self }
    }

    /// Whether a list that is too large was read to its end, so that both sides have the same table.
    pub(crate) fn tolerates(&self, list: &HeaderList) -> bool {
        !list.is_too_large() || (self.is_lenient && !list.is_longer_by(TOLERANCE))
    }

    /// How much memory the table has, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Decodes a whole block into a list. If the list is too large to be tolerated, the rest of the block is not read,
    /// because a few bytes can stand for a much longer list; the connection must then be closed.
    pub(crate) fn decode(&mut self, block: &[u8], list: &mut HeaderList) -> Result<(), Malformed> {
        let (mut rest, mut resizes) = (block, 0);
        while let Some(&first) = rest.first() {
            if !self.tolerates(list) {
                break;
            }
            match first {
                0x80.. => {
                    let (index, after) = read_number(rest, 7)?;
                    let (name, value) = self.entry(index)?;
                    list.add(name, value);
                    (rest, resizes) = (after, RESIZES_MAX);
                }
                0x20..0x40 => {
                    let (size, after) = read_number(rest, 5)?;
                    if resizes == RESIZES_MAX || size > self.allowed {
                        return Err(Malformed::Resize);
                    }
                    self.table.resize(size);
                    (rest, resizes) = (after, resizes + 1);
                }
                0x40.. => (rest, resizes) = (self.literal(rest, 6, Literal::Indexed, list)?, RESIZES_MAX),
                _ => (rest, resizes) = (self.literal(rest, 4, Literal::Plain, list)?, RESIZES_MAX),
            }
        }
        Ok(())
    }

    /// Reads a literal field and returns what follows it.
    fn literal<'a>(
        &mut self,
        input: &'a [u8],
        prefix_bits: u32,
        literal: Literal,
        list: &mut HeaderList,
    ) -> Result<&'a [u8], Malformed> {
        let (index, rest) = read_number(input, prefix_bits)?;
        let scratch = list.begin();
        let rest = match index {
            0 => self.text(rest, scratch)?,
            index => {
                scratch.extend_from_slice(self.entry(index)?.0);
                rest
            }
        };
        let name_length = scratch.len();
        let rest = self.text(rest, scratch)?;
        if literal == Literal::Indexed {
            let (name, value) = scratch.split_at(name_length);
            self.table.add(name, value, 0);
        }
        list.end(name_length);
        Ok(rest)
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
        let index = index.checked_sub(1).ok_or(Malformed::Index)?;
        match STATIC.get(index) {
            Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
            None => self.table.get(index - STATIC.len()).ok_or(Malformed::Index),
        }
    }

    /// Appends a text and returns what follows it.
    fn text<'a>(&self, input: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Malformed> {
        let padding = if self.is_lenient { PADDING_LENIENT } else { text::PADDING_MAX };
        Ok(text::read(input, 7, padding, out)?)
    }
}

fn read_number(input: &[u8], prefix_bits: u32) -> Result<(usize, &[u8]), Malformed> {
    let (number, rest) = integer::read::<NUMBER_MAX>(input, prefix_bits)?;
    Ok((usize::try_from(number).unwrap_or(usize::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Malformed};
    use crate::HeaderList;
    use field_codes::Malformed::{Huffman, Truncated};

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, Malformed> {
        let mut list = HeaderList::new(1000);
        decoder.decode(block, &mut list)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(list.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect())
    }

    #[test]
    fn requests_of_the_rfc() {
        let mut decoder = Decoder::new(4096);
        for (block, fields) in [
            (
                &[
                    &[0x82, 0x86, 0x84, 0x41, 0x8c][..],
                    &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
                ]
                .concat(),
                ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
            ),
            (
                &[&[0x82, 0x86, 0x84, 0xbe, 0x58, 0x86][..], &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]].concat(),
                ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
            ),
            (
                &[
                    &[0x82, 0x87, 0x85, 0xbf, 0x40, 0x88][..],
                    &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
                    &[0x89, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf],
                ]
                .concat(),
                ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
            ),
        ] {
            assert_eq!(decode(&mut decoder, block).as_deref(), Ok(fields));
        }
    }

    #[test]
    fn what_breaks_the_rules() {
        for (block, error) in [
            (&[0x80][..], Malformed::Index),
            (&[0xbe], Malformed::Index),
            (&[0x7f], Malformed::Code(Truncated)),
            (&[0x40, 1, b'a', 2, b'b'], Malformed::Code(Truncated)),
            (&[0x40], Malformed::Code(Truncated)),
            (&[0x3f, 0xe2, 0x1f], Malformed::Resize),
            (&[0x20, 0x20, 0x20, 0x82], Malformed::Resize),
            (&[0x82, 0x20], Malformed::Resize),
            (&[0x00, 0x81, 0x00, 0], Malformed::Code(Huffman)),
        ] {
            assert_eq!(decode(&mut Decoder::new(4096), block), Err(error), "{block:x?}");
        }
        let mut decoder = Decoder::new(4096);
        assert_eq!(decode(&mut decoder, &[0x20, 0x3f, 0xe1, 0x1f, 0x82]).as_deref(), Ok(":method: GET\n"));
    }

    #[test]
    fn more_is_accepted_of_servers() {
        let mut decoder = Decoder::new(4096).lenient();
        let padded = [0x40, 1, b'a', 0x83, 0x64, 0x02, 0xff];
        assert_eq!(decode(&mut Decoder::new(4096), &padded), Err(Malformed::Code(Huffman)));
        assert_eq!(decode(&mut decoder, &padded).as_deref(), Ok("a: 302\n"));
        let long = [&[0x40, 1, b'b', 60][..], &[b'x'; 60]].concat();
        let mut list = HeaderList::new(40);
        decoder.decode(&long, &mut list).unwrap();
        assert!(list.is_too_large() && decoder.tolerates(&list));
        let entry = format!("b: {}\n", "x".repeat(60));
        assert_eq!(decode(&mut decoder, &[0xbe]), Ok(entry), "the table is up to date");
        let mut list = HeaderList::new(40);
        decoder.decode(&long.repeat(3), &mut list).unwrap();
        assert!(!decoder.tolerates(&list));
    }

    #[test]
    fn a_block_is_read_until_the_list_is_full() {
        let mut list = HeaderList::new(40);
        let long = [&[0x40, 1, b'a', 60][..], &[b'x'; 60]].concat();
        // What follows is malformed.
        let block = [&long[..], &[0x80]].concat();
        assert_eq!(Decoder::new(4096).decode(&block, &mut list), Ok(()));
        assert!(list.is_too_large() && list.is_empty());
        list.clear(100, 100);
        assert_eq!(Decoder::new(4096).decode(&block, &mut list), Err(Malformed::Index));
    }
}
