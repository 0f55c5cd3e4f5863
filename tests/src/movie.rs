//! MP4 files (ISO/IEC 14496-12) as the tests need them: any tables, in any order.

/// A movie.
#[derive(Clone, Debug)]
pub struct Movie {
    /// Units of a second in the movie's header.
    pub timescale: u32,
    /// The tracks.
    pub tracks: Vec<Track>,
    /// Whether the head comes before the data.
    pub starts_with_head: bool,
    /// Whether numbers have 64 bits where they may.
    pub is_wide: bool,
    /// Whether there are boxes that nothing needs.
    pub has_others: bool,
}

/// A track. All samples have content that tells which one it is.
#[derive(Clone, Debug)]
pub struct Track {
    /// Units of a second in the tables.
    pub timescale: u32,
    /// Runs of samples: how many, and how long each is shown.
    pub times: Vec<(u32, u32)>,
    /// The numbers of the key frames, from 1 on; no table if all are.
    pub key_frames: Option<Vec<u32>>,
    /// Runs of samples: how many, and how much later they are shown.
    pub offsets: Option<Vec<(u32, u32)>>,
    /// Runs of chunks: how many, and how many samples each has.
    pub chunks: Vec<(u32, u32)>,
    /// The sizes of the samples, in bytes, which are repeated.
    pub sizes: Vec<u32>,
    /// Whether this is a picture, and not a sound.
    pub is_picture: bool,
}

impl Track {
    /// How many samples there are.
    pub fn samples(&self) -> u32 {
        self.times.iter().map(|run| run.0).sum()
    }

    fn size(&self, sample: u32) -> u32 {
        self.sizes[sample as usize % self.sizes.len()]
    }

    fn duration(&self) -> u64 {
        self.times.iter().map(|&(count, duration)| u64::from(count) * u64::from(duration)).sum()
    }

    /// How many samples each chunk has.
    fn chunk_lengths(&self) -> Vec<u32> {
        let runs = self.chunks.iter();
        runs.flat_map(|&(count, samples)| std::iter::repeat_n(samples, count as usize)).collect()
    }
}

