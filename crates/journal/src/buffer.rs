//! Buffers of log lines.
//!
//! Each thread has a buffer, so that threads do not wait for each other. A full buffer is swapped with an empty one;
//! another thread compresses and writes it. If that thread lags behind, the logging thread writes the buffer itself. So a
//! thread never has more than two buffers.

use super::{LogFile, thread};
use crate::clock::Time;
use crate::next_write::NextWrite;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How many threads have separate buffers. Further threads share them.
const SLOTS: usize = 32;

/// The interval between the moments at which due buffers are written.
const GRID: Duration = Duration::from_millis(50);

/// The settings of a buffer.
#[derive(Clone, Debug)]
pub struct Buffering {
    /// The size of the buffer in bytes.
    pub size: usize,
    /// How long the first line may wait; `None` waits until the buffer is full.
    pub flush: Option<Duration>,
    /// How the buffer is compressed before it is written.
    pub gzip: Option<Gzip>,
}

/// A compressor of whole buffers.
#[derive(Clone, Copy, Debug)]
pub struct Gzip {
    /// From 1 to 9.
    pub level: u32,
    /// Compresses bytes to a form that can be concatenated in one file.
    pub compress: fn(&[u8], u32) -> Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Buffer {
    settings: Buffering,
    /// One for each thread that logged something.
    slots: [OnceLock<Box<Slot>>; SLOTS],
    /// When the first slot is due.
    due: Mutex<Option<Instant>>,
    next_write: Arc<NextWrite>,
}

/// The lines of one thread, aligned so that threads do not write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    lines: Mutex<Lines>,
    /// Held while lines are written, so that they keep their order. Lock it while `lines` is locked.
    output: Mutex<()>,
}

#[derive(Debug, Default)]
struct Lines {
    filling: Vec<u8>,
    /// When `filling` is due.
    due: Option<Instant>,
    full: Vec<u8>,
}

impl Buffer {
    pub(super) fn new(settings: Buffering, next_write: Arc<NextWrite>) -> Buffer {
        Buffer { settings, slots: [const { OnceLock::new() }; SLOTS], due: Mutex::default(), next_write }
    }

    /// Whether these are its settings.
    pub(super) fn has(&self, other: &Buffering) -> bool {
        let own = &self.settings;
        let level = |settings: &Buffering| settings.gzip.map(|gzip| gzip.level);
        (own.size, own.flush, level(own)) == (other.size, other.flush, level(other))
    }

    /// Buffers lines. Writes them only if both buffers of this thread are full.
    pub(super) fn append(&self, file: &LogFile, line: &[u8]) -> Option<String> {
        let slot = self.slots[thread() as usize % SLOTS].get_or_init(Box::default);
        let mut lines = lock(&slot.lines);
        if lines.filling.len() + line.len() <= self.settings.size {
            self.add(&mut lines, line);
            return None;
        }
        if lines.full.is_empty() && line.len() <= self.settings.size {
            lines.swap();
            self.schedule(Time::now().instant);
            self.add(&mut lines, line);
            return None;
        }
        let _output = lock(&slot.output);
        let complaint = self.put(file, &lines.full);
        lines.swap();
        if line.len() <= self.settings.size {
            self.schedule(Time::now().instant);
            self.add(&mut lines, line);
            return complaint;
        }
        let complaint = complaint.or(self.put(file, &lines.full)).or(self.put(file, line));
        lines.full.clear();
        complaint
    }

    fn add(&self, lines: &mut Lines, line: &[u8]) {
        if lines.filling.is_empty() {
            lines.filling.reserve_exact(self.settings.size);
            if let Some(flush) = self.settings.flush {
                let due = round_up(Time::now().instant + flush);
                lines.due = Some(due);
                self.schedule(due);
            }
        }
        lines.filling.extend_from_slice(line);
    }

    /// Requests a write at this moment.
    fn schedule(&self, moment: Instant) {
        let mut due = lock(&self.due);
        *due = Some(due.map_or(moment, |due| due.min(moment)));
        drop(due);
        self.next_write.schedule(moment);
    }

    /// Writes the lines that are due. It is cheap if none are: sites have many logs.
    pub(super) fn write_due(&self, file: &LogFile, now: Instant) -> Option<String> {
        let mut due = lock(&self.due);
        if due.take_if(|due| *due <= now).is_some() {
            drop(due);
            return self.write(file, Some(now));
        }
        due.inspect(|due| self.next_write.schedule(*due));
        None
    }

    /// Writes the lines that are due at a moment, or all lines.
    pub(super) fn write(&self, file: &LogFile, now: Option<Instant>) -> Option<String> {
        let slots = self.slots.iter().filter_map(OnceLock::get);
        slots.fold(None, |complaint, slot| complaint.or(self.write_slot(file, slot, now)))
    }

    fn write_slot(&self, file: &LogFile, slot: &Slot, now: Option<Instant>) -> Option<String> {
        let mut lines = lock(&slot.lines);
        let mut filling = Vec::new();
        match (lines.due, now) {
            (Some(due), Some(now)) if due > now => self.schedule(due),
            (None, Some(_)) => {}
            _ => {
                lines.due = None;
                filling = std::mem::take(&mut lines.filling);
            }
        }
        let full = std::mem::take(&mut lines.full);
        let output = lock(&slot.output);
        drop(lines);
        let complaint = self.put(file, &full).or(self.put(file, &filling));
        drop(output);
        let mut lines = lock(&slot.lines);
        give_back(&mut lines.full, full);
        give_back(&mut lines.filling, filling);
        complaint
    }

