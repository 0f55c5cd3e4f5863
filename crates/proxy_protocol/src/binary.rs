//! Writing headers of version 2.

use super::SIGNATURE;
use std::net::{IpAddr, SocketAddr};

/// The families of addresses, and the transports.
const IPV4: u8 = 0x10;
const IPV6: u8 = 0x20;
const STREAM: u8 = 1;
const DATAGRAM: u8 = 2;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;

/// The client is connected over TLS.
const CLIENT_SSL: u8 = 1;

/// It showed a certificate on this connection.
const CLIENT_CERT_CONN: u8 = 2;

/// It showed a certificate at least once in its session.
const CLIENT_CERT_SESS: u8 = 4;

/// What a header of version 2 tells of the client's encryption.
#[derive(Clone, Debug, Default)]
pub struct Encryption {
    /// The server's name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// The application's protocol that was agreed on (ALPN).
    pub alpn: Option<Box<[u8]>>,
    /// The version of TLS, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher by OpenSSL's name.
    pub cipher: &'static str,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The certificate of the client, if it showed one.
    pub certificate: Option<Certificate>,
}

/// The certificate of a client.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    /// The common name of its subject.
    pub name: Option<String>,
    /// The number of what is wrong with it (OpenSSL's `X509_V_ERR_…`); 0 if nothing is.
    pub fault: u32,
}

/// Appends a header (version 2) about a connection from a client to a server, which tells of the client's encryption and ends
/// with a checksum; without addresses one that tells of no connection.
pub fn append_binary_header(
    addresses: Option<(SocketAddr, SocketAddr)>,
    encryption: Option<&Encryption>,
    out: &mut Vec<u8>,
) {
    append(addresses, STREAM, encryption, out);
}

/// Appends a header (version 2) about datagrams from a client to a server, which stands before the first of them.
pub fn append_datagram_header(addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    append(addresses, DATAGRAM, None, out);
}

fn append(
    addresses: Option<(SocketAddr, SocketAddr)>,
    transport: u8,
    encryption: Option<&Encryption>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    let (command, family) = match addresses {
        None => (0x20, 0),
        Some((client, server)) if client.is_ipv4() && server.is_ipv4() => (0x21, IPV4 | transport),
        Some(_) => (0x21, IPV6 | transport),
    };
    // The length follows when it is known.
    out.extend_from_slice(&[command, family, 0, 0]);
    if let Some((client, server)) = addresses {
        append_ip(client.ip(), family, out);
        append_ip(server.ip(), family, out);
        out.extend_from_slice(&client.port().to_be_bytes());
        out.extend_from_slice(&server.port().to_be_bytes());
    }
    if let Some(encryption) = encryption {
        append_encryption(encryption, out);
    }
    // The checksum is that of the header with zeros in its place.
    append_value(CRC32C, &[0; 4], out);
    let header = &mut out[start..];
    let length = u16::try_from(header.len() - super::FIXED_LENGTH).unwrap_or(u16::MAX);
    header[14..super::FIXED_LENGTH].copy_from_slice(&length.to_be_bytes());
    let sum = crc32c(header);
    let end = header.len();
    header[end - 4..].copy_from_slice(&sum.to_be_bytes());
}

