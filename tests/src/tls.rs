//! Certificates made for a test, and a TLS client that trusts every certificate.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
    RevokedCertParams, date_time_ymd,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, ServerConfig,
    SignatureScheme, StreamOwned, SupportedProtocolVersion,
};

use crate::client::{Answer, End, read};
use crate::request;
use crate::response;

/// No exchange waits longer than this for a byte.
const LIMIT: Duration = Duration::from_secs(10);

/// A certificate of a test's own making.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate as PEM.
    pub pem: String,
    /// Its key as PEM.
    pub key: String,
    /// The certificate's bytes.
    pub der: Vec<u8>,
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An elliptic curve.
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

/// Makes a certificate for a name.
pub fn certificate(name: &str, kind: Kind) -> Certificate {
    let algorithm = if kind == Kind::Rsa { &PKCS_RSA_SHA256 } else { &PKCS_ECDSA_P256_SHA256 };
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let made = parameters.self_signed(&key).expect("a certificate");
    Certificate { pem: made.pem(), key: key.serialize_pem(), der: made.der().to_vec() }
}

/// How a server speaks that has this certificate.
///
/// # Panics
/// The text is none of a certificate, or has no key.
pub fn server_config(made: &Certificate) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(made.pem.as_bytes());
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_no_client_auth().with_single_cert(chain, key);
    Arc::new(config.expect("a certificate"))
}

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    /// Its certificate as PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority with this name.
    pub fn new(name: &str) -> Authority {
        Authority::under(name, None, |_| ())
    }

    /// Makes an authority whose certificate this parent signs, or itself, after a change.
    pub fn under(
        name: &str,
        parent: Option<&Authority>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec![]).expect("no names");
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        change(&mut parameters);
        let made = match parent {
            Some(parent) => parameters.signed_by(&key, &parent.issuer),
            None => parameters.self_signed(&key),
        };
        Authority { pem: made.expect("a certificate").pem(), issuer: Issuer::new(parameters, key) }
    }

    /// Signs a certificate for a host name, with this serial number.
    pub fn certificate(&self, name: &str, serial: u64) -> Certificate {
        self.certificate_with(name, Kind::Ecdsa, |parameters| {
            parameters.serial_number = Some(serial.into());
            parameters.use_authority_key_identifier_extension = true;
        })
    }

    /// Signs a certificate for a host name, after a change.
    pub fn certificate_with(
        &self,
        name: &str,
        kind: Kind,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certificate {
        let algorithm = if kind == Kind::Rsa { &PKCS_RSA_SHA256 } else { &PKCS_ECDSA_P256_SHA256 };
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        change(&mut parameters);
        let made = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        Certificate { pem: made.pem(), key: key.serialize_pem(), der: made.der().to_vec() }
    }

    /// A list of revoked certificates as PEM.
    pub fn revoke(&self, serials: &[u64]) -> String {
        self.revoke_until(serials, 2099)
    }

    /// As `revoke`, with the year of the next list.
    pub fn revoke_until(&self, serials: &[u64], year: i32) -> String {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("a list").pem().expect("text")
    }
}

/// A client with its tickets.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: Option<String>,
    /// What is sent in front of the handshake.
    before: Vec<u8>,
}

/// How a client ends its side after it said all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Not at all: the server has to close.
    Waits,
    /// It says goodbye (`close_notify`).
    SaysGoodbye,
    /// Its stream ends without a word.
    Breaks,
}

/// What a server answered over TLS.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The responses, and what happened to the connection.
    pub answer: Answer,
    /// `TLSv1_2` or `TLSv1_3`.
    pub protocol: String,
    /// The server's own certificate; empty where a session was resumed by TLS 1.2.
    pub certificate: Vec<u8>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether the server said that it closes, before it did (`close_notify`).
    pub said_goodbye: bool,
}

impl Client {
    /// A client that asks for a name, or for none.
    pub fn new(name: Option<&str>) -> Client {
        Client::with(name, rustls::ALL_VERSIONS, Kind::Ecdsa)
    }

