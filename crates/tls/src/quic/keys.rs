//! Keys of packets (RFC 9001, section 5).

use crate::Failure;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{self, Suite, Version};
use std::fmt;

/// How many bytes of a packet number are hidden at most.
const NUMBER_MAX: usize = 4;

/// How long the mark is that shows a packet to be genuine, in bytes.
const TAG: usize = 16;

/// What encrypts or decrypts the content of packets.
pub struct PacketKey(Box<dyn quic::PacketKey>);

/// What hides or shows the heads of packets (RFC 9001, section 5.4).
pub struct HeaderKey(Box<dyn quic::HeaderProtectionKey>);

/// The keys of one direction.
#[derive(Debug)]
pub struct DirectionKeys {
    /// For the heads of packets.
    pub header: HeaderKey,
    /// For their content.
    pub packet: PacketKey,
}

/// The keys of both directions.
#[derive(Debug)]
pub struct QuicKeys {
    /// What we send by.
    pub local: DirectionKeys,
    /// What we read by.
    pub remote: DirectionKeys,
}

/// A packet is not genuine, or too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TamperedPacket;

impl PacketKey {
    pub(super) fn of(key: Box<dyn quic::PacketKey>) -> PacketKey {
        PacketKey(key)
    }

    /// Encrypts the content of a packet, which has room for the tag at its end.
    ///
    /// # Errors
    /// There is no room.
    pub fn encrypt(&self, number: u64, header: &[u8], content: &mut [u8]) -> Result<(), TamperedPacket> {
        let length = content.len().checked_sub(self.0.tag_len()).ok_or(TamperedPacket)?;
        let (content, room) = content.split_at_mut(length);
        let tag = self.0.encrypt_in_place(number, header, content).map_err(|_| TamperedPacket)?;
        room.copy_from_slice(tag.as_ref());
        Ok(())
    }

    /// Decrypts the content of a packet, with the tag at its end. Returns how long the content is.
    ///
    /// # Errors
    /// The packet was changed, or is of another connection.
    pub fn decrypt(&self, number: u64, header: &[u8], content: &mut [u8]) -> Result<usize, TamperedPacket> {
        let plain = self.0.decrypt_in_place(number, header, content).map_err(|_| TamperedPacket)?;
        Ok(plain.len())
    }

    /// How long the tag is, in bytes.
    pub fn tag_length(&self) -> usize {
        self.0.tag_len()
    }

    /// How many packets may be encrypted before the key is changed.
    pub fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    /// How many packets may fail to be decrypted before the connection is closed.
    pub fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

impl HeaderKey {
    /// Hides the head of a packet, whose number begins at this place.
    ///
    /// # Errors
    /// The packet is too short.
    pub fn hide(&self, number_at: usize, packet: &mut [u8]) -> Result<(), TamperedPacket> {
        let Parts { sample, first, number } = self.parts(number_at, packet)?;
        self.0.encrypt_in_place(sample, first, number).map_err(|_| TamperedPacket)
    }

    /// Shows the head of a packet again.
    ///
    /// # Errors
    /// The packet is too short.
    pub fn show(&self, number_at: usize, packet: &mut [u8]) -> Result<(), TamperedPacket> {
        let Parts { sample, first, number } = self.parts(number_at, packet)?;
        self.0.decrypt_in_place(sample, first, number).map_err(|_| TamperedPacket)
    }

    /// How many bytes there must be after the longest packet number.
    pub fn sample_length(&self) -> usize {
        self.0.sample_len()
    }

    fn parts<'p>(&self, number_at: usize, packet: &'p mut [u8]) -> Result<Parts<'p>, TamperedPacket> {
        let sample_at = number_at.checked_add(NUMBER_MAX).ok_or(TamperedPacket)?;
        let (head, rest) = packet.split_at_mut_checked(sample_at).ok_or(TamperedPacket)?;
        let sample = rest.get(..self.sample_length()).ok_or(TamperedPacket)?;
        let (number_at, (first, head)) =
            (number_at.checked_sub(1).ok_or(TamperedPacket)?, head.split_first_mut().ok_or(TamperedPacket)?);
        Ok(Parts { sample, first, number: &mut head[number_at..] })
    }
}

/// The parts of a packet that hide each other.
struct Parts<'p> {
    sample: &'p [u8],
    first: &'p mut u8,
    number: &'p mut [u8],
}

impl QuicKeys {
    pub(super) fn of(keys: quic::Keys) -> QuicKeys {
        QuicKeys { local: DirectionKeys::of(keys.local), remote: DirectionKeys::of(keys.remote) }
    }
}

impl DirectionKeys {
    fn of(keys: quic::DirectionalKeys) -> DirectionKeys {
        DirectionKeys { header: HeaderKey(keys.header), packet: PacketKey(keys.packet) }
    }
}

/// What everyone knows: the keys of the first packets, which depend on their connection identifier only, and the mark of
/// packets that have a client try once more (RFC 9001, sections 5.2 and 5.8).
pub struct InitialSecrets {
    suite: Suite,
    retry: LessSafeKey,
}

