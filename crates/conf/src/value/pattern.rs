//! Patterns with PCRE's meaning: in linear time where both engines mean the same, else with PCRE2.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::ValueError;
use super::dollar;
use super::literal::Literal;
use super::required::Required;
use super::subset;
use crate::tree::printable;

/// Keeps a pattern that backtracks without end from keeping a thread: so many steps take some milliseconds.
const LIMIT: u32 = 1_000_000;

/// How large a pattern may become for linear time, in bytes.
const BYTES_MAX: usize = 10 * 1024 * 1024;

/// The same for a limited one: so much, and so much more for each byte of its text.
const LIMITED_BYTES: usize = 8 * 1024;
const LIMITED_BYTES_PER_BYTE: usize = 128;

/// Steps of a limited pattern in one subject. PCRE2 counts the steps from each start in the subject apart, so that the
/// limit for one start must be lower in a long subject.
const LIMITED_STEPS_MAX: usize = 10_000_000;

/// Memory of a compiled pattern, in bytes, and for each byte of its text. These are measured sizes, rounded up.
const LITERAL_BYTES: usize = 192;
const LINEAR_BYTES: (usize, usize) = (8 * 1024, 64);
const BACKTRACKING_BYTES: (usize, usize) = (3 * 1024, 48);
const ON_DEMAND_BYTES: (usize, usize) = (320, 3);

/// The length of a pattern, multiplied by that of a subject, up to which a match takes some microseconds at most.
const QUICK_PRODUCT_MAX: usize = 4096;

/// Whose patterns these are: one text does not match the same subjects in each language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// nginx: `.` does not match a line end, and `$` also matches in front of a final one.
    Nginx,
    /// Apache: `.` matches every byte, `$` matches at the very end only, and group names may repeat (what
    /// `RegexDefaultOptions` is unless a server changes it).
    Apache,
    /// Apache's `Substitute`: as [`Language::Apache`], but `.` does not match a line end.
    ApacheLines,
}

impl Language {
    fn dot_matches_line_end(self) -> bool {
        self == Language::Apache
    }

    /// Whether `$` also matches in front of a final line end.
    fn dollar_matches_before_line_end(self) -> bool {
        self == Language::Nginx
    }
}

/// A compiled pattern. Bytes are bytes: there is no Unicode unless the pattern asks PCRE2 for it.
pub struct Pattern {
    text: Box<[u8]>,
    language: Language,
    case_insensitive: bool,
    names: Box<[Option<Box<str>>]>,
    limit: u32,
    /// Whether the pattern comes from a file that is not trusted.
    is_limited: bool,
    engine: Engine,
}

/// Why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The message for the administrator.
    pub message: String,
    /// Which byte of the pattern is wrong.
    pub offset: usize,
}

/// A pattern backtracked more than it may, so nothing is known about a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pattern takes too many steps")]
pub struct TooManySteps;

enum Engine {
    Literal(Literal),
    /// `$` means the very end here, but for nginx also the place before a final newline: subjects that end in
    /// one go to `for_newline`.
    Linear {
        regex: regex::bytes::Regex,
        for_newline: OnceLock<Option<pcre2::bytes::Regex>>,
    },
    Backtracking(pcre2::bytes::Regex),
    /// A linear pattern that is compiled for each subject that contains this text. Other subjects do not match.
    OnDemand(Literal),
}

/// Where the groups of a pattern matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
    /// Start and end offsets by group; group 0 is the whole match, `None` a group that took no part.
    pub groups: Vec<Option<(u32, u32)>>,
}

