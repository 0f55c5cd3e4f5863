//! The instructions of the peer's encoder, which fill our table (RFC 9204, section 4.3).

use super::decoder::Decoder;
use super::static_table::entry;
use super::{Malformed, NUMBER_MAX};
use crate::budget::{Budget, CHEAP_FRAME};
use crate::{Code, Failure};
use field_codes::Malformed::Truncated;
use field_codes::{ENTRY_OVERHEAD, integer, text};

/// How long an instruction may be that does not end, as a multiple of the largest table: an encoded text may be longer than
/// the text.
const LENGTH_FACTOR: usize = 2;

/// What an instruction has besides texts, in bytes.
const LENGTH_OVERHEAD: usize = 64;

impl Decoder {
    /// Follows the next bytes of the peer's encoder stream.
    ///
    /// # Errors
    /// The peer broke the rules, or sends too many instructions for the sections that it sends.
    pub(crate) fn instruct(&mut self, input: &[u8], budget: &mut Budget) -> Result<(), Failure> {
        const MALFORMED: Failure =
            Failure::new(Code::QPACK_ENCODER_STREAM_ERROR, "client sent invalid instruction for fields");
        if input.is_empty() {
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.pending);
        let has_pending = !joined.is_empty();
        if has_pending {
            joined.extend_from_slice(input);
        }
        let mut rest = if has_pending { &joined[..] } else { input };
        let (begun, mut scratch) = (rest.len(), Vec::new());
        while !rest.is_empty() {
            match self.instruction(rest, &mut scratch) {
                Ok(after) => rest = after,
                Err(Malformed::Code(Truncated)) => break,
                Err(_) => return Err(MALFORMED),
            }
            budget.spend_for_instruction()?;
        }
        if rest.len() == begun {
            // An instruction in small pieces is read again with each of them.
            budget.spend(CHEAP_FRAME)?;
        }
        if rest.len() > LENGTH_FACTOR * self.capacity_max + LENGTH_OVERHEAD {
            return Err(MALFORMED);
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    /// Follows one instruction and returns what comes after it.
    fn instruction<'i>(&mut self, input: &'i [u8], scratch: &mut Vec<u8>) -> Result<&'i [u8], Malformed> {
        scratch.clear();
        match input.first().copied().unwrap_or_default() {
            first @ 0x80.. => {
                let (index, rest) = integer::read::<NUMBER_MAX>(input, 6)?;
                let name = match first & 0x40 {
                    0 => self.recent(index)?.0,
                    _ => entry(index).ok_or(Malformed::Index)?.0,
                };
                scratch.extend_from_slice(name);
                self.insert(rest, scratch)
            }
            0x40.. => {
                let rest = text::read(input, 5, text::PADDING_MAX, scratch)?;
                self.insert(rest, scratch)
            }
            0x20.. => {
                let (capacity, rest) = integer::read::<NUMBER_MAX>(input, 5)?;
                let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
                if capacity > self.capacity_max {
                    return Err(Malformed::Size);
                }
                self.table.resize(capacity);
                Ok(rest)
            }
            _ => {
                let (index, rest) = integer::read::<NUMBER_MAX>(input, 5)?;
                let (name, value) = self.recent(index)?;
                scratch.extend_from_slice(name);
                let name_length = name.len();
                scratch.extend_from_slice(value);
                self.add(scratch, name_length)?;
                Ok(rest)
            }
        }
    }

