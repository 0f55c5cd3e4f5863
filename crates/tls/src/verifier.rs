//! Whether the certificate of a server is to be trusted.

use crate::x509::{Fields, OutOfTime, key_algorithm, key_bits};
use aws_lc_rs::digest::{Context, SHA256};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, ServerName, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, PeerMisbehaved, SignatureScheme};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};

/// The authorities that servers' certificates are checked against.
#[derive(Clone)]
pub struct Trust(Arc<Inner>);

struct Inner {
    anchors: Vec<TrustAnchor<'static>>,
    /// Trusted certificates that are their own issuers. A server may show one of them as its own.
    roots: Vec<CertificateDer<'static>>,
    /// The other ones. Like OpenSSL, they complete a chain and do not end it.
    intermediates: Vec<CertificateDer<'static>>,
    revoked: Vec<CertRevocationList<'static>>,
    depth: usize,
    digest: [u8; 32],
}

/// Why files of authorities cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrustError {
    /// The text has no certificate.
    #[error("no certificate in PEM form is there")]
    NoCertificate,
    /// No certificate in it is one of an authority.
    #[error("no certificate there can be used as an authority")]
    BadCertificate,
    /// The text has no list of revoked certificates.
    #[error("no CRL in PEM form is there")]
    NoRevoked,
    /// A list is malformed, or of a kind that is unknown here.
    #[error(
        "a CRL is malformed, or of an unsupported kind: of version 1, without a number, partial or indirect"
    )]
    BadRevoked,
}

impl TrustError {
    /// Whether the file of revoked certificates is at fault.
    pub fn is_about_revoked(self) -> bool {
        matches!(self, TrustError::NoRevoked | TrustError::BadRevoked)
    }
}

/// Why a certificate was rejected, in nginx's words.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// What a check of a certificate rests on.
#[derive(Clone, Copy)]
struct Basis<'a> {
    algorithms: &'a WebPkiSupportedAlgorithms,
    now: UnixTime,
}

impl Trust {
    /// Reads authorities and lists of revoked certificates as PEM. At most `depth` certificates may stand between that
    /// of a server and that of an authority.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn from_pem(authorities: &[u8], revoked: Option<&[u8]>, depth: usize) -> Result<Trust, TrustError> {
        let all: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(authorities)
            .collect::<Result<_, _>>()
            .map_err(|_| TrustError::BadCertificate)?;
        if all.is_empty() {
            return Err(TrustError::NoCertificate);
        }
        let is_root =
            |der: &CertificateDer<'_>| Fields::of(der).is_some_and(|fields| fields.is_self_issued());
        let (roots, intermediates): (Vec<_>, Vec<_>) = all.into_iter().partition(is_root);
        // Bundles of a system have certificates that are of no use here.
        let anchors = roots.iter().filter_map(|der| Some(anchor_from_trusted_cert(der).ok()?.to_owned()));
        let anchors: Vec<TrustAnchor<'static>> = anchors.collect();
        if anchors.is_empty() && intermediates.is_empty() {
            return Err(TrustError::BadCertificate);
        }
        let lists = revoked.map_or(Ok(Vec::new()), revocation_lists)?;
        let mut context = Context::new(&SHA256);
        let parts = [authorities, revoked.unwrap_or_default()];
        parts.iter().for_each(|part| {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        });
        context.update(&(depth as u64).to_be_bytes());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Ok(Trust(Arc::new(Inner { anchors, roots, intermediates, revoked: lists, depth, digest })))
    }

    /// Of all that it was made of.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.0.digest
    }

    /// Checks a server's certificate and its name.
    fn check(
        &self,
        own: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        basis: Basis<'_>,
    ) -> Result<(), Refused> {
        let fields = Fields::of(own).ok_or_else(|| verify_error(1, "the certificate is malformed"))?;
        if self.0.revoked.is_empty() && self.0.roots.contains(own) {
            let now = i64::try_from(basis.now.as_secs()).unwrap_or(i64::MAX);
            match fields.check_time(now) {
                Some(Ok(())) => {}
                Some(Err(OutOfTime::Early)) => return Err(verify_error(9, "certificate is not yet valid")),
                Some(Err(OutOfTime::Late)) => return Err(verify_error(10, "certificate has expired")),
                None => return Err(verify_error(1, "the certificate is malformed")),
            }
        } else {
            self.check_chain(own, sent, basis).map_err(|error| refused(&error, &fields, sent))?;
        }
        match is_for(own, &fields, name) {
            true => Ok(()),
            false => Err(mismatch(&name.to_str())),
        }
    }

    fn check_chain(
        &self,
        own: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        basis: Basis<'_>,
    ) -> Result<(), webpki::Error> {
        let Inner { anchors, intermediates, revoked, depth, .. } = &*self.0;
        let others: Vec<CertificateDer<'_>> = sent.iter().chain(intermediates).cloned().collect();
        let lists: Vec<&CertRevocationList<'_>> = revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let is_too_long = Cell::new(false);
        let limit = |path: &webpki::VerifiedPath<'_>| {
            is_too_long.set(path.intermediate_certificates().count() > *depth);
            if is_too_long.get() { Err(webpki::Error::MaximumPathDepthExceeded) } else { Ok(()) }
        };
        let certificate = EndEntityCert::try_from(own)?;
        let usage = KeyUsage::server_auth();
        let verified = certificate.verify_for_usage(
            basis.algorithms.all,
            anchors,
            &others,
            basis.now,
            usage,
            revocation,
            Some(&limit),
        );
        match verified {
            Ok(_) => Ok(()),
            Err(_) if is_too_long.get() => Err(webpki::Error::MaximumPathDepthExceeded),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("anchors", &self.0.anchors.len()).finish_non_exhaustive()
    }
}

