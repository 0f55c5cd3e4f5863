//! The content of an answer, taken out of its records.

use super::talk::complaint;
use bytes::{Buf, Bytes, BytesMut};
use contract::RequestLog;
use contract::log::Level;
use fcgi::{Decoder, Event};
use upstream::{Decode, Decoded};

const READING: &str = "while reading upstream";

/// The records behind the head of an answer.
pub(super) struct Records {
    decoder: Decoder,
    /// What the record that ended the head holds behind it.
    first: Bytes,
    /// What is left of the length that the head announced, where it announced one.
    rest: Option<u64>,
    /// Whether the connection is to be kept.
    keep: bool,
    stdout_ended: bool,
    ended: bool,
    log: RequestLog,
    url: String,
}

impl Records {
    pub(super) fn new(decoder: Decoder, first: Bytes, log: RequestLog, url: String) -> Records {
        Records { decoder, first, rest: None, keep: false, stdout_ended: false, ended: false, log, url }
    }

    /// The same over a connection that is, or is not, to be kept.
    pub(super) fn over(self, keep: bool) -> Records {
        Records { keep, ..self }
    }

    /// How much came with the head.
    pub(super) fn held(&self) -> usize {
        self.first.len()
    }

    /// Holds the application to the length that it announced.
    pub(super) fn announce(&mut self, length: Option<u64>) {
        self.rest = length;
    }

    /// Output as content, cut to what was announced.
    fn output(&mut self, mut bytes: Bytes, input: &mut BytesMut) -> Decoded {
        let Some(rest) = self.rest else { return Decoded::Data(bytes) };
        let length = bytes.len() as u64;
        if length > rest {
            let message = "upstream sent more data than specified in \"Content-Length\" header";
            self.log.write(Level::Warn, &format!("{message} {READING}"), Some(&self.url));
            bytes.truncate(usize::try_from(rest).unwrap_or(0));
            self.give_up(input);
        }
        self.rest = Some(rest.saturating_sub(length));
        if bytes.is_empty() { Decoded::End } else { Decoded::Data(bytes) }
    }

    /// The content is complete, whatever else comes.
    fn give_up(&mut self, input: &mut BytesMut) {
        input.clear();
        self.keep = false;
        (self.stdout_ended, self.ended) = (true, true);
    }

    fn is_short(&self) -> bool {
        self.rest.is_some_and(|rest| rest > 0)
    }
}

impl Decode for Records {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, String> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Ok(self.output(first, input));
        }
        loop {
            match self.decoder.decode(input) {
                Ok(Event::Stdout { skip, length }) => {
                    input.advance(skip);
                    let bytes = input.split_to(length).freeze();
                    return Ok(self.output(bytes, input));
                }
                Ok(Event::StdoutEnd { .. }) if self.is_short() => {
                    return Err(format!("upstream prematurely closed FastCGI stdout {READING}"));
                }
                Ok(Event::End { .. }) if self.is_short() => {
                    return Err(format!("upstream prematurely closed FastCGI request {READING}"));
                }
                Ok(Event::StdoutEnd { consumed }) => {
                    input.advance(consumed);
                    self.stdout_ended = true;
                }
                Ok(Event::Stderr { consumed }) => {
                    input.advance(consumed);
                    self.log.write(Level::Error, &complaint(&self.decoder, READING), Some(&self.url));
                }
                Ok(Event::End { consumed, .. }) => {
                    input.advance(consumed);
                    self.ended = true;
                    return Ok(Decoded::End);
                }
                Ok(Event::NeedMore { consumed }) => {
                    input.advance(consumed);
                    return Ok(if self.ended { Decoded::End } else { Decoded::More });
                }
                Err(error) if self.stdout_ended => {
                    self.log.write(Level::Error, &format!("{error} {READING}"), Some(&self.url));
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

#[cfg(test)]
mod tests {
    use super::Records;
    use crate::testing::Site;
    use bytes::{Bytes, BytesMut};
    use fcgi::Decoder;
    use upstream::{Decode, Decoded};

    const END: [u8; 16] = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn record(kind: u8, content: &str) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[1, kind, 0, 1, 0, length, 2, 0], content.as_bytes(), b"\0\0"].concat()
    }

    /// What these records bring behind `first` and an announced length: the content, how it ends, and
    /// whether the connection is kept.
    fn read(
        first: &'static str,
        length: Option<u64>,
        keep: bool,
        records: &[Vec<u8>],
    ) -> (String, String, bool) {
        let log = Site::location("").get("/").request_log();
        let records_of =
            Records::new(Decoder::new(), Bytes::from_static(first.as_bytes()), log, String::new());
        let mut records_of = records_of.over(keep);
        records_of.announce(length);
        let mut input = BytesMut::from(&*records.concat());
        let mut content = String::new();
        let end = loop {
            match records_of.decode(&mut input) {
                Ok(Decoded::Data(bytes)) => content += &String::from_utf8_lossy(&bytes),
                Ok(Decoded::More) => break "more".to_owned(),
                Ok(Decoded::End) => break "end".to_owned(),
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