    /// Adds an entry whose name is in `scratch` and whose value follows, and returns what comes after that.
    fn insert<'i>(&mut self, input: &'i [u8], scratch: &mut Vec<u8>) -> Result<&'i [u8], Malformed> {
        let name_length = scratch.len();
        let rest = text::read(input, 7, text::PADDING_MAX, scratch)?;
        self.add(scratch, name_length)?;
        Ok(rest)
    }

    /// Adds an entry with these texts, the name first (RFC 9204, section 3.2.2).
    fn add(&mut self, texts: &[u8], name_length: usize) -> Result<(), Malformed> {
        if texts.len() + ENTRY_OVERHEAD > self.table.size_max() {
            return Err(Malformed::Size);
        }
        let (name, value) = texts.split_at(name_length);
        self.table.add(name, value, 0);
        self.inserted += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Section};
    use crate::Code;
    use crate::budget::Budget;
    use http::multiplexed::HeaderList;

    fn instruct(decoder: &mut Decoder, bytes: &[u8]) -> Result<(), Code> {
        decoder.instruct(bytes, &mut Budget::new()).map_err(|failure| failure.code)
    }

    fn decode(decoder: &Decoder, section: &[u8]) -> Result<String, Option<Section>> {
        let mut list = HeaderList::new(1000);
        match decoder.decode(section, &mut list) {
            Ok(Section::Read { .. }) => {}
            Ok(blocked) => return Err(Some(blocked)),
            Err(_) => return Err(None),
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(list.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect())
    }

    /// RFC 9204, appendix B: its bytes, one after the other.
    #[test]
    fn examples_of_the_rfc() {
        let mut decoder = Decoder::new(220);
        let literal = [&[0, 0, 0x51, 0x0b][..], b"/index.html"].concat();
        assert_eq!(decode(&decoder, &literal).unwrap(), ":path: /index.html\n");

        let first = [3, 0x81, 0x10, 0x11];
        assert_eq!(decode(&decoder, &first), Err(Some(Section::Blocked(2))));
        let inserts = [&[0x3f, 0xbd, 1, 0xc0, 0x0f][..], b"www.example.com", &[0xc1, 0x0c], b"/sample/path"];
        instruct(&mut decoder, &inserts.concat()).unwrap();
        assert_eq!(decode(&decoder, &first).unwrap(), ":authority: www.example.com\n:path: /sample/path\n");
        decoder.acknowledge(4, 2).unwrap();
        decoder.tell_inserted().unwrap();
        assert_eq!(decoder.feedback, [0x84], "the acknowledgement tells of the entries, too");

        instruct(&mut decoder, &[&[0x4a][..], b"custom-key", &[0x0c], b"custom-value"].concat()).unwrap();
        decoder.tell_inserted().unwrap();
        assert_eq!(decoder.feedback, [0x84, 1]);

        instruct(&mut decoder, &[2]).unwrap();
        let text = ":authority: www.example.com\n:path: /\ncustom-key: custom-value\n";
        assert_eq!(decode(&decoder, &[5, 0, 0x80, 0xc1, 0x81]).unwrap(), text);
        decoder.cancel(8).unwrap();
        assert_eq!(decoder.feedback, [0x84, 1, 0x48]);

        instruct(&mut decoder, &[&[0x81, 0x0d][..], b"custom-value2"].concat()).unwrap();
        assert_eq!(decoder.inserted, 5);
        let names = (0..4).map(|age| decoder.recent(age).map(|(_, value)| value.to_vec()));
        let values = [&b"custom-value2"[..], b"www.example.com", b"custom-value", b"/sample/path"];
        assert!(names.eq(values.map(|value| Ok(value.to_vec()))));
        assert!(decoder.recent(4).is_err(), "the oldest entry was evicted");
    }

    #[test]
    fn what_breaks_the_rules() {
        for bytes in [
            &[0x3f, 0xbe, 1][..],
            &[0x80, 0],
            &[0xff, 36, 0],
            &[0],
            // No table was made.
            &[0xc1, 1, b'a'],
            // The entry is larger than the table.
            &[0x3f, 1, 0x41, b'a', 1, b'b'],
        ] {
            let error = instruct(&mut Decoder::new(220), bytes);
            assert_eq!(error, Err(Code::QPACK_ENCODER_STREAM_ERROR), "{bytes:x?}");
        }
        let mut decoder = Decoder::new(220);
        instruct(&mut decoder, &[0x3f, 0xbd, 1, 0x41, b'a', 1, b'b', 0x41, b'c', 1, b'd']).unwrap();
        assert_eq!(decode(&decoder, &[3, 0, 0x81]).unwrap(), "a: b\n");
        assert_eq!(decode(&decoder, &[2, 0, 0x41, 1, b'x', 0x10]), Err(None), "not announced");
        for section in [
            &[][..],
            &[0],
            &[0, 0, 0xff, 36],
            &[0, 0, 0x80],
            &[0, 0, 0x10],
            &[0, 0x80, 0xc1],
            &[0, 0, 0x51, 2, b'/'],
            &[0, 0, 0x27],
            &[3, 0, 0x82],
            &[3, 0, 0x10],
            &[3, 0, 0],
            &[3, 0x82],
            // More than twice the entries that fit.
            &[13, 0],
        ] {
            assert_eq!(decode(&decoder, section), Err(None), "{section:x?}");
        }
    }

    #[test]
    fn instructions_come_in_pieces_and_are_paid_for() {
        let bytes = [&[0x3f, 0xbd, 1, 0xc0, 0x0f][..], b"www.example.com", &[0xc1, 1, b'/']].concat();
        let mut decoder = Decoder::new(220);
        bytes.iter().for_each(|byte| instruct(&mut decoder, &[*byte]).unwrap());
        assert_eq!((decoder.inserted, decoder.pending.len()), (2, 0));

        let mut budget = Budget::new();
        let flood = (0..5000).try_for_each(|_| decoder.instruct(&[0], &mut budget));
        assert_eq!(flood.unwrap_err().code, Code::EXCESSIVE_LOAD);
        // The length of a text that never comes.
        let endless = [&[0x5f, 0xff, 0xff, 0x7f][..], &[b'x'; 600]].concat();
        assert_eq!(instruct(&mut Decoder::new(220), &endless), Err(Code::QPACK_ENCODER_STREAM_ERROR));
    }

    #[test]
    fn required_counts_wrap_around() {
        let mut decoder = Decoder::new(100);
        instruct(&mut decoder, &[0x3f, 69]).unwrap();
        for count in 1..40u8 {
            instruct(&mut decoder, &[0x41, b'a', 1, count]).unwrap();
            // At most three entries fit, so the count is sent modulo six, plus one.
            let section = [count % 6 + 1, 0, 0x80];
            assert_eq!(decode(&decoder, &section).unwrap(), format!("a: {}\n", char::from(count)));
        }
    }
}
