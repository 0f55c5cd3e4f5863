//! Boxes with a duration: `mvhd`, `tkhd` and `mdhd`.

use super::boxes::{number32, number64};
use super::{Malformed, Wanted};
use std::cmp::Ordering;

/// Where the numbers of such a box are in its content, in bytes, for each width of its numbers.
pub(super) struct Layout {
    name: &'static str,
    /// Where the time scale is; a track header has none.
    timescale: [Option<usize>; 2],
    duration: [usize; 2],
    /// How long the content has to be.
    least: [usize; 2],
}

pub(super) const MOVIE: Layout =
    Layout { name: "mvhd", timescale: [Some(12), Some(20)], duration: [16, 24], least: [100, 112] };
pub(super) const TRACK: Layout =
    Layout { name: "tkhd", timescale: [None, None], duration: [20, 28], least: [84, 96] };
pub(super) const MEDIA: Layout =
    Layout { name: "mdhd", timescale: [Some(12), Some(20)], duration: [16, 24], least: [24, 36] };

/// A box with a duration that can be changed.
#[derive(Debug)]
pub(super) struct Timed {
    content: Vec<u8>,
    is_wide: bool,
    at: usize,
    pub(super) timescale: u32,
    pub(super) duration: u64,
}

impl Timed {
    pub(super) fn read(content: &[u8], layout: &Layout) -> Result<Timed, Malformed> {
        let too_small = || Malformed::new(format!("mp4 {} atom too small", layout.name));
        // Version 1 has numbers of 64 bits.
        let is_wide = *content.first().ok_or_else(too_small)? != 0;
        let version = usize::from(is_wide);
        if content.len() < layout.least[0].max(layout.least[version]) {
            return Err(too_small());
        }
        let at = layout.duration[version];
        let duration = if is_wide { number64(content, at) } else { number32(content, at).map(u64::from) };
        let timescale = layout.timescale[version].and_then(|at| number32(content, at)).unwrap_or(0);
        let duration = duration.ok_or_else(too_small)?;
        Ok(Timed { content: content.to_vec(), is_wide, at, timescale, duration })
    }

    /// Takes the part that is wanted, in this time scale. Tells how the duration compares with the start of the part.
    pub(super) fn cut(&mut self, wanted: &Wanted, timescale: u32) -> Ordering {
        let start = wanted.start_in(timescale);
        let compared = self.duration.cmp(&start);
        self.duration = self.duration.saturating_sub(start);
        if let Some(length) = wanted.length_in(timescale) {
            self.duration = self.duration.min(length);
        }
        compared
    }

    /// The content with the duration as it is by now.
    pub(super) fn content(&self) -> Vec<u8> {
        let mut content = self.content.clone();
        let bytes = self.duration.to_be_bytes();
        // A duration of 32 bits keeps its low half, as in nginx.
        let bytes = if self.is_wide { &bytes[..] } else { &bytes[4..] };
        if let Some(place) = content.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        content
    }
}
