//! Content that is compressed while it is sent: a block of the plain content is taken when the
//! connection can take more.

use super::Ratio;
use super::deflate::{Deflate, Settings};
use super::kept;
use bytes::Bytes;
use contract::{Body, Outcome, Piece, Pull, Source, Work};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// How much of the plain content is taken at once, in bytes.
const BLOCK: u64 = 64 * 1024;

/// The compressed form of content that comes into being.
pub(super) fn of_source(source: Box<dyn Source>, settings: Settings, ratio: Rc<Ratio>) -> Body {
    let mut compressed = Compressed::new(Vec::new(), settings, ratio);
    compressed.source = Some(source);
    Body::Source(Box::new(compressed))
}

/// Plain content on its way through a compressor.
pub(super) struct Compressed {
    /// What is there of the plain content.
    pieces: VecDeque<Piece>,
    /// Where more of it comes from.
    source: Option<Box<dyn Source>>,
    settings: Settings,
    /// Made for the first block, since it is large.
    deflate: Option<Deflate>,
    state: State,
    ratio: Rc<Ratio>,
    keep: Option<(kept::Key, Vec<u8>)>,
}

enum State {
    Running,
    /// A block of a file is being read.
    Reading,
    /// What was held back is sent before this is waited for.
    Flushed(Work),
    Ended,
    Failed,
}

/// The next of the plain content.
enum Plain {
    Block(Bytes),
    Await(Work),
    End,
    Failed,
}

impl Compressed {
    pub(super) fn new(pieces: Vec<Piece>, settings: Settings, ratio: Rc<Ratio>) -> Compressed {
        Compressed {
            pieces: pieces.into(),
            source: None,
            settings,
            deflate: None,
            state: State::Running,
            ratio,
            keep: None,
        }
    }

    /// Keeps the compressed form when it is complete.
    pub(super) fn kept_as(mut self, key: Option<kept::Key>) -> Compressed {
        self.keep = key.map(|key| (key, Vec::new()));
        self
    }

    /// The next block of the plain content, or what has to be waited for.
    fn next(&mut self) -> Plain {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                let length = piece.length().min(BLOCK);
                if piece.length() > length {
                    self.pieces.push_front(piece.slice(length, u64::MAX));
                }
                match piece.slice(0, length) {
                    Piece::Bytes(bytes) => return Plain::Block(bytes),
                    Piece::File { length: 0, .. } => continue,
                    Piece::File { file, offset, length } => {
                        self.state = State::Reading;
                        return Plain::Await(read(file, offset, length));
                    }
                }
            }
            match self.source.as_mut().map(|source| source.pull()) {
                None | Some(Pull::End) => return Plain::End,
                Some(Pull::Piece(piece)) => self.pieces.push_back(piece),
                Some(Pull::Await(work)) => return Plain::Await(work),
                Some(Pull::Failed) => return Plain::Failed,
            }
        }
    }

    fn deflate(&mut self) -> &mut Deflate {
        self.deflate.get_or_insert_with(|| Deflate::new(self.settings))
    }

    fn give(&mut self, out: Vec<u8>) -> Pull {
        if let Some((_, whole)) = &mut self.keep {
            whole.extend_from_slice(&out);
        }
        Pull::Piece(Piece::Bytes(out.into()))
    }

    fn end(&mut self) -> Pull {
        let mut out = Vec::new();
        let deflate = self.deflate();
        deflate.finish(&mut out);
        let (plain, compressed) = (deflate.bytes_in(), deflate.bytes_out());
        self.ratio.set(plain, compressed);
        self.state = State::Ended;
        self.deflate = None;
        let pull = self.give(out);
        if let Some((key, whole)) = self.keep.take() {
            kept::put(key, whole.into());
        }
        pull
    }
}

