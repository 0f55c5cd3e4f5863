//! Whether the certificate of a peer is to be trusted.

use crate::chain::{Basis, Purpose, Store};
use crate::extensions::Extensions;
use crate::noted::Noted;
use crate::ocsp::{OcspQuestion, OcspScope};
use crate::pem::Unreadable;
use crate::policy::Digest;
use crate::revocation::RevocationList;
use crate::verdict::Verdict;
use crate::x509::{Fields, key_algorithm, key_bits, labelled_certificates};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerMisbehaved,
    SignatureScheme,
};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use webpki::EndEntityCert;

/// Certificates of authorities, as a file holds them.
#[derive(Clone, Debug)]
pub struct Authorities(Vec<CertificateDer<'static>>);

/// The authorities, and the lists of revoked certificates, that certificates of peers are checked against.
#[derive(Clone)]
pub struct Trust(Arc<Inner>);

struct Inner {
    store: Store,
    digest: [u8; 32],
}

/// Why files of authorities cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrustError {
    /// The text has no certificate.
    #[error("no certificate in PEM form is there")]
    NoCertificate,
    /// A certificate is malformed.
    #[error("a certificate is malformed")]
    BadCertificate,
    /// The line with this number begins or ends a section in a wrong way.
    #[error("line {0}: a BEGIN or END line must stand alone, and each BEGIN needs its END")]
    BadLine(usize),
    /// A certificate says what it is trusted for.
    #[error(
        "a certificate is trusted for certain purposes only (TRUSTED CERTIFICATE), which is not supported here"
    )]
    LimitedTrust,
    /// No certificate has a key that signatures can be checked with.
    #[error("the keys of the certificates are of kinds that are not supported here")]
    UnsupportedKeys,
    /// The text has no list of revoked certificates.
    #[error("no CRL in PEM form is there")]
    NoRevoked,
    /// A list is malformed, or of a kind that is unknown here.
    #[error("a CRL is malformed, or of an unsupported kind: partial or indirect")]
    BadRevoked,
}

/// Why a certificate was rejected, in nginx's words.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

impl Authorities {
    /// Reads certificates as PEM.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn from_pem(text: &[u8]) -> Result<Authorities, TrustError> {
        let all = labelled_certificates(text).map_err(|error| match error {
            Unreadable::Line(line) => TrustError::BadLine(line),
            Unreadable::Content => TrustError::BadCertificate,
        })?;
        if all.iter().any(|(_, is_limited)| *is_limited) {
            return Err(TrustError::LimitedTrust);
        }
        let all: Vec<_> = all.into_iter().map(|(certificate, _)| certificate).collect();
        if all.is_empty() {
            return Err(TrustError::NoCertificate);
        }
        let fields = all.iter().map(|der| Fields::of(der).ok_or(TrustError::BadCertificate));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let known = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let is_usable = |fields: &Fields<'_>| {
            let kind = key_algorithm(fields.key_info);
            known.all.iter().any(|algorithm| Some(algorithm.public_key_alg_id().as_ref()) == kind)
        };
        match fields.iter().any(is_usable) {
            true => Ok(Authorities(all)),
            false => Err(TrustError::UnsupportedKeys),
        }
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }

    /// The names of the authorities, each one once.
    pub(crate) fn names(&self) -> Vec<DistinguishedName> {
        let mut subjects: Vec<&[u8]> = Vec::new();
        for fields in self.0.iter().filter_map(|der| Fields::of(der)) {
            if !subjects.contains(&fields.subject) {
                subjects.push(fields.subject);
            }
        }
        subjects.into_iter().map(DistinguishedName::in_sequence).collect()
    }
}

impl Trust {
    /// Puts authorities and lists of revoked certificates, as PEM, together. At most `depth` certificates may stand
    /// between that of a peer and that of an authority.
    ///
    /// # Errors
    /// The lists cannot be used, see [`TrustError`].
    pub fn new(
        authorities: &[&Authorities],
        revoked: Option<&[u8]>,
        depth: usize,
    ) -> Result<Trust, TrustError> {
        let mut digest = Digest::new();
        let mut store = Store { depth, ..Store::default() };
        for der in authorities.iter().flat_map(|authorities| &authorities.0) {
            digest.bytes(der);
            let Some(fields) = Fields::of(der) else { continue };
            let known = store.trusted.entry(fields.subject.into()).or_default();
            if !known.contains(der) {
                known.push(der.clone());
            }
        }
        if let Some(text) = revoked {
            store.revoked = RevocationList::read(text).map_err(|error| match error {
                Unreadable::Line(line) => TrustError::BadLine(line),
                Unreadable::Content => TrustError::BadRevoked,
            })?;
            if store.revoked.is_empty() {
                return Err(TrustError::NoRevoked);
            }
        }
        digest.bytes(revoked.unwrap_or_default());
        digest.number(depth as u128);
        Ok(Trust(Arc::new(Inner { store, digest: digest.finish() })))
    }

