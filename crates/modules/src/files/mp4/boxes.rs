//! Boxes of an MP4 file (ISO/IEC 14496-12, section 4.2), which nginx calls atoms.

use super::Malformed;

/// A box: its name, and where its content is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) name: [u8; 4],
    /// How many bytes come before the content.
    pub(super) length: u64,
    /// How long the content is, in bytes.
    pub(super) content: u64,
}

/// The longest header: a length of 64 bits follows the name.
pub(super) const HEADER_MAX: usize = 16;

/// The header at the start of these bytes; `room` is how many bytes the box may have. `None` is a box with the length 0, which ends
/// the list.
pub(super) fn header(bytes: &[u8], room: u64) -> Result<Option<Header>, Malformed> {
    let truncated = || Malformed::new("mp4 file truncated");
    let length = number32(bytes, 0).ok_or_else(truncated)?;
    if length == 0 {
        return Ok(None);
    }
    let name = *bytes.get(4..).and_then(<[u8]>::first_chunk).ok_or_else(truncated)?;
    let (header, all) = match length {
        1 => (16, number64(bytes, 8).ok_or_else(truncated)?),
        length => (8, u64::from(length)),
    };
    let too_small = || Malformed::new(format!("mp4 atom is too small:{all}"));
    let content = all.checked_sub(header).ok_or_else(too_small)?;
    if all > room {
        return Err(Malformed::new(format!("mp4 atom too large:{all}")));
    }
    Ok(Some(Header { name, length: header, content }))
}

/// The name of a box, and its content.
pub(super) type Named<'a> = ([u8; 4], &'a [u8]);

/// The boxes in the content of another one. After an error or a box with the length 0 there are no more.
pub(super) struct Boxes<'a> {
    rest: &'a [u8],
}

impl<'a> Boxes<'a> {
    pub(super) fn new(content: &'a [u8]) -> Boxes<'a> {
        Boxes { rest: content }
    }

    /// The name and the content of the next box.
    pub(super) fn next(&mut self) -> Result<Option<Named<'a>>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let rest = std::mem::take(&mut self.rest);
        let Some(found) = header(rest, rest.len() as u64)? else { return Ok(None) };
        let length = |number: u64| usize::try_from(number).ok();
        let (start, content) = length(found.length).zip(length(found.content)).unwrap_or((rest.len(), 0));
        let (content, rest) = rest[start..].split_at(content);
        self.rest = rest;
        Ok(Some((found.name, content)))
    }
}

/// The number of 32 bits at a place.
pub(super) fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

/// The number of 64 bits at a place.
pub(super) fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
}

/// Appends a box; `write` appends its content.
///
/// # Errors
/// It would be longer than a length of 32 bits can say.
pub(super) fn write(
    out: &mut Vec<u8>,
    name: &[u8; 4],
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    write(out)?;
    let length =
        u32::try_from(out.len() - start).map_err(|_| Malformed::new("mp4 moov atom is too large"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// As [`write`], with content that is there.
pub(super) fn write_whole(out: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) -> Result<(), Malformed> {
    write(out, name, |out| {
        out.extend_from_slice(content);
        Ok(())
    })
}
