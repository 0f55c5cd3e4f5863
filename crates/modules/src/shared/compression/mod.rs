//! What the codings of content share: their names, who gets which, and how their directives are read.

mod accept;
mod ratio;
mod rules;

pub(crate) use accept::{Accept, FULL, Weight};
pub(crate) use ratio::{Ratio, RatioOf, show as show_ratio};
pub(crate) use rules::{GZIP_DISABLE, GZIP_HTTP_VERSION, GZIP_PROXIED, GZIP_VARY, Rules, varies};

use crate::shared::media_types::MediaTypes;
use conf::{Contexts, Diagnostic, value};
use contract::{Args, Exchange, Loading};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Where directives about compression may stand.
pub(crate) const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// The shortest content that is compressed where nothing else is said, in bytes.
pub(crate) const LENGTH_MIN: u64 = 20;

/// A content coding (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    /// As fields call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The end of the names of files in this coding.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// How content is compressed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Settings {
    /// A level from 1 to 9, and how far back a repetition is found, as a power of two from 9 to 15.
    Gzip { level: u8, window: u8 },
    /// A quality from 0 to 11, and how far back a repetition is found, as a power of two from 10 to 24.
    Brotli { quality: u8, window: u8 },
    /// A level from 1 to 22, and what the client has to know beforehand.
    Zstd { level: i32, dictionary: Option<Dictionary> },
}

/// A dictionary, shared by all that use it.
#[derive(Clone, Debug)]
pub struct Dictionary(pub(crate) Arc<[u8]>);

impl PartialEq for Dictionary {
    fn eq(&self, other: &Dictionary) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Dictionary {}

impl Hash for Dictionary {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

/// Whether a response is one that a `.htaccess` file wants compressed.
pub(crate) type Condition = Box<dyn Fn(&Exchange) -> bool + Send + Sync>;

/// A coding that a scope has on offer.
pub(crate) struct Offer {
    pub(crate) coding: Coding,
    pub(crate) settings: Settings,
    pub(crate) types: MediaTypes,
    pub(crate) min_length: u64,
    /// Which clients get it, where not all do that accept it.
    pub(crate) rules: Option<Rules>,
    /// Which responses get it, where a `.htaccess` file says so.
    pub(crate) condition: Option<Condition>,
}

impl Offer {
    /// Whether content is of a kind that this is for.
    pub(crate) fn suits(&self, exchange: &Exchange) -> bool {
        let response = &exchange.response;
        self.condition.as_ref().is_none_or(|holds| holds(exchange))
            && response.content_length.is_none_or(|length| length >= self.min_length)
            && self.types.hold(response.content_type.as_deref())
    }
}

/// When compressed files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Off,
    On,
    Always,
}

const MODES: [(&str, Mode); 3] = [("off", Mode::Off), ("on", Mode::On), ("always", Mode::Always)];

/// Reads `on`, `off` or `always`.
pub(crate) fn parse_mode(args: &Args<'_>, _: &mut Loading) -> Result<Mode, Diagnostic> {
    args.value(0, |word| value::choice(word, &MODES))
}

/// Reads a size that is one of these powers of two.
pub(crate) fn parse_power(
    args: &Args<'_>,
    powers: &std::ops::RangeInclusive<u32>,
    words: &str,
) -> Result<u64, Diagnostic> {
    let size = args.value(0, value::size)?;
    let fits = size.is_power_of_two() && powers.contains(&size.trailing_zeros());
    if fits { Ok(size) } else { Err(args.error(words)) }
}

/// Reads the number and the size of buffers, which change nothing here.
pub(crate) fn parse_buffers(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    let invalid = || args.error("invalid value");
    let number = args.value(0, value::number).map_err(|_| invalid())?;
    let size = args.value(1, value::size)?;
    if number > 0 && size > 0 { Ok(()) } else { Err(invalid()) }
}
