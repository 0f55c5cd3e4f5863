//! The few fields of certificates that are read here (RFC 5280, section 4.1).

use crate::distinguished_name::common_names;
use crate::pem::{Section, Unreadable, sections};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Fields of a certificate as DER. Of the serial number, issuer, validity, subject and algorithm it is the content, of
/// the key the whole element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields<'a> {
    /// The whole element that the issuer signs.
    pub(crate) signed: &'a [u8],
    pub(crate) is_version_1: bool,
    pub(crate) serial: &'a [u8],
    pub(crate) issuer: &'a [u8],
    pub(crate) validity: &'a [u8],
    pub(crate) subject: &'a [u8],
    pub(crate) key_info: &'a [u8],
    /// The extensions, one after the other.
    pub(crate) extensions: &'a [u8],
    /// What the signature is made by, if the certificate names the same algorithm in both places.
    pub(crate) algorithm: Option<&'a [u8]>,
    pub(crate) signature: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of a certificate of any version.
    pub(crate) fn of(certificate: &'a [u8]) -> Option<Fields<'a>> {
        const VERSION: u8 = 0xa0;
        const EXTENSIONS: u8 = 0xa3;
        let (_, certificate, _) = element(certificate)?;
        let (signed, after) = split(certificate)?;
        let (_, mut rest, _) = element(signed)?;
        let is_version_1 = rest.first() != Some(&VERSION);
        if !is_version_1 {
            rest = element(rest)?.2;
        }
        let (_, serial, rest) = element(rest)?;
        let (_, inner_algorithm, rest) = element(rest)?;
        let (_, issuer, rest) = element(rest)?;
        let (_, validity, rest) = element(rest)?;
        let (_, subject, rest) = element(rest)?;
        let (key_info, mut rest) = split(rest)?;
        let mut extensions: &[u8] = &[];
        while !rest.is_empty() {
            let (tag, content, next) = element(rest)?;
            if tag == EXTENSIONS {
                extensions = element(content)?.1;
            }
            rest = next;
        }
        let (_, algorithm, after) = element(after)?;
        let (_, bits, _) = element(after)?;
        let algorithm = (algorithm == inner_algorithm).then_some(algorithm);
        let signature = bits.strip_prefix(&[0]).unwrap_or_default();
        Some(Fields {
            signed,
            is_version_1,
            serial,
            issuer,
            validity,
            subject,
            key_info,
            extensions,
            algorithm,
            signature,
        })
    }

    /// Whether the certificate names itself as its issuer, as a root does.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// When the certificate begins and ends to be valid, in seconds since 1970; `None` for a time that cannot be read.
    pub(crate) fn times(&self) -> (Option<i64>, Option<i64>) {
        let Some((tag, text, rest)) = element(self.validity) else { return (None, None) };
        let end = element(rest).and_then(|(tag, text, _)| seconds(tag, text));
        (seconds(tag, text), end)
    }

    /// Whether a common name of the subject is, or stands for, this host.
    pub(crate) fn has_common_name(&self, host: &str) -> bool {
        common_names(self.subject).any(|name| is_host(name.as_bytes(), host.as_bytes()))
    }
}

/// Whether a certificate's name is this host, or stands for it by `*` as its first label (RFC 9525, section 6.3).
fn is_host(name: &[u8], host: &[u8]) -> bool {
    let is_same = name.eq_ignore_ascii_case(host);
    let Some(domain) = name.strip_prefix(b"*").filter(|domain| domain.starts_with(b".")) else {
        return is_same;
    };
    let has_two_labels = domain[1..].contains(&b'.');
    let dot = host.iter().position(|&byte| byte == b'.').filter(|&dot| dot > 0);
    has_two_labels && dot.is_some_and(|dot| host[dot..].eq_ignore_ascii_case(domain))
}

/// All certificates of a PEM text, also those that OpenSSL labels as trusted, without what it adds to them.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Unreadable> {
    Ok(labelled_certificates(text)?.into_iter().map(|(certificate, _)| certificate).collect())
}

