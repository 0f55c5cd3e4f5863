//! The extensions of certificates that decide about trust (RFC 5280, section 4.2).

use crate::x509::element;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;

/// A certificate with more extensions is malformed.
const EXTENSIONS_MAX: usize = 100;

/// `keyUsage`: signatures, as in a handshake.
pub(crate) const DIGITAL_SIGNATURE: u16 = 0x8000;
/// `keyUsage`: encryption of keys.
pub(crate) const KEY_ENCIPHERMENT: u16 = 0x2000;
/// `keyUsage`: agreement on keys.
pub(crate) const KEY_AGREEMENT: u16 = 0x0800;
/// `keyUsage`: signatures of certificates.
pub(crate) const CERTIFICATE_SIGN: u16 = 0x0400;
/// `keyUsage`: signatures of lists of revoked certificates.
pub(crate) const CRL_SIGN: u16 = 0x0200;

/// Extensions of a certificate. The default is that of a certificate without extensions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extensions<'a> {
    /// Whether it has basic constraints, and what they say.
    pub(crate) basic: Option<BasicConstraints>,
    /// The bits of the key's usage, the first one as the highest.
    pub(crate) key_usage: Option<u16>,
    /// The identifiers of what the key may be used for, one after the other.
    pub(crate) purposes: Option<&'a [u8]>,
    /// Netscape's type of the certificate.
    pub(crate) netscape: Option<u8>,
    /// The identifier of the certificate's own key.
    pub(crate) subject_key: Option<&'a [u8]>,
    /// The identifier of the issuer's key.
    pub(crate) authority_key: Option<&'a [u8]>,
    /// The serial number of the issuer's certificate.
    pub(crate) authority_serial: Option<&'a [u8]>,
    /// How the names below the certificate are limited.
    pub(crate) name_constraints: Option<&'a [u8]>,
    /// The alternative names of the subject, one after the other.
    pub(crate) alternative_names: Option<&'a [u8]>,
    /// The places of lists of revoked certificates, one after the other.
    pub(crate) list_places: Option<&'a [u8]>,
    /// Whether a critical extension is of a kind that is not known here.
    pub(crate) has_unknown: bool,
}

/// One extension of a certificate or of a list.
pub(crate) struct Extension<'a> {
    pub(crate) identifier: &'a [u8],
    pub(crate) is_critical: bool,
    pub(crate) value: &'a [u8],
}

/// Whether a certificate is an authority's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasicConstraints {
    pub(crate) is_authority: bool,
    /// How many authorities may follow.
    pub(crate) path_length: Option<usize>,
}

impl<'a> Extension<'a> {
    /// Takes the first extension; gives what follows it, too.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<(Extension<'a>, &'a [u8])> {
        let (_, extension, next) = element(bytes)?;
        let (_, identifier, extension) = element(extension)?;
        let (tag, content, after) = element(extension)?;
        let is_critical = tag == BOOLEAN && content != [0];
        let (tag, value) =
            if tag == BOOLEAN { element(after).map(|(tag, value, _)| (tag, value))? } else { (tag, content) };
        (tag == OCTET_STRING).then_some((Extension { identifier, is_critical, value }, next))
    }
}

impl<'a> Extensions<'a> {
    /// Reads the extensions; `None` if one that is known is malformed, if one is there twice, or if there are too many.
    pub(crate) fn of(mut rest: &'a [u8]) -> Option<Extensions<'a>> {
        let mut extensions = Extensions::default();
        let mut seen: Vec<&[u8]> = Vec::new();
        while !rest.is_empty() {
            let (Extension { identifier, is_critical, value }, next) = Extension::first(rest)?;
            rest = next;
            if seen.contains(&identifier) || seen.len() == EXTENSIONS_MAX {
                return None;
            }
            seen.push(identifier);
            let is_known = extensions.read(identifier, value)?;
            extensions.has_unknown |= is_critical && !is_known;
        }
        Some(extensions)
    }

    /// Takes one extension; tells whether its kind is known.
    fn read(&mut self, identifier: &[u8], value: &'a [u8]) -> Option<bool> {
        const NETSCAPE_TYPE: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x01, 0x01];
        const COMMON: [u8; 2] = [0x55, 0x1d];
        if identifier == NETSCAPE_TYPE {
            let (_, bits, _) = element(value)?;
            self.netscape = Some(*bits.get(1)?);
            return Some(true);
        }
        let Some(&[number]) = identifier.strip_prefix(&COMMON) else { return Some(false) };
        match number {
            14 => self.subject_key = Some(element(value)?.1),
            15 => self.key_usage = Some(key_usage(value)?),
            19 => self.basic = Some(basic_constraints(value)?),
            17 => self.alternative_names = Some(element(value)?.1),
            30 => self.name_constraints = Some(element(value)?.1),
            31 => self.list_places = Some(element(value)?.1),
            35 => self.read_authority(element(value)?.1)?,
            37 => self.purposes = Some(element(value)?.1),
            // Names of the issuer, policies. OpenSSL ignores policies by default.
            18 | 32 | 33 | 36 | 54 => {}
            _ => return Some(false),
        }
        Some(true)
    }

