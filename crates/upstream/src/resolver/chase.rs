//! From a name to an answer, over all names that it is an alias for.

use super::asked::Waiter;
use super::asking;
use super::{Resolver, Unresolved, Valid};
use dns::{Answer, Code, Name, Wanted};
use journal::ErrorLog;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// How many aliases are followed.
const ALIASES_MAX: u32 = 50;

/// The way from a name to an answer.
#[derive(Debug)]
pub(super) struct Chase {
    resolver: Arc<Resolver>,
    /// The name that is asked about now; none if it is no name.
    name: Option<Name>,
    wanted: Wanted,
    aliases: u32,
    /// Until when all aliases so far are valid.
    until: Option<Instant>,
    /// The question that is waited for.
    waiter: Option<Waiter>,
    has_asked: bool,
}

impl Chase {
    pub(super) fn new(resolver: &Arc<Resolver>, name: Option<Name>, wanted: Wanted) -> Chase {
        let resolver = Arc::clone(resolver);
        Chase { resolver, name, wanted, aliases: 0, until: None, waiter: None, has_asked: false }
    }

    /// Whether the answer was known without a question.
    pub(super) fn was_known(&self) -> bool {
        !self.has_asked
    }

    /// Ready with an answer that is no alias.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, log: &ErrorLog) -> Poll<Result<Valid, Unresolved>> {
        loop {
            let (answer, until) = ready!(self.poll_one(cx, log))?;
            let until = self.until.map_or(until, |before| before.min(until));
            let Answer::Alias(target) = answer else { return Poll::Ready(Ok((answer, until))) };
            self.aliases += 1;
            if self.aliases > ALIASES_MAX {
                return Poll::Ready(Err(Unresolved::Code(Code::NotFound)));
            }
            (self.name, self.until) = (Some(target), Some(until));
        }
    }

    /// Ready with the answer about one name.
    fn poll_one(&mut self, cx: &mut Context<'_>, log: &ErrorLog) -> Poll<Result<Valid, Unresolved>> {
        let waiter = match &mut self.waiter {
            Some(waiter) => waiter,
            None => {
                let Some(name) = &self.name else {
                    return Poll::Ready(Err(Unresolved::Code(Code::NotFound)));
                };
                if let Some(known) = self.resolver.cached(name, self.wanted) {
                    return Poll::Ready(Ok(known));
                }
                self.has_asked = true;
                self.waiter.insert(asking::ask(&self.resolver, name, self.wanted, log)?)
            }
        };
        let outcome = ready!(waiter.poll(cx));
        self.waiter = None;
        Poll::Ready(outcome.map_err(Unresolved::Code))
    }
}
