//! One entry to the whole machine, for fuzzing.

use crate::budget::Budget;
use crate::qpack::{Decoder, Section};
use crate::{
    Code, Connection, Event, Failure, HeaderList, Input, Limits, Own, Request, RequestRules, ResponseOptions,
    SectionWriter, read_request, read_response, write_request, write_response,
};
use http::multiplexed::FieldWriter;
use http::{Fields, RequestHead, ResponseHead, Status};
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: Limits = Limits { streams: 3, list_size: 2000, field_size: 1000 };

/// What happened on each stream, as texts, and the content that was whole.
pub type Told = BTreeMap<u64, String>;

/// Reads what a client does, to its end or to the first error, and answers each request. A script has for each step a byte
/// with a stream and whether it ends (128) or is reset (64), the length of some bytes, and the bytes. They come in pieces of
/// this length.
///
/// # Errors
/// The client broke the rules.
pub fn read_all(script: &[u8], piece: usize) -> (Told, Result<(), Failure>) {
    let numbers = [0, 4, 8, 12, 2, 6, 10, 14];
    Reader::new(Connection::server(LIMITS), numbers).read_all(script, piece)
}

/// Reads in the same way what a server does, after three requests.
///
/// # Errors
/// The server broke the rules.
pub fn read_all_of_server(script: &[u8], piece: usize) -> (Told, Result<(), Failure>) {
    let mut connection = Connection::client(LIMITS);
    let request = Request { method: b"POST", scheme: b"https", path: b"/", authority: b"h" };
    for stream in [0, 4, 8] {
        connection.open(stream);
        let write = |section: &mut SectionWriter<'_>| write_request(&request, std::iter::empty(), section);
        connection.head(stream, true, write, &mut Vec::new());
    }
    let mut reader = Reader::new(connection, [0, 4, 8, 1, 3, 7, 11, 15]);
    reader.accepted.extend([0, 4, 8]);
    reader.read_all(script, piece)
}

/// Fills a table by these instructions and decodes sections, each with its length in front. Those that are read are encoded
/// and read again, and must be the same.
pub fn read_sections(instructions: &[u8], sections: &[u8]) {
    let mut decoder = Decoder::new(512);
    let followed = decoder.instruct(instructions, &mut Budget::new());
    assert!(decoder.memory() < 16 * 1024, "the table is bounded");
    let mut rest = sections;
    while let Some((section, after)) = next_piece(rest).filter(|_| followed.is_ok()) {
        rest = after;
        let mut list = HeaderList::new(5000);
        if !matches!(decoder.decode(section, &mut list), Ok(Section::Read { .. })) || list.is_too_large() {
            continue;
        }
        let (mut encoded, mut again) = (Vec::new(), HeaderList::new(5000));
        let mut writer = SectionWriter::new(&mut encoded);
        let is_sendable = |(_, value): &(&[u8], &[u8])| !http::breaks_framing(value);
        list.iter().filter(is_sendable).for_each(|(name, value)| writer.add(name, value));
        assert_eq!(Decoder::new(0).decode(&encoded, &mut again), Ok(Section::Read { required: 0 }));
        assert!(again.iter().eq(list.iter().filter(is_sendable)), "the section is not the same");
    }
}

/// As many bytes as the first byte says, or are there, and what follows them.
fn next_piece(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = input.split_first()?;
    Some(rest.split_at(rest.len().min(usize::from(length))))
}

struct Reader {
    connection: Connection,
    list: HeaderList,
    numbers: [u64; 8],
    accepted: BTreeSet<u64>,
    /// What was not consumed, and whether the stream ends with it.
    waiting: BTreeMap<u64, (Vec<u8>, bool)>,
    content: BTreeMap<u64, Vec<u8>>,
    told: Told,
}

impl Reader {
    fn new(connection: Connection, numbers: [u64; 8]) -> Reader {
        Reader {
            connection,
            list: HeaderList::default(),
            numbers,
            accepted: BTreeSet::new(),
            waiting: BTreeMap::new(),
            content: BTreeMap::new(),
            told: Told::new(),
        }
    }

    fn read_all(mut self, script: &[u8], piece: usize) -> (Told, Result<(), Failure>) {
        let result = self.follow(script, piece.max(1));
        (self.told, result)
    }

