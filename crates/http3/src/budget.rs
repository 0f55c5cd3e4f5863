//! What a peer may do that is allowed, but of no use: one budget pays for all of it. Useful frames earn it back.

use crate::{Code, Failure};

/// What a connection may spend before it has earned anything.
const BUDGET: u32 = 2000;

/// A frame that costs little to skip, or a piece of an instruction.
pub(crate) const CHEAP_FRAME: u32 = 1;

/// A stream of a type that is not known.
pub(crate) const UNKNOWN_STREAM: u32 = 10;

/// A DATA frame without content that is not paid for by content.
const EMPTY_DATA: u32 = 4;

/// A stream that the peer cancels, or that it makes us cancel, before it was answered. The work was for nothing.
pub(crate) const CANCELLED_STREAM: u32 = 10;

/// A stream beyond the limit, or on a connection that ends.
pub(crate) const REFUSED_STREAM: u32 = 10;

/// An interim response.
pub(crate) const INTERIM_HEAD: u32 = 10;

/// What a stream earns that was answered.
pub(crate) const EARNED_BY_ANSWER: u32 = 8;

/// So many bytes that are skipped cost one, and so many bytes of content earn one.
const BYTES_FOR_ONE: u64 = 1024;

/// How many DATA frames without content a frame with content pays for. Some programs send one to flush.
const EMPTY_PAID_BY_CONTENT: u32 = 8;

/// How many instructions for our table each section pays for.
const INSTRUCTIONS_OF_SECTION: u32 = 64;

/// The most instructions that are paid for in advance; so many are allowed at first.
const INSTRUCTIONS_MAX: u32 = 1024;

/// What is left for a peer to spend.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    /// How many DATA frames without content are paid for by content that we received.
    empty: u32,
    /// How many instructions are paid for by sections that we received.
    instructions: u32,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { left: BUDGET, empty: 0, instructions: INSTRUCTIONS_MAX }
    }

    /// Charges a frame or a stream.
    pub(crate) fn spend(&mut self, cost: u32) -> Result<(), Failure> {
        const FLOOD: Failure = Failure::new(Code::EXCESSIVE_LOAD, "http3 flood detected");
        self.left = self.left.checked_sub(cost).ok_or(FLOOD)?;
        Ok(())
    }

    /// Charges the head of a frame that is skipped.
    pub(crate) fn spend_for_unknown(&mut self, length: u64) -> Result<(), Failure> {
        let cost = u32::try_from(length / BYTES_FOR_ONE).unwrap_or(u32::MAX);
        self.spend(cost.saturating_add(CHEAP_FRAME))
    }

    /// Charges a DATA frame without content.
    pub(crate) fn spend_for_empty_data(&mut self) -> Result<(), Failure> {
        match self.empty.checked_sub(1) {
            Some(left) => self.empty = left,
            None => self.spend(EMPTY_DATA)?,
        }
        Ok(())
    }

    /// Charges an instruction for our table.
    pub(crate) fn spend_for_instruction(&mut self) -> Result<(), Failure> {
        match self.instructions.checked_sub(1) {
            Some(left) => self.instructions = left,
            None => self.spend(CHEAP_FRAME)?,
        }
        Ok(())
    }

    pub(crate) fn earn(&mut self, amount: u32) {
        self.left = self.left.saturating_add(amount).min(BUDGET);
    }

    /// Earns what content pays for that we received.
    pub(crate) fn earn_by_receiving(&mut self, length: usize) {
        self.empty = self.empty.saturating_add(EMPTY_PAID_BY_CONTENT).min(BUDGET);
        self.earn(u32::try_from(length as u64 / BYTES_FOR_ONE).unwrap_or(0));
    }

    /// Earns what a section pays for that we received.
    pub(crate) fn earn_by_section(&mut self) {
        self.instructions = (self.instructions + INSTRUCTIONS_OF_SECTION).min(INSTRUCTIONS_MAX);
    }
}
