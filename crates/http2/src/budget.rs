//! What a peer may do that is allowed, but of no use: one budget pays for all of it. Useful frames earn it back.

use crate::{Code, Failure};

/// What a connection may spend before it has earned anything.
const BUDGET: u32 = 2000;

/// A frame that costs little to answer or to skip.
pub(crate) const CHEAP_FRAME: u32 = 1;

/// A frame that is answered, or changes the whole connection.
pub(crate) const SETTINGS_FRAME: u32 = 10;

/// A DATA frame without content that does not end its stream.
pub(crate) const EMPTY_DATA: u32 = 10;

/// A further frame of one block of fields.
pub(crate) const CONTINUATION_FRAME: u32 = 2;

/// A stream that the peer cancels, or that it makes us cancel, before it was answered. The work was for nothing.
pub(crate) const CANCELLED_STREAM: u32 = 10;

/// A stream beyond the limit, or on a connection that ends.
pub(crate) const REFUSED_STREAM: u32 = 10;

/// A DATA frame with less than this is as good as empty, in bytes. A message of gRPC has at least 5.
pub(crate) const TINY_DATA: usize = 5;

/// What a sent DATA frame earns: the peer answers it with updates of its windows.
pub(crate) const EARNED_BY_DATA: u32 = 3;

/// What a DATA frame of a server earns: the response is what the connection is for.
pub(crate) const EARNED_BY_CONTENT: u32 = 1;

/// An interim response.
pub(crate) const INTERIM_HEAD: u32 = 10;

/// What a stream earns that was answered.
pub(crate) const EARNED_BY_ANSWER: u32 = 8;

/// What is left for a peer to spend.
#[derive(Debug)]
pub(crate) struct Budget(u32);

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget(BUDGET)
    }

    /// Charges a frame.
    pub(crate) fn spend(&mut self, cost: u32) -> Result<(), Failure> {
        const FLOOD: Failure = Failure::new(Code::ENHANCE_YOUR_CALM, "http2 flood detected");
        self.0 = self.0.checked_sub(cost).ok_or(FLOOD)?;
        Ok(())
    }

    pub(crate) fn earn(&mut self, amount: u32) {
        self.0 = self.0.saturating_add(amount).min(BUDGET);
    }
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