    fn follow(&mut self, script: &[u8], piece: usize) -> Result<(), Failure> {
        let mut rest = script;
        while let Some((&first, after)) = rest.split_first() {
            let Some((bytes, after)) = next_piece(after) else { break };
            rest = after;
            let stream = self.numbers[usize::from(first & 7)];
            if self.accepted.insert(stream) {
                self.connection.accept(stream)?;
            }
            for part in bytes.chunks(piece) {
                self.take(stream, part, false)?;
            }
            if first & 0x40 != 0 {
                let event = self.connection.peer_reset(stream, Code::REQUEST_CANCELLED)?;
                event.into_iter().try_for_each(|event| self.act(&event, &[]))?;
            } else if first & 0x80 != 0 {
                self.take(stream, &[], true)?;
            }
        }
        Ok(())
    }

    /// Reads on, when so much has come.
    fn take(&mut self, stream: u64, bytes: &[u8], ends: bool) -> Result<(), Failure> {
        let waiting = self.waiting.entry(stream).or_default();
        waiting.0.extend_from_slice(bytes);
        waiting.1 |= ends;
        loop {
            let Some((bytes, ends)) = self.waiting.get(&stream).cloned() else { return Ok(()) };
            let read = self.connection.read(Input { stream, bytes: &bytes, ends }, &mut self.list)?;
            if let Some((waiting, _)) = self.waiting.get_mut(&stream) {
                waiting.drain(..read.consumed);
            }
            for own in [Own::Control, Own::Decoder] {
                let length = self.connection.own(own).len();
                self.connection.sent(own, length);
            }
            while let Some(command) = self.connection.next_command() {
                self.told.entry(stream).or_default().push_str(&format!("{command:?}\n"));
            }
            let Some(event) = read.event else { return Ok(()) };
            self.act(&event, &bytes)?;
        }
    }

    fn tell(&mut self, stream: u64, text: &str) {
        self.told.entry(stream).or_default().push_str(text);
    }

    fn act(&mut self, event: &Event, input: &[u8]) -> Result<(), Failure> {
        match event {
            Event::Request { stream, ends, length } => self.answer(*stream, *ends, *length)?,
            Event::Response { stream, ends, length } => {
                let mut fields = Fields::new();
                let read = read_response(&self.list, &mut fields);
                self.tell(*stream, &format!("response {length} {read:?} {}\n", fields.len()));
                if *ends {
                    self.end(*stream, false)?;
                }
            }
            Event::Data { stream, bytes, ends, is_wrong } => {
                self.content.entry(*stream).or_default().extend_from_slice(&input[bytes.clone()]);
                if *ends || *is_wrong {
                    self.end(*stream, *is_wrong)?;
                }
            }
            Event::Trailers { stream, is_wrong } => {
                self.tell(*stream, &format!("trailers {}\n", self.list.len()));
                self.end(*stream, *is_wrong)?;
            }
            Event::TooLarge { stream } | Event::Reset { stream, .. } => {
                self.tell(*stream, &format!("{event:?}\n"));
                self.connection.release(*stream, Code::REQUEST_CANCELLED)?;
            }
            Event::Unblocked { stream } => self.take(*stream, &[], false)?,
            Event::Priority { stream, .. } | Event::Unwanted { stream } => {
                self.tell(*stream, &format!("{event:?}\n"));
            }
            Event::Settings(_) | Event::Goaway { .. } => self.tell(u64::MAX, &format!("{event:?}\n")),
        }
        Ok(())
    }

    fn answer(&mut self, stream: u64, ends: bool, length: usize) -> Result<(), Failure> {
        let mut head = RequestHead::new();
        let rules = RequestRules { underscores: false, ignore_invalid: true, max_fields: 20 };
        let read = read_request(&self.list, &rules, &mut head);
        self.tell(stream, &format!("request {length} {} {read:?}\n", head.line().escape_ascii()));
        let announced = head.fields.get("content-length").and_then(http::parse_number);
        announced.into_iter().for_each(|length| self.connection.expect(stream, length));
        let response = ResponseHead::new(Status::OK);
        let options = ResponseOptions { date: None, server: Some("Fulmar") };
        let write = |section: &mut SectionWriter<'_>| write_response(&response, &options, section);
        self.connection.head(stream, false, write, &mut Vec::new());
        match ends {
            true => self.end(stream, announced.is_some_and(|length| length > 0)),
            false => Ok(()),
        }
    }

    /// Ends an exchange.
    fn end(&mut self, stream: u64, is_wrong: bool) -> Result<(), Failure> {
        let content = self.content.remove(&stream).unwrap_or_default();
        match is_wrong {
            true => self.tell(stream, "wrong\n"),
            false => self.tell(stream, &format!("content {}\n", content.escape_ascii())),
        }
        self.connection.data(stream, 3, true, &mut Vec::new());
        self.connection.release(stream, if is_wrong { Code::MESSAGE_ERROR } else { Code::NO_ERROR })
    }
}
