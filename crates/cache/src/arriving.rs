//! An object whose content still comes: one request writes it, others read what is there, each as fast as it can.

use crate::head::Head;
use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An object whose content still comes.
#[derive(Debug)]
pub struct Arriving {
    /// What is known of it, without the length of the content.
    pub head: Head,
    /// How long the content will be, in bytes, if the other server says so.
    pub announced: Option<u64>,
    file: Arc<File>,
    start: u64,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// How much of the content is in the file, in bytes.
    length: u64,
    /// Whether all of it came, once the writer has ended.
    is_whole: Option<bool>,
    /// The readers that have read all of it.
    waiting: HashMap<u64, Waker>,
}

/// What a reader finds.
#[derive(Debug)]
pub enum Arrived {
    /// A part of the file, which starts at an offset and has a length, in bytes.
    Part(Arc<File>, u64, u64),
    /// All was read.
    End,
    /// The rest does not come.
    Cut,
}

/// A request that reads the content as it comes.
#[derive(Debug)]
pub struct Follower {
    arriving: Arc<Arriving>,
    number: u64,
    /// What comes next, and where to stop.
    position: u64,
    end: u64,
}

impl Arriving {
    pub(crate) fn new(head: Head, announced: Option<u64>, (file, start): (Arc<File>, u64)) -> Arriving {
        Arriving { head, announced, file, start, progress: Mutex::default() }
    }

    /// Notes that so much of the content is in the file.
    pub(crate) fn advance(&self, length: u64) {
        self.change(|progress| progress.length = length);
    }

    /// Notes that no more content comes.
    pub(crate) fn end(&self, is_whole: bool) {
        self.change(|progress| progress.is_whole = Some(is_whole));
    }

    /// Whether the rest of the content does not come.
    pub(crate) fn is_cut(&self) -> bool {
        self.lock().is_whole == Some(false)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.lock();
        change(&mut progress);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_values().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Reads from the start.
    pub fn new(arriving: &Arc<Arriving>) -> Follower {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Follower { arriving: Arc::clone(arriving), number, position: 0, end: u64::MAX }
    }

    /// Reads only from one byte to before another one.
    pub fn seek(&mut self, start: u64, end: u64) {
        (self.position, self.end) = (start, end);
    }

    /// What comes next; the task is woken when more is there.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arrived> {
        if self.position >= self.end {
            return Poll::Ready(Arrived::End);
        }
        let Arriving { file, start, .. } = &*self.arriving;
        let mut progress = self.arriving.lock();
        let end = progress.length.min(self.end);
        if end > self.position {
            let (offset, length) = (start + self.position, end - self.position);
            self.position = end;
            return Poll::Ready(Arrived::Part(Arc::clone(file), offset, length));
        }
        match progress.is_whole {
            Some(true) => Poll::Ready(Arrived::End),
            Some(false) => Poll::Ready(Arrived::Cut),
            None => {
                progress.waiting.insert(self.number, cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.arriving.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrived, Follower};
    use crate::{Freshness, Head, Key, Levels, Writer, Zone};
    use http::{Fields, Status};
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn writer(zone: &Arc<Zone>) -> Writer {
        let head = Head {
            freshness: Freshness::default(),
            date: 1,
            length: 0,
            checksum: 0,
            key: b"a".as_slice().into(),
            variant: None,
            status: Status::OK,
            reason: Box::default(),
            fields: Fields::new(),
        };
        Writer::new(zone, Key::of(b"a"), head).unwrap()
    }

    /// What a follower reads; `None` where it waits.
    fn next(follower: &mut Follower) -> Option<Result<String, bool>> {
        match follower.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(Arrived::End) => Some(Err(true)),
            Poll::Ready(Arrived::Cut) => Some(Err(false)),
            Poll::Ready(Arrived::Part(file, offset, length)) => {
                let mut bytes = vec![0; usize::try_from(length).unwrap()];
                file.read_exact_at(&mut bytes, offset).unwrap();
                Some(Ok(String::from_utf8(bytes).unwrap()))
            }
        }
    }

    #[test]
    fn each_reader_reads_at_its_own_pace() {
        let directory = tempfile::tempdir().unwrap();
        let zone = Arc::new(Zone::new(directory.path(), Levels::default(), 10, 0));
        let key = Key::of(b"a");
        let fill = zone.fill(&key, Duration::from_secs(5), Instant::now()).unwrap();
        assert!(zone.arriving(&key).is_none());
        let waits = || zone.poll_filled(&key, &mut Context::from_waker(Waker::noop())).is_pending();
        assert!(waits());
        let mut writer = writer(&zone);
        writer.share(&fill, Some(10));
        assert!(!waits(), "a request that waited reads along");
        let arriving = zone.arriving(&key).unwrap();
        let (mut fast, mut slow, mut part) =
            (Follower::new(&arriving), Follower::new(&arriving), Follower::new(&arriving));
        part.seek(4, 7);
        assert_eq!(next(&mut fast), None);
        writer.append(b"hello").unwrap();
        assert_eq!((next(&mut fast), next(&mut fast)), (Some(Ok("hello".into())), None));
        assert_eq!((next(&mut part), next(&mut part)), (Some(Ok("o".into())), None));
        writer.append(b"world").unwrap();
        assert_eq!(next(&mut fast), Some(Ok("world".into())));
        assert_eq!(next(&mut fast), None, "the file has not its name yet");
        assert_eq!((next(&mut part), next(&mut part)), (Some(Ok("wo".into())), Some(Err(true))));
        writer.finish(60, 1).unwrap();
        drop(fill);
        assert_eq!(next(&mut fast), Some(Err(true)));
        assert_eq!((next(&mut slow), next(&mut slow)), (Some(Ok("helloworld".into())), Some(Err(true))));
        assert!(zone.arriving(&key).is_none());
    }

    #[test]
    fn a_writer_that_gives_up_cuts_its_readers_off() {
        let directory = tempfile::tempdir().unwrap();
        let zone = Arc::new(Zone::new(directory.path(), Levels::default(), 10, 0));
        let key = Key::of(b"a");
        let fill = zone.fill(&key, Duration::from_secs(5), Instant::now()).unwrap();
        let mut writer = writer(&zone);
        writer.share(&fill, None);
        let mut follower = Follower::new(&zone.arriving(&key).unwrap());
        writer.append(b"hel").unwrap();
        drop(writer);
        assert_eq!((next(&mut follower), next(&mut follower)), (Some(Ok("hel".into())), Some(Err(false))));
        assert!(zone.arriving(&key).is_none(), "nobody joins a content that is cut off");
    }
}