impl Captures {
    /// The bytes of a group, out of the subject that was matched.
    pub fn get<'s>(&self, group: usize, subject: &'s [u8]) -> Option<&'s [u8]> {
        let (start, end) = (*self.groups.get(group)?)?;
        subject.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`ValueError::Pattern`] with PCRE2's message.
    pub fn new(text: &[u8], case_insensitive: bool, language: Language) -> Result<Pattern, ValueError> {
        let source = Source { text, case_insensitive, language };
        let compiled = source.compile(LIMIT, BYTES_MAX)?;
        Ok(Pattern { is_limited: false, ..source.pattern(compiled, LIMIT) })
    }

    /// As [`Pattern::new`], for untrusted patterns: with its own limit for backtracking, and small
    /// besides their text.
    ///
    /// # Errors
    /// [`ValueError::Pattern`] with PCRE2's message.
    pub fn limited(
        text: &[u8],
        case_insensitive: bool,
        language: Language,
        limit: u32,
    ) -> Result<Pattern, ValueError> {
        let source = Source { text, case_insensitive, language };
        let compiled = match source.literal() {
            Some(literal) => (Engine::Literal(literal), Box::from([None])),
            None => source.compile(limit, source.limited_bytes())?,
        };
        Ok(source.pattern(compiled, limit))
    }

    /// As [`Pattern::limited`], in little memory where each match contains a known text: such a pattern is compiled for each
    /// subject that contains the text, in some 100 microseconds.
    ///
    /// # Errors
    /// [`ValueError::Pattern`] with PCRE2's message.
    pub fn on_demand(
        text: &[u8],
        case_insensitive: bool,
        language: Language,
        limit: u32,
    ) -> Result<Pattern, ValueError> {
        let source = Source { text, case_insensitive, language };
        // Only counted repetitions can make a pattern too large to compile.
        let is_small = source.literal().is_none() && !text.contains(&b'{');
        let required = if is_small { source.required() } else { None };
        let Some(Required { text: required, names }) = required else {
            return Pattern::limited(text, case_insensitive, language, limit);
        };
        let engine = Engine::OnDemand(Literal::anywhere(required, case_insensitive));
        Ok(source.pattern((engine, names.into()), limit))
    }

    /// About how much memory the compiled pattern takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        let (base, per_byte) = match self.engine {
            Engine::Literal(_) => (LITERAL_BYTES, 2),
            Engine::Linear { .. } => LINEAR_BYTES,
            Engine::Backtracking(_) => BACKTRACKING_BYTES,
            Engine::OnDemand(_) => ON_DEMAND_BYTES,
        };
        base.saturating_add(per_byte.saturating_mul(self.text.len()))
    }

    /// Whether a match in this subject cannot take more than some microseconds.
    pub fn is_quick(&self, subject: &[u8]) -> bool {
        let product = self.text.len().max(1).saturating_mul(subject.len());
        let repeats = self.text.contains(&b'{');
        match &self.engine {
            Engine::Literal(_) => product <= QUICK_PRODUCT_MAX,
            Engine::Linear { .. } => product <= QUICK_PRODUCT_MAX && !repeats,
            Engine::OnDemand(text) => product <= QUICK_PRODUCT_MAX && text.find(subject).is_none(),
            Engine::Backtracking(_) => false,
        }
    }

    /// Whether the pattern matches anywhere in the subject. Reaching the match limit is no match.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.try_is_match(subject).unwrap_or(false)
    }

    /// As [`Pattern::is_match`], telling a match that was not found from one that was not looked for to the end.
    ///
    /// # Errors
    /// [`TooManySteps`].
    pub fn try_is_match(&self, subject: &[u8]) -> Result<bool, TooManySteps> {
        match self.engine_for(subject) {
            Some(Chosen::Linear(regex)) => Ok(regex.is_match(subject)),
            Some(Chosen::LinearOnce(regex)) => Ok(regex.is_match(subject)),
            Some(Chosen::Backtracking(regex)) => regex.is_match(subject).map_err(|_| TooManySteps),
            Some(Chosen::Once(regex)) => regex.is_match(subject).map_err(|_| TooManySteps),
            Some(Chosen::Literal(literal)) => Ok(literal.find(subject).is_some()),
            None => Ok(false),
        }
    }

    /// As [`Pattern::is_match`]; on a match, and only then, fills the captures with every group's place.
    pub fn captures(&self, subject: &[u8], captures: &mut Captures) -> bool {
        self.try_captures(subject, captures).unwrap_or(false)
    }

    /// As [`Pattern::captures`], telling a match that was not found from one that was not looked for to the end.
    ///
    /// # Errors
    /// [`TooManySteps`].
    pub fn try_captures(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, TooManySteps> {
        let found = match self.engine_for(subject) {
            Some(Chosen::Linear(regex)) => search(regex, subject, captures),
            Some(Chosen::LinearOnce(regex)) => search(&regex, subject, captures),
            Some(Chosen::Backtracking(regex)) => backtrack(regex, subject, captures)?,
            Some(Chosen::Once(regex)) => backtrack(&regex, subject, captures)?,
            Some(Chosen::Literal(literal)) => match literal.find(subject) {
                Some(place) => captures.fill([Some(place)]),
                None => false,
            },
            None => false,
        };
        Ok(found)
    }

    /// Names of the groups by number; group 0 has none.
    pub fn names(&self) -> &[Option<Box<str>>] {
        &self.names
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether subjects are matched in linear time (but for those of nginx that end in a newline).
    pub fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear { .. } | Engine::Literal(_) | Engine::OnDemand(_))
    }

    /// The pattern for an automaton of several, where it can be a part of one.
    pub(super) fn linear_text(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.text).ok().filter(|_| self.is_linear())?;
        let dot = if self.language.dot_matches_line_end() { "s" } else { "" };
        Some(format!("(?{dot}{}:{text})", if self.case_insensitive { "i" } else { "" }))
    }

    fn source(&self) -> Source<'_> {
        Source { text: &self.text, case_insensitive: self.case_insensitive, language: self.language }
    }

    fn engine_for(&self, subject: &[u8]) -> Option<Chosen<'_>> {
        if u32::try_from(subject.len()).is_err() {
            return None;
        }
        match &self.engine {
            Engine::Literal(literal) => Some(Chosen::Literal(literal)),
            Engine::OnDemand(text) if text.find(subject).is_none() => None,
            Engine::OnDemand(_) if self.is_before_line_end(subject) => self.compiled_once(subject),
            Engine::OnDemand(_) => {
                let source = self.source();
                match source.linear(source.limited_bytes()) {
                    Some(regex) => Some(Chosen::LinearOnce(Box::new(regex))),
                    None => self.compiled_once(subject),
                }
            }
            Engine::Backtracking(_) if self.limit_for(subject) < self.limit => self.compiled_once(subject),
            Engine::Backtracking(regex) => Some(Chosen::Backtracking(regex)),
            Engine::Linear { .. } if self.is_before_line_end(subject) && self.is_limited => {
                self.compiled_once(subject)
            }
            Engine::Linear { for_newline, .. } if self.is_before_line_end(subject) => {
                let compile = || self.source().backtracking(self.limit).ok();
                for_newline.get_or_init(compile).as_ref().map(Chosen::Backtracking)
            }
            Engine::Linear { regex, .. } => Some(Chosen::Linear(regex)),
        }
    }

    /// Whether `$` may match in front of the line end at which this subject ends.
    fn is_before_line_end(&self, subject: &[u8]) -> bool {
        self.language.dollar_matches_before_line_end() && subject.ends_with(b"\n")
    }

    /// The limit of steps from one start in the subject.
    fn limit_for(&self, subject: &[u8]) -> u32 {
        // Without alternatives such a pattern matches at the start of a subject only.
        let has_one_start = self.text.starts_with(b"^") && !self.text.contains(&b'|');
        if !self.is_limited || has_one_start {
            return self.limit;
        }
        let steps = LIMITED_STEPS_MAX / (subject.len() + 1);
        self.limit.min(u32::try_from(steps).unwrap_or(u32::MAX))
    }

    /// The pattern for one rare subject, compiled for it alone: files that are not trusted must not fill the memory.
    fn compiled_once(&self, subject: &[u8]) -> Option<Chosen<'_>> {
        let regex = self.source().backtracking(self.limit_for(subject)).ok()?;
        Some(Chosen::Once(Box::new(regex)))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source().hash(state);
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = if self.case_insensitive { "i" } else { "" };
        write!(f, "Pattern(/{}/{flag})", printable(&self.text))
    }
}

