//! What the peer's decoder tells our encoder (RFC 9204, section 4.4). Our sections refer to no dynamic table, so there is
//! nothing to acknowledge.

use super::NUMBER_MAX;
use crate::budget::{Budget, CHEAP_FRAME};
use crate::{Code, Failure};
use field_codes::Malformed::Truncated;
use field_codes::integer;

/// The most bytes that a number has.
const LENGTH_MAX: usize = 10;

/// Reads the peer's decoder stream.
#[derive(Debug, Default)]
pub(crate) struct FeedbackReader {
    /// A number whose end has not come, and its length.
    pending: [u8; LENGTH_MAX],
    length: usize,
}

impl FeedbackReader {
    /// Reads the next bytes.
    ///
    /// # Errors
    /// The peer acknowledges what was not sent.
    pub(crate) fn read(&mut self, input: &[u8], budget: &mut Budget) -> Result<(), Failure> {
        const WRONG: Failure =
            Failure::new(Code::QPACK_DECODER_STREAM_ERROR, "client acknowledged fields that were not sent");
        for &byte in input {
            let Some(next) = self.pending.get_mut(self.length) else { return Err(WRONG) };
            (*next, self.length) = (byte, self.length + 1);
            let is_cancellation = self.pending[0] & 0xc0 == 0x40;
            match integer::read::<NUMBER_MAX>(&self.pending[..self.length], 6) {
                // That a stream was cancelled may be told in any case.
                Ok(_) if is_cancellation => self.length = 0,
                Err(Truncated) if is_cancellation => continue,
                _ => return Err(WRONG),
            }
            budget.spend(CHEAP_FRAME)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FeedbackReader;
    use crate::Code;
    use crate::budget::Budget;

    #[test]
    fn only_cancellations_are_allowed() {
        let read = |bytes: &[u8]| {
            let (mut reader, mut budget) = (FeedbackReader::default(), Budget::new());
            bytes
                .iter()
                .try_for_each(|byte| reader.read(&[*byte], &mut budget))
                .map_err(|failure| failure.code)
        };
        assert_eq!(read(&[0x40, 0x44, 0x7f, 0xff, 1, 0x48]), Ok(()));
        for bytes in
            [&[0x80][..], &[0x44, 0x84], &[1], &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]]
        {
            assert_eq!(read(bytes), Err(Code::QPACK_DECODER_STREAM_ERROR), "{bytes:x?}");
        }
        assert_eq!(read(&[0x44; 5000]), Err(Code::EXCESSIVE_LOAD));
    }
}
