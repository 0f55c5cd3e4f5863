//! An ordered list of fields (RFC 9110, section 5) that keeps the case, order and bytes of the wire.

use crate::KnownName;
use crate::words::{any_marked, first_marked, where_control, where_not_in_name};
use std::borrow::Cow;
use std::ops::Range;

/// One field line: a name and a value without surrounding white space. Only a list makes one, so that it is known not to
/// break the framing of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field<'a> {
    /// The name as written; compare with [`Field::is`].
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Both as they stand in a head: `name: value`, with the end of the line.
    pub line: &'a [u8],
    /// What the name is.
    pub known: KnownName,
}

impl Field<'_> {
    /// Whether this field has this name, in any case.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        is_same_name(self.name, name.as_bytes())
    }
}

/// A name or value that would break the framing of a message: it has a CR, LF or NUL, or the name is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidField;

/// There are several fields of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated;

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    name_length: u32,
    value_length: u32,
    known: KnownName,
}

impl Span {
    /// How long the line is, in bytes.
    #[inline]
    fn length(self) -> usize {
        line_length(self.name_length as usize, self.value_length as usize)
    }
}

/// The fields of a message. All bytes live in one arena, as the lines of a head, so that a list that is cleared and
/// filled again allocates nothing, and a line is sent as it is.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    arena: Vec<u8>,
    spans: Vec<Span>,
    names: Names,
    /// Whether lines in the arena are no fields any more.
    has_gaps: bool,
    before: Before,
}

/// What is known of the names of a list, so that most names that are not there need not be looked for.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    /// A bit for each length that names have.
    lengths: u64,
    /// A bit for each known name that is there.
    known: u32,
    /// A bit for each known name that is there more than once.
    repeated: u32,
}

impl Names {
    fn of(spans: &[Span]) -> Names {
        let mut names = Names::default();
        spans.iter().for_each(|span| names.note(span));
        names
    }

    #[inline]
    fn note(&mut self, span: &Span) {
        self.lengths |= length_bit(span.name_length as usize);
        self.repeated |= self.known & span.known.bit();
        self.known |= span.known.bit();
    }

    #[inline]
    fn note_all(&mut self, others: Names) {
        self.lengths |= others.lengths;
        self.repeated |= others.repeated | (self.known & others.known);
        self.known |= others.known;
    }
}

/// The usual lines at the start of the head that a list had before. Most heads of a connection have lines in common, and a
/// line that comes again in the same place need not be checked again. Nothing but a comparison reads them.
#[derive(Default)]
struct Before {
    arena: Vec<u8>,
    spans: Vec<Span>,
    names: Names,
    /// How many fields at the start of the list that there is now came with usual lines ([`Fields::push_usual`]).
    usual: usize,
}

/// Longer heads are not kept for a comparison, in bytes.
const BEFORE_MAX: usize = 4096;

impl Before {
    /// The lines from this place on and how long they are, if these bytes begin with all of them and there are not more.
    #[inline]
    fn rest(&self, place: usize, bytes: &[u8], most: usize) -> Option<(&[Span], usize)> {
        let spans = self.spans.get(place..).filter(|spans| spans.len() <= most)?;
        let lines = self.arena.get(spans.first()?.start as usize..)?;
        bytes.starts_with(lines).then_some((spans, lines.len()))
    }

    /// The lengths of name and value of the line in this place and what the name is, if these bytes begin with it.
    #[inline]
    fn line(&self, place: usize, bytes: &[u8]) -> Option<(usize, usize, KnownName)> {
        let span = self.spans.get(place)?;
        let line = self.arena.get(span.start as usize..)?.get(..span.length())?;
        let lengths = (span.name_length as usize, span.value_length as usize);
        bytes.starts_with(line).then_some((lengths.0, lengths.1, span.known))
    }
}