/// An address; one of IPv4 among those of IPv6 is mapped (RFC 4291, section 2.5.5.2).
fn append_ip(ip: IpAddr, family: u8, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(ip) if family & IPV4 != 0 => out.extend_from_slice(&ip.octets()),
        IpAddr::V4(ip) => out.extend_from_slice(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
}

fn append_encryption(encryption: &Encryption, out: &mut Vec<u8>) {
    let Encryption { server_name, alpn, version, cipher, is_resumed, certificate } = encryption;
    if let Some(name) = server_name {
        append_value(AUTHORITY, name.as_bytes(), out);
    }
    if let Some(alpn) = alpn {
        append_value(ALPN, alpn, out);
    }
    let shown = match certificate {
        None => 0,
        Some(_) if *is_resumed => CLIENT_CERT_SESS,
        Some(_) => CLIENT_CERT_SESS | CLIENT_CERT_CONN,
    };
    // Without a certificate nothing is verified.
    let fault = certificate.as_ref().map_or(1, |certificate| certificate.fault);
    let mut content = vec![CLIENT_SSL | shown];
    content.extend_from_slice(&fault.to_be_bytes());
    append_value(SSL_VERSION, version.as_bytes(), &mut content);
    if let Some(name) = certificate.as_ref().and_then(|certificate| certificate.name.as_ref()) {
        append_value(SSL_CN, name.as_bytes(), &mut content);
    }
    append_value(SSL_CIPHER, cipher.as_bytes(), &mut content);
    append_value(SSL, &content, out);
}

/// A value of a kind. One that is too long for its place is left out.
fn append_value(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    const VALUE_MAX: usize = 1024;
    let Some(length) = u16::try_from(value.len()).ok().filter(|_| value.len() <= VALUE_MAX) else { return };
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// The checksum CRC-32C (RFC 3385). A header has some hundred bytes, so no table is worth its memory.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
    let add = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(u32::MAX, add)
}

#[cfg(test)]
mod tests {
    use super::{Certificate, Encryption, append_binary_header, append_datagram_header, crc32c};
    use crate::{parse_proxy_header, proxy_value};

    /// The values of a header about these addresses, and the addresses as it tells them.
    fn told(client: &str, server: &str, encryption: Option<&Encryption>) -> (String, Vec<u8>) {
        let addresses = Some((client.parse().unwrap(), server.parse().unwrap()));
        let mut header = b"before".to_vec();
        append_binary_header(addresses, encryption, &mut header);
        let parsed = parse_proxy_header(&header[6..]).unwrap().unwrap();
        assert_eq!(parsed.length, header.len() - 6);
        let passed = parsed.passed.unwrap();
        (format!("{} {}", passed.client, passed.server), passed.values.to_vec())
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        assert_eq!(told("192.0.2.1:1", "192.0.2.2:80", None).0, "192.0.2.1:1 192.0.2.2:80");
        assert_eq!(told("[2001:db8::1]:1", "[2001:db8::2]:80", None).0, "[2001:db8::1]:1 [2001:db8::2]:80");
        let mapped = told("[2001:db8::1]:1", "192.0.2.2:80", None).0;
        assert_eq!(mapped, "[2001:db8::1]:1 [::ffff:192.0.2.2]:80");
        let mut unknown = Vec::new();
        append_binary_header(None, None, &mut unknown);
        assert_eq!(parse_proxy_header(&unknown).unwrap().unwrap().passed, None);
    }

    /// Only the transport differs from the header of a stream (PROXY protocol, section 2.2), and so the checksum.
    #[test]
    fn headers_of_datagrams_name_their_transport() {
        for (client, family) in [("192.0.2.1:1", 0x12), ("[2001:db8::1]:1", 0x22)] {
            let addresses = Some((client.parse().unwrap(), "192.0.2.2:53".parse().unwrap()));
            let (mut header, mut of_stream) = (b"before".to_vec(), Vec::new());
            append_datagram_header(addresses, &mut header);
            append_binary_header(addresses, None, &mut of_stream);
            let header = &header[6..];
            assert_eq!(&header[12..14], [0x21, family]);
            let (start, end) = (14, header.len() - 4);
            assert_eq!(header[start..end], of_stream[start..end]);
            let mut summed = header.to_vec();
            let sum = summed.split_off(end);
            summed.extend_from_slice(&[0; 4]);
            assert_eq!(sum, crc32c(&summed).to_be_bytes());
            assert_eq!(parse_proxy_header(header).unwrap().unwrap().length, header.len());
        }
        let mut unknown = Vec::new();
        append_datagram_header(None, &mut unknown);
        assert_eq!(&unknown[12..14], [0x20, 0]);
    }

    #[test]
    fn headers_tell_of_the_encryption() {
        let certificate = Certificate { name: Some("staff".to_owned()), fault: 10 };
        let encryption = Encryption {
            server_name: Some("a.example".into()),
            alpn: Some(b"h2"[..].into()),
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            is_resumed: false,
            certificate: Some(certificate),
        };
        let values = told("192.0.2.1:1", "192.0.2.2:80", Some(&encryption)).1;
        assert_eq!(proxy_value(&values, 1), Some(&b"h2"[..]));
        assert_eq!(proxy_value(&values, 2), Some(&b"a.example"[..]));
        let ssl = proxy_value(&values, 0x20).unwrap();
        assert_eq!(ssl[..5], [7, 0, 0, 0, 10]);
        assert_eq!(proxy_value(&ssl[5..], 0x22), Some(&b"staff"[..]));
        assert_eq!(proxy_value(&ssl[5..], 0x23), Some(&b"TLS_AES_128_GCM_SHA256"[..]));
        let bare = Encryption { is_resumed: true, certificate: None, ..encryption };
        let values = told("192.0.2.1:1", "192.0.2.2:80", Some(&bare)).1;
        assert_eq!(proxy_value(&values, 0x20).unwrap()[..5], [1, 0, 0, 0, 1]);
    }

    #[test]
    fn the_checksum_is_that_of_the_header_without_it() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut header = Vec::new();
        append_binary_header(None, None, &mut header);
        let end = header.len();
        let sum = u32::from_be_bytes(header[end - 4..].try_into().unwrap());
        header[end - 4..].fill(0);
        assert_eq!(crc32c(&header), sum);
    }
}
