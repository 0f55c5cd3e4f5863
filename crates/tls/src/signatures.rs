//! OpenSSL's names of signature algorithms, and keys that sign by some of them only (`SignatureAlgorithms`).

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::borrow::Cow;
use std::sync::Arc;

/// The names of OpenSSL, in lower case, and the algorithm that each stands for.
const NAMES: [(&str, SignatureScheme); 16] = [
    ("ecdsa_secp256r1_sha256", SignatureScheme::ECDSA_NISTP256_SHA256),
    ("ecdsa+sha256", SignatureScheme::ECDSA_NISTP256_SHA256),
    ("ecdsa_secp384r1_sha384", SignatureScheme::ECDSA_NISTP384_SHA384),
    ("ecdsa+sha384", SignatureScheme::ECDSA_NISTP384_SHA384),
    ("ecdsa_secp521r1_sha512", SignatureScheme::ECDSA_NISTP521_SHA512),
    ("ecdsa+sha512", SignatureScheme::ECDSA_NISTP521_SHA512),
    ("ed25519", SignatureScheme::ED25519),
    ("rsa_pss_rsae_sha256", SignatureScheme::RSA_PSS_SHA256),
    ("rsa-pss+sha256", SignatureScheme::RSA_PSS_SHA256),
    ("rsa_pss_rsae_sha384", SignatureScheme::RSA_PSS_SHA384),
    ("rsa-pss+sha384", SignatureScheme::RSA_PSS_SHA384),
    ("rsa_pss_rsae_sha512", SignatureScheme::RSA_PSS_SHA512),
    ("rsa-pss+sha512", SignatureScheme::RSA_PSS_SHA512),
    ("rsa+sha256", SignatureScheme::RSA_PKCS1_SHA256),
    ("rsa+sha384", SignatureScheme::RSA_PKCS1_SHA384),
    ("rsa+sha512", SignatureScheme::RSA_PKCS1_SHA512),
];

/// Names of algorithms that no key here uses. A list may have them.
const UNUSED: [&str; 8] = [
    "ed448",
    "rsa_pss_pss_sha256",
    "rsa_pss_pss_sha384",
    "rsa_pss_pss_sha512",
    "rsa+sha224",
    "ecdsa+sha224",
    "rsa+sha1",
    "ecdsa+sha1",
];

/// Whether a list names algorithms that are known here, joined by `:`, one of which can be used.
pub fn are_signatures(list: &str) -> bool {
    schemes(list).is_some_and(|schemes| !schemes.is_empty())
}

/// The algorithms of a list; `None` if one of them is unknown. A `?` in front of an unknown name is OpenSSL's mark for a name that
/// may be unknown.
pub(crate) fn schemes(list: &str) -> Option<Vec<SignatureScheme>> {
    let mut chosen = Vec::new();
    for name in list.split(':').filter(|name| !name.is_empty()) {
        let lower = name.to_ascii_lowercase();
        let (lower, may_be_unknown) = lower.strip_prefix('?').map_or((&*lower, false), |rest| (rest, true));
        // OpenSSL 3 has these names of TLS for RSA, too.
        let lower = lower.replace("rsa_pkcs1_", "rsa+");
        match NAMES.iter().find(|(known, _)| *known == lower) {
            Some((_, scheme)) => chosen.push(*scheme),
            None if may_be_unknown || UNUSED.contains(&&*lower) => {}
            None => return None,
        }
    }
    Some(chosen)
}

/// A key that signs by some algorithms only.
#[derive(Debug)]
struct LimitedKey {
    key: Arc<dyn SigningKey>,
    allowed: Arc<[SignatureScheme]>,
}

impl SigningKey for LimitedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.key.choose_scheme(&common(offered, &self.allowed))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// Those of the offered algorithms that are allowed; all if none are named.
pub(crate) fn common<'s>(
    offered: &'s [SignatureScheme],
    allowed: &[SignatureScheme],
) -> Cow<'s, [SignatureScheme]> {
    match allowed {
        [] => Cow::Borrowed(offered),
        _ => offered.iter().copied().filter(|scheme| allowed.contains(scheme)).collect(),
    }
}

/// The same certificate, whose key signs by these algorithms only; by all if there are none.
pub(crate) fn limited(certified: Arc<CertifiedKey>, allowed: &Arc<[SignatureScheme]>) -> Arc<CertifiedKey> {
    if allowed.is_empty() {
        return certified;
    }
    let CertifiedKey { cert, key, ocsp } = &*certified;
    let key = Arc::new(LimitedKey { key: Arc::clone(key), allowed: Arc::clone(allowed) });
    Arc::new(CertifiedKey { cert: cert.clone(), key, ocsp: ocsp.clone() })
}

#[cfg(test)]
mod tests {
    use super::{are_signatures, limited, schemes};
    use crate::{Pair, SelfSigned};
    use rustls::SignatureScheme as Scheme;

    #[test]
    fn lists_as_people_write_them() {
        let two = vec![Scheme::ECDSA_NISTP256_SHA256, Scheme::RSA_PSS_SHA384];
        assert_eq!(schemes("ECDSA+SHA256:RSA-PSS+SHA384"), Some(two.clone()));
        assert_eq!(schemes("ecdsa_secp256r1_sha256:rsa_pss_rsae_sha384:ed448:?new"), Some(two));
        assert_eq!(schemes("rsa_pkcs1_sha256"), Some(vec![Scheme::RSA_PKCS1_SHA256]));
        for wrong in ["", "ed448", "what", "ECDSA+SHA256:what"] {
            assert!(!are_signatures(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_key_signs_by_the_allowed_algorithms_only() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let (own, other) = (Scheme::ECDSA_NISTP256_SHA256, Scheme::ED25519);
        let pair = Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").unwrap();
        let signs = |allowed: &[Scheme]| {
            limited(pair.certified(), &allowed.into()).key.choose_scheme(&[other, own]).is_some()
        };
        assert!(signs(&[]) && signs(&[other, own]));
        assert!(!signs(&[other]));
    }
}