impl Clone for Before {
    /// A copy of a list is there for its fields.
    fn clone(&self) -> Before {
        Before::default()
    }
}

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It tells nothing about the fields of the list.
        f.write_str("…")
    }
}

impl Fields {
    /// An empty list.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// An empty list with room for the fields of another one.
    pub fn with_room_for(other: &Fields) -> Fields {
        let (arena, spans) = (Vec::with_capacity(other.arena.len()), Vec::with_capacity(other.spans.len()));
        Fields { arena, spans, ..Fields::default() }
    }

    /// Forgets all fields and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        // Most lists of a request have no fields.
        if !self.arena.is_empty() {
            self.clear_lines();
        }
    }

    fn clear_lines(&mut self) {
        let usual = std::mem::take(&mut self.before.usual);
        if usual > 0 && self.arena.len() <= BEFORE_MAX && !self.has_gaps {
            let Before { arena, spans, names, .. } = &mut self.before;
            std::mem::swap(&mut self.arena, arena);
            std::mem::swap(&mut self.spans, spans);
            *names = self.names;
            if usual < spans.len() {
                spans.truncate(usual);
                arena.truncate(spans.last().map_or(0, |last| last.start as usize + last.length()));
                *names = Names::of(spans);
            }
        }
        self.arena.clear();
        self.spans.clear();
        self.names = Names::default();
        self.has_gaps = false;
    }

    /// Adds a field after the others. This is the one gate through which every field of a response
    /// passes, so a CR, LF or NUL cannot reach the wire (RFC 9110, section 5.5).
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        let start = self.arena.len();
        self.arena.reserve(name.len() + COLON.len() + value.len() + LINE_END.len());
        self.arena.extend_from_slice(name);
        self.arena.extend_from_slice(COLON);
        self.arena.extend_from_slice(value);
        if breaks_framing(&self.arena[start..]) {
            self.arena.truncate(start);
            return Err(InvalidField);
        }
        self.arena.extend_from_slice(LINE_END);
        self.add_span(start, name.len(), value.len())
    }

    /// How long the lines of all fields are at most, in bytes.
    #[inline]
    pub fn lines_max(&self) -> usize {
        self.arena.len()
    }

    /// The lines of all fields, as they stand in a head.
    pub fn lines(&self) -> Cow<'_, [u8]> {
        match self.has_gaps {
            false => Cow::Borrowed(&self.arena),
            true => self.iter().flat_map(|field| field.line).copied().collect(),
        }
    }

    /// Appends the lines of all fields but those that frame the content, which the caller writes.
    pub fn write_unframed(&self, out: &mut Vec<u8>) {
        const FRAMING: [&str; 2] = ["Content-Length", "Transfer-Encoding"];
        if !self.has_gaps && FRAMING.iter().all(|name| self.get(name).is_none()) {
            out.extend_from_slice(&self.arena);
            return;
        }
        self.write_some(|field| !FRAMING.iter().any(|name| field.is(name)), out);
    }

    /// Appends the lines of the fields that `is_written` names.
    #[inline]
    pub fn write_some(&self, mut is_written: impl FnMut(&Field<'_>) -> bool, out: &mut Vec<u8>) {
        // Lines that stand side by side are copied at once.
        let mut lines = 0..0;
        for &span in &self.spans {
            if !is_written(&self.field(span)) {
                continue;
            }
            let start = span.start as usize;
            if start != lines.end {
                out.extend_from_slice(&self.arena[lines]);
                lines = start..start;
            }
            lines.end = start + span.length();
        }
        out.extend_from_slice(&self.arena[lines]);
    }

    /// Adds a field as [`Fields::push`] does, whose name and value stand in this line. Most lines are as they would
    /// be written here, and taken as they are.
    pub fn push_line(&mut self, line: &[u8], name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        let is_usual = line.len() == name.len() + COLON.len() + value.len() + LINE_END.len()
            && line.ends_with(LINE_END)
            && line[name.len()..].starts_with(COLON);
        if !is_usual {
            return self.push(name, value);
        }
        if breaks_framing(&line[..line.len() - LINE_END.len()]) {
            return Err(InvalidField);
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(line);
        self.add_span(start, name.len(), value.len())
    }

    /// Adds a field of another list. It was checked when that list took it.
    #[inline]
    pub fn push_checked(&mut self, field: &Field<'_>) -> Result<(), InvalidField> {
        let start = self.arena.len();
        if u32::try_from(start + field.line.len()).is_err() {
            return Err(InvalidField);
        }
        self.arena.extend_from_slice(field.line);
        self.note_span(start, (field.name.len(), field.value.len()), field.known);
        Ok(())
    }

    /// Adds all fields of another list. They were checked when that list took them.
    #[inline]
    pub fn append(&mut self, other: &Fields) -> Result<(), InvalidField> {
        if other.is_empty() { Ok(()) } else { self.append_lines(other) }
    }

    fn append_lines(&mut self, other: &Fields) -> Result<(), InvalidField> {
        if other.has_gaps {
            return other.iter().try_for_each(|field| self.push_checked(&field));
        }
        let start = self.arena.len();
        if u32::try_from(start + other.arena.len()).is_err() {
            return Err(InvalidField);
        }
        self.arena.extend_from_slice(&other.arena);
        let moved = |span: &Span| Span { start: span.start + narrow(start), ..*span };
        self.spans.extend(other.spans.iter().map(moved));
        self.names.note_all(other.names);
        Ok(())
    }

    /// Adds the fields whose lines stand at the start of these bytes, as far as they are written as most are: a name of
    /// letters, digits and hyphens, a colon, a space, a value without controls and without spaces around it, CR and LF.
    /// Stops at a line that is not usual or not whole, and after `most` lines. Gives the length of the lines.
    #[inline]
    pub fn push_usual(&mut self, bytes: &[u8], most: usize) -> usize {
        let start = self.arena.len();
        if u32::try_from(start + bytes.len()).is_err() {
            return 0;
        }
        let is_start = self.before.usual == self.spans.len();
        let end = self.spans.len().saturating_add(most);
        let taken = self.take_before(bytes, most);
        let (mut at, mut was_same) = (taken, self.spans.is_empty());
        while self.spans.len() < end {
            let (place, rest) = (self.spans.len(), &bytes[at..]);
            if !was_same && let Some((same, length)) = self.before.rest(place, rest, end - place) {
                let offset = narrow(start + at).wrapping_sub(same[0].start);
                self.spans
                    .extend(same.iter().map(|span| Span { start: span.start.wrapping_add(offset), ..*span }));
                same.iter().for_each(|span| self.names.note(span));
                at += length;
                was_same = true;
                continue;
            }
            if rest.starts_with(LINE_END) {
                break;
            }
            let same = self.before.line(place, rest);
            was_same = same.is_some();
            let Some((name_length, value_length, known)) = same.or_else(|| usual_line(rest)) else { break };
            self.note_span(start + at, (name_length, value_length), known);
            at += line_length(name_length, value_length);
        }
        self.arena.extend_from_slice(&bytes[taken..at]);
        if is_start {
            self.before.usual = self.spans.len();
        }
        at
    }

    /// Takes all lines of the list before into this one, which is empty, if these bytes begin with them and there are not
    /// more than `most`. Gives their length.
    #[inline]
    fn take_before(&mut self, bytes: &[u8], most: usize) -> usize {
        let Fields { arena, spans, names, before, .. } = self;
        let is_same = arena.is_empty() && before.spans.len() <= most && bytes.starts_with(&before.arena);
        if !is_same || before.arena.is_empty() {
            return 0;
        }
        std::mem::swap(arena, &mut before.arena);
        std::mem::swap(spans, &mut before.spans);
        *names = before.names;
        arena.len()
    }

    /// Takes note of the line that was appended to the arena.
    #[inline]
    fn add_span(
        &mut self,
        start: usize,
        name_length: usize,
        value_length: usize,
    ) -> Result<(), InvalidField> {
        if name_length == 0 || u32::try_from(self.arena.len()).is_err() {
            self.arena.truncate(start);
            return Err(InvalidField);
        }
        let known = KnownName::of(&self.arena[start..start + name_length]);
        self.note_span(start, (name_length, value_length), known);
        Ok(())
    }

    /// Takes note of a line whose place in the arena is known to be a number of 32 bits.
    #[inline]
    fn note_span(&mut self, start: usize, (name_length, value_length): (usize, usize), known: KnownName) {
        let (name_length, value_length) = (narrow(name_length), narrow(value_length));
        let span = Span { start: narrow(start), name_length, value_length, known };
        self.names.note(&span);
        self.spans.push(span);
    }

    /// Takes away every field of this name.
    #[inline]
    pub fn remove(&mut self, name: &str) {
        if self.names.lengths & length_bit(name.len()) != 0 {
            self.remove_lines(name);
        }
    }

    fn remove_lines(&mut self, name: &str) {
        let Fields { arena, spans, names, has_gaps, before } = self;
        let count = spans.len();
        spans.retain(|span| !is_named(arena, span, name.as_bytes()));
        if spans.len() < count {
            (*has_gaps, before.usual, *names) = (true, 0, Names::of(spans));
        }
    }

    /// Replaces every field of this name by one.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        self.remove(name);
        self.push(name.as_bytes(), value)
    }

    /// The value of the first field of this name.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        if self.names.lengths & length_bit(name.len()) == 0 { None } else { self.find(name.as_bytes()) }
    }

    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        self.spans.iter().find(|span| self.has_name(span, name)).map(|span| self.value(span))
    }

    #[inline]
    fn has_name(&self, span: &Span, name: &[u8]) -> bool {
        is_named(&self.arena, span, name)
    }

    fn value(&self, span: &Span) -> &[u8] {
        let start = name_range(*span).end + COLON.len();
        &self.arena[start..start + span.value_length as usize]
    }

    /// The value of the only field of this name, if there is one.
    ///
    /// # Errors
    /// There are several.
    #[inline]
    pub fn only(&self, name: KnownName) -> Result<Option<&[u8]>, Repeated> {
        if self.names.repeated & name.bit() != 0 {
            return Err(Repeated);
        }
        if self.names.known & name.bit() == 0 {
            return Ok(None);
        }
        Ok(self.spans.iter().find(|span| span.known == name).map(|span| self.value(span)))
    }

    /// Whether there is a field with one of these names.
    #[inline]
    pub fn has_any(&self, names: &[KnownName]) -> bool {
        self.names.known & names.iter().fold(0, |bits, name| bits | name.bit()) != 0
    }

    /// The values of all fields of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let spans = if self.names.lengths & length_bit(name.len()) == 0 { &[][..] } else { &self.spans };
        let named = spans.iter().filter(move |span| self.has_name(span, name.as_bytes()));
        named.map(|span| self.value(span))
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.spans.iter().map(|&span| self.field(span))
    }

    #[inline]
    fn field(&self, span: Span) -> Field<'_> {
        let (name_length, value_length) = (span.name_length as usize, span.value_length as usize);
        let line = &self.arena[span.start as usize..];
        let line = &line[..line_length(name_length, value_length)];
        Field {
            name: &line[..name_length],
            value: &line[name_length + COLON.len()..][..value_length],
            line,
            known: span.known,
        }
    }

    /// How much memory the list has, in bytes.
    pub fn memory(&self) -> usize {
        let Before { arena, spans, .. } = &self.before;
        let spans = self.spans.capacity() + spans.capacity();
        self.arena.capacity() + arena.capacity() + spans * size_of::<Span>()
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

/// The lengths of name and value in the line at the start of these bytes and what the name is, if it is usual and whole.
#[inline]
fn usual_line(bytes: &[u8]) -> Option<(usize, usize, KnownName)> {
    let name_length = first_marked(bytes, where_not_in_name)?;
    let value = bytes[name_length..].strip_prefix(COLON)?;
    let value_length = first_marked(value, where_control)?;
    let (value, rest) = value.split_at(value_length);
    let has_spaces = value.first() == Some(&b' ') || value.last() == Some(&b' ');
    let is_usual = name_length > 0 && !has_spaces && rest.starts_with(LINE_END);
    is_usual.then(|| (name_length, value_length, KnownName::of(&bytes[..name_length])))
}

/// Whether two names differ in nothing but the case. Most are spelled alike.
#[inline]
pub(crate) fn is_same_name(name: &[u8], other: &[u8]) -> bool {
    // Most names that differ do so in their first letter.
    let start_alike =
        || name.first().map(u8::to_ascii_lowercase) == other.first().map(u8::to_ascii_lowercase);
    name == other || (start_alike() && differ_in_case(name, other))
}

#[inline(never)]
fn differ_in_case(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// What stands between name and value, and after the value.
const COLON: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";

/// A place or a length in an arena, which is known to be a number of 32 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lists take no more bytes")]
const fn narrow(number: usize) -> u32 {
    number as u32
}

const fn line_length(name_length: usize, value_length: usize) -> usize {
    name_length + COLON.len() + value_length + LINE_END.len()
}

/// Whether bytes have a CR, LF or NUL in them, which would end a field.
pub fn breaks_framing(bytes: &[u8]) -> bool {
    any_marked(bytes, where_control) && bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// The bit of names of this length.
const fn length_bit(length: usize) -> u64 {
    1 << (length % 64)
}

#[inline]
fn is_named(arena: &[u8], span: &Span, name: &[u8]) -> bool {
    // Most names differ in length already.
    span.name_length as usize == name.len() && is_same_name(&arena[name_range(*span)], name)
}

fn name_range(span: Span) -> Range<usize> {
    let start = span.start as usize;
    start..start + span.name_length as usize
}

#[cfg(test)]
mod tests {
    use super::{Fields, InvalidField, Repeated, breaks_framing};
    use crate::KnownName;

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
        for (value, only) in [(&b"1"[..], Ok(Some(&b"1"[..]))), (b"2", Err(Repeated))] {
            fields.push(b"content-LENGTH", value).unwrap();
            assert_eq!(fields.only(KnownName::ContentLength), only);
        }
        assert_eq!(fields.only(KnownName::Connection), Ok(None));
        fields.set("Content-Length", b"3").unwrap();
        assert_eq!(fields.only(KnownName::ContentLength), Ok(Some(&b"3"[..])));
        assert_eq!(fields.get("X-TWO"), Some(&b"2"[..]));
    }

    #[test]
    fn lines_are_as_in_a_head() {
        let mut fields = Fields::new();
        fields.push(b"X-One", b"1").unwrap();
        fields.push(b"X-Two", b"").unwrap();
        fields.remove("x-one");
        assert_eq!(fields.iter().map(|field| field.line).collect::<Vec<_>>(), [b"X-Two: \r\n"]);
        let written = |fields: &Fields| {
            let mut out = b"before ".to_vec();
            fields.write_unframed(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&fields), "before X-Two: \r\n");
        fields.clear();
        fields.set("A", b"1").unwrap();
        fields.set("B", b"2").unwrap();
        assert_eq!(written(&fields), "before A: 1\r\nB: 2\r\n");
        fields.push(b"content-length", b"1").unwrap();
        fields.push(b"TRANSFER-ENCODING", b"chunked").unwrap();
        fields.push(b"C", b"3").unwrap();
        assert_eq!(written(&fields), "before A: 1\r\nB: 2\r\nC: 3\r\n");
    }

    #[test]
    fn a_list_takes_all_fields_of_another() {
        let list = |fields: &[(&str, &str)]| {
            let mut list = Fields::new();
            fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()).unwrap());
            list
        };
        let usual = [("Gone", "0"), ("X-One", "1"), ("Content-Length", "2"), ("A", "")];
        let (mut with_gaps, mut empty) = (list(&usual), list(&usual[..1]));
        with_gaps.remove("gone");
        empty.remove("gone");
        for other in [list(&usual), with_gaps, empty, Fields::new()] {
            for mut fields in [Fields::new(), list(&[("content-length", "3"), ("B", "4")])] {
                let mut one_by_one = fields.clone();
                other.iter().for_each(|field| one_by_one.push_checked(&field).unwrap());
                fields.append(&other).unwrap();
                assert!(fields.iter().eq(one_by_one.iter()), "{other:?}");
                assert_eq!(fields.lines(), one_by_one.lines());
                let only = |fields: &Fields| {
                    fields.only(KnownName::ContentLength).map(|value| value.map(<[u8]>::to_vec))
                };
                assert_eq!(only(&fields), only(&one_by_one));
                assert_eq!(fields.get("x-one"), one_by_one.get("x-one"));
            }
        }
    }

    #[test]
    fn any_lines_are_written_in_their_order() {
        let mut fields = Fields::new();
        ["Gone", "A", "B", "C", "D"].iter().for_each(|name| fields.push(name.as_bytes(), b"1").unwrap());
        fields.remove("Gone");
        fields.set("B", b"longer").unwrap();
        let all: Vec<Vec<u8>> = fields.iter().map(|field| field.line.to_vec()).collect();
        for chosen in 0..1_usize << all.len() {
            let is_chosen = |at: usize| chosen & (1 << at) != 0;
            let (mut at, mut out) = (0..all.len(), b"before ".to_vec());
            fields.write_some(|_| is_chosen(at.next().unwrap()), &mut out);
            let expected = all.iter().enumerate().filter(|(at, _)| is_chosen(*at)).flat_map(|(_, line)| line);
            assert_eq!(out, b"before ".iter().chain(expected).copied().collect::<Vec<u8>>());
        }
    }

    #[test]
    fn a_line_is_taken_as_it_would_be_written() {
        for line in
            ["A: b c\r\n", "A:b c\r\n", "A:  b c \t\r\n", "A:\tb c\r\n", "A: b c\n", "A: b c \n", "A:\r\n"]
        {
            let (name, value) = line.split_once(':').unwrap();
            let value = value.trim();
            let mut fields = Fields::new();
            fields.push_line(line.as_bytes(), name.as_bytes(), value.as_bytes()).unwrap();
            let written = format!("A: {value}\r\n");
            assert_eq!(
                fields.iter().map(|field| field.line).collect::<Vec<_>>(),
                [written.as_bytes()],
                "{line:?}"
            );
            assert_eq!(fields.get("a"), Some(value.as_bytes()));
        }
        let mut fields = Fields::new();
        assert_eq!(fields.push_line(b"A: b\0\r\n", b"A", b"b\0"), Err(InvalidField));
        assert_eq!(fields.push_line(b": b\r\n", b"", b"b"), Err(InvalidField));
        assert!(fields.is_empty());
    }

    #[test]
    fn a_usual_line_is_taken_off_a_head() {
        for (head, line) in [
            ("A: b\r\n", 6),
            ("Content-Type: text/plain; a=\"b\"\r\nA: b\r\n\r\n", 33),
            ("A: \r\nB", 5),
            ("A: \u{e4}\u{7f}\r\n", 8),
        ] {
            let mut fields = Fields::new();
            assert_eq!(fields.push_usual(head.as_bytes(), 1), line, "{head:?}");
            let (name, value) = head[..line].trim_end().split_once(':').unwrap();
            assert_eq!(fields.get(name), Some(value.trim().as_bytes()));
            assert_eq!(fields.iter().next().unwrap().line, &head.as_bytes()[..line]);
        }
        for head in [
            "",
            "\r\n",
            "A",
            "A:",
            "A: ",
            "A: b",
            "A: b\r",
            "A: b\rc\r\n",
            "A: b\0\r\n",
            "A: b\n",
            "A:b\r\n",
            "A:  b\r\n",
            "A: b \r\n",
            "A: b\tc\r\n",
            "A_B: c\r\n",
            " A: b\r\n",
            ": b\r\n",
            "A : b\r\n",
            "A:  \r\n",
        ] {
            let mut fields = Fields::new();
            assert_eq!(fields.push_usual(head.as_bytes(), 9), 0, "{head:?}");
            assert!(fields.is_empty() && fields.arena.is_empty());
        }
    }

    #[test]
    fn usual_lines_are_taken_up_to_one_that_is_not() {
        let head = b"A: b\r\nCc: \r\nD:e\r\nF: g\r\n\r\n";
        for (most, length, count) in [(0, 0, 0), (1, 6, 1), (2, 12, 2), (9, 12, 2)] {
            let mut fields = Fields::new();
            fields.push(b"X", b"y").unwrap();
            assert_eq!((fields.push_usual(head, most), fields.len()), (length, 1 + count));
            let mut out = Vec::new();
            fields.write_unframed(&mut out);
            assert_eq!(out, [b"X: y\r\n", &head[..length]].concat());
            let mut copy = Fields::new();
            fields.iter().for_each(|field| copy.push_checked(&field).unwrap());
            assert_eq!(copy.iter().collect::<Vec<_>>(), fields.iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_head_after_another_one_is_read_as_if_it_were_the_first() {
        let heads: [&[u8]; 9] = [
            b"Server: a\r\nDate: 1\r\nContent-Length: 10\r\n\r\n",
            b"Server: a\r\nDate: 1\r\nContent-Length: 10\r\n\r\n",
            b"Server: a\r\nDate: 2\r\nContent-Length: 100\r\nX: y\r\n\r\n",
            b"Date: 2\r\nServer: a\r\n\r\n",
            b"Date: 2\r\nServer: a\r\nDate: 2\r\nServer: a\r\n\r\n",
            b"Server: a\r\nA_B: c\r\nDate: 1\r\n\r\n",
            b"Server: a\r\nA_B: c\r\nDate: 1\r\n\r\n",
            b"Server: a",
            b"Server: a\r\n",
        ];
        for (first, second) in heads.iter().flat_map(|first| heads.iter().map(move |second| (first, second)))
        {
            for steps in [[1, 9], [9, 9]] {
                let (mut fields, mut fresh) = (Fields::new(), Fields::new());
                fields.push_usual(first, 9);
                if first.starts_with(b"Server: a\r\nA_B") {
                    // A line that is only usual here may be refused elsewhere.
                    fields.push(b"A_B", b"c").unwrap();
                }
                if first.starts_with(b"Date: 2") {
                    ["Date", "Server"].iter().for_each(|name| fields.remove(name));
                    fields.push_usual(first, 9);
                }
                fields.clear();
                assert!(fields.is_empty() && fields.get("Server").is_none());
                fields.clear();
                for most in steps {
                    assert_eq!(fields.push_usual(second, most), fresh.push_usual(second, most));
                    assert_eq!(format!("{fields:?}"), format!("{fresh:?}"));
                }
            }
        }
    }

    #[test]
    fn bytes_that_break_a_message_are_seen_wherever_they_stand() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).map(|at| [b'x', b'\t', b' ', 0xff, 0x80][at % 5]).collect();
            assert!(!breaks_framing(&text), "{text:?}");
            for at in 0..length {
                for byte in [b'\r', b'\n', 0] {
                    let mut text = text.clone();
                    text[at] = byte;
                    assert!(breaks_framing(&text), "{text:?}");
                }
            }
        }
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
