//! Files that are not in memory. Other threads read them, so that no connection waits for the disk of another one.

use contract::clock::Time;
use contract::{Ready, read_ready};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

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
pub(super) enum Unknown {
    /// That they are.
    Warm,
    /// That they are not (`aio threads`).
    Cold,
}

/// Reads some of a file from an offset on; 0 at its end.
pub(super) async fn read(
    file: &Arc<File>,
    buffer: &mut [u8],
    offset: u64,
    unknown: Unknown,
) -> io::Result<usize> {
    match read_ready(file, buffer, offset)? {
        Ready::Bytes(count) => return Ok(count),
        Ready::Unknown if unknown == Unknown::Warm => return file.read_at(buffer, offset),
        Ready::Unknown | Ready::Waits => {}
    }
    let (file, length) = (Arc::clone(file), buffer.len());
    let read = elsewhere(move || {
        let mut bytes = vec![0; length];
        let count = file.read_at(&mut bytes, offset)?;
        bytes.truncate(count);
        Ok(bytes)
    });
    let bytes = read.await?;
    buffer[..bytes.len()].copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// Has a part of a file in memory, before the kernel sends it and would wait for it. Files are read from the front, so
/// where the last byte of a part is there, all of it is taken to be there.
pub(super) async fn warm(file: &Arc<File>, part: Range<u64>, unknown: Unknown) -> io::Result<()> {
    let Some(last) = part.end.checked_sub(1).filter(|last| *last >= part.start) else { return Ok(()) };
    let now = Time::now().instant;
    if is_remembered(file, &part, now) {
        return Ok(());
    }
    match read_ready(file, &mut [0], last)? {
        Ready::Bytes(_) => {
            remember(file, part, now);
            return Ok(());
        }
        Ready::Unknown if unknown == Unknown::Warm => return Ok(()),
        Ready::Unknown | Ready::Waits => {}
    }
    let file = Arc::clone(file);
    elsewhere(move || {
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
    })
    .await
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

async fn elsewhere<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(act).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::{Unknown, read, warm};
    use contract::{Ready, read_ready};
    use rustix::fs::{Advice, fadvise, fsync};
    use std::fs::File;
    use std::io::Write;
    use std::sync::Arc;

    const LENGTH: usize = 300_000;

    /// A file that the kernel was asked to forget.
    fn forgotten() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; LENGTH]).unwrap();
        fsync(&file).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        Arc::new(file)
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
                    warm(&file, 1000..LENGTH as u64, unknown).await.unwrap();
                    let ready = read_ready(&file, &mut [0; 4096], 100_000).unwrap();
                    is_there |= matches!(ready, Ready::Bytes(4096) | Ready::Unknown);
                }
                assert!(is_there, "{unknown:?}");
                let file = forgotten();
                warm(&file, 5..5, unknown).await.unwrap();
                warm(&file, 0..2 * LENGTH as u64, unknown).await.unwrap();
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
                    let count = read(&file, &mut buffer, offset, unknown).await.unwrap();
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
