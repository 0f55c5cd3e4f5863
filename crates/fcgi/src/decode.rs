//! Records as the application writes them.

use crate::Error;
use crate::record::{END_REQUEST, HEADER_LENGTH, STDERR, STDOUT, VERSION};
use crate::stderr::Message;

/// What a piece of an answer holds. Standard output is pointed at, not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Standard output: `input[skip..skip + length]`, never empty. All up to its end is consumed.
    Stdout {
        /// Bytes of framing before the output.
        skip: usize,
        /// Bytes of output.
        length: usize,
    },
    /// An empty record of standard output, which should be its last one. Some applications write more.
    StdoutEnd {
        /// Bytes consumed.
        consumed: usize,
    },
    /// A message on standard error is complete: [`Decoder::message`].
    Stderr {
        /// Bytes consumed.
        consumed: usize,
    },
    /// The request has ended. The connection can carry another if nothing follows.
    End {
        /// Bytes consumed.
        consumed: usize,
        /// The application's exit status.
        app_status: u32,
        /// Whether the application took the request.
        protocol_status: ProtocolStatus,
    },
    /// There is nothing else in the input and more must come.
    NeedMore {
        /// Bytes consumed: all of the input.
        consumed: usize,
    },
}

/// How an application ended a request (FastCGI 1.0, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It was answered.
    Complete,
    /// It was refused: the application takes one request a connection.
    CannotMultiplex,
    /// It was refused: the application has no room.
    Overloaded,
    /// It was refused: the application does not know the role.
    UnknownRole,
}

/// A resumable decoder of the answer to one request.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
    /// The header of the record that is being read, as far as it is there.
    header: [u8; HEADER_LENGTH],
    /// What is left of the record's content.
    content: u16,
    /// What is left of its padding.
    padding: u8,
    message: Message,
    /// The content of the END_REQUEST.
    end: [u8; END_LENGTH as usize],
}

/// An END_REQUEST always has so many bytes of content.
const END_LENGTH: u16 = 8;

/// How many bytes of a header have only a few right values: version, type and the number of the request.
const HEADER_CHECKED: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Within a header, of which so many bytes are there.
    Header(usize),
    Content,
    Padding,
    Ended,
}

impl Default for State {
    fn default() -> State {
        State::Header(0)
    }
}

impl Decoder {
    /// A decoder at the start of an answer.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Reads on in `input`, which starts where the last call stopped consuming.
    ///
    /// # Errors
    ///
    /// Whatever an application that keeps to the protocol does not send, and any byte after the end.
    pub fn decode(&mut self, input: &[u8]) -> Result<Event, Error> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let event = match self.state {
                State::Content if self.content == 0 => self.end_content(at),
                State::Padding if self.padding == 0 => self.end_record(at)?,
                _ if rest.is_empty() => Some(Event::NeedMore { consumed: at }),
                State::Header(read) => {
                    at += self.read_header(read, rest)?;
                    None
                }
                State::Content => {
                    let (length, event) = self.read_content(rest, at);
                    at += length;
                    event
                }
                State::Padding => {
                    let skipped = u8::try_from(rest.len()).map_or(self.padding, |all| all.min(self.padding));
                    self.padding -= skipped;
                    at += usize::from(skipped);
                    None
                }
                State::Ended => return Err(Error::AfterEnd),
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    /// The message of the last [`Event::Stderr`], cut to [`MESSAGE_LIMIT`](crate::MESSAGE_LIMIT) bytes.
    pub fn message(&self) -> &[u8] {
        self.message.text()
    }

    /// Takes what is there of a header, which `read` bytes precede, and refuses what is wrong at once. Gives how many
    /// bytes it took.
    fn read_header(&mut self, read: usize, rest: &[u8]) -> Result<usize, Error> {
        let taken = &rest[..rest.len().min(HEADER_LENGTH - read)];
        for (place, &byte) in (read..HEADER_CHECKED).zip(taken) {
            match (place, byte) {
                (0, VERSION) | (1, STDOUT | STDERR | END_REQUEST) | (2, 0) | (3, 1) => {}
                (0, _) => return Err(Error::Version(byte)),
                (1, _) => return Err(Error::RecordType(byte)),
                (2, _) => return Err(Error::RequestIdHigh(byte)),
                _ => return Err(Error::RequestIdLow(byte)),
            }
        }
        let end = read + taken.len();
        self.header[read..end].copy_from_slice(taken);
        self.state = State::Header(end);
        if end == HEADER_LENGTH {
            self.content = self.content_length();
            self.padding = self.header[6];
            self.message.clear();
            if self.record_type() == END_REQUEST && self.content != END_LENGTH {
                return Err(Error::EndLength(self.content));
            }
            self.state = State::Content;
        }
        Ok(taken.len())
    }

    /// Takes what `rest`, which is not empty and starts at `at`, has of the record's content. Returns how
    /// much that is.
    fn read_content(&mut self, rest: &[u8], at: usize) -> (usize, Option<Event>) {
        let length = u16::try_from(rest.len()).map_or(self.content, |all| all.min(self.content));
        let content = &rest[..usize::from(length)];
        let before = usize::from(self.content_length() - self.content);
        self.content -= length;
        match self.record_type() {
            STDOUT => return (content.len(), Some(Event::Stdout { skip: at, length: content.len() })),
            STDERR => self.message.push(content),
            _ => self.end[before..before + content.len()].copy_from_slice(content),
        }
        (content.len(), None)
    }

    fn end_content(&mut self, at: usize) -> Option<Event> {
        self.state = State::Padding;
        match self.record_type() {
            STDOUT if self.content_length() == 0 => Some(Event::StdoutEnd { consumed: at }),
            STDERR if !self.message().is_empty() => Some(Event::Stderr { consumed: at }),
            _ => None,
        }
    }

    fn end_record(&mut self, at: usize) -> Result<Option<Event>, Error> {
        if self.record_type() != END_REQUEST {
            self.state = State::Header(0);
            return Ok(None);
        }
        self.state = State::Ended;
        let [a, b, c, d, status, ..] = self.end;
        let protocol_status = match status {
            0 => ProtocolStatus::Complete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            _ => return Err(Error::ProtocolStatus(status)),
        };
        let app_status = u32::from_be_bytes([a, b, c, d]);
        Ok(Some(Event::End { consumed: at, app_status, protocol_status }))
    }

    fn record_type(&self) -> u8 {
        self.header[1]
    }

    fn content_length(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Event, ProtocolStatus};
    use crate::Error;

    const END: [u8; 16] = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0];

