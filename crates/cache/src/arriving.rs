//! An object whose content still comes: one request writes it, others read what is there, each as fast as it can.

use crate::head::Head;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An object whose content still comes.
#[derive(Debug)]
pub struct Arriving {
    /// What is known of it, without the length of the content.
    pub head: Head,
    /// How long the content will be, in bytes, if the upstream server says so.
    pub announced: Option<u64>,
    file: Arc<File>,
    start: u64,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// How much of the content is in the file, in bytes.
    length: u64,
    /// What follows, if the file cannot be written any more.
    tail: Option<Tail>,
    /// Whether all of it came, once the writer has ended.
    is_whole: Option<bool>,
    readers: HashMap<u64, Reader>,
}

/// A request that reads.
#[derive(Debug, Default)]
struct Reader {
    /// The next byte that it needs.
    at: u64,
    /// Its task, if it has read all that is there.
    waker: Option<Waker>,
}

/// Content that is in memory until all readers have it.
#[derive(Debug, Default)]
struct Tail {
    /// The parts, with the byte that each starts at.
    parts: VecDeque<(u64, Bytes)>,
    /// Where the next part starts.
    end: u64,
    bytes: usize,
    /// The task that brings more content, if it waits for room.
    waiting: Option<Waker>,
}

/// How many bytes of a content that cannot be written wait for its readers. Then the slowest of them is waited for.
const TAIL_MAX: usize = 256 * 1024;

/// The same for the number of parts.
const TAIL_PARTS_MAX: usize = 256;

/// What a reader finds.
#[derive(Debug)]
pub enum Arrived {
    /// A part of the file, which starts at an offset and has a length, in bytes.
    Part(Arc<File>, u64, u64),
    /// A part that is not in the file.
    Bytes(Bytes),
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

/// The rest of a content whose file cannot be written any more: its readers get it out of memory. It is cut off if this
/// is dropped without [`Rest::finish`].
#[derive(Debug)]
pub struct Rest(Arc<Arriving>);

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

    /// Notes that the file cannot be written any more. None without readers.
    pub(crate) fn rest(self: Arc<Self>) -> Option<Rest> {
        let mut progress = self.lock();
        if progress.readers.is_empty() {
            progress.is_whole = Some(false);
            return None;
        }
        progress.tail = Some(Tail { end: progress.length, ..Tail::default() });
        drop(progress);
        Some(Rest(self))
    }

    /// Whether further requests may read along: all of the content is in the file.
    pub(crate) fn is_open(&self) -> bool {
        let progress = self.lock();
        progress.is_whole != Some(false) && progress.tail.is_none()
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.lock();
        change(&mut progress);
        let waiting: Vec<_> =
            progress.readers.values_mut().filter_map(|reader| reader.waker.take()).collect();
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Forgets what all readers have. Returns the task that may go on.
    fn trim(&mut self) -> Option<Waker> {
        let tail = self.tail.as_mut()?;
        let needed = self.readers.values().map(|reader| reader.at).min().unwrap_or(u64::MAX);
        while let Some((start, part)) = tail.parts.front()
            && start.saturating_add(part.len() as u64) <= needed
        {
            tail.bytes -= part.len();
            tail.parts.pop_front();
        }
        if tail.has_room() { tail.waiting.take() } else { None }
    }
}

impl Tail {
    fn has_room(&self) -> bool {
        self.bytes < TAIL_MAX && self.parts.len() < TAIL_PARTS_MAX
    }

    fn push(&mut self, part: Bytes) {
        let start = self.end;
        self.end = self.end.saturating_add(part.len() as u64);
        self.bytes += part.len();
        self.parts.push_back((start, part));
    }