impl Source for Compressed {
    fn pull(&mut self) -> Pull {
        match std::mem::replace(&mut self.state, State::Running) {
            State::Flushed(work) => return Pull::Await(work),
            state @ (State::Ended | State::Failed) => {
                let failed = matches!(state, State::Failed);
                self.state = state;
                return if failed { Pull::Failed } else { Pull::End };
            }
            State::Running | State::Reading => {}
        }
        loop {
            let mut out = Vec::new();
            match self.next() {
                Plain::Block(bytes) => {
                    self.deflate().add(&bytes, &mut out);
                    if !out.is_empty() {
                        return self.give(out);
                    }
                }
                Plain::Await(work) => {
                    // The disk answers soon; nothing else that is waited for need.
                    if !matches!(work, Work::Job(_)) {
                        self.deflate().flush(&mut out);
                    }
                    if out.is_empty() {
                        return Pull::Await(work);
                    }
                    self.state = State::Flushed(work);
                    return self.give(out);
                }
                Plain::End => return self.end(),
                Plain::Failed => {
                    self.state = State::Failed;
                    return Pull::Failed;
                }
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if !matches!(self.state, State::Reading) {
            if let Some(source) = &mut self.source {
                source.resume(outcome);
            }
            return;
        }
        self.state = State::Failed;
        if let Outcome::Job(result) = outcome
            && let Ok(read) = result.downcast::<io::Result<Vec<u8>>>()
            && let Ok(bytes) = *read
        {
            self.state = State::Running;
            self.pieces.push_front(Piece::Bytes(bytes.into()));
        }
    }
}

/// Reads a block of a file off the event loop. A file that became shorter is an error.
fn read(file: Arc<File>, offset: u64, length: u64) -> Work {
    Work::Job(Box::new(move || {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        let read: io::Result<Vec<u8>> = file.read_exact_at(&mut bytes, offset).map(|()| bytes);
        Box::new(read)
    }))
}

#[cfg(test)]
mod tests {
    use super::{Compressed, of_source};
    use crate::gzip::Ratio;
    use crate::gzip::deflate::Settings;
    use bytes::Bytes;
    use contract::{Body, Outcome, Piece, Pull, Source, Work};
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Duration;

    const FAST: Settings = Settings { level: 1, window: 15 };

    fn inflate(bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        plain
    }

    /// All that a source gives, with its work done in between, or nothing where it failed.
    fn drain(source: &mut dyn Source) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match source.pull() {
                Pull::Piece(Piece::Bytes(bytes)) => out.extend_from_slice(&bytes),
                Pull::Piece(Piece::File { .. }) => panic!("compressed content is no file"),
                Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                Pull::Await(_) => source.resume(Outcome::Done),
                Pull::End => return Some(out),
                Pull::Failed => return None,
            }
        }
    }

    /// A source that waits before each of its pieces.
    struct Slow {
        pieces: VecDeque<Bytes>,
        waited: bool,
    }

    impl Source for Slow {
        fn pull(&mut self) -> Pull {
            if !std::mem::take(&mut self.waited) {
                return Pull::Await(Work::Sleep(Duration::ZERO));
            }
            self.pieces.pop_front().map_or(Pull::End, |bytes| Pull::Piece(Piece::Bytes(bytes)))
        }

        fn resume(&mut self, _: Outcome) {
            self.waited = true;
        }
    }

    fn slow(pieces: &[Vec<u8>]) -> Box<dyn Source> {
        let pieces = pieces.iter().map(|piece| piece.clone().into()).collect();
        let Body::Source(source) = of_source(Box::new(Slow { pieces, waited: false }), FAST, Rc::default())
        else {
            panic!("no source");
        };
        source
    }

    fn file(bytes: &[u8]) -> Arc<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_comes_out_is_what_went_in(
            pieces in proptest::collection::vec(
                prop_oneof![
                    (any::<u8>(), 0..200_000_usize).prop_map(|(byte, length)| vec![byte; length]),
                    proptest::collection::vec(any::<u8>(), 0..2000),
                ],
                0..6,
            ),
            as_files in any::<u8>(),
            level in 1..=9_u8,
            window in 9..=15_u8,
        ) {
            let plain = pieces.concat();
            let content = pieces.iter().enumerate().map(|(at, bytes)| match as_files >> at & 1 {
                0 => Piece::Bytes(bytes.clone().into()),
                _ => Piece::File { file: file(&[b"before", &bytes[..]].concat()), offset: 6, length: bytes.len() as u64 },
            });
            let ratio = Rc::new(Ratio::default());
            let mut source = Compressed::new(content.collect(), Settings { level, window }, Rc::clone(&ratio));
            let coded = drain(&mut source).unwrap();
            prop_assert_eq!(ratio.lengths.get(), (plain.len() as u64, coded.len() as u64));
            prop_assert_eq!(inflate(&coded), &plain[..]);
            let coded = drain(&mut *slow(&pieces)).unwrap();
            prop_assert_eq!(inflate(&coded), plain);
        }
    }

    #[test]
    fn what_is_there_is_sent_before_waiting() {
        let mut source = slow(&[b"first".to_vec(), b"second".to_vec()]);
        let mut sent = Vec::new();
        let mut waits = 0;
        while waits < 2 {
            match source.pull() {
                Pull::Piece(Piece::Bytes(bytes)) => sent.extend_from_slice(&bytes),
                Pull::Await(_) => {
                    waits += 1;
                    if waits < 2 {
                        source.resume(Outcome::Done);
                    }
                }
                _ => panic!("not yet"),
            }
        }
        let mut plain = Vec::new();
        let whole = GzDecoder::new(&sent[..]).read_to_end(&mut plain).is_ok();
        assert_eq!((plain.as_slice(), whole), (&b"first"[..], false));
    }

    #[test]
    fn a_file_that_became_shorter_is_never_taken_for_whole() {
        let piece = Piece::File { file: file(b"short"), offset: 0, length: 100_000 };
        let mut source = Compressed::new(vec![piece], FAST, Rc::default());
        assert!(drain(&mut source).is_none());
        assert!(matches!(source.pull(), Pull::Failed), "and stays so");
    }
}