enum Chosen<'p> {
    Linear(&'p regex::bytes::Regex),
    LinearOnce(Box<regex::bytes::Regex>),
    Backtracking(&'p pcre2::bytes::Regex),
    Once(Box<pcre2::bytes::Regex>),
    Literal(&'p Literal),
}

/// Group names by number; group 0 has none.
type Names = Box<[Option<Box<str>>]>;

/// What a pattern is compiled from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Source<'p> {
    text: &'p [u8],
    case_insensitive: bool,
    language: Language,
}

impl Source<'_> {
    fn literal(self) -> Option<Literal> {
        Literal::parse(self.text, self.case_insensitive, self.language.dollar_matches_before_line_end())
    }

    /// The limited pattern that this was compiled to.
    fn pattern(self, (engine, names): (Engine, Names), limit: u32) -> Pattern {
        let Source { text, case_insensitive, language } = self;
        Pattern { text: text.into(), language, case_insensitive, names, limit, is_limited: true, engine }
    }

    /// How large a limited pattern may become for linear time.
    fn limited_bytes(self) -> usize {
        LIMITED_BYTES + LIMITED_BYTES_PER_BYTE * self.text.len()
    }

    /// Repetitions make a pattern large; one that would be too large for linear time is left to PCRE2, which keeps it small.
    fn compile(self, limit: u32, bytes_max: usize) -> Result<(Engine, Names), ValueError> {
        if let Some(regex) = self.linear(bytes_max) {
            let names = regex.capture_names().map(|name| name.map(Box::from)).collect();
            return Ok((Engine::Linear { regex, for_newline: OnceLock::new() }, names));
        }
        let regex = self.backtracking(limit)?;
        let names = regex.capture_names().iter().map(|name| name.as_deref().map(Box::from)).collect();
        Ok((Engine::Backtracking(regex), names))
    }

    /// The pattern as text, if both engines mean the same by it.
    fn common_text(&self) -> Option<&str> {
        std::str::from_utf8(self.text).ok().filter(|text| subset::means_the_same(text.as_bytes()))
    }

    /// What is known of the pattern without compiling it, if each match contains a known text.
    fn required(self) -> Option<Required> {
        Required::of(self.common_text()?)
    }

    fn linear(self, bytes_max: usize) -> Option<regex::bytes::Regex> {
        let mut builder = regex::bytes::RegexBuilder::new(self.common_text()?);
        builder.unicode(false).case_insensitive(self.case_insensitive);
        builder.dot_matches_new_line(self.language.dot_matches_line_end()).size_limit(bytes_max).build().ok()
    }

    fn backtracking(self, limit: u32) -> Result<pcre2::bytes::Regex, ValueError> {
        if self.language.dollar_matches_before_line_end() {
            return self.pcre2(self.text, limit);
        }
        // A message is about the pattern as it was written.
        self.pcre2(&dollar::at_very_end(self.text), limit)
            .map_err(|wrong| self.pcre2(self.text, limit).err().unwrap_or(wrong))
    }

    fn pcre2(self, text: &[u8], limit: u32) -> Result<pcre2::bytes::Regex, ValueError> {
        let prefix = format!("(*LIMIT_MATCH={limit})");
        let mut source = prefix.clone();
        for chunk in text.utf8_chunks() {
            source.push_str(chunk.valid());
            for byte in chunk.invalid() {
                source.push_str(&format!("\\x{byte:02X}"));
            }
        }
        let mut builder = pcre2::bytes::RegexBuilder::new();
        builder.caseless(self.case_insensitive).dotall(self.language.dot_matches_line_end());
        builder.jit_if_available(true).build(&source).map_err(|error| {
            let words = error.to_string();
            let words = words.rsplit_once(": ").map_or(words.as_str(), |(_, last)| last);
            let rest = error.offset().and_then(|offset| source.get(offset..)).filter(|rest| !rest.is_empty());
            let place =
                rest.map(|rest| format!(" at \"{}\"", printable(rest.as_bytes()))).unwrap_or_default();
            let shown = printable(text);
            let message = format!("pcre2_compile() failed: {words} in \"{shown}\"{place}");
            let offset = error.offset().unwrap_or(0).saturating_sub(prefix.len()).min(text.len());
            ValueError::Pattern(Wrong { message, offset })
        })
    }
}

