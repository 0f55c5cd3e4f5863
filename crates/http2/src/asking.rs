//! The block of fields of a request that we send (RFC 9113, section 8.3.1).

use crate::BlockWriter;

/// The pseudo-fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
    /// `:authority`; an empty one is left out.
    pub authority: &'a [u8],
}

/// Writes the head of a request. Fields that concern one connection only are left out, and so is one with an empty name or
/// with a colon in front.
pub fn write_request<'f>(
    request: &Request<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    block: &mut BlockWriter<'_>,
) {
    block.add(b":method", request.method);
    block.add(b":scheme", request.scheme);
    block.add(b":path", request.path);
    if !request.authority.is_empty() {
        block.add(b":authority", request.authority);
    }
    for (name, value) in fields {
        let is_te = name.eq_ignore_ascii_case(b"te");
        let is_allowed = !is_te || value.eq_ignore_ascii_case(b"trailers");
        if is_allowed && !name.is_empty() && !name.starts_with(b":") && !is_about_connection(name) {
            block.add_any_case(name, value);
        }
    }
}

/// Whether HTTP/2 has no field of this name (RFC 9113, section 8.2.2).
fn is_about_connection(name: &[u8]) -> bool {
    const NAMES: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}