impl Movie {
    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let kind = boxed(b"ftyp", b"isom\0\0\x02\0isomiso2mp41");
        let free = if self.has_others { boxed(b"free", b"nothing") } else { Vec::new() };
        let data_header = if self.is_wide { 16 } else { 8 };
        // The head has the same length whatever the offsets are.
        let head = self.head(0).0;
        let before =
            kind.len() + free.len() + data_header + if self.starts_with_head { head.len() } else { 0 };
        let (head, content) = self.head(before as u64);
        let data = match self.is_wide {
            true => {
                let length = (content.len() as u64 + 16).to_be_bytes();
                [&[0, 0, 0, 1][..], b"mdat", &length, &content].concat()
            }
            false => boxed(b"mdat", &content),
        };
        let (first, second) = if self.starts_with_head { (head, data) } else { (data, head) };
        [kind, free, first, second].concat()
    }

    /// How long a track is, in units of the movie.
    fn duration(&self, track: &Track) -> u64 {
        track.duration() * u64::from(self.timescale) / u64::from(track.timescale)
    }

    /// The head of a movie whose data begins there, and the data.
    fn head(&self, data_start: u64) -> (Vec<u8>, Vec<u8>) {
        let mut data = Vec::new();
        let duration = self.tracks.iter().map(|track| self.duration(track)).max().unwrap_or(0);
        let mut content = boxed(b"mvhd", &self.timed(Some(self.timescale), duration, [80, 80]));
        if self.has_others {
            content.extend(boxed(b"udta", b"\0\0\0\x0cname\0\0\0\0"));
        }
        for (number, track) in self.tracks.iter().enumerate() {
            content.extend(self.track(track, number, data_start, &mut data));
        }
        (boxed(b"moov", &content), data)
    }

    /// The content of a box with a duration: version, times, time scale or number, duration, and zeros.
    fn timed(&self, timescale: Option<u32>, duration: u64, rest: [usize; 2]) -> Vec<u8> {
        let mut content = vec![u8::from(self.is_wide), 0, 0, 0];
        content.extend(vec![0; if self.is_wide { 16 } else { 8 }]);
        content.extend(timescale.unwrap_or(1).to_be_bytes());
        if timescale.is_none() {
            content.extend([0; 4]);
        }
        match self.is_wide {
            true => content.extend(duration.to_be_bytes()),
            false => content.extend(&duration.to_be_bytes()[4..]),
        }
        content.extend(vec![0; rest[usize::from(self.is_wide)]]);
        content
    }

    fn track(&self, track: &Track, number: usize, data_start: u64, data: &mut Vec<u8>) -> Vec<u8> {
        let header = boxed(b"tkhd", &self.timed(None, self.duration(track), [60, 60]));
        let media = boxed(b"mdhd", &self.timed(Some(track.timescale), track.duration(), [4, 4]));
        let handler = boxed(b"hdlr", b"\0\0\0\0\0\0\0\0vide\0\0\0\0\0\0\0\0\0\0\0\0x\0");
        let medium = match track.is_picture {
            true => boxed(b"vmhd", &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            false => boxed(b"smhd", &[0; 8]),
        };
        let info = boxed(b"dinf", &boxed(b"dref", b"\0\0\0\0\0\0\0\0"));
        let other = if self.has_others { boxed(b"sbgp", b"\0\0\0\0roll\0\0\0\0") } else { Vec::new() };
        let table = boxed(b"stbl", &[self.table(track, number, data_start, data), other.clone()].concat());
        let information = boxed(b"minf", &[medium, other, info, table].concat());
        boxed(b"trak", &[header, boxed(b"mdia", &[media, handler, information].concat())].concat())
    }

    fn table(&self, track: &Track, number: usize, data_start: u64, data: &mut Vec<u8>) -> Vec<u8> {
        let mut table = boxed(b"stsd", b"\0\0\0\0\0\0\0\x01\0\0\0\x10avc1\0\0\0\0\0\0\0\x01");
        table.extend(rows(b"stts", &track.times.iter().map(|run| [run.0, run.1]).collect::<Vec<_>>()));
        if let Some(frames) = &track.key_frames {
            table.extend(rows(b"stss", &frames.iter().map(|frame| [*frame]).collect::<Vec<_>>()));
        }
        if let Some(offsets) = &track.offsets {
            table.extend(rows(b"ctts", &offsets.iter().map(|run| [run.0, run.1]).collect::<Vec<_>>()));
        }
        let mut first = 1;
        let runs = track.chunks.iter().map(|&(count, samples)| {
            first += count;
            [first - count, samples, 1]
        });
        table.extend(rows(b"stsc", &runs.collect::<Vec<_>>()));
        let sizes: Vec<u8> =
            (0..track.samples()).flat_map(|sample| track.size(sample).to_be_bytes()).collect();
        let samples = track.samples().to_be_bytes();
        table.extend(boxed(b"stsz", &[&[0; 8][..], &samples, &sizes].concat()));
        let mut sample = 0;
        let mut offsets = Vec::new();
        for length in track.chunk_lengths() {
            offsets.push(data_start + data.len() as u64);
            for _ in 0..length {
                let text = format!("[{number}.{sample}]");
                data.extend(text.bytes().cycle().take(track.size(sample) as usize));
                sample += 1;
            }
        }
        let length = count(offsets.len()).to_be_bytes();
        let skipped = if self.is_wide { 0 } else { 4 };
        let offsets: Vec<u8> =
            offsets.iter().flat_map(|offset| offset.to_be_bytes()[skipped..].to_vec()).collect();
        let name = if self.is_wide { b"co64" } else { b"stco" };
        table.extend(boxed(name, &[&[0; 4][..], &length, &offsets].concat()));
        table
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("a short table")
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("a place in memory")
}

/// A box.
pub fn boxed(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(count(content.len()) + 8).to_be_bytes()[..], name, content].concat()
}

fn rows<const N: usize>(name: &[u8; 4], rows: &[[u32; N]]) -> Vec<u8> {
    let numbers: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_be_bytes()).collect();
    boxed(name, &[&[0; 4][..], &count(rows.len()).to_be_bytes(), &numbers].concat())
}

