//! FastCGI spoken to an application: the request goes out in records, the start of the output is a head, the rest is
//! content.

use crate::gateway::shared::cgi::response::announced;
use bytes::Bytes;
use fcgi::{Decoder, Event, Head, HeadParser};
use http::Status;
use journal::Level;
use std::sync::Arc;
use upstream::{Decoded, Dialogue, Failure, Remarks};
use wire::Buffer;

const READING_HEAD: &str = "while reading response header from upstream";
const READING: &str = "while reading upstream";

/// One request and its answer in FastCGI.
pub(super) struct Records {
    /// The records of the start and of the parameters.
    pub(super) request: Vec<u8>,
    /// What makes an answer invalid where it is said on standard error.
    caught: Arc<[Box<[u8]>]>,
    /// Whether the application was asked to keep the connection.
    keep: bool,
    /// How long the head of the answer may be, in bytes.
    limit: usize,
    parser: HeadParser,
    pub(super) head: Head,
    /// The length of the content, where the head announces it.
    pub(super) length: Option<u64>,
    decoder: Decoder,
    /// What the record that ended the head holds after it.
    first: Bytes,
    /// What is left of the length that the head announced, where it announced one.
    rest: Option<u64>,
    stdout_ended: bool,
    ended: bool,
    /// The media type of the answer, or of one before.
    pub(super) media_type: Bytes,
}

/// A request that grew past this is not kept for others, in bytes.
const KEPT_TEXT: usize = 4096;

impl Default for Records {
    fn default() -> Records {
        Records {
            request: Vec::new(),
            caught: Arc::default(),
            keep: false,
            limit: 0,
            parser: HeadParser::new(0),
            head: Head::default(),
            length: None,
            decoder: Decoder::new(),
            first: Bytes::new(),
            rest: None,
            stdout_ended: false,
            ended: false,
            media_type: Bytes::new(),
        }
    }
}

impl Records {
    /// Takes the settings of a location.
    pub(super) fn prepare(&mut self, caught: &Arc<[Box<[u8]>]>, keep: bool, limit: usize) {
        if !Arc::ptr_eq(&self.caught, caught) {
            self.caught = Arc::clone(caught);
        }
        (self.keep, self.limit) = (keep, limit);
    }

    /// How much content came with the head.
    pub(super) fn held(&self) -> usize {
        self.first.len()
    }

    /// Reads on in the head, in a piece of the output. Of the piece that ends it, content is kept.
    fn parse_head(&mut self, output: &[u8]) -> Result<Option<Status>, Failure> {
        let parsed = self.parser.parse(output).map_err(|error| refused(&error.to_string()))?;
        let Some((head, consumed)) = parsed else { return Ok(None) };
        self.length = announced(&head.fields).map_err(|message| refused(&message))?;
        (self.rest, self.first) = (self.length, Bytes::copy_from_slice(&output[consumed..]));
        self.head = head;
        Ok(Some(self.head.status))
    }

    fn catches(&self) -> bool {
        let message = self.decoder.message();
        self.caught.iter().any(|text| message.windows(text.len().max(1)).any(|part| part == &**text))
    }

    /// Output as content, cut to what was announced.
    fn output(&mut self, mut bytes: Bytes, input: &mut Buffer, remarks: &Remarks<'_>) -> Decoded {
        let Some(rest) = self.rest else { return Decoded::Data(bytes) };
        let length = bytes.len() as u64;
        if length > rest {
            let message = "upstream sent more data than specified in \"Content-Length\" header";
            remarks.write(Level::Warn, &format!("{message} {READING}"));
            bytes.truncate(usize::try_from(rest).unwrap_or(0));
            self.give_up(input);
        }
        self.rest = Some(rest.saturating_sub(length));
        if bytes.is_empty() { Decoded::End } else { Decoded::Data(bytes) }
    }

    /// The content is complete, whatever else comes.
    fn give_up(&mut self, input: &mut Buffer) {
        input.consume(usize::MAX);
        self.keep = false;
        (self.stdout_ended, self.ended) = (true, true);
    }

    fn is_short(&self) -> bool {
        self.rest.is_some_and(|rest| rest > 0)
    }
}

