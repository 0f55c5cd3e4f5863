//! Watches the files of certificates, and warns of certificates that expire soon. When a file changes, the supervisor compiles
//! the configuration again with the new certificates and swaps it in, as a reload does. All other files are taken from the
//! record of the [`Recorder`], as they were when the configuration was loaded.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use conf::Inputs;
use inputs::System;
use journal::Level;
use tls::{Nearness, Validity};

use crate::recorder::Recorder;
use crate::supervisor::Supervisor;
use crate::worker::Stage;

/// The time between two checks of the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// The time between two checks of when certificates expire.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The files of certificates that a configuration was made with.
#[derive(Default)]
pub(crate) struct Certificates {
    /// Each watched file, with a hash of what was read from it. Private keys in files are not kept, only their hash.
    files: Vec<(PathBuf, u64)>,
    /// The record of the configuration without these files; empty if there are none.
    pub(crate) record: Vec<u8>,
}

impl Certificates {
    /// The watched files of a configuration that this recorder read. Afterwards the recorder is empty. A named pipe is read
    /// once, with the configuration: its content stays in the record, even if it is a private key.
    pub(crate) fn new(watched: &[PathBuf], recorder: &Recorder) -> Certificates {
        let watched: Vec<PathBuf> = watched.iter().filter(|path| !net::is_pipe(path)).cloned().collect();
        let files = watched.iter().map(|path| (path.clone(), hash(path, recorder))).collect();
        recorder.forget_files(&watched);
        let record = if watched.is_empty() { Vec::new() } else { recorder.record() };
        recorder.forget();
        Certificates { files, record }
    }

    /// Whether the files hold something else than what was read.
    fn differ_from(&self, inputs: &dyn Inputs) -> bool {
        self.files.iter().any(|(path, known)| hash(path, inputs) != *known)
    }
}

/// A hash of what a file holds, or of the fact that it cannot be read.
fn hash(path: &Path, inputs: &dyn Inputs) -> u64 {
    let mut hasher = DefaultHasher::new();
    match inputs.read(path) {
        Ok(content) => {
            hasher.write_u8(1);
            hasher.write(&content);
        }
        Err(_) => hasher.write_u8(0),
    }
    hasher.finish()
}

/// What tells one state of a file from another without reading it: `None` if there is no file.
type Stamp = Option<[i64; 5]>;

/// The state of the regular checks.
pub(crate) struct Watch {
    /// When the next check of the files is due.
    next: Instant,
    /// The number of the configuration whose expiry dates were checked last, and the time of the next check.
    expiry: Option<(u32, Instant)>,
    /// The stamps at the last look.
    seen: Vec<Stamp>,
    /// The stamps of the files that were compared last.
    compared: Vec<Stamp>,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch { next: Instant::now() + INTERVAL, expiry: None, seen: Vec::new(), compared: Vec::new() }
    }

    /// Looks at the files, and returns whether their content should be compared. A certificate and its key are written one after
    /// the other, so files that change are left alone until they are the same in two looks.
    fn look<'a>(&mut self, files: impl Iterator<Item = &'a Path>) -> bool {
        let before = std::mem::replace(&mut self.seen, files.map(stamp).collect());
        let is_due = before == self.seen && self.compared != self.seen;
        if is_due {
            self.compared.clone_from(&self.seen);
        }
        is_due
    }
}

fn stamp(path: &Path) -> Stamp {
    // Links are followed: Certbot's files are links that it replaces.
    let metadata = fs::metadata(path).ok()?;
    let inode = metadata.ino().cast_signed();
    Some([inode, metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()])
}

/// The line of the log about a certificate that expires soon. `now` is in seconds since 1970.
fn warning(certificate: &Validity, now: i64) -> Option<(Level, String)> {
    let level = match certificate.nearness(now)? {
        Nearness::Near => Level::Warn,
        Nearness::VeryNear => Level::Error,
        Nearness::Over => Level::Crit,
    };
    let Validity { names, serial, end, .. } = certificate;
    let seconds = end.abs_diff(now);
    let (count, unit) =
        if seconds < 48 * 3600 { (seconds / 3600, "hours") } else { (seconds / 86_400, "days") };
    let time = match level {
        Level::Crit => format!("expired {count} {unit} ago"),
        _ => format!("expires in {count} {unit}"),
    };
    Some((level, format!("the certificate of {names} (serial number {serial}) {time}")))
}

