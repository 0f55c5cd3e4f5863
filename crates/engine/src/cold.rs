//! Files that are not in memory. Other threads read them, so that no connection waits for the disk of another one.

use journal::clock::Time;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use wire::{Job, Ready, read_ready};

/// How much is read at once where only the reading matters.
const SCRATCH: usize = 64 * 1024;

/// How many files are remembered to be in memory.
const REMEMBERED: usize = 16;

/// For how long that is taken to be so. What was used last leaves memory last.
const STAYS_WARM: Duration = Duration::from_secs(1);

thread_local! {
    static WARM: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

/// A part of a file that was in memory when it was looked for.
struct Seen {
    /// It keeps the address from being another file's.
    file: Weak<File>,
    part: Range<u64>,
    at: Instant,
}

/// What is taken of files whose file system does not tell whether they are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// That they are.
    Warm,
    /// That they are not (`aio threads`).
    Cold,
}

/// What reading came to.
pub enum Read {
    /// So many bytes were there; 0 at the end of the file.
    Bytes(usize),
    /// Another thread reads.
    Elsewhere(Job<Vec<u8>>),
}

/// Reads some of a file from an offset on.
pub fn read(file: &Arc<File>, buffer: &mut [u8], offset: u64, unknown: Unknown) -> io::Result<Read> {
    match read_ready(file, buffer, offset)? {
        Ready::Bytes(count) => return Ok(Read::Bytes(count)),
        Ready::Unknown if unknown == Unknown::Warm => return file.read_at(buffer, offset).map(Read::Bytes),
        Ready::Unknown | Ready::Waits => {}
    }
    let (file, length) = (Arc::clone(file), buffer.len());
    Ok(Read::Elsewhere(Job::start(move || {
        let mut bytes = vec![0; length];
        let count = file.read_at(&mut bytes, offset)?;
        bytes.truncate(count);
        Ok(bytes)
    })))
}

/// Has a part of a file in memory, before the kernel sends it and would wait for it. Files are read from the front, so
/// where the last byte of a part is there, all of it is taken to be there; else another thread reads.
pub fn warm(file: &Arc<File>, part: Range<u64>, unknown: Unknown) -> io::Result<Option<Job<()>>> {
    let Some(last) = part.end.checked_sub(1).filter(|last| *last >= part.start) else { return Ok(None) };
    let now = Time::now().instant;
    if is_remembered(file, &part, now) {
        return Ok(None);
    }
    match read_ready(file, &mut [0], last)? {
        Ready::Bytes(_) => {
            remember(file, part, now);
            return Ok(None);
        }
        Ready::Unknown if unknown == Unknown::Warm => return Ok(None),
        Ready::Unknown | Ready::Waits => {}
    }
    let file = Arc::clone(file);
    Ok(Some(Job::start(move || {
        let mut scratch = vec![0; SCRATCH];
        let mut offset = part.start;
        while offset < part.end {
            let count = file.read_at(&mut scratch, offset)?;
            if count == 0 {
                break;
            }
            offset += count as u64;
        }
        Ok(())
    })))
}

/// Whether a part of a file was in memory just now.
fn is_remembered(file: &Arc<File>, part: &Range<u64>, now: Instant) -> bool {
    WARM.with_borrow(|warm| {
        let of_file = warm.iter().find(|seen| std::ptr::eq(seen.file.as_ptr(), Arc::as_ptr(file)));
        of_file.is_some_and(|seen| {
            let is_fresh = now.saturating_duration_since(seen.at) < STAYS_WARM;
            is_fresh && seen.part.start <= part.start && part.end <= seen.part.end
        })
    })
}

/// Takes note that a part of a file is in memory. What is kept open is worth it: others have this.
fn remember(file: &Arc<File>, part: Range<u64>, now: Instant) {
    if Arc::strong_count(file) == 1 {
        return;
    }
    WARM.with_borrow_mut(|warm| {
        let place = warm.iter().position(|seen| std::ptr::eq(seen.file.as_ptr(), Arc::as_ptr(file)));
        let Some(seen) = place.and_then(|place| warm.get_mut(place)) else {
            if warm.len() == REMEMBERED {
                warm.remove(0);
            }
            warm.push(Seen { file: Arc::downgrade(file), part, at: now });
            return;
        };
        let is_fresh = now.saturating_duration_since(seen.at) < STAYS_WARM;
        if is_fresh && seen.part.start <= part.start && part.start <= seen.part.end {
            // The next part of what was seen before.
            seen.part.end = seen.part.end.max(part.end);
        } else {
            (seen.part, seen.at) = (part, now);
        }
    });
}

