//! Content that is compressed while it is sent: a block of the plain content is taken when the connection can take
//! more.

use super::coder::Broken;
use super::encoder::Encoder;
use super::kept;
use crate::shared::blocks::{Block, Blocks};
use crate::shared::compression::{Ratio, Settings};
use bytes::Bytes;
use contract::{Body, Outcome, Piece, Pull, Source, Turn, Work};
use std::rc::Rc;

/// Less than this of the compressed form is sent only where more has to be waited for, in bytes.
const SENT_MIN: usize = 16 * 1024;

/// Where so much of the plain content was taken, what came of it is sent, however little it is, in bytes.
const TAKEN_MAX: usize = 512 * 1024;

/// Plain content on its way through a compressor.
pub(super) struct Compressed {
    blocks: Blocks,
    /// The length of the plain content, where it is known beforehand.
    length: Option<u64>,
    settings: Settings,
    /// Made for the first block, since it is large.
    encoder: Option<Encoder>,
    /// What came out and was not sent yet.
    out: Vec<u8>,
    state: State,
    ratio: Rc<Ratio>,
    keep: Option<(kept::Key, Vec<u8>)>,
}

enum State {
    Running,
    /// Nothing is left to do before this is waited for.
    Waiting(Work),
    Ended,
    Failed,
}

impl Compressed {
    /// The compressed form of content whose length may be known; with a key it is kept when it is complete.
    pub(super) fn new(
        content: (Blocks, Option<u64>),
        settings: Settings,
        ratio: Rc<Ratio>,
        key: Option<kept::Key>,
    ) -> Compressed {
        let keep = key.map(|key| (key, Vec::new()));
        let (blocks, length) = content;
        let out = Vec::new();
        Compressed { blocks, length, settings, encoder: None, out, state: State::Running, ratio, keep }
    }

    /// Compresses all that is there without waiting, which is all or nearly all of content that is short.
    pub(super) fn at_once(mut self) -> Body {
        loop {
            match self.blocks.next_there() {
                Some(Block::Bytes(bytes)) if self.add(&bytes).is_ok() => {}
                Some(Block::End) if self.finish().is_ok() => return Body::bytes(self.take()),
                Some(Block::Await(work)) => self.state = State::Waiting(work),
                None => return Body::Source(Box::new(self)),
                Some(_) => self.state = State::Failed,
            }
            if !matches!(self.state, State::Running) {
                return Body::Source(Box::new(self));
            }
        }
    }

    fn encoder(&mut self) -> Result<&mut Encoder, Broken> {
        if self.encoder.is_none() {
            self.encoder = Some(Encoder::new(&self.settings, self.length)?);
        }
        self.encoder.as_mut().ok_or(Broken)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut out = std::mem::take(&mut self.out);
        let added = self.encoder()?.add(bytes, &mut out);
        self.out = out;
        added
    }

    fn flush(&mut self) -> Result<(), Broken> {
        self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.flush(&mut self.out))
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.encoder()?;
        let encoder = self.encoder.take().ok_or(Broken)?;
        let (plain, compressed) = encoder.finish(&mut self.out)?;
        self.ratio.set(plain, compressed);
        self.state = State::Ended;
        Ok(())
    }

    /// What came out, and keeps it once it is complete.
    fn take(&mut self) -> Bytes {
        let out = std::mem::take(&mut self.out);
        let Some((key, mut whole)) = self.keep.take() else { return out.into() };
        whole.extend_from_slice(&out);
        match self.state {
            State::Ended => kept::put(key, Bytes::from(whole.into_boxed_slice())),
            _ => self.keep = Some((key, whole)),
        }
        out.into()
    }

    fn give(&mut self) -> Pull {
        Pull::Piece(Piece::Bytes(self.take()))
    }

    fn run(&mut self, turn: &mut Turn<'_, '_>) -> Result<Pull, Broken> {
        let mut taken = 0;
        loop {
            match self.blocks.next(turn) {
                Block::Bytes(bytes) => {
                    self.add(&bytes)?;
                    taken += bytes.len();
                    let enough = if taken < TAKEN_MAX { SENT_MIN } else { 1 };
                    if self.out.len() >= enough {
                        return Ok(self.give());
                    }
                }
                // The disk answers soon; nothing else that is waited for need.
                Block::Await(work @ Work::Job(_)) => return Ok(Pull::Await(work)),
                Block::Await(work) => {
                    self.flush()?;
                    if self.out.is_empty() {
                        return Ok(Pull::Await(work));
                    }
                    self.state = State::Waiting(work);
                    return Ok(self.give());
                }
                Block::Pending { lasts } => {
                    self.flush()?;
                    let is_empty = self.out.is_empty();
                    return Ok(if is_empty { Pull::Pending { lasts } } else { self.give() });
                }
                Block::End => {
                    self.finish()?;
                    return Ok(self.give());
                }
                Block::Failed => return Err(Broken),
            }
        }
    }
}

