//! Heads that are sent again and again.

use crate::{HTTP_DATE_LENGTH, ResponseHead, Status};
use bytes::Bytes;
use std::cell::RefCell;

/// The text of the last plain head about some content, which lives beside the content. Whoever writes heads puts it
/// here, and takes it as long as all that it was made of is the same; the date is written into it anew. It is a
/// memory and no source: a head that says something else is never answered with it.
#[derive(Debug, Default)]
pub struct HeadMemo(RefCell<Option<Written>>);

#[derive(Debug)]
struct Written {
    key: Key,
    text: Vec<u8>,
    date_at: usize,
}

/// What a plain head is made of, beside its date.
#[derive(Debug)]
struct Key {
    /// What the text depends on beside the head, as numbers that tell all cases apart.
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
    /// Whether a head has nothing but what describes whole content: most are such.
    pub fn is_plain(&self) -> bool {
        self.status == Status::OK
            && self.fields.is_empty()
            && self.location.is_none()
            && self.reason.is_none()
            && !self.vary
    }
}

impl HeadMemo {
    /// Appends the text of a plain head with this date; `write` makes it where it is not known, and gives the place
    /// of the date in it. What the text depends on beside the head is told by numbers that tell all cases apart.
    pub fn append(
        &self,
        head: &ResponseHead,
        (settings, date): ([u64; 3], &[u8; HTTP_DATE_LENGTH]),
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> usize,
    ) {
        let mut known = self.0.borrow_mut();
        let start = out.len();
        match known.as_ref().filter(|known| known.key.fits(head, settings)) {
            Some(known) => {
                out.extend_from_slice(&known.text);
                out[start + known.date_at..][..HTTP_DATE_LENGTH].copy_from_slice(date);
            }
            None => {
                let date_at = write(out);
                let text = out[start..].to_vec();
                *known = Some(Written { key: Key::of(head, settings), text, date_at });
            }
        }
    }
}
