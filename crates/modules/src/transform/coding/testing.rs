//! Helpers for tests of codings: decoders, and content that arrives in pieces.

use crate::shared::compression::Settings;
use crate::testing::pull;
use bytes::Bytes;
use contract::{Body, Outcome, Piece, Pull, Source, Turn, Work};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// One of each coding.
pub(crate) const CODINGS: [Settings; 3] = [
    Settings::Gzip { level: 1, window: 15 },
    Settings::Brotli { quality: 5, window: 19 },
    Settings::Zstd { level: 1, dictionary: None },
];

/// The plain content, if the compressed content is complete and valid.
pub(crate) fn decode(settings: &Settings, bytes: &[u8]) -> Option<Vec<u8>> {
    let (plain, whole) = read(settings, bytes);
    whole.then_some(plain)
}

/// As much of the plain content as can be read.
pub(crate) fn decode_start(settings: &Settings, bytes: &[u8]) -> Vec<u8> {
    read(settings, bytes).0
}

fn read(settings: &Settings, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut decoder: Box<dyn Read + '_> = match settings {
        Settings::Gzip { .. } => Box::new(flate2::read::GzDecoder::new(bytes)),
        Settings::Brotli { .. } => Box::new(brotli::Decompressor::new(bytes, 4096)),
        Settings::Zstd { dictionary: None, .. } => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        Settings::Zstd { dictionary: Some(dictionary), .. } => {
            Box::new(zstd::stream::read::Decoder::with_dictionary(bytes, &dictionary.0).unwrap())
        }
    };
    let mut plain = Vec::new();
    let mut part = [0; 4096];
    loop {
        match decoder.read(&mut part) {
            Ok(0) => return (plain, true),
            Ok(count) => plain.extend_from_slice(&part[..count]),
            Err(_) => return (plain, false),
        }
    }
}

/// The whole content of a body, with the work that it waits for; `None` if it failed.
pub(crate) fn drain(body: Body) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut add = |piece: Piece| match piece {
        Piece::Bytes(bytes) => out.extend_from_slice(&bytes),
        Piece::File { .. } => panic!("compressed content is not a file"),
    };
    match body {
        Body::Piece(piece) => add(piece),
        Body::Pieces(pieces) => pieces.into_iter().for_each(add),
        Body::Source(mut source) => loop {
            match pull(&mut *source) {
                Pull::Piece(piece) => add(piece),
                Pull::Await(Work::Job(job)) => source.resume(Outcome::Job(job())),
                Pull::Await(_) => source.resume(Outcome::Done),
                Pull::End => break,
                Pull::Pending { .. } | Pull::Failed => return None,
            }
        },
        Body::Empty => {}
        Body::Tunnel(_) => panic!("a tunnel is no content"),
    }
    Some(out)
}

/// A source that waits before each of its pieces.
pub(crate) struct Slow {
    pieces: VecDeque<Bytes>,
    waited: bool,
}

impl Slow {
    pub(crate) fn new(pieces: &[Vec<u8>]) -> Slow {
        Slow { pieces: pieces.iter().map(|piece| piece.clone().into()).collect(), waited: false }
    }
}

impl Source for Slow {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        if !std::mem::take(&mut self.waited) {
            return Pull::Await(Work::Sleep(Duration::ZERO));
        }
        self.pieces.pop_front().map_or(Pull::End, |bytes| Pull::Piece(Piece::Bytes(bytes)))
    }

    fn resume(&mut self, _: Outcome) {
        self.waited = true;
    }
}

/// A file without a name, with these bytes.
pub(crate) fn file(bytes: &[u8]) -> Arc<std::fs::File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.into()
}
