//! A database of MaxMind's format: what it says of an address.

use conf::Diagnostic;
use contract::FileIdentity;
use journal::clock::Time;
use maxminddb::{PathElement, Reader};
use rustix::fs::{Mode, OFlags, open};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A database, which can be read again while requests are served.
pub(super) struct Database {
    path: PathBuf,
    current: RwLock<Arc<State>>,
    /// Seconds since 1970 of the last look at the file.
    checked: AtomicI64,
}

/// A state of the file.
struct State {
    reader: Reader<Vec<u8>>,
    file: FileIdentity,
    /// Seconds since 1970 when it was read.
    read: i64,
}

impl Database {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn open(path: &Path) -> Result<Database, String> {
        let current = RwLock::new(Arc::new(State::read(path)?));
        Ok(Database { path: path.to_owned(), current, checked: AtomicI64::new(Time::now().seconds) })
    }

    /// Reads the file again if it has changed, and tells whether it has. If it cannot be read, what was read before stays.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn refresh(&self) -> Result<bool, String> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| error.to_string())?;
        self.checked.store(Time::now().seconds, Ordering::Relaxed);
        if FileIdentity::new(&metadata) == self.state().file {
            return Ok(false);
        }
        let state = Arc::new(State::read(&self.path)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(true)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends what the database says of an address; `false` if it says nothing, or nothing that is a text or a number.
    pub(super) fn write(&self, address: IpAddr, steps: &[Step], out: &mut Vec<u8>) -> bool {
        let state = self.state();
        let Ok(found) = state.reader.lookup(address) else { return false };
        let path: Vec<PathElement<'_>> = steps.iter().map(Step::element).collect();
        let Ok(Some(Value(value))) = found.decode_path::<Value>(&path) else { return false };
        out.extend_from_slice(&value);
        true
    }

    /// What is known of the file.
    pub(super) fn metadata(&self, what: Metadata) -> i64 {
        match what {
            Metadata::Built => i64::try_from(self.state().reader.metadata().build_epoch).unwrap_or(i64::MAX),
            Metadata::Checked => self.checked.load(Ordering::Relaxed),
            Metadata::Changed => self.state().read,
        }
    }
}

impl State {
    fn read(path: &Path) -> Result<State, String> {
        let (file, bytes) = contents(path).map_err(|error| error.to_string())?;
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        Ok(State { reader, file, read: Time::now().seconds })
    }
}

fn contents(path: &Path) -> io::Result<(FileIdentity, Vec<u8>)> {
    // A pipe must not hold the thread.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let identity = FileIdentity::new(&metadata);
    let mut bytes = Vec::with_capacity(usize::try_from(identity.size().min(FILE_BYTES_MAX)).unwrap_or(0));
    if file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((identity, bytes))
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Metadata {
    /// When it was made.
    Built,
    /// When it was last looked for a new state.
    Checked,
    /// When this state was read.
    Changed,
}

impl Metadata {
    pub(super) fn of(name: &[u8]) -> Option<Metadata> {
        match name {
            b"build_epoch" => Some(Metadata::Built),
            b"last_check" => Some(Metadata::Checked),
            b"last_change" => Some(Metadata::Changed),
            _ => None,
        }
    }
}

/// A step on the way to a value.
pub(super) enum Step {
    Key(String),
    /// A place in a list.
    Index(usize),
}

impl Step {
    /// A word of the configuration. A number is a place in a list.
    pub(super) fn of(word: &conf::Word) -> Result<Step, Diagnostic> {
        let Ok(text) = std::str::from_utf8(&word.text) else {
            return Err(Diagnostic::emerg(format!("invalid path \"{word}\"")).under(word.span));
        };
        Ok(text.parse().map_or_else(|_| Step::Key(text.to_owned()), Step::Index))
    }

    fn element(&self) -> PathElement<'_> {
        match self {
            Step::Key(key) => PathElement::Key(key),
            Step::Index(index) => PathElement::Index(*index),
        }
    }
}

/// A value as text.
struct Value(Vec<u8>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Texts)
    }
}

/// Writes each kind of value as the geoip2 module does.
struct Texts;

impl Visitor<'_> for Texts {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value(text.into()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value(bytes.into()))
    }

    fn visit_bool<E: Error>(self, is_true: bool) -> Result<Value, E> {
        self.visit_str(if is_true { "1" } else { "0" })
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Value, E> {
        self.visit_str(&format!("0x{number:032x}"))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.visit_str(&format!("{number:.5}"))
    }
}