    /// A record with this type, content and padding.
    fn record(record_type: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let header = [1, record_type, 0, 1, high, low, padding, 0];
        [&header[..], content, &vec![0xee; usize::from(padding)]].concat()
    }

    /// What an answer comes to: its events as text, one a line, then how it ended.
    fn read(input: &[u8]) -> Vec<String> {
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        let mut at = 0;
        loop {
            match decoder.decode(&input[at..]) {
                Ok(Event::Stdout { skip, length }) => {
                    let start = at + skip;
                    at = start + length;
                    seen.push(format!("out {}", String::from_utf8_lossy(&input[start..at])));
                }
                Ok(Event::StdoutEnd { consumed }) => {
                    at += consumed;
                    seen.push("out end".into());
                }
                Ok(Event::Stderr { consumed }) => {
                    at += consumed;
                    seen.push(format!("err {}", String::from_utf8_lossy(decoder.message())));
                }
                Ok(Event::End { consumed, app_status, protocol_status }) => {
                    at += consumed;
                    seen.push(format!("end {app_status} {protocol_status:?}"));
                }
                Ok(Event::NeedMore { consumed }) => {
                    assert_eq!(at + consumed, input.len());
                    return seen;
                }
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }

    #[test]
    fn an_answer() {
        let input = [
            record(7, b"a warning.\n", 5),
            record(6, b"one", 0),
            record(7, b"", 0),
            record(7, b" . \r\n", 1),
            record(6, b"two", 255),
            record(6, b"", 8),
            END.to_vec(),
        ];
        assert_eq!(
            read(&input.concat()),
            ["err a warning", "out one", "out two", "out end", "end 7 Complete"]
        );
    }

    #[test]
    fn the_end_counts_once_its_padding_is_there() {
        let input = record(3, &[1, 2, 3, 4, 2, 0, 0, 0], 200);
        assert_eq!(read(&input[..input.len() - 1]), [""; 0]);
        assert_eq!(read(&input), ["end 16909060 Overloaded"]);
    }

    #[test]
    fn protocol_statuses() {
        for (byte, status) in [
            (0, Ok(ProtocolStatus::Complete)),
            (1, Ok(ProtocolStatus::CannotMultiplex)),
            (3, Ok(ProtocolStatus::UnknownRole)),
            (4, Err(Error::ProtocolStatus(4))),
        ] {
            let end = Decoder::new().decode(&record(3, &[0, 0, 0, 0, byte, 0, 0, 0], 0));
            let expected =
                status.map(|protocol_status| Event::End { consumed: 16, app_status: 0, protocol_status });
            assert_eq!(end, expected);
        }
    }

    #[test]
    fn what_breaks_the_protocol() {
        for (header, error) in [
            (&[2][..], Error::Version(2)),
            (b"H", Error::Version(b'H')),
            (&[1, 5], Error::RecordType(5)),
            (&[1, 11], Error::RecordType(11)),
            (&[1, 6, 1], Error::RequestIdHigh(1)),
            (&[1, 6, 0, 0], Error::RequestIdLow(0)),
            (&[1, 6, 0, 2], Error::RequestIdLow(2)),
            (&[1, 3, 0, 1, 0, 7, 0, 0], Error::EndLength(7)),
            (&[1, 3, 0, 1, 1, 8, 0, 0], Error::EndLength(264)),
        ] {
            assert_eq!(Decoder::new().decode(header), Err(error), "{header:?}");
        }
    }

    #[test]
    fn nothing_follows_an_end() {
        const AFTER_END: &str = "upstream sent data after FastCGI end request record";
        for follows in [END.to_vec(), record(6, b"x", 0), vec![0]] {
            let input = [END.to_vec(), follows].concat();
            assert_eq!(read(&input), ["end 7 Complete", AFTER_END]);
        }
        let reopened = [record(6, b"", 0), record(6, b"x", 0)].concat();
        assert_eq!(read(&reopened), ["out end", "out x"]);
        let warned = [record(6, b"", 0), record(7, b"late", 0)].concat();
        assert_eq!(read(&warned), ["out end", "err late"]);
    }
}
