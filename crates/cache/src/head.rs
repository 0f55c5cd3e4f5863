//! The start of a file: what is known of the response whose content follows.
//!
//! All numbers are little-endian. A checksum protects the head, and the head has the length of the content: a file that was
//! cut off, or was written by another program, is found by that. Another checksum of the content finds what a power failure left
//! of a file whose content had not reached the disk.

use crate::freshness::Freshness;
use crate::key::Key;
use http::{Fields, Status};
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};

/// How the files of this format start. Another format has another number.
const MAGIC: &[u8; 8] = b"FULMARc5";

/// Where the part of a head starts that its CRC-32 protects.
const SUMMED: usize = MAGIC.len() + 4;

/// The bytes before the texts.
const FIXED: usize = SUMMED + 4 + 8 * 5 + 4 + 2 + 2 + 4 + 2 + 4 + 16 + 8 + 1;

/// How long a head may be, in bytes. A response with a longer one is not kept.
const HEAD_MAX: usize = 128 * 1024;

/// How much of a file is read at first, in bytes. It holds nearly every head.
pub const STARTS_MAX: usize = 4096;

/// What stands before the text of the key, so that people find it with `grep`.
const KEY_START: &[u8] = b"\nKEY: ";

/// What is known of a response that is kept.
#[derive(Clone, Debug)]
pub struct Head {
    /// How long it may be used.
    pub freshness: Freshness,
    /// Seconds since 1970 when it was written or found valid again.
    pub date: i64,
    /// How long the content is, in bytes.
    pub length: u64,
    /// The CRC-32 of the content.
    pub checksum: u32,
    /// The text of the key.
    pub key: Box<[u8]>,
    /// The key of the variant, if the response has `Vary`.
    pub variant: Option<Key>,
    /// The number that all variants of a response share, and that their keys depend on; 0 without `Vary`. After the removal of the
    /// response that the main key finds, the next one gets another number: no request finds the variants of the one before, whichever
    /// process looks for them.
    pub family: u64,
    /// The status.
    pub status: Status,
    /// The words after the status, as the upstream server's protocol has them.
    pub reason: Cow<'static, [u8]>,
    /// The fields as the upstream server sent them.
    pub fields: Fields,
    /// Whether it is a response to HEAD, which came without its content. Its fields include `Content-Length`.
    pub is_bare: bool,
}

/// What is known of a response that is going to be kept, but for its fields and its content.
#[derive(Clone, Copy, Debug)]
pub struct HeadParts<'a> {
    /// As in [`Head`].
    pub freshness: &'a Freshness,
    /// As in [`Head`].
    pub date: i64,
    /// As in [`Head`].
    pub key: &'a [u8],
    /// As in [`Head`].
    pub variant: Option<Key>,
    /// As in [`Head`].
    pub family: u64,
    /// As in [`Head`].
    pub status: Status,
    /// As in [`Head`].
    pub reason: &'a [u8],
    /// As in [`Head`].
    pub is_bare: bool,
}