/// The key and the nonce of that mark in QUIC version 1.
const RETRY_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

impl InitialSecrets {
    /// Finds what is needed.
    ///
    /// # Errors
    /// The library does not have it.
    pub fn new() -> Result<InitialSecrets, Failure> {
        let missing = || Failure::ours("the library has no AES-128-GCM for QUIC");
        let suite =
            TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).ok_or_else(missing)?;
        let retry = UnboundKey::new(&AES_128_GCM, &RETRY_KEY).map_err(|_| missing())?;
        Ok(InitialSecrets { suite, retry: LessSafeKey::new(retry) })
    }

    /// The keys of a server for packets to and from a client that chose this connection identifier.
    pub fn server_keys(&self, connection_id: &[u8]) -> QuicKeys {
        QuicKeys::of(self.suite.keys(connection_id, Side::Server, Version::V1))
    }

    /// The keys of that client.
    pub fn client_keys(&self, connection_id: &[u8]) -> QuicKeys {
        QuicKeys::of(self.suite.keys(connection_id, Side::Client, Version::V1))
    }

    /// The mark of a Retry packet, which is given without it. `connection_id` is that of the client's first packet. If the
    /// library fails, it is a mark that clients ignore.
    pub fn retry_tag(&self, connection_id: &[u8], packet: &[u8]) -> [u8; TAG] {
        let length = u8::try_from(connection_id.len()).unwrap_or(u8::MAX);
        let pseudo_packet = [&[length], connection_id, packet].concat();
        let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
        let tag = self.retry.seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut []);
        tag.ok().and_then(|tag| tag.as_ref().try_into().ok()).unwrap_or_default()
    }

    /// Whether a Retry packet that a client received is genuine.
    pub fn is_valid_retry(&self, connection_id: &[u8], packet: &[u8]) -> bool {
        let parts = packet.split_last_chunk::<TAG>();
        parts.is_some_and(|(packet, tag)| self.retry_tag(connection_id, packet) == *tag)
    }
}

impl fmt::Debug for InitialSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitialSecrets")
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey")
    }
}

impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderKey")
    }
}

#[cfg(test)]
mod tests {
    use super::{InitialSecrets, TamperedPacket};

    /// RFC 9001, appendix A.
    const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    fn bytes(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    /// RFC 9001, appendix A.3.
    #[test]
    fn the_packet_of_the_rfc_is_decrypted() {
        let mut packet = bytes(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb3\
             8cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84\
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        );
        let original = packet.clone();
        let secrets = InitialSecrets::new().unwrap();
        let (server, client) = (secrets.server_keys(&CONNECTION_ID), secrets.client_keys(&CONNECTION_ID));
        let number_at = 18;
        client.remote.header.show(number_at, &mut packet).unwrap();
        let (header, content) = packet.split_at_mut(number_at + 2);
        assert_eq!((header[0], &header[number_at..]), (0xc1, &[0, 1][..]));
        let length = client.remote.packet.decrypt(1, header, content).unwrap();
        assert_eq!(content[..9], [2, 0, 0, 0, 0, 6, 0, 0x40, 0x5a]);

        assert_eq!(content.len() - length, server.local.packet.tag_length());
        server.local.packet.encrypt(1, header, content).unwrap();
        server.local.header.hide(number_at, &mut packet).unwrap();
        assert_eq!(packet, original);

        packet[40] ^= 1;
        client.remote.header.show(number_at, &mut packet).unwrap();
        let (header, content) = packet.split_at_mut(number_at + 2);
        assert_eq!(client.remote.packet.decrypt(1, header, content), Err(TamperedPacket));
    }

    #[test]
    fn short_packets_are_an_error() {
        let keys = InitialSecrets::new().unwrap().server_keys(&CONNECTION_ID);
        for length in 0..22 {
            assert_eq!(keys.local.header.show(2, &mut vec![0; length]), Err(TamperedPacket), "{length}");
        }
        assert_eq!(keys.local.header.show(0, &mut [0; 40]), Err(TamperedPacket));
        assert!(keys.local.header.show(2, &mut [0; 22]).is_ok());
        assert_eq!(keys.local.packet.encrypt(1, &[], &mut [0; 15]), Err(TamperedPacket));
    }

    /// RFC 9001, appendix A.4.
    #[test]
    fn the_retry_of_the_rfc_is_genuine() {
        let packet = bytes("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
        let secrets = InitialSecrets::new().unwrap();
        let tag = secrets.retry_tag(&CONNECTION_ID, &packet[..packet.len() - 16]);
        assert_eq!(tag, packet[packet.len() - 16..]);
        assert!(secrets.is_valid_retry(&CONNECTION_ID, &packet));
        assert!(!secrets.is_valid_retry(&CONNECTION_ID[1..], &packet));
        assert!(!secrets.is_valid_retry(&CONNECTION_ID, &packet[..10]));
    }
}