    /// Of all that it was made of.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.0.digest
    }

    /// Checks the certificate of a client. Returns what responders are to be asked about it.
    pub(crate) fn check_client(
        &self,
        own: &[u8],
        sent: &[CertificateDer<'_>],
        algorithms: &WebPkiSupportedAlgorithms,
        scope: Option<OcspScope>,
    ) -> Result<Vec<OcspQuestion>, Verdict> {
        let basis = self.basis(algorithms, Purpose::Client, UnixTime::now());
        let chain = basis.chain(own, sent)?;
        let questions = scope.map_or(Some(Vec::new()), |scope| OcspQuestion::about(&chain, scope));
        questions.ok_or(Verdict::STATUS_FAILED)
    }

    /// Checks the certificate of a server, whatever its names are.
    pub(crate) fn check_server(
        &self,
        own: &[u8],
        sent: &[CertificateDer<'_>],
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Verdict> {
        self.basis(algorithms, Purpose::Server, UnixTime::now()).judge(own, sent)
    }

    fn basis<'a>(
        &'a self,
        algorithms: &'a WebPkiSupportedAlgorithms,
        purpose: Purpose,
        now: UnixTime,
    ) -> Basis<'a> {
        Basis { store: &self.0.store, algorithms, purpose, now }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("authorities", &self.0.store.trusted.len()).finish_non_exhaustive()
    }
}

/// Whether a certificate is for this name. Like OpenSSL, the common name counts where no other host name is there.
fn is_for(own: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    if let Ok(certificate) = EndEntityCert::try_from(own)
        && certificate.verify_is_valid_for_subject_name(name).is_ok()
    {
        return true;
    }
    let Some(fields) = Fields::of(own) else { return false };
    let names_host = Extensions::of(fields.extensions).is_none_or(|extensions| extensions.names_host());
    !names_host && fields.has_common_name(&name.to_str())
}

/// The failure of a certificate that is for other names.
pub(crate) fn mismatch(name: &str) -> Refused {
    Refused(format!("certificate does not match \"{name}\""))
}

/// Checks signatures, and certificates where there are authorities.
pub(crate) struct Verifier {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) trust: Option<Trust>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let refused = match trust.basis(&self.algorithms, Purpose::Server, now).judge(own, sent) {
            Err(verdict) => Refused(format!("certificate verify error: {verdict}")),
            Ok(()) if !is_for(own, name) => mismatch(&name.to_str()),
            Ok(()) => return Ok(ServerCertVerified::assertion()),
        };
        Err(CertificateError::Other(OtherError(Arc::new(refused))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12(&self.algorithms, message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13(&self.algorithms, message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Asks clients for certificates and accepts every one, if its key signs the handshake. It is judged when the handshake
/// is over: a client with a wrong one gets an answer that says so.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    /// The authorities that the server names.
    pub(crate) names: Vec<DistinguishedName>,
}

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        key_info(own).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Noted::saw_peer(signed.scheme);
        verify_tls12(&self.algorithms, message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Noted::saw_peer(signed.scheme);
        verify_tls13(&self.algorithms, message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Nothing of the certificate but its key is read: it may be of version 1.
fn verify_tls12(
    algorithms: &WebPkiSupportedAlgorithms,
    message: &[u8],
    own: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let info = key_info(own)?;
    let bits = key_bits(info).and_then(|bits| bits.strip_prefix(&[0]));
    let (Some(key), Some(algorithm)) = (bits, key_algorithm(info)) else {
        return Err(CertificateError::BadEncoding.into());
    };
    let mapped = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let (_, candidates) = mapped.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let mut fitting = candidates.iter().filter(|known| known.public_key_alg_id().as_ref() == algorithm);
    match fitting.any(|known| known.verify_signature(key, message, signed.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

fn verify_tls13(
    algorithms: &WebPkiSupportedAlgorithms,
    message: &[u8],
    own: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let info = SubjectPublicKeyInfoDer::from(key_info(own)?);
    verify_tls13_signature_with_raw_key(message, &info, signed, algorithms)
}

fn key_info<'a>(own: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let fields = Fields::of(own).ok_or(CertificateError::BadEncoding)?;
    Ok(fields.key_info)
}