    fn put(&self, file: &LogFile, lines: &[u8]) -> Option<String> {
        match self.settings.gzip {
            Some(gzip) if !lines.is_empty() => file.write_binary(&(gzip.compress)(lines, gzip.level), lines),
            _ => file.write(lines),
        }
    }
}

impl Lines {
    /// Moves the full buffer to `full`, whose lines were written.
    fn swap(&mut self) {
        self.full.clear();
        std::mem::swap(&mut self.full, &mut self.filling);
        self.due = None;
    }
}

/// Rounds a moment up to [`GRID`], so that the buffers of many logs are written together.
fn round_up(moment: Instant) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let steps = moment.saturating_duration_since(*START).as_nanos().div_ceil(GRID.as_nanos());
    *START + GRID.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Reuses the memory of a buffer, unless the thread has allocated another buffer meanwhile.
fn give_back(place: &mut Vec<u8>, mut used: Vec<u8>) {
    if place.capacity() == 0 {
        used.clear();
        *place = used;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Buffering, Gzip, LogFile};
    use crate::LogFiles;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    struct Test {
        directory: TempDir,
        logs: LogFiles,
        file: Arc<LogFile>,
    }

    impl Test {
        fn new(size: usize, flush: Option<Duration>) -> Test {
            Test::with(Buffering { size, flush, gzip: None })
        }

        fn with(settings: Buffering) -> Test {
            let directory = tempfile::tempdir().unwrap();
            let logs = LogFiles::default();
            let file = logs.file(&directory.path().join("log"));
            assert!(file.gather(settings));
            file.open().unwrap();
            Test { directory, logs, file }
        }

        fn append(&self, line: &str) {
            assert_eq!(self.file.append(line.as_bytes()), None);
        }

        fn text(&self) -> String {
            std::fs::read_to_string(self.directory.path().join("log")).unwrap()
        }

        fn due(&self) -> Option<Instant> {
            match self.logs.poll_due(&Context::from_waker(Waker::noop())) {
                Poll::Ready(due) => Some(due),
                Poll::Pending => None,
            }
        }
    }

    #[test]
    fn lines_wait_until_the_buffer_is_full() {
        let test = Test::new(10, None);
        test.append("1234\n");
        test.append("5678\n");
        assert_eq!((test.text().as_str(), test.due()), ("", None));
        test.append("9\n");
        assert!(test.due().is_some());
        assert!(test.logs.write_due(Instant::now()).is_empty());
        assert_eq!(test.text(), "1234\n5678\n");
        test.append("abcdef\n");
        test.append("gh\n");
        test.append("ijklmno\n");
        assert_eq!(test.text(), "1234\n5678\n9\nabcdef\n", "the logging thread wrote the full buffer");
        drop(test.logs.flush());
        assert_eq!(test.text(), "1234\n5678\n9\nabcdef\ngh\nijklmno\n");
    }

    #[test]
    fn a_line_longer_than_the_buffer_keeps_its_place() {
        let test = Test::new(4, None);
        test.append("a\n");
        test.append("longer\n");
        test.append("b\n");
        assert_eq!(test.text(), "a\nlonger\n");
    }

    #[test]
    fn the_first_line_sets_the_due_time() {
        let test = Test::new(100, Some(Duration::from_secs(60)));
        test.append("a\n");
        let due = test.due().unwrap();
        test.append("b\n");
        assert_eq!(test.due(), Some(due));
        test.logs.write_due(due - Duration::from_millis(1));
        assert_eq!((test.text().as_str(), test.due()), ("", Some(due)));
        test.logs.write_due(due);
        assert_eq!((test.text().as_str(), test.due()), ("a\nb\n", None));
        test.append("c\n");
        assert!(test.due().unwrap() > due - Duration::from_secs(60));
    }

    #[test]
    fn reopening_writes_buffered_lines_to_the_previous_file() {
        let test = Test::new(100, None);
        test.append("a\n");
        let log = test.directory.path().join("log");
        std::fs::rename(&log, test.directory.path().join("old")).unwrap();
        assert!(test.logs.reopen().is_empty());
        assert_eq!(std::fs::read_to_string(test.directory.path().join("old")).unwrap(), "a\n");
        test.append("b\n");
        let directory = test.directory;
        drop((test.logs, test.file));
        assert_eq!(std::fs::read_to_string(directory.path().join("log")).unwrap(), "b\n", "at the end");
    }

    #[test]
    fn each_write_is_compressed_separately() {
        let compress = |bytes: &[u8], level: u32| format!("<{level}:{}>", bytes.len()).into_bytes();
        let settings = |level| Buffering { size: 4, flush: None, gzip: Some(Gzip { level, compress }) };
        let test = Test::with(settings(3));
        test.append("abc\n");
        test.append("d\n");
        test.logs.write_due(Instant::now());
        drop(test.logs.flush());
        drop(test.logs.flush());
        assert_eq!(test.text(), "<3:4><3:2>");
        assert!(test.file.gather(settings(3)) && !test.file.gather(settings(4)));
    }

    #[test]
    fn threads_lose_no_line() {
        const LINES: usize = 2000;
        let test = Test::new(64, Some(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            for thread in 1..=4u32 {
                let test = &test;
                scope.spawn(move || {
                    super::super::name_thread(thread);
                    (0..LINES).for_each(|line| test.append(&format!("{thread} {line}\n")));
                });
            }
            (0..100).for_each(|_| drop(test.logs.write_due(Instant::now())));
        });
        drop(test.logs.flush());
        let text = test.text();
        for thread in 1..=4 {
            let start = format!("{thread} ");
            let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&start)).collect();
            assert!(lines.iter().map(|line| line.parse()).eq((0..LINES).map(Ok)), "{} lines", lines.len());
        }
    }
}
