//! A self-signed certificate, for a server on one's own machine.

use aws_lc_rs::digest::{self, SHA256};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

/// A certificate of a name's own making.
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
        let digest = digest::digest(&SHA256, certificate.der());
        let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let fingerprint = pairs.join(":");
        Ok(SelfSigned { certificate: certificate.pem(), key: key.serialize_pem(), fingerprint })
    }
}

#[cfg(test)]
mod tests {
    use super::SelfSigned;
    use crate::Pair;

    #[test]
    fn it_can_be_served() {
        let made = SelfSigned::new(&["localhost", "127.0.0.1", "::1"]).unwrap();
        assert!(Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").is_ok());
        assert_eq!(made.fingerprint.len(), 32 * 3 - 1);
        assert_ne!(made.fingerprint, SelfSigned::new(&["localhost"]).unwrap().fingerprint);
    }
}
