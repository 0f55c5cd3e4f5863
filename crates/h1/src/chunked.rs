//! The chunked transfer coding (RFC 9112, section 7.1). Lines of the coding end with CR LF and nothing
//! else.

use http::{Fields, HeadError, Status};

use crate::extension::Extension;
use crate::line::parse_field;
use http::hex;

/// What a piece of a body holds. Data is pointed at, not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Content: `input[skip..skip + length]`, never empty. All up to its end is consumed.
    Data {
        /// Bytes of framing before the content.
        skip: usize,
        /// Bytes of content.
        length: usize,
    },
    /// There is no content in the rest of the input and more must come.
    NeedMore {
        /// Bytes consumed: all of the input.
        consumed: usize,
    },
    /// The body is complete.
    End {
        /// Bytes consumed; what follows is the next request's.
        consumed: usize,
    },
}

/// How many bytes of framing a body may have beyond what its chunks pay for: each pays for sixteen
/// bytes, and for two with every byte of its content.
const OVERHEAD_LIMIT: u32 = 16 * 1024;

/// How many bytes a trailer section may have.
const TRAILER_LIMIT: usize = 16 * 1024;

/// More digits than a 64-bit size needs have no use but to be read differently.
const SIZE_DIGITS: u32 = 16;

/// A resumable decoder of one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkDecoder {
    state: State,
    keeps_trailers: bool,
    /// Bytes of the line with the chunk's size, so far.
    line_length: u32,
    overhead: u32,
    /// The size of the chunk, then what is left of it.
    size: u64,
    received: u64,
    limit: u64,
    /// Boxed, because few bodies have trailers and decoders are moved often.
    trailer_section: Option<Box<TrailerSection>>,
}

#[derive(Clone, Debug, Default)]
struct TrailerSection {
    /// How many bytes were read.
    length: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The fields that are kept.
    fields: Fields,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    EndLf,
    End,
}

const INVALID: HeadError = HeadError::bad("client sent invalid chunked body");

impl ChunkDecoder {
    /// A decoder at the start of a body of at most `limit` bytes of content. It checks the trailer section and discards
    /// its fields.
    pub fn new(limit: u64) -> ChunkDecoder {
        ChunkDecoder {
            state: State::Size,
            keeps_trailers: false,
            line_length: 0,
            overhead: 0,
            size: 0,
            received: 0,
            limit,
            trailer_section: None,
        }
    }

    /// The same, but it keeps the fields of the trailer section.
    pub fn keeping_trailers(limit: u64) -> ChunkDecoder {
        ChunkDecoder { keeps_trailers: true, ..ChunkDecoder::new(limit) }
    }

    /// Reads on in `input`, which starts where the last call stopped consuming.
    ///
    /// # Errors
    ///
    /// 400 for bad syntax and for more framing or trailers than any honest client sends, 413 for a chunk
    /// that would make the content longer than the limit.
    pub fn decode(&mut self, input: &[u8]) -> Result<Chunk, HeadError> {
        let mut at = 0;
        loop {
            if self.state == State::Data {
                let available = input.len() - at;
                let length = usize::try_from(self.size).map_or(available, |size| size.min(available));
                if length > 0 {
                    self.size -= length as u64;
                    if self.size == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(Chunk::Data { skip: at, length });
                }
            }
            if self.state == State::End {
                return Ok(Chunk::End { consumed: at });
            }
            let Some(&byte) = input.get(at) else {
                return Ok(Chunk::NeedMore { consumed: at });
            };
            self.state = self.step(byte)?;
            at += 1;
        }
    }

    /// The trailer fields so far, if they are kept and there is one. They must not be merged into the head (RFC 9110,
    /// section 6.5.1).
    pub fn trailers(&self) -> Option<&Fields> {
        self.trailer_section.as_deref().map(|section| &section.fields)
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, HeadError> {
        match (self.state, byte) {
            (State::Size, _) => match hex::digit(byte) {
                Some(digit) => self.add_digit(digit),
                None if self.line_length > 0 => self.step_extension(Extension::Start, byte),
                None => Err(INVALID),
            },
            (State::Extension(extension), _) => self.step_extension(extension, byte),
            (State::SizeLf, b'\n') => self.end_size_line(),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size),
            (State::Trailer, _) => self.step_trailer(byte),
            (State::EndLf, b'\n') => Ok(State::End),
            _ => Err(INVALID),
        }
    }

    fn add_digit(&mut self, digit: u8) -> Result<State, HeadError> {
        self.line_length += 1;
        if self.line_length > SIZE_DIGITS || self.size > i64::MAX as u64 >> 4 {
            return Err(INVALID);
        }
        self.size = self.size << 4 | u64::from(digit);
        Ok(State::Size)
    }

