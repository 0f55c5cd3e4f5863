//! Removing dot segments from paths (RFC 3986, section 5.2.4), and percent-decoding.

use crate::hex;
use crate::words::{any_word, where_between, where_is, where_nul};
use memchr::{memchr, memchr2};

/// The path leads above the root, contains a NUL, does not start with a slash, or contains a `%` that is not followed by
/// two hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPath;

/// Writes `path` to `out` without the segments `.` and `..` and, if `merge_slashes`, without empty segments. Percent-encoding
/// is not decoded.
///
/// # Errors
/// See [`InvalidPath`].
pub fn normalise_path(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    resolve(path, false, merge_slashes, out)
}

/// Whether a target is a path that decoding and normalising do not change. A quick check: `false` may be wrong, `true` is
/// not.
pub(super) fn is_plain_path(target: &[u8]) -> bool {
    let changes = |word: u64| {
        let slashes = where_is(word, b'/');
        let follows_slash = (slashes << 8) & (slashes | where_is(word, b'.'));
        // `$` stands between `#` and `%`.
        follows_slash | where_between(word, b'#', b'%') | where_is(word, b'?') | where_nul(word) != 0
    };
    target.starts_with(b"/") && !any_word(target, changes)
}

/// Like [`normalise_path`], but decodes percent-encoding once, before it looks at segments.
pub(super) fn decode_path(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), InvalidPath> {
    resolve(path, true, merge_slashes, out)
}

/// The decoded path of a URI, and what follows its `?`. It is for URIs that [`parse_target`](super::parse_target) has not
/// checked, such as a field of an upstream's response. `None` is for an unsafe URI: its path is empty, or contains a NUL or
/// a segment `..`, encoded or not.
pub fn split_unchecked_uri(uri: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let mark = memchr(b'?', uri);
    let path = &uri[..mark.unwrap_or(uri.len())];
    let mut decoded = Vec::new();
    unescape_uri(path, &mut decoded);
    let is_unsafe = path.is_empty() || is_unsafe_path(path) || is_unsafe_path(&decoded);
    let args = mark.map(|mark| uri[mark + 1..].to_vec());
    (!is_unsafe).then_some((decoded, args))
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
            byte = hex::pair(rest).filter(|&byte| byte != 0).ok_or(InvalidPath)?;
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

/// Resolves the segment from `segment` to the slash that was just pushed. Returns the start of the next segment.
fn end_segment(out: &mut Vec<u8>, segment: usize, merge_slashes: bool) -> Result<usize, InvalidPath> {
    match &out[segment..] {
        b"./" => out.truncate(segment),
        b"/" if merge_slashes => out.truncate(segment),
        b"../" => return climb(out, segment),
        _ => {}
    }
    Ok(out.len())
}

/// Removes everything from `segment` on, and the segment before it. Returns the start of the next segment.
fn climb(out: &mut Vec<u8>, segment: usize) -> Result<usize, InvalidPath> {
    let parent = &out[..segment - 1];
    let slash = parent.iter().rposition(|&byte| byte == b'/').ok_or(InvalidPath)?;
    out.truncate(slash + 1);
    Ok(slash + 1)
}

/// Appends `bytes` without percent-encoding, as leniently as nginx decodes internal URIs: if two hexadecimal digits do not
/// follow a `%`, the `%` and a first digit are dropped.
pub fn unescape_uri(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let Some(&first) = rest.next() else { return };
        let Some(high) = hex::digit(first) else {
            out.push(first);
            continue;
        };
        if let Some(low) = rest.next().and_then(|&second| hex::digit(second)) {
            out.push(high << 4 | low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidPath, decode_path, is_plain_path, normalise_path, split_unchecked_uri, unescape_uri};

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
    fn plain_paths_do_not_change() {
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
    fn invalid_paths() {
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
    fn slashes_are_merged_only_on_request() {
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
    fn normalising_does_not_decode() {
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
            assert_eq!(split_unchecked_uri(uri.as_bytes()), None, "{uri:?}");
        }
        for uri in ["/", "a", "/a/b?../..", "/...", "/a..", "/..a/", "/%252e%252e/", "/a?%00"] {
            assert!(split_unchecked_uri(uri.as_bytes()).is_some(), "{uri:?}");
        }
    }

    #[test]
    fn unchecked_uri_is_path_and_arguments() {
        let (path, args) = split_unchecked_uri(b"/a%20b?c=%20?d").unwrap();
        assert_eq!((path.as_slice(), args.as_deref()), (&b"/a b"[..], Some(&b"c=%20?d"[..])));
        assert_eq!(split_unchecked_uri(b"/a"), Some((b"/a".to_vec(), None)));
        assert_eq!(split_unchecked_uri(b"/a?"), Some((b"/a".to_vec(), Some(Vec::new()))));
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
