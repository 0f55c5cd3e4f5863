//! Fields of a response of another server that concern the connection to it, and are not passed on.

use http::list::tokens;
use http::{Field, Fields, KnownName, Repeated};

/// Whether a response says that further fields concern the connection only. What most servers list is dropped in any case.
#[inline]
pub(crate) fn lists_fields(fields: &Fields) -> bool {
    match fields.only(KnownName::Connection) {
        Ok(None) => false,
        Ok(Some(list)) => {
            list != b"keep-alive"
                && !["keep-alive", "close"].iter().any(|usual| list.eq_ignore_ascii_case(usual.as_bytes()))
        }
        Err(Repeated) => true,
    }
}

/// Whether a response says that a field concerns the connection only (RFC 9110, section 7.6.1).
#[cold]
pub(crate) fn is_listed(fields: &Fields, field: &Field<'_>) -> bool {
    tokens(fields, "Connection").any(|token| field.name.eq_ignore_ascii_case(token))
}
