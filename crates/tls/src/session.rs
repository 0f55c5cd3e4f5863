//! A connection after its first message: keys and no buffers.

use crate::noted::Noted;
use crate::peer::scheme_name;
use crate::verifier::{Refused, Trust};
use crate::{ClientPolicy, OcspQuestion, OcspScope, PeerCertificate, ServerPolicy, ciphers};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, ReadEarlyData, UnbufferedStatus, WriteTraffic,
};
use rustls::{
    CertificateError, CommonState, Error, HandshakeKind, NamedGroup, ProtocolVersion, SignatureScheme,
};
use std::sync::Arc;
use thiserror::Error;

/// One end of an encrypted connection.
pub struct Session {
    connection: Connection,
    /// Whether the session has ended: bytes that arrive later are ignored.
    is_over: bool,
    /// Whether our side has ended; the peer's may go on.
    is_closed: bool,
    /// What the library does not report about the handshake.
    noted: Noted,
    is_established: bool,
    /// Whether the client sent content before the handshake was over.
    had_early_data: bool,
    /// How the client is checked, if it is.
    client: Option<Box<Client>>,
}

/// A client that is asked for a certificate.
pub(crate) struct Client {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
    /// About which of its certificates responders are asked.
    scope: Option<OcspScope>,
}

enum Connection {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl Connection {
    fn common(&self) -> &CommonState {
        match self {
            Connection::Server(server) => server,
            Connection::Client(client) => client,
        }
    }
}

/// What came of a look at the bytes that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// How many bytes at the front are used up.
    pub consumed: usize,
    /// Whether content may be sent: the handshake is over, or there is early data to be answered.
    pub established: bool,
    /// Whether content came that was sent before the handshake was over.
    early: bool,
    /// Whether the peer said that it will send no more (`close_notify`).
    pub ended: bool,
}

/// What client and server agreed on. The default is that nothing is agreed on yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// The version: `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher by OpenSSL's name.
    pub cipher: &'static str,
    /// The group of the key exchange by OpenSSL's name; empty where none took place.
    pub curve: &'static str,
    /// The application's protocol, where one was agreed on (RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The identifier of the session; `None` if it cannot be resumed.
    pub session: Option<[u8; 32]>,
    /// The scheme that this end signed the handshake by (RFC 8446, section 4.2.3); empty if it did not.
    pub signature_algorithm: &'static str,
    /// The certificate of the client, if it was asked for one and showed it.
    pub client: Option<Box<PeerCertificate>>,
    /// What responders are to be asked about that certificate, if nothing else is wrong with it.
    pub questions: Vec<OcspQuestion>,
}

/// The peer, or the library, broke off.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Failure {
    reason: String,
    /// Whether the fault is on our side.
    pub is_ours: bool,
    /// Whether the peer's certificate was rejected. The text then says why in nginx's words: `certificate verify
    /// error: (10:certificate has expired)`.
    pub is_certificate: bool,
}

/// What is to be done as soon as the state allows it.
enum Intent<'a> {
    Read,
    Write(&'a [u8]),
    Close,
}

