//! The names that OpenSSL, and so every configuration, gives ciphers, and its language for lists of them.

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::{CipherSuite, SupportedCipherSuite};

/// A cipher of TLS 1.2: its name, the words that select it, and itself.
struct Cipher {
    name: &'static str,
    words: &'static [&'static str],
    suite: &'static SupportedCipherSuite,
}

macro_rules! cipher {
    ($name:literal, $suite:ident, $($word:literal),*) => {
        Cipher { name: $name, words: &[$($word),*], suite: &cipher_suite::$suite }
    };
}

/// Ciphers of TLS 1.2, the strongest first.
static CIPHERS: [Cipher; 6] = [
    cipher!(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "aecdsa",
        "ecdsa",
        "aes",
        "aesgcm",
        "aes256",
        "sha384"
    ),
    cipher!(
        "ECDHE-RSA-AES256-GCM-SHA384",
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "arsa",
        "aes",
        "aesgcm",
        "aes256",
        "sha384"
    ),
    cipher!(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "aecdsa",
        "ecdsa",
        "chacha20"
    ),
    cipher!("ECDHE-RSA-CHACHA20-POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "arsa", "chacha20"),
    cipher!(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "aecdsa",
        "ecdsa",
        "aes",
        "aesgcm",
        "aes128",
        "sha256"
    ),
    cipher!(
        "ECDHE-RSA-AES128-GCM-SHA256",
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "arsa",
        "aes",
        "aesgcm",
        "aes128",
        "sha256"
    ),
];

/// Words that select every one of them.
const EVERY: [&str; 12] = [
    "all",
    "default",
    "high",
    "aead",
    "ecdhe",
    "eecdh",
    "kecdhe",
    "keecdh",
    "ecdh",
    "tlsv1.2",
    "suiteb128",
    "suiteb192",
];

/// The ciphers of TLS 1.2 that a list in OpenSSL's language leaves, in its order: names and words joined by `:`,
/// several words at once by `+`; `!` and `-` take away, `+` moves to the end. Those that do not exist here are
/// passed over.
pub(crate) fn select(list: &str) -> Vec<SupportedCipherSuite> {
    let mut chosen: Vec<&Cipher> = Vec::new();
    let mut banned: Vec<&str> = Vec::new();
    for item in list.split([':', ',', ' ']).filter(|item| !item.is_empty() && !item.starts_with('@')) {
        let (sign, item) = match item.split_at(1) {
            (sign @ ("!" | "-" | "+"), item) => (sign, item),
            _ => ("", item),
        };
        let matching = || CIPHERS.iter().filter(|cipher| cipher.is_meant_by(item));
        let is_in = |cipher: &&Cipher| cipher.is_meant_by(item);
        match sign {
            "!" | "-" => {
                chosen.retain(|cipher| !is_in(cipher));
                if sign == "!" {
                    banned.extend(matching().map(|cipher| cipher.name));
                }
            }
            "+" => chosen.sort_by_key(is_in),
            _ => {
                for cipher in matching() {
                    if !banned.contains(&cipher.name) && !chosen.iter().any(|c| c.name == cipher.name) {
                        chosen.push(cipher);
                    }
                }
            }
        }
    }
    chosen.into_iter().map(|cipher| *cipher.suite).collect()
}

/// Whether a list names ciphers of TLS 1.3 that are known here, joined by `:`.
pub fn are_suites(list: &str) -> bool {
    suites(list).is_some()
}

/// The ciphers of TLS 1.3 that a list names, in its order. `None` if one of them is unknown, or none is named.
pub(crate) fn suites(list: &str) -> Option<Vec<SupportedCipherSuite>> {
    let known = [
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    let find = |wanted: &str| known.into_iter().find(|suite| name(suite.suite()) == wanted);
    let chosen: Vec<_> = list.split(':').map(find).collect::<Option<_>>()?;
    (!chosen.is_empty()).then_some(chosen)
}

/// The name of a cipher that was agreed on (`$ssl_cipher`).
pub(crate) fn name(suite: CipherSuite) -> &'static str {
    let known = CIPHERS.iter().find(|cipher| cipher.suite.suite() == suite);
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        _ => known.map_or("", |cipher| cipher.name),
    }
}

impl Cipher {
    fn is_meant_by(&self, item: &str) -> bool {
        let fits = |word: &str| {
            let word = word.to_ascii_lowercase();
            EVERY.contains(&word.as_str()) || self.words.contains(&word.as_str())
        };
        item == self.name || item.split('+').all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        select(list).into_iter().map(|suite| name(suite.suite())).collect()
    }

    #[test]
    fn suites_of_tls13_have_an_order() {
        let names = |list: &str| {
            let names = suites(list)?.into_iter().map(|suite| name(suite.suite()));
            Some(names.collect::<Vec<_>>().join(":"))
        };
        let two = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
        assert_eq!(names(two).as_deref(), Some(two));
        assert!(names("").is_none() && names("TLS_AES_128_CCM_SHA256").is_none());
    }

    #[test]
    fn lists_as_people_write_them() {
        assert_eq!(names("HIGH:!aNULL:!MD5").len(), 6);
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:AES128-SHA"),
            ["ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("EECDH+AESGCM:EDH+AESGCM").len(), 4);
        assert_eq!(names("ECDHE+CHACHA20:!aRSA"), ["ECDHE-ECDSA-CHACHA20-POLY1305"]);
        assert_eq!(
            names("ALL:!ECDSA:+AES256:@STRENGTH"),
            ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(names("!AESGCM:ALL:-aRSA"), ["ECDHE-ECDSA-CHACHA20-POLY1305"]);
        assert!(names("AES128-SHA:RC4").is_empty());
        assert!(names("kRSA+AES").is_empty());
    }
}
