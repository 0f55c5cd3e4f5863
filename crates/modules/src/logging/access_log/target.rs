//! What a use of `access_log` says.

use super::json::Json;
use super::line::Line;
use super::place::{Named, Place};
use crate::shared::syslog;
use conf::{Contexts, Diagnostic, Word, value};
use contract::{Args, Loading, Template};
use flate2::Compression;
use flate2::write::GzEncoder;
use journal::{Buffering, Gzip, LogFile};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// What one use of `access_log` asks for.
pub enum Target {
    /// No log at all.
    Off,
    /// A log.
    To {
        /// Where it is.
        place: Place,
        /// The name of its format.
        format: Word,
        /// The predefined format of this name, unless the configuration defines one.
        ready: Option<Arc<Line>>,
        /// What has to hold.
        condition: Option<Template>,
    },
}

/// How much is gathered where only `gzip` is written.
const GZIP_BUFFER_SIZE: u64 = 64 * 1024;

/// The level of `gzip` without one.
const GZIP_LEVEL: u64 = 1;

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Target, Diagnostic> {
    let word = args.word(0)?;
    if word.is("off") {
        return match args.words().get(1) {
            None => Ok(Target::Off),
            Some(word) => Err(args.invalid(word)),
        };
    }
    let place = match &*word.text {
        b"stderr" => Place::File(Arc::new(LogFile::stderr())),
        text if text.starts_with(syslog::START) => Place::Syslog(syslog::parse(args, word, loading)?),
        text if text.contains(&b'$') => {
            Place::Computed(Arc::new(Named::new(loading.template(word)?, &loading.prefix)))
        }
        path => Place::File(loading.logs.file(&loading.path(path))),
    };
    if args.context.intersects(Contexts::ALL_STREAM) && args.words().len() == 1 {
        return Err(Diagnostic::emerg("log format is not specified").at(args.node.span));
    }
    let format = args.words().get(1).cloned().unwrap_or_else(|| Word::new("combined", word.span));
    let ready = match () {
        // These tell of requests.
        () if args.context.intersects(Contexts::ALL_STREAM) => None,
        () if format.text.eq_ignore_ascii_case(b"combined") => Some(Line::Combined),
        () if format.text.eq_ignore_ascii_case(b"json") => {
            Some(Line::Json(Json::new(&mut loading.variables)))
        }
        () => None,
    };
    let Parameters { condition, buffering, lines_per_second } = Parameters::parse(args, loading)?;
    let complain = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    if let Some(buffering) = buffering {
        gather(&place, buffering, word).map_err(complain)?;
    }
    if let Some(lines) = lines_per_second {
        sample(&place, lines, word).map_err(complain)?;
    }
    Ok(Target::To { place, format, ready: ready.map(Arc::new), condition })
}

/// Gives a place its buffer.
fn gather(place: &Place, buffering: Buffering, name: &Word) -> Result<(), String> {
    match place {
        Place::Computed(_) => Err("buffered logs cannot have variables in name".to_owned()),
        Place::Syslog(_) => Err("logs to syslog cannot be buffered".to_owned()),
        Place::File(file) if file.path().is_none() => Err("logs to stderr cannot be buffered".to_owned()),
        Place::File(file) if file.gather(buffering) => Ok(()),
        Place::File(_) => Err(conflict(name)),
    }
}

/// Gives a place its bound of lines.
fn sample(place: &Place, lines_per_second: u64, name: &Word) -> Result<(), String> {
    match place {
        Place::Computed(_) => Err("logs with variables in name cannot have \"lines_per_second\"".to_owned()),
        Place::Syslog(_) => Err("logs to syslog cannot have \"lines_per_second\"".to_owned()),
        Place::File(file) if file.path().is_none() => {
            Err("logs to stderr cannot have \"lines_per_second\"".to_owned())
        }
        Place::File(file) if file.sample(lines_per_second) => Ok(()),
        Place::File(_) => Err(conflict(name)),
    }
}

fn conflict(name: &Word) -> String {
    format!("access_log \"{name}\" already defined with conflicting parameters")
}

/// What is written after the format.
struct Parameters {
    condition: Option<Template>,
    buffering: Option<Buffering>,
    lines_per_second: Option<u64>,
}

impl Parameters {
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Parameters, Diagnostic> {
        let (mut condition, mut lines_per_second) = (None, None);
        let (mut size, mut flush, mut level) = (None, None, None);
        for word in args.words().iter().skip(2) {
            let rest = |start: &str| {
                let text = word.text.strip_prefix(start.as_bytes())?;
                Some(Word { text: text.into(), ..word.clone() })
            };
            let positive = |text: Word, what: &str, read: fn(&Word) -> Option<u64>| {
                let message = || format!("invalid {what} \"{text}\"");
                let found = read(&text).filter(|&number| number > 0);
                found.ok_or_else(|| Diagnostic::emerg(message()).at(args.node.span).under(word.span))
            };
            if let Some(text) = rest("buffer=") {
                size = Some(positive(text, "buffer size", |text| value::size(text).ok())?);
            } else if let Some(text) = rest("flush=") {
                flush = Some(positive(text, "flush time", |text| value::time_ms(text).ok())?);
            } else if let Some(text) = rest("gzip=") {
                let read = |text: &Word| value::number(text).ok().filter(|&level| level < 10);
                level = Some(positive(text, "compression level", read)?);
            } else if word.is("gzip") {
                level = Some(GZIP_LEVEL);
            } else if let Some(text) = rest("lines_per_second=") {
                lines_per_second = Some(positive(text, "number of lines", |text| value::number(text).ok())?);
            } else if let Some(text) = rest("if=") {
                condition = Some(loading.template(&text)?);
            } else {
                return Err(args.invalid(word));
            }
        }
        let size = size.or(level.map(|_| GZIP_BUFFER_SIZE));
        if flush.is_some() && size.is_none() {
            let message = format!("no buffer is defined for access_log \"{}\"", args.word(0)?);
            return Err(Diagnostic::emerg(message).at(args.node.span));
        }
        let gzip = level.and_then(|level| Some(Gzip { level: u32::try_from(level).ok()?, compress }));
        let buffering = size.map(|size| Buffering {
            size: usize::try_from(size).unwrap_or(usize::MAX),
            flush: flush.map(Duration::from_millis),
            gzip,
        });
        Ok(Parameters { condition, buffering, lines_per_second })
    }
}

/// A member of the gzip format (RFC 1952, section 2.2), which may follow others.
fn compress(lines: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(lines.len() / 4), Compression::new(level));
    // Writing to memory does not fail.
    let _ = encoder.write_all(lines);
    encoder.finish().unwrap_or_default()
}
