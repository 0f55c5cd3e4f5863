//! gRPC as far as a responder needs it: the answer to every call is the message that came with it, and
//! `grpc-status: 0` in the trailers. Messages have up to 64 KB: the window of a stream is not opened further.
//!
//! Of HTTP/2 (RFC 9113) there are frames and the windows of connections. The fields of requests are not read: every
//! call gets the same answer.

use std::collections::{HashMap, VecDeque};

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls {
    is_greeted: bool,
    /// What came of messages, by the numbers of their streams.
    messages: HashMap<u32, Vec<u8>>,
    /// The stream whose block of fields goes on in the next frame, and whether the request ends with it.
    in_fields: Option<(u32, bool)>,
    /// Messages that wait for the client's window.
    owed: VecDeque<(u32, Vec<u8>)>,
    /// What the client takes on the whole connection, and on each stream.
    window: u64,
    stream_window: u32,
    /// Bytes that were read and not yet given back to the client's own window.
    taken: u32,
}

/// What a client sends first (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Their flags.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Settings (section 6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The most streams at once.
const STREAMS: u32 = 512;

const FRAME_HEAD_BYTES: usize = 9;

/// The most content of a frame, which both sides keep to.
const FRAME_BYTES: usize = 16_384;

/// A window before it is changed.
const WINDOW_BYTES: u32 = 65_535;

/// From so many bytes on the client gets its window back.
const RETURN_BYTES: u32 = 32_768;

/// `:status: 200`, and `content-type: application/grpc` that is not indexed (RFC 7541, section 6).
const HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";

/// `grpc-status: 0`.
const TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// A frame that has come wholly.
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    content: &'a [u8],
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            is_greeted: false,
            messages: HashMap::new(),
            in_fields: None,
            owed: VecDeque::new(),
            window: u64::from(WINDOW_BYTES),
            stream_window: WINDOW_BYTES,
            taken: 0,
        }
    }
}

impl Calls {
    /// Takes what is complete of the input, and writes what it is answered with. Gives how many bytes it took; none
    /// where the client is to be left.
    pub(super) fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut at = 0;
        if !self.is_greeted {
            if input.len() < PREFACE.len() {
                return PREFACE.starts_with(input).then_some(0);
            }
            at = input.starts_with(PREFACE).then_some(PREFACE.len())?;
            self.is_greeted = true;
            frame(SETTINGS, 0, 0, &[&MAX_CONCURRENT_STREAMS.to_be_bytes(), &STREAMS.to_be_bytes()], out);
        }
        while let Some([a, b, c, kind, flags, stream @ ..]) = input.get(at..at + FRAME_HEAD_BYTES) {
            let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).ok()?;
            if length > FRAME_BYTES {
                return None;
            }
            let begin = at + FRAME_HEAD_BYTES;
            let Some(content) = input.get(begin..begin + length) else { break };
            let stream = u32::from_be_bytes(stream.try_into().ok()?) & 0x7fff_ffff;
            self.frame(&Frame { kind: *kind, flags: *flags, stream, content }, out)?;
            at = begin + length;
        }
        self.answer(out)?;
        Some(at)
    }

    fn frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<()> {
        match frame.kind {
            HEADERS => {
                self.in_fields = Some((frame.stream, frame.flags & END_STREAM != 0));
                self.fields(frame)
            }
            CONTINUATION => self.fields(frame),
            DATA => self.data(frame, out),
            RST_STREAM => {
                self.messages.remove(&frame.stream);
                self.owed.retain(|(stream, _)| *stream != frame.stream);
                Some(())
            }
            SETTINGS if frame.flags & ACK == 0 => {
                self.settings(frame.content)?;
                self::frame(SETTINGS, ACK, 0, &[], out);
                Some(())
            }
            PING if frame.flags & ACK == 0 => {
                self::frame(PING, ACK, 0, &[frame.content], out);
                Some(())
            }
            // Answers keep to the window that a stream begins with.
            WINDOW_UPDATE if frame.stream == 0 => {
                self.window += u64::from(u32::from_be_bytes(frame.content.try_into().ok()?));
                Some(())
            }
            _ => Some(()),
        }
    }

    /// A piece of a block of fields, which is dropped.
    fn fields(&mut self, frame: &Frame<'_>) -> Option<()> {
        let (stream, is_end) = self.in_fields.filter(|(stream, _)| *stream == frame.stream)?;
        if frame.flags & END_HEADERS == 0 {
            return Some(());
        }
        self.in_fields = None;
        let message = self.messages.remove(&stream).unwrap_or_default();
        if is_end {
            self.owed.push_back((stream, message));
        } else if self.messages.len() + self.owed.len() < usize::try_from(STREAMS).ok()? {
            self.messages.insert(stream, message);
        } else {
            return None;
        }
        Some(())
    }

    fn data(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<()> {
        let mut content = frame.content;
        if frame.flags & PADDED != 0 {
            let (padding, rest) = content.split_first()?;
            content = &rest[..rest.len().checked_sub(usize::from(*padding))?];
        }
        self.taken += u32::try_from(frame.content.len()).ok()?;
        if self.taken >= RETURN_BYTES {
            self::frame(WINDOW_UPDATE, 0, 0, &[&self.taken.to_be_bytes()], out);
            self.taken = 0;
        }
        // What came to a stream that the client has reset is dropped.
        let Some(message) = self.messages.get_mut(&frame.stream) else { return Some(()) };
        message.extend_from_slice(content);
        if message.len() > usize::try_from(WINDOW_BYTES).ok()? {
            return None;
        }
        if frame.flags & END_STREAM != 0 {
            let message = self.messages.remove(&frame.stream)?;
            self.owed.push_back((frame.stream, message));
        }
        Some(())
    }

    fn settings(&mut self, content: &[u8]) -> Option<()> {
        for setting in content.chunks(6) {
            let [name_high, name_low, a, b, c, d]: [u8; 6] = setting.try_into().ok()?;
            if u16::from_be_bytes([name_high, name_low]) == INITIAL_WINDOW_SIZE {
                self.stream_window = u32::from_be_bytes([a, b, c, d]);
            }
        }
        Some(())
    }

    /// Answers calls as far as the client's window goes.
    fn answer(&mut self, out: &mut Vec<u8>) -> Option<()> {
        while let Some((stream, message)) = self.owed.front() {
            let length = message.len() as u64;
            if length > u64::from(self.stream_window) {
                return None;
            }
            if length > self.window {
                break;
            }
            self.window -= length;
            frame(HEADERS, END_HEADERS, *stream, &[HEAD], out);
            for piece in message.chunks(FRAME_BYTES) {
                frame(DATA, 0, *stream, &[piece], out);
            }
            frame(HEADERS, END_HEADERS | END_STREAM, *stream, &[TRAILERS], out);
            self.owed.pop_front();
        }
        Some(())
    }
}

