//! What files cost for a request: whatever they say, texts stay short and rules come to an end.

use conf::value::{Captures, Pattern, TooManySteps};
use contract::{Budget, Exchange, Spent, Step};
use http::Status;
use journal::Level;
use std::fmt;

/// The longest of these texts, and the most that a request's environment holds, in bytes.
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// Why what a file says cannot be carried out for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// A text would be longer than [`BYTES_MAX`].
    TooLong,
    /// The request's [`Budget`] is spent.
    Spent,
    /// A pattern that tries too much.
    Pattern(TooManySteps),
}

impl Failure {
    /// Ends the request, for a reason that the log tells.
    pub(crate) fn refuse(self, exchange: &mut Exchange) -> Step {
        Step::Finish(self.status(exchange))
    }

    /// The status that ends the request; the log tells the reason.
    pub(crate) fn status(self, exchange: &mut Exchange) -> Status {
        let is_spent = matches!(self, Failure::Spent);
        let budget = exchange.budget();
        if !is_spent || budget.tell() {
            exchange.log(Level::Error, &format!("a file with settings failed: {self}"));
        }
        match is_spent {
            true => budget.refusal(&mut exchange.response.fields),
            false => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<Spent> for Failure {
    fn from(Spent: Spent) -> Failure {
        Failure::Spent
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
            Failure::Spent => Spent.fmt(f),
            Failure::Pattern(steps) => steps.fmt(f),
        }
    }
}

/// Looks for a pattern in a subject, for which the budget of the request pays.
pub(crate) fn find(
    pattern: &Pattern,
    subject: &[u8],
    captures: &mut Captures,
    budget: &Budget,
) -> Result<bool, Failure> {
    if pattern.is_quick(subject) {
        budget.step(subject.len())?;
        return Ok(pattern.try_captures(subject, captures)?);
    }
    Ok(budget.timed(|| pattern.try_captures(subject, captures))??)
}

/// Whether a pattern matches anywhere in a subject, as [`find`].
pub(crate) fn is_match(pattern: &Pattern, subject: &[u8], budget: &Budget) -> Result<bool, Failure> {
    if pattern.is_quick(subject) {
        budget.step(subject.len())?;
        return Ok(pattern.try_is_match(subject)?);
    }
    Ok(budget.timed(|| pattern.try_is_match(subject))??)
}

/// Appends what a text goes on with.
pub(crate) fn append(text: &mut Vec<u8>, more: &[u8]) -> Result<(), Failure> {
    count(&mut text.len(), more.len())?;
    text.extend_from_slice(more);
    Ok(())
}

/// Adds to the length of what one request makes.
pub(crate) fn count(length: &mut usize, more: usize) -> Result<(), Failure> {
    if more > BYTES_MAX.saturating_sub(*length) {
        return Err(Failure::TooLong);
    }
    *length += more;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Budget, Captures, Failure, Pattern, append, find};
    use conf::value::Language;

    #[test]
    fn a_text_ends_at_its_limit() {
        let mut text = vec![b'x'; BYTES_MAX - 1];
        assert!(append(&mut text, b"").is_ok() && append(&mut text, b"ab").is_err());
        assert!(append(&mut text, b"a").is_ok() && append(&mut text, b"b").is_err());
        assert_eq!(text.len(), BYTES_MAX);
    }

    #[test]
    fn patterns_that_backtrack_spend_the_budget() {
        let pattern = Pattern::limited(b"^(a|aa)+$(?=)", false, Language::Apache, 20_000).unwrap();
        let subject = [&[b'a'; 40][..], b"b"].concat();
        let budget = Budget::default();
        let mut found = (0..).map(|_| find(&pattern, &subject, &mut Captures::default(), &budget));
        assert!(matches!(found.next(), Some(Err(Failure::Pattern(_)))));
        let tries = found.take_while(|found| matches!(found, Err(Failure::Pattern(_)))).count();
        assert!(tries < 62_500 && budget.spend(0).is_err(), "{tries}");
    }
}