    fn step_extension(&mut self, extension: Extension, byte: u8) -> Result<State, HeadError> {
        self.line_length += 1;
        if self.overhead + self.line_length > OVERHEAD_LIMIT {
            return Err(HeadError::bad("client sent too long chunk extensions"));
        }
        if byte == b'\r' {
            return if extension.may_end() { Ok(State::SizeLf) } else { Err(INVALID) };
        }
        extension.step(byte).map(State::Extension).ok_or(INVALID)
    }

    fn end_size_line(&mut self) -> Result<State, HeadError> {
        let paid = self.size.saturating_mul(2).saturating_add(16);
        let overhead = u64::from(self.overhead + self.line_length).saturating_sub(paid);
        // Not larger than the sum of two numbers of 32 bits that were checked against the limit.
        self.overhead = u32::try_from(overhead).unwrap_or(u32::MAX);
        self.line_length = 0;
        if self.size == 0 {
            return Ok(State::Trailer);
        }
        if self.limit - self.received < self.size {
            return Err(HeadError::new(
                Status::CONTENT_TOO_LARGE,
                "client intended to send too large chunked body",
            ));
        }
        self.received += self.size;
        Ok(State::Data)
    }

    fn step_trailer(&mut self, byte: u8) -> Result<State, HeadError> {
        if byte == b'\r' && self.trailer_section.as_ref().is_none_or(|section| section.line.is_empty()) {
            return Ok(State::EndLf);
        }
        let TrailerSection { length, line, fields } = &mut **self.trailer_section.get_or_insert_default();
        *length += 1;
        if *length > TRAILER_LIMIT {
            return Err(HeadError::bad("client sent too large trailer section"));
        }
        if byte != b'\n' {
            line.push(byte);
            return Ok(State::Trailer);
        }
        let field = line.strip_suffix(b"\r").and_then(|line| parse_field(line, true)).ok_or(INVALID)?;
        if !field.odd {
            // It checks the value, too.
            fields.push(field.name, field.value).map_err(|_| INVALID)?;
        }
        if !self.keeps_trailers {
            fields.clear();
        }
        line.clear();
        Ok(State::Trailer)
    }
}

