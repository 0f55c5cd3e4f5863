//! The certificate that a client showed, as variables of a request show it.

use crate::distinguished_name::{common_name, oneline, rfc2253};
use crate::verdict::Verdict;
use crate::x509::Fields;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use http::base64::encode;
use http::hex;
use rustls::SignatureScheme;

/// Seconds of a day.
const DAY: i64 = 86400;

/// The certificate that a client showed, and what was found about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    pub(crate) der: Box<[u8]>,
    /// What is wrong with it, if anything is.
    pub fault: Option<Verdict>,
    pub(crate) scheme: Option<SignatureScheme>,
}

impl PeerCertificate {
    /// The certificate as PEM.
    pub fn pem(&self) -> String {
        const LINE: usize = 64;
        let text = encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = &*text;
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(LINE));
            pem += line;
            pem.push('\n');
            rest = after;
        }
        pem + "-----END CERTIFICATE-----\n"
    }

    /// The name of its subject (RFC 2253).
    pub fn subject(&self) -> String {
        self.fields().map(|fields| rfc2253(fields.subject)).unwrap_or_default()
    }

    /// The first common name of its subject.
    pub fn common_name(&self) -> Option<String> {
        common_name(self.fields()?.subject)
    }

    /// The name of its issuer (RFC 2253).
    pub fn issuer(&self) -> String {
        self.fields().map(|fields| rfc2253(fields.issuer)).unwrap_or_default()
    }

    /// The name of its subject with slashes, in the order of the certificate.
    pub fn subject_oneline(&self) -> String {
        self.fields().map(|fields| oneline(fields.subject)).unwrap_or_default()
    }

    /// The name of its issuer with slashes, in the order of the certificate.
    pub fn issuer_oneline(&self) -> String {
        self.fields().map(|fields| oneline(fields.issuer)).unwrap_or_default()
    }

    /// Its serial number in hexadecimal digits.
    pub fn serial(&self) -> String {
        self.fields().map(|fields| serial(fields.serial)).unwrap_or_default()
    }

    /// Its SHA-1 digest in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, &self.der);
        hex::text(digest.as_ref())
    }

    /// When it begins and ends to be valid, in seconds since 1970.
    pub fn times(&self) -> (Option<i64>, Option<i64>) {
        self.fields().map_or((None, None), |fields| fields.times())
    }

    /// How many days it is still valid, at this time in seconds since 1970.
    pub fn days_left(&self, now: i64) -> Option<i64> {
        self.times().1.map(|end| ((end - now) / DAY).max(0))
    }

    /// The scheme that the client signed the handshake by (RFC 8446, section 4.2.3), if it did not resume a session.
    pub fn signature_algorithm(&self) -> Option<&'static str> {
        self.scheme.map(scheme_name)
    }

    fn fields(&self) -> Option<Fields<'_>> {
        Fields::of(&self.der)
    }
}

/// The name of a signature scheme (RFC 8446, section 4.2.3).
pub(crate) fn scheme_name(scheme: SignatureScheme) -> &'static str {
    match scheme {
        SignatureScheme::RSA_PKCS1_SHA256 => "rsa_pkcs1_sha256",
        SignatureScheme::RSA_PKCS1_SHA384 => "rsa_pkcs1_sha384",
        SignatureScheme::RSA_PKCS1_SHA512 => "rsa_pkcs1_sha512",
        SignatureScheme::ECDSA_NISTP256_SHA256 => "ecdsa_secp256r1_sha256",
        SignatureScheme::ECDSA_NISTP384_SHA384 => "ecdsa_secp384r1_sha384",
        SignatureScheme::ECDSA_NISTP521_SHA512 => "ecdsa_secp521r1_sha512",
        SignatureScheme::RSA_PSS_SHA256 => "rsa_pss_rsae_sha256",
        SignatureScheme::RSA_PSS_SHA384 => "rsa_pss_rsae_sha384",
        SignatureScheme::RSA_PSS_SHA512 => "rsa_pss_rsae_sha512",
        SignatureScheme::ED25519 => "ed25519",
        SignatureScheme::ED448 => "ed448",
        _ => "",
    }
}

/// A number in hexadecimal digits, two for each byte, without leading zeros.
fn serial(bytes: &[u8]) -> String {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if is_negative {
        // The two's complement, from its last byte on.
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let significant = magnitude.iter().position(|&byte| byte != 0);
    let digits: String = match significant {
        Some(start) => magnitude[start..].iter().map(|byte| format!("{byte:02X}")).collect(),
        None => "00".to_owned(),
    };
    if is_negative { format!("-{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfSigned;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn certificate_is_shown_as_it_was_written() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
        let peer = PeerCertificate { der: der.as_ref().into(), fault: None, scheme: None };
        assert_eq!(peer.pem(), made.certificate.replace("\r\n", "\n"));
        assert_eq!(peer.subject(), "CN=a.example");
        assert_eq!(peer.issuer_oneline(), "/CN=a.example");
        assert_eq!(peer.fingerprint().len(), 40);
        let end = peer.times().1.unwrap();
        assert_eq!(peer.days_left(end - 3 * DAY), Some(3));
        assert_eq!(peer.days_left(end + 3 * DAY), Some(0));
        let broken = PeerCertificate { der: Box::default(), ..peer };
        assert_eq!((broken.subject(), broken.serial(), broken.days_left(0)), Default::default());
    }

    #[test]
    fn serial_numbers_are_hexadecimal() {
        for (bytes, text) in [
            (&[0][..], "00"),
            (&[7], "07"),
            (&[0, 0xff], "FF"),
            (&[0x10, 0], "1000"),
            (&[0xff], "-01"),
            (&[0x80, 0], "-8000"),
        ] {
            assert_eq!(serial(bytes), text);
        }
    }
}
