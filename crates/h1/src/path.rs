//! Paths without dot segments (RFC 3986, section 5.2.4). What comes out of here starts with a slash and
//! has no segment `.` or `..`, so that appending it to a directory stays below that directory.

use http::words::{any_word, where_is};
use memchr::{memchr, memchr2};

use crate::bytes::{hex_pair, hex_value};

/// The path climbs above the root, has a NUL, does not start with a slash, or has a `%` without two
/// hexadecimal digits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPath;

/// Replaces `out` by `path` with `.`, `..` and, if `merge_slashes`, empty segments resolved. Nothing is
/// decoded.
pub fn normalise_path(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    resolve(path, false, merge_slashes, out)
}

/// Whether a target is a path and nothing else, which stays as it is when it is decoded and normalised. It may be
/// without being seen to be.
pub(crate) fn is_plain_path(target: &[u8]) -> bool {
    let changes = |word: u64| {
        let slashes = where_is(word, b'/');
        let follows_slash = (slashes << 8) & (slashes | where_is(word, b'.'));
        let special = [b'%', b'?', b'#', 0].map(|byte| where_is(word, byte));
        follows_slash | special[0] | special[1] | special[2] | special[3] != 0
    };
    target.starts_with(b"/") && !any_word(target, changes)
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
    let mut rest = path.strip_prefix(b"/").filter(|rest| memchr(0, rest).is_none()).ok_or(InvalidPath)?;
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
            byte = hex_pair(rest).filter(|&byte| byte != 0).ok_or(InvalidPath)?;
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
    Ok(())
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

/// Appends `bytes` with their percent-encoding taken away, leniently as nginx does it in internal URIs:
/// of a `%` without two hexadecimal digits the `%` and a first digit are lost.
pub fn unescape_uri(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let Some(&first) = rest.next() else { return };
        let Some(high) = hex_value(first) else {
            out.push(first);
            continue;
        };
        if let Some(low) = rest.next().and_then(|&second| hex_value(second)) {
            out.push(high << 4 | low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidPath, decode_path, is_plain_path, is_unsafe_uri, normalise_path, unescape_uri};

    fn decode(path: &str, merge_slashes: bool) -> Result<String, InvalidPath> {
        let mut out = b"before".to_vec();
        decode_path(path.as_bytes(), merge_slashes, &mut out)?;
        Ok(out.into_iter().map(char::from).collect())
    }

    #[test]
    fn segments_are_resolved_after_one_decoding() {
        for (path, resolved) in [
            ("/", "/"),
            ("/a/b.c", "/a/b.c"),
            ("/a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/..", "/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/../../c/", "/c/"),
            ("//a///b//", "/a/b/"),
            ("/a//../b", "/b"),
            ("/.a/..b/...", "/.a/..b/..."),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a%2f..%2Fb", "/b"),
            ("/%2f%2fa", "/a"),
            ("/a%3fb%23c%25d%20e", "/a?b#c%d e"),
            ("/%252e%252e/", "/%2e%2e/"),
            ("/%c0%ae%c0%ae/%c0%af", "/\u{c0}\u{ae}\u{c0}\u{ae}/\u{c0}\u{af}"),
            ("/%5c..%5c..", "/\\..\\.."),
            ("/\\..\\", "/\\..\\"),
            ("/%02", "/\u{2}"),
            ("/+", "/+"),
        ] {
            assert_eq!(decode(path, true).as_deref(), Ok(resolved), "{path}");
        }
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        let bytes = b"/.a%?#\0";
        let count = bytes.len().pow(5);
        let mut plain = 0;
        for number in 0..count {
            let digits = (0..5).map(|place| bytes[number / bytes.len().pow(place) % bytes.len()]);
            let path: Vec<u8> = b"/abcde".iter().copied().chain(digits).collect();
            for path in [&path[..], &path[6..], &[&path[6..], b"/abcdefgh"].concat()] {
                if is_plain_path(path) {
                    plain += 1;
                    let mut out = Vec::new();
                    assert_eq!(decode_path(path, true, &mut out).map(|()| &out[..]), Ok(path));
                }
            }
        }
        assert!(plain > 100);
        assert!(is_plain_path(b"/") && is_plain_path(b"/a/b.c/d-e_f~g+h/") && !is_plain_path(b"a"));
    }

    #[test]
    fn paths_that_are_refused() {
        for path in [
            "",
            "a",
            "..",
            "/..",
            "/../etc/passwd",
            "/a/../../x",
            "/a/../..",
            "/%2e%2e/",
            "/.%2e/",
            "/%2E./",
            "/%2e%2e%2fx",
            "//../x",
            "/./../x",
            "/%%32%65%%32%65/",
            "/%",
            "/a%",
            "/a%4",
            "/%zz",
            "/%4g",
            "/%+4",
            "/%00",
            "/a%00b/",
            "/%00/../a",
            "/a\0/../b",
        ] {
            assert_eq!(decode(path, true), Err(InvalidPath), "{path}");
        }
    }

    #[test]
    fn slashes_are_kept_if_asked() {
        for (path, resolved) in [
            ("//a///b//", "//a///b//"),
            ("/a//../b", "/a/b"),
            ("//..", "/"),
            ("/a/.//b", "/a//b"),
            ("/a/..//b", "//b"),
            ("/%2f/", "///"),
        ] {
            assert_eq!(decode(path, false).as_deref(), Ok(resolved), "{path}");
        }
        assert_eq!(decode("//../..", false), Err(InvalidPath));
    }

    #[test]
    fn plain_paths_are_not_decoded() {
        let mut out = Vec::new();
        assert_eq!(normalise_path(b"/a%2f../b/../%2e%2e/c", true, &mut out), Ok(()));
        assert_eq!(out, b"/a%2f../%2e%2e/c");
        for path in ["/..", "/a\0", "a/b", ""] {
            assert_eq!(normalise_path(path.as_bytes(), true, &mut out), Err(InvalidPath), "{path}");
        }
    }

    #[test]
    fn unsafe_uris() {
        for uri in [
            "",
            "?a",
            "..",
            "../a",
            "/..",
            "/../a",
            "/a/..",
            "/a/../b",
            "a\0",
            "/a/..?b",
            "/%2e%2e/a",
            "/a/%2e.",
            "%2e%2e",
            "/a%2f..",
            "/%00",
        ] {
            assert!(is_unsafe_uri(uri.as_bytes()), "{uri:?}");
        }
        for uri in ["/", "a", "/a/b?../..", "/...", "/a..", "/..a/", "/%252e%252e/", "/a?%00"] {
            assert!(!is_unsafe_uri(uri.as_bytes()), "{uri:?}");
        }
    }

    #[test]
    fn unescaping_is_lenient() {
        for (text, plain) in [
            ("a%20b", "a b"),
            ("%41%4a", "AJ"),
            ("%", ""),
            ("a%4", "a"),
            ("%zz", "zz"),
            ("%4zb", "b"),
            ("%%41", "%41"),
        ] {
            let mut out = Vec::new();
            unescape_uri(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), plain, "{text}");
        }
    }
}
