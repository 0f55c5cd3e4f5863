//! The Zstandard format (RFC 8878).

use super::coder::{Broken, Coder};
use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

/// By how much the output grows at least.
const GROWTH: usize = 4 * 1024;

/// The largest window, as a power of two. Clients need not take more than 8 MB (RFC 9659); this bounds what a
/// connection costs, too.
const WINDOW_MAX: u32 = 20;

/// From this level on the window would be larger.
const LARGE_FROM: i32 = 3;

/// Compressors of higher levels have too much memory to be kept.
const KEPT_LEVEL_MAX: i32 = 9;

/// A compressor.
pub(super) struct Zstd {
    encoder: Encoder<'static>,
    level: i32,
}

impl Zstd {
    /// A compressor of a level from 1 to 22, with a dictionary, which may be empty.
    pub(super) fn new(level: i32, dictionary: &[u8]) -> Result<Zstd, Broken> {
        let mut encoder = Encoder::with_dictionary(level, dictionary).map_err(|_| Broken)?;
        if level >= LARGE_FROM {
            encoder.set_parameter(CParameter::WindowLog(WINDOW_MAX)).map_err(|_| Broken)?;
        }
        Ok(Zstd { encoder, level })
    }

    /// Calls until nothing is left to write.
    fn drain(
        &mut self,
        out: &mut Vec<u8>,
        call: fn(&mut Encoder<'static>, &mut OutBuffer<'_, Vec<u8>>) -> std::io::Result<usize>,
    ) -> Result<(), Broken> {
        loop {
            out.reserve(GROWTH);
            let start = out.len();
            if call(&mut self.encoder, &mut OutBuffer::around_pos(out, start)).map_err(|_| Broken)? == 0 {
                return Ok(());
            }
        }
    }
}

impl Coder for Zstd {
    fn begin(&mut self, length: Option<u64>) -> Result<(), Broken> {
        self.encoder.set_pledged_src_size(length).map_err(|_| Broken)
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            out.reserve(GROWTH);
            let start = out.len();
            self.encoder.run(&mut input, &mut OutBuffer::around_pos(out, start)).map_err(|_| Broken)?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.drain(out, |encoder, out| encoder.flush(out))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.drain(out, |encoder, out| encoder.finish(out, true))
    }

    fn restart(&mut self) -> bool {
        self.level <= KEPT_LEVEL_MAX && self.encoder.reinit().is_ok()
    }
}
