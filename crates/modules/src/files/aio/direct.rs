//! Reads large files without the kernel's page cache (`O_DIRECT`).

use crate::files::symlinks;
use bytes::Bytes;
use contract::{Body, Exchange, Filter, Outcome, Piece, Pull, Source, Turn, Work};
use journal::Level;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The size of one read.
const CHUNK: u64 = 128 * 1024;

/// An alignment that every disk accepts.
const ALIGNMENT_LEAST: usize = 4096;

const ALIGNMENT_MOST: u64 = 1024 * 1024;

/// Sends files of at least this size without the page cache.
pub(super) struct DirectIo {
    least: u64,
    alignment: usize,
}

impl DirectIo {
    pub(super) fn new(least: u64, alignment: u64) -> DirectIo {
        let alignment = usize::try_from(alignment.min(ALIGNMENT_MOST)).unwrap_or(ALIGNMENT_LEAST);
        DirectIo { least, alignment: alignment.max(ALIGNMENT_LEAST).next_power_of_two() }
    }
}

impl Filter for DirectIo {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_large = exchange.file.is_some_and(|file| file.size() >= self.least);
        if !is_large || exchange.is_head() {
            return body;
        }
        let Some(file) = body.pieces().unwrap_or_default().iter().find_map(|piece| match piece {
            Piece::File { file, .. } => Some(Arc::clone(file)),
            Piece::Bytes(_) => None,
        }) else {
            return body;
        };
        match reopen(&file) {
            Ok(direct) => {
                let pieces = match body {
                    Body::Piece(piece) => VecDeque::from([piece]),
                    Body::Pieces(pieces) => pieces.into(),
                    other => return other,
                };
                Body::Source(Box::new(Direct { direct, pieces, alignment: self.alignment, failed: false }))
            }
            Err(error) => {
                exchange.log(Level::Info, &format!("a file cannot be read directly ({error})"));
                body
            }
        }
    }
}

/// Opens the file again: `O_DIRECT` must not change descriptors that other requests use.
fn reopen(file: &File) -> io::Result<Arc<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(Arc::new(File::from(openat(CWD, symlinks::place(&file), flags, Mode::empty())?)))
}

/// Parts of one file, and bytes between them.
struct Direct {
    direct: Arc<File>,
    pieces: VecDeque<Piece>,
    alignment: usize,
    failed: bool,
}

impl Source for Direct {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        if self.failed {
            return Pull::Failed;
        }
        loop {
            match self.pieces.pop_front() {
                None => return Pull::End,
                Some(Piece::File { length: 0, .. }) => {}
                Some(piece @ Piece::Bytes(_)) => return Pull::Piece(piece),
                Some(Piece::File { file, offset, length }) => {
                    let count = length.min(CHUNK);
                    let rest = Piece::File {
                        file: Arc::clone(&file),
                        offset: offset + count,
                        length: length - count,
                    };
                    self.pieces.push_front(rest);
                    let (direct, alignment) = (Arc::clone(&self.direct), self.alignment);
                    return Pull::Await(Work::Job(Box::new(move || {
                        let read = read(&direct, (offset, count), alignment);
                        // Some disks need a larger alignment than they report.
                        let read = read.or_else(|_| read_through(&file, (offset, count)));
                        Box::new(read)
                    })));
                }
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if let Outcome::Job(result) = outcome
            && let Ok(read) = result.downcast::<io::Result<Bytes>>()
            && let Ok(bytes) = *read
        {
            self.pieces.push_front(Piece::Bytes(bytes));
        } else {
            self.failed = true;
        }
    }
}

/// Reads a part of a file. Offset, length and memory are aligned, as `O_DIRECT` requires.
fn read(file: &File, (offset, length): (u64, u64), alignment: usize) -> io::Result<Bytes> {
    let unit = alignment as u64;
    let start = offset - offset % unit;
    let wanted = usize::try_from(offset - start + length).map_err(io::Error::other)?;
    let whole = wanted.next_multiple_of(alignment);
    let mut bytes = vec![0; whole + alignment];
    let shift = bytes.as_ptr().align_offset(alignment).min(alignment);
    let mut count = 0;
    while count < wanted {
        let got = file.read_at(&mut bytes[shift + count..shift + whole], start + count as u64)?;
        count += got;
        // A read that is not a multiple of the alignment means the end of the file.
        if got == 0 || count % alignment != 0 {
            break;
        }
    }
    if count < wanted {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let first = shift + usize::try_from(offset - start).unwrap_or(0);
    Ok(Bytes::from(bytes).slice(first..shift + wanted))
}

/// Reads the part through the page cache.
fn read_through(file: &File, (offset, length): (u64, u64)) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::{Direct, DirectIo, read};
    use crate::testing::{Site, pull};
    use contract::{Body, Outcome, Phase, Piece, Pull, Source, Step, Work};

    fn content() -> String {
        (0..200_000).map(|number| format!("{number} ")).collect()
    }

    fn pull_all(mut source: Box<dyn Source>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match pull(&mut *source) {
                Pull::Piece(Piece::Bytes(bytes)) => out.extend_from_slice(&bytes),
                Pull::Piece(Piece::File { .. }) => panic!("a file"),
                Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                Pull::Await(_) | Pull::Pending { .. } => panic!("other work"),
                Pull::End => return Some(out),
                Pull::Failed => return None,
            }
        }
    }

