//! Digests of files, for entity tags: `FileETag Digest`.

use crate::shared::apache::bounded::Failure;
use crate::shared::apache::variables;
use contract::{Budget, Exchange, FileIdentity, Handler, Outcome, Reach, Spent, Step, Work};
use http::base64::encode;
use journal::clock::Time;
use rustix::fs::{Mode, OFlags};
use sha1::{Digest as _, Sha1};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest file that has a digest, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How many digests are kept; when there are more, they are computed again.
const KEPT_MAX: usize = 4096;

/// A file is read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

type Sum = [u8; 20];

static KEPT: Mutex<Option<HashMap<FileIdentity, Sum>>> = Mutex::new(None);

/// The digest of a state of a file. Attached to the exchange.
struct Digest {
    file: FileIdentity,
    sum: Sum,
}

/// The digest of a file in Apache's form, if it was computed for the request.
pub(super) fn of(exchange: &Exchange, file: FileIdentity) -> Option<String> {
    let digest = exchange.attached::<Digest>().filter(|digest| digest.file == file)?;
    Some(format!("\"{}\"", encode(&digest.sum)))
}

/// Computes the digest of the request's file before the file is sent.
pub(super) struct Digests;

impl Handler for Digests {
    fn run(&self, exchange: &mut Exchange) -> Step {
        prepare(exchange, &exchange.budget()).unwrap_or_else(|spent| Failure::from(spent).refuse(exchange))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        if let Outcome::Job(result) = outcome
            && let Ok(result) = result.downcast::<Option<Digest>>()
            && let Some(digest) = *result
        {
            keep(&digest);
            exchange.attach(Reach::Own, Rc::new(digest));
        }
        Step::Next
    }
}

fn prepare(exchange: &Exchange, budget: &Budget) -> Result<Step, Spent> {
    // Nothing sees the tag of a subrequest.
    if exchange.subrequest || exchange.request.path.ends_with(b"/") {
        return Ok(Step::Next);
    }
    let Ok(path) = exchange.path() else { return Ok(Step::Next) };
    let metadata = variables::metadata(exchange, &path, budget)?;
    let Some(metadata) = metadata.filter(|metadata| metadata.is_file() && metadata.len() <= FILE_BYTES_MAX)
    else {
        return Ok(Step::Next);
    };
    let file = FileIdentity::new(&metadata);
    if let Some(sum) = kept().as_ref().and_then(|kept| kept.get(&file)).copied() {
        exchange.attach(Reach::Own, Rc::new(Digest { file, sum }));
        return Ok(Step::Next);
    }
    budget.step(usize::try_from(file.size()).unwrap_or(usize::MAX))?;
    Ok(Step::Await(Work::Job(Box::new(move || Box::new(compute(&path).ok().flatten())))))
}

/// Reads a file. A file that changes meanwhile, or that is too long, has no digest.
fn compute(path: &[u8]) -> io::Result<Option<Digest>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut open = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = open.metadata()?;
    let file = FileIdentity::new(&metadata);
    if !metadata.is_file() {
        return Ok(None);
    }
    let (mut sum, mut piece, mut left) = (Sha1::new(), vec![0; PIECE_BYTES], FILE_BYTES_MAX);
    loop {
        let count = open.read(&mut piece)?;
        let Some(rest) = left.checked_sub(count as u64) else { return Ok(None) };
        if count == 0 {
            break;
        }
        sum.update(&piece[..count]);
        left = rest;
    }
    let is_same = FileIdentity::new(&open.metadata()?) == file;
    Ok(is_same.then(|| Digest { file, sum: sum.finalize().into() }))
}

/// Keeps a digest, unless the file may still change without another time.
fn keep(digest: &Digest) {
    if !digest.file.is_settled(Time::now().seconds) {
        return;
    }
    let mut kept = kept();
    let kept = kept.get_or_insert_default();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(digest.file, digest.sum);
}

fn kept() -> MutexGuard<'static, Option<HashMap<FileIdentity, Sum>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Digest, FILE_BYTES_MAX, KEPT_MAX, Time, compute, keep, kept};
    use contract::FileIdentity;
    use std::os::unix::ffi::OsStrExt;
    use std::time::{Duration, SystemTime};

    #[test]
    fn long_files_and_pipes_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let digest = |length: u64| {
            std::fs::File::create(&path).unwrap().set_len(length).unwrap();
            compute(path.as_os_str().as_bytes()).unwrap().map(|digest| digest.sum[0])
        };
        assert_eq!([0, FILE_BYTES_MAX, FILE_BYTES_MAX + 1].map(digest), [Some(0xda), Some(0x3b), None]);
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(compute(pipe.as_os_str().as_bytes()).unwrap().is_none());
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let file = tempfile::tempfile().unwrap();
        let at = |seconds: u64| {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            FileIdentity::new(&file.metadata().unwrap())
        };
        let fresh = Digest { file: at(1), sum: [1; 20] };
        assert!(!fresh.file.is_settled(Time::now().seconds));
        keep(&fresh);
        assert!(kept().as_ref().is_none_or(|kept| !kept.contains_key(&fresh.file)));
        // Files of the system are old.
        let old = FileIdentity::new(&std::fs::metadata("/bin/sh").unwrap());
        let full = (0..KEPT_MAX as u64).map(|seconds| (at(seconds), [0; 20])).collect();
        *kept() = Some(full);
        keep(&Digest { file: old, sum: [2; 20] });
        assert_eq!(kept().as_ref().map(|kept| (kept.len(), kept[&old])), Some((1, [2; 20])));
    }
}
