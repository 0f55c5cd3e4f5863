//! The tables of a track: when its samples are shown, how long they are, and where they are in the file.

use super::boxes::{self, number32, number64};
use super::{Malformed, Wanted};

/// A table whose rows have N numbers.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    version_and_flags: [u8; 4],
    rows: Vec<[u32; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn read(name: &str, content: &[u8]) -> Result<Table<N>, Malformed> {
        let read = || {
            let version_and_flags = *content.first_chunk()?;
            let numbers = rows(content, 8, number32(content, 4)?, 4 * N)?.chunks_exact(4 * N);
            let row = |bytes: &[u8]| std::array::from_fn(|at| number32(bytes, 4 * at).unwrap_or(0));
            Some(Table { version_and_flags, rows: numbers.map(row).collect() })
        };
        read().ok_or_else(|| too_small(name))
    }

    fn write(&self, out: &mut Vec<u8>, name: &[u8; 4]) -> Result<(), Malformed> {
        boxes::write(out, name, |out| {
            out.extend_from_slice(&self.version_and_flags);
            write_count(out, self.rows.len())?;
            self.rows.iter().flatten().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
            Ok(())
        })
    }
}

/// The bytes of so many rows from a place on.
fn rows(content: &[u8], start: usize, count: u32, width: usize) -> Option<&[u8]> {
    let length = usize::try_from(count).ok()?.checked_mul(width)?;
    content.get(start..start.checked_add(length)?)
}

fn write_count(out: &mut Vec<u8>, count: usize) -> Result<(), Malformed> {
    let count = u32::try_from(count).map_err(|_| Malformed::new("mp4 moov atom is too large"))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn too_small(name: &str) -> Malformed {
    Malformed::new(format!("mp4 {name} atom too small"))
}

/// The sizes of samples, in bytes.
#[derive(Debug)]
pub(super) enum Sizes<'a> {
    /// All have the same: the content of the box.
    Same(&'a [u8]),
    /// The size of each.
    Each([u8; 4], Vec<u32>),
}

impl<'a> Sizes<'a> {
    pub(super) fn read(content: &'a [u8]) -> Result<Sizes<'a>, Malformed> {
        let read = || {
            let version_and_flags = *content.first_chunk()?;
            let (same, count) = (number32(content, 4)?, number32(content, 8)?);
            if same != 0 {
                return Some(Sizes::Same(content));
            }
            let sizes = rows(content, 12, count, 4)?.chunks_exact(4);
            Some(Sizes::Each(version_and_flags, sizes.filter_map(|bytes| number32(bytes, 0)).collect()))
        };
        read().ok_or_else(|| too_small("stsz"))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        boxes::write(out, b"stsz", |out| {
            match self {
                Sizes::Same(content) => out.extend_from_slice(content),
                Sizes::Each(version_and_flags, sizes) => {
                    out.extend_from_slice(version_and_flags);
                    out.extend_from_slice(&[0; 4]);
                    write_count(out, sizes.len())?;
                    sizes.iter().for_each(|size| out.extend_from_slice(&size.to_be_bytes()));
                }
            }
            Ok(())
        })
    }
}

/// Where the chunks are in the file.
#[derive(Debug)]
pub(super) struct Chunks {
    is_wide: bool,
    version_and_flags: [u8; 4],
    offsets: Vec<u64>,
}

impl Chunks {
    pub(super) fn read(name: &[u8; 4], content: &[u8]) -> Result<Chunks, Malformed> {
        let is_wide = name == b"co64";
        let width = if is_wide { 8 } else { 4 };
        let read = || {
            let version_and_flags = *content.first_chunk()?;
            let offsets = rows(content, 8, number32(content, 4)?, width)?.chunks_exact(width);
            let offset = |bytes: &[u8]| match is_wide {
                true => number64(bytes, 0),
                false => number32(bytes, 0).map(u64::from),
            };
            Some(Chunks { is_wide, version_and_flags, offsets: offsets.filter_map(offset).collect() })
        };
        read().ok_or_else(|| too_small(if is_wide { "co64" } else { "stco" }))
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        boxes::write(out, if self.is_wide { b"co64" } else { b"stco" }, |out| {
            out.extend_from_slice(&self.version_and_flags);
            write_count(out, self.offsets.len())?;
            let skipped = if self.is_wide { 0 } else { 4 };
            self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()[skipped..]));
            Ok(())
        })
    }

    /// An offset in a chunk, this many bytes behind its start.
    fn inside(&self, chunk: usize, skipped: u64, file: u64) -> Result<u64, Malformed> {
        let most = if self.is_wide { file } else { file.min(u64::from(u32::MAX)) };
        let offset = self.offsets.get(chunk).and_then(|offset| offset.checked_add(skipped));
        offset.filter(|&offset| offset <= most).ok_or_else(|| Malformed::new("too large chunk offset"))
    }
}