impl Session {
    /// A session that has read nothing.
    ///
    /// # Errors
    /// The policy contradicts itself.
    pub fn new(policy: &ServerPolicy) -> Result<Session, Failure> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&policy.config));
        let connection = connection.map_err(|error| Failure::of(&error))?;
        Ok(Session::of(Connection::Server(connection), Client::of(policy)))
    }

    fn of(connection: Connection, client: Option<Box<Client>>) -> Session {
        let noted = Noted::default();
        let (is_over, is_closed, is_established, had_early_data) = (false, false, false, false);
        Session { connection, is_over, is_closed, noted, is_established, had_early_data, client }
    }

    /// A client's session with the server of this name. The first call of [`process`](Self::process) gives its first
    /// message. Sessions are resumed with the same peer only, whatever it is named by.
    ///
    /// # Errors
    /// The name cannot be verified, or the policy contradicts itself.
    pub fn connect(policy: &ClientPolicy, name: &str, peer: &str) -> Result<Session, Failure> {
        let connection = UnbufferedClientConnection::new(policy.config(peer), policy.name(name)?);
        let connection = connection.map_err(|error| Failure::of(&error))?;
        Ok(Session::of(Connection::Client(connection), None))
    }

    /// Looks at the bytes that arrived and were not used up yet. Records to send are added to `output`, content to
    /// `content`. What is left over is the start of a record.
    ///
    /// # Errors
    /// The peer broke the protocol, or sent an alert. An alert for it is added to `output`.
    pub fn process(
        &mut self,
        incoming: &mut [u8],
        output: &mut Vec<u8>,
        content: &mut Vec<u8>,
    ) -> Result<Processed, Failure> {
        self.drive(incoming, output, content, Intent::Read)
    }

    /// As [`process`](Self::process), and then encrypts `plain` into records in `output`.
    pub fn encrypt(
        &mut self,
        incoming: &mut [u8],
        plain: &[u8],
        (output, content): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<Processed, Failure> {
        self.drive(incoming, output, content, Intent::Write(plain))
    }

    /// As [`process`](Self::process), and then says that nothing more is sent (`close_notify`). What the peer still sends
    /// can be read, if the session was established.
    pub fn close(
        &mut self,
        incoming: &mut [u8],
        output: &mut Vec<u8>,
        content: &mut Vec<u8>,
    ) -> Result<Processed, Failure> {
        self.drive(incoming, output, content, Intent::Close)
    }

    /// Whether the handshake is not over, although content came from the client. It may be a replay.
    pub fn is_early(&self) -> bool {
        self.had_early_data && self.connection.common().is_handshaking()
    }

    /// What was agreed on; to be asked once the session is established.
    pub fn negotiated(&self) -> Negotiated {
        Negotiated::of(self.connection.common(), &self.noted, self.client.as_deref())
    }

    fn drive(
        &mut self,
        incoming: &mut [u8],
        output: &mut Vec<u8>,
        content: &mut Vec<u8>,
        intent: Intent<'_>,
    ) -> Result<Processed, Failure> {
        if self.is_over {
            return Ok(Processed { consumed: incoming.len(), ended: true, ..Processed::default() });
        }
        let intent = if self.is_closed { Intent::Read } else { intent };
        if let Intent::Close = intent {
            (self.is_closed, self.is_over) = (true, !self.is_established);
        }
        // With early data the session is established before the handshake is over.
        let is_handshake = !self.is_established || self.connection.common().is_handshaking();
        if is_handshake {
            self.noted.begin();
        }
        let mut result = match &mut self.connection {
            Connection::Server(server) => drive(server, incoming, (output, content), &intent),
            Connection::Client(client) => drive(client, incoming, (output, content), &intent),
        };
        self.is_over |= result.is_err();
        if let Ok(processed) = &mut result {
            self.had_early_data |= processed.early;
            // The library lets a server write before it knows the client.
            let is_waiting = self.connection.common().is_handshaking() && !self.had_early_data;
            processed.established &= !is_waiting;
        }
        if is_handshake {
            self.noted.update();
            self.is_established |= result.as_ref().is_ok_and(|processed| processed.established);
        }
        result
    }
}

impl Negotiated {
    pub(crate) fn of(connection: &CommonState, noted: &Noted, client: Option<&Client>) -> Negotiated {
        let suite = connection.negotiated_cipher_suite();
        let group = connection.negotiated_key_exchange_group();
        let client = client.and_then(|client| client.certificate(connection, noted.peer));
        let (client, questions) =
            client.map_or((None, Vec::new()), |(client, questions)| (Some(client), questions));
        Negotiated {
            protocol: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            cipher: suite.map_or("", |suite| ciphers::name(suite.suite())),
            curve: match group.map(|group| group.name()) {
                Some(NamedGroup::X25519) => "X25519",
                Some(NamedGroup::secp256r1) => "prime256v1",
                Some(NamedGroup::secp384r1) => "secp384r1",
                Some(NamedGroup::X25519MLKEM768) => "X25519MLKEM768",
                _ => "",
            },
            alpn: connection.alpn_protocol().map(Box::from),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            client,
            questions,
            session: noted.session,
            signature_algorithm: noted.own.map_or("", scheme_name),
        }
    }
}

