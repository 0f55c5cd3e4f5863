//! One coding of content, whichever it is: plain bytes in, coded bytes out.

use super::brotli::Brotli;
use super::coder::{Broken, Coder};
use super::deflate::Deflate;
use super::zstd::Zstd;
use crate::shared::compression::Settings;
use std::cell::RefCell;

/// How many compressors a thread keeps for the next content: to make one costs as much as to compress a short page.
const IDLE_MAX: usize = 4;

thread_local! {
    static IDLE: RefCell<Vec<(Settings, Box<dyn Coder>)>> = const { RefCell::new(Vec::new()) };
}

/// A compressor in the middle of its work.
pub(super) struct Encoder {
    coder: Box<dyn Coder>,
    settings: Settings,
    /// Whether bytes went in that need not have come out.
    holds_back: bool,
    /// How many bytes went in, and came out.
    lengths: (u64, u64),
}

impl Encoder {
    /// A compressor for content of this length, where it is known.
    pub(super) fn new(settings: &Settings, length: Option<u64>) -> Result<Encoder, Broken> {
        let mut coder = match idle(settings) {
            Some(coder) => coder,
            None => make(settings)?,
        };
        coder.begin(length)?;
        Ok(Encoder { coder, settings: settings.clone(), holds_back: false, lengths: (0, 0) })
    }

    /// Takes bytes, and appends what comes out by now, which may be nothing.
    pub(super) fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.holds_back |= !bytes.is_empty();
        self.lengths.0 += bytes.len() as u64;
        self.counted(out, |coder, out| coder.add(bytes, out))
    }

    /// Appends all that was held back, so that the client can read every byte so far.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        match std::mem::take(&mut self.holds_back) {
            true => self.counted(out, |coder, out| coder.flush(out)),
            false => Ok(()),
        }
    }

    /// Appends the rest, and tells how many bytes went in and came out.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(u64, u64), Broken> {
        self.counted(out, |coder, out| coder.finish(out))?;
        let Encoder { mut coder, settings, lengths, .. } = self;
        if coder.restart() {
            IDLE.with_borrow_mut(|idle| {
                idle.truncate(IDLE_MAX - 1);
                idle.insert(0, (settings, coder));
            });
        }
        Ok(lengths)
    }

    fn counted(
        &mut self,
        out: &mut Vec<u8>,
        run: impl FnOnce(&mut dyn Coder, &mut Vec<u8>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let before = out.len();
        let result = run(&mut *self.coder, out);
        self.lengths.1 += (out.len() - before) as u64;
        result
    }
}

fn idle(settings: &Settings) -> Option<Box<dyn Coder>> {
    IDLE.with_borrow_mut(|idle| {
        let at = idle.iter().position(|(known, _)| known == settings)?;
        Some(idle.remove(at).1)
    })
}

