//! `RewriteCond`.

use super::context::{Context, Match};
use super::rule::flag_texts;
use super::text::Text;
use crate::shared::apache::bounded::{Failure, find};
use crate::shared::apache::expression::Expression;
use crate::shared::apache::place::Place;
use crate::shared::apache::{pattern, variables};
use conf::tree::printable;
use conf::value::{Captures, Pattern};
use conf::{Diagnostic, Word};
use contract::{Args, Event, Loading, Spent};
use std::cmp::Ordering;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// What must hold for a rule.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    place: Place,
    text: Text,
    test: Test,
    negated: bool,
    ignore_case: bool,
    /// Whether it asks what is at the path of the request's file.
    pub(super) is_about_file: bool,
    /// Whether this one or the next is enough.
    pub(super) or_next: bool,
    /// The headers that it depends on, unless it has the flag `NV`.
    pub(super) fields: Box<[Box<str>]>,
}

/// Whether conditions hold, each of which or the next is enough where it says so.
pub(super) fn all_hold<E>(
    conditions: &[Arc<Condition>],
    mut holds: impl FnMut(&Condition) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut conditions = conditions.iter();
    while let Some(condition) = conditions.next() {
        match (holds(condition)?, condition.or_next) {
            (false, false) => return Ok(false),
            (false, true) | (true, false) => {}
            (true, true) => {
                // The rest of the alternatives need not be asked.
                let mut or_next = true;
                while or_next && let Some(skipped) = conditions.next() {
                    or_next = skipped.or_next;
                }
            }
        }
    }
    Ok(true)
}

