//! The header by which a proxy in front tells whose connection it passes on: the PROXY protocol, versions 1 (a line of
//! text) and 2 (binary, with further values).
//!
//! Stricter than nginx where two readers could differ: an address is one of the family that was named, numbers have no
//! leading zeros, and the first byte that is invalid ends the parse.

#![forbid(unsafe_code)]

mod binary;

pub use binary::{Certificate, Encryption, append_binary_header, append_datagram_header};

use std::net::{IpAddr, SocketAddr};
use std::str::{self, FromStr};

/// The longest header of version 1, with its end of line.
const LINE_LIMIT: usize = 107;

/// The longest header of version 2: what nginx takes in front of a handshake.
const BINARY_LIMIT: usize = 4096;

/// What a header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The signature, the version and command, the family and transport, and the length of the rest.
const FIXED_LENGTH: usize = 16;

/// A header that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader<'a> {
    /// How many bytes it has.
    pub length: usize,
    /// The connection that is passed on; `None` for one of the proxy's own, or of a kind that is not known.
    pub passed: Option<PassedConnection<&'a [u8]>>,
}

/// A connection that a proxy passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedConnection<V = Box<[u8]>> {
    /// Who opened it.
    pub client: SocketAddr,
    /// The address that it was opened to.
    pub server: SocketAddr,
    /// Further values, for [`proxy_value`]; version 1 has none.
    pub values: V,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// They break the form.
    #[error("broken header")]
    Broken,
    /// The form is version 2, the version another one.
    #[error("unknown PROXY protocol version: {0}")]
    Version(u8),
    /// The header is longer than any that is taken.
    #[error("header is too large")]
    TooLarge,
}

