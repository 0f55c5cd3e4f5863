//! The brotli format (RFC 7932).

use super::coder::{Broken, Coder};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderDestroyInstance, BrotliEncoderStateStruct};
use brotli::enc::encode::{BrotliEncoderOperation as Operation, BrotliEncoderParameter as Parameter};

/// A compressor.
pub(super) struct Brotli {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    window: u32,
}

/// The smallest window, as a power of two.
const WINDOW_MIN: u32 = 10;

impl Brotli {
    /// A compressor of a quality from 0 to 11, whose window is a power of two from 10 to 24.
    pub(super) fn new(quality: u8, window: u8) -> Brotli {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(Parameter::BROTLI_PARAM_QUALITY, quality.into());
        Brotli { state, window: window.into() }
    }

    fn run(&mut self, bytes: &[u8], operation: Operation, out: &mut Vec<u8>) -> Result<(), Broken> {
        let (mut left, mut used) = (bytes.len(), 0);
        loop {
            // Without a buffer from here, the encoder keeps its output in its own memory, and it is copied once.
            let (mut room, mut made) = (0, 0);
            let worked = self.state.compress_stream(
                operation,
                &mut left,
                bytes,
                &mut used,
                &mut room,
                &mut [],
                &mut made,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !worked {
                return Err(Broken);
            }
            let mut length = 0;
            let output = self.state.take_output(&mut length);
            out.extend_from_slice(&output[..length]);
            let ended = !matches!(operation, Operation::BROTLI_OPERATION_FINISH) || self.state.is_finished();
            if left == 0 && !self.state.has_more_output() && ended {
                return Ok(());
            }
        }
    }
}

impl Coder for Brotli {
    /// Content whose length is known takes no more memory than it needs.
    fn begin(&mut self, length: Option<u64>) -> Result<(), Broken> {
        let mut window = self.window;
        if let Some(length) = length {
            window = window.min((u64::BITS - length.leading_zeros()).max(WINDOW_MIN));
            let hint = u32::try_from(length).unwrap_or(u32::MAX);
            self.state.set_parameter(Parameter::BROTLI_PARAM_SIZE_HINT, hint);
        }
        self.state.set_parameter(Parameter::BROTLI_PARAM_LGWIN, window);
        Ok(())
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(bytes, Operation::BROTLI_OPERATION_PROCESS, out)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(&[], Operation::BROTLI_OPERATION_FLUSH, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(&[], Operation::BROTLI_OPERATION_FINISH, out)
    }

    fn restart(&mut self) -> bool {
        false
    }
}

impl Drop for Brotli {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.state);
    }
}
