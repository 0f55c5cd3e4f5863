//! Lists of revoked certificates (RFC 5280, section 5).

use crate::x509::{element, seconds, split};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::collections::HashSet;
use std::sync::OnceLock;

/// The extension that tells where a list is found, and what it is about.
const DISTRIBUTION_POINT: &[u8] = &[0x55, 0x1d, 0x1c];

/// A list of revoked certificates of one issuer.
pub(crate) struct RevocationList {
    der: CertificateRevocationListDer<'static>,
    issuer: Box<[u8]>,
    /// When it begins to count, in seconds since 1970.
    pub(crate) begins: i64,
    /// When the next one is due.
    pub(crate) ends: Option<i64>,
    serials: HashSet<Box<[u8]>>,
    /// The key that was found to have signed it.
    signed_by: OnceLock<Box<[u8]>>,
}

/// What the signature of a list covers, and the signature.
struct Signed<'a> {
    content: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl RevocationList {
    /// Reads all lists of a PEM text; `None` if one is malformed or of a kind that is not known here: one with
    /// critical extensions, such as those of lists that are partial or indirect.
    pub(crate) fn read(text: &[u8]) -> Option<Vec<RevocationList>> {
        CertificateRevocationListDer::pem_slice_iter(text).map(|der| RevocationList::of(der.ok()?)).collect()
    }

    fn of(der: CertificateRevocationListDer<'static>) -> Option<RevocationList> {
        const INTEGER: u8 = 0x02;
        const SEQUENCE: u8 = 0x30;
        const EXTENSIONS: u8 = 0xa0;
        let (_, mut rest, _) = element(Signed::of(&der)?.content)?;
        if rest.first() == Some(&INTEGER) {
            rest = element(rest)?.2;
        }
        let (_, _, rest) = element(rest)?;
        let (_, issuer, rest) = element(rest)?;
        let (tag, text, mut rest) = element(rest)?;
        let begins = seconds(tag, text)?;
        let mut ends = None;
        if rest.first().is_some_and(|&tag| tag != SEQUENCE && tag != EXTENSIONS) {
            let (tag, text, after) = element(rest)?;
            (ends, rest) = (Some(seconds(tag, text)?), after);
        }
        let mut serials = HashSet::new();
        if rest.first() == Some(&SEQUENCE) {
            let (_, mut entries, after) = element(rest)?;
            while !entries.is_empty() {
                let (_, entry, next) = element(entries)?;
                serials.insert(revoked(entry)?.into());
                entries = next;
            }
            rest = after;
        }
        if rest.first() == Some(&EXTENSIONS) && has_critical(element(element(rest)?.1)?.1)? {
            return None;
        }
        let issuer = issuer.into();
        Some(RevocationList { der, issuer, begins, ends, serials, signed_by: OnceLock::new() })
    }

    /// Whether it is the list of this issuer.
    pub(crate) fn is_of(&self, issuer: &[u8]) -> bool {
        *self.issuer == *issuer
    }

    /// Whether the certificate with this serial number is revoked.
    pub(crate) fn has(&self, serial: &[u8]) -> bool {
        self.serials.contains(serial)
    }

    /// Whether this key signed it. Lists may be long, so a key that did is remembered.
    pub(crate) fn is_signed_by(
        &self,
        key_info: &[u8],
        verify: impl FnOnce(&[u8], &[u8], &[u8]) -> bool,
    ) -> bool {
        if self.signed_by.get().is_some_and(|known| **known == *key_info) {
            return true;
        }
        let Some(Signed { content, algorithm, signature }) = Signed::of(&self.der) else { return false };
        let is_right = verify(content, algorithm, signature);
        if is_right {
            let _ = self.signed_by.set(key_info.into());
        }
        is_right
    }
}

impl<'a> Signed<'a> {
    fn of(der: &'a [u8]) -> Option<Signed<'a>> {
        let (_, whole, _) = element(der)?;
        let (content, rest) = split(whole)?;
        let (_, algorithm, rest) = element(rest)?;
        let (_, bits, _) = element(rest)?;
        Some(Signed { content, algorithm, signature: bits.strip_prefix(&[0])? })
    }
}

/// The serial number of an entry. An entry with critical extensions is about other certificates than it seems.
fn revoked(entry: &[u8]) -> Option<&[u8]> {
    let (_, serial, rest) = element(entry)?;
    let (_, _, rest) = element(rest)?;
    let is_plain = rest.is_empty() || !has_critical(element(rest)?.1)?;
    is_plain.then_some(serial)
}

/// Whether a list is about all certificates of its issuer, by its distribution point (RFC 5280, section 5.2.5).
fn is_whole(value: &[u8]) -> Option<bool> {
    const NAME: u8 = 0xa0;
    let (_, mut rest, _) = element(element(value)?.1)?;
    while let Some((NAME, _, next)) = element(rest) {
        rest = next;
    }
    Some(rest.is_empty())
}

/// Whether there are critical extensions other than the place of a list.
fn has_critical(mut rest: &[u8]) -> Option<bool> {
    const TRUE: &[u8] = &[0x01, 0x01, 0xff];
    while !rest.is_empty() {
        let (_, extension, next) = element(rest)?;
        let (_, identifier, value) = element(extension)?;
        if let Some(value) = value.strip_prefix(TRUE)
            && !(identifier == DISTRIBUTION_POINT && is_whole(value)?)
        {
            return Some(true);
        }
        rest = next;
    }
    Some(false)
}