/// Reads the header at the start of a connection; `None` until it is whole.
///
/// # Errors
/// When no further bytes could make it one.
pub fn parse_proxy_header(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyHeaderError> {
    if bytes.iter().zip(SIGNATURE).all(|(one, other)| one == other) {
        parse_binary(bytes)
    } else {
        parse_line(bytes)
    }
}

/// The value of a kind among those of a header; the first, if there are several. What is broken has none.
pub fn proxy_value(values: &[u8], kind: u8) -> Option<&[u8]> {
    let mut rest = values;
    while let [found, high, low, behind @ ..] = rest {
        let (value, next) = behind.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *found == kind {
            return Some(value);
        }
        rest = next;
    }
    None
}

fn parse_line(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyHeaderError> {
    const START: &[u8] = b"PROXY ";
    if !bytes.iter().zip(START).all(|(one, other)| one == other) {
        return Err(ProxyHeaderError::Broken);
    }
    let head = &bytes[..bytes.len().min(LINE_LIMIT)];
    let Some(end) = head.iter().position(|&byte| matches!(byte, b'\r' | b'\n')) else {
        return if bytes.len() < LINE_LIMIT { Ok(None) } else { Err(ProxyHeaderError::TooLarge) };
    };
    match head.get(end..(end + 2).min(head.len())) {
        Some(b"\r\n") => {}
        Some(b"\r") if bytes.len() < LINE_LIMIT => return Ok(None),
        _ => return Err(ProxyHeaderError::Broken),
    }
    let line = head.get(START.len()..end).ok_or(ProxyHeaderError::Broken)?;
    let length = end + 2;
    let is_unknown = line.strip_prefix(b"UNKNOWN").is_some_and(|rest| matches!(rest, [] | [b' ', ..]));
    if is_unknown {
        return Ok(Some(ProxyHeader { length, passed: None }));
    }
    let passed = passed_by_line(line).ok_or(ProxyHeaderError::Broken)?;
    Ok(Some(ProxyHeader { length, passed: Some(passed) }))
}

/// `TCP4 CLIENT SERVER PORT PORT`, or `TCP6 …`.
fn passed_by_line(line: &[u8]) -> Option<PassedConnection<&'static [u8]>> {
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let is_v4 = match words.next()? {
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    let [client, server, client_port, server_port] =
        [words.next()?, words.next()?, words.next()?, words.next()?];
    let address = |text: &str, port: &str| {
        let ip = IpAddr::from_str(text).ok().filter(|ip| ip.is_ipv4() == is_v4)?;
        Some(SocketAddr::new(ip, number(port)?))
    };
    let passed = PassedConnection {
        client: address(client, client_port)?,
        server: address(server, server_port)?,
        values: &[][..],
    };
    words.next().is_none().then_some(passed)
}

/// A port as the protocol writes it: digits, of which the first is no zero that could be left out.
fn number(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn parse_binary(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyHeaderError> {
    let Some(fixed) = bytes.first_chunk::<FIXED_LENGTH>() else { return Ok(None) };
    let [.., version_and_command, family_and_transport, high, low] = *fixed;
    if version_and_command >> 4 != 2 {
        return Err(ProxyHeaderError::Version(version_and_command >> 4));
    }
    let length = FIXED_LENGTH + usize::from(u16::from_be_bytes([high, low]));
    if length > BINARY_LIMIT {
        return Err(ProxyHeaderError::TooLarge);
    }
    let Some(content) = bytes.get(FIXED_LENGTH..length) else { return Ok(None) };
    let passed = match (version_and_command & 0xf, family_and_transport) {
        (1, 0x11) => Some(passed_v4(content).ok_or(ProxyHeaderError::Broken)?),
        (1, 0x21) => Some(passed_v6(content).ok_or(ProxyHeaderError::Broken)?),
        // The proxy's own connection, or one that is not of the Internet's streams.
        (0 | 1, _) => None,
        _ => return Err(ProxyHeaderError::Broken),
    };
    Ok(Some(ProxyHeader { length, passed }))
}

fn passed_v4(content: &[u8]) -> Option<PassedConnection<&[u8]>> {
    let (client, rest) = content.split_first_chunk::<4>()?;
    let (server, rest) = rest.split_first_chunk::<4>()?;
    with_ports(IpAddr::from(*client), IpAddr::from(*server), rest)
}

fn passed_v6(content: &[u8]) -> Option<PassedConnection<&[u8]>> {
    let (client, rest) = content.split_first_chunk::<16>()?;
    let (server, rest) = rest.split_first_chunk::<16>()?;
    with_ports(IpAddr::from(*client), IpAddr::from(*server), rest)
}

fn with_ports(client: IpAddr, server: IpAddr, rest: &[u8]) -> Option<PassedConnection<&[u8]>> {
    let (client_port, rest) = rest.split_first_chunk::<2>()?;
    let (server_port, values) = rest.split_first_chunk::<2>()?;
    Some(PassedConnection {
        client: SocketAddr::new(client, u16::from_be_bytes(*client_port)),
        server: SocketAddr::new(server, u16::from_be_bytes(*server_port)),
        values,
    })
}

/// Appends a header (version 1) about a connection from a client to a server; without addresses one that tells of none.
pub fn append_proxy_header(addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    let header = match addresses {
        Some((client, server)) => {
            let family = if client.is_ipv4() { 4 } else { 6 };
            let (from, to) = (client.port(), server.port());
            format!("PROXY TCP{family} {} {} {from} {to}\r\n", client.ip(), server.ip())
        }
        None => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(header.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{
        BINARY_LIMIT, FIXED_LENGTH, LINE_LIMIT, ProxyHeaderError, SIGNATURE, parse_proxy_header, proxy_value,
    };
    use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use std::net::SocketAddr;

    fn shown(bytes: &[u8]) -> String {
        match parse_proxy_header(bytes) {
            Ok(None) => "more".to_owned(),
            Ok(Some(header)) => {
                let passed = header.passed.map(|passed| format!("{} > {}", passed.client, passed.server));
                format!("{} {}", header.length, passed.unwrap_or_default()).trim_end().to_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family][..], &length, content].concat()
    }

    #[test]
    fn lines() {
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\nGET", "41 192.0.2.1:123 > 192.0.2.2:5678"),
            (
                "PROXY TCP6 2001:Db8::1 ::ffff:1.2.3.4 0 65535\r\n",
                "47 [2001:db8::1]:0 > [::ffff:1.2.3.4]:65535",
            ),
            ("PROXY UNKNOWN\r\n", "15"),
            ("PROXY UNKNOWN 1 2 3 4 5 6\r\n", "27"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r", "more"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678", "more"),
            ("PROX", "more"),
            ("", "more"),
        ] {
            assert_eq!(shown(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_no_line() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXYTCP4",
            "proxy TCP4 192.0.2.1 192.0.2.2 123 5678\r\n",
            "PROXY TCP5 192.0.2.1 192.0.2.2 123 5678\r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 123 5678\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678 \r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 123\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 123 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 0123 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 1\r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 1\r\n",
            "PROXY TCP4 ::1 192.0.2.2 1 1\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 1\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 1\rGET",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(shown(line.as_bytes()), "broken header", "{line:?}");
        }
    }

    #[test]
    fn a_line_ends_somewhere() {
        let line = |length: usize| format!("{:x<1$}", "PROXY UNKNOWN ", length);
        assert_eq!(shown(line(LINE_LIMIT - 1).as_bytes()), "more");
        assert_eq!(shown(line(LINE_LIMIT).as_bytes()), "header is too large");
        assert_eq!(shown(format!("{}\r\n", line(LINE_LIMIT - 2)).as_bytes()), "107");
        assert_eq!(shown(format!("{}\r\n", line(LINE_LIMIT - 1)).as_bytes()), "broken header");
    }

    #[test]
    fn binary_headers() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 123, 22, 46];
        assert_eq!(shown(&binary(0x21, 0x11, &v4)), "28 192.0.2.1:123 > 192.0.2.2:5678");
        let v6: Vec<u8> = (1..=36).collect();
        assert!(shown(&binary(0x21, 0x21, &v6)).starts_with("52 [102:304:"));
        for (command, family, content, expected) in [
            (0x20, 0x00, &b""[..], "16"),
            (0x20, 0x11, b"", "16"),
            (0x21, 0x31, b"1234", "20"),
            (0x21, 0x12, b"1234", "20"),
            (0x21, 0x41, b"1234", "20"),
            (0x21, 0x11, &v4[..11], "broken header"),
            (0x21, 0x21, &v4, "broken header"),
            (0x22, 0x11, &v4, "broken header"),
            (0x11, 0x11, &v4, "unknown PROXY protocol version: 1"),
        ] {
            assert_eq!(shown(&binary(command, family, content)), expected, "{command:x} {family:x}");
        }
        let most = vec![0; BINARY_LIMIT - FIXED_LENGTH];
        assert_eq!(shown(&binary(0x20, 0, &most)), "4096");
        let more = binary(0x20, 0, &[&most[..], b"0"].concat());
        assert_eq!(shown(&more), "header is too large");
        assert_eq!(shown(&more[..FIXED_LENGTH]), "header is too large", "nothing is waited for");
    }

    #[test]
    fn further_values() {
        let values = b"\x01\0\x02h2\x02\0\0\x01\0\x01x\x30\0\x05abcd";
        assert_eq!(proxy_value(values, 1), Some(&b"h2"[..]));
        assert_eq!(proxy_value(values, 2), Some(&b""[..]));
        assert_eq!(proxy_value(values, 3), None);
        assert_eq!(proxy_value(values, 0x30), None, "it is cut off");
        assert_eq!(proxy_value(b"\x01\0", 1), None);
    }

    proptest! {
        #[test]
        fn a_header_is_the_same_however_it_arrives(
            v1 in any::<bool>(),
            client in any::<SocketAddr>(),
            server in any::<SocketAddr>(),
            values in prop::collection::vec(any::<u8>(), 0..40),
            behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let (mut client, mut server) = (client, server);
            if client.is_ipv4() != server.is_ipv4() {
                server.set_ip(client.ip());
            }
            // The protocol does not carry the scope and the flow of an IPv6 address.
            for address in [&mut client, &mut server] {
                *address = SocketAddr::new(address.ip(), address.port());
            }
            let is_v4 = client.is_ipv4();
            let header = if v1 {
                let (from, to, family) = (client.ip(), server.ip(), if is_v4 { 4 } else { 6 });
                format!("PROXY TCP{family} {from} {to} {} {}\r\n", client.port(), server.port()).into_bytes()
            } else {
                let octets = |address: SocketAddr| match address {
                    SocketAddr::V4(address) => address.ip().octets().to_vec(),
                    SocketAddr::V6(address) => address.ip().octets().to_vec(),
                };
                let ports = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
                let content = [octets(client), octets(server), ports, values.clone()].concat();
                binary(0x21, if is_v4 { 0x11 } else { 0x21 }, &content)
            };
            for cut in 0..header.len() {
                prop_assert_eq!(parse_proxy_header(&header[..cut]), Ok(None));
            }
            let stream = [&header[..], &behind].concat();
            let parsed = parse_proxy_header(&stream).unwrap().unwrap();
            prop_assert_eq!(parsed.length, header.len());
            let passed = parsed.passed.unwrap();
            prop_assert_eq!((passed.client, passed.server), (client, server));
            prop_assert_eq!(passed.values, if v1 { &[][..] } else { &values });
        }

        #[test]
        fn nothing_changes_once_it_is_judged(
            start in prop_oneof![
                Just(&b""[..]), Just(&b"PROXY "[..]), Just(&b"PROXY TCP4 1.2.3.4 "[..]), Just(&SIGNATURE[..]),
                Just(&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..]),
            ],
            rest in prop::collection::vec(prop_oneof![any::<u8>(), Just(b' '), Just(b'\r'), Just(b'\n')], 0..200),
        ) {
            let stream = [start, &rest].concat();
            let mut judged = Ok(None);
            for end in 0..=stream.len() {
                let now = parse_proxy_header(&stream[..end]);
                if judged != Ok(None) {
                    prop_assert_eq!(now, judged);
                }
                judged = now;
            }
            if stream.len() >= BINARY_LIMIT {
                prop_assert!(judged != Ok(None));
            }
            if let Err(ProxyHeaderError::Version(version)) = judged {
                prop_assert!(version != 2);
            }
        }
    }
}
