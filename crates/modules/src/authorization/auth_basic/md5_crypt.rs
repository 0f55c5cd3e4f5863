//! Passwords by a thousand rounds of MD5: `$1$` of Unix and `$apr1$` of Apache.

use md5::{Digest, Md5};

/// How the bytes of the result are put in groups of three, and the last one alone.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const LAST: usize = 11;

/// The digits of all Unix passwords.
pub(super) const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The salt ends after so many bytes.
const SALT_MAX: usize = 8;

/// The 22 characters after the salt.
pub(super) fn md5_crypt(password: &[u8], magic: &[u8], salt: &[u8]) -> Vec<u8> {
    let salt = &salt[..salt.len().min(SALT_MAX)];
    let mut result = first(password, magic, salt);
    for round in 0..1000 {
        let mut hash = Md5::new();
        let odd = round % 2 == 1;
        hash.update(if odd { password } else { &result });
        if round % 3 != 0 {
            hash.update(salt);
        }
        if round % 7 != 0 {
            hash.update(password);
        }
        hash.update(if odd { &result } else { password });
        result = hash.finalize().into();
    }
    let mut text = Vec::with_capacity(22);
    for [high, middle, low] in GROUPS {
        let bytes = [result[high], result[middle], result[low]];
        digits(bytes.into_iter().fold(0, |bits, byte| bits << 8 | u32::from(byte)), 4, &mut text);
    }
    digits(u32::from(result[LAST]), 2, &mut text);
    text
}

fn first(password: &[u8], magic: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut hash = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for part in password.chunks(inner.len()) {
        hash.update(&inner[..part.len()]);
    }
    let mut length = password.len();
    while length > 0 {
        // As written in the original: a zero for each bit that is set, else the first character.
        hash.update(if length % 2 == 1 { &[0] } else { &password[..1] });
        length /= 2;
    }
    hash.finalize().into()
}

/// Six bits a digit, the low ones first.
fn digits(mut bits: u32, count: usize, text: &mut Vec<u8>) {
    for _ in 0..count {
        text.push(DIGITS[(bits % 64) as usize]);
        bits /= 64;
    }
}

#[cfg(test)]
mod tests {
    use super::md5_crypt;

    #[test]
    fn as_others_compute_it() {
        let crypt = |password: &[u8], magic: &[u8], salt: &[u8]| {
            String::from_utf8(md5_crypt(password, magic, salt)).unwrap()
        };
        assert_eq!(crypt(b"secret", b"$1$", b"saltsalt"), "9xy1btjgzLYfb7hivXtC//");
        assert_eq!(crypt(b"secret", b"$apr1$", b"ZrfCvvaN"), "FUiZuofnEO2yDvT9xruCO.");
        assert_eq!(crypt(b"secret", b"$apr1$", b"ZrfCvvaNmore"), "FUiZuofnEO2yDvT9xruCO.");
    }
}
