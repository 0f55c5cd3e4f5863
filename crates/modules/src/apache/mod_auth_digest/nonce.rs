//! Challenges: the time and a signature, so that the server has to remember none.

use http::hex;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use subtle::ConstantTimeEq;

/// The key of this process; without one no challenge is valid.
static KEY: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
    let mut key = [0; 32];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    (filled == Ok(key.len())).then_some(key)
});

/// The block of SHA-256, in bytes.
const BLOCK: usize = 64;

/// How long a challenge is, in bytes: the digits of the time and of the signature.
const NONCE_LENGTH: usize = 16 + 64;

/// Whether a challenge may be answered still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh,
    /// It is too old, or another process made it.
    Stale,
    /// It has not the form of a challenge.
    Foreign,
}

/// A challenge for a realm at a time in seconds.
pub(super) fn new(realm: &[u8], now: i64) -> String {
    let key = KEY.unwrap_or_default();
    signed(&key, realm, now)
}

/// Judges a challenge that a client answered.
pub(super) fn check(nonce: &[u8], realm: &[u8], now: i64, lifetime: i64) -> Freshness {
    let Some(key) = *KEY else { return Freshness::Stale };
    if nonce.len() != NONCE_LENGTH {
        return Freshness::Foreign;
    }
    let digits = nonce.get(..16).and_then(|digits| std::str::from_utf8(digits).ok());
    let time = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(u64::cast_signed);
    let Some(time) = time else { return Freshness::Foreign };
    let expected = signed(&key, realm, time);
    let is_ours: bool = expected.as_bytes().ct_eq(nonce).into();
    let age = now.saturating_sub(time);
    match is_ours && (lifetime < 0 || (0..=lifetime).contains(&age)) {
        true => Freshness::Fresh,
        false => Freshness::Stale,
    }
}

fn signed(key: &[u8; 32], realm: &[u8], time: i64) -> String {
    let mut text = format!("{:016x}", time.cast_unsigned());
    let mac = hmac(key, &[text.as_bytes(), realm].concat());
    text.push_str(&hex::text(&mac));
    text
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new_with_prefix(pad(0x36)).chain_update(text).finalize();
    Sha256::new_with_prefix(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::{Freshness, check, hmac, new};

    #[test]
    fn a_challenge_is_bound_to_its_realm_and_time() {
        let nonce = new(b"realm", 1000);
        let judge = |nonce: &str, realm: &str, now, lifetime| {
            check(nonce.as_bytes(), realm.as_bytes(), now, lifetime) == Freshness::Fresh
        };
        assert!(judge(&nonce, "realm", 1000, 300) && judge(&nonce, "realm", 1300, 300));
        assert!(!judge(&nonce, "realm", 1301, 300) && judge(&nonce, "realm", 1301, -1));
        assert!(!judge(&nonce, "realm", 999, 300), "from the future");
        assert!(!judge(&nonce, "other", 1000, 300));
        let later = new(b"realm", 2000);
        assert!(!judge(&(later[..16].to_owned() + &nonce[16..]), "realm", 2000, 300));
        for wrong in ["", "x", "00000000000003e8", "zzzzzzzzzzzzzzzz0"] {
            assert!(!judge(wrong, "realm", 1000, -1), "{wrong}");
        }
    }

    #[test]
    fn the_code_of_rfc_2104_with_sha_256() {
        // RFC 4231, test case 1, whose key is padded with zeros to the length of ours.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let start = hmac(&key, b"Hi There")[..8].to_vec();
        assert_eq!(start, [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
    }
}
