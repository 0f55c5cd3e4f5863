//! Writing blocks of fields.

use super::hash;
use super::table::{STATIC, find_static};
use field_codes::{DynamicTable, ENTRY_OVERHEAD, integer, text};

/// How large our table is at most, in bytes. A larger one of the peer is not filled.
const TABLE_MAX: usize = 4096;

/// A field with a longer value is not kept in the table, in bytes.
const INDEXED_MAX: usize = 512;

/// How many fields are remembered that were sent once.
const SEEN: usize = 16;

/// Writes blocks of fields, one after the other. A field that comes again and again is kept in the table: it takes one
/// or two bytes then.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: DynamicTable,
    /// The sizes that the next block has to announce: the smallest one of late, and the last one.
    resized: Option<(usize, usize)>,
    /// The hashes of fields that were sent once, and the place of the oldest one.
    seen: [u32; SEEN],
    oldest: usize,
}

/// Whether a field may enter the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indexing {
    /// When it comes for the second time.
    Repeated,
    /// Not: its value is another one each time, or a secret.
    Volatile,
}

/// The first bits of literals that enter the table.
const INDEXED: u8 = 0x40;

/// A field that is written in full.
struct Literal<'a> {
    name: &'a [u8],
    /// The index of the name in the static table.
    static_name: Option<usize>,
    value: &'a [u8],
    /// The first byte without the index.
    first: u8,
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder { table: DynamicTable::new(TABLE_MAX), resized: None, seen: [0; SEEN], oldest: 0 }
    }

    /// How much memory the table has, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Takes note of how large the peer allows the table to be.
    pub(crate) fn allow(&mut self, size: usize) {
        let size = size.min(TABLE_MAX);
        if size != self.table.size_max() {
            let least = self.resized.map_or(size, |(least, _)| least.min(size));
            self.resized = Some((least, size));
            self.table.resize(size);
        }
    }

    /// Begins a block.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, last)) = self.resized.take() {
            if least < last {
                integer::write(out, 0x20, 5, least);
            }
            integer::write(out, 0x20, 5, last);
        }
    }

    /// Appends a field. The name is in lower case.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let (static_name, is_whole) = find_static(name, value);
        if let Some(index) = static_name.filter(|_| is_whole) {
            return integer::write(out, 0x80, 7, index);
        }
        if indexing != Indexing::Repeated || value.len() > INDEXED_MAX {
            return self.literal(Literal { name, static_name, value, first: 0 }, out);
        }
        let hash = hash(name, value);
        if let Some(index) = self.table.find(name, value, hash) {
            return integer::write(out, 0x80, 7, STATIC.len() + 1 + index);
        }
        if self.is_repeated(hash) && name.len() + value.len() + ENTRY_OVERHEAD <= self.table.size_max() {
            self.literal(Literal { name, static_name, value, first: INDEXED }, out);
            self.table.add(name, value, hash);
        } else {
            self.literal(Literal { name, static_name, value, first: 0 }, out);
        }
    }

    /// Whether a field was sent before; from now on it was.
    fn is_repeated(&mut self, hash: u32) -> bool {
        if self.seen.contains(&hash) {
            return true;
        }
        self.seen[self.oldest] = hash;
        self.oldest = (self.oldest + 1) % SEEN;
        false
    }

    fn literal(&self, literal: Literal<'_>, out: &mut Vec<u8>) {
        let Literal { name, static_name, value, first } = literal;
        let prefix_bits = if first == INDEXED { 6 } else { 4 };
        let known = static_name.or_else(|| Some(STATIC.len() + 1 + self.table.find_name(name)?));
        literal_name(name, known, (first, prefix_bits), out);
        text::write(out, 0, 7, value);
    }
}

/// Appends a field and refers to nothing but the static table.
pub(crate) fn static_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match find_static(name, value) {
        (Some(index), true) => integer::write(out, 0x80, 7, index),
        (static_name, _) => {
            literal_name(name, static_name, (0, 4), out);
            text::write(out, 0, 7, value);
        }
    }
}

/// As [`static_field`], with a value whose bytes are not encoded, so that others of its length can take their place.
pub(crate) fn plain_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    literal_name(name, find_static(name, value).0, (0, 4), out);
    text::write_plain(out, 0, 7, value);
}

/// Appends the beginning of a field that is written in full, with the index of the name if it has one.
fn literal_name(name: &[u8], index: Option<usize>, (first, prefix_bits): (u8, u32), out: &mut Vec<u8>) {
    match index {
        Some(index) => integer::write(out, first, prefix_bits, index),
        None => {
            out.push(first);
            text::write(out, 0, 7, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoder, Indexing, STATIC};
    use crate::HeaderList;
    use crate::hpack::Decoder;

    fn encode(encoder: &mut Encoder, fields: &[(&str, &str, Indexing)]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value, indexing) in fields {
            encoder.field(name.as_bytes(), value.as_bytes(), *indexing, &mut out);
        }
        out
    }

    #[test]
    fn a_field_that_repeats_is_indexed() {
        let mut encoder = Encoder::new();
        let fields = [("server", "Fulmar", Indexing::Repeated), ("x-one", "1", Indexing::Repeated)];
        let lengths: Vec<_> = (0..4).map(|_| encode(&mut encoder, &fields).len()).collect();
        assert!(lengths[0] > 4 && lengths[1] > 4, "{lengths:?}");
        assert_eq!(lengths[2..], [2, 2]);
    }

    #[test]
    fn volatile_and_secret_fields_stay_out_of_the_table() {
        let mut encoder = Encoder::new();
        let fields = [("etag", "\"1\"", Indexing::Volatile), ("set-cookie", "a=b", Indexing::Volatile)];
        let first = encode(&mut encoder, &fields);
        assert_eq!(encode(&mut encoder, &fields), first);
        assert_eq!(encode(&mut encoder, &fields), first);
        assert_eq!((first[0] & 0xf0, encoder.table.get(0)), (0, None));
    }

    #[test]
    fn the_static_table_is_found() {
        let mut encoder = Encoder::new();
        for (index, (name, value)) in STATIC.iter().enumerate().filter(|(_, (_, value))| !value.is_empty()) {
            let block = encode(&mut encoder, &[(name, value, Indexing::Volatile)]);
            assert_eq!(block, [0x81 + u8::try_from(index).unwrap()]);
        }
    }

    #[test]
    fn a_smaller_table_is_announced() {
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new(4096);
        for size in [0, 4096, 60, 100_000] {
            encoder.allow(size);
            encoder.allow(30);
            encoder.allow(size);
            for round in 0..5 {
                let fields = [("server", "Fulmar", Indexing::Repeated), ("x", "1", Indexing::Repeated)];
                let block = encode(&mut encoder, &fields);
                let mut list = HeaderList::new(1000);
                decoder.decode(&block, &mut list).unwrap();
                let read: Vec<_> = list.iter().collect();
                assert_eq!(read, [(&b"server"[..], &b"Fulmar"[..]), (b"x", b"1")], "{size} {round}");
            }
        }
    }
}
