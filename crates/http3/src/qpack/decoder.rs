//! Reads sections of fields.

use super::static_table::entry;
use super::{Malformed, NUMBER_MAX};
use crate::{Code, Failure};
use field_codes::{DynamicTable, ENTRY_OVERHEAD, integer, text};
use http::multiplexed::HeaderList;

/// How much feedback may wait for the peer to take it, in bytes.
const FEEDBACK_MAX: usize = 4096;

/// The first bits of what a decoder tells an encoder (RFC 9204, section 4.4), and how many bits are left for the number.
const ACKNOWLEDGEMENT: (u8, u32) = (0x80, 7);
const CANCELLATION: (u8, u32) = (0x40, 6);
const INCREMENT: (u8, u32) = (0, 6);

/// Decodes the sections of a connection. Instructions on a separate stream fill its table.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(super) table: DynamicTable,
    /// The largest table that our settings allow, in bytes.
    pub(super) capacity_max: usize,
    /// How many entries were added so far.
    pub(super) inserted: u64,
    /// How many of them the peer knows that we have.
    known: u64,
    /// An instruction whose end has not come.
    pub(super) pending: Vec<u8>,
    /// What the peer's encoder is to be told.
    pub(crate) feedback: Vec<u8>,
}

/// What decoding came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// All fields are in the list, or as many as there was room for.
    Read {
        /// How many entries it needed. With any it must be acknowledged.
        required: u64,
    },
    /// The section needs so many entries, which have not all come.
    Blocked(u64),
}

/// The entries that a section may refer to.
struct Reader<'a> {
    decoder: &'a Decoder,
    required: u64,
    base: u64,
}

impl Decoder {
    pub(crate) fn new(capacity_max: usize) -> Decoder {
        Decoder {
            table: DynamicTable::new(0),
            capacity_max,
            inserted: 0,
            known: 0,
            pending: Vec::new(),
            feedback: Vec::new(),
        }
    }

    /// How much memory there is besides the decoder itself, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.table.memory() + self.pending.capacity() + self.feedback.capacity()
    }

    /// Whether a section that needs so many entries can be decoded.
    pub(crate) fn has(&self, required: u64) -> bool {
        required <= self.inserted
    }

    /// Decodes a whole section into a list, which is empty. If the list is too large, the rest of the section is not read,
    /// because a few bytes can stand for a much longer list.
    pub(crate) fn decode(&self, section: &[u8], list: &mut HeaderList) -> Result<Section, Malformed> {
        let (encoded, rest) = integer::read::<NUMBER_MAX>(section, 8)?;
        let required = self.required(encoded)?;
        if !self.has(required) {
            return Ok(Section::Blocked(required));
        }
        let is_negative = rest.first().is_some_and(|first| first & 0x80 != 0);
        let (delta, mut rest) = integer::read::<NUMBER_MAX>(rest, 7)?;
        let base = match is_negative {
            true => {
                required.checked_sub(delta).and_then(|base| base.checked_sub(1)).ok_or(Malformed::Index)?
            }
            false => required.saturating_add(delta),
        };
        let reader = Reader { decoder: self, required, base };
        while !rest.is_empty() && !list.is_too_large() {
            rest = reader.line(rest, list)?;
        }
        Ok(Section::Read { required })
    }

    /// How many entries a section needs (RFC 9204, section 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, Malformed> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = (self.capacity_max / ENTRY_OVERHEAD) as u64;
        let range = 2 * entries_max;
        if encoded > range {
            return Err(Malformed::Required);
        }
        let most = self.inserted + entries_max;
        let wrapped = most / range * range;
        let required = wrapped + encoded - 1;
        match required > most {
            true => required.checked_sub(range).filter(|&required| required > 0),
            false => Some(required).filter(|&required| required > 0),
        }
        .ok_or(Malformed::Required)
    }

    /// The entry with this number, counted from the first one on which was added.
    fn absolute(&self, number: u64) -> Option<(&[u8], &[u8])> {
        let age = self.inserted.checked_sub(1)?.checked_sub(number)?;
        self.table.get(usize::try_from(age).ok()?)
    }

    /// The entry that was added so many entries before the last one.
    pub(super) fn recent(&self, age: u64) -> Result<(&[u8], &[u8]), Malformed> {
        let entry = usize::try_from(age).ok().and_then(|age| self.table.get(age));
        entry.ok_or(Malformed::Index)
    }

    /// Tells the peer that a section of a stream was decoded.
    pub(crate) fn acknowledge(&mut self, stream: u64, required: u64) -> Result<(), Failure> {
        self.known = self.known.max(required);
        self.tell(ACKNOWLEDGEMENT, stream)
    }

    /// Tells the peer that no further section of a stream is decoded.
    pub(crate) fn cancel(&mut self, stream: u64) -> Result<(), Failure> {
        self.tell(CANCELLATION, stream)
    }

    /// Tells the peer which entries have come.
    pub(crate) fn tell_inserted(&mut self) -> Result<(), Failure> {
        let increment = self.inserted - self.known;
        self.known = self.inserted;
        if increment == 0 { Ok(()) } else { self.tell(INCREMENT, increment) }
    }

    fn tell(&mut self, (first, prefix_bits): (u8, u32), number: u64) -> Result<(), Failure> {
        const NOT_TAKEN: Failure =
            Failure::new(Code::EXCESSIVE_LOAD, "client does not read the decoder stream");
        if self.feedback.len() >= FEEDBACK_MAX {
            return Err(NOT_TAKEN);
        }
        integer::write(&mut self.feedback, first, prefix_bits, usize::try_from(number).unwrap_or(usize::MAX));
        Ok(())
    }
}

