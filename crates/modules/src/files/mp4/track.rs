//! A track of a movie, and the part of it that is wanted.

use super::boxes::{self, Boxes};
use super::durations::{self, Timed};
use super::samples::{Chunks, Sizes, Table, Tables};
use super::{Malformed, Wanted};
use std::cmp::Ordering;

/// A track.
#[derive(Debug)]
pub(super) struct Track<'a> {
    header: Option<Timed>,
    media: Option<Timed>,
    handler: Option<&'a [u8]>,
    /// `vmhd` or `smhd`.
    medium: Option<([u8; 4], &'a [u8])>,
    data_info: Option<&'a [u8]>,
    description: Option<&'a [u8]>,
    tables: Tables<'a>,
    /// How much of the media comes before the start, from the key frame on, in its time scale.
    prefix: u64,
    has: Containers,
}

/// Which containers were there: each may be there once.
#[derive(Debug, Default)]
struct Containers {
    media: bool,
    information: bool,
    table: bool,
}

/// Why the reading of a list of boxes ended.
enum End {
    /// All of it was read.
    Whole,
    /// The track ends before the part that is wanted.
    Over,
}

impl<'a> Track<'a> {
    /// Reads a track; `None` if it ends before the part that is wanted.
    pub(super) fn read(
        content: &'a [u8],
        wanted: &Wanted,
        timescale: u32,
    ) -> Result<Option<Track<'a>>, Malformed> {
        let mut track = Track {
            header: None,
            media: None,
            handler: None,
            medium: None,
            data_info: None,
            description: None,
            tables: Tables::default(),
            prefix: 0,
            has: Containers::default(),
        };
        let mut list = Boxes::new(content);
        while let Some((name, content)) = list.next()? {
            let end = match &name {
                b"tkhd" => {
                    let mut header = Timed::read(content, &durations::TRACK)?;
                    let compared = header.cut(wanted, timescale);
                    once("tkhd", &mut track.header, header)?;
                    end(compared)
                }
                b"mdia" => {
                    first("mdia", &mut track.has.media)?;
                    track.read_media(content, wanted)?
                }
                _ => End::Whole,
            };
            if matches!(end, End::Over) {
                return Ok(None);
            }
        }
        Ok(Some(track))
    }

    fn read_media(&mut self, content: &'a [u8], wanted: &Wanted) -> Result<End, Malformed> {
        let mut list = Boxes::new(content);
        while let Some((name, content)) = list.next()? {
            match &name {
                b"mdhd" => {
                    let mut media = Timed::read(content, &durations::MEDIA)?;
                    if matches!(end(media.cut(wanted, media.timescale)), End::Over) {
                        return Ok(End::Over);
                    }
                    once("mdhd", &mut self.media, media)?;
                }
                b"hdlr" => once("hdlr", &mut self.handler, content)?,
                b"minf" => {
                    first("minf", &mut self.has.information)?;
                    self.read_information(content)?;
                }
                _ => {}
            }
        }
        Ok(End::Whole)
    }

    fn read_information(&mut self, content: &'a [u8]) -> Result<(), Malformed> {
        let mut list = Boxes::new(content);
        while let Some((name, content)) = list.next()? {
            match &name {
                b"vmhd" | b"smhd" => once("vmhd/smhd", &mut self.medium, (name, content))?,
                b"dinf" => once("dinf", &mut self.data_info, content)?,
                b"stbl" => {
                    first("stbl", &mut self.has.table)?;
                    self.read_table(content)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_table(&mut self, content: &'a [u8]) -> Result<(), Malformed> {
        let mut list = Boxes::new(content);
        let tables = &mut self.tables;
        while let Some((name, content)) = list.next()? {
            match &name {
                b"stsd" if content.len() < 16 => return Err(Malformed::new("mp4 stsd atom too small")),
                b"stsd" => once("stsd", &mut self.description, content)?,
                b"stts" => once("stts", &mut tables.times, Table::read("stts", content)?)?,
                b"stss" => once("stss", &mut tables.key_frames, Table::read("stss", content)?)?,
                b"ctts" => once("ctts", &mut tables.offsets, Table::read("ctts", content)?)?,
                b"stsc" => once("stsc", &mut tables.samples, Table::read("stsc", content)?)?,
                b"stsz" => once("stsz", &mut tables.sizes, Sizes::read(content)?)?,
                b"stco" | b"co64" => once("stco/co64", &mut tables.chunks, Chunks::read(&name, content)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Cuts the tables to the part that is wanted. Returns where its data starts and ends in the file.
    pub(super) fn cut(&mut self, wanted: &Wanted, file: u64, data_end: u64) -> Result<(u64, u64), Malformed> {
        let timescale = self.media.as_ref().map_or(0, |media| media.timescale);
        self.prefix = self.tables.cut_times(wanted, timescale)?;
        if let Some(media) = &mut self.media {
            media.duration = media.duration.saturating_add(self.prefix);
        }
        self.tables.cut_samples(file, data_end)
    }

    /// Moves the offsets of all chunks.
    pub(super) fn shift(&mut self, by: u64) {
        self.tables.shift(by);
    }

    /// Appends the box of the track.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Track { header, media, handler, medium, data_info, description, tables, prefix, .. } = self;
        boxes::write(out, b"trak", |out| {
            let duration = header.as_ref().map_or(0, |header| header.duration);
            if let Some(header) = header {
                boxes::write_whole(out, b"tkhd", &header.content())?;
            }
            if *prefix > 0 {
                write_edits(out, duration, *prefix)?;
            }
            boxes::write(out, b"mdia", |out| {
                if let Some(media) = media {
                    boxes::write_whole(out, b"mdhd", &media.content())?;
                }
                write_optional(out, b"hdlr", *handler)?;
                boxes::write(out, b"minf", |out| {
                    if let Some((name, content)) = medium {
                        boxes::write_whole(out, name, content)?;
                    }
                    write_optional(out, b"dinf", *data_info)?;
                    boxes::write(out, b"stbl", |out| {
                        write_optional(out, b"stsd", *description)?;
                        tables.write(out)
                    })
                })
            })
        })
    }
}

/// A list of edits by which the player leaves out what comes before the start.
fn write_edits(out: &mut Vec<u8>, duration: u64, prefix: u64) -> Result<(), Malformed> {
    boxes::write(out, b"edts", |out| {
        boxes::write(out, b"elst", |out| {
            // Version 1, no flags, one edit.
            out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 1]);
            out.extend_from_slice(&duration.to_be_bytes());
            out.extend_from_slice(&prefix.to_be_bytes());
            // The usual speed.
            out.extend_from_slice(&[0, 1, 0, 0]);
            Ok(())
        })
    })
}

fn write_optional(out: &mut Vec<u8>, name: &[u8; 4], content: Option<&[u8]>) -> Result<(), Malformed> {
    content.map_or(Ok(()), |content| boxes::write_whole(out, name, content))
}

/// Whether anything is left of a track whose duration compares so with the start of the part.
fn end(compared: Ordering) -> End {
    if compared == Ordering::Greater { End::Whole } else { End::Over }
}

fn once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match place.replace(value) {
        Some(_) => Err(duplicate(name)),
        None => Ok(()),
    }
}

fn first(name: &str, seen: &mut bool) -> Result<(), Malformed> {
    if std::mem::replace(seen, true) { Err(duplicate(name)) } else { Ok(()) }
}

pub(super) fn duplicate(name: &str) -> Malformed {
    Malformed::new(format!("duplicate mp4 {name} atom"))
}