impl Supervisor {
    /// Warns of certificates that expire soon, once a day and after each change of the configuration.
    pub(crate) fn warn_of_expiry(&mut self) {
        let (number, now) = (self.current.number, Instant::now());
        if !self.served || self.watch.expiry.is_some_and(|(known, next)| known == number && now < next) {
            return;
        }
        self.watch.expiry = Some((number, now + DAY));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        for certificate in &*self.current.configuration.site.certificates {
            if let Some((level, message)) = warning(certificate, time) {
                self.log(level, &message);
            }
        }
    }

    /// When to check next whether certificates expire.
    pub(crate) fn next_expiry_warning(&self) -> Option<Instant> {
        let has_some = !self.current.configuration.site.certificates.is_empty();
        self.watch.expiry.filter(|_| has_some).map(|(_, next)| next)
    }

    /// When to check the files of certificates next; `None` if there are no files, or while no worker could take a change.
    pub(crate) fn next_check_of_certificate_files(&self) -> Option<Instant> {
        let number = self.current.number;
        let serves = self.workers.iter().any(|it| it.generation == number && it.stage == Stage::Serving);
        let is_idle = self.stop.is_none() && self.reload.is_none() && !self.resting;
        let has_files = !self.current.configuration.certificates.files.is_empty();
        let next = if self.issuing.has_renewed { Instant::now() } else { self.watch.next };
        (serves && is_idle && has_files).then_some(next)
    }

    /// Checks the files of certificates if that is due, and loads them if they changed.
    pub(crate) fn check_certificate_files(&mut self) {
        let next = self.next_check_of_certificate_files();
        let now = Instant::now();
        if next.is_none_or(|at| at > now) {
            return;
        }
        self.watch.next = now + INTERVAL;
        if std::mem::take(&mut self.issuing.has_renewed) {
            self.reload_certificates();
            return;
        }
        let certificates = &self.current.configuration.certificates;
        let paths = certificates.files.iter().map(|(path, _)| path.as_path());
        if self.watch.look(paths) && certificates.differ_from(&System) {
            self.reload_certificates();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_once_they_stay_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["pem", "key"].map(|name| directory.path().join(name));
        let mut watch = Watch::new();
        let mut look = || watch.look(files.iter().map(PathBuf::as_path));
        fs::write(&files[0], "one").unwrap();
        assert_eq!([look(), look(), look()], [false, true, false], "the first content is compared, too");
        fs::write(&files[1], "one").unwrap();
        assert!(!look());
        // Another file, so that the time of the change does not matter.
        fs::write(directory.path().join("next"), "two").unwrap();
        fs::rename(directory.path().join("next"), &files[0]).unwrap();
        assert_eq!([look(), look(), look()], [false, true, false]);
        fs::remove_file(&files[0]).unwrap();
        assert_eq!([look(), look(), look()], [false, true, false]);
    }

    #[test]
    fn warnings_grow_towards_the_end() {
        let certificate =
            Validity { names: "a.example".into(), serial: "07".into(), begin: 0, end: 100 * 86_400 };
        let line = |day: i64| warning(&certificate, day * 86_400);
        assert_eq!(line(10), None);
        let (level, text) = line(85).unwrap();
        assert_eq!(text, "the certificate of a.example (serial number 07) expires in 15 days");
        assert_eq!([level, line(95).unwrap().0], [Level::Warn, Level::Error]);
        let (level, text) = line(101).unwrap();
        assert_eq!((level, &text[text.len() - 20..]), (Level::Crit, "expired 24 hours ago"));
    }

    #[test]
    fn only_changed_content_differs() {
        let memory = |key: &str| conf::Memory::default().with("/pem", "one").with("/key", key);
        let recorder = Recorder::new(std::sync::Arc::new(memory("one")));
        recorder.read(Path::new("/other")).unwrap_err();
        let watched = ["/pem", "/key", "/none"].map(PathBuf::from);
        let certificates = Certificates::new(&watched, &recorder);
        assert!(!certificates.differ_from(&memory("one")));
        assert!(certificates.differ_from(&memory("two")));
        assert!(certificates.differ_from(&memory("one").with("/none", "")));
        let known = |text: &[u8]| certificates.record.windows(text.len()).any(|part| part == text);
        assert!(known(b"/other") && !known(b"/key"), "keys are not kept");
    }
}