impl Dialogue for Records {
    fn clear(&mut self) {
        // What the next request sets again in any case stays: the settings, the head, the parser and the decoder.
        let Records { request, length, first, rest, stdout_ended, ended, head, .. } = self;
        if request.capacity() > KEPT_TEXT {
            *request = Vec::new();
        }
        request.clear();
        head.clear();
        (*length, *rest, *first) = (None, None, Bytes::new());
        (*stdout_ended, *ended) = (false, false);
    }

    fn memory(&self) -> usize {
        self.request.capacity()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.parser = HeadParser::reusing(std::mem::take(&mut self.head), self.limit);
        self.decoder = Decoder::new();
        out.extend_from_slice(&self.request);
    }

    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        fcgi::encode_stdin(piece, out);
    }

    fn append_end(&mut self, out: &mut Vec<u8>) {
        fcgi::encode_stdin_end(out);
    }

    fn read_head(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        loop {
            match self.decoder.decode(input.bytes()).map_err(|error| refused(&error.to_string()))? {
                Event::Stdout { skip, length } => {
                    let parsed = self.parse_head(&input.bytes()[skip..skip + length])?;
                    input.consume(skip + length);
                    if let Some(status) = parsed {
                        return Ok(Some(status));
                    }
                }
                Event::StdoutEnd { .. } => return Err(refused("upstream prematurely closed FastCGI stdout")),
                Event::End { .. } => return Err(refused("upstream sent unexpected FastCGI record: 3")),
                Event::Stderr { consumed } => {
                    input.consume(consumed);
                    let complaint = complaint(&self.decoder, READING_HEAD);
                    if self.catches() {
                        return Err(Failure::invalid(complaint));
                    }
                    remarks.write(Level::Error, &complaint);
                }
                Event::NeedMore { consumed } => {
                    input.consume(consumed);
                    return Ok(None);
                }
            }
        }
    }

    fn read_content(&mut self, input: &mut Buffer, remarks: &Remarks<'_>) -> Result<Decoded, String> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Ok(self.output(first, input, remarks));
        }
        loop {
            match self.decoder.decode(input.bytes()) {
                Ok(Event::Stdout { skip, length }) => {
                    self.stdout_ended = false;
                    let bytes = Bytes::copy_from_slice(&input.bytes()[skip..skip + length]);
                    input.consume(skip + length);
                    return Ok(self.output(bytes, input, remarks));
                }
                Ok(Event::StdoutEnd { .. }) if self.is_short() => {
                    return Err(format!("upstream prematurely closed FastCGI stdout {READING}"));
                }
                Ok(Event::End { .. }) if self.is_short() => {
                    return Err(format!("upstream prematurely closed FastCGI request {READING}"));
                }
                Ok(Event::StdoutEnd { consumed }) => {
                    input.consume(consumed);
                    self.stdout_ended = true;
                }
                Ok(Event::Stderr { consumed }) => {
                    input.consume(consumed);
                    remarks.write(Level::Error, &complaint(&self.decoder, READING));
                }
                Ok(Event::End { consumed, .. }) => {
                    input.consume(consumed);
                    self.ended = true;
                    return Ok(Decoded::End);
                }
                Ok(Event::NeedMore { consumed }) => {
                    input.consume(consumed);
                    return Ok(if self.ended { Decoded::End } else { Decoded::More });
                }
                Err(error) if self.stdout_ended => {
                    remarks.write(Level::Error, &format!("{error} {READING}"));
                    self.give_up(input);
                    return Ok(Decoded::End);
                }
                Err(error) => return Err(format!("{error} {READING}")),
            }
        }
    }

    /// A connection that ends before the request does was cut.
    fn ends_with_connection(&self) -> bool {
        false
    }

    /// The end of the request is awaited all the same, so that the application can write it.
    fn is_whole(&self) -> bool {
        self.stdout_ended
    }

    fn keeps_connection(&self) -> bool {
        self.keep && self.ended
    }
}

/// The failure of an invalid response.
fn refused(message: &str) -> Failure {
    Failure::invalid(format!("{message} {READING_HEAD}"))
}