fn make(settings: &Settings) -> Result<Box<dyn Coder>, Broken> {
    Ok(match settings {
        Settings::Gzip { level, window } => Box::new(Deflate::new(*level, *window)),
        Settings::Brotli { quality, window } => Box::new(Brotli::new(*quality, *window)),
        Settings::Zstd { level, dictionary } => {
            let dictionary = dictionary.as_ref().map_or(&[][..], |dictionary| &dictionary.0);
            Box::new(Zstd::new(*level, dictionary)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Encoder, Settings};
    use crate::shared::compression::Dictionary;
    use crate::transform::coding::testing::{decode, decode_start};

    fn all() -> Vec<Settings> {
        let gzip = (1..=9).flat_map(|level| (9..=15).map(move |window| Settings::Gzip { level, window }));
        let brotli =
            (0..=11).flat_map(|quality| [10, 19, 24].map(|window| Settings::Brotli { quality, window }));
        let zstd = (1..=22).map(|level| Settings::Zstd { level, dictionary: None });
        gzip.chain(brotli).chain(zstd).collect()
    }

    #[test]
    fn whatever_the_settings_all_can_be_read() {
        for settings in all() {
            for length in [None, Some(12)] {
                let mut encoder = Encoder::new(&settings, length).unwrap();
                let mut out = Vec::new();
                encoder.add(b"first", &mut out).unwrap();
                encoder.add(b" second", &mut out).unwrap();
                let lengths = encoder.finish(&mut out).unwrap();
                assert_eq!(decode(&settings, &out).unwrap(), b"first second", "{settings:?}");
                assert_eq!(lengths, (12, out.len() as u64), "{settings:?}");
            }
        }
    }

    #[test]
    fn flushed_bytes_can_be_read_before_the_end() {
        let settings = [
            Settings::Gzip { level: 1, window: 15 },
            Settings::Brotli { quality: 6, window: 19 },
            Settings::Zstd { level: 1, dictionary: None },
        ];
        for settings in settings {
            let mut encoder = Encoder::new(&settings, None).unwrap();
            let mut out = Vec::new();
            encoder.add(b"first", &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            assert_eq!(decode_start(&settings, &out), b"first", "{settings:?}");
            assert!(decode(&settings, &out).is_none(), "{settings:?}: the end is missing");
            let length = out.len();
            encoder.flush(&mut out).unwrap();
            assert_eq!(out.len(), length, "nothing new, nothing to flush");
            encoder.add(b" second", &mut out).unwrap();
            encoder.finish(&mut out).unwrap();
            assert_eq!(decode(&settings, &out).unwrap(), b"first second");
        }
    }

    #[test]
    fn what_cannot_be_compressed_grows_a_little() {
        let noise: Vec<u8> = (0..200_000_u64)
            .scan(1_u64, |state, _| {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                Some(state.to_be_bytes()[0])
            })
            .collect();
        let settings = [
            Settings::Gzip { level: 1, window: 9 },
            Settings::Gzip { level: 9, window: 15 },
            Settings::Brotli { quality: 4, window: 19 },
            Settings::Zstd { level: 3, dictionary: None },
        ];
        for settings in settings {
            let mut encoder = Encoder::new(&settings, None).unwrap();
            let mut out = Vec::new();
            encoder.add(&noise, &mut out).unwrap();
            encoder.finish(&mut out).unwrap();
            assert!(out.len() < noise.len() + noise.len() / 10, "{} with {settings:?}", out.len());
            assert_eq!(decode(&settings, &out).unwrap(), noise);
        }
    }

    #[test]
    fn what_is_in_a_dictionary_need_not_be_sent() {
        let text = b"something that both ends have known for long, word by word and letter by letter";
        let run = |dictionary: Option<Dictionary>| {
            let settings = Settings::Zstd { level: 3, dictionary };
            let lengths = [0, 1].map(|_| {
                let mut encoder = Encoder::new(&settings, Some(text.len() as u64)).unwrap();
                let mut out = Vec::new();
                encoder.add(text, &mut out).unwrap();
                encoder.finish(&mut out).unwrap();
                assert_eq!(decode(&settings, &out).unwrap(), text);
                out.len()
            });
            assert_eq!(lengths[0], lengths[1], "a compressor that is used again has it still");
            lengths[0]
        };
        let dictionary = Dictionary(text.repeat(2).into());
        assert!(run(Some(dictionary)) * 2 < run(None));
    }

    #[test]
    fn a_compressor_that_is_used_again_remembers_nothing() {
        for settings in
            [Settings::Gzip { level: 6, window: 15 }, Settings::Zstd { level: 1, dictionary: None }]
        {
            let text = b"a text that is found again where something is remembered of it";
            let run = || {
                let mut encoder = Encoder::new(&settings, None).unwrap();
                let mut out = Vec::new();
                encoder.add(text, &mut out).unwrap();
                encoder.finish(&mut out).unwrap();
                out
            };
            let first = run();
            assert_eq!(run(), first, "{settings:?}");
            // A compressor that was dropped in the middle of its work is not kept.
            Encoder::new(&settings, None).unwrap().add(b"left", &mut Vec::new()).unwrap();
            assert_eq!(run(), first, "{settings:?}");
        }
    }

    #[test]
    fn the_fastest_gzip_is_no_larger_than_that_of_others() {
        let page: String =
            (0..2000).map(|number| format!("<li class=\"n{}\">{number}</li>\n", number % 7)).collect();
        let length = |level| {
            let mut encoder = Encoder::new(&Settings::Gzip { level, window: 15 }, None).unwrap();
            let mut out = Vec::new();
            encoder.add(page.as_bytes(), &mut out).unwrap();
            encoder.finish(&mut out).unwrap();
            out.len()
        };
        assert_eq!(length(1), length(2));
    }
}
