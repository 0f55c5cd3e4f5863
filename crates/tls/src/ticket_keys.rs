//! Keys of session tickets: of files, so that several servers know the tickets of each other, or of this process.

use crate::rotation::Rotation;
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// The length of the name of a key, of an initial vector, and of a signature, in bytes.
const NAME: usize = 16;
const VECTOR: usize = 16;
const SIGNATURE: usize = 32;

/// A key that seals tickets (RFC 5077, section 4): AES in CBC mode, signed with HMAC-SHA-256.
pub struct TicketKey {
    name: [u8; NAME],
    sealing: PaddedBlockEncryptingKey,
    opening: PaddedBlockDecryptingKey,
    signing: hmac::Key,
}

impl TicketKey {
    /// Reads the content of a file: 80 bytes for AES-256, or 48 bytes for AES-128. The order is that of nginx.
    /// `None` if it is of another length.
    pub fn new(bytes: &[u8]) -> Option<TicketKey> {
        let (name, rest) = bytes.split_first_chunk::<NAME>()?;
        let (algorithm, signing, cipher) = match rest.len() {
            32 => (&AES_128, &rest[16..], &rest[..16]),
            64 => (&AES_256, &rest[..32], &rest[32..]),
            _ => return None,
        };
        let key = || UnboundCipherKey::new(algorithm, cipher).ok();
        Some(TicketKey {
            name: *name,
            sealing: PaddedBlockEncryptingKey::cbc_pkcs7(key()?).ok()?,
            opening: PaddedBlockDecryptingKey::cbc_pkcs7(key()?).ok()?,
            signing: hmac::Key::new(HMAC_SHA256, signing),
        })
    }

    /// A ticket that only this key opens. `None` if the system gives no random bytes.
    pub(crate) fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut vector = [0; VECTOR];
        rand::fill(&mut vector).ok()?;
        let mut sealed = plain.to_vec();
        let context = EncryptionContext::Iv128((&vector).into());
        self.sealing.less_safe_encrypt(&mut sealed, context).ok()?;
        let mut ticket = [&self.name[..], &vector, &sealed].concat();
        let signature = hmac::sign(&self.signing, &ticket);
        ticket.extend_from_slice(signature.as_ref());
        Some(ticket)
    }

    /// Whether a ticket has the name of this key.
    pub(crate) fn sealed(&self, ticket: &[u8]) -> bool {
        ticket.starts_with(&self.name)
    }

    /// The signature is verified before the padding is looked at.
    pub(crate) fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (signed, signature) = ticket.split_at_checked(ticket.len().checked_sub(SIGNATURE)?)?;
        hmac::verify(&self.signing, signed, signature).ok()?;
        let (vector, sealed) = signed.get(NAME..)?.split_first_chunk::<VECTOR>()?;
        let mut sealed = sealed.to_vec();
        let plain = self.opening.decrypt(&mut sealed, DecryptionContext::Iv128(vector.into())).ok()?;
        Some(plain.to_vec())
    }
}

/// What seals and opens the tickets of a policy: keys of files, or if there are none, the keys of this process.
pub(crate) struct Seal {
    own: Arc<Rotation>,
    /// The first one seals, each one opens.
    given: RwLock<Arc<[TicketKey]>>,
}

impl Seal {
    pub(crate) fn new(own: Arc<Rotation>) -> Seal {
        Seal { own, given: RwLock::default() }
    }

    pub(crate) fn set(&self, keys: Vec<TicketKey>) {
        *self.given.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    pub(crate) fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let given = self.given();
        given.first().map_or_else(|| self.own.seal(plain, Instant::now()), |key| key.seal(plain))
    }

    pub(crate) fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let given = self.given();
        if given.is_empty() {
            return self.own.open(ticket, Instant::now());
        }
        given.iter().find(|key| key.sealed(ticket))?.open(ticket)
    }

    fn given(&self) -> Arc<[TicketKey]> {
        Arc::clone(&self.given.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("given", &self.given().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::TicketKey;

    fn key(first: u8, length: usize) -> TicketKey {
        let bytes: Vec<u8> = (0..length).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect();
        TicketKey::new(&bytes).unwrap()
    }

    #[test]
    fn keys_have_48_or_80_bytes() {
        let is_key = |length: usize| TicketKey::new(&vec![1; length]).is_some();
        assert!((0..200).all(|length| is_key(length) == (length == 48 || length == 80)));
    }

    #[test]
    fn tickets_are_opened_by_their_key_only() {
        for length in [48, 80] {
            let (one, other) = (key(1, length), key(2, length));
            for plain in [&b""[..], b"state", &[7; 16], &[7; 5000]] {
                let ticket = one.seal(plain).unwrap();
                assert_eq!(one.open(&ticket).as_deref(), Some(plain));
                assert_eq!(other.open(&ticket), None);
                assert_ne!(one.seal(plain).unwrap(), ticket, "each ticket has its own vector");
            }
        }
    }

    #[test]
    fn changed_tickets_are_not_opened() {
        let key = key(1, 80);
        let ticket = key.seal(b"state").unwrap();
        assert!((0..ticket.len()).all(|length| key.open(&ticket[..length]).is_none()));
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(&changed), None, "{at}");
        }
    }

    /// The parts of a file stand in the order in which nginx reads them: the name, then for AES-128 the key of the cipher
    /// before that of the signature, for AES-256 after it.
    #[test]
    fn parts_of_a_key_are_where_nginx_has_them() {
        use aws_lc_rs::hmac::{self, HMAC_SHA256};
        for (length, signing) in [(48, 32..48), (80, 16..48)] {
            let bytes: Vec<u8> = (0..length).collect();
            let ticket = TicketKey::new(&bytes).unwrap().seal(b"state").unwrap();
            let (signed, signature) = ticket.split_at(ticket.len() - 32);
            let key = hmac::Key::new(HMAC_SHA256, &bytes[signing]);
            assert!(hmac::verify(&key, signed, signature).is_ok() && ticket[..16] == bytes[..16]);
        }
    }
}
