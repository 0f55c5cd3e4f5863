//! A connection to another server on which the client says everything.

use http::{Fields, Status};
use upstream::{Decoded, Dialogue, Failure, Remarks};
use wire::Buffer;

/// A connection on which the client says everything.
#[derive(Default)]
pub(crate) struct Connected {
    /// There are none: a server sends no head.
    pub(crate) fields: Fields,
}

impl Dialogue for Connected {
    const IS_TUNNEL: bool = true;

    fn clear(&mut self) {
        self.fields.clear();
    }

    fn memory(&self) -> usize {
        0
    }

    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn append_piece(&mut self, _: &[u8], _: &mut Vec<u8>) {}

    fn append_end(&mut self, _: &mut Vec<u8>) {}

    fn read_head(&mut self, _: &mut Buffer, _: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        Ok(Some(Status::OK))
    }

    fn read_content(&mut self, _: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        Ok(Decoded::End)
    }

    fn ends_with_connection(&self) -> bool {
        true
    }

    fn keeps_connection(&self) -> bool {
        false
    }
}
