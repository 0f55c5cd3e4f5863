//! The check of one user and password, in the steps between which a request waits.

use super::gate::{Gate, Place};
use super::password::{self, Match};
use super::recent::{QuickTag, Recent, Tag};
use contract::FileIdentity;
use journal::clock::Time;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The longest file of passwords that is read, in bytes.
const FILE_LIMIT: u64 = 16 * 1024 * 1024;

static GATE: LazyLock<Gate> = LazyLock::new(Gate::of_this_machine);
static RECENT: LazyLock<Recent<Tag>> = LazyLock::new(Recent::default);
static QUICK: LazyLock<Recent<QuickTag>> = LazyLock::new(Recent::default);

/// What a check came to, with what the log tells about it.
pub(crate) struct Checked {
    pub(crate) user: Vec<u8>,
    pub(crate) path: PathBuf,
    pub(crate) verdict: Result<Verdict, Failure>,
}

impl Checked {
    /// Whether the file does not have the user.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.verdict, Ok(Verdict::Unknown))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// The file does not have the user.
    Unknown,
    /// The file has the user's password in a form that is not known.
    NotUnderstood,
    /// The file has the user's password in a form that takes too long.
    TooExpensive,
}

/// Why nothing could be checked.
#[derive(Debug)]
pub(crate) enum Failure {
    Open(io::Error),
    Read(io::Error),
    /// Neither a regular file nor a directory, or a file that is longer than allowed.
    NoFile,
    /// Too many checks wait.
    Busy,
}

impl Failure {
    /// Whether the file does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Failure::Open(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// How far a check came.
pub(super) enum Stage {
    Done(Checked),
    /// The password has to be computed; [`Attempt::enter`] waits for the turn.
    Waiting(Attempt),
    /// It is the turn of [`Attempt::compute`].
    Admitted(Attempt, Place),
}

/// A password that has to be computed.
pub(super) struct Attempt {
    path: PathBuf,
    given: Given,
    stored: Vec<u8>,
    /// What a right password is remembered by; none where the user is not in the file.
    tag: Option<Tag>,
    quick: Option<QuickTag>,
    is_known: bool,
}

/// Whether this field was right a moment ago, by a file that has not changed since. This is one call of the system.
pub(super) fn is_right(path: &Path, field: &[u8]) -> bool {
    let identity = fs::metadata(path).map(|metadata| FileIdentity::new(&metadata));
    identity.is_ok_and(|identity| QUICK.has(&QuickTag::new(&identity, field)))
}

/// What a client gave.
pub(super) struct Given {
    /// The field, as it came.
    pub(super) field: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(super) password: Vec<u8>,
}

/// Looks for a user in a file. This blocks.
pub(super) fn look(path: PathBuf, given: Given) -> Stage {
    match read(&path, FILE_LIMIT) {
        Ok((text, identity)) => find((&text, identity), path, given),
        Err(failure) => Stage::Done(Checked { user: given.user, path, verdict: Err(failure) }),
    }
}

fn find((text, identity): (&[u8], FileIdentity), path: PathBuf, given: Given) -> Stage {
    let found = entries(text).find(|(name, _)| *name == given.user).map(|(_, stored)| stored);
    // The time of the response must not show whether a user is in the file.
    let decoy = || entries(text).next().map(|(_, stored)| stored);
    let Some(stored) = found.or_else(decoy) else {
        return Stage::Done(Checked { user: given.user, path, verdict: Ok(Verdict::Unknown) });
    };
    // The line itself is part of the tag: where it changes, so does what is looked for.
    let tag = found.and_then(|stored| Tag::new(&given.user, stored, &given.password));
    // A change of a file that was left alone shows.
    let quick = identity.is_settled(Time::now().seconds).then(|| QuickTag::new(&identity, &given.field));
    if tag.as_ref().is_some_and(|tag| RECENT.has(tag)) {
        quick.into_iter().for_each(|quick| QUICK.add(quick));
        return Stage::Done(Checked { user: given.user, path, verdict: Ok(Verdict::Right) });
    }
    let (stored, is_known) = (stored.to_vec(), found.is_some());
    Stage::Waiting(Attempt { path, given, stored, tag, quick, is_known })
}

impl Attempt {
    /// Waits until there are few enough others. This does not block.
    pub(super) async fn enter(self) -> Stage {
        match GATE.enter().await {
            Some(place) => Stage::Admitted(self, place),
            None => {
                Stage::Done(Checked { user: self.given.user, path: self.path, verdict: Err(Failure::Busy) })
            }
        }
    }

    /// Computes the password. This blocks.
    pub(super) fn compute(self) -> Checked {
        let verdict = match password::matches(&self.stored, &self.given.password) {
            _ if !self.is_known => Verdict::Unknown,
            Match::Yes => {
                self.tag.into_iter().for_each(|tag| RECENT.add(tag));
                self.quick.into_iter().for_each(|quick| QUICK.add(quick));
                Verdict::Right
            }
            Match::No => Verdict::Wrong,
            Match::NotUnderstood => Verdict::NotUnderstood,
            Match::TooExpensive => Verdict::TooExpensive,
        };
        Checked { user: self.given.user, path: self.path, verdict: Ok(verdict) }
    }
}

/// Users and their passwords as they are stored.
fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.starts_with(b"#")).filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (user, rest) = (&line[..colon], &line[colon + 1..]);
        Some((user, rest.split(|byte| matches!(byte, b':' | b'\r')).next()?))
    })
}

