//! Hosts with ports, as in a `Host` field or a request target (RFC 9110, section 7.2; RFC 3986, section 3.2).

use crate::hex;
use crate::words::{any_word, where_is, where_upper};
use std::net::Ipv6Addr;

/// A host and a port.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The name in lower case, without a trailing dot. An IP literal keeps its brackets. Empty if there is no host.
    pub name: Vec<u8>,
    /// The port, if there is one.
    pub port: Option<u16>,
    /// The last valid text that needed no change. Most requests of a connection name the same host.
    last: Last,
}

/// The longest text that is remembered, in bytes: a DNS name has up to 253 bytes, a port up to 6 with its colon.
const LAST_MAX: usize = 259;

/// A text that starts with a name which needs no change.
#[derive(Clone, Debug, Default)]
struct Last {
    text: Vec<u8>,
    name_length: usize,
    port: Option<u16>,
}

/// The text is not a valid host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHost;

impl Host {
    /// Parses `name`, `name:` or `name:port`. The buffers are reused.
    ///
    /// # Errors
    /// The text is not a valid host; the host is then empty.
    pub fn parse(&mut self, text: &[u8]) -> Result<(), InvalidHost> {
        self.clear();
        if *text != *self.last.text || text.is_empty() {
            let usual = usual_name(text).filter(|_| text.len() <= LAST_MAX);
            let Some(name_length) = usual else { return self.parse_unusual(text) };
            let port = parse_port(&text[name_length..])?;
            (self.last.name_length, self.last.port) = (name_length, port);
            self.last.text.clear();
            self.last.text.extend_from_slice(text);
        }
        self.name.extend_from_slice(&text[..self.last.name_length]);
        self.port = self.last.port;
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

    /// Empties the host. The buffers and the last valid text are kept.
    pub fn clear(&mut self) {
        self.name.clear();
        self.port = None;
    }

    /// Whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

/// The bytes that a host may contain without percent-encoding: unreserved and sub-delims (RFC 3986, section 2).
static HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        #[expect(clippy::cast_possible_truncation, reason = "below 128")]
        let value = byte as u8;
        table[byte] = value.is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// A registered name may contain all characters of a URI (RFC 3986, section 3.2.2). Two dots in a row are rejected: they
/// have no meaning in the DNS.
fn is_registered_name(name: &[u8]) -> bool {
    let mut before = 0;
    for (at, &byte) in name.iter().enumerate() {
        let fits = match byte {
            b'.' => before != b'.',
            b'%' => hex::pair(&name[at + 1..]).is_some(),
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

/// Parses the text after a name: empty, `:` or `:port`.
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

/// The length of a name that needs no change: in lower case, without a trailing dot, two dots in a row or
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
    fn valid_hosts() {
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
    fn the_last_text_does_not_change_the_result() {
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
    fn invalid_hosts() {
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