/// The tables of a track.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    /// Runs of samples: how many, and how long each is shown.
    pub(super) times: Option<Table<2>>,
    /// The numbers of the samples that can be shown without others, from 1 on.
    pub(super) key_frames: Option<Table<1>>,
    /// Runs of samples: how many, and how much later they are shown.
    pub(super) offsets: Option<Table<2>>,
    /// Runs of chunks: the first one from 1 on, how many samples each has, and their description.
    pub(super) samples: Option<Table<3>>,
    pub(super) sizes: Option<Sizes<'a>>,
    pub(super) chunks: Option<Chunks>,
    part: Part,
}

/// The part that is wanted.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// The first sample, from 0 on.
    start: u64,
    /// The sample after the last one, if the part ends before the track.
    end: Option<u64>,
}

/// An end of the part in the chunks.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    /// For the start the chunk that it is in, from 0 on; for the end the chunk after the last one.
    chunk: u64,
    /// How many samples of the chunk come before it.
    samples: u64,
}

impl Tables<'_> {
    /// Cuts the times of the samples. Returns how much comes before the start because the part begins with a key frame.
    pub(super) fn cut_times(&mut self, wanted: &Wanted, timescale: u32) -> Result<u64, Malformed> {
        let out = || Malformed::new("start time is out mp4 stts samples");
        let rows = &mut self.times.as_mut().ok_or_else(|| missing("stts"))?.rows;
        let (mut row, mut inside, sample) = seek(rows, wanted.start_in(timescale)).ok_or_else(out)?;
        let mut before = match &self.key_frames {
            Some(table) if wanted.starts_with_key_frame => after_key_frame(&table.rows, sample)?,
            _ => 0,
        };
        self.part.start = sample.checked_sub(before).ok_or_else(out)?;
        let mut prefix = 0u64;
        let time = |count: u64, row: [u32; 2]| count.saturating_mul(u64::from(row[1]));
        while inside < before {
            prefix = prefix.saturating_add(time(inside, rows[row]));
            before -= inside;
            row = row.checked_sub(1).ok_or_else(out)?;
            inside = u64::from(rows[row][0]);
        }
        prefix = prefix.saturating_add(time(before, rows[row]));
        shorten(&mut rows[row][0], inside - before);
        rows.drain(..row);
        if let Some(length) = wanted.length_in(timescale) {
            let all = || rows.iter().map(|row| u64::from(row[0])).sum();
            let count = match seek(rows, length.saturating_add(prefix)) {
                Some((row, inside, sample)) => {
                    rows[row][0] = u32::try_from(inside).unwrap_or(u32::MAX);
                    rows.truncate(row + 1);
                    sample
                }
                None => all(),
            };
            self.part.end = Some(self.part.start + count);
        }
        Ok(prefix)
    }

    /// Cuts the other tables. Returns where the data of the part starts and ends in the file.
    pub(super) fn cut_samples(&mut self, file: u64, data_end: u64) -> Result<(u64, u64), Malformed> {
        let Part { start, end } = self.part;
        if let Some(table) = &mut self.key_frames {
            cut_numbers(&mut table.rows, start, end);
        }
        if let Some(table) = &mut self.offsets {
            cut_runs(&mut table.rows, start, end.map(|end| end - start));
            if table.rows.is_empty() {
                self.offsets = None;
            }
        }
        let chunks = self.chunks.as_ref().map_or(0, |chunks| chunks.offsets.len() as u64);
        let rows = &mut self.samples.as_mut().ok_or_else(|| missing("stsc"))?.rows;
        let (from, to) = cut_chunks(rows, chunks, start, end.map(|end| end - start))?;
        let (skipped, taken) = match &mut self.sizes {
            Some(Sizes::Each(_, sizes)) => cut_sizes(sizes, self.part, (from.samples, to), file)?,
            Some(Sizes::Same(_)) | None => (0, 0),
        };
        let start = Place { chunk: from.chunk, bytes: skipped };
        let end = to.map(|to| Place { chunk: to.chunk, bytes: taken });
        let chunks = self.chunks.as_mut().ok_or_else(|| missing("stco"))?;
        let data = cut_offsets(chunks, start, end, file)?;
        Ok(data.unwrap_or_else(|| (chunks.offsets[0], data_end)))
    }

    /// Moves the offsets of all chunks.
    pub(super) fn shift(&mut self, by: u64) {
        let offsets = self.chunks.iter_mut().flat_map(|chunks| &mut chunks.offsets);
        offsets.for_each(|offset| *offset = offset.wrapping_add(by));
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Tables { times, key_frames, offsets, samples, sizes, chunks, part: _ } = self;
        times.as_ref().map_or(Ok(()), |table| table.write(out, b"stts"))?;
        key_frames.as_ref().map_or(Ok(()), |table| table.write(out, b"stss"))?;
        offsets.as_ref().map_or(Ok(()), |table| table.write(out, b"ctts"))?;
        samples.as_ref().map_or(Ok(()), |table| table.write(out, b"stsc"))?;
        sizes.as_ref().map_or(Ok(()), |sizes| sizes.write(out))?;
        chunks.as_ref().map_or(Ok(()), |chunks| chunks.write(out))
    }
}

