//! Compressed bodies, which two servers need not compress alike.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::response::Response;

/// The content of a response without the coding, gzip or brotli; a body that is broken, or has no such coding, stays
/// as it is.
pub fn content(response: &Response) -> Vec<u8> {
    let plain = match response.field("Content-Encoding") {
        Some("gzip") => inflate(&response.body),
        Some("br") => unfold(&response.body),
        _ => None,
    };
    plain.unwrap_or_else(|| response.body.clone())
}

/// What was compressed with brotli; `None` where it is broken or its end is missing.
fn unfold(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let whole = !bytes.is_empty() && brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).is_ok();
    whole.then_some(plain)
}

/// What was compressed in the gzip format; `None` where it is broken or its end is missing.
pub fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let whole = !bytes.is_empty() && MultiGzDecoder::new(bytes).read_to_end(&mut plain).is_ok();
    whole.then_some(plain)
}

/// Bytes in the gzip format.
pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(bytes, flate2::Compression::default());
    encoder.read_to_end(&mut coded).expect("memory");
    coded
}

#[cfg(test)]
mod tests {
    use super::{content, deflate, inflate};
    use crate::response::Response;

    #[test]
    fn only_whole_content_is_inflated() {
        let coded = deflate(b"content");
        assert_eq!(inflate(&coded).as_deref(), Some(&b"content"[..]));
        assert_eq!(inflate(&coded[..coded.len() - 1]), None);
        assert_eq!(inflate(b""), None);
        let field = ("Content-Encoding".to_owned(), "gzip".to_owned());
        let response = Response { fields: vec![field], body: coded.clone(), ..Response::default() };
        assert_eq!(content(&response), b"content");
        assert_eq!(content(&Response { body: coded.clone(), ..Response::default() }), coded);
        // An uncompressed block of brotli, and the empty one that is the last.
        let coded = b"\x0f\x03\x80content\x03".to_vec();
        let field = ("Content-Encoding".to_owned(), "br".to_owned());
        let response = Response { fields: vec![field], body: coded.clone(), ..Response::default() };
        assert_eq!(content(&response), b"content");
        let cut = Response { body: coded[..coded.len() - 1].into(), ..response };
        assert_eq!(content(&cut), cut.body);
    }
}
