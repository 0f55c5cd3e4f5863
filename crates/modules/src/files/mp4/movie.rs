//! A movie, and the part of it that is wanted: a new head, and a range of the file.

use super::boxes::{self, Boxes, HEADER_MAX};
use super::durations::{self, Timed};
use super::track::{Track, duplicate};
use super::{Malformed, Storage, Wanted};
use std::cmp::Ordering;
use std::ops::Range;

/// The longest `ftyp` box, in bytes.
const TYPE_BYTES_MAX: u64 = 1024;

/// How many boxes come before the data and the head of a movie, at most.
const BOXES_MAX: usize = 10_000;

/// How many tracks a movie may have.
const TRACKS_MAX: usize = 1000;

/// A part of a movie.
#[derive(Debug)]
pub struct Cut {
    /// All that comes before the data.
    pub head: Vec<u8>,
    /// Where the data is in the file.
    pub data: Range<u64>,
}

/// Cuts a movie. `None` is the whole file, which a player can show as it comes. It may block.
///
/// # Errors
/// The file is not a movie that can be cut, or has nothing of the part.
pub fn cut(file: &impl Storage, wanted: &Wanted) -> Result<Option<Cut>, Malformed> {
    let Some(found) = find(file, wanted)? else { return Ok(None) };
    let (movie, mut tracks) = read_head(&found.head, wanted)?;
    if tracks.is_empty() {
        return Err(Malformed::new("no mp4 trak atoms were found"));
    }
    let data_end = found.data_end.ok_or_else(|| Malformed::new("no mp4 mdat atom was found"))?;
    let (mut start, mut end) = (file.length(), 0);
    for track in &mut tracks {
        let (first, last) = track.cut(wanted, file.length(), data_end)?;
        (start, end) = (start.min(first), end.max(last));
    }
    if end <= start {
        return Err(Malformed::new("no data between start time and end time"));
    }
    if start >= data_end {
        return Err(Malformed::new("start time is out mp4 mdat atom"));
    }
    let mut head = Vec::new();
    if let Some(kind) = &found.kind {
        boxes::write_whole(&mut head, b"ftyp", kind)?;
    }
    let before = head.len();
    write_head(&mut head, movie.as_ref(), &tracks)?;
    let data_header = data_header(end - start);
    let data_start = (head.len() + data_header.len()) as u64;
    // Only now it is known how long the head is.
    tracks.iter_mut().for_each(|track| track.shift(data_start.wrapping_sub(start)));
    head.truncate(before);
    write_head(&mut head, movie.as_ref(), &tracks)?;
    head.extend_from_slice(&data_header);
    Ok(Some(Cut { head, data: start..end }))
}

/// What was found in a file.
struct Found {
    /// The content of `ftyp`.
    kind: Option<Vec<u8>>,
    /// The content of `moov`.
    head: Vec<u8>,
    /// Where `mdat` ends.
    data_end: Option<u64>,
}

fn find(file: &impl Storage, wanted: &Wanted) -> Result<Option<Found>, Malformed> {
    let (mut kind, mut head, mut data_end) = (None, None, None);
    let mut at = 0;
    for _ in 0..BOXES_MAX {
        let room = file.length().saturating_sub(at);
        if room == 0 || (head.is_some() && data_end.is_some()) {
            break;
        }
        let start = read(file, at, room.min(HEADER_MAX as u64))?;
        let Some(found) = boxes::header(&start, room)? else { break };
        let content = at + found.length;
        match &found.name {
            b"ftyp" if found.content > TYPE_BYTES_MAX => {
                return Err(Malformed::new(format!("mp4 ftyp atom is too large:{}", found.content)));
            }
            b"ftyp" => set("ftyp", &mut kind, read(file, content, found.content)?)?,
            // A player can begin with such a file before it has all of it.
            b"moov" if data_end.is_none() && wanted.is_everything() => return Ok(None),
            b"moov" if found.content > wanted.head_bytes_max => {
                return Err(Malformed::new(format!(
                    "mp4 moov atom is too large:{}, you may want to increase mp4_max_buffer_size",
                    found.content
                )));
            }
            b"moov" => set("moov", &mut head, read(file, content, found.content)?)?,
            b"mdat" => set("mdat", &mut data_end, content + found.content)?,
            _ => {}
        }
        at = content + found.content;
    }
    Ok(Some(Found { kind, head: head.unwrap_or_default(), data_end }))
}

fn set<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    place.replace(value).map_or(Ok(()), |_| Err(duplicate(name)))
}

fn read(file: &impl Storage, at: u64, length: u64) -> Result<Vec<u8>, Malformed> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read(&mut bytes, at)
        .map_err(|error| Malformed::new(format!("mp4 file cannot be read ({error})")))?;
    Ok(bytes)
}

/// The movie's header and its tracks, without those that end before the part.
fn read_head<'a>(content: &'a [u8], wanted: &Wanted) -> Result<(Option<Timed>, Vec<Track<'a>>), Malformed> {
    let (mut movie, mut tracks) = (None, Vec::new());
    let mut timescale = 0;
    let mut list = Boxes::new(content);
    while let Some((name, content)) = list.next()? {
        match &name {
            b"mvhd" => {
                let mut header = Timed::read(content, &durations::MOVIE)?;
                timescale = header.timescale;
                if header.cut(wanted, timescale) == Ordering::Less {
                    return Err(Malformed::new("mp4 start time exceeds file duration"));
                }
                set("mvhd", &mut movie, header)?;
            }
            b"trak" if tracks.len() == TRACKS_MAX => return Err(Malformed::new("too many mp4 trak atoms")),
            b"trak" => tracks.extend(Track::read(content, wanted, timescale)?),
            b"cmov" => return Err(Malformed::new("mp4 compressed moov atom (cmov) is not supported")),
            _ => {}
        }
    }
    Ok((movie, tracks))
}

fn write_head(out: &mut Vec<u8>, movie: Option<&Timed>, tracks: &[Track<'_>]) -> Result<(), Malformed> {
    boxes::write(out, b"moov", |out| {
        movie.map_or(Ok(()), |movie| boxes::write_whole(out, b"mvhd", &movie.content()))?;
        tracks.iter().try_for_each(|track| track.write(out))
    })
}

/// The header of a box with so many bytes of data.
fn data_header(length: u64) -> Vec<u8> {
    match u32::try_from(length.saturating_add(8)) {
        Ok(length) => [&length.to_be_bytes()[..], b"mdat"].concat(),
        Err(_) => [&[0, 0, 0, 1][..], b"mdat", &(length.saturating_add(16)).to_be_bytes()].concat(),
    }
}