fn search(regex: &regex::bytes::Regex, subject: &[u8], captures: &mut Captures) -> bool {
    if regex.captures_len() == 1 {
        return regex.find(subject).is_some_and(|found| captures.fill([Some((found.start(), found.end()))]));
    }
    let mut places = regex.capture_locations();
    let found = regex.captures_read(&mut places, subject).is_some();
    found && captures.fill((0..places.len()).map(|group| places.get(group)))
}

fn backtrack(
    regex: &pcre2::bytes::Regex,
    subject: &[u8],
    captures: &mut Captures,
) -> Result<bool, TooManySteps> {
    let mut places = regex.capture_locations();
    let found = regex.captures_read(&mut places, subject).map_err(|_| TooManySteps)?;
    Ok(found.is_some() && captures.fill((0..places.len()).map(|group| places.get(group))))
}

impl Captures {
    /// Always true, as what fills them is a match.
    fn fill(&mut self, places: impl IntoIterator<Item = Option<(usize, usize)>>) -> bool {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.groups.clear();
        self.groups.extend(places.into_iter().map(|place| place.map(|(s, e)| (offset(s), offset(e)))));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(pattern: &str, subject: &str) -> Option<Vec<Option<(u32, u32)>>> {
        let mut captures = Captures::default();
        let pattern = Pattern::new(pattern.as_bytes(), false, Language::Nginx).unwrap();
        pattern.captures(subject.as_bytes(), &mut captures).then_some(captures.groups)
    }

    #[test]
    fn plain_patterns_are_linear_and_the_others_are_not() {
        for linear in [r"\.php$", r"^/(.+)/([a-z0-9_-]+)$", r"\.(?:jpe?g|png)$", r"(?<a>\d{1,3})", r"(?i)x"] {
            assert!(Pattern::new(linear.as_bytes(), false, Language::Nginx).unwrap().is_linear(), "{linear}");
        }
        for other in [r"^/(?!admin)", r"(.)\1", r"a++", r"[[:alpha:]]", r"\v", r"a{,2}", "é+", r"(a*)*"] {
            assert!(!Pattern::new(other.as_bytes(), false, Language::Nginx).unwrap().is_linear(), "{other}");
        }
    }

    #[test]
    fn line_ends_in_each_language() {
        let lookahead = "(?=.)";
        for (text, subject, expected) in [
            (r"\.php$", "/x.php", [true, true, true]),
            (r"\.php$", "/x.php\n", [true, false, false]),
            (r"\.php$", "/x.php\n\n", [false, false, false]),
            (r"\.php$", "/x.php\r", [false, false, false]),
            (r"\.php\Z", "/x.php\n", [true, true, true]),
            ("^a.b", "a\nb", [false, true, false]),
            ("^a.*$", "a\n\n", [false, true, false]),
            ("^a.*$", "a\r", [true, true, true]),
            ("(?-s)^a.b", "a\nb", [false, false, false]),
            ("(?m)^b$", "a\nb\nc", [true, true, true]),
            ("(?<n>a)|(?<m>b$)", "b\n", [true, false, false]),
        ] {
            for (language, expected) in
                [Language::Nginx, Language::Apache, Language::ApacheLines].into_iter().zip(expected)
            {
                for text in [text.to_owned(), format!("{lookahead}(?:{text})")] {
                    let pattern = Pattern::new(text.as_bytes(), false, language).unwrap();
                    assert_eq!(
                        pattern.is_match(subject.as_bytes()),
                        expected,
                        "{language:?} {text} {subject:?}"
                    );
                    let pattern = Pattern::limited(text.as_bytes(), false, language, LIMIT).unwrap();
                    assert_eq!(
                        pattern.is_match(subject.as_bytes()),
                        expected,
                        "{language:?} {text} {subject:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn group_names_repeat_in_apache_only() {
        let compile = |language| Pattern::new(b"(?<n>a)(?<n>b)", false, language);
        assert!(compile(Language::Nginx).is_err());
        assert!(compile(Language::Apache).unwrap().is_match(b"ab"));
    }

    #[test]
    fn groups_and_their_names() {
        assert_eq!(groups("a(b)?(c)", "xac"), Some(vec![Some((1, 3)), None, Some((2, 3))]));
        assert_eq!(groups("(?=a)(a)", "xa"), Some(vec![Some((1, 2)), Some((1, 2))]));
        assert_eq!(groups("b", "abc"), Some(vec![Some((1, 2))]));
        assert_eq!(groups("b", "xyz"), None);
        for text in ["(?<year>[0-9]+)-(?P<day>x)(y)", "(?<year>[0-9]+)-(?P<day>x)(?=y)(y)"] {
            let pattern = Pattern::new(text.as_bytes(), false, Language::Nginx).unwrap();
            let names: Vec<_> = pattern.names().iter().map(|name| name.as_deref().unwrap_or("")).collect();
            assert_eq!(names, ["", "year", "day", ""]);
        }
    }

    #[test]
    fn captures_stay_as_they_were_without_a_match() {
        let mut captures = Captures::default();
        assert!(Pattern::new(b"(b)", false, Language::Nginx).unwrap().captures(b"abc", &mut captures));
        assert!(!Pattern::new(b"(x)", false, Language::Nginx).unwrap().captures(b"abc", &mut captures));
        assert_eq!(captures.get(1, b"abc"), Some(&b"b"[..]));
        assert_eq!(captures.get(2, b"abc"), None);
    }

    #[test]
    fn case_and_bytes() {
        assert!(Pattern::new(b"^/A", true, Language::Nginx).unwrap().is_match(b"/a"));
        assert!(!Pattern::new(b"^/A", false, Language::Nginx).unwrap().is_match(b"/a"));
        assert!(Pattern::new(b"^\xFF.$", false, Language::Nginx).unwrap().is_match(b"\xFF\xFE"));
        assert!(Pattern::new(br"^\xFF.$", false, Language::Nginx).unwrap().is_match(b"\xFF\xFE"));
    }

    #[test]
    fn endless_backtracking_is_no_match() {
        let pattern = Pattern::new(br"^(a+)+$(?=)", false, Language::Nginx).unwrap();
        assert!(!pattern.is_linear());
        let subject = [&[b'a'; 64][..], b"b"].concat();
        assert!(!pattern.is_match(&subject));
        assert_eq!(pattern.try_captures(&subject, &mut Captures::default()), Err(TooManySteps));
    }

    #[test]
    fn limited_patterns_are_small_beside_their_text() {
        let is_linear =
            |text: &str| Pattern::limited(text.as_bytes(), true, Language::Nginx, LIMIT).unwrap().is_linear();
        let names: Vec<_> = (0..300).map(|n| format!("badbot{n}")).collect();
        assert!(is_linear(&format!("^.*({}).*$", names.join("|"))));
        assert!(is_linear("^[a-z0-9_-]{1,64}/([0-9]{4})/?$") && is_linear("^wp-(?:content|includes)/.+$"));
        assert!(!is_linear("(a{100}){80}"));
        assert!(Pattern::new(b"(a{100}){80}", false, Language::Nginx).unwrap().is_linear());
    }

    /// PCRE2 counts the steps from each start apart: 900 steps are few, but not 60,000 times.
    #[test]
    fn the_limit_is_lower_in_long_subjects() {
        let pattern = Pattern::limited(b"(?:a(?:)){0,900}(?=x)", false, Language::Nginx, 20_000).unwrap();
        let found = |length: usize| pattern.try_captures(&vec![b'a'; length], &mut Captures::default());
        assert_eq!((found(400), found(60_000)), (Ok(false), Err(TooManySteps)));
        let pattern = Pattern::limited(b"^(?=a).*b", false, Language::Nginx, 20_000).unwrap();
        assert_eq!(pattern.try_captures(&[b'a'; 8000], &mut Captures::default()), Ok(false));
    }

    #[test]
    fn literals_take_little_memory() {
        let size = |text: &str| {
            Pattern::limited(text.as_bytes(), false, Language::Nginx, LIMIT).unwrap().size_bytes()
        };
        assert!(size("^old-page/?$") < 300 && size(r"^a\.html$") < 300);
        assert!(size("^(.*)$") > 4096 && size("^(?!x)") > 2048);
    }

    #[test]
    fn patterns_on_demand_match_as_before_and_take_little_memory() {
        let text = r"^http(s)?://(www.)?.*bad-site\.com.*$";
        for language in [Language::Nginx, Language::Apache] {
            let limited = Pattern::limited(text.as_bytes(), true, language, LIMIT).unwrap();
            let on_demand = Pattern::on_demand(text.as_bytes(), true, language, LIMIT).unwrap();
            assert!(on_demand.size_bytes() * 20 < limited.size_bytes() && on_demand == limited);
            assert_eq!(on_demand.names(), limited.names());
            for subject in [
                "https://www.x.BAD-site.com/",
                "ftp://bad-site.com",
                "http://good.com",
                "http://a.bad-site.com\n",
            ] {
                let mut captures = [Captures::default(), Captures::default()];
                let [first, second] = &mut captures;
                let found = limited.captures(subject.as_bytes(), first);
                assert_eq!(on_demand.captures(subject.as_bytes(), second), found, "{subject}");
                assert_eq!(on_demand.is_match(subject.as_bytes()), found, "{subject}");
                assert_eq!(captures[0], captures[1], "{subject}");
            }
        }
        let other = |text: &[u8]| Pattern::on_demand(text, false, Language::Apache, LIMIT);
        assert!(!other(b"(?=wordpress)").unwrap().is_linear() && other(b"(wordpress").is_err());
    }

    #[test]
    fn errors_name_the_place() {
        let error =
            |text: &str| Pattern::new(text.as_bytes(), false, Language::Nginx).unwrap_err().to_string();
        let in_apache = Pattern::new(b"a$b**c", false, Language::Apache).unwrap_err().to_string();
        assert!(in_apache.ends_with("in \"a$b**c\" at \"*c\""), "{in_apache}");
        assert_eq!(error("(a"), "pcre2_compile() failed: missing closing parenthesis in \"(a\"");
        assert_eq!(
            error("a**b"),
            "pcre2_compile() failed: quantifier does not follow a repeatable item in \"a**b\" at \"*b\""
        );
    }

    /// Pieces of patterns, joined at random: most are not well-formed, and those must be judged alike too.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[ab./1:=-]",
            1 => prop::sample::select(vec![
                "(", ")", "(?:", "(?<n>", "|", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{,2}", "{", "}", "^", "$",
                "[", "]", "[^a]", "[a-c1]", ".", r"\d", r"\w", r"\S", r"\b", r"\B", r"\.", r"\/", r"\x61", r"\n",
                "(a|b)", "(b)?", "(a|ab)", "-", "&&", r"\A", r"\z", "\n", "(?i)", "A", "?:", r"[\d.]", "(a?)",
            ]).prop_map(str::to_owned),
        ];
        proptest::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    fn languages() -> impl Strategy<Value = Language> {
        prop::sample::select(vec![Language::Nginx, Language::Apache, Language::ApacheLines])
    }

    fn groups_of(engine: Engine, source: Source<'_>, subject: &str) -> Option<Vec<Option<(u32, u32)>>> {
        let count = match &engine {
            Engine::Literal(_) | Engine::OnDemand(_) => 1,
            Engine::Linear { regex, .. } => regex.captures_len(),
            Engine::Backtracking(regex) => regex.captures_len(),
        };
        let names = vec![None; count].into();
        let Source { text, case_insensitive, language } = source;
        let (text, limit) = (text.into(), LIMIT);
        let pattern = Pattern { text, language, case_insensitive, names, limit, is_limited: false, engine };
        let mut captures = Captures::default();
        let found = pattern.captures(subject.as_bytes(), &mut captures);
        assert_eq!(found, pattern.is_match(subject.as_bytes()));
        found.then_some(captures.groups)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn both_engines_agree(
            text in pieces(), subject in "[abA./1_é\r\n-]{0,12}", case_insensitive: bool, language in languages(),
        ) {
            let source = Source { text: text.as_bytes(), case_insensitive, language };
            if let Some(regex) = source.linear(BYTES_MAX) {
                let other = source.backtracking(LIMIT);
                prop_assert!(other.is_ok(), "PCRE2 refuses {text}");
                let exact = Engine::Backtracking(other.unwrap());
                let linear = Engine::Linear { regex, for_newline: OnceLock::new() };
                let expected = groups_of(exact, source, &subject);
                prop_assert_eq!(groups_of(linear, source, &subject), expected, "{} on {:?}", text, subject);
            }
        }

        #[test]
        fn literals_agree_with_pcre(
            text in r"\^?([abA/-]|\\[.]){0,4}(/\?)?\$?", subject in "[abA/.-]{0,8}\n?", case_insensitive: bool,
            language in languages(),
        ) {
            let source = Source { text: text.as_bytes(), case_insensitive, language };
            let literal = source.literal();
            prop_assert!(literal.is_some(), "{text}");
            let exact = Engine::Backtracking(source.backtracking(LIMIT).unwrap());
            let expected = groups_of(exact, source, &subject);
            let literal = Engine::Literal(literal.unwrap());
            prop_assert_eq!(groups_of(literal, source, &subject), expected, "{} {:?}", text, subject);
        }

        #[test]
        fn any_pattern_is_compiled_or_refused(
            text in proptest::collection::vec(any::<u8>(), 0..20),
            subject in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            if let Ok(pattern) = Pattern::new(&text, false, Language::Nginx) {
                let mut captures = Captures::default();
                prop_assert_eq!(pattern.is_match(&subject), pattern.captures(&subject, &mut captures));
            }
        }
    }
}
