//! The first message of a client, by which a virtual server is chosen.

use crate::{Failure, Offered};
use rustls::server::Acceptor;

/// Reads a client's first message (RFC 8446, section 4.1.2). At most 64 KB of it are kept.
pub struct Hello {
    acceptor: Acceptor,
    /// How many bytes it was given.
    seen: usize,
}

/// What a client's first message asks for, by which the server chooses a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The name of a server, in lower case (RFC 6066, section 3).
    pub server_name: Option<String>,
    /// The application protocols that the client speaks, the preferred one first (ALPN, RFC 7301).
    pub alpn: Vec<Box<[u8]>>,
    /// Ciphers, groups and signature schemes.
    pub offered: Offered,
}

/// Why the server ends a handshake that it has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The name is not served (`unrecognized_name`, RFC 6066, section 3).
    UnknownName,
    /// The server has no certificate that it can use (`internal_error`, RFC 8446, section 6.2).
    NoCertificate,
}

impl Rejection {
    /// The alert for the client.
    pub fn alert(self) -> [u8; 7] {
        let description = match self {
            Rejection::UnknownName => 112,
            Rejection::NoCertificate => 80,
        };
        [21, 3, 3, 0, 2, 2, description]
    }
}

impl Hello {
    /// Nothing was read.
    pub fn new() -> Hello {
        Hello { acceptor: Acceptor::default(), seen: 0 }
    }

    /// Reads all that the client has sent so far. Gives the message once it is whole.
    ///
    /// # Errors
    /// The bytes are none of a client that speaks TLS 1.2 or 1.3. The alert that tells so is added to `output`.
    pub fn read(&mut self, incoming: &[u8], output: &mut Vec<u8>) -> Result<Option<ClientHello>, Failure> {
        let mut fresh = incoming.get(self.seen..).unwrap_or_default();
        loop {
            let count = self.acceptor.read_tls(&mut fresh).map_err(|_| Failure::malformed())?;
            self.seen += count;
            match self.acceptor.accept() {
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let name = hello.server_name().map(|name| name.trim_end_matches('.'));
                    return Ok(Some(ClientHello {
                        server_name: name.map(str::to_ascii_lowercase),
                        alpn: hello.alpn().into_iter().flatten().map(Box::from).collect(),
                        offered: Offered::of(&hello),
                    }));
                }
                Ok(None) if fresh.is_empty() => return Ok(None),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    // A vector takes whatever is written.
                    drop(alert.write_all(output));
                    return Err(Failure::of(&error));
                }
            }
        }
    }
}

impl Default for Hello {
    fn default() -> Hello {
        Hello::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hello_is_refused_with_an_alert() {
        for bytes in [&[22, 3, 1, 0, 4, 2, 0, 0, 0][..], &[0x80, 0x2e, 1, 3, 1, 0, 0], &[22, 9, 9, 0, 1, 1]] {
            let mut output = Vec::new();
            assert!(Hello::new().read(bytes, &mut output).is_err(), "{bytes:?}");
        }
        let mut output = Vec::new();
        assert_eq!(Hello::new().read(&[22, 3, 1], &mut output), Ok(None));
    }
}
