//! WebSockets over HTTP/2 (RFC 8441). The configuration and the upstream server see the handshake of HTTP/1 (RFC 6455,
//! section 4), which this server makes up.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand;
use contract::{Body, Exchange};
use http::{Fields, Status, base64};
use journal::Level;

/// What a server appends to the key before it makes the digest (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const KEY: &str = "sec-websocket-key";
const ACCEPT: &str = "sec-websocket-accept";

/// A handshake that is not over.
pub(super) struct Handshake {
    /// What the upstream server has to make of the key.
    accept: String,
}

impl Handshake {
    /// Adds a key to a request. None without random bytes, or without room for the key.
    pub(super) fn new(fields: &mut Fields) -> Option<Handshake> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        let key = base64::encode(&bytes);
        // The client of HTTP/2 needs no key.
        fields.set(KEY, key.as_bytes()).ok()?;
        Some(Handshake { accept: accept(&key) })
    }

    /// Judges a response.
    ///
    /// # Errors
    /// It opens the WebSocket without a correct handshake, or it is a success of another kind, which the client would take for
    /// an open WebSocket.
    pub(super) fn check(&self, exchange: &Exchange) -> Result<(), Status> {
        let response = &exchange.response;
        if response.status == Status::SWITCHING_PROTOCOLS {
            let has = |name, value: &str| {
                let mut all = response.fields.all(name);
                all.next().is_some_and(|own| own.eq_ignore_ascii_case(value.as_bytes()))
                    && all.next().is_none()
            };
            let accepts = response.fields.get(ACCEPT) == Some(self.accept.as_bytes());
            if accepts && has(ACCEPT, &self.accept) && has("upgrade", "websocket") {
                return Ok(());
            }
            exchange.log(Level::Error, "upstream opened a WebSocket with an incorrect handshake");
            return Err(Status::BAD_GATEWAY);
        }
        if is_success(response.status) {
            exchange.log(Level::Info, "client requested a WebSocket, and the location does not open one");
            return Err(Status::NOT_IMPLEMENTED);
        }
        Ok(())
    }

    /// Makes the response one of HTTP/2. Returns whether the WebSocket is open.
    pub(super) fn finish(&self, exchange: &mut Exchange, body: &Body) -> bool {
        let response = &mut exchange.response;
        let is_open = matches!(body, Body::Tunnel(_)) && response.status == Status::SWITCHING_PROTOCOLS;
        if is_open {
            response.status = Status::OK;
            for name in [ACCEPT, "upgrade", "connection"] {
                response.fields.remove(name);
            }
        } else if is_success(response.status) || response.status == Status::SWITCHING_PROTOCOLS {
            // An error page that is sent as a success.
            response.status = Status::NOT_IMPLEMENTED;
        }
        is_open
    }
}

fn is_success(status: Status) -> bool {
    (200..300).contains(&status.0)
}

/// What a server makes of a key.
fn accept(key: &str) -> String {
    let text = [key.as_bytes(), GUID].concat();
    base64::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref())
}

#[cfg(test)]
mod tests {
    use super::{Handshake, accept};
    use http::Fields;

    #[test]
    fn keys_and_what_becomes_of_them() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let mut fields = Fields::new();
        fields.push(b"Sec-WebSocket-Key", b"of the client").unwrap();
        let handshakes = [0, 1].map(|_| Handshake::new(&mut fields).unwrap());
        assert_ne!(handshakes[0].accept, handshakes[1].accept);
        let keys: Vec<_> = fields.all("sec-websocket-key").collect();
        assert_eq!((keys.len(), keys[0].len()), (1, 24));
    }
}
