//! Private keys that a password protects, with AES in CBC mode: PKCS#8 with PBES2 and PBKDF2 (RFC 8018), which OpenSSL has
//! written since version 1.1, and the traditional form with `DEK-Info` in its head (RFC 1421).

use crate::x509::element;
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::pbkdf2;
use md5::{Digest, Md5};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::num::NonZeroU32;

/// More rounds than this are no honest file.
const ROUNDS_MAX: u32 = 20_000_000;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// With what the functions of HMAC start; SHA-1 is 7, SHA-256 to SHA-512 are 9 to 11.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a];

/// The key in a PEM text that one of these passwords opens.
pub(crate) fn open(pem: &[u8], passwords: &[&[u8]]) -> Option<PrivateKeyDer<'static>> {
    let text = std::str::from_utf8(pem).ok()?;
    if let Some(key) = Traditional::of(text) {
        return passwords.iter().find_map(|password| key.open(password));
    }
    // The library knows only the label of a key in clear.
    let relabelled = text.replace("ENCRYPTED PRIVATE KEY", "PRIVATE KEY");
    let sealed = PrivatePkcs8KeyDer::from_pem_slice(relabelled.as_bytes()).ok()?;
    let sealed = Sealed::of(sealed.secret_pkcs8_der())?;
    passwords.iter().find_map(|password| sealed.open(password)).map(PrivateKeyDer::Pkcs8)
}

/// The traditional form: the name of its kind, and the content in clear letters.
struct Traditional<'a> {
    kind: &'a str,
    algorithm: &'static Algorithm,
    key_length: usize,
    vector: [u8; 16],
    /// The lines of the content.
    body: &'a str,
}

impl<'a> Traditional<'a> {
    fn of(text: &'a str) -> Option<Traditional<'a>> {
        const HEAD: &str = "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: ";
        let (before, after) = text.split_once(HEAD)?;
        let kind = before.rsplit_once("-----BEGIN ")?.1;
        let (information, body) = after.split_once("\n\n")?;
        let (name, vector) = information.trim().split_once(',')?;
        let (algorithm, key_length) = match name {
            "AES-128-CBC" => (&AES_128, 16),
            "AES-192-CBC" => (&AES_192, 24),
            "AES-256-CBC" => (&AES_256, 32),
            _ => return None,
        };
        let vector = u128::from_str_radix(vector, 16).ok().filter(|_| vector.len() == 32)?.to_be_bytes();
        let body = body.split_once(&format!("-----END {kind}-----"))?.0;
        Some(Traditional { kind, algorithm, key_length, vector, body })
    }

    fn open(&self, password: &[u8]) -> Option<PrivateKeyDer<'static>> {
        // The label of any key makes the library decode the letters.
        let clear_label = format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", self.body);
        let data = PrivatePkcs8KeyDer::from_pem_slice(clear_label.as_bytes()).ok()?;
        let (mut key, mut block) = (Vec::new(), Vec::new());
        while key.len() < self.key_length {
            block = Md5::new()
                .chain_update(&block)
                .chain_update(password)
                .chain_update(&self.vector[..8])
                .finalize()
                .to_vec();
            key.extend_from_slice(&block);
        }
        let clear = decrypt(self.algorithm, &key[..self.key_length], self.vector, data.secret_pkcs8_der())?;
        match self.kind {
            "RSA PRIVATE KEY" => Some(PrivateKeyDer::Pkcs1(clear.into())),
            "EC PRIVATE KEY" => Some(PrivateKeyDer::Sec1(clear.into())),
            _ => None,
        }
    }
}

/// Decrypts a key. A wrong password may leave right padding by chance, but hardly the length of a key.
fn decrypt(algorithm: &'static Algorithm, key: &[u8], vector: [u8; 16], data: &[u8]) -> Option<Vec<u8>> {
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(algorithm, key).ok()?).ok()?;
    let mut data = data.to_vec();
    let clear = key.decrypt(&mut data, DecryptionContext::Iv128(vector.into())).ok()?;
    element(clear).is_some_and(|(tag, _, rest)| tag == 0x30 && rest.is_empty()).then(|| clear.to_vec())
}

/// An encrypted key and what it was encrypted with.
struct Sealed<'a> {
    salt: &'a [u8],
    rounds: NonZeroU32,
    digest: pbkdf2::Algorithm,
    is_256: bool,
    vector: [u8; 16],
    data: &'a [u8],
}

impl<'a> Sealed<'a> {
    fn of(der: &'a [u8]) -> Option<Sealed<'a>> {
        let (_, whole, _) = element(der)?;
        let (_, scheme, rest) = element(whole)?;
        let (_, data, _) = element(rest)?;
        let (derivation, cipher) = {
            let parameters = after(scheme, PBES2)?;
            let (_, derivation, rest) = element(parameters)?;
            (derivation, element(rest)?.1)
        };
        let parameters = after(derivation, PBKDF2)?;
        let (_, salt, rest) = element(parameters)?;
        let (_, rounds, rest) = element(rest)?;
        let rounds =
            rounds.iter().try_fold(0_u32, |sum, &byte| sum.checked_mul(256)?.checked_add(byte.into()))?;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?;
        let (_, vector, _) = element(element(cipher)?.2)?;
        Some(Sealed {
            salt,
            rounds,
            digest: digest(rest)?,
            is_256: match element(cipher)?.1 {
                AES_256_CBC => true,
                AES_128_CBC => false,
                _ => return None,
            },
            vector: vector.try_into().ok()?,
            data,
        })
    }

    fn open(&self, password: &[u8]) -> Option<PrivatePkcs8KeyDer<'static>> {
        let (algorithm, length) = if self.is_256 { (&AES_256, 32) } else { (&AES_128, 16) };
        let mut key = [0; 32];
        pbkdf2::derive(self.digest, self.rounds, self.salt, password, &mut key[..length]);
        decrypt(algorithm, &key[..length], self.vector, self.data).map(PrivatePkcs8KeyDer::from)
    }
}

/// The parameters of an algorithm, if it is this one.
fn after<'a>(algorithm: &'a [u8], identifier: &[u8]) -> Option<&'a [u8]> {
    let (_, found, rest) = element(algorithm)?;
    if found == identifier { Some(element(rest)?.1) } else { None }
}

/// The digest that the optional parameters of PBKDF2 name after the length of the key.
fn digest(mut rest: &[u8]) -> Option<pbkdf2::Algorithm> {
    const INTEGER: u8 = 0x02;
    if rest.first() == Some(&INTEGER) {
        rest = element(rest)?.2;
    }
    if rest.is_empty() {
        return Some(pbkdf2::PBKDF2_HMAC_SHA1);
    }
    let (_, function, _) = element(element(rest)?.1)?;
    match function.strip_prefix(HMAC)? {
        [7] => Some(pbkdf2::PBKDF2_HMAC_SHA1),
        [9] => Some(pbkdf2::PBKDF2_HMAC_SHA256),
        [10] => Some(pbkdf2::PBKDF2_HMAC_SHA384),
        [11] => Some(pbkdf2::PBKDF2_HMAC_SHA512),
        _ => None,
    }
}