/// What stands after the content of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends what stands before a chunk of `length` bytes; [`CHUNK_END`] stands after it. A chunk without
/// content would end the body, so that for `length` 0 nothing is appended.
pub fn encode_chunk_head(length: u64, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    if length == 0 {
        return;
    }
    let digits = 16 - length.leading_zeros() / 4;
    for digit in (0..digits).rev() {
        out.push(HEX[(length >> (4 * digit) & 15) as usize]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body with its trailer section.
pub fn encode_last_chunk(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for field in trailers.iter() {
        out.extend_from_slice(field.name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(field.value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::Fields;

    use super::{CHUNK_END, Chunk, ChunkDecoder, encode_chunk_head, encode_last_chunk};

    /// The content and the number of bytes consumed, fed in pieces of `step` bytes; none if unfinished.
    fn decode(input: &[u8], step: usize, limit: u64) -> Result<Option<(Vec<u8>, usize)>, u16> {
        let mut decoder = ChunkDecoder::new(limit);
        let (mut content, mut start, mut end) = (Vec::new(), 0, 0);
        loop {
            match decoder.decode(&input[start..end]).map_err(|error| error.status.0)? {
                Chunk::Data { skip, length } => {
                    assert!(length > 0);
                    content.extend_from_slice(&input[start + skip..start + skip + length]);
                    start += skip + length;
                }
                Chunk::NeedMore { consumed } => {
                    assert_eq!(consumed, end - start);
                    start = end;
                    if end == input.len() {
                        return Ok(None);
                    }
                    end = (end + step).min(input.len());
                }
                Chunk::End { consumed } => {
                    start += consumed;
                    assert_eq!(decoder.decode(b"x"), Ok(Chunk::End { consumed: 0 }));
                    return Ok(Some((content, start)));
                }
            }
        }
    }

    fn decode_text(input: &str) -> Result<Option<String>, u16> {
        let whole = decode(input.as_bytes(), input.len().max(1), u64::MAX);
        assert_eq!(decode(input.as_bytes(), 1, u64::MAX), whole, "{input:?}");
        whole.map(|body| body.map(|(content, _)| String::from_utf8(content).unwrap()))
    }

    #[test]
    fn bodies() {
        for (input, content) in [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("00005\r\nhello\r\n000\r\n\r\n", "hello"),
            ("A\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", "0123456789x"),
            ("3;a=b ;c=\"d\"\r\nabc\r\n0;e\r\n\r\n", "abc"),
            ("1\r\n\n\r\n0\r\nA: b\r\nC.d: e\r\n\r\n", "\n"),
        ] {
            assert_eq!(decode_text(input), Ok(Some(content.to_owned())), "{input:?}");
        }
        assert_eq!(decode(b"1\r\na\r\n0\r\n\r\nGET / ", 100, 1), Ok(Some((b"a".to_vec(), 11))));
    }

    #[test]
    fn bodies_that_are_refused() {
        for input in [
            "0x5\r\n",
            "+5\r\n",
            "-1\r\n",
            "5_0\r\n",
            " 5\r\n",
            "5 \r\n",
            "5\t\r\n",
            "\r\n",
            "g\r\n",
            ";a\r\n",
            "5,\r\n",
            "00000000000000005\r\n",
            "8000000000000000\r\n",
            "fffffffffffffffff\r\n",
            "5\nhello",
            "5\rhello",
            "5\r\rhello",
            "5\rX",
            "5\r\nhelloXX",
            "5\r\nhello\n",
            "5\r\nhello\rX",
            "5\r\nhello0\r\n",
            "5\r\nhello!\r\n",
            "5\r\nhell\r\n0\r\n\r\n",
            "5;\r\n",
            "5;a\0\r\n",
            "5;a\rb\r\n",
            "5;a\n",
            "5;a=\"b\r\n",
            "5;a b\r\n",
            "0\n\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\n A: b\r\n\r\n",
            "0\r\nA b\r\n\r\n",
            "0\r\nA : b\r\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\nA: b\0\r\n\r\n",
            "0\r\nA: b\rc\r\n\r\n",
            "0\r\n\rX\r\n",
        ] {
            assert_eq!(decode_text(input), Err(400), "{input:?}");
        }
    }

    #[test]
    fn bodies_that_are_not_complete() {
        let input = "5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n";
        for end in 0..input.len() {
            assert!(matches!(decode_text(&input[..end]), Ok(None)), "{:?}", &input[..end]);
        }
    }

    #[test]
    fn the_limit_counts_content() {
        let input = b"5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n";
        assert!(decode(input, 1, 8).is_ok());
        assert_eq!(decode(input, 1, 7), Err(413));
        assert_eq!(decode(b"7fffffffffffffff\r\n", 1, 100), Err(413));
        assert_eq!(decode(b"1\r\na\r\n7fffffffffffffff\r\n", 1, u64::MAX), Ok(None));
    }

    #[test]
    fn framing_must_be_worth_it() {
        let extended = |length: usize, times: usize| {
            format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "a".repeat(length)).repeat(times))
        };
        assert!(matches!(decode_text(&extended(16_000, 1)), Ok(Some(_))));
        assert_eq!(decode_text(&extended(16_384, 1)), Err(400));
        assert_eq!(decode_text(&extended(1000, 17)), Err(400));
        assert!(matches!(decode_text(&extended(10, 50_000)), Ok(Some(_))));
        let plain = format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(50_000));
        assert!(matches!(decode_text(&plain), Ok(Some(_))));
    }

    #[test]
    fn trailers_are_kept_if_wanted_and_bounded() {
        let input = b"0\r\nA: 1\r\nB.c: 2\r\nD_e: 3\r\n\r\n";
        let mut decoder = ChunkDecoder::new(u64::MAX);
        assert_eq!(decoder.decode(input), Ok(Chunk::End { consumed: input.len() }));
        assert!(decoder.trailers().unwrap().is_empty());
        let mut decoder = ChunkDecoder::keeping_trailers(u64::MAX);
        assert_eq!(decoder.decode(input), Ok(Chunk::End { consumed: input.len() }));
        let names: Vec<_> = decoder.trailers().unwrap().iter().map(|field| field.name.to_vec()).collect();
        assert_eq!(names, [b"A".to_vec(), b"D_e".to_vec()]);
        let section = |lines: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(lines));
        assert_eq!(decode_text(&section(2700)), Ok(Some(String::new())));
        assert_eq!(decode_text(&section(2731)), Err(400));
        assert_eq!(decode_text(&format!("0\r\nA: {}", "b".repeat(16_400))), Err(400));
    }

    #[test]
    fn encoding() {
        let mut out = Vec::new();
        for (length, digits) in
            [(1, "1"), (15, "f"), (16, "10"), (0xabc0, "abc0"), (u64::MAX, "ffffffffffffffff")]
        {
            out.clear();
            encode_chunk_head(length, &mut out);
            assert_eq!(out, format!("{digits}\r\n").as_bytes());
        }
        out.clear();
        encode_chunk_head(0, &mut out);
        assert!(out.is_empty());
        let mut trailers = Fields::new();
        trailers.push(b"A", b"b").unwrap();
        encode_last_chunk(&trailers, &mut out);
        assert_eq!(out, b"0\r\nA: b\r\n\r\n");
        assert_eq!(CHUNK_END, b"\r\n");
    }
}
