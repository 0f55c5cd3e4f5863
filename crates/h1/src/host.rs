//! Hosts with ports, as in a `Host` field and in a target (RFC 9110, section 7.2; RFC 3986, section 3.2).

use http::words::{any_word, where_is, where_upper};
use std::net::Ipv6Addr;

use crate::bytes::{HOST_BYTES, hex_pair};

/// A host and a port.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The name in lower case, without a dot at its end; an IP literal keeps its brackets. Empty if there
    /// is no host.
    pub name: Vec<u8>,
    /// The port, if one is given.
    pub port: Option<u16>,
    /// What was read before: most requests ask for the same host as the one before.
    known: Known,
}

/// The longest text that is remembered, in bytes; a name has up to 253.
const KNOWN_MAX: usize = 259;

/// A text that stands for a host as it is.
#[derive(Clone, Debug, Default)]
struct Known {
    text: Vec<u8>,
    name_length: usize,
    port: Option<u16>,
}

/// The text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHost;

impl Host {
    /// Reads `name`, `name:` or `name:port` and keeps the memory.
    pub fn parse(&mut self, text: &[u8]) -> Result<(), InvalidHost> {
        self.clear();
        if *text != *self.known.text || text.is_empty() {
            let usual = usual_name(text).filter(|_| text.len() <= KNOWN_MAX);
            let Some(name_length) = usual else { return self.parse_unusual(text) };
            let port = parse_port(&text[name_length..])?;
            (self.known.name_length, self.known.port) = (name_length, port);
            self.known.text.clear();
            self.known.text.extend_from_slice(text);
        }
        self.name.extend_from_slice(&text[..self.known.name_length]);
        self.port = self.known.port;
        Ok(())
    }

    fn parse_unusual(&mut self, text: &[u8]) -> Result<(), InvalidHost> {
        let name_length = match text {
            [b'[', ..] => 1 + text.iter().position(|&byte| byte == b']').ok_or(InvalidHost)?,
            _ => text.iter().position(|&byte| byte == b':').unwrap_or(text.len()),
        };
        let (name, port) = text.split_at(name_length);
        let valid = match name {
            [b'[', literal @ .., b']'] => is_ip_literal(literal),
            _ => is_registered_name(name),
        };
        let name = name.strip_suffix(b".").unwrap_or(name);
        if !valid || name.is_empty() {
            return Err(InvalidHost);
        }
        self.port = parse_port(port)?;
        self.name.extend_from_slice(name);
        self.name.make_ascii_lowercase();
        Ok(())
    }

    /// Makes it no host. The memory stays, and so does what is known of the text that was read before.
    pub fn clear(&mut self) {
        self.name.clear();
        self.port = None;
    }

