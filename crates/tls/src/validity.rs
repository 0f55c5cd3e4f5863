//! The names and times of the certificates that a process serves with, for status pages and warnings.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use crate::extensions::Extensions;
use crate::x509::{Fields, element};
use crate::{Pair, distinguished_name};

/// So many names of a certificate are known; further ones are counted.
const NAMES_MAX: usize = 20;

static SERVED: Mutex<Option<Arc<[Validity]>>> = Mutex::new(None);

/// For whom and how long a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The hosts and addresses among the alternative names, with the number of those that are left out; the common name if
    /// there are none.
    pub names: String,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// When it begins to be valid, in seconds since 1970.
    pub begin: i64,
    /// When it ends to be valid, in seconds since 1970.
    pub end: i64,
}

/// How near the end of a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// A fifth of its life, or a month, is left.
    Near,
    /// A tenth of its life, or a week, is left.
    VeryNear,
    /// It is over.
    Over,
}

impl Validity {
    /// Reads it from the certificate of a pair; `None` if the times are malformed.
    pub fn of(pair: &Pair) -> Option<Validity> {
        let fields = Fields::of(pair.certified.cert.first()?)?;
        let (begin, end) = fields.times();
        let extensions = Extensions::of(fields.extensions).unwrap_or_default();
        let mut all = names(extensions.alternative_names.unwrap_or_default());
        if all.is_empty() {
            all.extend(distinguished_name::common_names(fields.subject));
        }
        let mut text = all.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        if all.len() > NAMES_MAX {
            text.push_str(&format!(" and {} more", all.len() - NAMES_MAX));
        }
        let serial = fields.serial.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Validity { names: text, serial, begin: begin?, end: end? })
    }

    /// Whether the end is near at this time, in seconds since 1970.
    pub fn nearness(&self, now: i64) -> Option<Nearness> {
        const DAY_S: i64 = 24 * 60 * 60;
        let (life, left) = (self.end.saturating_sub(self.begin), self.end.saturating_sub(now));
        match left {
            ..=0 => Some(Nearness::Over),
            _ if left < (life / 10).min(7 * DAY_S) => Some(Nearness::VeryNear),
            _ if left < (life / 5).min(30 * DAY_S) => Some(Nearness::Near),
            _ => None,
        }
    }
}

/// The hosts and addresses of a list of alternative names (RFC 5280, section 4.2.1.6).
fn names(mut list: &[u8]) -> Vec<String> {
    const HOST: u8 = 0x82;
    const ADDRESS: u8 = 0x87;
    let mut names = Vec::new();
    while let Some((tag, value, rest)) = element(list) {
        let address = || match <[u8; 4]>::try_from(value) {
            Ok(four) => Some(Ipv4Addr::from(four).to_string()),
            Err(_) => <[u8; 16]>::try_from(value).ok().map(|long| Ipv6Addr::from(long).to_string()),
        };
        names.extend(match tag {
            HOST => Some(value.escape_ascii().to_string()),
            ADDRESS => address(),
            _ => None,
        });
        list = rest;
    }
    names
}

/// The certificates that this process serves with.
pub fn served() -> Arc<[Validity]> {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Takes note that this process serves with these certificates.
pub fn set_served(certificates: Arc<[Validity]>) {
    *SERVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificates);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn pair(names: &[&str]) -> Pair {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 11);
        params.serial_number = Some(vec![0x0a, 0xff].into());
        let certificate = params.self_signed(&key).unwrap();
        Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"").unwrap()
    }

    #[test]
    fn names_and_times_are_read() {
        let validity = Validity::of(&pair(&["a.example", "192.0.2.1", "2001:db8::1"])).unwrap();
        assert_eq!(validity.names, "a.example, 192.0.2.1, 2001:db8::1");
        assert_eq!(validity.serial, "0aff");
        assert_eq!(Validity::of(&pair(&[])).unwrap().names, "rcgen self signed cert");
        assert_eq!(validity.end - validity.begin, 100 * 86_400);
        let many: Vec<String> = (0..25).map(|number| format!("{number}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(Validity::of(&pair(&many)).unwrap().names.ends_with(", 19.example and 5 more"));
    }

    #[test]
    fn the_end_comes_nearer() {
        let day = 86_400;
        let validity =
            |days: i64| Validity { names: String::new(), serial: String::new(), begin: 0, end: days * day };
        let at = |days: i64, now: i64| validity(days).nearness(now * day);
        assert_eq!([at(100, 79), at(100, 81)], [None, Some(Nearness::Near)]);
        assert_eq!([at(100, 92), at(100, 94)], [Some(Nearness::Near), Some(Nearness::VeryNear)]);
        assert_eq!([at(100, 100), at(100, 500)], [Some(Nearness::Over); 2]);
        assert_eq!([at(365, 334), at(365, 336)], [None, Some(Nearness::Near)], "no more than a month");
        assert_eq!(validity(6).nearness(5 * day), Some(Nearness::Near));
    }
}
