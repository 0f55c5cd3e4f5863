//! Frames (RFC 9114, section 7).

use crate::varint;

/// The types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0;
    pub(crate) const HEADERS: u64 = 1;
    pub(crate) const CANCEL_PUSH: u64 = 3;
    pub(crate) const SETTINGS: u64 = 4;
    pub(crate) const PUSH_PROMISE: u64 = 5;
    pub(crate) const GOAWAY: u64 = 7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
    /// A priority of a request (RFC 9218, section 7.2).
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// A priority of a push.
    pub(crate) const PUSH_PRIORITY_UPDATE: u64 = 0xf_0701;
}

/// Whether this is the type of a frame of HTTP/2 that HTTP/3 does not have (RFC 9114, section 7.2.8).
pub(crate) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 2 | 6 | 8 | 9)
}

const HEAD_MAX: usize = 2 * varint::LENGTH_MAX;

/// Cuts the bytes of a stream into frames, wherever the bytes are cut themselves.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// The beginning of a head that has not come as a whole, and its length.
    head: [u8; HEAD_MAX],
    head_length: usize,
    kind: u64,
    /// What is missing of the payload, if the head has come.
    left: Option<u64>,
}

/// A part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The type and the length of the payload.
    Head { kind: u64, length: u64 },
    /// So many bytes of the payload. The last part may be empty.
    Payload { kind: u64, length: usize, is_last: bool },
}

impl FrameReader {
    /// The next part, with how many bytes of the input it takes. Without a part more input is needed.
    pub(crate) fn next(&mut self, input: &[u8]) -> (usize, Option<Part>) {
        let Some(left) = self.left else { return self.next_head(input) };
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        if length == 0 && left > 0 {
            return (0, None);
        }
        let left = left - length as u64;
        self.left = (left > 0).then_some(left);
        (length, Some(Part::Payload { kind: self.kind, length, is_last: left == 0 }))
    }

    fn next_head(&mut self, input: &[u8]) -> (usize, Option<Part>) {
        let known = self.head_length;
        let added = input.len().min(HEAD_MAX - known);
        self.head[known..known + added].copy_from_slice(&input[..added]);
        let head = &self.head[..known + added];
        let read = varint::read(head).and_then(|(kind, rest)| Some((kind, varint::read(rest)?)));
        let Some((kind, (length, rest))) = read else {
            self.head_length = known + added;
            return (added, None);
        };
        let consumed = head.len() - rest.len() - known;
        (self.kind, self.left, self.head_length) = (kind, Some(length), 0);
        (consumed, Some(Part::Head { kind, length }))
    }

    /// Whether the stream may end here.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.left.is_none() && self.head_length == 0
    }
}

/// Appends the head of a frame.
pub(crate) fn write_head(kind: u64, length: u64, out: &mut Vec<u8>) {
    varint::write(out, kind);
    varint::write(out, length);
}

/// Appends a frame whose payload is this one number.
pub(crate) fn write_number(kind: u64, number: u64, out: &mut Vec<u8>) {
    write_frame(kind, |out| varint::write(out, number), out);
}

/// Appends a frame whose payload `write` appends.
pub(crate) fn write_frame(kind: u64, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    varint::write(out, kind);
    let start = out.len();
    // Room for the length of most payloads.
    out.extend_from_slice(&[0, 0]);
    write(out);
    let mut length = Vec::with_capacity(varint::LENGTH_MAX);
    varint::write(&mut length, (out.len() - start - 2) as u64);
    match length[..] {
        // An integer may have more bytes than it needs.
        [one] => out[start..start + 2].copy_from_slice(&[0x40, one]),
        [a, b] => out[start..start + 2].copy_from_slice(&[a, b]),
        _ => _ = out.splice(start..start + 2, length),
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameReader, Part, write_frame, write_head};

    fn parts(bytes: &[u8], step: usize) -> Vec<Part> {
        let (mut reader, mut parts, mut at) = (FrameReader::default(), Vec::new(), 0);
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            loop {
                let (consumed, part) = reader.next(&bytes[at..end]);
                at += consumed;
                match part {
                    Some(part) => parts.push(part),
                    None => break,
                }
            }
            assert_eq!(at, end);
        }
        assert!(reader.is_between_frames());
        parts
    }

    #[test]
    fn frames_read_back_wherever_they_are_cut() {
        for length in [0, 1, 63, 64, 20_000] {
            let mut bytes = Vec::new();
            write_frame(1, |out| out.extend(vec![7; length]), &mut bytes);
            write_head(0xf_0700, 0, &mut bytes);
            for step in [1, 3, 50_000] {
                let parts = parts(&bytes, step);
                assert_eq!(parts[0], Part::Head { kind: 1, length: length as u64 });
                let payload = parts.iter().map(|part| match part {
                    Part::Payload { length, .. } => *length,
                    Part::Head { .. } => 0,
                });
                assert_eq!(payload.sum::<usize>(), length);
                let end = Part::Payload { kind: 0xf_0700, length: 0, is_last: true };
                assert_eq!(parts[parts.len() - 2..], [Part::Head { kind: 0xf_0700, length: 0 }, end]);
            }
        }
    }
}
