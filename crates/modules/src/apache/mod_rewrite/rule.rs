//! `RewriteRule`.

use super::text::Text;
use crate::shared::apache::{environment, pattern};
use conf::value::Pattern;
use conf::{Diagnostic, Word};
use contract::{Args, Loading};
use http::Status;
use std::sync::Arc;

/// A pattern and what replaces a path that matches it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(super) pattern: Arc<Pattern>,
    pub(super) negated: bool,
    /// None leaves the path alone.
    pub(super) target: Option<Text>,
    pub(super) flags: Flags,
    /// The directory of the file, with a slash at its end.
    pub(super) directory: Box<[u8]>,
}

/// What else a rule says.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub(super) last: bool,
    pub(super) end: bool,
    /// A redirect, or an error.
    pub(super) status: Option<Status>,
    pub(super) append_args: bool,
    pub(super) discard_args: bool,
    pub(super) last_mark: bool,
    pub(super) no_escape: bool,
    pub(super) escape_groups: bool,
    pub(super) chain: bool,
    pub(super) next_round: bool,
    pub(super) skip: usize,
    pub(super) no_subrequest: bool,
    /// Names with their values; no value takes the variable away.
    pub(super) environment: Vec<(Text, Option<Text>)>,
}

impl Rule {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Rule, Diagnostic> {
        let (first, second) = (args.word(0)?, args.word(1)?);
        let (text, negated) = match first.text.strip_prefix(b"!") {
            Some(text) => (text, true),
            None => (&*first.text, false),
        };
        let (flags, ignore_case) = Flags::parse(args, loading)?;
        let keeps = second.is("-") || flags.status.is_some_and(|status| !status.is_redirection());
        Ok(Rule {
            pattern: pattern(args, loading, first, text, ignore_case)?,
            negated,
            target: if keeps { None } else { Some(Text::parse(args, second, &second.text)?) },
            flags,
            directory: loading.directory.clone().ok_or_else(|| args.error("stands in no directory"))?,
        })
    }
}

impl Flags {
    /// The flags, and whether case is ignored.
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<(Flags, bool), Diagnostic> {
        let mut flags = Flags::default();
        let mut ignore_case = false;
        for text in super::rule::flags(args)? {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text.as_str(), None),
            };
            let bad = || args.error(&format!("has an unknown or unsupported flag \"{text}\""));
            match (name.to_ascii_uppercase().as_str(), value) {
                ("L" | "LAST" | "PT" | "PASSTHROUGH", None) => flags.last = true,
                ("END", None) => flags.end = true,
                ("R" | "REDIRECT", value) => flags.status = Some(redirection(value).ok_or_else(bad)?),
                ("F" | "FORBIDDEN", None) => flags.status = Some(Status::FORBIDDEN),
                ("G" | "GONE", None) => flags.status = Some(Status(410)),
                ("QSA" | "QSAPPEND", None) => flags.append_args = true,
                ("QSD" | "QSDISCARD", None) => flags.discard_args = true,
                ("QSL" | "QSLAST", None) => flags.last_mark = true,
                ("NC" | "NOCASE", None) => ignore_case = true,
                ("NE" | "NOESCAPE", None) => flags.no_escape = true,
                ("B", None) => flags.escape_groups = true,
                ("C" | "CHAIN", None) => flags.chain = true,
                ("N" | "NEXT", _) => flags.next_round = true,
                ("NS" | "NOSUBREQ", None) => flags.no_subrequest = true,
                ("DPI" | "DISCARDPATH", None) => {}
                ("S" | "SKIP", Some(count)) => flags.skip = count.parse().map_err(|_| bad())?,
                ("E" | "ENV", Some(value)) => flags.environment.push(variable(args, value, loading)?),
                _ => return Err(bad()),
            }
        }
        Ok((flags, ignore_case))
    }
}

fn redirection(value: Option<&str>) -> Option<Status> {
    match value {
        None | Some("temp") => Some(Status::FOUND),
        Some("permanent") => Some(Status::MOVED_PERMANENTLY),
        Some("seeother") => Some(Status(303)),
        Some(code) => code.parse().ok().filter(|code| (300..600).contains(code)).map(Status),
    }
}

/// `NAME:VALUE`, `NAME`, or `!NAME`.
fn variable(args: &Args<'_>, text: &str, loading: &mut Loading) -> Result<(Text, Option<Text>), Diagnostic> {
    let word = Word::new(text, args.node.span);
    let parse = |text: &str| Text::parse(args, &word, text.as_bytes());
    match (text.strip_prefix('!'), text.split_once(':')) {
        (Some(name), _) => Ok((parse(name)?, None)),
        (None, pair) => {
            let (name, value) = pair.unwrap_or((text, ""));
            environment::warn_if_reserved(args, name.as_bytes(), value.as_bytes(), loading);
            Ok((parse(name)?, Some(parse(value)?)))
        }
    }
}

/// The flags of the third word: `[A,B=c]`.
pub(super) fn flags(args: &Args<'_>) -> Result<Vec<String>, Diagnostic> {
    let Some(word) = args.words().get(2) else { return Ok(Vec::new()) };
    let text = word.to_string();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let inner = inner.ok_or_else(|| args.error("has flags that are not in brackets"))?;
    let flags = inner.split(',').map(str::trim).filter(|flag| !flag.is_empty());
    Ok(flags.map(str::to_owned).collect())
}
