//! Heads that are sent again and again.

use crate::{HTTP_DATE_LENGTH, ResponseHead, Status};
use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Range;

/// What the last plain heads about some content looked like, which lives as long as the content.
#[derive(Debug, Default)]
pub struct HeadMemo {
    /// As a text of HTTP/1.
    pub http1: HeadText,
    /// As a block of fields of HTTP/2, which refers to nothing that belongs to one connection.
    pub http2: HeadText,
}

/// The text of the last plain head about some content. The writer of heads keeps it here, and uses it as long as all that
/// it was made of is the same. The date and the fields of the list are written into it anew. A head that says something
/// else is never answered with it.
#[derive(Debug, Default)]
pub struct HeadText(RefCell<Option<Written>>);

#[derive(Debug)]
struct Written {
    key: Key,
    /// Without the fields of the list.
    text: Vec<u8>,
    date_at: usize,
    fields_at: usize,
}

/// Where something stands in a head that was written.
#[derive(Clone, Debug)]
pub struct Places {
    /// The value of `Date`.
    pub date_at: usize,
    /// The fields of the list.
    pub fields: Range<usize>,
}

/// What a plain head is made of, besides its date and the fields of its list.
#[derive(Debug)]
struct Key {
    /// What the text depends on besides the head, as numbers that tell all cases apart.
    settings: [u64; 3],
    content_type: Option<Bytes>,
    content_length: Option<u64>,
    last_modified: Option<i64>,
    etag: Option<Bytes>,
    accept_ranges: bool,
}

impl Key {
    fn of(head: &ResponseHead, settings: [u64; 3]) -> Key {
        Key {
            settings,
            content_type: head.content_type.clone(),
            content_length: head.content_length,
            last_modified: head.last_modified,
            etag: head.etag.clone(),
            accept_ranges: head.accept_ranges,
        }
    }

    fn fits(&self, head: &ResponseHead, settings: [u64; 3]) -> bool {
        self.settings == settings
            && self.content_length == head.content_length
            && self.last_modified == head.last_modified
            && self.accept_ranges == head.accept_ranges
            && is_same(self.etag.as_ref(), head.etag.as_ref())
            && is_same(self.content_type.as_ref(), head.content_type.as_ref())
    }
}

/// Whether these are the very same bytes. Equal ones in another place make a new text.
fn is_same(known: Option<&Bytes>, other: Option<&Bytes>) -> bool {
    known.map(|bytes| bytes.as_ptr_range()) == other.map(|bytes| bytes.as_ptr_range())
}

impl ResponseHead {
    /// Whether a head has nothing but what describes whole content and fields that belong after that: most are such.
    pub fn is_plain(&self) -> bool {
        self.status == Status::OK
            && self.fields.get("Server").is_none()
            && self.fields.get("Date").is_none()
            && self.location.is_none()
            && self.reason.is_none()
            && !self.vary
    }
}

impl HeadText {
    /// Appends the text of a plain head with this date, if the text is known. `fields` appends the fields of the list.
    /// `settings` distinguishes all that the text depends on besides the head.
    pub fn append(
        &self,
        head: &ResponseHead,
        (settings, date): ([u64; 3], &[u8; HTTP_DATE_LENGTH]),
        out: &mut Vec<u8>,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let known = self.0.borrow();
        let Some(known) = known.as_ref().filter(|known| known.key.fits(head, settings)) else { return false };
        let start = out.len();
        let (before, after) = known.text.split_at(known.fields_at);
        out.extend_from_slice(before);
        fields(out);
        out.extend_from_slice(after);
        out[start + known.date_at..][..HTTP_DATE_LENGTH].copy_from_slice(date);
        true
    }

    /// Keeps the text of a plain head, and the places in it.
    pub fn keep(&self, head: &ResponseHead, settings: [u64; 3], text: &[u8], places: Places) {
        let Places { date_at, fields } = places;
        let text = [&text[..fields.start], &text[fields.end..]].concat();
        let fields_at = fields.start;
        *self.0.borrow_mut() = Some(Written { key: Key::of(head, settings), text, date_at, fields_at });
    }
}
