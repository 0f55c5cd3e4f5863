//! One end of a connection.

use super::{PacketKey, QuicKeys};
use crate::noted::Noted;
use crate::session::Client;
use crate::{ClientPolicy, Failure, Negotiated, ServerPolicy};
use rustls::quic::{ClientConnection, Connection, KeyChange, Secrets, ServerConnection, Version};
use std::fmt;
use std::sync::Arc;

/// The handshake of one connection, and the keys that come of it.
pub struct QuicSession {
    connection: Connection,
    /// What the library does not report about the handshake.
    noted: Noted,
    /// How the client is checked, if it is.
    client: Option<Box<Client>>,
    /// What the next keys are made of.
    next: Option<Secrets>,
}

/// The peer, or the library, broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct QuicFailure {
    /// Why.
    pub failure: Failure,
    /// The alert for the peer, which QUIC sends as an error code (RFC 9001, section 4.8); `None` if the peer broke the rules
    /// of QUIC.
    pub alert: Option<u8>,
}

impl QuicFailure {
    pub(super) fn of(failure: Failure, alert: Option<u8>) -> QuicFailure {
        QuicFailure { failure, alert }
    }
}

impl QuicSession {
    /// A server's session under a policy of [`ServerPolicy::for_quic`], with our transport parameters.
    ///
    /// # Errors
    /// The policy does not allow TLS 1.3.
    pub fn accept(policy: &ServerPolicy, parameters: Vec<u8>) -> Result<QuicSession, Failure> {
        let connection = ServerConnection::new(Arc::clone(&policy.config), Version::V1, parameters);
        let connection = connection.map_err(|error| Failure::of(&error))?;
        Ok(QuicSession::of(Connection::Server(connection), Client::of(policy)))
    }

    /// A client's session with the server of this name, with our transport parameters. Sessions are resumed with the same
    /// peer only.
    ///
    /// # Errors
    /// The name cannot be verified, or the policy does not allow TLS 1.3.
    pub fn connect(
        policy: &ClientPolicy,
        name: &str,
        peer: &str,
        parameters: Vec<u8>,
    ) -> Result<QuicSession, Failure> {
        let (config, name) = (policy.config(peer), policy.name(name)?);
        let connection = ClientConnection::new(config, Version::V1, name, parameters);
        let connection = connection.map_err(|error| Failure::of(&error))?;
        Ok(QuicSession::of(Connection::Client(connection), None))
    }

    fn of(connection: Connection, client: Option<Box<Client>>) -> QuicSession {
        QuicSession { connection, noted: Noted::default(), client, next: None }
    }

    /// Reads messages of the handshake in their order, of the packets of one kind.
    ///
    /// # Errors
    /// The peer broke the protocol, or sent a certificate that is rejected.
    pub fn read(&mut self, messages: &[u8]) -> Result<(), QuicFailure> {
        self.noted.begin();
        let read = self.connection.read_hs(messages);
        self.noted.update();
        let alert = self.connection.alert().map(u8::from);
        read.map_err(|error| QuicFailure::of(Failure::of(&error), alert))
    }

    /// Appends messages for the peer. With keys, further messages are sent in packets of the next kind, by these keys: first
    /// those of the handshake, then those of content. To be called until nothing is appended and there are no keys.
    pub fn write(&mut self, messages: &mut Vec<u8>) -> Option<QuicKeys> {
        self.noted.begin();
        let change = self.connection.write_hs(messages);
        self.noted.update();
        match change? {
            KeyChange::Handshake { keys } => Some(QuicKeys::of(keys)),
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                Some(QuicKeys::of(keys))
            }
        }
    }

    /// The next keys of content, ours and the peer's (RFC 9001, section 6). The keys of heads stay the same.
    pub fn next_keys(&mut self) -> Option<(PacketKey, PacketKey)> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some((PacketKey::of(keys.local), PacketKey::of(keys.remote)))
    }

    /// The transport parameters of the peer, once they have come.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.connection.quic_transport_parameters()
    }

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The name that the client asked for.
    pub fn server_name(&self) -> Option<&str> {
        match &self.connection {
            Connection::Server(server) => server.server_name(),
            Connection::Client(_) => None,
        }
    }

    /// What was agreed on; to be asked once the handshake is over.
    pub fn negotiated(&self) -> Negotiated {
        Negotiated::of(&self.connection, &self.noted, self.client.as_deref())
    }

    /// Fills `output` with bytes that both ends can derive from their secrets (RFC 8446, section 7.5); `false` if they are not
    /// known yet, or are too many.
    pub fn export(&self, output: &mut [u8], label: &[u8], context: &[u8]) -> bool {
        self.connection.export_keying_material(output, label, Some(context)).is_ok()
    }
}