    /// Whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

/// A registered name may have any characters of a URI; two dots in a row have no meaning in the DNS.
fn is_registered_name(name: &[u8]) -> bool {
    let mut before = 0;
    for (at, &byte) in name.iter().enumerate() {
        let fits = match byte {
            b'.' => before != b'.',
            b'%' => hex_pair(&name[at + 1..]).is_some(),
            byte => HOST_BYTES[usize::from(byte)],
        };
        if !fits {
            return false;
        }
        before = byte;
    }
    true
}

fn is_ip_literal(literal: &[u8]) -> bool {
    match literal {
        [b'v' | b'V', future @ ..] => {
            let Some(dot) = future.iter().position(|&byte| byte == b'.') else {
                return false;
            };
            let (version, address) = (&future[..dot], &future[dot + 1..]);
            !version.is_empty()
                && version.iter().all(u8::is_ascii_hexdigit)
                && !address.is_empty()
                && address.iter().all(|&byte| byte == b':' || HOST_BYTES[usize::from(byte)])
        }
        _ => std::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    }
}

/// What stands behind a name: nothing, or a colon and maybe a number.
fn parse_port(port: &[u8]) -> Result<Option<u16>, InvalidHost> {
    let digits = match port {
        [] | [b':'] => return Ok(None),
        [b':', digits @ ..] => digits,
        _ => return Err(InvalidHost),
    };
    let number = digits.iter().try_fold(0u16, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.map(Some).ok_or(InvalidHost)
}

/// The length of a name that stands as it is: in lower case, without two dots in a row or one at its end, and without
/// percent-encoding.
fn usual_name(text: &[u8]) -> Option<usize> {
    let length = text.iter().position(|&byte| !HOST_BYTES[usize::from(byte)]).unwrap_or(text.len());
    let name = &text[..length];
    let changes = |word: u64| {
        let dots = where_is(word, b'.');
        (dots & (dots << 8)) | where_upper(word) != 0
    };
    let is_whole = matches!(text.get(length), None | Some(b':'));
    (is_whole && !name.is_empty() && !name.ends_with(b".") && !any_word(name, changes)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::{Host, InvalidHost};

    fn parse(text: &str) -> Result<(String, Option<u16>), InvalidHost> {
        let mut host = Host::default();
        host.parse(text.as_bytes())?;
        Ok((String::from_utf8(host.name).unwrap(), host.port))
    }

    #[test]
    fn hosts() {
        for (text, name, port) in [
            ("l", "l", None),
            ("AbC-d.Ru:88", "abc-d.ru", Some(88)),
            ("a.xyz:", "a.xyz", None),
            ("a.xyz.", "a.xyz", None),
            ("a.xyz.:0", "a.xyz", Some(0)),
            (".x", ".x", None),
            ("under_score", "under_score", None),
            ("a,b", "a,b", None),
            ("a%20b", "a%20b", None),
            ("123.40.56.78:65535", "123.40.56.78", Some(65535)),
            ("[ABCD::EF98:0:7654:321]:80", "[abcd::ef98:0:7654:321]", Some(80)),
            ("[::ffff:12.30.67.89]", "[::ffff:12.30.67.89]", None),
            ("[v1F.!$&'()*+,;=-._~aZ:]", "[v1f.!$&'()*+,;=-._~az:]", None),
        ] {
            assert_eq!(parse(text), Ok((name.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn what_was_read_before_makes_no_difference() {
        let long = "a".repeat(300);
        let texts =
            ["a", "b:1", "", "a", "a:", "B", "b", "b:1", "b:x", "b:1", "[::1]:1", ".", "b", &long, "b."];
        let mut host = Host::default();
        for text in
            texts.iter().flat_map(|first| texts.iter().flat_map(move |second| [first, second, second]))
        {
            let result = host.parse(text.as_bytes());
            let read = result.map(|()| (String::from_utf8(host.name.clone()).unwrap(), host.port));
            assert_eq!(read, parse(text), "{text:?}");
        }
    }

    #[test]
    fn no_hosts() {
        for text in [
            "",
            ".",
            ":80",
            "a b",
            "a, b",
            "user@h",
            "a/b",
            "a\\b",
            "h\u{2}",
            "h\u{e9}",
            "..a",
            "a..b",
            "a..",
            "a..:1",
            "a:1.2",
            "a:98777",
            "a:65536",
            "a:9000:80",
            "a:x",
            "a:-1",
            "a:+1",
            "a%zz",
            "a%4",
            "a#b",
            "a?b",
            "a\"b",
            "[",
            "[]",
            "[::1",
            "::1",
            "x[::1]",
            "[::1]x",
            "[::1].",
            "[::1].:98",
            "[ab..cd::ef]",
            "[zz]",
            "[::1%25eth0]",
            "[1.2.3.4]",
            "[v.a]",
            "[v1.]",
            "[v1]",
            "[vg.a]",
            "[v1.a/b]",
        ] {
            assert_eq!(parse(text), Err(InvalidHost), "{text}");
        }
    }

    #[test]
    fn a_failed_parse_leaves_no_host() {
        let mut host = Host::default();
        host.parse(b"a:80").unwrap();
        host.parse(b"b:x").unwrap_err();
        assert!(host.is_empty() && host.port.is_none());
    }
}