#[derive(Clone, Debug)]
enum Test {
    Pattern(Arc<Pattern>),
    Equal(Box<[u8]>),
    Compare(&'static [Ordering], Box<[u8]>),
    Number(&'static [Ordering], i64),
    File,
    Directory,
    FileWithContent,
    Link,
    Executable,
    Expression(Arc<Expression>),
    /// A file, or a URL, that a request may have.
    Accessible,
    Url,
}

impl Condition {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Condition, Diagnostic> {
        let (mut or_next, mut ignore_case, mut varies) = (false, false, true);
        for flag in flag_texts(args)? {
            match flag.to_ascii_uppercase().as_str() {
                "NC" | "NOCASE" => ignore_case = true,
                "OR" | "ORNEXT" => or_next = true,
                "NV" | "NOVARY" => varies = false,
                _ => return Err(args.error(&format!("has an unknown flag \"{flag}\""))),
            }
        }
        let (first, word) = (args.word(0)?, args.word(1)?);
        let place = Place::new(args, loading);
        if first.text.eq_ignore_ascii_case(b"expr") {
            let expression = Expression::parse(args, loading, std::slice::from_ref(word))?;
            let test = Test::Expression(Arc::new(expression));
            let text = Text::parse(args, first, b"")?;
            let (negated, is_about_file, fields) = (false, false, Box::default());
            return Ok(Condition { place, text, test, negated, ignore_case, is_about_file, or_next, fields });
        }
        let (text, negated) = match word.text.strip_prefix(b"!") {
            Some(text) => (text, true),
            None => (&*word.text, false),
        };
        let test = parse_test(args, loading, word, text, ignore_case)?;
        let text = Text::parse(args, first, &first.text)?;
        let is_about_file = text.is_filename() && test.is_about_metadata();
        let fields = if varies { text.fields() } else { Box::default() };
        Ok(Condition { place, text, test, negated, ignore_case, is_about_file, or_next, fields })
    }

    /// What an explanation says where it does not hold.
    pub(super) fn event(&self, context: &Context<'_>) -> Event {
        let subject = self.text.value(context).unwrap_or_default();
        let value = match self.test {
            Test::Expression(_) => String::new(),
            _ => format!(" for \"{}\"", printable(&subject)),
        };
        self.place.event("condition", format!("does not hold{value}"))
    }

    /// Whether it has groups of the rule's pattern.
    pub(super) fn uses_groups(&self) -> bool {
        self.text.uses_groups()
    }

    /// Whether it holds, if this is at the path of the request's file and it asks for nothing else.
    pub(super) fn holds_for(&self, traits: Traits) -> bool {
        self.test.holds_for(traits) != self.negated
    }

    /// Whether it holds; what its pattern captures is kept in `found`.
    pub(super) fn holds(&self, context: &Context<'_>, found: &mut Option<Match>) -> Result<bool, Failure> {
        // Without a path info, a file that is there is the one that the request asks for.
        if self.is_about_file
            && context.path_info.is_none()
            && let Some(Some(metadata)) = variables::own_file(context.exchange, context.filename)
        {
            context.budget.step(context.filename.len())?;
            return Ok(self.holds_for(Traits::of(metadata)));
        }
        let subject = self.text.value(context)?;
        let holds = match &self.test {
            Test::Pattern(pattern) => {
                let mut captures = Captures::default();
                let matched = find(pattern, &subject, &mut captures, context.budget)?;
                if matched && !self.negated {
                    *found = Some(Match { subject: subject.into_owned(), captures });
                }
                matched
            }
            Test::Expression(expression) => {
                let file = context.path_info.map(|info| (context.filename, info));
                let captured = expression.captures(context.exchange, context.budget, file)?;
                let holds = captured.is_some();
                // An expression without a pattern leaves what another condition captured.
                let captured = captured.filter(|(_, subject)| !subject.is_empty() && !self.negated);
                *found = captured.map(|(captures, subject)| Match { subject, captures });
                holds
            }
            Test::Equal(text) if self.ignore_case => subject.eq_ignore_ascii_case(text),
            Test::Equal(text) => *subject == **text,
            // As in Apache a longer text is greater.
            Test::Compare(wanted, text) => {
                wanted.contains(&subject.len().cmp(&text.len()).then_with(|| subject[..].cmp(text)))
            }
            Test::Number(wanted, value) => wanted.contains(&variables::number(&subject).cmp(value)),
            Test::Url => !subject.is_empty() && !crate::shared::apache::lookup::is_lookup(context.exchange),
            _ if !variables::is_inside(context.exchange, &subject) => false,
            test => test.of_file(&subject, context)?,
        };
        Ok(holds != self.negated)
    }
}

fn parse_test(
    args: &Args<'_>,
    loading: &mut Loading,
    word: &Word,
    text: &[u8],
    ignore_case: bool,
) -> Result<Test, Diagnostic> {
    use Ordering::{Equal, Greater, Less};
    let compare = |orderings, count: usize| Test::Compare(orderings, text[count..].into());
    Ok(match text {
        b"-f" => Test::File,
        b"-d" => Test::Directory,
        b"-s" => Test::FileWithContent,
        b"-l" | b"-h" | b"-L" => Test::Link,
        b"-x" => Test::Executable,
        b"-F" => Test::Accessible,
        b"-U" => Test::Url,
        // A sign alone is a pattern.
        [b'>' | b'<' | b'='] => Test::Pattern(pattern(args, loading, word, text, ignore_case)?),
        [b'>', b'=', ..] => compare(&[Greater, Equal], 2),
        [b'<', b'=', ..] => compare(&[Less, Equal], 2),
        [b'>', ..] => compare(&[Greater], 1),
        [b'<', ..] => compare(&[Less], 1),
        // Two quotes stand for an empty text.
        b"=\"\"" => Test::Equal(Box::default()),
        [b'=', rest @ ..] => Test::Equal(rest.into()),
        [b'-', a, b, rest @ ..] if !rest.is_empty() && comparison(*a, *b).is_some() => {
            Test::Number(comparison(*a, *b).unwrap_or_default(), variables::number(rest))
        }
        text => Test::Pattern(pattern(args, loading, word, text, ignore_case)?),
    })
}

/// `-eq`, `-ne`, `-lt`, `-le`, `-gt` and `-ge`.
fn comparison(a: u8, b: u8) -> Option<&'static [Ordering]> {
    use Ordering::{Equal, Greater, Less};
    match &[a, b] {
        b"eq" => Some(&[Equal]),
        b"ne" => Some(&[Less, Greater]),
        b"lt" => Some(&[Less]),
        b"le" => Some(&[Less, Equal]),
        b"gt" => Some(&[Greater]),
        b"ge" => Some(&[Greater, Equal]),
        _ => None,
    }
}

impl Test {
    /// Whether it asks what is at a path, behind links.
    fn is_about_metadata(&self) -> bool {
        use Test::{Accessible, Directory, Executable, File, FileWithContent};
        matches!(self, File | Directory | FileWithContent | Executable | Accessible)
    }