impl Reader<'_> {
    /// Reads one field and returns what follows it (RFC 9204, sections 4.5.2 to 4.5.6).
    fn line<'i>(&self, input: &'i [u8], list: &mut HeaderList) -> Result<&'i [u8], Malformed> {
        let first = input.first().copied().unwrap_or_default();
        match first {
            0xc0.. => self.indexed(input, 6, entry, list),
            0x80.. => self.indexed(input, 6, |index| self.before_base(index), list),
            0x50..0x60 | 0x70..0x80 => self.literal(input, 4, entry, list),
            0x40.. => self.literal(input, 4, |index| self.before_base(index), list),
            0x20.. => {
                let name = list.begin();
                let rest = text::read(input, 3, text::PADDING_MAX, name)?;
                value(rest, list)
            }
            0x10.. => self.indexed(input, 4, |index| self.after_base(index), list),
            _ => self.literal(input, 3, |index| self.after_base(index), list),
        }
    }

    fn indexed<'i, 't>(
        &self,
        input: &'i [u8],
        prefix_bits: u32,
        entry: impl FnOnce(u64) -> Option<(&'t [u8], &'t [u8])>,
        list: &mut HeaderList,
    ) -> Result<&'i [u8], Malformed> {
        let (index, rest) = integer::read::<NUMBER_MAX>(input, prefix_bits)?;
        let (name, value) = entry(index).ok_or(Malformed::Index)?;
        list.add(name, value);
        Ok(rest)
    }

    fn literal<'i, 't>(
        &self,
        input: &'i [u8],
        prefix_bits: u32,
        entry: impl FnOnce(u64) -> Option<(&'t [u8], &'t [u8])>,
        list: &mut HeaderList,
    ) -> Result<&'i [u8], Malformed> {
        let (index, rest) = integer::read::<NUMBER_MAX>(input, prefix_bits)?;
        let (name, _) = entry(index).ok_or(Malformed::Index)?;
        list.begin().extend_from_slice(name);
        value(rest, list)
    }

    fn before_base(&self, index: u64) -> Option<(&[u8], &[u8])> {
        self.announced(self.base.checked_sub(index)?.checked_sub(1)?)
    }

    fn after_base(&self, index: u64) -> Option<(&[u8], &[u8])> {
        self.announced(self.base.checked_add(index)?)
    }

    /// An entry that is among those that the section needs.
    fn announced(&self, number: u64) -> Option<(&[u8], &[u8])> {
        if number < self.required { self.decoder.absolute(number) } else { None }
    }
}

/// Reads the value of a field whose name the list has, and returns what follows it.
fn value<'i>(input: &'i [u8], list: &mut HeaderList) -> Result<&'i [u8], Malformed> {
    let name_length = list.scratch().len();
    let rest = text::read(input, 7, text::PADDING_MAX, list.scratch())?;
    list.end(name_length);
    Ok(rest)
}
