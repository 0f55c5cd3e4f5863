//! What a client offers in its first message, in the words of OpenSSL.

use rustls::server::ClientHello;
use rustls::{NamedGroup, SignatureScheme};

/// OpenSSL's names of ciphers, a line each: the code and the name.
const CIPHERS: &str = include_str!("cipher_names.txt");

/// OpenSSL's names of groups.
const GROUPS: [(u16, &str); 11] = [
    (0x0017, "prime256v1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001d, "X25519"),
    (0x001e, "X448"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
    (0x0102, "ffdhe4096"),
    (0x0103, "ffdhe6144"),
    (0x0104, "ffdhe8192"),
    (0x11ec, "X25519MLKEM768"),
];

/// More codes than this are not kept of one kind.
const CODES_MAX: usize = 256;

/// The ciphers, groups and signature schemes that a client offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// One after the other.
    codes: Box<[u16]>,
    ciphers: usize,
    groups: usize,
}

impl Offered {
    pub(crate) fn of(hello: &ClientHello<'_>) -> Offered {
        let groups: &[NamedGroup] = hello.named_groups().unwrap_or_default();
        let (ciphers, schemes) = (hello.cipher_suites(), hello.signature_schemes());
        let ciphers = ciphers.iter().take(CODES_MAX).map(|cipher| u16::from(*cipher));
        let groups = groups.iter().take(CODES_MAX).map(|group| u16::from(*group));
        let schemes = schemes.iter().take(CODES_MAX).map(|scheme: &SignatureScheme| u16::from(*scheme));
        let lengths = (ciphers.len(), groups.len());
        Offered {
            codes: ciphers.chain(groups).chain(schemes).collect(),
            ciphers: lengths.0,
            groups: lengths.1,
        }
    }

    /// The names of the ciphers, joined by colons. Unknown ones are hexadecimal.
    pub fn ciphers(&self) -> String {
        let name = |code: u16| {
            let prefix = format!("{code:04x} ");
            CIPHERS.lines().find_map(|line| line.strip_prefix(&prefix))
        };
        joined(&self.codes[..self.ciphers], name)
    }

    /// The names of the groups of key exchange, joined by colons. Unknown ones are hexadecimal.
    pub fn groups(&self) -> String {
        let name = |code: u16| GROUPS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
        joined(&self.codes[self.ciphers..self.ciphers + self.groups], name)
    }

    /// The numbers of the signature schemes, joined by colons.
    pub fn schemes(&self) -> String {
        joined(&self.codes[self.ciphers + self.groups..], |_| None)
    }
}

fn joined(codes: &[u16], name: impl Fn(u16) -> Option<&'static str>) -> String {
    let shown = |&code: &u16| name(code).map_or_else(|| format!("0x{code:04x}"), str::to_owned);
    codes.iter().map(shown).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::Offered;

    #[test]
    fn codes_have_the_names_of_openssl() {
        let codes = [0x1301, 0xc02f, 0x0a0a, 0x00ff, 0x001d, 0x4588, 0x0403, 0x0804];
        let offered = Offered { codes: codes.into(), ciphers: 4, groups: 2 };
        let ciphers =
            "TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256:0x0a0a:TLS_EMPTY_RENEGOTIATION_INFO_SCSV";
        assert_eq!(offered.ciphers(), ciphers);
        assert_eq!(offered.groups(), "X25519:0x4588");
        assert_eq!(offered.schemes(), "0x0403:0x0804");
        assert_eq!(Offered::default().ciphers(), "");
    }
}