    /// As `new`, with the versions that it speaks, and the kind of key that it wants: for `Ecdsa` it takes both.
    pub fn with(name: Option<&str>, versions: &[&'static SupportedProtocolVersion], kind: Kind) -> Client {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let known = provider.signature_verification_algorithms.supported_schemes();
        let is_wanted =
            |scheme: &SignatureScheme| kind == Kind::Ecdsa || format!("{scheme:?}").contains("RSA");
        let trusting = Trusting { schemes: known.into_iter().filter(is_wanted).collect() };
        let builder = ClientConfig::builder_with_provider(provider);
        let mut config = builder
            .with_protocol_versions(versions)
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trusting))
            .with_no_client_auth();
        let sessions = Sessions(ClientSessionMemoryCache::new(8));
        config.resumption = Resumption::store(Arc::new(sessions));
        Client { config: Arc::new(config), name: name.map(str::to_owned), before: Vec::new() }
    }

    /// The same client with its sessions, asking for this name. A session of one name is offered to all of them.
    #[must_use]
    pub fn named(&self, name: &str) -> Client {
        Client { name: Some(name.to_owned()), ..self.clone() }
    }

    /// The same client, offering these protocols (RFC 7301).
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Client {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// The same client, showing this certificate, followed by others, whichever authorities the server names.
    ///
    /// # Panics
    /// The text contains no certificate, or no key.
    #[must_use]
    pub fn showing(mut self, certificate: &Certificate, others: &[&str]) -> Client {
        let text = certificate.pem.clone() + &others.concat();
        let chain =
            CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("a key");
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("a key that signs");
        let shown = Shown(Arc::new(CertifiedKey::new(chain, key)));
        Arc::make_mut(&mut self.config).client_auth_cert_resolver = Arc::new(shown);
        self
    }

    /// The same client, sending these bytes in front of the handshake, in one segment with its start.
    #[must_use]
    pub fn behind(mut self, before: &[u8]) -> Client {
        self.before = before.to_vec();
        self
    }

    /// Has one exchange on a separate connection; an error's text where there is no connection.
    ///
    /// # Errors
    /// The handshake failed; the text says how.
    pub fn ask(&self, address: SocketAddr, short: &str) -> Result<Spoken, String> {
        let mut stream = self.connect(address)?;
        let bytes = request::expand(short);
        stream.write_all(&bytes).map_err(|error| error.to_string())?;
        let method = short.split(' ').next().unwrap_or_default();
        let (mut received, mut ended, mut responses) = (Vec::new(), None, Vec::new());
        while ended.is_none() && responses.is_empty() {
            ended = receive(&mut stream, &mut received);
            if let Some((response, used)) = response::take(method, &received, ended.is_some()) {
                received.drain(..used);
                responses.push(response);
            }
        }
        let closes = responses.last().is_none_or(response::Response::announces_close);
        while closes && ended.is_none() {
            ended = receive(&mut stream, &mut received);
        }
        let end = if ended.is_some() { End::Closed } else { End::Kept };
        Ok(spoken(&stream.conn, Answer { responses, end }, ended == Some(true)))
    }

    /// Says all of `bytes` on a separate connection, ends so, and hears whatever comes until the server closes.
    ///
    /// # Errors
    /// The handshake failed; the text says how.
    pub fn converse(&self, address: SocketAddr, bytes: &[u8], ending: Ending) -> Result<Spoken, String> {
        let mut stream = self.connect(address)?;
        // A server may close before it heard all.
        let _ = stream.write_all(bytes).and_then(|()| stream.flush());
        if ending == Ending::SaysGoodbye {
            stream.conn.send_close_notify();
            let _ = stream.conn.complete_io(&mut stream.sock);
        } else if ending == Ending::Breaks {
            let _ = stream.sock.shutdown(Shutdown::Write);
        }
        let mut received = Vec::new();
        let said_goodbye = loop {
            if let Some(goodbye) = receive(&mut stream, &mut received) {
                break goodbye;
            }
        };
        let (mut responses, mut at) = (Vec::new(), 0);
        let mut methods = request::methods(bytes).into_iter();
        let mut method = methods.next().unwrap_or_default();
        while let Some((response, used)) = response::take(&method, &received[at..], true) {
            at += used;
            if response.status >= 200 {
                method = methods.next().unwrap_or_default();
            }
            responses.push(response);
        }
        Ok(spoken(&stream.conn, Answer { responses, end: End::Closed }, said_goodbye))
    }

    /// The same client, which sends what it can before the handshake is over.
    #[must_use]
    pub fn eager(mut self) -> Client {
        Arc::make_mut(&mut self.config).enable_early_data = true;
        self
    }

    /// The first bytes of a connection that resumes a session, with these as early data, and the state of the client.
    /// `None` if no session allows early data.
    pub fn early(&self, bytes: &[u8]) -> Option<(Vec<u8>, ClientConnection)> {
        let name = ServerName::try_from(self.name.clone()?).expect("a name");
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name).expect("a client");
        connection.early_data()?.write_all(bytes).expect("room");
        let mut first = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut first).expect("memory");
        }
        Some((first, connection))
    }

    /// Has the handshake.
    ///
    /// # Errors
    /// It failed; the text says how.
    pub fn connect(&self, address: SocketAddr) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let name = match &self.name {
            Some(name) => ServerName::try_from(name.clone()).expect("a name"),
            None => ServerName::from(address.ip()),
        };
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name).expect("a client");
        let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream.set_write_timeout(Some(LIMIT)).expect("a limit");
        let mut first = self.before.clone();
        connection.write_tls(&mut first).expect("memory");
        stream.write_all(&first).map_err(|error| error.to_string())?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
        }
        Ok(stream)
    }
}

fn spoken(connection: &ClientConnection, answer: Answer, said_goodbye: bool) -> Spoken {
    Spoken {
        answer,
        protocol: connection.protocol_version().map(|version| format!("{version:?}")).unwrap_or_default(),
        certificate: connection.peer_certificates().map(|all| all[0].to_vec()).unwrap_or_default(),
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        said_goodbye,
    }
}

/// Reads once; tells of the end, and whether it was announced.
fn receive(stream: &mut StreamOwned<ClientConnection, TcpStream>, received: &mut Vec<u8>) -> Option<bool> {
    let mut bytes = [0; 65536];
    match read(stream, &mut bytes) {
        Ok(0) => Some(true),
        Ok(count) => {
            received.extend_from_slice(&bytes[..count]);
            None
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the server is silent"),
        Err(_) => Some(false),
    }
}

/// Sessions that are offered to every server, whatever the name of the one that they come from.
#[derive(Debug)]
struct Sessions(ClientSessionMemoryCache);

fn any_name() -> ServerName<'static> {
    ServerName::from(Ipv4Addr::UNSPECIFIED)
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(any_name(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&any_name())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(any_name(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&any_name())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&any_name());
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(any_name(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&any_name())
    }
}

/// Shows a certificate to every server.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.key.choose_scheme(schemes).is_some().then(|| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Takes every certificate and every signature.
#[derive(Debug)]
struct Trusting {
    schemes: Vec<SignatureScheme>,
}

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
        self.schemes.clone()
    }
}
