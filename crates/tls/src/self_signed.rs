//! A certificate that is made here, for a server on one's own machine.

use aws_lc_rs::digest::{self, SHA256};
use rcgen::{Certificate, CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A certificate that was made here, with its key. It is self-signed, or issued by a [`LocalAuthority`](crate::LocalAuthority).
#[derive(Debug)]
pub struct SelfSigned {
    /// The certificate as PEM.
    pub certificate: String,
    /// Its key as PEM.
    pub key: String,
    /// The SHA-256 digest of the certificate, in pairs of hex digits joined by colons, as browsers show it.
    pub fingerprint: String,
}

impl SelfSigned {
    /// Makes a key and a certificate for these host names and IP addresses; the first is its subject.
    ///
    /// # Errors
    /// A name is no name, or the system gave no random bytes; the text says so.
    pub fn new(names: &[&str]) -> Result<SelfSigned, String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
        let made = || {
            let mut parameters = CertificateParams::new(names)?;
            parameters.distinguished_name = subject;
            let key = KeyPair::generate()?;
            Ok((parameters.self_signed(&key)?, key))
        };
        let (certificate, key) = made().map_err(|error: rcgen::Error| error.to_string())?;
        Ok(SelfSigned::of(&certificate, &key))
    }

    /// A certificate and its key, as PEM, that were made before; `None` if the text is no certificate.
    pub fn from_pem(certificate: String, key: String) -> Option<SelfSigned> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let fingerprint = fingerprint(&der);
        Some(SelfSigned { certificate, key, fingerprint })
    }

    /// This certificate with its key.
    pub(crate) fn of(certificate: &Certificate, key: &KeyPair) -> SelfSigned {
        let fingerprint = fingerprint(certificate.der());
        SelfSigned { certificate: certificate.pem(), key: key.serialize_pem(), fingerprint }
    }
}

fn fingerprint(der: &[u8]) -> String {
    let digest = digest::digest(&SHA256, der);
    let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use super::SelfSigned;
    use crate::Pair;

    #[test]
    fn it_can_be_served() {
        let made = SelfSigned::new(&["localhost", "127.0.0.1", "::1"]).unwrap();
        let again = SelfSigned::from_pem(made.certificate.clone(), made.key.clone()).unwrap();
        assert_eq!(again.fingerprint, made.fingerprint);
        assert!(Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").is_ok());
        assert_eq!(made.fingerprint.len(), 32 * 3 - 1);
        assert_ne!(made.fingerprint, SelfSigned::new(&["localhost"]).unwrap().fingerprint);
    }
}
