//! The cryptography that the library asks for, by the keys of the crate `tls`.

use bytes::BytesMut;
use quinn_proto::crypto::{self, AeadKey, CryptoError, HandshakeTokenKey, HmacKey, KeyPair, Keys};

struct PacketKey(tls::PacketKey);
struct HeaderKey(tls::HeaderKey);
struct SealingKey(Option<tls::SealingKey>);

/// Seals tokens.
pub(crate) struct TokenKey(pub(crate) tls::TokenKey);

/// Signs stateless resets.
pub(crate) struct ResetKey(pub(crate) tls::ResetKey);

pub(crate) fn keys(keys: tls::QuicKeys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(HeaderKey(keys.local.header)),
            remote: Box::new(HeaderKey(keys.remote.header)),
        },
        packet: pair(keys.local.packet, keys.remote.packet),
    }
}

pub(crate) fn pair(local: tls::PacketKey, remote: tls::PacketKey) -> KeyPair<Box<dyn crypto::PacketKey>> {
    KeyPair { local: Box::new(PacketKey(local)), remote: Box::new(PacketKey(remote)) }
}

impl crypto::PacketKey for PacketKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, content) = buf.split_at_mut(header_len);
        // The library cannot report a failure. A packet of zeros reveals no content, and the peer drops it.
        if self.0.encrypt(packet, header, content).is_err() {
            content.fill(0);
        }
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = self.0.decrypt(packet, header, payload).map_err(|_| CryptoError)?;
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.0.tag_length()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

impl crypto::HeaderKey for HeaderKey {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        // If the packet is too short, its content fails to be decrypted.
        let _ = self.0.show(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let _ = self.0.hide(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.0.sample_length()
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(&self.0.sign(data));
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        if self.0.verifies(data, signature) { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(SealingKey(self.0.derive(random_bytes)))
    }
}

impl AeadKey for SealingKey {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let key = self.0.as_ref().ok_or(CryptoError)?;
        key.seal(data, additional_data).map_err(|_| CryptoError)
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let key = self.0.as_ref().ok_or(CryptoError)?;
        key.open(data, additional_data).map_err(|_| CryptoError)
    }
}