impl HeadParts<'_> {
    /// How many bytes the head takes besides the lines of its fields.
    pub(crate) fn length_without_lines(&self) -> usize {
        FIXED + KEY_START.len() + self.key.len() + 1 + self.freshness.vary.len() + self.reason.len()
    }

    /// Puts the bytes of the head in place of what is there, without its own checksum ([`Head::seal`]). `content` is the length
    /// and the checksum of the content; `write_fields` appends the lines of the fields. `None` where the head is too long to be
    /// kept.
    pub(crate) fn encode_into(
        &self,
        content: (u64, u32),
        write_fields: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let Freshness { valid_until, updating_s, error_s, vary } = self.freshness;
        out.clear();
        out.resize(FIXED, 0);
        for part in [KEY_START, self.key, b"\n", vary, self.reason] {
            out.extend_from_slice(part);
        }
        let start = out.len();
        write_fields(out);
        if out.len() > HEAD_MAX {
            return None;
        }
        let fields = u32::try_from(out.len() - start).ok()?;
        let mut numbers = Numbers(&mut out[SUMMED + 4..FIXED]);
        numbers.put(content.0.to_le_bytes());
        for number in [*valid_until, *updating_s, *error_s, self.date] {
            numbers.put(number.to_le_bytes());
        }
        numbers.put(content.1.to_le_bytes());
        numbers.put(self.status.0.to_le_bytes());
        numbers.put(u16::try_from(vary.len()).ok()?.to_le_bytes());
        numbers.put(u32::try_from(self.key.len()).ok()?.to_le_bytes());
        numbers.put(u16::try_from(self.reason.len()).ok()?.to_le_bytes());
        numbers.put(fields.to_le_bytes());
        numbers.put(self.variant.map_or([0; 16], |variant| variant.0));
        numbers.put(self.family.to_le_bytes());
        numbers.put([u8::from(self.is_bare)]);
        Head::frame(out);
        Some(())
    }
}

/// Room for the numbers of a head.
struct Numbers<'a>(&'a mut [u8]);

impl Numbers<'_> {
    /// Writes a number into the first bytes, and goes on behind them.
    #[inline]
    fn put<const N: usize>(&mut self, number: [u8; N]) {
        if let Some((first, rest)) = std::mem::take(&mut self.0).split_first_chunk_mut() {
            *first = number;
            self.0 = rest;
        }
    }
}

/// Why a file's start is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// So many bytes are needed.
    Short(usize),
    /// It is not of this format, or it was damaged.
    Damaged,
}

impl Head {
    /// The head of a response with status 200, without content and no longer fresh.
    pub fn plain(key: &str, fields: Fields) -> Head {
        Head {
            freshness: Freshness::default(),
            date: 1,
            length: 0,
            checksum: 0,
            key: key.as_bytes().into(),
            variant: None,
            family: 0,
            status: Status::OK,
            reason: Cow::default(),
            fields,
            is_bare: false,
        }
    }

    /// How many bytes the head takes; `None` where it is too long to be kept.
    pub(crate) fn encoded_len(&self) -> Option<usize> {
        let length = self.parts().length_without_lines() + self.fields.lines().len();
        Some(length).filter(|&length| length <= HEAD_MAX)
    }

    /// The bytes of the head; `None` where it is too long to be kept.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.encode_into(&mut out)?;
        Head::seal(&mut out);
        Some(out)
    }

    /// Puts the bytes of the head in place of what is there, without its own checksum; `None` where it is too long to be kept.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) -> Option<()> {
        let content = (self.length, self.checksum);
        self.parts().encode_into(content, |out| out.extend_from_slice(&self.fields.lines()), out)
    }

    /// The head without its fields and without what describes the content.
    pub fn parts(&self) -> HeadParts<'_> {
        let Head { freshness, key, reason, .. } = self;
        let &Head { date, variant, family, status, is_bare, .. } = self;
        HeadParts { freshness, date, key, variant, family, status, reason, is_bare }
    }

    /// The length of the content that a client gets in the head, in bytes. Only a response to HEAD may have none.
    pub fn content_length(&self) -> Option<u64> {
        match self.is_bare {
            true => self.fields.get("Content-Length").and_then(http::parse_number),
            false => Some(self.length),
        }
    }

    /// Writes the format and the length of a head, whose other bytes are there. Tells whether there is room for them.
    fn frame(head: &mut [u8]) -> bool {
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let has_room = head.len() >= SUMMED + size_of_val(&length);
        if has_room {
            head[..MAGIC.len()].copy_from_slice(MAGIC);
            head[SUMMED..][..size_of_val(&length)].copy_from_slice(&length.to_le_bytes());
        }
        has_room
    }

    /// Writes the format, the length and the checksum of a head, whose other bytes are there.
    pub fn seal(head: &mut [u8]) {
        if Head::frame(head) {
            let sum = crc32fast::hash(&head[SUMMED..]);
            head[MAGIC.len()..SUMMED].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Reads the head of a file, and tells how long it is in bytes.
    ///
    /// # Errors
    /// More bytes are needed, or these are no head.
    pub fn decode(bytes: &[u8]) -> Result<(Head, usize), HeadError> {
        let framed = Framed::of(bytes)?;
        if crc32fast::hash(&framed.head[SUMMED..]) != framed.sum {
            return Err(HeadError::Damaged);
        }
        framed.read()
    }

    /// Reads a head from memory, where it needs no checksum, and tells how long it is in bytes.
    ///
    /// # Errors
    /// As for [`Head::decode`].
    pub(crate) fn read(bytes: &[u8]) -> Result<(Head, usize), HeadError> {
        Framed::of(bytes)?.read()
    }
}

/// The bytes of a head, from the first one of the format on.
struct Framed<'a> {
    head: &'a [u8],
    /// The checksum of what follows it.
    sum: u32,
    /// The numbers after the length.
    numbers: Reader<'a>,
}