    fn holds_for(&self, traits: Traits) -> bool {
        match self {
            Test::File => traits.have(Traits::FILE),
            Test::Accessible => true,
            Test::Directory => traits.have(Traits::DIRECTORY),
            Test::FileWithContent => traits.have(Traits::FILE | Traits::CONTENT),
            Test::Executable => traits.have(Traits::FILE | Traits::EXECUTABLE),
            Test::Link
            | Test::Expression(_)
            | Test::Pattern(_)
            | Test::Equal(_)
            | Test::Compare(..)
            | Test::Number(..)
            | Test::Url => false,
        }
    }

    fn of_file(&self, path: &[u8], context: &Context<'_>) -> Result<bool, Spent> {
        let holds = |metadata: &Metadata| self.holds_for(Traits::of(metadata));
        let found = match self {
            Test::Link => variables::link_metadata(path, context.budget)?.map(|found| found.is_symlink()),
            _ => variables::with_metadata(context.exchange, path, context.budget, holds)?,
        };
        Ok(found.unwrap_or(false))
    }
}

/// What conditions may ask about what is at a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits(u8);

impl Traits {
    const FILE: u8 = 1;
    const DIRECTORY: u8 = 2;
    const CONTENT: u8 = 4;
    const EXECUTABLE: u8 = 8;

    pub(super) fn of(metadata: &Metadata) -> Traits {
        let kind = metadata.file_type();
        let traits = [
            (kind.is_file(), Traits::FILE),
            (kind.is_dir(), Traits::DIRECTORY),
            (metadata.len() > 0, Traits::CONTENT),
            (metadata.permissions().mode() & 0o111 != 0, Traits::EXECUTABLE),
        ];
        Traits(traits.iter().map(|(has, bit)| if *has { *bit } else { 0 }).sum())
    }

    /// All that there may be at a path.
    pub(super) fn all() -> impl Iterator<Item = Traits> {
        (0..=Traits::FILE | Traits::DIRECTORY | Traits::CONTENT | Traits::EXECUTABLE).map(Traits)
    }

    /// A bit for each of [`Traits::all`].
    pub(super) fn bit(self) -> u16 {
        1 << self.0
    }

    fn have(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::{Test, Traits};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn traits_are_those_of_what_is_at_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let tests = [Test::File, Test::Directory, Test::FileWithContent, Test::Executable, Test::Accessible];
        for (path, expected) in [
            (file("empty", "", 0o644), [true, false, false, false, true]),
            (file("full", "x", 0o644), [true, false, true, false, true]),
            (file("program", "x", 0o654), [true, false, true, true, true]),
            (directory.path().to_path_buf(), [false, true, false, false, true]),
            ("/dev/null".into(), [false, false, false, false, true]),
        ] {
            let traits = Traits::of(&fs::metadata(&path).unwrap());
            assert_eq!(tests.each_ref().map(|test| test.holds_for(traits)), expected, "{path:?}");
            assert_eq!(Traits::all().filter(|other| other.bit() == traits.bit()).count(), 1);
        }
    }
}
