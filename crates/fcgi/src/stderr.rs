//! What an application says on its standard error, as messages for the log.

/// How many bytes of one message are kept; an error log's line holds no more.
pub const MESSAGE_LIMIT: usize = 2048;

/// How many bytes of messages are kept for one request; what follows is dropped.
pub const TOTAL_LIMIT: usize = 64 * 1024;

/// Collects the messages of one request, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    text: Vec<u8>,
    /// How many bytes of messages were kept so far.
    total: usize,
}

impl Message {
    /// Adds what fits.
    pub(crate) fn push(&mut self, content: &[u8]) {
        let room = (MESSAGE_LIMIT - self.text.len()).min(TOTAL_LIMIT - self.total).min(content.len());
        self.text.extend_from_slice(&content[..room]);
        self.total += room;
    }

    /// Forgets the message, but not how many bytes were kept so far.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    /// The message without the line ends, full stops and spaces after it.
    pub(crate) fn text(&self) -> &[u8] {
        let end = self.text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | b'.' | b' '));
        &self.text[..end.map_or(0, |last| last + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_LIMIT, Message, TOTAL_LIMIT};

    #[test]
    fn messages_end_with_a_word() {
        for (content, text) in [("PHP message: a. b. \r\n", "PHP message: a. b"), ("...", ""), ("", "")] {
            let mut message = Message::default();
            message.push(content.as_bytes());
            assert_eq!(message.text(), text.as_bytes());
        }
    }

    #[test]
    fn floods_are_cut() {
        let mut message = Message::default();
        let mut kept = 0;
        for _ in 0..1000 {
            message.clear();
            message.push(&[b'x'; 3 * MESSAGE_LIMIT]);
            assert!(message.text().len() <= MESSAGE_LIMIT);
            kept += message.text().len();
        }
        assert_eq!(kept, TOTAL_LIMIT);
    }
}