fn missing(name: &str) -> Malformed {
    Malformed::new(format!("no mp4 {name} atoms were found"))
}

/// The sample that is shown at a time: the run that it is in, how many samples of the run come before it, and its number
/// from 0 on.
fn seek(runs: &[[u32; 2]], mut time: u64) -> Option<(usize, u64, u64)> {
    let mut sample = 0;
    for (at, &[count, duration]) in runs.iter().enumerate() {
        let all = u64::from(count) * u64::from(duration);
        if time < all {
            let inside = time / u64::from(duration);
            return Some((at, inside, sample + inside));
        }
        sample += u64::from(count);
        time -= all;
    }
    None
}

/// How many samples a sample is after the key frame before it.
fn after_key_frame(key_frames: &[[u32; 1]], sample: u64) -> Result<u64, Malformed> {
    let number = sample + 1;
    let mut after = 0;
    for &[key_frame] in key_frames {
        if key_frame == 0 {
            return Err(Malformed::new("zero sync sample"));
        }
        match number.checked_sub(u64::from(key_frame)) {
            Some(distance) => after = distance,
            None => break,
        }
    }
    Ok(after)
}

/// Takes samples away from a run.
fn shorten(count: &mut u32, by: u64) {
    *count = count.saturating_sub(u32::try_from(by).unwrap_or(u32::MAX));
}

/// Keeps the numbers of samples in the part, and counts them from its start.
fn cut_numbers(rows: &mut Vec<[u32; 1]>, start: u64, end: Option<u64>) {
    let from = |rows: &[[u32; 1]], sample: u64| {
        rows.iter().position(|&[number]| u64::from(number) > sample).unwrap_or(rows.len())
    };
    rows.drain(..from(rows, start));
    if let Some(end) = end {
        rows.truncate(from(rows, end));
    }
    // A table without order may have smaller numbers; they mean nothing before and after.
    #[expect(clippy::cast_possible_truncation, reason = "the numbers have as many bits")]
    rows.iter_mut().for_each(|[number]| *number = number.wrapping_sub(start as u32));
}

