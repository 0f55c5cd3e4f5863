//! The values of texts. Each function takes the texts of a directive; the error says what is wrong with them.

use aws_lc_rs::hmac;
use http::{base64, escape, hex, parse_number, uri};
use md5::{Digest, Md5};
use rustix::rand::{GetRandomFlags, getrandom};
use sha1::Sha1;

type Value = Result<Vec<u8>, &'static str>;

/// The longest random text.
const LONGEST: usize = 64;

const LETTERS_AND_DIGITS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

pub(super) fn first_that_is_not_empty(texts: &[Vec<u8>]) -> Value {
    Ok(texts.iter().find(|text| !text.is_empty()).cloned().unwrap_or_default())
}

pub(super) fn escape_uri(texts: &[Vec<u8>]) -> Value {
    let mut out = Vec::new();
    escape::query_value(&texts[0], &mut out);
    Ok(out)
}

pub(super) fn unescape_uri(texts: &[Vec<u8>]) -> Value {
    let spaced: Vec<u8> = texts[0].iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    let mut out = Vec::new();
    uri::unescape_uri(&spaced, &mut out);
    Ok(out)
}

pub(super) fn quote_json(texts: &[Vec<u8>]) -> Value {
    if texts[0].is_empty() {
        return Ok(b"null".to_vec());
    }
    let mut out = vec![b'"'];
    escape::json(&texts[0], &mut out);
    out.push(b'"');
    Ok(out)
}

pub(super) fn encode_base64(texts: &[Vec<u8>]) -> Value {
    Ok(base64::encode(&texts[0]).into())
}

pub(super) fn decode_base64(texts: &[Vec<u8>]) -> Value {
    decoded(&texts[0], base64::decode)
}

pub(super) fn encode_base64url(texts: &[Vec<u8>]) -> Value {
    Ok(base64::encode_url(&texts[0]).into())
}

pub(super) fn decode_base64url(texts: &[Vec<u8>]) -> Value {
    decoded(&texts[0], base64::decode_url)
}

fn decoded(text: &[u8], decode: fn(&[u8]) -> Option<Vec<u8>>) -> Value {
    // Padding alone decodes to nothing, as an empty text does.
    if matches!(text, [] | [b'=', ..]) {
        Ok(Vec::new())
    } else {
        decode(text).ok_or("the text is not Base64")
    }
}

pub(super) fn encode_hex(texts: &[Vec<u8>]) -> Value {
    Ok(hex::text(&texts[0]).into())
}

pub(super) fn decode_hex(texts: &[Vec<u8>]) -> Value {
    hex::bytes(&texts[0]).ok_or("the text does not consist of pairs of hexadecimal digits")
}

pub(super) fn md5(texts: &[Vec<u8>]) -> Value {
    Ok(hex::text(&Md5::digest(&texts[0])).into())
}

pub(super) fn sha1(texts: &[Vec<u8>]) -> Value {
    Ok(hex::text(&Sha1::digest(&texts[0])).into())
}

pub(super) fn hmac_sha1(texts: &[Vec<u8>]) -> Value {
    Ok(signed(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, texts))
}

pub(super) fn hmac_sha256(texts: &[Vec<u8>]) -> Value {
    Ok(signed(hmac::HMAC_SHA256, texts))
}

/// The second text, signed with the first.
fn signed(algorithm: hmac::Algorithm, texts: &[Vec<u8>]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, &texts[0]), &texts[1]).as_ref().to_vec()
}

pub(super) fn random(texts: &[Vec<u8>]) -> Value {
    let bound = |text: &[u8]| parse_number(text).ok_or("the bounds are not numbers");
    let (one, other) = (bound(&texts[0])?, bound(&texts[1])?);
    let (low, high) = (one.min(other), one.max(other));
    let count = u128::from(high - low) + 1;
    // The remainder of a number with 64 bits more than the count is as good as evenly distributed.
    let drawn = u128::from_ne_bytes(random_bytes()?) % count;
    let value = u128::from(low) + drawn;
    Ok(value.to_string().into())
}

pub(super) fn random_alphanum(texts: &[Vec<u8>]) -> Value {
    random_text(&texts[0], LETTERS_AND_DIGITS)
}

pub(super) fn random_lcalpha(texts: &[Vec<u8>]) -> Value {
    random_text(&texts[0], &LETTERS_AND_DIGITS[..26])
}

/// Characters of an alphabet, each as likely as the others.
fn random_text(length: &[u8], alphabet: &[u8]) -> Value {
    let length = parse_number(length).and_then(|length| usize::try_from(length).ok());
    let length =
        length.filter(|length| (1..=LONGEST).contains(length)).ok_or("the length is not from 1 to 64")?;
    let mut text = Vec::with_capacity(length);
    // A byte above the last multiple of the alphabet's length would favour its first characters.
    let fair = 256 - 256 % alphabet.len();
    while text.len() < length {
        let bytes = random_bytes::<LONGEST>()?.into_iter().map(usize::from).filter(|&byte| byte < fair);
        let missing = length - text.len();
        text.extend(bytes.map(|byte| alphabet[byte % alphabet.len()]).take(missing));
    }
    Ok(text)
}

fn random_bytes<const N: usize>() -> Result<[u8; N], &'static str> {
    let mut bytes = [0; N];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    if filled == Ok(N) { Ok(bytes) } else { Err("the system gives no random bytes") }
}

#[cfg(test)]
mod tests {
    use super::{Value, random, random_alphanum, random_lcalpha};

    fn value(function: fn(&[Vec<u8>]) -> Value, texts: &[&str]) -> Result<String, &'static str> {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        function(&texts).map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn random_numbers_are_within_their_bounds() {
        let drawn = |from: &str, to: &str| value(random, &[from, to]).unwrap().parse::<u64>().unwrap();
        assert_eq!(drawn("5", "5"), 5);
        for _ in 0..100 {
            assert!((3..=6).contains(&drawn("3", "6")) && (3..=6).contains(&drawn("6", "3")));
        }
        assert!(value(random, &["x", "6"]).is_err() && value(random, &["3", ""]).is_err());
    }

    #[test]
    fn random_texts_have_their_length_and_alphabet() {
        let text = value(random_alphanum, &["64"]).unwrap();
        assert!(text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
        assert_ne!(value(random_alphanum, &["64"]).unwrap(), text);
        let text = value(random_lcalpha, &["1"]).unwrap();
        assert!(text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_lowercase()), "{text}");
        for length in ["0", "65", "", "x", "-1"] {
            assert!(value(random_lcalpha, &[length]).is_err(), "{length}");
        }
    }
}
