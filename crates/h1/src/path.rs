//! Paths without dot segments (RFC 3986, section 5.2.4). What comes out of here starts with a slash and
//! has no segment `.` or `..`, so that appending it to a directory stays below that directory.

use memchr::{memchr, memchr2};

use crate::bytes::hex_pair;
use crate::escape::unescape_uri;

/// The path climbs above the root, has a NUL, does not start with a slash, or has a `%` without two
/// hexadecimal digits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPath;

/// Replaces `out` by `path` with `.`, `..` and, if `merge_slashes`, empty segments resolved. Nothing is
/// decoded.
pub fn normalise_path(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    resolve(path, false, merge_slashes, out)
}

/// As [`normalise_path`], but decodes percent-encoding once, before segments are looked at.
pub(crate) fn decode_path(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    resolve(path, true, merge_slashes, out)
}

/// Whether a URI that did not come through [`parse_target`](crate::parse_target) (out of a field of an
/// upstream's response, say) is empty, has a NUL, or has a segment `..`, plainly or encoded.
pub fn is_unsafe_uri(uri: &[u8]) -> bool {
    let path = &uri[..memchr(b'?', uri).unwrap_or(uri.len())];
    let mut decoded = Vec::new();
    unescape_uri(path, &mut decoded);
    path.is_empty() || is_unsafe_path(path) || is_unsafe_path(&decoded)
}

fn is_unsafe_path(path: &[u8]) -> bool {
    path.contains(&0) || path.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

fn resolve(path: &[u8], decode: bool, merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    out.clear();
    let Some(mut rest) = path.strip_prefix(b"/") else {
        return Err(InvalidPath);
    };
    out.push(b'/');
    let mut segment = out.len();
    loop {
        let next = if decode { memchr2(b'/', b'%', rest) } else { memchr(b'/', rest) };
        let Some(at) = next else {
            out.extend_from_slice(rest);
            break;
        };
        out.extend_from_slice(&rest[..at]);
        let mut byte = rest[at];
        rest = &rest[at + 1..];
        if byte == b'%' {
            byte = hex_pair(rest).ok_or(InvalidPath)?;
            rest = &rest[2..];
        }
        out.push(byte);
        if byte == b'/' {
            segment = end_segment(out, segment, merge_slashes)?;
        }
    }
    match &out[segment..] {
        b"." => out.truncate(segment),
        b".." => _ = climb(out, segment)?,
        _ => {}
    }
    if memchr(0, out).is_some() { Err(InvalidPath) } else { Ok(()) }
}

/// Deals with the segment from `segment` to the slash that was just pushed; the start of the next one.
fn end_segment(out: &mut Vec<u8>, segment: usize, merge_slashes: bool) -> Result<usize, InvalidPath> {
    match &out[segment..] {
        b"./" => out.truncate(segment),
        b"/" if merge_slashes => out.truncate(segment),
        b"../" => return climb(out, segment),
        _ => {}
    }
    Ok(out.len())
}

/// Takes away what starts at `segment` and the segment before it; where the next one starts.
fn climb(out: &mut Vec<u8>, segment: usize) -> Result<usize, InvalidPath> {
    let parent = &out[..segment - 1];
    let slash = parent.iter().rposition(|&byte| byte == b'/').ok_or(InvalidPath)?;
    out.truncate(slash + 1);
    Ok(slash + 1)
}