impl Source for Compressed {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        match std::mem::replace(&mut self.state, State::Running) {
            State::Waiting(work) => return Pull::Await(work),
            State::Running => {}
            State::Ended => {
                self.state = State::Ended;
                return Pull::End;
            }
            State::Failed => {
                self.state = State::Failed;
                return Pull::Failed;
            }
        }
        self.run(turn).unwrap_or_else(|Broken| {
            self.state = State::Failed;
            Pull::Failed
        })
    }

    fn resume(&mut self, outcome: Outcome) {
        self.blocks.resume(outcome);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        self.blocks.read_ahead(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::Compressed;
    use crate::shared::blocks::Blocks;
    use crate::shared::compression::{Ratio, Settings};
    use crate::testing::pull;
    use crate::transform::coding::testing::{CODINGS, Slow, decode, decode_start, drain, file};
    use contract::{Body, Outcome, Piece, Pull, Source};
    use proptest::prelude::*;
    use std::rc::Rc;

    fn compressed(body: Body, settings: &Settings, ratio: &Rc<Ratio>) -> Compressed {
        let blocks = Blocks::of(body).ok().unwrap();
        let length = blocks.length();
        Compressed::new((blocks, length), settings.clone(), Rc::clone(ratio), None)
    }

    fn settings() -> impl Strategy<Value = Settings> {
        prop_oneof![
            (1..=9_u8, 9..=15_u8).prop_map(|(level, window)| Settings::Gzip { level, window }),
            (0..=6_u8, 10..=20_u8).prop_map(|(quality, window)| Settings::Brotli { quality, window }),
            (1..=9_i32).prop_map(|level| Settings::Zstd { level, dictionary: None }),
        ]
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
            settings in settings(),
        ) {
            let plain = pieces.concat();
            let content = pieces.iter().enumerate().map(|(at, bytes)| match as_files >> at & 1 {
                0 => Piece::Bytes(bytes.clone().into()),
                _ => Piece::File { file: file(&[b"before", &bytes[..]].concat()), offset: 6, length: bytes.len() as u64 },
            });
            let content: Vec<Piece> = content.collect();
            let ratio = Rc::new(Ratio::default());
            let slow = Body::Source(Box::new(Slow::new(&pieces)));
            let bodies = [
                Body::Source(Box::new(compressed(Body::Pieces(content.clone()), &settings, &ratio))),
                compressed(Body::Pieces(content), &settings, &ratio).at_once(),
                Body::Source(Box::new(compressed(slow, &settings, &ratio))),
            ];
            for body in bodies {
                let coded = drain(body).unwrap();
                prop_assert_eq!(ratio.lengths(), (plain.len() as u64, coded.len() as u64));
                prop_assert_eq!(decode(&settings, &coded).unwrap(), &plain[..]);
            }
        }
    }

    #[test]
    fn what_is_there_is_sent_before_waiting() {
        for settings in CODINGS {
            let slow = Body::Source(Box::new(Slow::new(&[b"first".to_vec(), b"second".to_vec()])));
            let mut source = compressed(slow, &settings, &Rc::default());
            let mut sent = Vec::new();
            let mut waits = 0;
            while waits < 2 {
                match pull(&mut source) {
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
            assert_eq!(decode_start(&settings, &sent), b"first", "{settings:?}");
            assert!(decode(&settings, &sent).is_none());
        }
    }

    #[test]
    fn little_is_not_sent_alone() {
        let page: Vec<u8> = (0..60_000_u32).flat_map(|number| format!("{number} ").into_bytes()).collect();
        let pieces = page.chunks(1000).map(|part| Piece::Bytes(part.to_vec().into())).collect();
        let mut source = compressed(Body::Pieces(pieces), &CODINGS[0], &Rc::default());
        let mut lengths = Vec::new();
        while let Pull::Piece(piece) = pull(&mut source) {
            lengths.push(piece.length());
        }
        let (last, others) = lengths.split_last().unwrap();
        assert!(others.len() > 2 && others.iter().all(|&length| length >= 1000), "{others:?}, {last}");
    }

    #[test]
    fn who_knows_the_length_compresses_no_worse() {
        let number = |number: u32| (number % 997).pow(3).to_string().into_bytes();
        let page: Vec<u8> = (0..6000).flat_map(number).collect();
        for settings in CODINGS {
            let known = compressed(Body::bytes(page.clone()), &settings, &Rc::default()).at_once();
            let slow = Body::Source(Box::new(Slow::new(std::slice::from_ref(&page))));
            let unknown = Body::Source(Box::new(compressed(slow, &settings, &Rc::default())));
            let [known, unknown] = [known, unknown].map(|body| drain(body).unwrap().len());
            assert!(known <= unknown + 100, "{settings:?}: {known}, {unknown}");
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_never_taken_for_whole() {
        let piece = || Body::Piece(Piece::File { file: file(b"short"), offset: 0, length: 100_000 });
        let of = || compressed(piece(), &CODINGS[0], &Rc::default());
        assert!(drain(of().at_once()).is_none());
        let mut source = of();
        let Pull::Await(contract::Work::Job(job)) = pull(&mut source) else { panic!("nothing to wait for") };
        source.resume(Outcome::Job(job()));
        assert!(matches!(pull(&mut source), Pull::Failed));
        assert!(matches!(pull(&mut source), Pull::Failed), "and stays so");
    }
}
