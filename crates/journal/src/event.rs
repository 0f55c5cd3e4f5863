//! What is decided about a request, step by step, as data: the error log shows it as lines (`error_log … debug`),
//! and `fulmar explain` gets all of it.

use conf::Span;
use conf::tree::printable;
use std::cell::RefCell;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which feature, or what part of the server.
    pub feature: &'static str,
    /// The directive that decided, where one did.
    pub place: Option<Span>,
    /// What was decided, in words for a person.
    pub text: String,
    /// What it was decided by, by name; controls and stray bytes are escaped.
    pub members: Vec<(&'static str, String)>,
    /// What was considered, and not chosen.
    pub considered: Vec<Event>,
}

impl Event {
    /// A step of this feature.
    pub fn new(feature: &'static str, text: impl Into<String>) -> Event {
        Event { feature, place: None, text: text.into(), members: Vec::new(), considered: Vec::new() }
    }

    /// The directive that decided.
    #[must_use]
    pub fn at(mut self, place: Option<Span>) -> Event {
        self.place = place;
        self
    }

    /// Adds what it was decided by.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Event {
        self.members.push((name, printable(value.as_ref())));
        self
    }

    /// Adds what was considered, too.
    #[must_use]
    pub fn among(mut self, considered: Vec<Event>) -> Event {
        self.considered = considered;
        self
    }

    /// The value of a member.
    pub fn member(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value)
    }
}

/// The steps of a request that `fulmar explain` shows.
#[derive(Debug, Default)]
pub struct Events(RefCell<Vec<Event>>);

impl Events {
    /// Takes note of a step.
    pub fn add(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }

    /// All steps so far; there are none afterwards.
    pub fn take(&self) -> Vec<Event> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Events};

    #[test]
    fn members_can_be_shown() {
        let events = Events::default();
        events.add(Event::new("a", "t").with("x", b"a\r\xff"));
        let taken = events.take();
        assert_eq!(taken[0].member("x"), Some("a\\x0D\\xFF"));
        assert_eq!((taken[0].member("y"), events.take().len()), (None, 0));
    }
}