impl<'a> Framed<'a> {
    fn of(bytes: &'a [u8]) -> Result<Framed<'a>, HeadError> {
        let Some(start) = bytes.get(..FIXED) else { return Err(HeadError::Short(FIXED)) };
        let mut numbers = Reader(&start[MAGIC.len()..]);
        let (sum, length) = (u32::from_le_bytes(numbers.take()), numbers.u32());
        if !start.starts_with(MAGIC) || !(FIXED..=HEAD_MAX).contains(&length) {
            return Err(HeadError::Damaged);
        }
        let head = bytes.get(..length).ok_or(HeadError::Short(length))?;
        Ok(Framed { head, sum, numbers })
    }

    /// The head, and how long it is in bytes.
    fn read(self) -> Result<(Head, usize), HeadError> {
        let Framed { head, mut numbers, .. } = self;
        let content = numbers.u64();
        let [valid_until, updating_s, error_s, date] = [(); 4].map(|()| numbers.i64());
        let checksum = u32::from_le_bytes(numbers.take());
        let (status, vary, key) = (numbers.u16(), numbers.u16(), numbers.u32());
        let (reason, fields) = (numbers.u16(), numbers.u32());
        let (variant, family) = (Key(numbers.take()), numbers.u64());
        let is_bare = match numbers.take::<1>() {
            [0] => false,
            [1] => true,
            _ => return Err(HeadError::Damaged),
        };
        let mut texts = &head[FIXED..];
        let mut text = |length: usize| {
            let (text, rest) = texts.split_at_checked(length).ok_or(HeadError::Damaged)?;
            texts = rest;
            Ok(text)
        };
        let is_key = text(KEY_START.len())? == KEY_START;
        let (key, end) = (text(key)?, text(1)?);
        let (vary, reason) = (text(usize::from(vary))?, text(usize::from(reason))?);
        let fields = read_fields(text(fields)?).ok_or(HeadError::Damaged)?;
        if !is_key || end != b"\n" || !texts.is_empty() {
            return Err(HeadError::Damaged);
        }
        let length = head.len();
        let head = Head {
            freshness: Freshness { valid_until, updating_s, error_s, vary: vary.into() },
            date,
            length: content,
            checksum,
            key: key.into(),
            variant: (!vary.is_empty()).then_some(variant),
            family,
            status: Status(status),
            reason: reason_of(Status(status), reason),
            fields,
            is_bare,
        };
        Ok((head, length))
    }
}

/// A number for a response and its variants that no other one has ([`Head::family`]).
pub fn new_family() -> u64 {
    // Each of these hashers has its own keys, which start at random in each thread.
    RandomState::new().build_hasher().finish() | 1
}

/// The words after a status. The usual ones take no memory.
pub fn reason_of(status: Status, words: &[u8]) -> Cow<'static, [u8]> {
    let usual = status.reason().as_bytes();
    if words == usual { Cow::Borrowed(usual) } else { Cow::Owned(words.to_vec()) }
}