/// The line about what an application says on its standard error.
fn complaint(decoder: &Decoder, when: &str) -> String {
    format!("FastCGI sent in stderr: \"{}\" {when}", String::from_utf8_lossy(decoder.message()))
}

#[cfg(test)]
mod tests {
    use super::Records;
    use crate::testing::Site;
    use bytes::Bytes;
    use std::sync::Arc;
    use upstream::{Decoded, Dialogue, Remarks};
    use wire::Buffer;

    const END: [u8; 16] = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn record(kind: u8, content: &str) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[1, kind, 0, 1, 0, length, 2, 0], content.as_bytes(), b"\0\0"].concat()
    }

    /// What these records bring after `first` and an announced length: the content, how it ends, and
    /// whether the connection is kept.
    fn read(
        first: &'static str,
        length: Option<u64>,
        keep: bool,
        records: &[Vec<u8>],
    ) -> (String, String, bool) {
        let exchange = Site::location("").get("/");
        let remarks = Remarks::new(&exchange, &String::new);
        let mut records_of = Records::default();
        records_of.prepare(&Arc::default(), keep, 4096);
        (records_of.first, records_of.rest) = (Bytes::from_static(first.as_bytes()), length);
        let mut input = Buffer::default();
        input.append(|out| out.extend_from_slice(&records.concat()));
        let mut content = String::new();
        let end = loop {
            match records_of.read_content(&mut input, &remarks) {
                Ok(Decoded::Data(bytes)) => content += &String::from_utf8_lossy(&bytes),
                Ok(Decoded::More) => break "more".to_owned(),
                Ok(Decoded::End | Decoded::Last(_)) => break "end".to_owned(),
                Err(message) => break message,
            }
        };
        (content, end, records_of.keeps_connection() && input.is_empty())
    }

    #[test]
    fn content_ends_with_the_output_or_with_the_request() {
        let whole = [record(6, "b"), record(7, "oops"), record(6, "c"), record(6, ""), END.to_vec()];
        assert_eq!(read("a", None, true, &whole), ("abc".into(), "end".into(), true));
        assert_eq!(read("a", None, false, &whole), ("abc".into(), "end".into(), false));
        assert_eq!(read("a", None, true, &whole[..4]), ("abc".into(), "more".into(), false));
        assert_eq!(read("a", None, false, &whole[..4]), ("abc".into(), "more".into(), false));
        assert_eq!(read("a", None, false, &whole[..3]), ("abc".into(), "more".into(), false));
        assert_eq!(read("a", None, true, &[END.to_vec()]), ("a".into(), "end".into(), true));
        let reopened = [record(6, ""), record(6, "b"), record(6, ""), END.to_vec()];
        assert_eq!(read("a", None, true, &reopened), ("ab".into(), "end".into(), true));
        let more = [END.to_vec(), vec![1]];
        assert_eq!(read("a", None, true, &more), ("a".into(), "end".into(), false));
    }

    #[test]
    fn the_announced_length_holds() {
        let whole = [record(6, "bcd"), record(6, ""), END.to_vec()];
        assert_eq!(read("a", Some(4), true, &whole), ("abcd".into(), "end".into(), true));
        assert_eq!(read("a", Some(2), true, &whole), ("ab".into(), "end".into(), false));
        assert_eq!(read("abc", Some(2), true, &whole), ("ab".into(), "end".into(), false));
        assert_eq!(read("a", Some(0), true, &whole), (String::new(), "end".into(), false));
        let short = "upstream prematurely closed FastCGI stdout while reading upstream";
        assert_eq!(read("a", Some(5), true, &whole), ("abcd".into(), short.into(), false));
        let ended = "upstream prematurely closed FastCGI request while reading upstream";
        assert_eq!(read("a", Some(5), true, &[END.to_vec()]), ("a".into(), ended.into(), false));
    }

    #[test]
    fn what_breaks_the_protocol_counts_until_the_output_is_whole() {
        let broken = vec![9];
        let version = "upstream sent unsupported FastCGI protocol version: 9 while reading upstream";
        assert_eq!(read("a", None, true, std::slice::from_ref(&broken)), ("a".into(), version.into(), false));
        assert_eq!(read("a", None, true, &[record(6, ""), broken]), ("a".into(), "end".into(), false));
    }
}
