//! Texts made safe for the place that they are put in. Each function appends to `out`.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A path inside a URI: what RFC 3986 does not allow anywhere, and what would end the path.
pub fn path(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| is_forbidden(byte) || matches!(byte, b'#' | b'%' | b'?'));
}

/// A URI whose escapes are there already: what would end it in a request line, and `#`, which would end it as a URI.
pub fn breaks(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| byte <= b' ' || matches!(byte, b'#' | 0x7f));
}

/// A value inside a query.
pub fn argument(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| is_forbidden(byte) || matches!(byte, b'#' | b'%' | b'?' | b'&' | b'+' | b';'));
}

/// A value inside a query that may itself be a URI, as set-misc writes it.
pub fn query_value(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| !byte.is_ascii_graphic() || b"\"#%&+/:;<=>?[\\]^{}".contains(&byte));
}

/// A segment inside a URI: all but the unreserved characters (RFC 3986, section 2.3).
pub fn component(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)));
}

/// A URL inside an attribute of HTML: what would end either of them.
pub fn attribute_url(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\''));
}

/// A value inside a URL that stands in HTML, as nginx writes it: what is special in either of them, but for `&` and `?`.
pub fn html_url(text: &[u8], out: &mut Vec<u8>) {
    percent(text, out, |byte| is_forbidden(byte) || matches!(byte, b'#' | b'%' | b'\''));
}

/// Text inside an HTML or XML element or attribute.
pub fn html(text: &[u8], out: &mut Vec<u8>) {
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

/// Text inside a JSON string (RFC 8259, section 7); bytes that are no UTF-8 stay as they are.
pub fn json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                hex(byte, out);
            }
            _ => out.push(byte),
        }
    }
}

/// What no URI may hold unescaped (RFC 3986, section 2).
fn is_forbidden(byte: u8) -> bool {
    !byte.is_ascii_graphic() || b"\"<>\\^`{|}".contains(&byte)
}

fn percent(text: &[u8], out: &mut Vec<u8>, escapes: impl Fn(u8) -> bool) {
    for &byte in text {
        if escapes(byte) {
            out.push(b'%');
            hex(byte, out);
        } else {
            out.push(byte);
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.push(HEX[usize::from(byte >> 4)]);
    out.push(HEX[usize::from(byte & 0xf)]);
}

#[cfg(test)]
mod tests {
    fn with(escape: fn(&[u8], &mut Vec<u8>), text: &[u8]) -> String {
        let mut out = Vec::new();
        escape(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_place_keeps_its_own_characters() {
        let marks: Vec<u8> = (b' '..0x7f).filter(|byte| !byte.is_ascii_alphanumeric()).collect();
        let kept = |escape: fn(&[u8], &mut Vec<u8>)| -> String {
            let is_kept = |mark: &&u8| with(escape, &[**mark]).len() == 1;
            marks.iter().filter(is_kept).map(|&mark| char::from(mark)).collect()
        };
        assert_eq!(kept(super::path), "!$&'()*+,-./:;=@[]_~");
        assert_eq!(kept(super::argument), "!$'()*,-./:=@[]_~");
        assert_eq!(kept(super::query_value), "!$'()*,-.@_`|~");
        assert_eq!(kept(super::component), "-._~");
        assert_eq!(
            kept(super::breaks),
            marks[1..].iter().filter(|mark| **mark != b'#').map(|&mark| char::from(mark)).collect::<String>()
        );
        assert_eq!(with(super::path, "a\r\n\u{e9}\x7f".as_bytes()), "a%0D%0A%C3%A9%7F");
        assert_eq!(with(super::breaks, "a\r\n\u{e9}\x7f".as_bytes()), "a%0D%0A\u{e9}%7F");
    }

    #[test]
    fn html_and_json() {
        assert_eq!(with(super::html, b"<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;'");
        assert_eq!(with(super::json, b"a\"\\\n\x01\x1f/"), r#"a\"\\\n\u0001\u001F/"#);
    }
}