/// Reads a movie as a player does: for each track its samples, with when they are shown, whether they are key frames, and their
/// content.
///
/// # Panics
/// The file is not a movie, or a table leads to a place outside its data.
pub fn play(file: &[u8]) -> Vec<Vec<Sample>> {
    let data = find(file, b"mdat").expect("data");
    let data = (data.as_ptr() as usize - file.as_ptr() as usize) as u64;
    let data = data..data + find(file, b"mdat").expect("data").len() as u64;
    let head = find(file, b"moov").expect("a head");
    let tracks = boxes(head).into_iter().filter(|(name, _)| *name == b"trak");
    tracks.map(|(_, track)| samples(track, file, data.clone())).collect()
}

/// A sample of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How long it is shown.
    pub duration: u32,
    /// How much later than its time it is shown.
    pub offset: u32,
    /// Whether it can be shown without others.
    pub is_key_frame: bool,
    /// Its bytes.
    pub content: Vec<u8>,
}

fn boxes(mut content: &[u8]) -> Vec<(&[u8; 4], &[u8])> {
    let mut found = Vec::new();
    while !content.is_empty() {
        let number = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().unwrap()) as usize;
        let (header, length) = if number(0) == 1 { (16, number(12)) } else { (8, number(0)) };
        found.push((content[4..8].try_into().unwrap(), &content[header..length]));
        content = &content[length..];
    }
    found
}

fn find<'a>(content: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(content).into_iter().find(|(found, _)| *found == name).map(|(_, content)| content)
}

fn numbers(content: &[u8]) -> Vec<u32> {
    content.chunks_exact(4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap())).collect()
}

/// The values of the samples that runs say.
fn unrolled(table: &[u8]) -> Vec<u32> {
    let runs = numbers(&table[8..]);
    assert_eq!(runs.len(), 2 * numbers(table)[1] as usize);
    runs.chunks_exact(2).flat_map(|run| std::iter::repeat_n(run[1], run[0] as usize)).collect()
}

fn samples(track: &[u8], file: &[u8], data: std::ops::Range<u64>) -> Vec<Sample> {
    let table = [*b"mdia", *b"minf", *b"stbl"].iter().try_fold(track, |content, name| find(content, name));
    let table = table.expect("tables");
    let of = |name: &[u8; 4]| find(table, name);
    let durations = unrolled(of(b"stts").expect("times"));
    let offsets = of(b"ctts").map(unrolled);
    let key_frames = of(b"stss").map(|table| numbers(&table[8..]));
    let sizes = numbers(&of(b"stsz").expect("sizes")[12..]);
    assert_eq!(sizes.len(), durations.len(), "each sample has a time and a size");
    let chunks: Vec<u64> = match (of(b"stco"), of(b"co64")) {
        (Some(table), _) => numbers(&table[8..]).into_iter().map(u64::from).collect(),
        (None, Some(table)) => {
            let pairs = numbers(&table[8..]);
            pairs.chunks_exact(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect()
        }
        (None, None) => panic!("no chunks"),
    };
    let runs = numbers(&of(b"stsc").expect("runs of chunks")[8..]);
    let runs: Vec<&[u32]> = runs.chunks_exact(3).collect();
    assert!(runs.windows(2).all(|pair| pair[0][0] < pair[1][0]), "runs are ordered: {runs:?}");
    let mut found = Vec::new();
    for (number, &chunk) in (1u32..).zip(&chunks) {
        let run = runs.iter().rev().find(|run| run[0] <= number).expect("a run of the chunk");
        let mut at = chunk;
        for _ in 0..run[1] {
            let index = found.len();
            let end = at + u64::from(sizes[index]);
            assert!(at >= data.start && end <= data.end, "sample {index} is outside the data");
            found.push(Sample {
                duration: durations[index],
                offset: offsets.as_ref().map_or(0, |offsets| offsets[index]),
                is_key_frame: key_frames.as_ref().is_none_or(|frames| frames.contains(&(count(index) + 1))),
                content: file[place(at)..place(end)].to_vec(),
            });
            at = end;
        }
    }
    assert_eq!(found.len(), sizes.len(), "each sample is in a chunk");
    found
}
