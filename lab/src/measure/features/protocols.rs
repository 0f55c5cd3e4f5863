//! The little of other protocols that a probe speaks.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::transcript::Transcript;
use crate::measure::engine::fetch::Connection;
use crate::measure::tls;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The content that GET /index.html brings on stream 1, where the server chooses h2 at the handshake.
pub(super) fn http2(address: SocketAddr, log: &Transcript) -> Result<Option<Vec<u8>>> {
    let mut configuration = tls::configuration()?;
    configuration.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut session = ClientConnection::new(Arc::new(configuration), ServerName::try_from("localhost")?)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    let chosen = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
    log.note(&format!("offered h2 and http/1.1, chosen: {chosen:?}"));
    if chosen.as_deref() != Some("h2") {
        return Ok(None);
    }
    let mut stream = StreamOwned::new(session, stream);
    // Indexed fields of RFC 7541's table: GET, https; the path and the authority are written out.
    let mut fields = vec![0x82, 0x87, 0x04, 11];
    fields.extend(b"/index.html");
    fields.extend([0x01, 9]);
    fields.extend(b"localhost");
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    hello.extend(frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields));
    log.sent(&hello);
    stream.write_all(&hello)?;
    let mut content = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).context("a frame")?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        ensure!(length <= 1 << 16, "a frame of {length} bytes");
        let mut payload = vec![0; usize::try_from(length)?];
        stream.read_exact(&mut payload)?;
        log.received(&[head.as_slice(), &payload].concat());
        let (kind, flags, on_stream) = (head[3], head[4], head[8]);
        if kind == SETTINGS && flags & ACK == 0 {
            stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?;
        }
        if kind == DATA && on_stream == 1 {
            content.extend(payload);
        }
        if (kind == DATA || kind == HEADERS) && on_stream == 1 && flags & END_STREAM != 0 {
            return Ok(Some(content));
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    [&[length[1], length[2], length[3], kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The versions of QUIC that are offered to a client with a version that nobody knows (RFC 9000, section 6); none
/// where nothing answers.
pub(super) fn quic_versions(address: SocketAddr, log: &Transcript) -> Result<Option<Vec<u32>>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LIMIT))?;
    // A long header, the version, two connection identifiers of eight bytes; servers ignore what is shorter than
    // 1,200 bytes.
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    packet.extend(*b"fulmar-d");
    packet.push(8);
    packet.extend(*b"fulmar-s");
    packet.resize(1200, 0);
    log.sent(&packet[..23]);
    if let Err(error) = socket.send(&packet) {
        log.note(&format!("sending: {error}"));
        return Ok(None);
    }
    let mut answer = [0; 1500];
    let Ok(count) = socket.recv(&mut answer) else {
        log.note("no datagram came back");
        return Ok(None);
    };
    log.received(&answer[..count]);
    let versions = answer[..count].get(23..).unwrap_or_default();
    ensure!(answer[0] & 0x80 != 0 && answer[1..5] == [0; 4], "this is no version negotiation");
    Ok(Some(
        versions
            .chunks_exact(4)
            .map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
            .collect(),
    ))
}

/// Sends bytes and reads as many.
pub(super) fn echoed(connection: &mut Connection, bytes: &[u8]) -> Result<Vec<u8>> {
    connection.get_mut().write_all(bytes)?;
    connection.get_mut().flush()?;
    let mut back = vec![0; bytes.len()];
    connection.read_exact(&mut back)?;
    Ok(back)
}