impl Client {
    /// The client of a server, if the policy asks for certificates.
    pub(crate) fn of(policy: &ServerPolicy) -> Option<Box<Client>> {
        policy.clients.clone().map(|trust| {
            let algorithms = policy.config.crypto_provider().signature_verification_algorithms;
            let scope = policy.status_check.as_ref().map(|check| check.settings().scope);
            Box::new(Client { trust, algorithms, scope })
        })
    }

    /// Judges the certificate that the client showed, now or in the session that it resumed. Returns it with the questions
    /// that are left.
    fn certificate(
        &self,
        connection: &CommonState,
        scheme: Option<SignatureScheme>,
    ) -> Option<(Box<PeerCertificate>, Vec<OcspQuestion>)> {
        let (own, sent) = connection.peer_certificates()?.split_first()?;
        let (fault, questions) = match self.trust.check_client(own, sent, &self.algorithms, self.scope) {
            Ok(questions) => (None, questions),
            Err(fault) => (Some(fault), Vec::new()),
        };
        Some((Box::new(PeerCertificate { der: own.as_ref().into(), fault, scheme }), questions))
    }
}

/// A connection of the library, of either side.
trait Records {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn wants_write(&self) -> bool;

    /// Adds data that came before the handshake was over to the content. A client gets none.
    fn read_early(early: ReadEarlyData<'_, '_, Self::Data>, content: &mut Vec<u8>) -> Result<(), Error>;
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }

    fn read_early(mut early: ReadEarlyData<'_, '_, Self::Data>, content: &mut Vec<u8>) -> Result<(), Error> {
        while let Some(record) = early.next_record() {
            content.extend_from_slice(record?.payload);
        }
        Ok(())
    }
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }

    fn read_early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }
}

fn drive<C: Records>(
    connection: &mut C,
    incoming: &mut [u8],
    (output, content): (&mut Vec<u8>, &mut Vec<u8>),
    intent: &Intent<'_>,
) -> Result<Processed, Failure> {
    let mut processed = Processed::default();
    loop {
        let UnbufferedStatus { discard, state } = connection.process(&mut incoming[processed.consumed..]);
        let is_over = match state {
            Ok(ConnectionState::ReadEarlyData(early)) => {
                C::read_early(early, content).map_err(|error| Failure::of(&error))?;
                processed.early = true;
                false
            }
            Ok(state) => step(state, &mut processed, (output, content), intent)?,
            Err(error) => {
                alert(connection, &mut incoming[processed.consumed + discard..], output);
                return Err(Failure::of(&error));
            }
        };
        processed.consumed += discard;
        if is_over {
            return Ok(processed);
        }
    }
}

/// Adds what an error left to be said: the alert, and messages before it.
fn alert(connection: &mut impl Records, incoming: &mut [u8], output: &mut Vec<u8>) {
    // Asked for more than it has to say, the library would look at the faulty bytes again.
    while connection.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(mut data)) = connection.process(incoming).state else {
            return;
        };
        // If the alert cannot be sent, that is not another error.
        drop(append(output, |room| data.encode(room).map_err(encode_error)));
    }
}

/// Does what a state asks for; tells whether nothing more can be done with the bytes that are there.
fn step<Data>(
    state: ConnectionState<'_, '_, Data>,
    processed: &mut Processed,
    (output, content): (&mut Vec<u8>, &mut Vec<u8>),
    intent: &Intent<'_>,
) -> Result<bool, Failure> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                content.extend_from_slice(record.map_err(|error| Failure::of(&error))?.payload);
            }
            Ok(false)
        }
        ConnectionState::EncodeTlsData(mut data) => {
            append(output, |room| data.encode(room).map_err(encode_error))?;
            Ok(false)
        }
        ConnectionState::TransmitTlsData(data) => {
            // What is in the output leaves in its order, whenever that is.
            data.done();
            Ok(false)
        }
        ConnectionState::PeerClosed => {
            processed.ended = true;
            Ok(false)
        }
        ConnectionState::Closed => {
            processed.ended = true;
            Ok(true)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            processed.established = true;
            write(&mut traffic, intent, output)?;
            Ok(true)
        }
        _ => Ok(true),
    }
}