    fn read_authority(&mut self, mut rest: &'a [u8]) -> Option<()> {
        const KEY: u8 = 0x80;
        const SERIAL: u8 = 0x82;
        while !rest.is_empty() {
            let (tag, content, next) = element(rest)?;
            match tag {
                KEY => self.authority_key = Some(content),
                SERIAL => self.authority_serial = Some(content),
                _ => {}
            }
            rest = next;
        }
        Some(())
    }

    /// Whether a host is among the alternative names.
    pub(crate) fn names_host(&self) -> bool {
        const HOST: u8 = 0x82;
        let mut rest = self.alternative_names.unwrap_or_default();
        while let Some((tag, _, next)) = element(rest) {
            if tag == HOST {
                return true;
            }
            rest = next;
        }
        false
    }

    /// Whether the key may be used for one of these; without the extension it may be used for everything.
    pub(crate) fn allows(&self, usages: u16) -> bool {
        self.key_usage.is_none_or(|bits| bits & usages != 0)
    }

    /// Whether the key may be used for this purpose, a number below `id-kp` (RFC 5280, section 4.2.1.12).
    pub(crate) fn is_for(&self, purpose: u8) -> bool {
        const PURPOSES: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03];
        let Some(mut rest) = self.purposes else { return true };
        while let Some((_, identifier, next)) = element(rest) {
            if identifier.strip_prefix(PURPOSES) == Some(&[purpose]) {
                return true;
            }
            rest = next;
        }
        false
    }
}

fn key_usage(value: &[u8]) -> Option<u16> {
    let (tag, bits, _) = element(value)?;
    let (_, bits) = bits.split_first().filter(|_| tag == BIT_STRING)?;
    let byte = |index| u16::from(bits.get(index).copied().unwrap_or_default());
    Some(byte(0) << 8 | byte(1))
}

fn basic_constraints(value: &[u8]) -> Option<BasicConstraints> {
    let (_, mut rest, _) = element(value)?;
    let mut constraints = BasicConstraints { is_authority: false, path_length: None };
    while !rest.is_empty() {
        let (tag, content, next) = element(rest)?;
        match tag {
            BOOLEAN => constraints.is_authority = content != [0],
            INTEGER => constraints.path_length = Some(small(content)?),
            _ => return None,
        }
        rest = next;
    }
    Some(constraints)
}

/// A number that is not negative.
fn small(content: &[u8]) -> Option<usize> {
    if content.is_empty() || content[0] & 0x80 != 0 {
        return None;
    }
    content.iter().try_fold(0_usize, |sum, &byte| sum.checked_mul(256)?.checked_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_read_and_broken_ones_refused() {
        let one = [0x30, 0x0f, 0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x05, 0x30, 0x03];
        let authority = [&one[..], &[0x01, 0x01, 0xff]].concat();
        let read = Extensions::of(&authority).unwrap();
        assert_eq!(read.basic, Some(BasicConstraints { is_authority: true, path_length: None }));
        assert!(Extensions::of(&authority.repeat(2)).is_none(), "twice");
        for length in 1..authority.len() {
            assert!(Extensions::of(&authority[..length]).is_none());
        }
        let limited = [&one[..], &[0x02, 0x01, 0x02]].concat();
        let read = Extensions::of(&limited).unwrap();
        assert_eq!(read.basic, Some(BasicConstraints { is_authority: false, path_length: Some(2) }));
        let negative = [&one[..], &[0x02, 0x01, 0xff]].concat();
        assert!(Extensions::of(&negative).is_none());
    }

    #[test]
    fn number_of_extensions_is_limited() {
        let many =
            |count: u8| (0..count).flat_map(|number| [0x30, 5, 6, 1, number, 4, 0]).collect::<Vec<u8>>();
        assert!(Extensions::of(&many(100)).is_some());
        assert!(Extensions::of(&many(101)).is_none());
    }

    #[test]
    fn unknown_extensions_matter_only_if_they_are_critical() {
        let unknown = [0x30, 0x0b, 0x06, 0x03, 0x2a, 0x03, 0x04, 0x04, 0x04, 1, 2, 3, 4];
        assert!(!Extensions::of(&unknown).unwrap().has_unknown);
        let critical = [0x30, 0x0a, 0x06, 0x03, 0x2a, 0x03, 0x04, 0x01, 0x01, 0xff, 0x04, 0x00];
        assert!(Extensions::of(&critical).unwrap().has_unknown);
    }
}