fn revocation_lists(text: &[u8]) -> Result<Vec<CertRevocationList<'static>>, TrustError> {
    let lists: Vec<CertRevocationList<'static>> = CertificateRevocationListDer::pem_slice_iter(text)
        .map(|der| {
            let der = der.map_err(|_| TrustError::BadRevoked)?;
            let list = OwnedCertRevocationList::from_der(&der).map_err(|_| TrustError::BadRevoked)?;
            Ok(CertRevocationList::from(list))
        })
        .collect::<Result<_, _>>()?;
    if lists.is_empty() { Err(TrustError::NoRevoked) } else { Ok(lists) }
}

/// Whether a certificate is for this name. Like OpenSSL, the common name counts where no other host name is there.
fn is_for(own: &CertificateDer<'_>, fields: &Fields<'_>, name: &ServerName<'_>) -> bool {
    let certificate = EndEntityCert::try_from(own).ok();
    if let Some(certificate) = &certificate
        && certificate.verify_is_valid_for_subject_name(name).is_ok()
    {
        return true;
    }
    let has_names = certificate.is_some_and(|certificate| certificate.valid_dns_names().next().is_some());
    !has_names && fields.has_common_name(&name.to_str())
}

/// The failure of a certificate that is for other names.
pub(crate) fn mismatch(name: &str) -> Refused {
    Refused(format!("certificate does not match \"{name}\""))
}

fn verify_error(code: u32, text: &str) -> Refused {
    Refused(format!("certificate verify error: ({code}:{text})"))
}

/// The number and the words that OpenSSL has for an error.
fn refused(error: &webpki::Error, own: &Fields<'_>, sent: &[CertificateDer<'_>]) -> Refused {
    use webpki::Error as E;
    let is_root = |der: &CertificateDer<'_>| Fields::of(der).is_some_and(|fields| fields.is_self_issued());
    match error {
        E::UnknownIssuer | E::CaUsedAsEndEntity if own.is_self_issued() => {
            verify_error(18, "self-signed certificate")
        }
        E::UnknownIssuer if sent.iter().any(is_root) => {
            verify_error(19, "self-signed certificate in certificate chain")
        }
        E::UnknownIssuer if sent.is_empty() => verify_error(21, "unable to verify the first certificate"),
        E::UnknownIssuer => verify_error(20, "unable to get local issuer certificate"),
        E::CertNotValidYet { .. } => verify_error(9, "certificate is not yet valid"),
        E::CertExpired { .. } => verify_error(10, "certificate has expired"),
        E::CertRevoked => verify_error(23, "certificate revoked"),
        E::UnknownRevocationStatus => verify_error(3, "unable to get certificate CRL"),
        E::CrlExpired { .. } => verify_error(12, "CRL has expired"),
        E::MaximumPathDepthExceeded => verify_error(22, "certificate chain too long"),
        E::InvalidSignatureForPublicKey => verify_error(7, "certificate signature failure"),
        E::InvalidCrlSignatureForPublicKey => verify_error(8, "CRL signature failure"),
        E::CaUsedAsEndEntity => verify_error(1, "the certificate is an authority's and not a server's"),
        E::UnsupportedCertVersion => verify_error(1, "the certificate is not of X.509 version 3"),
        other => verify_error(1, &other.to_string()),
    }
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
        match trust.check(own, sent, name, Basis { algorithms: &self.algorithms, now }) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(refused) => Err(CertificateError::Other(OtherError(Arc::new(refused))).into()),
        }
    }

    /// Nothing of the certificate but its key is read: it may be of version 1.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let info = key_info(own)?;
        let bits = key_bits(info).and_then(|bits| bits.strip_prefix(&[0]));
        let (Some(key), Some(algorithm)) = (bits, key_algorithm(info)) else {
            return Err(CertificateError::BadEncoding.into());
        };
        let mapped = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, candidates) = mapped.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let mut fitting = candidates.iter().filter(|known| known.public_key_alg_id().as_ref() == algorithm);
        match fitting.any(|known| known.verify_signature(key, message, signed.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let info = SubjectPublicKeyInfoDer::from(key_info(own)?);
        verify_tls13_signature_with_raw_key(message, &info, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn key_info<'a>(own: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let fields = Fields::of(own).ok_or(CertificateError::BadEncoding)?;
    Ok(fields.key_info)
}
