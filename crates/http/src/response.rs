//! The head of a response.

use crate::{Fields, HeadMemo, Status};
use bytes::Bytes;
use std::borrow::Cow;
use std::rc::Rc;

/// A response head. What the server frames and validates by is typed; all else is a field.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status code.
    pub status: Status,
    /// Another server's reason phrase, which counts as long as the status is the one that it came with.
    pub reason: Option<(Status, Cow<'static, [u8]>)>,
    /// The media type with its parameters; none sends no `Content-Type`.
    pub content_type: Option<Bytes>,
    /// The length of the content in bytes; none makes it chunked, or ended by the connection's end.
    pub content_length: Option<u64>,
    /// Seconds since 1970 of the last modification of the content.
    pub last_modified: Option<i64>,
    /// The entity tag with its quotes.
    pub etag: Option<Bytes>,
    /// The target of a redirection.
    pub location: Option<Box<[u8]>>,
    /// Whether ranges of the content may be asked for.
    pub accept_ranges: bool,
    /// Whether the content depends on the request's `Accept-Encoding`, which a `Vary` field then tells
    /// (RFC 9110, section 12.5.5).
    pub vary: bool,
    /// Whether the server does not add its own `Server`.
    pub omits_server: bool,
    /// Whether the server does not add its own `Date`.
    pub omits_date: bool,
    /// All other fields, in order.
    pub fields: Fields,
    /// Whether fields are to be sent after the content, which is chunked for it.
    pub expects_trailers: bool,
    /// Fields sent after a chunked body (RFC 9110, section 6.5); they may be added until the content has ended.
    pub trailers: Fields,
    /// The text of the head that the content went out with before.
    pub memo: Option<Rc<HeadMemo>>,
}

impl ResponseHead {
    /// A head with this status and nothing else.
    pub fn new(status: Status) -> ResponseHead {
        ResponseHead {
            status,
            reason: None,
            content_type: None,
            content_length: None,
            last_modified: None,
            etag: None,
            location: None,
            accept_ranges: false,
            vary: false,
            omits_server: false,
            omits_date: false,
            fields: Fields::new(),
            expects_trailers: false,
            trailers: Fields::new(),
            memo: None,
        }
    }

    /// Whether the content is in a coding, such as gzip (RFC 9110, section 8.4).
    pub fn is_coded(&self) -> bool {
        self.fields.get("content-encoding").is_some_and(|coding| !coding.is_empty())
    }

    /// Makes it what [`ResponseHead::new`] gives, and keeps the memory of the fields.
    pub fn clear(&mut self, to: Status) {
        let ResponseHead {
            status,
            reason,
            content_type,
            content_length,
            last_modified,
            etag,
            location,
            accept_ranges,
            vary,
            omits_server,
            omits_date,
            fields,
            expects_trailers,
            trailers,
            memo,
        } = self;
        (*status, *reason) = (to, None);
        (*content_type, *content_length, *last_modified, *etag) = (None, None, None, None);
        (*location, *accept_ranges, *vary) = (None, false, false);
        (*omits_server, *omits_date) = (false, false);
        fields.clear();
        (*expects_trailers, *memo) = (false, None);
        trailers.clear();
    }

    /// The reason phrase, where it is not the status code's own.
    pub fn reason(&self) -> Option<&[u8]> {
        let (status, reason) = self.reason.as_ref()?;
        (*status == self.status).then_some(reason)
    }
}
