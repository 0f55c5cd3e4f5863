//! Base64 (RFC 4648), read as leniently as nginx reads it: padding may be left out, and what follows it is ignored.

use ::base64::Engine;
use ::base64::alphabet;
use ::base64::engine::DecodePaddingMode;
use ::base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone);
const DECODE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const DECODE_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The text of `bytes` (section 4), with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The text of `bytes` with the alphabet for URLs (section 5), without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a text (section 4). An empty text has none.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    decode_by(&DECODE, text)
}

/// The bytes of a text with the alphabet for URLs (section 5). An empty text has none.
pub fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    decode_by(&DECODE_URL, text)
}

fn decode_by(engine: &GeneralPurpose, text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'=').unwrap_or(text.len());
    engine.decode(&text[..end]).ok().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{decode, decode_url, encode, encode_url};

    #[test]
    fn bytes_become_text() {
        assert_eq!(encode(b""), "");
        assert_eq!(encode(b"fooba"), "Zm9vYmE=");
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn padding_may_be_left_out() {
        for text in ["Zm9vYmE=", "Zm9vYmE", "Zm9vYmE=more", "Zm9vYmF"] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(&b"fooba"[..]), "{text}");
            assert_eq!(decode_url(text.as_bytes()).as_deref(), Some(&b"fooba"[..]), "{text}");
        }
    }

    #[test]
    fn each_alphabet_refuses_letters_of_the_other() {
        assert_eq!(decode(b"+/8=").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!(decode_url(b"-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!((decode(b"-_8"), decode_url(b"+/8=")), (None, None));
    }

    #[test]
    fn wrong_texts_have_no_bytes() {
        for wrong in ["", "=", "Z", "Zm9v*", "Zm9vY", "Zm 9"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
