//! Certificates and keys as files hold them: PEM (RFC 7468).
//!
//! Of a server's own certificate nothing is read but its public key, to see that the private key belongs to it.
//! So whatever clients accept is served: X.509 of version 1, a name in the subject only, unknown extensions.

use crate::distinguished_name::common_names;
use crate::extensions::Extensions;
use crate::noted::Noting;
use crate::pem::{Unreadable, sections};
use crate::policy::Digest;
use crate::x509::{Fields, certificates, element, key_bits};
use crate::{Staple, encrypted_key};
use aws_lc_rs::digest::{self, SHA256};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;
use thiserror::Error;

/// A certificate with its chain and its private key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) digest: [u8; 32],
    /// Whether a password opened the key.
    pub(crate) was_encrypted: bool,
    /// The answer of a responder that is fetched while connections are served.
    pub(crate) staple: Option<Arc<Staple>>,
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
    /// The line with this number begins or ends a section of the certificate in a wrong way.
    #[error("line {0}: a BEGIN or END line must stand alone, and each BEGIN needs its END")]
    BadLine(usize),
    /// The text has no private key.
    #[error("no private key in PEM form is there")]
    NoKey,
    /// The line with this number begins or ends a section before the end of the key in a wrong way.
    #[error("line {0}: a BEGIN or END line must stand alone, and each BEGIN needs its END")]
    BadKeyLine(usize),
    /// The key needs a password.
    #[error("the key is encrypted")]
    EncryptedKey,
    /// The passwords do not fit.
    #[error("no password opens the key, or it is encrypted by something else than AES")]
    BadPassword,
    /// The key cannot sign.
    #[error("the key is malformed, of an unknown kind, or RSA of less than 2048 bits")]
    BadKey,
    /// The key is another certificate's.
    #[error("key values mismatch")]
    Mismatch,
}

/// The common name of the issuer of the last certificate of a chain, which is PEM text.
pub fn chain_issuer(text: &[u8]) -> Option<String> {
    let chain = certificates(text).ok()?;
    common_names(Fields::of(chain.last()?)?.issuer).next()
}

impl LoadError {
    /// The function of OpenSSL that nginx names in its message.
    pub fn call(self) -> &'static str {
        match self {
            LoadError::Mismatch => "SSL_CTX_use_PrivateKey()",
            _ if self.is_about_key() => "PEM_read_bio_PrivateKey()",
            _ => "PEM_read_bio_X509_AUX()",
        }
    }

    /// Whether the key's file is at fault, and not the certificate's.
    pub fn is_about_key(self) -> bool {
        !matches!(self, LoadError::NoCertificate | LoadError::BadCertificate | LoadError::BadLine(_))
    }
}

impl Pair {
    /// Reads a certificate, followed by the chain to its issuer, and a key as PKCS#8, PKCS#1 or SEC1. One of the
    /// passwords, a line each, may open it.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn from_pem(certificate: &[u8], key: &[u8], passwords: &[u8]) -> Result<Pair, LoadError> {
        let lines = passwords.split(|&byte| byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let passwords: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        let chain = certificates(certificate).map_err(|error| match error {
            Unreadable::Line(line) => LoadError::BadLine(line),
            Unreadable::Content => LoadError::BadCertificate,
        })?;
        let own = chain.first().ok_or(LoadError::NoCertificate)?;
        let info = Fields::of(own).ok_or(LoadError::BadCertificate)?.key_info;
        let public = key_bits(info).ok_or(LoadError::BadCertificate)?.to_vec();
        let key = &first_key(key)?;
        let is_encrypted = key.windows(9).any(|part| part == b"ENCRYPTED");
        let key = match encrypted_key::open(key, &passwords) {
            Some(key) => Ok(key),
            None if is_encrypted && !passwords.is_empty() => Err(LoadError::BadPassword),
            None if is_encrypted => Err(LoadError::EncryptedKey),
            None => PrivateKeyDer::from_pem_slice(key).map_err(|_| LoadError::NoKey),
        };
        let key = any_supported_type(&key?).map_err(|_| LoadError::BadKey)?;
        let key: Arc<dyn SigningKey> = Arc::new(Noting(key));
        if let Some(spki) = key.public_key()
            && key_bits(&spki) != Some(&*public)
        {
            return Err(LoadError::Mismatch);
        }
        let digest = digest::digest(&SHA256, own);
        let digest = digest.as_ref().try_into().map_err(|_| LoadError::BadCertificate)?;
        let certified = Arc::new(CertifiedKey::new(chain, key));
        Ok(Pair { certified, digest, was_encrypted: is_encrypted, staple: None })
    }