/// A part of a file that is read into memory.
pub(crate) struct FileReading {
    file: Arc<File>,
    offset: u64,
    end: u64,
    elsewhere: Option<Job<Vec<u8>>>,
}

impl FileReading {
    pub(crate) fn new(file: Arc<File>, offset: u64, length: u64) -> FileReading {
        FileReading { file, offset, end: offset.saturating_add(length), elsewhere: None }
    }

    /// Appends the part; ready when all of it was read.
    ///
    /// # Errors
    /// The file cannot be read, or became shorter.
    pub(crate) fn poll_append(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while self.offset < self.end {
            if let Some(elsewhere) = &mut self.elsewhere {
                let bytes = ready!(Pin::new(elsewhere).poll(cx))?;
                self.elsewhere = None;
                out.extend_from_slice(&bytes);
                self.moved(bytes.len())?;
                continue;
            }
            let wanted = usize::try_from(self.end - self.offset).unwrap_or(SCRATCH).min(SCRATCH);
            let at = out.len();
            out.resize(at + wanted, 0);
            let read = read(&self.file, &mut out[at..], self.offset, Unknown::Warm);
            let count = if let Ok(Read::Bytes(count)) = read { count } else { 0 };
            out.truncate(at + count);
            match read? {
                Read::Bytes(count) => self.moved(count)?,
                Read::Elsewhere(elsewhere) => self.elsewhere = Some(elsewhere),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn moved(&mut self, count: usize) -> io::Result<()> {
        self.offset += count as u64;
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Read, Unknown, read, warm};
    use rustix::fs::{Advice, fadvise, fsync};
    use std::fs::File;
    use std::io::Write;
    use std::ops::Range;
    use std::sync::Arc;
    use wire::{Ready, read_ready};

    const LENGTH: usize = 300_000;

    /// A file that the kernel was asked to forget.
    fn forgotten() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; LENGTH]).unwrap();
        fsync(&file).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        Arc::new(file)
    }

    async fn warmed(file: &Arc<File>, part: Range<u64>, unknown: Unknown) {
        if let Some(reading) = warm(file, part, unknown).unwrap() {
            reading.await.unwrap();
        }
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
    }

    #[test]
    fn a_part_is_in_memory_afterwards() {
        // The kernel may keep the last page of a file that it was asked to forget, by which all of it is judged.
        const ATTEMPTS: usize = 20;
        run(async {
            for unknown in [Unknown::Warm, Unknown::Cold] {
                let mut is_there = false;
                for _ in 0..ATTEMPTS {
                    let file = forgotten();
                    warmed(&file, 1000..LENGTH as u64, unknown).await;
                    let ready = read_ready(&file, &mut [0; 4096], 100_000).unwrap();
                    is_there |= matches!(ready, Ready::Bytes(4096) | Ready::Unknown);
                }
                assert!(is_there, "{unknown:?}");
                let file = forgotten();
                warmed(&file, 5..5, unknown).await;
                warmed(&file, 0..2 * LENGTH as u64, unknown).await;
            }
        });
    }

    #[test]
    fn reading_brings_the_bytes_wherever_they_are() {
        run(async {
            for unknown in [Unknown::Warm, Unknown::Cold] {
                let file = forgotten();
                let (mut buffer, mut offset) = (vec![0; 70_000], 0);
                loop {
                    let count = match read(&file, &mut buffer, offset, unknown).unwrap() {
                        Read::Bytes(count) => count,
                        Read::Elsewhere(reading) => {
                            let bytes = reading.await.unwrap();
                            buffer[..bytes.len()].copy_from_slice(&bytes);
                            bytes.len()
                        }
                    };
                    assert!(buffer[..count].iter().all(|&byte| byte == b'x'));
                    offset += count as u64;
                    if count == 0 {
                        break;
                    }
                }
                assert_eq!(offset, LENGTH as u64);
            }
        });
    }
}
