//! TLS towards contenders, whose certificate is the lab's own and is therefore not checked.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// A TLS connection over an open one.
pub(crate) fn client(stream: TcpStream) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let connection = ClientConnection::new(Arc::new(configuration()?), ServerName::try_from("localhost")?)?;
    Ok(StreamOwned::new(connection, stream))
}

/// How long a read of such a connection may take.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection whose handshake is complete. Connections with the same configuration resume each other's sessions.
pub(crate) fn handshake(
    address: SocketAddr,
    configuration: &Arc<ClientConfig>,
    name: &'static str,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut session = ClientConnection::new(Arc::clone(configuration), ServerName::try_from(name)?)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).context("handshake")?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// Has the library seed its random numbers: those of the process, from the jitter of the clock, which takes some 40 ms,
/// and those of this thread. The first handshake of either would do it otherwise, and what it measures would be that.
pub(crate) fn seed() -> Result<()> {
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut [0]).map_err(|_| anyhow!("the system has no random numbers for TLS"))
}

/// Versions and suites as the library presets them, any certificate.
pub(crate) fn configuration() -> Result<ClientConfig> {
    Ok(listening()?.0)
}

/// The same, and what hears what the server says of its certificate.
pub(crate) fn listening() -> Result<(ClientConfig, Arc<AnyCertificate>)> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyCertificate { provider: Arc::clone(&provider), stapled: Mutex::default() });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let heard = Arc::clone(&verifier);
    Ok((builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth(), heard))
}

/// Takes every certificate: what is measured is the work of a handshake, not whom one talks to.
#[derive(Debug)]
pub(crate) struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    stapled: Mutex<Vec<u8>>,
}

impl AnyCertificate {
    /// The response of the certificate's authority that came last (OCSP, RFC 6066, section 8); empty where none did.
    pub(crate) fn stapled(&self) -> Vec<u8> {
        self.stapled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.stapled.lock().unwrap_or_else(PoisonError::into_inner) = ocsp_response.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
