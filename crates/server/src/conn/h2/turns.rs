//! Whose turn it is to send: the streams of a connection that have content for their client (RFC 9218, section 10).

use http2::Priority;
use std::collections::VecDeque;

/// The streams that wait for their turn. The stream that has waited longest comes first among those that share.
#[derive(Default)]
pub(super) struct Turns(VecDeque<Turn>);

struct Turn {
    stream: u32,
    priority: Priority,
}

impl Turns {
    /// Adds a stream that is not among them.
    pub(super) fn add(&mut self, stream: u32, priority: Priority) {
        self.0.push_back(Turn { stream, priority });
    }

    pub(super) fn remove(&mut self, stream: u32) {
        self.0.retain(|turn| turn.stream != stream);
        if self.0.is_empty() {
            // An idle connection has no memory for streams.
            self.0 = VecDeque::new();
        }
    }

    /// Gives a stream another priority, if it waits.
    pub(super) fn change(&mut self, stream: u32, priority: Priority) {
        let turn = self.0.iter_mut().find(|turn| turn.stream == stream);
        turn.into_iter().for_each(|turn| turn.priority = priority);
    }

    /// Whether a stream that is added now would have to wait for others.
    pub(super) fn has_before(&self, stream: u32, priority: Priority) -> bool {
        self.0.iter().any(|turn| {
            turn.priority.urgency < priority.urgency
                || (turn.priority.urgency == priority.urgency
                    && (turn.priority.is_incremental || priority.is_incremental || turn.stream < stream))
        })
    }

    /// Takes the stream whose turn it is: one of the most urgent. Those whose responses are of use in parts share the
    /// connection, with each other and with the oldest of the others. The others go one after another.
    pub(super) fn take(&mut self) -> Option<u32> {
        let urgency = self.0.iter().map(|turn| turn.priority.urgency).min()?;
        let is_urgent = |turn: &&Turn| turn.priority.urgency == urgency;
        let whole = self.0.iter().filter(is_urgent).filter(|turn| !turn.priority.is_incremental);
        let oldest = whole.map(|turn| turn.stream).min();
        let place = self.0.iter().position(|turn| {
            turn.priority.urgency == urgency && (turn.priority.is_incremental || Some(turn.stream) == oldest)
        })?;
        self.0.remove(place).map(|turn| turn.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;
    use http2::Priority;

    const SHARED: Priority = Priority { urgency: 3, is_incremental: true };
    const WHOLE: Priority = Priority { urgency: 3, is_incremental: false };
    const URGENT: Priority = Priority { urgency: 0, is_incremental: false };

    /// The order of so many turns, in which each stream has more to send afterwards.
    fn order(streams: &[(u32, Priority)], count: usize) -> Vec<u32> {
        let mut turns = Turns::default();
        streams.iter().for_each(|&(stream, priority)| turns.add(stream, priority));
        (0..count)
            .map(|_| {
                let stream = turns.take().unwrap();
                let (_, priority) = streams.iter().find(|(other, _)| *other == stream).unwrap();
                turns.add(stream, *priority);
                stream
            })
            .collect()
    }

    #[test]
    fn streams_share_or_follow_each_other() {
        assert_eq!(order(&[(1, SHARED), (3, SHARED), (5, SHARED)], 5), [1, 3, 5, 1, 3]);
        assert_eq!(order(&[(5, WHOLE), (1, WHOLE), (3, WHOLE)], 3), [1, 1, 1]);
        assert_eq!(order(&[(1, SHARED), (3, WHOLE), (5, WHOLE), (7, SHARED)], 6), [1, 3, 7, 1, 3, 7]);
        assert_eq!(order(&[(1, SHARED), (3, WHOLE), (5, URGENT)], 2), [5, 5]);
    }

    #[test]
    fn a_stream_waits_for_those_before_it() {
        let mut turns = Turns::default();
        assert!(!turns.has_before(1, SHARED));
        turns.add(3, WHOLE);
        for (stream, priority, waits) in [
            (1, WHOLE, false),
            (5, WHOLE, true),
            (1, SHARED, true),
            (1, URGENT, false),
            (1, Priority { urgency: 4, ..SHARED }, true),
        ] {
            assert_eq!(turns.has_before(stream, priority), waits, "{stream} {priority:?}");
        }
        turns.change(3, URGENT);
        assert!(turns.has_before(1, WHOLE));
        turns.remove(3);
        assert_eq!((turns.take(), turns.0.capacity()), (None, 0));
    }
}
