//! What a response says of the state of its content, where the content is changed.

use bytes::Bytes;
use http::{ResponseHead, parse_date};

/// Takes note that the content has other bytes now, which mean the same: its length is not known, parts of it are not
/// on offer, and its entity tag is a weak one.
pub(crate) fn is_another_form(response: &mut ResponseHead) {
    response.content_length = None;
    response.accept_ranges = false;
    // Another server's field is about its own form.
    response.fields.remove("accept-ranges");
    weaken(response);
}

/// Makes the entity tag a weak one (RFC 9110, section 8.8.1): the content means the same, but its bytes are others.
pub(crate) fn weaken(response: &mut ResponseHead) {
    response.etag = response.etag.take().and_then(weak);
    // Another server's tag is a field.
    if let Some(tag) = response.fields.get("etag").map(Bytes::copy_from_slice) {
        response.fields.remove("etag");
        // What was a field's value is one again.
        let _ = weak(tag).map(|tag| response.fields.push(b"ETag", &tag));
    }
}

/// Makes the validators of another server's response this server's own, so that conditions are judged by them.
pub(crate) fn adopt(response: &mut ResponseHead) {
    // This server sends no time with other statuses, but passes on the one of the upstream server.
    let time = response.fields.get("Last-Modified").filter(|_| response.status.is_dated());
    if let Some(time) = time.and_then(parse_date) {
        response.last_modified = Some(time);
        response.fields.remove("Last-Modified");
    }
    if let Some(tag) = response.fields.get("ETag").map(Bytes::copy_from_slice) {
        response.etag = Some(tag);
        response.fields.remove("ETag");
    }
}

/// Takes away the entity tag and the time of the last modification.
pub(crate) fn remove(response: &mut ResponseHead) {
    response.etag = None;
    response.last_modified = None;
    response.fields.remove("etag");
    response.fields.remove("last-modified");
}

/// The weak form of an entity tag. What is no entity tag has none.
fn weak(tag: Bytes) -> Option<Bytes> {
    if tag.starts_with(b"W/") && tag.len() > 2 {
        return Some(tag);
    }
    tag.starts_with(b"\"").then(|| [b"W/", &*tag].concat().into())
}

#[cfg(test)]
mod tests {
    use super::{is_another_form, remove, weaken};
    use http::{ResponseHead, Status};

    #[test]
    fn tags_become_weak_once() {
        for (tag, expected) in
            [("\"a\"", Some("W/\"a\"")), ("W/\"a\"", Some("W/\"a\"")), ("a", None), ("W/", None), ("", None)]
        {
            let mut response = ResponseHead::new(Status::OK);
            response.etag = Some(tag.into());
            response.fields.push(b"etag", tag.as_bytes()).unwrap();
            weaken(&mut response);
            assert_eq!(response.etag.as_deref(), expected.map(str::as_bytes), "{tag}");
            assert_eq!(response.fields.get("ETag"), expected.map(str::as_bytes), "{tag}");
        }
    }

    #[test]
    fn another_form_is_neither_measured_nor_cut() {
        let mut response = ResponseHead::new(Status::OK);
        (response.content_length, response.accept_ranges) = (Some(1), true);
        for (name, value) in [("ETag", "\"a\""), ("Accept-Ranges", "bytes"), ("X-A", "b")] {
            response.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        is_another_form(&mut response);
        assert_eq!((response.content_length, response.accept_ranges), (None, false));
        let fields = &response.fields;
        assert_eq!((fields.get("etag"), fields.len()), (Some(&b"W/\"a\""[..]), 2));
    }

    #[test]
    fn nothing_is_said() {
        let mut response = ResponseHead::new(Status::OK);
        response.etag = Some("\"a\"".into());
        response.last_modified = Some(1);
        response.fields.push(b"ETag", b"\"a\"").unwrap();
        response.fields.push(b"LAST-MODIFIED", b"never").unwrap();
        remove(&mut response);
        assert!(response.etag.is_none() && response.last_modified.is_none() && response.fields.is_empty());
    }
}