/// Keeps the runs of samples in the part.
fn cut_runs(rows: &mut Vec<[u32; 2]>, start: u64, length: Option<u64>) {
    match find_run(rows, start) {
        Some((row, inside)) => {
            shorten(&mut rows[row][0], inside);
            rows.drain(..row);
        }
        None => rows.clear(),
    }
    if let Some((row, inside)) = length.and_then(|length| find_run(rows, length)) {
        rows[row][0] = u32::try_from(inside).unwrap_or(u32::MAX);
        rows.truncate(row + 1);
    }
}

/// The run that a sample is in, and how many samples of the run come before it.
fn find_run(rows: &[[u32; 2]], mut sample: u64) -> Option<(usize, u64)> {
    for (at, &[count, _]) in rows.iter().enumerate() {
        if sample < u64::from(count) {
            return Some((at, sample));
        }
        sample -= u64::from(count);
    }
    None
}

/// A place in the runs of chunks.
struct Found {
    row: usize,
    /// How many samples from the start of the run come before it.
    samples: u64,
    /// The first chunk after the run.
    next: u64,
    /// How many samples a chunk of the run before has.
    before: u64,
}

/// The run of chunks that a sample is in. The sample after the last one is in the last run.
fn find_chunks(rows: &[[u32; 3]], chunks: u64, mut sample: u64, before: u64) -> Result<Found, Malformed> {
    let mut before = before;
    for (row, &[chunk, samples, _]) in rows.iter().enumerate() {
        let following = rows.get(row + 1);
        let next = following.map_or(chunks + 1, |row| u64::from(row[0]));
        let count =
            next.checked_sub(u64::from(chunk)).ok_or_else(|| Malformed::new("unordered mp4 stsc chunks"))?;
        let all = count.saturating_mul(u64::from(samples));
        let is_last = following.is_none();
        if sample < all || (is_last && sample == all) {
            return Ok(Found { row, samples: sample, next, before });
        }
        if is_last {
            break;
        }
        sample -= all;
        if count > 0 {
            before = u64::from(samples);
        }
    }
    Err(Malformed::new("a time is out mp4 stsc chunks"))
}

/// Keeps the runs of chunks in the part. Returns where it starts and ends.
fn cut_chunks(
    rows: &mut Vec<[u32; 3]>,
    chunks: u64,
    start: u64,
    length: Option<u64>,
) -> Result<(Edge, Option<Edge>), Malformed> {
    if rows.is_empty() {
        return Err(Malformed::new("zero number of entries in stsc atom"));
    }
    let found = find_chunks(rows, chunks, start, 0)?;
    let (from, [_, samples, id]) = edge(&found, rows)?;
    rows.drain(..found.row);
    rows[0][0] = low(from.chunk + 1);
    let left = samples.saturating_sub(low(from.samples));
    // The first chunk may have fewer samples than the others of its run: it is a run of its own then.
    let mut first = None;
    if from.samples > 0 && found.next == from.chunk + 2 {
        rows[0][1] = left;
    } else if from.samples > 0 {
        first = Some([1, left, id]);
        rows[0][0] = low(from.chunk + 2);
    }
    let (to, last) = match length {
        Some(length) => cut_end(rows, &mut first, chunks, (from, length))?,
        None => (None, None),
    };
    rows.iter_mut().for_each(|row| row[0] = row[0].wrapping_sub(low(from.chunk)));
    rows.splice(..0, first);
    rows.extend(last);
    Ok((from, to))
}

/// Cuts what comes after the part. Returns its end, and the run of a last chunk with fewer samples.
fn cut_end(
    rows: &mut Vec<[u32; 3]>,
    first: &mut Option<[u32; 3]>,
    chunks: u64,
    (from, length): (Edge, u64),
) -> Result<(Option<Edge>, Option<[u32; 3]>), Malformed> {
    let mut rest = length;
    let mut before = 0;
    if let Some([_, samples, _]) = first {
        *samples = (*samples).min(u32::try_from(rest).unwrap_or(u32::MAX));
        before = u64::from(*samples);
        rest -= before;
    }
    let found = find_chunks(rows, chunks, rest, before)?;
    let (mut to, [_, samples, id]) = edge(&found, rows)?;
    let inside = std::mem::take(&mut to.samples);
    let (keeps_run, whole) = match found.samples {
        0 => (false, found.before),
        _ => (true, u64::from(samples)),
    };
    rows.truncate(found.row + usize::from(keeps_run));
    to.samples = whole;
    if inside == 0 {
        return Ok((Some(to), None));
    }
    to = Edge { chunk: to.chunk + 1, samples: inside };
    // The part ends in the first chunk of the run.
    if found.samples < u64::from(samples) {
        rows[found.row][1] = low(inside);
        return Ok((Some(to), None));
    }
    Ok((Some(to), Some([low(to.chunk.saturating_sub(from.chunk)), low(inside), id])))
}

