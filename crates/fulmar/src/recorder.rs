//! The record of what the system said to the process that read a configuration, for another process.

use conf::Inputs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads other inputs, each of them once, and records what they contain, so that another process can use the record.
/// That process may lack the permission to read the inputs, and could find other content a moment later.
pub(crate) struct Recorder {
    source: Option<Arc<dyn Inputs + Send + Sync>>,
    answers: Mutex<BTreeMap<Question, Answer>>,
}

type Question = (Kind, Vec<u8>);

/// A file's content, paths, or addresses as text; or the number and the text of an error.
type Answer = Result<Vec<Vec<u8>>, (i32, String)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Glob,
    Resolve,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Glob, Kind::Resolve];

impl Recorder {
    /// A recorder that knows nothing and asks these inputs.
    pub(crate) fn new(source: Arc<dyn Inputs + Send + Sync>) -> Recorder {
        Recorder { source: Some(source), answers: Mutex::default() }
    }

    /// All answers so far, as bytes for [`Recorder::replay`].
    pub(crate) fn record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for ((kind, key), answer) in answers.iter() {
            out.push(*kind as u8);
            put(&mut out, key);
            match answer {
                Ok(parts) => {
                    put_number(&mut out, parts.len() as u64);
                    parts.iter().for_each(|part| put(&mut out, part));
                }
                Err((number, text)) => {
                    put_number(&mut out, u64::MAX);
                    out.extend_from_slice(&number.to_le_bytes());
                    put(&mut out, text.as_bytes());
                }
            }
        }
        out
    }

    /// Forgets what these files hold.
    pub(crate) fn forget_files(&self, files: &[PathBuf]) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            answers.remove(&(Kind::Read, file.as_os_str().as_bytes().to_vec()));
        }
    }

    /// Gives the memory of all answers back.
    pub(crate) fn forget(&self) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Inputs that know what was recorded, and nothing else.
    ///
    /// # Errors
    /// The bytes are no record.
    pub(crate) fn replay(mut record: &[u8]) -> io::Result<Recorder> {
        let mut answers = BTreeMap::new();
        while !record.is_empty() {
            let (question, answer) = take_answer(&mut record).ok_or_else(|| {
                io::Error::new(ErrorKind::InvalidData, "malformed record of a configuration")
            })?;
            answers.insert(question, answer);
        }
        Ok(Recorder { source: None, answers: Mutex::new(answers) })
    }

    /// As [`Recorder::replay`], but what was not recorded is asked of these inputs.
    ///
    /// # Errors
    /// The bytes are no record.
    pub(crate) fn resume(record: &[u8], source: Arc<dyn Inputs + Send + Sync>) -> io::Result<Recorder> {
        let Recorder { answers, .. } = Recorder::replay(record)?;
        Ok(Recorder { source: Some(source), answers })
    }

    fn ask_for_file(
        &self,
        path: &Path,
        read: impl FnOnce(&dyn Inputs) -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let parts = self.ask(Kind::Read, path.as_os_str().as_bytes(), |source| Ok(vec![read(source)?]))?;
        Ok(parts.into_iter().next().unwrap_or_default())
    }

    fn ask(
        &self,
        kind: Kind,
        key: &[u8],
        ask: impl FnOnce(&dyn Inputs) -> io::Result<Vec<Vec<u8>>>,
    ) -> io::Result<Vec<Vec<u8>>> {
        let question = (kind, key.to_vec());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match (answers.get(&question), &self.source) {
            (Some(known), _) => known.clone(),
            (None, Some(source)) => {
                let fresh = ask(&**source)
                    .map_err(|error| (error.raw_os_error().unwrap_or_default(), error.to_string()));
                answers.insert(question, fresh.clone());
                fresh
            }
            (None, None) => Err((0, "not asked for before".to_owned())),
        };
        answer.map_err(|(number, text)| match number {
            0 => io::Error::other(text),
            number => io::Error::from_raw_os_error(number),
        })
    }
}

impl Inputs for Recorder {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.ask_for_file(path, |source| source.read(path))
    }

    fn read_pipe(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.ask_for_file(path, |source| source.read_pipe(path))
    }

    fn read_template(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.ask_for_file(path, |source| source.read_template(path))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let bytes = |path: PathBuf| path.into_os_string().into_vec();
        let ask = |source: &dyn Inputs| Ok(source.glob(pattern)?.into_iter().map(bytes).collect());
        let parts = self.ask(Kind::Glob, pattern.as_bytes(), ask)?;
        Ok(parts.into_iter().map(|part| PathBuf::from(OsString::from_vec(part))).collect())
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let text = |address: IpAddr| address.to_string().into_bytes();
        let ask = |source: &dyn Inputs| Ok(source.resolve(name)?.into_iter().map(text).collect());
        let parts = self.ask(Kind::Resolve, name.as_bytes(), ask)?;
        Ok(parts.iter().filter_map(|part| std::str::from_utf8(part).ok()?.parse().ok()).collect())
    }
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_answer(from: &mut &[u8]) -> Option<(Question, Answer)> {
    let (&kind, rest) = from.split_first()?;
    *from = rest;
    let question = (*KINDS.get(usize::from(kind))?, take(from)?);
    let answer = match take_number(from)? {
        u64::MAX => {
            let (number, rest) = from.split_first_chunk()?;
            *from = rest;
            Err((i32::from_le_bytes(*number), String::from_utf8(take(from)?).ok()?))
        }
        // Not as many as are promised are made room for: the bytes have to be there.
        count => Ok((0..count).map(|_| take(from)).collect::<Option<_>>()?),
    };
    Some((question, answer))
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*number))
}

fn take(from: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::Recorder;
    use conf::{Inputs, Memory};
    use inputs::System;
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_record_answers_as_its_source_did() {
        let memory = Memory::default().with("/a/x", "one").with("/a/y", vec![0xff; 300]);
        let recorder = Recorder::new(Arc::new(memory));
        let ask = |inputs: &Recorder| {
            let read = |path: &str| inputs.read(Path::new(path)).map_err(|error| error.kind());
            let globbed = inputs.glob("/a/*").unwrap();
            let resolved = inputs.resolve("nowhere").map_err(|error| error.to_string());
            (read("/a/x"), read("/a/y"), read("/none"), globbed, resolved)
        };
        let first = ask(&recorder);
        assert_eq!(first.2, Err(ErrorKind::NotFound));
        assert_eq!(first.3.len(), 2);
        let record = recorder.record();
        let replayed = Recorder::replay(&record).unwrap();
        assert_eq!(ask(&replayed), first);
        assert!(replayed.read(Path::new("/other")).is_err(), "it was not asked for");
        for length in 0..record.len() {
            // A record that was cut between two answers is only a shorter one.
            drop(Recorder::replay(&record[..length]));
        }
        assert!(Recorder::replay(&record[..record.len() - 1]).is_err());
    }

    #[test]
    fn what_changes_meanwhile_is_not_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "before").unwrap();
        let recorder = Recorder::new(Arc::new(System));
        assert_eq!(recorder.read(&path).unwrap(), b"before");
        std::fs::write(&path, "after").unwrap();
        assert_eq!(recorder.read(&path).unwrap(), b"before");
        assert_eq!(recorder.resolve("127.0.0.1").unwrap().len(), 1);
    }
}
