//! The compressor: bytes in, the gzip format (RFC 1952) out.

use flate2::{Compress, Compression, FlushCompress, Status};

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Settings {
    /// From 1 to 9.
    pub(super) level: u8,
    /// How far back a repetition is found, as a power of two, from 9 to 15.
    pub(super) window: u8,
}

/// A compressor in the middle of its work.
pub(super) struct Deflate {
    compress: Compress,
    /// Whether bytes went in that need not have come out.
    holds_back: bool,
}

/// By how much the output grows at least.
const GROWTH: usize = 4 * 1024;

impl Deflate {
    pub(super) fn new(settings: Settings) -> Deflate {
        let level = Compression::new(u32::from(settings.level));
        Deflate { compress: Compress::new_gzip(level, settings.window), holds_back: false }
    }

    /// Takes bytes, and appends what comes out by now, which may be nothing.
    pub(super) fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.holds_back |= !bytes.is_empty();
        self.run(bytes, FlushCompress::None, out);
    }

    /// Appends all that was held back, so that the client can read every byte so far.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.holds_back) {
            self.run(&[], FlushCompress::Sync, out);
        }
    }

    /// Appends the rest and the checksum.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.run(&[], FlushCompress::Finish, out);
    }

    /// How many bytes went in.
    pub(super) fn bytes_in(&self) -> u64 {
        self.compress.total_in()
    }

    /// How many bytes came out.
    pub(super) fn bytes_out(&self) -> u64 {
        self.compress.total_out()
    }

    fn run(&mut self, bytes: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
        let start = self.compress.total_in();
        loop {
            out.reserve(GROWTH);
            let used = usize::try_from(self.compress.total_in() - start).unwrap_or(bytes.len());
            let status = self.compress.compress_vec(&bytes[used..], out, flush);
            let left = self.compress.total_in() - start < bytes.len() as u64;
            let had_room = out.len() < out.capacity();
            let done = match flush {
                FlushCompress::Finish => !matches!(status, Ok(Status::Ok)),
                _ => had_room && !left,
            };
            if done || status.is_err() {
                debug_assert!(status.is_ok(), "a compressor that is used in order has no errors");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Deflate, Settings};
    use std::io::Read;

    #[test]
    fn one_header_whatever_the_settings() {
        for level in 1..=9 {
            for window in 9..=15 {
                let mut deflate = Deflate::new(Settings { level, window });
                let mut out = Vec::new();
                deflate.add(b"first", &mut out);
                deflate.add(b" second", &mut out);
                deflate.finish(&mut out);
                assert_eq!(inflate(&out), b"first second", "level {level}, window {window}");
            }
        }
    }

    fn inflate(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // What was flushed can be read, although the end is missing.
        let _ = flate2::read::GzDecoder::new(bytes).read_to_end(&mut out);
        out
    }

    #[test]
    fn flushed_bytes_can_be_read_before_the_end() {
        let mut deflate = Deflate::new(Settings { level: 1, window: 15 });
        let mut out = Vec::new();
        deflate.add(b"first", &mut out);
        deflate.flush(&mut out);
        assert_eq!(inflate(&out), b"first");
        let length = out.len();
        deflate.flush(&mut out);
        assert_eq!(out.len(), length, "nothing new, nothing to flush");
        deflate.add(b" second", &mut out);
        deflate.finish(&mut out);
        assert_eq!(inflate(&out), b"first second");
        assert_eq!((deflate.bytes_in(), deflate.bytes_out()), (12, out.len() as u64));
    }

    #[test]
    fn what_cannot_be_compressed_grows_a_little() {
        let noise: Vec<u8> = (0..200_000_u64)
            .scan(1_u64, |state, _| {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                Some(state.to_be_bytes()[0])
            })
            .collect();
        for (level, window) in [(1, 9), (6, 15), (9, 12)] {
            let mut deflate = Deflate::new(Settings { level, window });
            let mut out = Vec::new();
            deflate.add(&noise, &mut out);
            deflate.finish(&mut out);
            assert!(out.len() < noise.len() + noise.len() / 10, "{} at {level}", out.len());
            assert_eq!(inflate(&out), noise);
        }
    }
}
