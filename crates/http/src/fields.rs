//! An ordered list of fields (RFC 9110, section 5) that keeps the case, order and bytes of the wire.

use std::ops::Range;

/// One field line: a name and a value without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as written; compare with [`Field::is`].
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Whether this field has this name, in any case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// A name or value that would break the framing of a message: it has a CR, LF or NUL, or the name is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidField;

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    name_length: u32,
    value_length: u32,
}

/// The fields of a message. All bytes live in one arena, so that a list that is cleared and filled
/// again allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    arena: Vec<u8>,
    spans: Vec<Span>,
}

impl Fields {
    /// An empty list.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Forgets all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.spans.clear();
    }

    /// Adds a field behind the others. This is the one gate through which every field of a response
    /// passes, so a CR, LF or NUL cannot reach the wire (RFC 9110, section 5.5).
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        if name.is_empty() || breaks_framing(name) || breaks_framing(value) {
            return Err(InvalidField);
        }
        let start = u32::try_from(self.arena.len()).map_err(|_| InvalidField)?;
        let name_length = u32::try_from(name.len()).map_err(|_| InvalidField)?;
        let value_length = u32::try_from(value.len()).map_err(|_| InvalidField)?;
        self.arena.extend_from_slice(name);
        self.arena.extend_from_slice(value);
        self.spans.push(Span { start, name_length, value_length });
        Ok(())
    }

    /// Takes away every field of this name.
    pub fn remove(&mut self, name: &str) {
        let Fields { arena, spans } = self;
        spans.retain(|span| !arena[name_range(*span)].eq_ignore_ascii_case(name.as_bytes()));
    }

    /// Replaces every field of this name by one.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        self.remove(name);
        self.push(name.as_bytes(), value)
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|field| field.is(name)).map(|field| field.value)
    }

    /// The values of all fields of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.iter().filter(move |field| field.is(name)).map(|field| field.value)
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.spans.iter().map(|&span| {
            let name = name_range(span);
            let value = name.end..name.end + span.value_length as usize;
            Field { name: &self.arena[name], value: &self.arena[value] }
        })
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// No early exit, so that the loop runs over many bytes at once.
fn breaks_framing(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| found | matches!(byte, b'\r' | b'\n' | 0))
}

fn name_range(span: Span) -> Range<usize> {
    let start = span.start as usize;
    start..start + span.name_length as usize
}

#[cfg(test)]
mod tests {
    use super::{Fields, InvalidField};

    #[test]
    fn keeps_case_and_order() {
        let mut fields = Fields::new();
        fields.push(b"X-One", b"1").unwrap();
        fields.push(b"x-two", b"2").unwrap();
        fields.push(b"X-ONE", b"3").unwrap();
        assert_eq!(fields.all("x-one").collect::<Vec<_>>(), [b"1", b"3"]);
        let names: Vec<_> = fields.iter().map(|field| field.name.to_vec()).collect();
        assert_eq!(names, [b"X-One".to_vec(), b"x-two".to_vec(), b"X-ONE".to_vec()]);
        fields.remove("X-one");
        assert_eq!(fields.len(), 1);
        assert_eq!(fields.get("X-TWO"), Some(&b"2"[..]));
    }

    #[test]
    fn refuses_what_would_split_a_response() {
        let mut fields = Fields::new();
        assert_eq!(fields.push(b"X", b"a\r\nSet-Cookie: b"), Err(InvalidField));
        assert_eq!(fields.push(b"X\n", b"a"), Err(InvalidField));
        assert_eq!(fields.push(b"", b"a"), Err(InvalidField));
        assert_eq!(fields.push(b"X", b"a\0"), Err(InvalidField));
        assert!(fields.is_empty());
    }
}
