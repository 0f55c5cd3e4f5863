//! `RewriteRule`.

use super::context::Escape;
use super::cookie::Cookie;
use super::text::Text;
use crate::shared::apache::place::Place;
use crate::shared::apache::{environment, pattern};
use conf::value::Pattern;
use conf::{Diagnostic, Word};
use contract::{Args, Loading};
use http::Status;
use std::sync::Arc;

/// Rounds of `N`, unless the flag says otherwise.
const ROUNDS_MAX: u32 = 32_000;

/// Common patterns that match every path.
const MATCH_ALL: [&[u8]; 10] =
    [b"", b"^", b".*", b"^.*", b".*$", b"^.*$", b"(.*)", b"^(.*)", b"(.*)$", b"^(.*)$"];

/// A pattern and what replaces a path that matches it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(super) place: Place,
    pub(super) pattern: Arc<Pattern>,
    pub(super) negated: bool,
    /// Whether the pattern matches every path.
    pub(super) matches_all: bool,
    /// None leaves the path alone.
    pub(super) target: Option<Text>,
    pub(super) flags: Flags,
}

/// What else a rule says.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub(super) last: bool,
    pub(super) end: bool,
    /// The rule ends the rewriting, and the path is looked up among the locations.
    pub(super) pass_through: bool,
    /// The status of a redirect or an error.
    pub(super) status: Option<Status>,
    /// `R`: the rule does not count for subrequests.
    pub(super) redirect: bool,
    pub(super) append_args: bool,
    pub(super) discard_args: bool,
    pub(super) last_mark: bool,
    pub(super) no_escape: bool,
    /// How groups are escaped.
    pub(super) escape: Option<Escape>,
    pub(super) chain: bool,
    /// `N`: how many rounds there may be.
    pub(super) rounds: Option<u32>,
    pub(super) skip: usize,
    pub(super) no_subrequest: bool,
    pub(super) discard_path_info: bool,
    /// A question mark of the client's path may start the query.
    pub(super) allow_mark: bool,
    /// `T`: the media type of what is served.
    pub(super) media_type: Option<Text>,
    /// Names with their values; no value takes the variable away.
    pub(super) environment: Vec<(Text, Option<Text>)>,
    pub(super) cookies: Vec<Cookie>,
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
            place: Place::new(args, loading),
            pattern: pattern(args, loading, first, text, ignore_case)?,
            negated,
            matches_all: MATCH_ALL.contains(&text),
            target: if keeps { None } else { Some(Text::parse(args, second, &second.text)?) },
            flags,
        })
    }

    /// Whether all that it does is to end the rules, for any path and any request.
    pub(super) fn only_ends(&self) -> bool {
        let Flags { last, end, pass_through, status, no_subrequest, .. } = self.flags;
        let always_matches = self.matches_all && !self.negated && !no_subrequest;
        let is_plain = self.target.is_none() && status.is_none() && !self.flags.has_settings();
        always_matches && is_plain && last && !end && !pass_through
    }

    /// Whether it may use groups of its pattern, besides its conditions.
    pub(super) fn uses_groups(&self) -> bool {
        self.target.as_ref().is_some_and(Text::uses_groups) || self.flags.has_settings()
    }
}