    /// What there is from a byte to before another one; an error if it is there no more.
    fn part(&self, position: u64, end: u64) -> Result<Option<Bytes>, ()> {
        let at = self.parts.partition_point(|(start, _)| *start <= position);
        let Some((start, part)) = at.checked_sub(1).and_then(|at| self.parts.get(at)) else {
            return if position == self.end { Ok(None) } else { Err(()) };
        };
        let within = |place: u64| usize::try_from(place - start).unwrap_or(usize::MAX).min(part.len());
        let found = part.slice(within(position)..within(end.max(position)));
        Ok(Some(found).filter(|found| !found.is_empty()))
    }
}

impl Rest {
    /// Adds content.
    pub fn push(&self, part: Bytes) {
        let add = |progress: &mut Progress| {
            if let Some(tail) = progress.tail.as_mut().filter(|_| !part.is_empty()) {
                tail.push(part);
            }
            // Without readers nothing stays.
            progress.trim()
        };
        let mut waiting = None;
        self.0.change(|progress| waiting = add(progress));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready when there is room for more content; the task is woken then.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut progress = self.0.lock();
        match progress.tail.as_mut().filter(|tail| !tail.has_room()) {
            Some(tail) => {
                tail.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// How many bytes are in memory.
    pub fn bytes(&self) -> usize {
        self.0.lock().tail.as_ref().map_or(0, |tail| tail.bytes)
    }

    /// Notes that all of the content came.
    pub fn finish(self) {
        self.0.end(true);
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.change(|progress| progress.is_whole = progress.is_whole.or(Some(false)));
    }
}

impl Follower {
    /// Reads from the start.
    pub fn new(arriving: &Arc<Arriving>) -> Follower {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        arriving.lock().readers.insert(number, Reader::default());
        Follower { arriving: Arc::clone(arriving), number, position: 0, end: u64::MAX }
    }

    /// Reads only from one byte to before another one.
    pub fn seek(&mut self, start: u64, end: u64) {
        (self.position, self.end) = (start, end);
        if let Some(reader) = self.arriving.lock().readers.get_mut(&self.number) {
            reader.at = start;
        }
    }

    /// What comes next; the task is woken when more is there.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arrived> {
        let arriving = Arc::clone(&self.arriving);
        let mut progress = arriving.lock();
        let found = self.find(&progress);
        let is_over = matches!(found, Poll::Ready(Arrived::End | Arrived::Cut));
        if let Some(reader) = progress.readers.get_mut(&self.number) {
            reader.at = if is_over || self.position >= self.end { u64::MAX } else { self.position };
            reader.waker = found.is_pending().then(|| cx.waker().clone());
        }
        let waiting = progress.trim();
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
        found
    }

    fn find(&mut self, progress: &Progress) -> Poll<Arrived> {
        if self.position >= self.end {
            return Poll::Ready(Arrived::End);
        }
        let end = progress.length.min(self.end);
        if end > self.position {
            let (offset, length) = (self.arriving.start + self.position, end - self.position);
            self.position = end;
            return Poll::Ready(Arrived::Part(Arc::clone(&self.arriving.file), offset, length));
        }
        match progress.tail.as_ref().map(|tail| tail.part(self.position, self.end)) {
            Some(Ok(Some(part))) => {
                self.position += part.len() as u64;
                return Poll::Ready(Arrived::Bytes(part));
            }
            // A request that came too late, or a range that starts later.
            Some(Err(())) if progress.tail.as_ref().is_some_and(|tail| self.position < tail.end) => {
                return Poll::Ready(Arrived::Cut);
            }
            _ => {}
        }
        match progress.is_whole {
            Some(true) => Poll::Ready(Arrived::End),
            Some(false) => Poll::Ready(Arrived::Cut),
            None => Poll::Pending,
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut progress = self.arriving.lock();
        progress.readers.remove(&self.number);
        let waiting = progress.trim();
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrived, Follower, TAIL_MAX};
    use crate::{Head, Key, Levels, Writer, Zone};
    use http::Fields;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn writer(zone: &Arc<Zone>) -> Writer {
        Writer::new(zone, Key::of(b"a"), Head::plain("a", Fields::new())).unwrap()
    }

    /// What a follower reads; `None` where it waits.
    fn next(follower: &mut Follower) -> Option<Result<String, bool>> {
        match follower.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(Arrived::End) => Some(Err(true)),
            Poll::Ready(Arrived::Cut) => Some(Err(false)),
            Poll::Ready(Arrived::Bytes(bytes)) => Some(Ok(String::from_utf8(bytes.to_vec()).unwrap())),
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
        let fill = zone.try_fill(&key, Duration::from_secs(5), Instant::now()).unwrap();
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
        writer.finish(61).unwrap();
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
        let fill = zone.try_fill(&key, Duration::from_secs(5), Instant::now()).unwrap();
        let mut writer = writer(&zone);
        writer.share(&fill, None);
        let mut follower = Follower::new(&zone.arriving(&key).unwrap());
        writer.append(b"hel").unwrap();
        drop(writer);
        assert_eq!((next(&mut follower), next(&mut follower)), (Some(Ok("hel".into())), Some(Err(false))));
        assert!(zone.arriving(&key).is_none(), "nobody joins a content that is cut off");
    }

    #[test]
    fn readers_get_what_cannot_be_written_out_of_memory() {
        let directory = tempfile::tempdir().unwrap();
        let zone = Arc::new(Zone::new(directory.path(), Levels::default(), 10, 0));
        let key = Key::of(b"a");
        let fill = zone.try_fill(&key, Duration::from_secs(5), Instant::now()).unwrap();
        let mut writer = writer(&zone);
        writer.share(&fill, None);
        let arriving = zone.arriving(&key).unwrap();
        let (mut fast, mut slow, mut part) =
            (Follower::new(&arriving), Follower::new(&arriving), Follower::new(&arriving));
        part.seek(6, 9);
        writer.append(b"file").unwrap();
        let rest = writer.rest().unwrap();
        assert!(zone.arriving(&key).is_none(), "nobody joins");
        let mut late = Follower::new(&arriving);
        let has_room = || rest.poll_room(&mut Context::from_waker(Waker::noop())).is_ready();
        rest.push("memory".into());
        assert_eq!((next(&mut fast), next(&mut fast)), (Some(Ok("file".into())), Some(Ok("memory".into()))));
        assert_eq!(next(&mut fast), None);
        assert_eq!((next(&mut part), next(&mut part)), (Some(Ok("mor".into())), Some(Err(true))));
        let long = "x".repeat(TAIL_MAX);
        rest.push(long.clone().into());
        assert_eq!((next(&mut fast), has_room()), (Some(Ok(long.clone())), false));
        assert_eq!((next(&mut slow), next(&mut slow)), (Some(Ok("file".into())), Some(Ok("memory".into()))));
        assert_eq!((next(&mut slow), has_room()), (Some(Ok(long.clone())), false), "a third one reads");
        assert_eq!(next(&mut late), Some(Ok("file".into())));
        drop(late);
        assert_eq!((has_room(), rest.bytes()), (true, 0));
        let mut later = Follower::new(&arriving);
        assert_eq!((next(&mut later), next(&mut later)), (Some(Ok("file".into())), Some(Err(false))));
        rest.finish();
        assert_eq!((next(&mut fast), next(&mut slow)), (Some(Err(true)), Some(Err(true))));
    }

    #[test]
    fn nothing_stays_in_memory_that_nobody_reads() {
        let directory = tempfile::tempdir().unwrap();
        let zone = Arc::new(Zone::new(directory.path(), Levels::default(), 10, 0));
        let fill = zone.try_fill(&Key::of(b"a"), Duration::from_secs(5), Instant::now()).unwrap();
        let mut first = writer(&zone);
        first.share(&fill, None);
        assert!(first.rest().is_none());
        let mut second = writer(&zone);
        second.share(&fill, None);
        let reader = Follower::new(&zone.arriving(&Key::of(b"a")).unwrap());
        let rest = second.rest().unwrap();
        rest.push("a".into());
        drop(reader);
        assert_eq!(rest.bytes(), 0);
        rest.push("b".into());
        assert_eq!(rest.bytes(), 0);
    }
}
