//! Percent-encoding and the escaping of HTML.

use crate::bytes::hex_value;

/// For which place in a URI bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeKind {
    /// A path: what may stand in a URI stays, but `?`, `#` and `%` do not.
    Uri,
    /// A query: as a path, and neither `&`, `+` nor `;` stays.
    Args,
    /// One part between delimiters: only unreserved characters stay (RFC 3986, section 2.3).
    Component,
    /// A URI that already is one, and stands in an attribute of HTML: `?` stays, quotes do not.
    Html,
}

/// Appends `bytes`, percent-encoded where that place needs it.
pub fn escape_uri(bytes: &[u8], kind: EscapeKind, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    let table = match kind {
        EscapeKind::Uri => &URI,
        EscapeKind::Args => &ARGS,
        EscapeKind::Component => &COMPONENT,
        EscapeKind::Html => &HTML,
    };
    for &byte in bytes {
        if table[usize::from(byte)] {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Appends `text` with `<`, `>`, `&` and `"` as character references.
pub fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
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

static URI: [bool; 256] = table(b" \"#%<>?\\^`{|}");
static ARGS: [bool; 256] = table(b" \"#%&+;<>?\\^`{|}");
static COMPONENT: [bool; 256] = table(b" !\"#$%&'()*+,/:;<=>?@[\\]^`{|}");
static HTML: [bool; 256] = table(b" \"#%'<>\\^`{|}");

/// Controls, bytes beyond ASCII and those listed are encoded.
const fn table(listed: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte < 0x20 || byte >= 0x7f;
        byte += 1;
    }
    let mut at = 0;
    while at < listed.len() {
        table[listed[at] as usize] = true;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{EscapeKind, escape_html, escape_uri, unescape_uri};

    #[test]
    fn each_place_keeps_its_own_characters() {
        let printable: Vec<u8> = (b' '..0x7f).filter(|byte| !byte.is_ascii_alphanumeric()).collect();
        for (kind, kept) in [
            (EscapeKind::Uri, "!$&'()*+,-./:;=@[]_~"),
            (EscapeKind::Args, "!$'()*,-./:=@[]_~"),
            (EscapeKind::Component, "-._~"),
            (EscapeKind::Html, "!$&()*+,-./:;=?@[]_~"),
        ] {
            let mut plain = Vec::new();
            for &byte in &printable {
                let mut out = Vec::new();
                escape_uri(&[byte], kind, &mut out);
                if out.len() == 1 {
                    plain.push(byte);
                }
            }
            assert_eq!(String::from_utf8(plain).unwrap(), kept, "{kind:?}");
        }
        let mut out = b"x".to_vec();
        escape_uri("a\r\n\u{e9}\x7f".as_bytes(), EscapeKind::Uri, &mut out);
        assert_eq!(out, b"xa%0D%0A%C3%A9%7F");
    }

    #[test]
    fn html() {
        let mut out = Vec::new();
        escape_html(b"<a href=\"x&y\">'", &mut out);
        assert_eq!(out, b"&lt;a href=&quot;x&amp;y&quot;&gt;'");
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
