//! Secrets of the server itself: they seal tokens and make the marks of stateless resets (RFC 9000, sections 8.1 and 10.3).

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use std::fmt;

use super::TamperedPacket;

/// The key from which the keys of tokens are derived.
pub struct TokenKey(Prk);

/// The key of one token, which seals once.
pub struct SealingKey(LessSafeKey);

/// The key of the marks of stateless resets. Marks are known to the client only and say nothing of the key.
pub struct ResetKey(hmac::Key);

/// No key seals more than once.
const NONCE: [u8; 12] = [0; 12];

impl TokenKey {
    /// The key of this secret, which all processes of the server know.
    pub fn new(secret: &[u8; 32]) -> TokenKey {
        TokenKey(Salt::new(HKDF_SHA256, b"token").extract(secret))
    }

    /// The key of the token that was made with these random bytes. `None` if the library fails.
    pub fn derive(&self, random: &[u8]) -> Option<SealingKey> {
        let info = [random];
        let expanded = self.0.expand(&info, &AES_256_GCM).ok()?;
        Some(SealingKey(LessSafeKey::new(UnboundKey::from(expanded))))
    }
}

impl SealingKey {
    /// Encrypts these bytes and appends a tag.
    ///
    /// # Errors
    /// The library fails.
    pub fn seal(&self, bytes: &mut Vec<u8>, context: &[u8]) -> Result<(), TamperedPacket> {
        let nonce = Nonce::assume_unique_for_key(NONCE);
        self.0.seal_in_place_append_tag(nonce, Aad::from(context), bytes).map_err(|_| TamperedPacket)
    }

    /// Decrypts what was sealed with the same context. Returns the content.
    ///
    /// # Errors
    /// It was changed, or sealed by another key.
    pub fn open<'b>(&self, bytes: &'b mut [u8], context: &[u8]) -> Result<&'b mut [u8], TamperedPacket> {
        let nonce = Nonce::assume_unique_for_key(NONCE);
        self.0.open_in_place(nonce, Aad::from(context), bytes).map_err(|_| TamperedPacket)
    }
}

impl ResetKey {
    /// The key of this secret, which all processes of the server know.
    pub fn new(secret: &[u8; 32]) -> ResetKey {
        ResetKey(hmac::Key::new(HMAC_SHA256, secret))
    }

    /// The mark for a connection identifier.
    pub fn sign(&self, connection_id: &[u8]) -> [u8; 32] {
        let mut mark = [0; 32];
        mark.copy_from_slice(hmac::sign(&self.0, connection_id).as_ref());
        mark
    }

    /// Whether a mark is of this key. The time that it takes says nothing of the mark.
    pub fn verifies(&self, connection_id: &[u8], mark: &[u8]) -> bool {
        hmac::verify(&self.0, connection_id, mark).is_ok()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey")
    }
}

#[cfg(test)]
mod tests {
    use super::{ResetKey, TokenKey};

    #[test]
    fn tokens_are_opened_by_the_same_secret_only() {
        let (one, other) = (TokenKey::new(&[1; 32]), TokenKey::new(&[2; 32]));
        let mut sealed = b"192.0.2.1".to_vec();
        one.derive(b"random").unwrap().seal(&mut sealed, b"context").unwrap();
        let open = |key: &TokenKey, random: &[u8], context: &[u8], sealed: &[u8]| {
            let mut sealed = sealed.to_vec();
            key.derive(random).unwrap().open(&mut sealed, context).map(|bytes| bytes.to_vec())
        };
        // Another process of the same server.
        let again = TokenKey::new(&[1; 32]);
        assert_eq!(open(&again, b"random", b"context", &sealed).unwrap(), b"192.0.2.1");
        assert!(open(&other, b"random", b"context", &sealed).is_err());
        assert!(open(&one, b"randon", b"context", &sealed).is_err());
        assert!(open(&one, b"random", b"contexu", &sealed).is_err());
        assert!(open(&one, b"random", b"context", &sealed[1..]).is_err());
        assert!(open(&one, b"random", b"context", b"").is_err());
    }

    #[test]
    fn marks_are_of_one_secret() {
        let (one, other) = (ResetKey::new(&[1; 32]), ResetKey::new(&[2; 32]));
        let mark = one.sign(b"identifier");
        assert_eq!(mark, ResetKey::new(&[1; 32]).sign(b"identifier"));
        assert!(one.verifies(b"identifier", &mark) && !other.verifies(b"identifier", &mark));
        assert!(!one.verifies(b"identifies", &mark) && !one.verifies(b"identifier", &mark[1..]));
    }
}
