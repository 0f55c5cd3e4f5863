//! What can be wrong with a certificate, by the numbers and in the words of OpenSSL, which nginx logs and shows.

use std::fmt;

/// Why a certificate was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    number: u8,
    text: &'static str,
}

macro_rules! verdicts {
    ($($name:ident $number:literal $text:literal)*) => {
        impl Verdict {
            $(#[doc = $text] pub const $name: Verdict = Verdict { number: $number, text: $text };)*
        }
    };
}

verdicts! {
    UNSPECIFIED 1 "unspecified certificate verification error"
    NO_ISSUER 2 "unable to get issuer certificate"
    NO_LIST 3 "unable to get certificate CRL"
    SIGNATURE 7 "certificate signature failure"
    LIST_SIGNATURE 8 "CRL signature failure"
    EARLY 9 "certificate is not yet valid"
    LATE 10 "certificate has expired"
    EARLY_LIST 11 "CRL is not yet valid"
    LATE_LIST 12 "CRL has expired"
    BAD_BEGIN 13 "format error in certificate's notBefore field"
    BAD_END 14 "format error in certificate's notAfter field"
    SELF_SIGNED 18 "self-signed certificate"
    SELF_SIGNED_IN_CHAIN 19 "self-signed certificate in certificate chain"
    NO_LOCAL_ISSUER 20 "unable to get local issuer certificate"
    UNVERIFIED 21 "unable to verify the first certificate"
    REVOKED 23 "certificate revoked"
    PATH_TOO_LONG 25 "path length constraint exceeded"
    UNSUITABLE 26 "unsuitable certificate purpose"
    MAY_SIGN_NOTHING 32 "key usage does not include certificate signing"
    UNKNOWN_EXTENSION 34 "unhandled critical extension"
    MAY_SIGN_NO_LIST 35 "key usage does not include CRL signing"
    BAD_EXTENSION 41 "invalid or inconsistent certificate extension"
    LIST_SCOPE 44 "different CRL scope"
    NAME_NOT_PERMITTED 47 "permitted subtree violation"
    STATUS_FAILED 74 "certificate status request failed"
    STATUS_UNKNOWN 75 "certificate status unknown"
    NO_AUTHORITY 79 "invalid CA certificate"
}

impl Verdict {
    /// Whether only the authority is unknown, which `ssl_verify_client optional_no_ca` accepts.
    pub fn is_unknown_authority(self) -> bool {
        matches!(self.number, 18..=21 | 27)
    }

    /// OpenSSL's number.
    pub fn number(self) -> u8 {
        self.number
    }

    /// The words without the number.
    pub fn text(self) -> &'static str {
        self.text
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", self.number, self.text)
    }
}
