//! The first bytes of a connection of `stream`, looked at before the connection is passed on. They stay in the input.

use super::Opening;
use contract::FirstBytes;
use contract::policy::PrereadPolicy;
use http::Status;
use journal::Level;
use std::sync::Arc;
use std::task::{Context, Poll};
use tls::Prefix;

/// The first bytes by which a client of SSH begins (RFC 4253, section 4.2).
const SSH: &[u8] = b"SSH-";

/// The longest method of HTTP that is looked for.
const METHOD_MAX: usize = 20;

impl Opening {
    /// Begins to wait for the first bytes, if they are looked at.
    pub(super) fn await_preread(&self) {
        if let Some(policy) = self.prereads {
            self.client.timer.set(policy.preread_timeout);
        }
    }

    /// Reads until it is known what the client speaks; ready with what its bytes tell, or with the status of a
    /// connection that ends here.
    pub(super) fn poll_preread(&mut self, cx: &mut Context<'_>) -> Poll<Result<FirstBytes, Status>> {
        let Some(policy) = self.prereads else { return Poll::Ready(Ok(UNKNOWN)) };
        loop {
            let input = self.bytes.input.bytes();
            if let Some(preread) = look(&input[..input.len().min(policy.preread_buffer_size)], &policy) {
                self.choose_server(&preread);
                return Poll::Ready(Ok(preread));
            }
            if input.len() >= policy.preread_buffer_size {
                self.client.log(Level::Error, "preread buffer full while prereading client data");
                return Poll::Ready(Err(Status::BAD_REQUEST));
            }
            match self.bytes.poll_read(cx) {
                Poll::Ready(Ok(1..)) => {}
                // A client that leaves is no error.
                Poll::Ready(_) => return Poll::Ready(Err(Status::OK)),
                Poll::Pending if self.client.closes_idle() => return Poll::Ready(Err(Status::OK)),
                Poll::Pending if self.client.timer.poll(cx).is_pending() => return Poll::Pending,
                // In some protocols the server speaks first.
                Poll::Pending if policy.preread_kind => return Poll::Ready(Ok(UNKNOWN)),
                Poll::Pending => return Poll::Ready(Err(Status::OK)),
            }
        }
    }

    /// Chooses the virtual server by the name that the client asks for.
    fn choose_server(&mut self, preread: &FirstBytes) {
        let Some(hello) = preread.hello.as_ref().filter(|hello| !hello.server_name.is_empty()) else {
            return;
        };
        let name = host_name(hello);
        self.client.named = self.client.hosts().find_name(&name).map(Arc::clone);
    }
}

/// The name of the server that a client asks for, as servers are found by it.
pub(crate) fn host_name(hello: &tls::Preread) -> Vec<u8> {
    let name = hello.server_name.strip_suffix(b".").unwrap_or(&hello.server_name);
    name.to_ascii_lowercase()
}

const UNKNOWN: FirstBytes = FirstBytes { kind: "unknown", hello: None };

/// What these bytes tell; none while more of them are needed.
fn look(bytes: &[u8], policy: &PrereadPolicy) -> Option<FirstBytes> {
    match tls::Preread::read(bytes) {
        Prefix::Partial => None,
        Prefix::Hello(hello) => Some(FirstBytes { kind: "tls", hello: policy.ssl_preread.then_some(hello) }),
        Prefix::Other if policy.preread_kind => Some(FirstBytes { kind: kind(bytes)?, hello: None }),
        Prefix::Other => Some(UNKNOWN),
    }
}

/// Which protocol in clear begins so; none while more bytes are needed.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(SSH.len())];
    if SSH.starts_with(start) {
        return (start.len() == SSH.len()).then_some("ssh");
    }
    let is_method = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    let method = bytes.iter().take(METHOD_MAX).take_while(|byte| is_method(byte)).count();
    match bytes.get(method) {
        Some(b' ') if method > 0 => Some("http"),
        None if method < METHOD_MAX => None,
        _ => Some("unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::{kind, look};
    use contract::policy::PrereadPolicy;
    use std::time::Duration;

    #[test]
    fn protocols_are_known_by_how_clients_begin() {
        for (bytes, known) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some("http")),
            (b"VERSION-CONTROL /", Some("http")),
            (b"PRI * HTTP/2.0", Some("http")),
            (b"SSH-2.0-OpenSSH\r\n", Some("ssh")),
            (b"SSH", None),
            (b"SEARCH", None),
            (b"S", None),
            (b"EHLO\r\n", Some("unknown")),
            (b"\x10\x0c\x00\x04MQTT", Some("unknown")),
            (b" ", Some("unknown")),
            (b"AAAAAAAAAAAAAAAAAAAAAAAA", Some("unknown")),
        ] {
            assert_eq!(kind(bytes), known, "{bytes:?}");
        }
    }

    #[test]
    fn without_kinds_all_but_tls_is_passed_on_at_once() {
        let policy = |preread_kind| PrereadPolicy {
            ssl_preread: true,
            preread_kind,
            preread_buffer_size: 100,
            preread_timeout: Duration::from_secs(1),
        };
        assert!(look(b"", &policy(false)).is_none() && look(b"S", &policy(true)).is_none());
        assert_eq!(look(b"S", &policy(false)).unwrap().kind, "unknown");
        assert_eq!(look(&[0x80, 0x2e, 1, 3, 1], &policy(true)).unwrap().kind, "tls");
    }
}
