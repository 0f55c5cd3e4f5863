//! The gzip format (RFC 1952).

use super::coder::{Broken, Coder};
use flate2::{Compress, Compression, FlushCompress, Status};

/// By how much the output grows at least.
const GROWTH: usize = 4 * 1024;

/// A compressor.
pub(super) struct Deflate {
    compress: Compress,
}

impl Deflate {
    /// A compressor of a level from 1 to 9 with a window of 2^`window` bytes, where `window` is 9 to 15.
    pub(super) fn new(level: u8, window: u8) -> Deflate {
        // At level 1, zlib-rs makes a fifth more bytes than zlib, which nginx uses; at level 2 it makes fewer than zlib at level 1.
        let level = Compression::new(u32::from(level.max(2)));
        Deflate { compress: Compress::new_gzip(level, window) }
    }

    fn run(&mut self, bytes: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), Broken> {
        let start = self.compress.total_in();
        loop {
            out.reserve(GROWTH);
            let used = usize::try_from(self.compress.total_in() - start).unwrap_or(bytes.len());
            let status = self.compress.compress_vec(&bytes[used..], out, flush).map_err(|_| Broken)?;
            let left = self.compress.total_in() - start < bytes.len() as u64;
            let had_room = out.len() < out.capacity();
            let done = match flush {
                FlushCompress::Finish => status != Status::Ok,
                _ => had_room && !left,
            };
            if done {
                return Ok(());
            }
        }
    }
}

impl Coder for Deflate {
    fn begin(&mut self, _: Option<u64>) -> Result<(), Broken> {
        Ok(())
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(bytes, FlushCompress::None, out)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(&[], FlushCompress::Sync, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(&[], FlushCompress::Finish, out)
    }

    fn restart(&mut self) -> bool {
        self.compress.reset();
        true
    }
}
