//! Compressed bodies, which two servers need not compress alike.

use std::io::Read;

pub use migrate::compare::{content, inflate};

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
