//! The first message of a client, by which a virtual server is chosen.

use crate::quic::QuicFailure;
use crate::{ClientHello, Failure, Hello};

/// The longest first message that is accepted, in bytes. One with keys of a post-quantum exchange has some 1,700.
const LENGTH_MAX: usize = 16 * 1024;

/// How long the head of a message is, in bytes: its type and its length (RFC 8446, section 4).
const HEAD: usize = 4;

/// The most content of a record of TLS, in bytes.
const RECORD_MAX: usize = 16 * 1024;

/// Collects a client's first message, which may come in several packets of QUIC. The caller puts their bytes in order.
#[derive(Debug, Default)]
pub struct QuicHello {
    bytes: Vec<u8>,
}

impl QuicHello {
    /// Nothing has come.
    pub fn new() -> QuicHello {
        QuicHello::default()
    }

    /// Takes the next bytes. Gives the message once it is whole; the session is then given all of
    /// [`QuicHello::bytes`].
    ///
    /// # Errors
    /// The bytes are none of a client that speaks TLS 1.3, or too many.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<ClientHello>, QuicFailure> {
        self.bytes.extend_from_slice(bytes);
        let Some(&[kind, a, b, c]) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
        if kind != CLIENT_HELLO || length > LENGTH_MAX {
            return Err(QuicFailure::of(Failure::malformed(), Some(UNEXPECTED_MESSAGE)));
        }
        let Some(message) = self.bytes.get(..length) else { return Ok(None) };
        // The library reads a first message out of records only.
        let (mut records, mut alert) = (Vec::with_capacity(message.len() + 2 * HEAD), Vec::new());
        for part in message.chunks(RECORD_MAX) {
            let [.., high, low] = part.len().to_be_bytes();
            records.extend_from_slice(&[HANDSHAKE_RECORD, 3, 1, high, low]);
            records.extend_from_slice(part);
        }
        let read = Hello::new().read(&records, &mut alert);
        read.map_err(|failure| QuicFailure::of(failure, alert.last().copied()))
    }

    /// All that has come.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The type of the message, and that of records with messages.
const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_RECORD: u8 = 22;

/// An alert (RFC 8446, section 6.2).
const UNEXPECTED_MESSAGE: u8 = 10;