impl fmt::Debug for QuicSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicSession").field("is_handshaking", &self.is_handshaking()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{QuicFailure, QuicKeys, QuicSession};
    use crate::testing::server;
    use crate::{
        ClientPolicy, ClientSettings, InitialSecrets, QuicHello, ResetKey, SelfSigned, ServerPolicy, TokenKey,
    };

    fn policy() -> ServerPolicy {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        server(&(made.certificate, made.key), true, true)
    }

    fn client(protocols: &[&[u8]]) -> QuicSession {
        let settings = ClientSettings {
            pair: None,
            tls12: true,
            tls13: true,
            ciphers: "DEFAULT",
            suites: "",
            curves: "auto",
            tells_name: true,
            trust: None,
            resumes: true,
            protocols,
        };
        let policy = ClientPolicy::new(&settings).unwrap();
        QuicSession::connect(&policy, "a.example", "peer", b"client".to_vec()).unwrap()
    }

    /// What a side sends in one kind of packets, and the keys of the next.
    fn sent(session: &mut QuicSession) -> Vec<(Vec<u8>, Option<QuicKeys>)> {
        let mut flights = Vec::new();
        loop {
            let mut messages = Vec::new();
            let keys = session.write(&mut messages);
            if messages.is_empty() && keys.is_none() {
                return flights;
            }
            flights.push((messages, keys));
        }
    }

    fn shake(client: &mut QuicSession, server: &mut QuicSession) -> Result<[Vec<QuicKeys>; 2], QuicFailure> {
        let mut keys = [Vec::new(), Vec::new()];
        loop {
            let (from_client, mut is_idle) = (sent(client), true);
            for (messages, change) in from_client {
                keys[0].extend(change);
                server.read(&messages)?;
                is_idle = false;
            }
            for (messages, change) in sent(server) {
                keys[1].extend(change);
                client.read(&messages)?;
                is_idle = false;
            }
            if is_idle {
                return Ok(keys);
            }
        }
    }

    #[test]
    fn both_ends_get_the_same_keys() {
        let policy = policy().for_quic(&[b"h3"]);
        let mut server = QuicSession::accept(&policy, b"server".to_vec()).unwrap();
        let mut client = client(&[b"h3"]);
        assert!(!client.export(&mut [0; 16], b"label", b""));
        let [of_client, of_server] = shake(&mut client, &mut server).unwrap();
        assert!(!client.is_handshaking() && !server.is_handshaking());
        assert_eq!(
            (server.peer_parameters(), client.peer_parameters()),
            (Some(&b"client"[..]), Some(&b"server"[..]))
        );
        assert_eq!((server.server_name(), client.server_name()), (Some("a.example"), None));
        let negotiated = server.negotiated();
        assert_eq!((negotiated.protocol, negotiated.alpn.as_deref()), ("TLSv1.3", Some(&b"h3"[..])));
        assert!(!negotiated.signature_algorithm.is_empty(), "who signed is noted");

        // Those of the handshake, and those of content.
        assert_eq!((of_client.len(), of_server.len()), (2, 2));
        for (one, other) in of_client.iter().zip(&of_server) {
            let mut packet = *b"content and room for a tag......";
            one.local.packet.encrypt(7, b"head", &mut packet).unwrap();
            let length = other.remote.packet.decrypt(7, b"head", &mut packet).unwrap();
            assert_eq!(&packet[..length], &b"content and room for a tag......"[..length]);
        }
        let (ours, theirs) = (client.next_keys().unwrap(), server.next_keys().unwrap());
        let mut packet = [1; 40];
        ours.0.encrypt(8, b"", &mut packet).unwrap();
        assert!(
            of_server[1].remote.packet.decrypt(8, b"", &mut packet.clone()).is_err(),
            "the keys are others"
        );
        assert_eq!(theirs.1.decrypt(8, b"", &mut packet), Ok(24));

        let mut exported = [[0; 16]; 2];
        assert!(client.export(&mut exported[0], b"label", b"context"));
        assert!(server.export(&mut exported[1], b"label", b"context"));
        assert_eq!(exported[0], exported[1]);
    }

    /// A library of QUIC takes nothing else.
    #[test]
    fn threads_may_share_them() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<QuicSession>();
        is_shared::<QuicKeys>();
        is_shared::<InitialSecrets>();
        is_shared::<TokenKey>();
        is_shared::<ResetKey>();
    }

    #[test]
    fn a_protocol_has_to_be_agreed_on() {
        let mut server = QuicSession::accept(&policy().for_quic(&[b"h3"]), Vec::new()).unwrap();
        let failure = shake(&mut client(&[b"hq-interop"]), &mut server).unwrap_err();
        // `no_application_protocol`
        assert_eq!(failure.alert, Some(120));
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let old = crate::testing::server(&(made.certificate, made.key), true, false);
        assert!(QuicSession::accept(&old.for_quic(&[b"h3"]), Vec::new()).is_err(), "TLS 1.2");
    }

    #[test]
    fn a_hello_names_the_server_however_it_is_cut() {
        let messages = sent(&mut client(&[b"h3"])).remove(0).0;
        for step in [1, 7, 1000, 5000] {
            let (mut hello, mut found) = (QuicHello::new(), None);
            for part in messages.chunks(step) {
                assert_eq!(found, None);
                found = hello.read(part).unwrap();
            }
            let found = found.unwrap();
            assert_eq!(found.server_name.as_deref(), Some("a.example"));
            assert_eq!(found.alpn, [Box::from(&b"h3"[..])]);
            assert_eq!(hello.bytes(), messages);
        }
        for bytes in [&[2, 0, 0, 4][..], &[1, 1, 0, 0], &[1, 0, 0, 2, 3, 3]] {
            let failure = QuicHello::new().read(bytes).unwrap_err();
            assert!(failure.alert.is_some(), "{failure:?}");
        }
    }
}
