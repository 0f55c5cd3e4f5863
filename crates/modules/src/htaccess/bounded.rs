//! What files cost for a request: whatever they say, texts stay short and rules come to an end.

use conf::value::TooManySteps;
use contract::log::Level;
use contract::{Exchange, Step};
use http::Status;
use std::cell::Cell;
use std::fmt;

/// The longest of these texts, and the most that a request's environment holds, in bytes.
pub(super) const BYTES_MAX: usize = 64 * 1024;

/// Why what a file says cannot be carried out for a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// A text would be longer than [`BYTES_MAX`].
    TooLong,
    /// Rules that go on for longer than a [`Budget`].
    TooMuch,
    /// A pattern that tries too much.
    Pattern(TooManySteps),
}

impl Failure {
    /// Ends the request, for a reason that the log tells.
    pub(super) fn refuse(self, exchange: &Exchange) -> Step {
        exchange.log(Level::Error, &format!("a file with settings failed: {self}"));
        Step::Finish(Status::INTERNAL_SERVER_ERROR)
    }
}

impl From<TooManySteps> for Failure {
    fn from(steps: TooManySteps) -> Failure {
        Failure::Pattern(steps)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::TooLong => write!(f, "a text of more than {BYTES_MAX} bytes"),
            Failure::TooMuch => f.write_str("the rules have no end"),
            Failure::Pattern(steps) => steps.fmt(f),
        }
    }
}

/// What one request may have of the rules of one directory.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Budget {
    /// So many rules, conditions and texts.
    const STEPS: usize = 32_000;

    /// Bytes that cost one more.
    const STEP_BYTES: usize = 1024;

    pub(super) fn new() -> Budget {
        Budget(Cell::new(Budget::STEPS))
    }

    /// Pays for a step that goes through so many bytes.
    pub(super) fn spend(&self, bytes: usize) -> Result<(), Failure> {
        let left = self.0.get().checked_sub(1 + bytes / Budget::STEP_BYTES);
        self.0.set(left.ok_or(Failure::TooMuch)?);
        Ok(())
    }
}

/// Appends what a text goes on with.
pub(super) fn append(text: &mut Vec<u8>, more: &[u8]) -> Result<(), Failure> {
    if more.len() > BYTES_MAX.saturating_sub(text.len()) {
        return Err(Failure::TooLong);
    }
    text.extend_from_slice(more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Budget, append};

    #[test]
    fn a_text_ends_at_its_limit() {
        let mut text = vec![b'x'; BYTES_MAX - 1];
        assert!(append(&mut text, b"").is_ok() && append(&mut text, b"ab").is_err());
        assert!(append(&mut text, b"a").is_ok() && append(&mut text, b"b").is_err());
        assert_eq!(text.len(), BYTES_MAX);
    }

    #[test]
    fn long_texts_cost_more() {
        let steps = |bytes: usize| {
            let budget = Budget::new();
            (0..).take_while(|_| budget.spend(bytes).is_ok()).count()
        };
        assert_eq!((steps(0), steps(1024), steps(BYTES_MAX)), (32_000, 16_000, 492));
    }
}