/// The chunk of a place, and the run that it is in.
fn edge(found: &Found, rows: &[[u32; 3]]) -> Result<(Edge, [u32; 3]), Malformed> {
    let row = rows[found.row];
    let [chunk, samples, _] = row.map(u64::from);
    if samples == 0 {
        return Err(Malformed::new("zero number of samples"));
    }
    let before = chunk.checked_sub(1).ok_or_else(|| Malformed::new("zero chunk"))?;
    let edge = Edge { chunk: before + found.samples / samples, samples: found.samples % samples };
    Ok((edge, row))
}

#[expect(clippy::cast_possible_truncation, reason = "the file has numbers of 32 bits")]
fn low(number: u64) -> u32 {
    number as u32
}

/// Keeps the sizes of the samples in the part, whose first chunk has so many samples before it. Returns how many bytes these
/// have, and how many bytes of its last chunk belong to it.
fn cut_sizes(
    sizes: &mut Vec<u32>,
    part: Part,
    (before, to): (u64, Option<Edge>),
    file: u64,
) -> Result<(u64, u64), Malformed> {
    let out = |which: &str| Malformed::new(format!("{which} time is out mp4 stsz samples"));
    let index = |sample: u64| usize::try_from(sample).ok().filter(|&sample| sample <= sizes.len());
    let first = index(part.start).filter(|&first| first < sizes.len()).ok_or_else(|| out("start"))?;
    let last = part.end.map_or(Some(sizes.len()), index).ok_or_else(|| out("end"))?;
    let sum = |end: usize, count: u64, which: &str| {
        let start = usize::try_from(count).ok().and_then(|count| end.checked_sub(count));
        let total = start.map(|start| sizes[start..end].iter().map(|&size| u64::from(size)).sum::<u64>());
        total
            .filter(|&total| total <= file)
            .ok_or_else(|| Malformed::new(format!("too large mp4 {which} samples size")))
    };
    let skipped = sum(first, before, "start")?;
    let taken = to.map_or(Ok(0), |to| sum(last, to.samples, "end"))?;
    sizes.truncate(last);
    sizes.drain(..first);
    Ok((skipped, taken))
}

/// A place in the data: a chunk, and how many of its bytes come before it. The end is counted in the chunk before.
struct Place {
    chunk: u64,
    bytes: u64,
}

/// Keeps the offsets of the chunks in the part. Returns where its data starts and ends, if it has an end.
fn cut_offsets(
    chunks: &mut Chunks,
    start: Place,
    end: Option<Place>,
    file: u64,
) -> Result<Option<(u64, u64)>, Malformed> {
    let out = |which: &str| Malformed::new(format!("{which} time is out mp4 stco chunks"));
    let count = chunks.offsets.len();
    let index = |chunk: u64| usize::try_from(chunk).ok().filter(|&chunk| chunk <= count);
    let first = index(start.chunk).filter(|&first| first < count).ok_or_else(|| out("start"))?;
    let start = chunks.inside(first, start.bytes, file)?;
    chunks.offsets.drain(..first);
    chunks.offsets[0] = start;
    let Some(end) = end else { return Ok(None) };
    let last = index(end.chunk).and_then(|end| end.checked_sub(first)).ok_or_else(|| out("end"))?;
    chunks.offsets.truncate(last);
    match last.checked_sub(1) {
        Some(last) => Ok(Some((start, chunks.inside(last, end.bytes, file)?))),
        None => Ok(Some((file, 0))),
    }
}