impl Flags {
    /// The flags, and whether case is ignored.
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<(Flags, bool), Diagnostic> {
        let mut flags = Flags::default();
        let mut ignore_case = false;
        for text in flag_texts(args)? {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text.as_str(), None),
            };
            let name = name.to_ascii_uppercase();
            if matches!(name.as_str(), "NC" | "NOCASE") {
                ignore_case = true;
            } else if !flags.set(&name, value) {
                flags.set_with(args, &name, &text, loading)?;
            }
        }
        flags.escape = flags.escape.filter(|escape| escape.is_on);
        Ok((flags, ignore_case))
    }

    /// Whether the rule sets variables, cookies or the media type.
    pub(super) fn has_settings(&self) -> bool {
        self.media_type.is_some() || !self.environment.is_empty() || !self.cookies.is_empty()
    }

    /// Takes a flag that is a word. As in Apache a value that it needs not has no meaning.
    fn set(&mut self, name: &str, value: Option<&str>) -> bool {
        match (name, value) {
            ("L" | "LAST", _) => self.last = true,
            ("PT" | "PASSTHROUGH", _) => self.pass_through = true,
            ("END", _) => self.end = true,
            ("F" | "FORBIDDEN", _) => self.status = Some(Status::FORBIDDEN),
            ("G" | "GONE", _) => self.status = Some(Status(410)),
            ("QSA" | "QSAPPEND", _) => self.append_args = true,
            ("QSD" | "QSDISCARD", _) => self.discard_args = true,
            ("QSL" | "QSLAST", _) => self.last_mark = true,
            ("NE" | "NOESCAPE", _) => self.no_escape = true,
            ("BNP" | "BACKREFNOPLUS", _) => self.escape.get_or_insert_default().plus = false,
            ("BCTLS", _) => {
                let escape = self.escape.get_or_insert_default();
                (escape.is_on, escape.controls_only) = (true, true);
            }
            ("B" | "BACKREFESCAPING", bytes) => {
                let escape = self.escape.get_or_insert_default();
                escape.is_on = true;
                if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                    escape.only = Some(bytes.as_bytes().into());
                }
            }
            ("BNE", Some(bytes)) => self.escape.get_or_insert_default().except = bytes.as_bytes().into(),
            ("C" | "CHAIN", _) => self.chain = true,
            ("NS" | "NOSUBREQ", _) => self.no_subrequest = true,
            ("DPI" | "DISCARDPATH", _) => self.discard_path_info = true,
            ("UNSAFEALLOW3F", _) => self.allow_mark = true,
            // The path is never taken for one of the file system.
            ("UNSAFEPREFIXSTAT" | "NV" | "NOVARY", _) => {}
            ("N" | "NEXT", None) => self.rounds = Some(ROUNDS_MAX),
            _ => return false,
        }
        true
    }

    /// Takes a flag with a value.
    fn set_with(
        &mut self,
        args: &Args<'_>,
        name: &str,
        text: &str,
        loading: &mut Loading,
    ) -> Result<(), Diagnostic> {
        let value = text.split_once('=').map(|(_, value)| value);
        let bad = || args.error(&format!("has an unknown flag \"{text}\""));
        let word = |text: &str| Word::new(text, args.node.span);
        match (name, value) {
            ("R" | "REDIRECT", value) => {
                self.status = Some(redirection(value).ok_or_else(bad)?);
                self.redirect = true;
            }
            ("N" | "NEXT", Some(count)) => self.rounds = Some(count.parse().map_err(|_| bad())?),
            ("S" | "SKIP", Some(count)) => self.skip = count.parse().map_err(|_| bad())?,
            ("E" | "ENV", Some(value)) => self.environment.push(variable(args, value, loading)?),
            ("CO" | "COOKIE", Some(value)) => self.cookies.push(Cookie::parse(args, value)?),
            ("T" | "TYPE", Some(value)) => {
                self.media_type = Some(Text::parse(args, &word(value), value.as_bytes())?);
            }
            ("P" | "PROXY", _) => {
                let error = args.error("has the flag \"P\", which is not granted to .htaccess files");
                return Err(error.hint("use \"proxy_pass\" in the server's configuration"));
            }
            ("H" | "HANDLER", _) => {
                let error = args.error(&format!("has a flag \"{text}\", which is not granted here"));
                return Err(error.hint("a location of the server's configuration says what runs a program"));
            }
            _ => return Err(bad()),
        }
        Ok(())
    }
}

fn redirection(value: Option<&str>) -> Option<Status> {
    match value {
        None | Some("temp") => Some(Status::FOUND),
        Some("permanent") => Some(Status::MOVED_PERMANENTLY),
        Some("seeother") => Some(Status(303)),
        Some(code) => code.parse().ok().filter(|code| (200..600).contains(code)).map(Status),
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
pub(super) fn flag_texts(args: &Args<'_>) -> Result<Vec<String>, Diagnostic> {
    let Some(word) = args.words().get(2) else { return Ok(Vec::new()) };
    let text = word.to_string();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let inner = inner.ok_or_else(|| args.error("has flags that are not in brackets"))?;
    let flags = inner.split(',').map(str::trim).filter(|flag| !flag.is_empty());
    Ok(flags.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::{MATCH_ALL, Pattern};
    use conf::value::Language;

    #[test]
    fn patterns_that_match_all_do_so() {
        for text in MATCH_ALL {
            let pattern = Pattern::new(text, false, Language::Apache).unwrap();
            assert!([&b""[..], b"a/b", b"\n", b"a\nb", b"\n\n"].iter().all(|path| pattern.is_match(path)));
        }
    }
}
