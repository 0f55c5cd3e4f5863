//! What a peer may do that is allowed, but of no use: one budget pays for all of it. Useful frames earn it back.

use crate::{Code, Failure};

/// What a connection may spend before it has earned anything.
const BUDGET: u32 = 2000;

/// A frame that costs little to answer or to skip.
pub(crate) const CHEAP_FRAME: u32 = 1;

/// A frame that is answered, or changes the whole connection.
pub(crate) const SETTINGS_FRAME: u32 = 10;

/// A DATA frame without content that does not end its stream and is not paid for by content.
const EMPTY_DATA: u32 = 4;

/// A further frame of one block of fields.
pub(crate) const CONTINUATION_FRAME: u32 = 2;

/// A stream that the peer cancels, or that it makes us cancel, before it was answered. The work was for nothing.
pub(crate) const CANCELLED_STREAM: u32 = 10;

/// A stream beyond the limit, or on a connection that ends.
pub(crate) const REFUSED_STREAM: u32 = 10;

/// A padded DATA frame with less content than this is charged, because each is answered. In bytes; a message of gRPC has
/// at least 5.
const TINY_DATA: usize = 5;

/// What a sent DATA frame earns: the peer answers it with updates of its windows.
const EARNED_BY_DATA: u32 = 3;

/// So many bytes of content that a client sends earn one.
const EARNS_ONE: usize = 1024;

/// What a DATA frame of a server earns: the response is what the connection is for.
pub(crate) const EARNED_BY_CONTENT: u32 = 1;

/// An interim response.
pub(crate) const INTERIM_HEAD: u32 = 10;

/// What a stream earns that was answered.
pub(crate) const EARNED_BY_ANSWER: u32 = 8;

/// One WINDOW_UPDATE frame is paid for by so many bytes of content that we sent. A peer may open two windows for each.
const UPDATE_PAID_BY: usize = 16;

/// How many WINDOW_UPDATE frames each DATA frame pays for at least: one for each window.
const UPDATES_MIN: u32 = 2;

/// The most WINDOW_UPDATE frames that are paid for in advance.
const UPDATES_MAX: u32 = 1 << 18;

/// How many DATA frames without content a frame with content pays for. Some programs send one to flush.
const EMPTY_PAID_BY_CONTENT: u32 = 8;

/// What is left for a peer to spend. What moves content pays for itself, and not for streams that are cancelled.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    /// How many WINDOW_UPDATE frames are paid for by content that we sent.
    updates: u32,
    /// How many DATA frames without content are paid for by content that we received.
    empty: u32,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { left: BUDGET, updates: 0, empty: 0 }
    }

    /// Charges a frame.
    pub(crate) fn spend(&mut self, cost: u32) -> Result<(), Failure> {
        const FLOOD: Failure = Failure::new(Code::ENHANCE_YOUR_CALM, "http2 flood detected");
        self.left = self.left.checked_sub(cost).ok_or(FLOOD)?;
        Ok(())
    }

    /// Charges a WINDOW_UPDATE frame.
    pub(crate) fn spend_for_update(&mut self) -> Result<(), Failure> {
        match self.updates.checked_sub(1) {
            Some(left) => self.updates = left,
            None => self.spend(CHEAP_FRAME)?,
        }
        Ok(())
    }

    /// Charges a DATA frame that does not end its stream, if it is of little use.
    pub(crate) fn spend_for_data(&mut self, length: usize, is_padded: bool) -> Result<(), Failure> {
        match self.empty.checked_sub(1) {
            _ if is_useful(length, is_padded) => {}
            Some(left) => self.empty = left,
            None => self.spend(if length == 0 { EMPTY_DATA } else { CHEAP_FRAME })?,
        }
        Ok(())
    }

    pub(crate) fn earn(&mut self, amount: u32) {
        self.left = self.left.saturating_add(amount).min(BUDGET);
    }

    /// Earns what a DATA frame pays for that we sent.
    pub(crate) fn earn_by_sending(&mut self, length: usize) {
        let updates = u32::try_from(length / UPDATE_PAID_BY).unwrap_or(UPDATES_MAX).max(UPDATES_MIN);
        self.updates = self.updates.saturating_add(updates).min(UPDATES_MAX);
        self.earn(EARNED_BY_DATA);
    }

    /// Earns what a DATA frame pays for that we received.
    pub(crate) fn earn_by_receiving(&mut self, length: usize, is_padded: bool) {
        if is_useful(length, is_padded) {
            self.empty = self.empty.saturating_add(EMPTY_PAID_BY_CONTENT).min(BUDGET);
            self.earn(u32::try_from(length / EARNS_ONE).unwrap_or(0));
        }
    }
}

/// Whether a DATA frame with so many bytes of content moves something.
fn is_useful(length: usize, is_padded: bool) -> bool {
    length >= TINY_DATA || (length > 0 && !is_padded)
}

#[cfg(test)]
mod tests {
    use super::{BUDGET, Budget};
    use crate::Code;

    #[test]
    fn a_budget_is_spent_and_earned() {
        let mut budget = Budget::new();
        for _ in 0..BUDGET / 10 {
            budget.spend(10).unwrap();
        }
        assert_eq!(budget.spend(1).unwrap_err().code, Code::ENHANCE_YOUR_CALM);
        budget.earn(u32::MAX);
        budget.spend(BUDGET).unwrap();
        assert!(budget.spend(1).is_err(), "no more than the whole budget is earned");
    }
}