    /// The same pair, sent with an answer of an OCSP responder (RFC 6960, section 4.2.1). `None` if the bytes are none.
    pub fn stapled(&self, answer: &[u8]) -> Option<Pair> {
        const SEQUENCE: u8 = 0x30;
        const ENUMERATED: u8 = 0x0a;
        let (tag, content, rest) = element(answer)?;
        if tag != SEQUENCE || !rest.is_empty() || element(content)?.0 != ENUMERATED {
            return None;
        }
        let certified = CertifiedKey { ocsp: Some(answer.to_vec()), ..(*self.certified).clone() };
        Some(Pair { certified: Arc::new(certified), ..self.clone() })
    }

    /// The same pair, sent with an answer that may change.
    #[must_use]
    pub fn with_staple(&self, staple: &Arc<Staple>) -> Pair {
        Pair { staple: Some(Arc::clone(staple)), ..self.clone() }
    }

    /// The certificate with the answer that is sent with it at this time, and the key.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        let stapled = self.staple.as_ref().and_then(|staple| staple.certified());
        stapled.unwrap_or_else(|| Arc::clone(&self.certified))
    }

    /// A digest of the chain and the key.
    pub fn identity(&self) -> [u8; 32] {
        let mut digest = Digest::new();
        self.add_to(&mut digest);
        digest.finish()
    }

    /// When the certificate begins and ends to be valid, in seconds since 1970; `None` if that cannot be read.
    pub fn times(&self) -> Option<(i64, i64)> {
        let (begin, end) = Fields::of(self.certified.cert.first()?)?.times();
        Some((begin?, end?))
    }

    /// By what an authority knows a certificate that it issued (RFC 9773, section 4.1): the identifier of the authority's
    /// key and the serial number, as their bytes are.
    pub fn issued_as(&self) -> Option<(&[u8], &[u8])> {
        let fields = Fields::of(self.certified.cert.first()?)?;
        Some((Extensions::of(fields.extensions)?.authority_key?, fields.serial))
    }

    /// Adds the chain and the key. The private key is represented by its public key.
    pub(crate) fn add_to(&self, parts: &mut Digest) {
        // The digest is that of the first certificate.
        let Pair { certified, digest: _, was_encrypted: _, staple } = self;
        let CertifiedKey { cert, key, ocsp } = &**certified;
        parts.number(cert.len() as u128);
        cert.iter().for_each(|certificate| parts.bytes(certificate));
        parts.bytes(key.public_key().as_deref().unwrap_or_default());
        parts.bytes(ocsp.as_deref().unwrap_or_default());
        parts.bytes(staple.as_ref().map_or(&[][..], |staple| staple.identity()));
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

/// The first private key of a PEM text, as a separate text. What follows the key is not read, as in nginx.
fn first_key(text: &[u8]) -> Result<Vec<u8>, LoadError> {
    for section in sections(text) {
        let section = section.map_err(|error| match error {
            Unreadable::Line(line) => LoadError::BadKeyLine(line),
            Unreadable::Content => LoadError::BadKey,
        })?;
        if section.label.ends_with("PRIVATE KEY") {
            return Ok(section.text(section.label));
        }
    }
    Err(LoadError::NoKey)
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
                let pair = Pair::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes(), b"");
                assert_eq!(pair.is_ok(), index == other);
                assert!(pair.is_ok() || pair.is_err_and(|error| error == LoadError::Mismatch));
            }
        }
    }

    /// Written by `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc -pass pass:geheim`.
    const SEALED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAi3U6b0R3K3GwICCAAw\n\
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEECDG1KId0RypOSoAtjQLonQEgZBO\n\
        q4LOrV8Vj2x2MxzExj+MITHxKqx9lA6oH/HFE4J9YEzd1LsO6pOqrIEcMyAg1rTT\n\
        0Lf+AiAv1YF5EQjixS5p/TnT7NIG5SXtcU26XxrW4TYAHtQzsI+r+MCwAnsdsnG3\n\
        tIg5gGWh65dnsRNqOCwaSJ18w5Db+m4AHPDpdzCRmwAUGLC45c1xxidPsBM7cmM=\n\
        -----END ENCRYPTED PRIVATE KEY-----";

    #[test]
    fn password_opens_a_key() {
        let key = encrypted_key::open(SEALED.as_bytes(), &[b"no", b"geheim"]).unwrap();
        let key = KeyPair::try_from(key.secret_der()).unwrap();
        let certificate = made(&key);
        let load =
            |passwords: &[u8]| Pair::from_pem(certificate.as_bytes(), SEALED.as_bytes(), passwords).map(drop);
        assert_eq!(load(b"no\r\ngeheim\r\n"), Ok(()));
        assert_eq!(load(b"no"), Err(LoadError::BadPassword));
        assert_eq!(load(b"\n"), Err(LoadError::EncryptedKey));
    }

    /// Written by `openssl ecparam -name prime256v1 -genkey | openssl ec -aes192 -passout pass:geheim`.
    const TRADITIONAL: &str = "-----BEGIN EC PRIVATE KEY-----\n\
        Proc-Type: 4,ENCRYPTED\n\
        DEK-Info: AES-192-CBC,2599AF00E03A4338137CC08F0DBFB98B\n\
        \n\
        jMYTrr6y9oavzEexiMfvVUQc/n/dDbD2vQZURJ+wLcqBJmnxmjIv5dbpAbV39Ujy\n\
        /7E8XBKPaswZbpZ5S4gMRqUMbx+8Y2fShLc7HWk/nwOgpcKjx1zCtN3QDkzGZA3Y\n\
        tvHU94a/Jmkn2kFRRQNR/ZAk8ZWpN3P44KdqnYCOHkA=\n\
        -----END EC PRIVATE KEY-----\n";

    #[test]
    fn password_opens_a_traditional_key() {
        let load = |password: &[u8]| match encrypted_key::open(TRADITIONAL.as_bytes(), &[password]) {
            Some(PrivateKeyDer::Sec1(key)) => any_supported_type(&PrivateKeyDer::Sec1(key)).is_ok(),
            _ => false,
        };
        assert!(load(b"geheim") && !load(b"no"));
        for length in 0..TRADITIONAL.trim_end().len() {
            assert!(
                encrypted_key::open(&TRADITIONAL.as_bytes()[..length], &[b"geheim"]).is_none(),
                "{length}"
            );
        }
    }

    #[test]
    fn certificate_that_openssl_labels_as_trusted_is_read_without_what_follows() {
        let key = KeyPair::generate().unwrap();
        let pem = made(&key);
        let text = pem.replace(" CERTIFICATE-", " TRUSTED CERTIFICATE-");
        let [own, labelled] = [&pem, &text].map(|text| certificates(text.as_bytes()).unwrap());
        assert_eq!(own, labelled);
        assert!(Pair::from_pem(text.as_bytes(), key.serialize_pem().as_bytes(), b"").is_ok());
    }

    #[test]
    fn only_an_answer_of_a_responder_is_stapled() {
        let key = KeyPair::generate().unwrap();
        let pair = Pair::from_pem(made(&key).as_bytes(), key.serialize_pem().as_bytes(), b"").unwrap();
        assert!(pair.stapled(&[0x30, 3, 0x0a, 1, 0]).is_some());
        for wrong in [&[][..], &[0x30, 3, 0x0a, 1], &[0x30, 3, 0x0a, 1, 0, 0], &[0x30, 3, 2, 1, 0], b"text"] {
            assert!(pair.stapled(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let key = KeyPair::generate().unwrap();
        let (certificate, key) = (made(&key), key.serialize_pem());
        let error = |certificate: &str, key: &str| {
            Pair::from_pem(certificate.as_bytes(), key.as_bytes(), b"").map(|_| ()).unwrap_err()
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
}