/// Reads the fields of a head, a line each.
fn read_fields(mut text: &[u8]) -> Option<Fields> {
    let mut fields = Fields::new();
    while !text.is_empty() {
        let end = text.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &text[..end];
        let colon = line.iter().position(|&byte| byte == b':')?;
        let value = line[colon + 1..].strip_prefix(b" ")?;
        fields.push(&line[..colon], value).ok()?;
        text = &text[end + 2..];
    }
    Some(fields)
}

/// The numbers of a head, whose bytes are known to be there.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        if let Some((first, rest)) = self.0.split_at_checked(N) {
            taken.copy_from_slice(first);
            self.0 = rest;
        }
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> usize {
        usize::try_from(u32::from_le_bytes(self.take())).unwrap_or(usize::MAX)
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::{FIXED, HEAD_MAX, Head, HeadError};
    use crate::freshness::Freshness;
    use crate::key::Key;
    use http::{Fields, Status};
    use proptest::prelude::*;

    fn head(value: &[u8]) -> Head {
        let mut fields = Fields::new();
        fields.push(b"Content-Type", b"text/html").unwrap();
        fields.push(b"X-A", value).unwrap();
        Head {
            freshness: Freshness { valid_until: 7, updating_s: 8, error_s: 9, vary: b"X".as_slice().into() },
            date: 5,
            length: 10,
            checksum: 11,
            key: b"http://a/".as_slice().into(),
            variant: Some(Key::of(b"y")),
            family: 12,
            status: Status(404),
            reason: b"Not Found".as_slice().into(),
            fields,
            is_bare: false,
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let bytes = head(b"b").encode().unwrap();
        let (read, length) = Head::decode(&[&bytes[..], b"content"].concat()).unwrap();
        assert_eq!(length, bytes.len());
        assert_eq!(read.encode().unwrap(), bytes);
        assert_eq!((read.status, read.length, &*read.key), (Status(404), 10, &b"http://a/"[..]));
        assert_eq!(read.family, 12);
        assert_eq!(read.fields.get("x-a"), Some(&b"b"[..]));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("\nKEY: http://a/\n"));
    }

    #[test]
    fn a_response_to_head_has_the_length_that_it_says() {
        let mut bare = Head { is_bare: true, length: 0, ..head(b"b") };
        assert_eq!(bare.content_length(), None);
        bare.fields.push(b"Content-Length", b"123").unwrap();
        let (read, _) = Head::decode(&bare.encode().unwrap()).unwrap();
        assert_eq!((read.is_bare, read.length, read.content_length()), (true, 0, Some(123)));
        assert_eq!(head(b"b").content_length(), Some(10));
    }

    #[test]
    fn what_is_cut_off_or_changed_is_no_head() {
        let bytes = head(b"b").encode().unwrap();
        assert_eq!(Head::decode(&bytes[..10]).err(), Some(HeadError::Short(FIXED)));
        assert_eq!(Head::decode(&bytes[..FIXED + 1]).err(), Some(HeadError::Short(bytes.len())));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Head::decode(&damaged).is_err(), "byte {at}");
        }
        assert!(Head::decode(&[0; 4096]).is_err());
    }

    #[test]
    fn each_family_has_a_number_of_its_own() {
        let numbers: std::collections::HashSet<u64> = (0..1000).map(|_| super::new_family()).collect();
        assert!(numbers.len() == 1000 && !numbers.contains(&0));
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        assert!(head(&vec![b'x'; HEAD_MAX]).encode().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Head::decode(&bytes);
            let _ = Head::decode(&[&b"FULMARc5"[..], &bytes].concat());
        }
    }
}
