//! Certificates and keys as files hold them: PEM (RFC 7468).
//!
//! Of a server's own certificate nothing is read but its public key, to see that the private key belongs to it.
//! So whatever clients accept is served: X.509 of version 1, a name in the subject only, unknown extensions.

use aws_lc_rs::digest::{self, SHA256};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;
use thiserror::Error;

/// A certificate with its chain and its private key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) digest: [u8; 32],
}

/// Why a pair cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The text has no certificate.
    #[error("no certificate in PEM form is there")]
    NoCertificate,
    /// What is there is no certificate.
    #[error("the certificate is malformed")]
    BadCertificate,
    /// The text has no private key.
    #[error("no private key in PEM form is there")]
    NoKey,
    /// The key needs a password.
    #[error("the key is encrypted")]
    EncryptedKey,
    /// The key is none that can be signed with.
    #[error("the key is malformed, of an unknown kind, or RSA of less than 2048 bits")]
    BadKey,
    /// The key is another certificate's.
    #[error("key values mismatch")]
    Mismatch,
}

impl LoadError {
    /// Whether the key's file is at fault, and not the certificate's.
    pub fn is_about_key(self) -> bool {
        !matches!(self, LoadError::NoCertificate | LoadError::BadCertificate)
    }
}

impl Pair {
    /// Reads a certificate, followed by the chain to its issuer, and a key as PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Pair, LoadError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|_| LoadError::BadCertificate)?;
        let own = chain.first().ok_or(LoadError::NoCertificate)?;
        let public = public_key(own).ok_or(LoadError::BadCertificate)?.to_vec();
        let is_encrypted = || key.windows(9).any(|part| part == b"ENCRYPTED");
        let no_key = |_| if is_encrypted() { LoadError::EncryptedKey } else { LoadError::NoKey };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(no_key)?;
        let key = any_supported_type(&key).map_err(|_| match is_encrypted() {
            true => LoadError::EncryptedKey,
            false => LoadError::BadKey,
        })?;
        if let Some(spki) = key.public_key()
            && key_bits(&spki) != Some(&*public)
        {
            return Err(LoadError::Mismatch);
        }
        let digest = digest::digest(&SHA256, own);
        let digest = digest.as_ref().try_into().map_err(|_| LoadError::BadCertificate)?;
        Ok(Pair { certified: Arc::new(CertifiedKey::new(chain, key)), digest })
    }

    /// Whether the key can sign by one of these schemes.
    pub(crate) fn signs(&self, offered: &[SignatureScheme]) -> bool {
        self.certified.key.choose_scheme(offered).is_some()
    }

    /// The kind of the key.
    pub(crate) fn algorithm(&self) -> SignatureAlgorithm {
        self.certified.key.algorithm()
    }
}

/// The bits of the public key of a certificate (RFC 5280, section 4.1).
fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Serial number, signature algorithm, issuer, validity and subject stand before the key.
    for _ in 0..5 {
        rest = element(rest)?.2;
    }
    let whole = rest.len() - element(rest)?.2.len();
    key_bits(&rest[..whole])
}

/// The bit string of a SubjectPublicKeyInfo.
fn key_bits(info: &[u8]) -> Option<&[u8]> {
    const BIT_STRING: u8 = 0x03;
    let (_, info, _) = element(info)?;
    let (_, _, rest) = element(info)?;
    let (tag, bits, _) = element(rest)?;
    (tag == BIT_STRING).then_some(bits)
}

/// The first element of DER bytes: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        length = rest.get(..count)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        rest = &rest[count..];
    }
    Some((tag, rest.get(..length)?, &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    fn made(key: &KeyPair) -> String {
        CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(key).unwrap().pem()
    }

    #[test]
    fn a_key_belongs_to_its_certificate() {
        let keys = [
            KeyPair::generate().unwrap(),
            KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap(),
            KeyPair::generate_for(&PKCS_ED25519).unwrap(),
        ];
        for (index, key) in keys.iter().enumerate() {
            let certificate = made(key);
            for (other, key) in keys.iter().enumerate() {
                let pair = Pair::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes());
                assert_eq!(pair.is_ok(), index == other);
                assert!(pair.is_ok() || pair.is_err_and(|error| error == LoadError::Mismatch));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let key = KeyPair::generate().unwrap();
        let (certificate, key) = (made(&key), key.serialize_pem());
        let error = |certificate: &str, key: &str| {
            Pair::from_pem(certificate.as_bytes(), key.as_bytes()).map(|_| ()).unwrap_err()
        };
        assert_eq!(error("", &key), LoadError::NoCertificate);
        assert_eq!(error(&key, &key), LoadError::NoCertificate);
        assert_eq!(error(&certificate, ""), LoadError::NoKey);
        assert_eq!(error(&certificate, &certificate), LoadError::NoKey);
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        assert_eq!(error(&certificate, &encrypted), LoadError::EncryptedKey);
        let broken = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
        assert_eq!(error(broken, &key), LoadError::BadCertificate);
        let broken = "-----BEGIN PRIVATE KEY-----\nMAMCAQA=\n-----END PRIVATE KEY-----\n";
        assert_eq!(error(&certificate, broken), LoadError::BadKey);
    }

    #[test]
    fn no_bytes_are_read_past_the_end() {
        let key = KeyPair::generate().unwrap();
        let der = CertificateDer::from_pem_slice(made(&key).as_bytes()).unwrap();
        assert!(public_key(&der).is_some());
        for length in 0..der.len() {
            assert_eq!(public_key(&der[..length]), None);
        }
        assert_eq!(element(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(element(&[0x30, 0x80, 0, 0]), None);
    }
}
