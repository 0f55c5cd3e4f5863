//! Certificates that are sent compressed (RFC 8879).

use flate2::write::ZlibEncoder;
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};
use std::io::Write;

/// The zlib format, which clients have to know that know any.
#[derive(Debug)]
pub(crate) struct Zlib;

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let level = match level {
            CompressionLevel::Interactive => flate2::Compression::fast(),
            CompressionLevel::Amortized => flate2::Compression::best(),
        };
        let mut encoder = ZlibEncoder::new(Vec::new(), level);
        let written = encoder.write_all(&input).and_then(|()| encoder.finish());
        written.map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}
