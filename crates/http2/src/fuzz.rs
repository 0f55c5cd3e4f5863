//! One entry to the whole machine, for fuzzing.

use crate::{
    Code, Connection, Content, Event, Failure, HeaderList, Limits, Request, read_response, write_request,
};
use crate::{RequestRules, read_request};
use crate::{ResponseOptions, write_response};
use http::{Fields, RequestHead, ResponseHead, Status};

/// Reads a connection's bytes to their end or to the first error, in pieces that end at `ends`, and answers each request.
/// Returns what happened, as a text, and what was sent.
///
/// # Errors
/// The client broke the rules.
pub fn read_all(input: &[u8], ends: impl Iterator<Item = usize>) -> (String, Vec<u8>, Result<(), Failure>) {
    Reader::new().read_all(input, ends)
}

/// Reads what a server sends to its end or to the first error, in pieces that end at `ends`, after three requests of which
/// one has content that waits. Returns as [`read_all`].
///
/// # Errors
/// The server broke the rules.
pub fn read_all_of_server(
    input: &[u8],
    ends: impl Iterator<Item = usize>,
) -> (String, Vec<u8>, Result<(), Failure>) {
    Reader::of_server().read_all(input, ends)
}

struct Reader {
    connection: Connection,
    list: HeaderList,
    consumed: usize,
    told: String,
    out: Vec<u8>,
}

impl Reader {
    fn new() -> Reader {
        let mut out = Vec::new();
        let limits = Limits { streams: 4, window: 1000, list_size: 2000, field_size: 1000 };
        let connection = Connection::new(limits, &mut out);
        Reader { connection, list: HeaderList::default(), consumed: 0, told: String::new(), out }
    }

    fn of_server() -> Reader {
        let mut out = Vec::new();
        let limits = Limits { streams: 0, window: 1000, list_size: 2000, field_size: 1000 };
        let mut connection = Connection::client(limits, &mut out);
        let request = Request { method: b"POST", scheme: b"http", path: b"/", authority: b"h" };
        for ends in [false, true, true] {
            let Some(stream) = connection.open_stream() else { continue };
            let write = |block: &mut crate::BlockWriter<'_>| {
                write_request(&request, std::iter::empty(), block);
            };
            connection.head(stream, ends, write, &mut out);
        }
        Reader { connection, list: HeaderList::default(), consumed: 0, told: String::new(), out }
    }

    fn read_all(
        mut self,
        input: &[u8],
        ends: impl Iterator<Item = usize>,
    ) -> (String, Vec<u8>, Result<(), Failure>) {
        let result = ends.chain([input.len()]).try_for_each(|end| self.read(&input[..end]));
        (self.told, self.out, result)
    }

    /// Reads on, when so much has come in all.
    fn read(&mut self, input: &[u8]) -> Result<(), Failure> {
        loop {
            let rest = input.get(self.consumed..).unwrap_or_default();
            let read = self.connection.read(rest, &mut self.list, &mut self.out)?;
            self.consumed += read.consumed;
            let Some(event) = read.event else { return Ok(()) };
            self.act(&event, rest);
        }
    }

    fn act(&mut self, event: &Event, input: &[u8]) {
        let Reader { connection, list, told, out, .. } = self;
        match event {
            Event::Request { stream, ends, .. } => {
                if let Some(priority) = connection.take_priority(*stream) {
                    *told += &format!("{priority:?} ");
                }
                let mut head = RequestHead::new();
                let rules = RequestRules { underscores: false, ignore_invalid: true, max_fields: 20 };
                let read = read_request(list, &rules, &mut head);
                *told += &format!(
                    "request {stream} {ends} {:?} {read:?}\n",
                    head.line().escape_ascii().to_string()
                );
                if let Some(Ok(length)) = head
                    .fields
                    .get("content-length")
                    .map(|text| std::str::from_utf8(text).unwrap_or_default().parse())
                {
                    connection.expect(*stream, length);
                }
                let response = ResponseHead::new(Status::OK);
                let options = ResponseOptions { date: None, server: Some("Fulmar") };
                connection.head(*stream, false, |block| write_response(&response, &options, block), out);
                if *ends {
                    connection.data(*stream, Content { bytes: b"hello", ends: true, frame: 3 }, out);
                    connection.release(*stream, Code::INTERNAL_ERROR, out);
                }
            }
            Event::Data { stream, bytes, ends, is_wrong } => {
                let content = &input[bytes.clone()];
                *told += &format!("data {stream} {} {ends} {is_wrong}\n", content.escape_ascii());
                connection.widen(*stream, 0, 1000, out);
                if *ends {
                    connection.data(*stream, Content { bytes: content, ends: true, frame: 100 }, out);
                    connection.release(*stream, Code::CANCEL, out);
                }
            }
            Event::Trailers { stream, is_wrong } => {
                *told += &format!("trailers {stream} {} {is_wrong}\n", list.len());
                connection.release(*stream, Code::NO_ERROR, out);
            }
            Event::Reset { stream, code } => {
                *told += &format!("reset {stream} {code:?}\n");
                connection.release(*stream, Code::NO_ERROR, out);
            }
            Event::Response { stream, ends, length } => {
                let mut fields = Fields::new();
                let read = read_response(list, &mut fields);
                *told += &format!("response {stream} {ends} {length} {read:?} {}\n", fields.len());
                connection.data(*stream, Content { bytes: b"hello", ends: true, frame: 3 }, out);
                if *ends {
                    connection.release(*stream, Code::CANCEL, out);
                }
            }
            Event::Window { .. } | Event::Priority { .. } | Event::Goaway { .. } => {
                *told += &format!("{event:?}\n");
            }
        }
    }
}
