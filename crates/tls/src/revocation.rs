//! Lists of revoked certificates (RFC 5280, section 5).

use crate::extensions::Extension;
use crate::pem::{Section, Unreadable, sections};
use crate::x509::{element, seconds, split};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::collections::HashSet;
use std::sync::OnceLock;

/// The tag of the name of a place where a list is found, and of its form as a whole name.
const PLACE: u8 = 0xa0;

/// A list of revoked certificates of one issuer.
pub(crate) struct RevocationList {
    der: CertificateRevocationListDer<'static>,
    issuer: Box<[u8]>,
    /// When it begins to count, in seconds since 1970.
    pub(crate) begins: i64,
    /// When the next one is due.
    pub(crate) ends: Option<i64>,
    serials: HashSet<Box<[u8]>>,
    /// The names of its place, one after the other, if it is about the certificates only that name the place.
    place: Option<Box<[u8]>>,
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
    /// Reads all lists of a PEM text. Fails if one is malformed or of a kind that is not known here: one with
    /// critical extensions, such as those of lists that are partial or indirect.
    pub(crate) fn read(text: &[u8]) -> Result<Vec<RevocationList>, Unreadable> {
        const LABEL: &str = "X509 CRL";
        let read = |section: Section<'_>| {
            RevocationList::of(CertificateRevocationListDer::from_pem_slice(&section.text(LABEL)).ok()?)
        };
        let sections = sections(text).filter(|section| match section {
            Ok(section) => section.label == LABEL,
            Err(_) => true,
        });
        sections.map(|section| read(section?).ok_or(Unreadable::Content)).collect()
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
        let place = match rest.first() {
            Some(&EXTENSIONS) => read_place(element(element(rest)?.1)?.1)?.map(Box::from),
            _ => None,
        };
        let issuer = issuer.into();
        Some(RevocationList { der, issuer, begins, ends, serials, place, signed_by: OnceLock::new() })
    }

    /// Whether it is the list of this issuer.
    pub(crate) fn is_of(&self, issuer: &[u8]) -> bool {
        *self.issuer == *issuer
    }

    /// Whether it is about a certificate that names these places of lists (RFC 5280, section 4.2.1.13).
    pub(crate) fn is_about(&self, places: Option<&[u8]>) -> bool {
        let Some(own) = &self.place else { return true };
        let mut rest = places.unwrap_or_default();
        while let Some((_, place, next)) = element(rest) {
            if names_of(place).is_some_and(|names| shares_element(names, own)) {
                return true;
            }
            rest = next;
        }
        false
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
    let mut rest = if rest.is_empty() { rest } else { element(rest)?.1 };
    while !rest.is_empty() {
        let (extension, next) = Extension::first(rest)?;
        if extension.is_critical {
            return None;
        }
        rest = next;
    }
    Some(serial)
}

/// Reads the extensions of a list: the names of its place, if it has one. `None` for a list that is not about all kinds of
/// certificates and reasons, or adds to another one (RFC 5280, sections 5.2.4 and 5.2.5).
fn read_place(mut rest: &[u8]) -> Option<Option<&[u8]>> {
    const DELTA: &[u8] = &[0x55, 0x1d, 0x1b];
    const DISTRIBUTION_POINT: &[u8] = &[0x55, 0x1d, 0x1c];
    let mut place = None;
    while !rest.is_empty() {
        let (extension, next) = Extension::first(rest)?;
        if extension.identifier == DISTRIBUTION_POINT {
            let (_, point, _) = element(extension.value)?;
            place = if point.is_empty() { None } else { Some(names_of(point)?) };
        } else if extension.is_critical || extension.identifier == DELTA {
            return None;
        }
        rest = next;
    }
    Some(place)
}

/// The names of a place, one after the other, if nothing else is said about it and they are whole.
fn names_of(point: &[u8]) -> Option<&[u8]> {
    let (tag, name, after) = element(point)?;
    let (form, names, _) = element(name)?;
    (tag == PLACE && form == PLACE && after.is_empty()).then_some(names)
}

/// Whether an element of one sequence is among those of the other one.
fn shares_element(mut one: &[u8], two: &[u8]) -> bool {
    while let Some((name, next)) = split(one) {
        let mut rest = two;
        while let Some((other, after)) = split(rest) {
            if name == other {
                return true;
            }
            rest = after;
        }
        one = next;
    }
    false
}