    /// What is sent of a file, with this field in the request.
    fn sent(text: &str, range: Option<&str>) -> Vec<u8> {
        let site = Site::location(text);
        site.file("a", &content());
        let mut exchange = site.get("/a");
        if let Some(range) = range {
            exchange.request.head.fields.push(b"Range", range.as_bytes()).unwrap();
        }
        let Step::Respond(mut body) = site.run(Phase::Content, &mut exchange) else { panic!("no file") };
        for filter in exchange.scope.clone().filters() {
            body = filter.apply(&mut exchange, body);
        }
        match body {
            Body::Source(source) => pull_all(source).unwrap(),
            // Where the file system cannot do it.
            Body::Piece(piece) => crate::testing::body_text(&Body::Piece(piece)).into_bytes(),
            Body::Pieces(pieces) => crate::testing::body_text(&Body::Pieces(pieces)).into_bytes(),
            _ => panic!("no content"),
        }
    }

    #[test]
    fn all_of_it_and_parts_of_it() {
        let content = content();
        assert_eq!(sent("directio 100k;", None), content.as_bytes());
        assert_eq!(
            sent("directio 100k;", Some("bytes=100001-900002")),
            &content.as_bytes()[100_001..900_003]
        );
        assert_eq!(sent("directio 100k;", Some("bytes=-3")), &content.as_bytes()[content.len() - 3..]);
        let several = sent("directio 100k; directio_alignment 5000;", Some("bytes=0-0,600000-600003"));
        let several = String::from_utf8(several).unwrap();
        assert!(several.contains(&format!("\r\n\r\n{}\r\n", &content[600_000..600_004])), "{several}");
    }

    #[test]
    fn a_file_that_became_shorter_fails() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "short").unwrap();
        assert_eq!(&read(file.as_file(), (1, 3), 4096).unwrap()[..], b"hor");
        assert!(read(file.as_file(), (1, 5), 4096).is_err());
        let direct = std::sync::Arc::new(file.reopen().unwrap());
        let piece = Piece::File { file: std::sync::Arc::clone(&direct), offset: 0, length: 6 };
        let source = Direct { direct, pieces: [piece].into(), alignment: 4096, failed: false };
        assert_eq!(pull_all(Box::new(source)), None);
    }

    #[test]
    fn alignments_are_powers_of_two() {
        let alignment = |given| DirectIo::new(0, given).alignment;
        assert_eq!([0, 512, 4097, u64::MAX].map(alignment), [4096, 4096, 8192, 1024 * 1024]);
    }
}