/// Reads a file of at most so many bytes. This blocks.
pub(crate) fn read(path: &Path, limit: u64) -> Result<(Vec<u8>, FileIdentity), Failure> {
    use rustix::fs::{Mode, OFlags};
    // A pipe without a writer must not hold the thread.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| Failure::Open(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(Failure::Read)?;
    if metadata.is_dir() {
        return Err(Failure::Read(rustix::io::Errno::ISDIR.into()));
    }
    if !metadata.is_file() || metadata.len() > limit {
        return Err(Failure::NoFile);
    }
    let mut text = Vec::new();
    file.take(limit).read_to_end(&mut text).map_err(Failure::Read)?;
    Ok((text, FileIdentity::new(&metadata)))
}

#[cfg(test)]
mod tests {
    use super::{FileIdentity, Given, Stage, Verdict, entries, find, is_right, look};
    use std::fs::File;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    /// The field need not be encoded here.
    fn given(user: &[u8], password: &[u8]) -> Given {
        let field = [user, b":", password].concat();
        Given { field, user: user.to_vec(), password: password.to_vec() }
    }

    /// The state of some file.
    fn state() -> FileIdentity {
        FileIdentity::new(&std::fs::metadata("/").unwrap())
    }

    /// What comes out, and whether it was computed for that.
    fn verdict(text: &[u8], user: &[u8], password: &[u8]) -> (Verdict, bool) {
        let (checked, computed) = match find((text, state()), PathBuf::new(), given(user, password)) {
            Stage::Done(checked) => (checked, false),
            Stage::Waiting(attempt) | Stage::Admitted(attempt, _) => (attempt.compute(), true),
        };
        (checked.verdict.unwrap(), computed)
    }

    #[test]
    fn lines_of_a_file() {
        let text = b"# a:b\n\na:1\nb:2:remark\r\nnothing\nc:3\r\nd:";
        let found: Vec<_> = entries(text).map(|(user, stored)| (user[0], stored)).collect();
        assert_eq!(found, [(b'a', &b"1"[..]), (b'b', b"2"), (b'c', b"3"), (b'd', b"")]);
    }

    #[test]
    fn a_password_that_changes_counts_at_once() {
        let verdict = |text: &[u8]| verdict(text, b"u", b"one");
        assert_eq!(verdict(b"u:{PLAIN}one"), (Verdict::Right, true));
        assert_eq!(verdict(b"u:{PLAIN}one"), (Verdict::Right, false), "remembered");
        assert_eq!(verdict(b"u:{PLAIN}two"), (Verdict::Wrong, true));
        assert_eq!(verdict(b"v:{PLAIN}one"), (Verdict::Unknown, true), "though it is the decoy's");
        assert_eq!(verdict(b""), (Verdict::Unknown, false));
    }

    #[test]
    fn a_file_is_not_read_again_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let long_ago = SystemTime::now() - Duration::from_secs(60);
            File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        };
        let is_right = |password: &[u8]| is_right(&path, &given(b"quick", password).field);
        let check = |password: &[u8]| {
            match look(path.clone(), given(b"quick", password)) {
                Stage::Done(checked) => checked,
                Stage::Waiting(attempt) | Stage::Admitted(attempt, _) => attempt.compute(),
            }
            .verdict
            .unwrap()
        };
        assert!(!is_right(b"one"), "there is no file");
        write("quick:{PLAIN}one\n");
        assert!(!is_right(b"one"), "nobody has checked it");
        assert_eq!(check(b"one"), Verdict::Right);
        assert!(!is_right(b"one"), "it may change unseen yet");
        let unseen = FileIdentity::new(&std::fs::metadata(&path).unwrap());
        super::QUICK.add(super::QuickTag::new(&unseen, &given(b"quick", b"one").field));
        assert!(is_right(b"one") && !is_right(b"on") && !is_right(b"two"));
        write("quick:{PLAIN}two\n");
        assert!(!is_right(b"one") && !is_right(b"two"));
        assert_eq!(check(b"one"), Verdict::Wrong);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_right(b"one"));
    }

    #[test]
    fn for_an_unknown_user_the_first_line_is_computed() {
        let text = b"u:{PLAIN}right\nw:{PLAIN}other\n";
        let stage = find((text, state()), PathBuf::new(), given(b"v", b"right"));
        let Stage::Waiting(attempt) = stage else { panic!("nothing is computed") };
        assert_eq!(attempt.stored, b"{PLAIN}right");
        assert_eq!(attempt.compute().verdict.unwrap(), Verdict::Unknown);
    }

    #[test]
    fn a_pipe_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let Stage::Done(checked) = look(path, given(b"u", b"p")) else { panic!("read") };
        assert!(checked.verdict.is_err());
    }
}
