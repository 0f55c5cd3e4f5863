//! What the codings have in common.

/// The compressor gave up. It has no reason to, but what comes out of it cannot be used then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A coding's compressor. What comes out is appended.
pub(super) trait Coder {
    /// Begins, once before anything else, with content of this length, where it is known.
    fn begin(&mut self, length: Option<u64>) -> Result<(), Broken>;

    /// Takes bytes, and gives what comes out by now, which may be nothing.
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken>;

    /// Gives all that was held back, so that the client can read every byte so far.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken>;

    /// Gives the rest.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken>;

    /// Makes it ready to begin again; `false` where a new one is as good.
    fn restart(&mut self) -> bool;
}