fn write<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    intent: &Intent<'_>,
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    match intent {
        Intent::Read => Ok(()),
        Intent::Write(plain) => append(output, |room| traffic.encrypt(plain, room).map_err(encrypt_error)),
        Intent::Close => append(output, |room| traffic.queue_close_notify(room).map_err(encrypt_error)),
    }
}

/// Appends what a function writes that tells how much room it needs.
fn append(
    output: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Failure> {
    let start = output.len();
    let result = match write(&mut []) {
        Err(Some(needed)) => {
            output.resize(start + needed, 0);
            write(&mut output[start..])
        }
        other => other,
    };
    let written = result.as_ref().map_or(0, |written| *written);
    output.truncate(start + written);
    result.map(|_| ()).map_err(|_| Failure::new("the keys of the connection are used up", true))
}

fn encode_error(error: EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(needed) => Some(needed.required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

fn encrypt_error(error: EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(needed) => Some(needed.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

impl Failure {
    fn new(reason: &str, is_ours: bool) -> Failure {
        Failure { reason: reason.to_owned(), is_ours, is_certificate: false }
    }

    pub(crate) fn malformed() -> Failure {
        Failure::new("the client's first message is malformed", false)
    }

    /// Something that is missing on our side.
    pub(crate) fn ours(reason: &str) -> Failure {
        Failure::new(reason, true)
    }

    /// A certificate that was rejected.
    pub(crate) fn certificate(reason: &str) -> Failure {
        Failure { is_certificate: true, ..Failure::new(reason, false) }
    }

    pub(crate) fn of(error: &Error) -> Failure {
        if let Error::InvalidCertificate(CertificateError::Other(other)) = error
            && let Some(Refused(reason)) = other.0.downcast_ref()
        {
            return Failure::certificate(reason);
        }
        Failure::new(&error.to_string(), matches!(error, Error::General(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::server;
    use crate::{ClientHello, Hello, SelfSigned};
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{
        ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion,
    };
    use std::io::{Read, Write};

    /// A client that takes every certificate, with signatures of these kinds.
    #[derive(Debug)]
    struct Trusting(&'static [SignatureScheme]);

    const SCHEMES: [SignatureScheme; 2] =
        [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256];

    impl ServerCertVerifier for Trusting {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.to_vec()
        }
    }

    fn policy(tls12: bool, tls13: bool) -> ServerPolicy {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        server(&(made.certificate, made.key), tls12, tls13)
    }

    fn config(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let trusting = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting(&SCHEMES)));
        let mut config = trusting.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    fn client(config: &Arc<ClientConfig>) -> ClientConnection {
        ClientConnection::new(Arc::clone(config), "A.example".try_into().unwrap()).unwrap()
    }

    /// Both ends, with the bytes on their way to the server. They arrive in parts of this length.
    struct Link {
        client: ClientConnection,
        server: Option<Session>,
        reader: Hello,
        incoming: Vec<u8>,
        content: Vec<u8>,
        part: usize,
        hello: ClientHello,
        ended: bool,
    }

    impl Link {
        fn new(config: &Arc<ClientConfig>, part: usize) -> Link {
            Link {
                client: client(config),
                server: None,
                reader: Hello::new(),
                incoming: Vec::new(),
                content: Vec::new(),
                part,
                hello: ClientHello::default(),
                ended: false,
            }
        }

        /// Carries bytes both ways until nothing moves.
        fn run(&mut self, policy: &ServerPolicy) -> Result<(), Failure> {
            let mut sent = Vec::new();
            loop {
                while self.client.wants_write() {
                    self.client.write_tls(&mut sent).unwrap();
                }
                if sent.is_empty() {
                    return Ok(());
                }
                for part in std::mem::take(&mut sent).chunks(self.part) {
                    let mut output = Vec::new();
                    self.incoming.extend_from_slice(part);
                    let result = self.server_reads(policy, &mut output);
                    let mut output = &output[..];
                    while !output.is_empty() {
                        self.client.read_tls(&mut output).unwrap();
                        drop(self.client.process_new_packets());
                    }
                    result?;
                }
            }
        }

        fn server_reads(&mut self, policy: &ServerPolicy, output: &mut Vec<u8>) -> Result<(), Failure> {
            if self.server.is_none() {
                let Some(hello) = self.reader.read(&self.incoming, output)? else { return Ok(()) };
                self.hello = hello;
                self.server = Some(Session::new(policy)?);
            }
            let server = self.server.as_mut().unwrap();
            let processed = server.process(&mut self.incoming, output, &mut self.content)?;
            self.ended |= processed.ended;
            self.incoming.drain(..processed.consumed);
            Ok(())
        }

        fn server_sends(&mut self, plain: &[u8]) -> Vec<u8> {
            let mut output = Vec::new();
            let server = self.server.as_mut().unwrap();
            server.encrypt(&mut self.incoming, plain, (&mut output, &mut self.content)).unwrap();
            let (mut output, mut received) = (&output[..], Vec::new());
            while !output.is_empty() {
                self.client.read_tls(&mut output).unwrap();
                self.client.process_new_packets().unwrap();
                // More than what is there would block.
                drop(self.client.reader().read_to_end(&mut received));
            }
            received
        }
    }

    #[test]
    fn content_travels_both_ways_whatever_the_parts() {
        for (policy, protocol) in [(policy(true, false), "TLSv1.2"), (policy(false, true), "TLSv1.3")] {
            for part in [1, 3, 1000, 1 << 20] {
                let mut link = Link::new(&config(rustls::ALL_VERSIONS), part);
                link.run(&policy).unwrap();
                assert_eq!(link.hello.server_name.as_deref(), Some("a.example"));
                assert_eq!(link.hello.alpn, [Box::from(&b"http/1.1"[..])]);
                let negotiated = link.server.as_ref().unwrap().negotiated();
                assert_eq!((negotiated.protocol, negotiated.resumed), (protocol, false));
                assert_eq!(negotiated.alpn.as_deref(), Some(&b"http/1.1"[..]));
                assert!(negotiated.cipher.contains("AES") && !negotiated.curve.is_empty());
                link.client.writer().write_all(b"question").unwrap();
                link.run(&policy).unwrap();
                assert_eq!(link.content, b"question");
                assert!(link.incoming.is_empty(), "an idle connection keeps no bytes");
                let answer = vec![7; 50_000];
                assert_eq!(link.server_sends(&answer), answer);
                link.client.send_close_notify();
                link.run(&policy).unwrap();
                assert!(link.ended);
            }
        }
    }

    #[test]
    fn a_client_comes_back_by_its_ticket_to_the_same_certificate_only() {
        for version in rustls::ALL_VERSIONS {
            let (policy, other) = (policy(true, true), policy(true, true));
            let config = config(&[version]);
            let resumed = |policy: &ServerPolicy| {
                let mut link = Link::new(&config, 1 << 20);
                link.run(policy).unwrap();
                link.server.unwrap().negotiated().resumed
            };
            assert!(!resumed(&policy));
            assert!(resumed(&policy));
            assert!(!resumed(&other));
        }
    }

    #[test]
    fn who_shares_no_version_is_told() {
        let mut link = Link::new(&config(&[&rustls::version::TLS12]), 1 << 20);
        let failure = link.run(&policy(false, true)).unwrap_err();
        assert!(!failure.is_ours);
        let told = link.client.process_new_packets().unwrap_err();
        assert!(told.to_string().contains("ProtocolVersion"), "{told}");
    }

    #[test]
    fn who_shares_no_cipher_or_signature_is_told_and_it_is_no_fault_of_ours() {
        for version in rustls::ALL_VERSIONS {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            let is_rsa =
                |suite: &rustls::SupportedCipherSuite| !format!("{:?}", suite.suite()).contains("ECDSA");
            provider.cipher_suites.retain(is_rsa);
            let builder = ClientConfig::builder_with_provider(Arc::new(provider));
            let builder = builder.with_protocol_versions(&[version]).unwrap().dangerous();
            let config = builder
                .with_custom_certificate_verifier(Arc::new(Trusting(&SCHEMES[1..])))
                .with_no_client_auth();
            let mut link = Link::new(&Arc::new(config), 1 << 20);
            let failure = link.run(&policy(true, true)).unwrap_err();
            assert!(!failure.is_ours, "{failure}");
            let told = link.client.process_new_packets().unwrap_err();
            assert!(told.to_string().contains("HandshakeFailure"), "{told}");
        }
    }

    #[test]
    fn who_shares_no_protocol_is_told_by_either_version() {
        for version in rustls::ALL_VERSIONS {
            let mut config = Arc::unwrap_or_clone(config(&[version]));
            config.alpn_protocols = vec![b"spdy/3".to_vec()];
            let mut link = Link::new(&Arc::new(config), 1 << 20);
            assert!(link.run(&policy(true, true)).is_err());
            let told = link.client.process_new_packets().unwrap_err();
            assert!(told.to_string().contains("NoApplicationProtocol"), "{told}");
        }
    }

    #[test]
    fn forged_records_end_the_session_with_an_alert() {
        let policy = policy(true, true);
        let mut link = Link::new(&config(rustls::ALL_VERSIONS), 1 << 20);
        link.run(&policy).unwrap();
        link.incoming.extend_from_slice(&[23, 3, 3, 0, 20]);
        link.incoming.extend_from_slice(&[0; 20]);
        let mut output = Vec::new();
        assert!(link.server_reads(&policy, &mut output).is_err());
        assert!(!output.is_empty());
        output.clear();
        link.server_reads(&policy, &mut output).unwrap();
        assert!(link.ended && link.incoming.is_empty() && output.is_empty(), "nothing is heard any more");
    }

    #[test]
    fn hellos_that_were_tampered_with_do_no_harm() {
        let (policy, config) = (policy(true, true), config(rustls::ALL_VERSIONS));
        let mut hello = Vec::new();
        client(&config).write_tls(&mut hello).unwrap();
        for index in 0..hello.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut link = Link::new(&config, 1 << 20);
                link.incoming.clone_from(&hello);
                link.incoming[index] ^= change;
                drop(link.server_reads(&policy, &mut Vec::new()));
            }
            let mut link = Link::new(&config, 1 << 20);
            link.incoming.extend_from_slice(&hello[..index]);
            assert_eq!(link.server_reads(&policy, &mut Vec::new()), Ok(()));
            assert!(link.server.is_none());
        }
    }

    #[test]
    fn a_closed_session_says_so() {
        let policy = policy(true, true);
        let mut link = Link::new(&config(rustls::ALL_VERSIONS), 1 << 20);
        link.run(&policy).unwrap();
        let mut output = Vec::new();
        link.server.as_mut().unwrap().close(&mut [], &mut output, &mut Vec::new()).unwrap();
        link.client.read_tls(&mut &output[..]).unwrap();
        assert!(link.client.process_new_packets().unwrap().peer_has_closed());
        // The client's side goes on.
        link.client.writer().write_all(b"still here").unwrap();
        let mut answer = Vec::new();
        link.client.write_tls(&mut answer).unwrap();
        let (mut output, mut content) = (Vec::new(), Vec::new());
        let server = link.server.as_mut().unwrap();
        let processed = server.close(&mut answer, &mut output, &mut content).unwrap();
        assert!(content == b"still here" && output.is_empty() && !processed.ended);
    }
}
