//! The fields of one block, as they were read.

/// The fields of one block: names, pseudo-fields among them, and values, as they were sent. Its memory serves one block
/// after the other.
#[derive(Debug, Default)]
pub struct HeaderList {
    texts: Vec<u8>,
    /// Where each field ends, and the length of its name.
    fields: Vec<(u32, u32)>,
    /// The field that is being read. It is not a part of the list yet.
    scratch: Vec<u8>,
    /// The length of all names and values, in bytes.
    size: usize,
    size_max: usize,
    /// How long a name or a value may be, in bytes.
    field_max: usize,
    /// Whether there is no room for what the block has.
    is_too_large: bool,
}

/// How many fields a list has room for.
const FIELDS_MAX: usize = 4096;

/// A list that grew past this gives its memory back, in bytes.
const KEPT: usize = 64 * 1024;

impl HeaderList {
    /// An empty list with room for names and values of so many bytes.
    pub fn new(size_max: usize) -> HeaderList {
        HeaderList { size_max, field_max: size_max, ..HeaderList::default() }
    }

    /// Empties the list and keeps its memory. It gets room for so many bytes, and for so many in a name or a value.
    pub fn clear(&mut self, size_max: usize, field_max: usize) {
        let is_large = self.texts.capacity().max(self.scratch.capacity()) > KEPT;
        if is_large {
            *self = HeaderList::default();
        }
        self.texts.clear();
        self.fields.clear();
        (self.size, self.size_max, self.field_max, self.is_too_large) = (0, size_max, field_max, false);
    }

    /// The names and values, in order. A list that is too large is not whole.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |&(end, name_length)| {
            let field = &self.texts[start..end as usize];
            start = end as usize;
            field.split_at(name_length as usize)
        })
    }

    /// Whether the block has more than there is room for.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Whether the block has more than so many times what there is room for.
    pub fn is_longer_by(&self, times: usize) -> bool {
        self.size > self.size_max.saturating_mul(times)
    }

    /// The length of all names and values, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds a field, if there is room.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.has_room(name.len(), value.len()) {
            self.texts.extend_from_slice(name);
            self.texts.extend_from_slice(value);
            self.note_end(name.len());
        }
    }

    /// The memory for a field that is being read: its name, and then its value.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        &mut self.scratch
    }

    /// The memory for the field that is being read, with what was read of it.
    pub fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Adds the field that was read, if there is room.
    pub fn end(&mut self, name_length: usize) {
        if self.has_room(name_length, self.scratch.len() - name_length) {
            self.texts.extend_from_slice(&self.scratch);
            self.note_end(name_length);
        }
    }

    /// Counts a field. After a field that does not fit, no further field is accepted.
    fn has_room(&mut self, name_length: usize, value_length: usize) -> bool {
        self.size = self.size.saturating_add(name_length + value_length);
        self.is_too_large |= self.size > self.size_max
            || name_length.max(value_length) > self.field_max
            || self.fields.len() >= FIELDS_MAX;
        !self.is_too_large
    }

    fn note_end(&mut self, name_length: usize) {
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        self.fields.push((number(self.texts.len()), number(name_length)));
    }
}
