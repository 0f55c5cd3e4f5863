//! `RewriteCond`.

use super::text::{Context, Match, Text};
use crate::shared::apache::bounded::{Failure, find};
use crate::shared::apache::{pattern, wrong};
use conf::value::Pattern;
use conf::{Diagnostic, Word};
use contract::{Args, Loading};
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// What must hold for a rule.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    text: Text,
    test: Test,
    negated: bool,
    ignore_case: bool,
    /// Whether this one or the next is enough.
    pub(super) or_next: bool,
}

#[derive(Clone, Debug)]
enum Test {
    Pattern(Arc<Pattern>),
    Compare(&'static [Ordering], Text),
    Number(&'static [Ordering], Text),
    File,
    Directory,
    FileWithContent,
    Link,
    Executable,
}

impl Condition {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Condition, Diagnostic> {
        let (mut or_next, mut ignore_case) = (false, false);
        for flag in super::rule::flags(args)? {
            match flag.to_ascii_uppercase().as_str() {
                "NC" | "NOCASE" => ignore_case = true,
                "OR" | "ORNEXT" => or_next = true,
                "NV" | "NOVARY" => {}
                _ => return Err(args.error(&format!("has an unknown flag \"{flag}\""))),
            }
        }
        let (first, word) = (args.word(0)?, args.word(1)?);
        if first.text.eq_ignore_ascii_case(b"expr") {
            return Err(args.error("is not supported with expressions"));
        }
        let (text, negated) = match word.text.strip_prefix(b"!") {
            Some(text) => (text, true),
            None => (&*word.text, false),
        };
        let test = parse_test(args, loading, word, text, ignore_case)?;
        Ok(Condition { text: Text::parse(args, first, &first.text)?, test, negated, ignore_case, or_next })
    }

    /// Whether it holds; what its pattern captures is kept in `found`.
    pub(super) fn holds(&self, context: &Context<'_>, found: &mut Option<Match>) -> Result<bool, Failure> {
        let subject = self.text.evaluate(context)?;
        let holds = match &self.test {
            Test::Pattern(pattern) => {
                let mut found_here = Match { subject, ..Match::default() };
                let matched = find(pattern, &found_here.subject, &mut found_here.captures, context.budget)?;
                if matched && !self.negated {
                    *found = Some(found_here);
                }
                matched
            }
            Test::Compare(wanted, text) => {
                let mut pair = [subject, text.evaluate(context)?];
                if self.ignore_case {
                    pair.iter_mut().for_each(|text| text.make_ascii_lowercase());
                }
                wanted.contains(&pair[0].cmp(&pair[1]))
            }
            Test::Number(wanted, text) => {
                wanted.contains(&number(&subject).cmp(&number(&text.evaluate(context)?)))
            }
            test => context.budget.timed(|| test.of_file(&subject))?,
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
    let compare = |orderings, rest: &[u8]| Ok(Test::Compare(orderings, Text::parse(args, word, rest)?));
    let rest = |count: usize| text.get(count..).unwrap_or_default();
    match text {
        b"-f" => Ok(Test::File),
        b"-d" => Ok(Test::Directory),
        b"-s" => Ok(Test::FileWithContent),
        b"-l" | b"-h" | b"-L" => Ok(Test::Link),
        b"-x" => Ok(Test::Executable),
        b"-U" | b"-F" => Err(wrong(args, "a test that is not supported,", word)),
        [b'>', b'=', ..] => compare(&[Greater, Equal], rest(2)),
        [b'<', b'=', ..] => compare(&[Less, Equal], rest(2)),
        [b'>', ..] => compare(&[Greater], rest(1)),
        [b'<', ..] => compare(&[Less], rest(1)),
        // Two quotes stand for nothing at all.
        [b'=', ..] => compare(&[Equal], if rest(1) == b"\"\"" { b"" } else { rest(1) }),
        [b'-', a, b, number @ ..] if comparison(*a, *b).is_some() => {
            let orderings = comparison(*a, *b).unwrap_or_default();
            Ok(Test::Number(orderings, Text::parse(args, word, number)?))
        }
        text => Ok(Test::Pattern(pattern(args, loading, word, text, ignore_case)?)),
    }
}

/// `-eq` and its kin.
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

/// A number at the start of a text, or zero.
fn number(text: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(text.trim_ascii());
    let end = text.char_indices().position(|(at, c)| !(c.is_ascii_digit() || at == 0 && c == '-'));
    text.get(..end.unwrap_or(text.len())).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl Test {
    fn of_file(&self, path: &[u8]) -> bool {
        let path = OsStr::from_bytes(path);
        let metadata = match self {
            Test::Link => fs::symlink_metadata(path),
            _ => fs::metadata(path),
        };
        metadata.is_ok_and(|metadata| match self {
            Test::File => metadata.is_file(),
            Test::Directory => metadata.is_dir(),
            Test::FileWithContent => metadata.is_file() && metadata.len() > 0,
            Test::Link => metadata.is_symlink(),
            Test::Executable => metadata.is_file() && metadata.permissions().mode() & 0o111 != 0,
            Test::Pattern(_) | Test::Compare(..) | Test::Number(..) => false,
        })
    }
}
