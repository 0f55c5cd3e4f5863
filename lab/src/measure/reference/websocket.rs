//! WebSockets that send each message back (RFC 6455).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// The longest frame that is echoed.
const LIMIT_BYTES: u64 = 1 << 20;

const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The head of the response that opens a WebSocket, up to the date.
pub(super) fn head(key: &str) -> String {
    let hash = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let accept = STANDARD.encode(hash);
    format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n")
}

/// How far the input was echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echoed {
    /// Bytes of the input in frames that are complete.
    pub(super) used: usize,
    /// Whether the connection ends: after a close frame, or because the input is not what clients send.
    pub(super) is_over: bool,
}

/// Appends the echo of all frames that are complete to `out`.
pub(super) fn echo(input: &[u8], out: &mut Vec<u8>) -> Echoed {
    let mut used = 0;
    loop {
        match frame(&input[used..], out) {
            Ok(Some((length, CLOSE))) => return Echoed { used: used + length, is_over: true },
            Ok(Some((length, _))) => used += length,
            Ok(None) => return Echoed { used, is_over: false },
            Err(()) => return Echoed { used, is_over: true },
        }
    }
}

/// Echoes one frame: its length and its opcode. `None` if it is not complete. Fails if it is not masked or too long.
fn frame(input: &[u8], out: &mut Vec<u8>) -> Result<Option<(usize, u8)>, ()> {
    let [first, second, rest @ ..] = input else { return Ok(None) };
    if second & 0x80 == 0 {
        return Err(());
    }
    let (length, extended) = match second & 0x7f {
        126 => (rest.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes).into()), 2),
        127 => (rest.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)), 8),
        length => (Some(u64::from(length)), 0),
    };
    let Some(length) = length else { return Ok(None) };
    if length > LIMIT_BYTES {
        return Err(());
    }
    let Some((mask, payload)) = rest[extended..].split_first_chunk::<4>() else { return Ok(None) };
    let Some(payload) = usize::try_from(length).ok().and_then(|length| payload.get(..length)) else {
        return Ok(None);
    };
    let opcode = first & 0x0f;
    out.push(if opcode == PING { first & 0xf0 | PONG } else { *first });
    out.push(second & 0x7f);
    out.extend_from_slice(&rest[..extended]);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    Ok(Some((2 + extended + 4 + payload.len(), opcode)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::order::message_and_echo;

    #[test]
    fn messages_come_back() {
        for length in [0, 1, 125, 126, 128, 65_535, 65_536] {
            let [message, expected] = message_and_echo(length);
            for cut in [0, 1, 5, message.len() - 1] {
                let mut out = Vec::new();
                assert_eq!(echo(&message[..cut], &mut out), Echoed { used: 0, is_over: false });
                assert!(out.is_empty());
            }
            let mut out = Vec::new();
            let two = message.repeat(2);
            assert_eq!(echo(&two, &mut out), Echoed { used: two.len(), is_over: false });
            assert_eq!(out, expected.repeat(2), "{length}");
        }
    }

    #[test]
    fn pings_closes_and_frames_without_a_mask() {
        let mut out = Vec::new();
        let ping_and_close = [0x89, 0x80, 1, 2, 3, 4, 0x88, 0x80, 1, 2, 3, 4, 0x89];
        assert_eq!(echo(&ping_and_close, &mut out), Echoed { used: 12, is_over: true });
        assert_eq!(out, [0x8a, 0, 0x88, 0]);
        for wrong in [&[0x82, 0x01, b'a'][..], &[0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1]] {
            assert_eq!(echo(wrong, &mut out), Echoed { used: 0, is_over: true });
        }
    }

    #[test]
    fn the_key_of_the_rfc() {
        // RFC 6455, section 1.3.
        assert!(head("dGhlIHNhbXBsZSBub25jZQ==").contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }
}
