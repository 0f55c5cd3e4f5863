//! Writes sections of fields. They refer to nothing but the static table.

use super::static_table::TABLE;
use field_codes::{integer, text};
use http::breaks_framing;
use http::multiplexed::FieldWriter;

/// Appends the fields of one section.
#[derive(Debug)]
pub struct SectionWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl SectionWriter<'_> {
    /// Begins a section (RFC 9204, section 4.5.1).
    pub(crate) fn new(out: &mut Vec<u8>) -> SectionWriter<'_> {
        const NO_DYNAMIC_ENTRIES: [u8; 2] = [0, 0];
        out.extend_from_slice(&NO_DYNAMIC_ENTRIES);
        SectionWriter { out }
    }
}

impl FieldWriter for SectionWriter<'_> {
    /// The instructions of RFC 9204, sections 4.5.2, 4.5.4 and 4.5.6.
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if breaks_framing(value) {
            return;
        }
        match TABLE.find(name, value) {
            Some((index, true)) => integer::write(self.out, 0xc0, 6, index),
            Some((index, false)) => {
                integer::write(self.out, 0x50, 4, index);
                text::write(self.out, 0, 7, value);
            }
            None => {
                text::write(self.out, 0x20, 3, name);
                text::write(self.out, 0, 7, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SectionWriter;
    use http::multiplexed::FieldWriter;

    /// RFC 9204, appendix B.1, but with the Huffman code.
    #[test]
    fn static_entries_and_literals() {
        for (name, value, bytes) in [
            (":path", "/", &[0xc1][..]),
            ("x-frame-options", "sameorigin", &[0xff, 35]),
            (":path", "/index.html", &[0x51, 0x88, 0x60, 0xd5, 0x48, 0x5f, 0x2b, 0xce, 0x9a, 0x68]),
            ("x", "\u{7f}", &[0x21, b'x', 1, 0x7f]),
            ("x", "a\r\nb: c", &[]),
        ] {
            let mut out = Vec::new();
            SectionWriter::new(&mut out).add(name.as_bytes(), value.as_bytes());
            assert_eq!(out, [&[0, 0], bytes].concat(), "{name}: {value}");
        }
    }
}
