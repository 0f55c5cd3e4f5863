//! Priorities of responses (RFC 9218).

/// How urgent a response is where the client says nothing (RFC 9218, section 4.1).
const DEFAULT_URGENCY: u8 = 3;

/// The least urgent value.
const URGENCY_MAX: u8 = 7;

/// How many priorities are kept of streams that are not open yet.
const EARLY_MAX: usize = 16;

/// How a client wants a response to be sent among the others of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the client can use parts of the response. Then it shares the connection with others that are as urgent.
    pub is_incremental: bool,
}

impl Priority {
    /// The priority of a request about which the client says nothing. It shares the connection with the others, as with
    /// clients that know no priorities.
    pub const UNSET: Priority = Priority { urgency: DEFAULT_URGENCY, is_incremental: true };

    /// Reads the values of a `priority` field, a dictionary (RFC 9218, section 4). Unknown members, and values that a member
    /// cannot have, are ignored.
    pub fn read<'a>(values: impl Iterator<Item = &'a [u8]>) -> Priority {
        let mut priority = Priority { urgency: DEFAULT_URGENCY, is_incremental: false };
        for member in values.flat_map(|value| value.split(|&byte| byte == b',')) {
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'9'] if digit - b'0' <= URGENCY_MAX => {
                    priority.urgency = digit - b'0';
                }
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// Priorities of streams that are not open yet (RFC 9218, sections 7.1 and 7.2), by the numbers of the streams.
#[derive(Debug)]
pub struct EarlyPriorities<Id>(Vec<(Id, Priority)>);

impl<Id> Default for EarlyPriorities<Id> {
    fn default() -> EarlyPriorities<Id> {
        EarlyPriorities(Vec::new())
    }
}

impl<Id: Copy + PartialOrd> EarlyPriorities<Id> {
    /// Keeps a priority. Those of streams up to `last` are of no use any more; the oldest one goes where there are too many.
    pub fn add(&mut self, stream: Id, priority: Priority, last: Id) {
        self.0.retain(|&(other, _)| other > last && other != stream);
        if self.0.len() == EARLY_MAX {
            self.0.remove(0);
        }
        self.0.push((stream, priority));
    }

    /// Takes the priority of a stream.
    pub fn take(&mut self, stream: Id) -> Option<Priority> {
        let place = self.0.iter().position(|&(other, _)| other == stream)?;
        let (_, priority) = self.0.remove(place);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        Some(priority)
    }

    /// How much memory they have, in bytes.
    pub fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(Id, Priority)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{EARLY_MAX, EarlyPriorities, Priority};

    #[test]
    fn values_of_the_field() {
        for (text, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=1", 1, true),
            ("i=?0", 3, false),
            ("i=?1;a=b, u=2;c", 2, true),
            ("u=1, u=5", 5, false),
            ("u=8", 3, false),
            ("u=-1, u=?1, u=10, u=, i=1, I, U=1", 3, false),
            ("other=(a b), i", 3, true),
        ] {
            let expected = Priority { urgency, is_incremental };
            assert_eq!(Priority::read([text.as_bytes()].into_iter()), expected, "{text}");
        }
        let two = [&b"u=1"[..], b"i"].into_iter();
        assert_eq!(Priority::read(two), Priority { urgency: 1, is_incremental: true });
    }

    #[test]
    fn early_priorities_are_bounded() {
        let mut early = EarlyPriorities::<u32>::default();
        let priority = |urgency| Priority { urgency, is_incremental: false };
        for index in 0..100 {
            early.add(2 * index + 1, priority(1), 0);
        }
        assert_eq!(early.0.len(), EARLY_MAX);
        early.add(199, priority(2), 190);
        assert_eq!(early.0.len(), 5);
        assert_eq!((early.take(1), early.take(199), early.take(199)), (None, Some(priority(2)), None));
        assert!([191, 193, 195, 197].iter().all(|&stream| early.take(stream).is_some()));
        assert_eq!(early.memory(), 0);
    }
}