fn frame(kind: u8, flags: u8, stream: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let [_, a, b, c] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame(kind, flags, stream, &[content], &mut out);
        out
    }

    /// A client's greeting and a call with a message that comes in two pieces, the second one padded.
    fn call(message: &[u8]) -> Vec<u8> {
        let (first, second) = message.split_at(message.len() / 2);
        [
            PREFACE,
            &framed(SETTINGS, 0, 0, &[]),
            &framed(HEADERS, 0, 1, b"fields"),
            &framed(CONTINUATION, END_HEADERS, 1, b"and more"),
            &framed(DATA, 0, 1, first),
            &framed(DATA, END_STREAM | PADDED, 1, &[&[3], second, &[0; 3]].concat()),
        ]
        .concat()
    }

    fn answer(message: &[u8]) -> Vec<u8> {
        [
            framed(HEADERS, END_HEADERS, 1, HEAD),
            framed(DATA, 0, 1, message),
            framed(HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS),
        ]
        .concat()
    }

    #[test]
    fn a_message_comes_back_however_it_is_cut() {
        let bytes = call(b"a message");
        let greeting = [framed(SETTINGS, 0, 0, &[0, 3, 0, 0, 2, 0]), framed(SETTINGS, ACK, 0, &[])].concat();
        for cut in 0..bytes.len() {
            let (mut calls, mut out) = (Calls::default(), Vec::new());
            let taken = calls.take(&bytes[..cut], &mut out).unwrap();
            assert_eq!(calls.take(&bytes[taken..], &mut out), Some(bytes.len() - taken));
            assert_eq!(out, [greeting.clone(), answer(b"a message")].concat(), "{cut}");
        }
    }

    #[test]
    fn answers_wait_for_the_window() {
        let (mut calls, mut out) = (Calls::default(), Vec::new());
        calls.window = 8;
        calls.take(&call(b"a message"), &mut out).unwrap();
        out.clear();
        assert_eq!(calls.take(&framed(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), &mut out), Some(13));
        assert_eq!(out, answer(b"a message"));
    }

    #[test]
    fn long_messages_are_paid_for_and_nonsense_is_left() {
        let (mut calls, mut out) = (Calls::default(), Vec::new());
        let start = [PREFACE, &framed(HEADERS, END_HEADERS, 1, b"")].concat();
        calls.take(&start, &mut out).unwrap();
        out.clear();
        let data = framed(DATA, 0, 1, &[0; FRAME_BYTES]);
        calls.take(&data.repeat(2), &mut out).unwrap();
        assert_eq!(out, framed(WINDOW_UPDATE, 0, 0, &[0, 0, 0x80, 0]));
        assert_eq!(calls.take(&data.repeat(3), &mut out), None, "beyond the window of the stream");
        for bad in
            [b"GET / HTTP/1.1\r\nHost: localhost".to_vec(), [PREFACE, &[1, 0, 0, 0, 0, 0, 0, 0, 0]].concat()]
        {
            assert_eq!(Calls::default().take(&bad, &mut Vec::new()), None);
        }
    }
}