/// As `certificates`; tells of each one whether OpenSSL adds what it is trusted for, or is not.
pub(crate) fn labelled_certificates(text: &[u8]) -> Result<Vec<(CertificateDer<'static>, bool)>, Unreadable> {
    const ALIAS: u8 = 0x0c;
    const KEY_IDENTIFIER: u8 = 0x04;
    const TRUSTED: &str = "TRUSTED CERTIFICATE";
    const LABELS: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", TRUSTED];
    let read = |section: Section<'_>| {
        let der = CertificateDer::from_pem_slice(&section.text("CERTIFICATE")).ok()?;
        let (certificate, added) = split(&der)?;
        if section.label != TRUSTED && !added.is_empty() {
            return None;
        }
        let start = if added.is_empty() { None } else { element(added)?.1.first() };
        let is_limited = start.is_some_and(|tag| ![ALIAS, KEY_IDENTIFIER].contains(tag));
        Some((CertificateDer::from(certificate.to_vec()), is_limited))
    };
    let sections = sections(text).filter(|section| match section {
        Ok(section) => LABELS.contains(&section.label),
        Err(_) => true,
    });
    sections.map(|section| read(section?).ok_or(Unreadable::Content)).collect()
}

/// The bit string of a SubjectPublicKeyInfo.
pub(crate) fn key_bits(info: &[u8]) -> Option<&[u8]> {
    const BIT_STRING: u8 = 0x03;
    let (_, info, _) = element(info)?;
    let (_, _, rest) = element(info)?;
    let (tag, bits, _) = element(rest)?;
    (tag == BIT_STRING).then_some(bits)
}

/// The algorithm of a SubjectPublicKeyInfo: the content of its first element.
pub(crate) fn key_algorithm(info: &[u8]) -> Option<&[u8]> {
    let (_, info, _) = element(info)?;
    Some(element(info)?.1)
}

/// The first element of DER bytes: its tag, its content, and what follows it.
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

/// The first element of DER bytes as a whole, and what follows it.
pub(crate) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, _, rest) = element(bytes)?;
    Some(bytes.split_at(bytes.len() - rest.len()))
}

/// A time in seconds since 1970 (RFC 5280, section 4.1.2.5).
pub(crate) fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => (number(&digits[..2]), &digits[2..]),
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let year = match tag {
        UTC_TIME if year < 50 => 2000 + year,
        UTC_TIME => 1900 + year,
        _ => year,
    };
    let mut parts = rest.chunks_exact(2).map(number);
    let mut part = || parts.next();
    let (month, day) = (part()?, part()?);
    let (hour, minute, second) = (part()?, part()?, part()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days since 1970 of a date of the Gregorian calendar. The year begins in March, so that a leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    of_years + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfSigned;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn no_bytes_are_read_past_the_end() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
        let fields = Fields::of(&der).unwrap();
        assert!(fields.is_self_issued() && key_bits(fields.key_info).is_some());
        assert!(fields.has_common_name("A.example") && !fields.has_common_name("b.example"));
        for length in 0..der.len() {
            assert!(Fields::of(&der[..length]).is_none());
        }
        assert_eq!(element(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(element(&[0x30, 0x80, 0, 0]), None);
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds(0x17, b"700101000000Z"), Some(0));
        assert_eq!(seconds(0x17, b"240229120000Z"), Some(1_709_208_000));
        assert_eq!(seconds(0x18, b"20500101000000Z"), Some(2_524_608_000));
        for wrong in [&b"240229120000"[..], b"2402291200Z", b"241329120000Z", b"24022912000xZ", b""] {
            assert_eq!(seconds(0x17, wrong), None);
        }
    }

    #[test]
    fn names_with_a_star_stand_for_one_label() {
        for (name, host, fits) in [
            ("a.example", "A.EXAMPLE", true),
            ("*.a.example", "b.a.example", true),
            ("*.a.example", "c.b.a.example", false),
            ("*.a.example", "a.example", false),
            ("*.a.example", ".a.example", false),
            ("*.example", "a.example", false),
            ("*", "a", false),
        ] {
            assert_eq!(is_host(name.as_bytes(), host.as_bytes()), fits, "{name} {host}");
        }
    }
}
