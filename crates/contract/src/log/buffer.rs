//! Lines that are gathered before they are written.
//!
//! Each thread gathers for itself, so that threads do not wait for each other. A buffer that is full changes
//! places with an empty one and is written by somebody else, who also compresses it; where that one lags
//! behind, the thread writes itself, so that there are never more than two buffers a thread.

use super::bell::Bell;
use super::{LogFile, thread};
use crate::clock::Time;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How many threads gather apart. More share.
const SLOTS: usize = 32;

/// How far the moments are apart at which buffers are written that have waited long enough.
const GRID: Duration = Duration::from_millis(50);

/// How lines are gathered.
#[derive(Clone, Debug)]
pub struct Buffering {
    /// How many bytes of lines are gathered.
    pub size: usize,
    /// How long the first line may wait; without it until the buffer is full.
    pub flush: Option<Duration>,
    /// How what is written is compressed.
    pub gzip: Option<Gzip>,
}

/// A compressor of whole buffers.
#[derive(Clone, Copy, Debug)]
pub struct Gzip {
    /// From 1 to 9.
    pub level: u32,
    /// Gives bytes in the compressed form, which stands for itself in a file of many.
    pub compress: fn(&[u8], u32) -> Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Buffer {
    settings: Buffering,
    /// One for each thread that logged something.
    slots: [OnceLock<Box<Slot>>; SLOTS],
    /// When the first slot has something to write.
    due: Mutex<Option<Instant>>,
    bell: Arc<Bell>,
}

/// The lines of one thread, apart from the memory that other threads write to.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    lines: Mutex<Lines>,
    /// Held while lines are written, so that they keep their order. It is taken while `lines` is held.
    output: Mutex<()>,
}

#[derive(Debug, Default)]
struct Lines {
    filling: Vec<u8>,
    /// When they have waited long enough.
    due: Option<Instant>,
    full: Vec<u8>,
}

impl Buffer {
    pub(super) fn new(settings: Buffering, bell: Arc<Bell>) -> Buffer {
        Buffer { settings, slots: [const { OnceLock::new() }; SLOTS], due: Mutex::default(), bell }
    }

    /// Whether these are its settings.
    pub(super) fn has(&self, other: &Buffering) -> bool {
        let own = &self.settings;
        let level = |settings: &Buffering| settings.gzip.map(|gzip| gzip.level);
        (own.size, own.flush, level(own)) == (other.size, other.flush, level(other))
    }

    /// Gathers lines.
    pub(super) fn append(&self, file: &LogFile, line: &[u8]) -> Option<String> {
        let slot = self.slots[thread() as usize % SLOTS].get_or_init(Box::default);
        let mut lines = lock(&slot.lines);
        if lines.filling.len() + line.len() <= self.settings.size {
            self.add(&mut lines, line);
            return None;
        }
        if lines.full.is_empty() && line.len() <= self.settings.size {
            lines.turn();
            self.ring(Time::now().instant);
            self.add(&mut lines, line);
            return None;
        }
        let _output = lock(&slot.output);
        let complaint = self.put(file, &lines.full);
        lines.turn();
        if line.len() <= self.settings.size {
            self.ring(Time::now().instant);
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
                let due = on_grid(Time::now().instant + flush);
                lines.due = Some(due);
                self.ring(due);
            }
        }
        lines.filling.extend_from_slice(line);
    }

    /// Something is to be written at this moment.
    fn ring(&self, moment: Instant) {
        let mut due = lock(&self.due);
        *due = Some(due.map_or(moment, |due| due.min(moment)));
        drop(due);
        self.bell.ring(moment);
    }

    /// Writes what is due now. Sites have many logs, most of which are not due.
    pub(super) fn write_due(&self, file: &LogFile, now: Instant) -> Option<String> {
        let mut due = lock(&self.due);
        if due.take_if(|due| *due <= now).is_some() {
            drop(due);
            return self.write(file, Some(now));
        }
        due.inspect(|due| self.bell.ring(*due));
        None
    }

    /// Writes what is due now, or all of it.
    pub(super) fn write(&self, file: &LogFile, now: Option<Instant>) -> Option<String> {
        let slots = self.slots.iter().filter_map(OnceLock::get);
        slots.fold(None, |complaint, slot| complaint.or(self.write_slot(file, slot, now)))
    }

    fn write_slot(&self, file: &LogFile, slot: &Slot, now: Option<Instant>) -> Option<String> {
        let mut lines = lock(&slot.lines);
        let mut filling = Vec::new();
        match (lines.due, now) {
            (Some(due), Some(now)) if due > now => self.ring(due),
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
    /// The buffer that is full takes the place of the one before, which was written.
    fn turn(&mut self) {
        self.full.clear();
        std::mem::swap(&mut self.full, &mut self.filling);
        self.due = None;
    }
}

/// The next moment at which buffers are written, so that those of many logs are written together.
fn on_grid(moment: Instant) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let steps = moment.saturating_duration_since(*START).as_nanos().div_ceil(GRID.as_nanos());
    *START + GRID.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Uses a buffer's memory again, where nobody got other memory in the meantime.
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
    use crate::log::LogFiles;
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
    fn whole_lines_wait_until_the_buffer_is_full() {
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
        assert_eq!(test.text(), "1234\n5678\n9\nabcdef\n", "nobody wrote what was full");
        drop(test.logs.flush());
        assert_eq!(test.text(), "1234\n5678\n9\nabcdef\ngh\nijklmno\n");
    }

    #[test]
    fn a_line_that_is_longer_keeps_its_place() {
        let test = Test::new(4, None);
        test.append("a\n");
        test.append("longer\n");
        test.append("b\n");
        assert_eq!(test.text(), "a\nlonger\n");
    }

    #[test]
    fn the_first_line_sets_the_time() {
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
    fn what_was_gathered_goes_to_the_file_before() {
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
    fn each_write_is_compressed_for_itself() {
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
