//! Frames (RFC 9113, sections 4 and 6): their heads, and those that consist of little more.

use crate::Code;

/// What a client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload of a frame that is accepted, in bytes. It is the least that may be allowed.
pub const FRAME_SIZE: usize = 16 * 1024;

pub(crate) const HEAD_LENGTH: usize = 9;

/// The highest number of a stream, and the largest window.
pub(crate) const MAX: u32 = (1 << 31) - 1;

/// The types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    pub(crate) const PRIORITY_UPDATE: u8 = 16;
}

/// The flags of frames.
pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// The length of the payload, in bytes.
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    /// Reads a head, if all of it is there.
    pub(crate) fn read(input: &[u8]) -> Option<FrameHead> {
        let &[a, b, c, kind, flags, d, e, f, g] = input.first_chunk::<HEAD_LENGTH>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(FrameHead { length, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) & MAX })
    }

    pub(crate) fn bytes(self) -> [u8; HEAD_LENGTH] {
        // No sent frame is longer than what peers must accept.
        let [.., a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with a payload that is known to be short.
pub(crate) fn write_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    FrameHead { length: payload.len(), kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}

pub(crate) fn write_reset(stream: u32, code: Code, out: &mut Vec<u8>) {
    write_frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
}

pub(crate) fn write_goaway(last: u32, code: Code, out: &mut Vec<u8>) {
    let [last, code] = [last, code.0].map(u32::to_be_bytes);
    write_frame(kind::GOAWAY, 0, 0, &[last, code].concat(), out);
}

pub(crate) fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write_frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes(), out);
}

/// The number in the first four bytes.
pub(crate) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::{FrameHead, write_goaway};
    use crate::Code;

    #[test]
    fn a_head_reads_back() {
        let head = FrameHead { length: 0x01_02_03, kind: 9, flags: 5, stream: 0x7fff_0001 };
        let mut out = Vec::new();
        head.write(&mut out);
        assert_eq!(FrameHead::read(&out), Some(head));
        assert_eq!(FrameHead::read(&out[..8]), None);
        out[5] |= 0x80;
        assert_eq!(FrameHead::read(&out), Some(head), "the reserved bit is ignored");
    }

    #[test]
    fn a_goaway_has_the_last_stream_and_the_code() {
        let mut out = Vec::new();
        write_goaway(5, Code::ENHANCE_YOUR_CALM, &mut out);
        assert_eq!(out, [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 11]);
    }
}
