//! The condition of an `if`.

use super::replacement::{Told, shown};
use super::text::Text;
use crate::files::open_file_cache::{self, Files, Opened};
use crate::shared::files;
use conf::value::{Captures, TooManySteps};
use conf::{Diagnostic, Span};
use contract::{Args, Event, Exchange, Loading, Regex, VariableId};
use journal::Level;

/// A condition.
#[derive(Clone, Debug)]
pub struct Condition {
    test: Test,
    is_negated: bool,
}

#[derive(Clone, Debug)]
enum Test {
    Variable(VariableId),
    Equal(VariableId, Text),
    Match(VariableId, Regex),
    File(Kind, Text),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Directory,
    Either,
    Executable,
}

impl Condition {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Condition, Diagnostic> {
        let span = args.node.span;
        let words = in_parentheses(args)?;
        let invalid =
            |word: &[u8]| Diagnostic::emerg(format!("invalid condition \"{}\"", shown(word))).at(span);
        let first = words.first().copied().unwrap_or_default();
        match (first, &words[..]) {
            ([b'$', name @ ..], [_]) if !name.is_empty() => {
                let variable = variable(name, span, loading);
                Ok(Condition { test: Test::Variable(variable), is_negated: false })
            }
            ([b'$', name @ ..], [_, operator, value]) if !name.is_empty() => {
                let variable = variable(name, span, loading);
                comparison(args, variable, (*operator, *value), loading)
            }
            ([b'-', letter], [_, path]) | ([b'!', b'-', letter], [_, path]) => {
                let kind = match letter {
                    b'f' => Kind::File,
                    b'd' => Kind::Directory,
                    b'e' => Kind::Either,
                    b'x' => Kind::Executable,
                    _ => return Err(invalid(first)),
                };
                let path = Text::parse(path, span, loading)?;
                Ok(Condition { test: Test::File(kind, path), is_negated: first.starts_with(b"!") })
            }
            _ => Err(invalid(first)),
        }
    }

    /// Whether the condition holds. A pattern leaves its captures to the exchange.
    ///
    /// # Errors
    /// [`TooManySteps`] where it gave up.
    pub(super) fn holds(
        &self,
        exchange: &Exchange,
        lookup: &Files,
        escapes: bool,
        told: Told,
    ) -> Result<bool, TooManySteps> {
        let value = |id| {
            let mut value = Vec::new();
            exchange.variable(id, &mut value);
            value
        };
        let is_so = match &self.test {
            Test::Variable(id) => !matches!(value(*id).as_slice(), b"" | b"0"),
            Test::Equal(id, text) => value(*id) == text.evaluate(exchange, escapes),
            Test::Match(id, regex) => matches(exchange, regex, &value(*id), told)?,
            Test::File(kind, path) => kind.is_at(exchange, lookup, &path.evaluate(exchange, escapes)),
        };
        let holds = is_so != self.is_negated;
        exchange.tell(|| {
            let text = if holds { "the condition holds" } else { "the condition does not hold" };
            Event::new("if", text).at(Some(told.place))
        });
        Ok(holds)
    }
}

/// Whether a pattern matches; captures are the exchange's afterwards, and there are none if it does not.
pub(super) fn matches(
    exchange: &Exchange,
    regex: &Regex,
    subject: &[u8],
    told: Told,
) -> Result<bool, TooManySteps> {
    let is_match = regex.try_matches(exchange, subject)?;
    if !is_match {
        exchange.set_captures(Captures::default(), b"");
    }
    let verb = if is_match { "matches" } else { "does not match" };
    told.note(exchange, || {
        let text = format!("\"{}\" {verb} \"{}\"", shown(regex.text()), shown(subject));
        let event = Event::new("pattern", text).with("pattern", regex.text()).with("subject", subject);
        captures(exchange, event)
    });
    Ok(is_match)
}

/// The event with the captures of the pattern.
fn captures(exchange: &Exchange, mut event: Event) -> Event {
    for (index, name) in (1..=9).zip(["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"]) {
        let mut value = Vec::new();
        if exchange.capture(index, &mut value) {
            event = event.with(name, value);
        }
    }
    event
}

/// The words between the parentheses, which may touch what they enclose or stand alone.
fn in_parentheses<'a>(args: &Args<'a>) -> Result<Vec<&'a [u8]>, Diagnostic> {
    let invalid =
        |word: &[u8]| Diagnostic::emerg(format!("invalid condition \"{}\"", shown(word))).at(args.node.span);
    let mut words: Vec<&[u8]> = args.words().iter().map(|word| &*word.text).collect();
    let first = words.first_mut().ok_or_else(|| invalid(b""))?;
    *first = first.strip_prefix(b"(").ok_or_else(|| invalid(first))?;
    if first.is_empty() {
        words.remove(0);
    }
    let last = words.last_mut().ok_or_else(|| invalid(b"("))?;
    *last = last.strip_suffix(b")").ok_or_else(|| invalid(last))?;
    if last.is_empty() {
        words.pop();
    }
    if words.is_empty() { Err(invalid(b")")) } else { Ok(words) }
}

fn variable(name: &[u8], span: Span, loading: &mut Loading) -> VariableId {
    loading.variables.refer(&shown(name), Some(span))
}

fn comparison(
    args: &Args<'_>,
    variable: VariableId,
    (operator, value): (&[u8], &[u8]),
    loading: &mut Loading,
) -> Result<Condition, Diagnostic> {
    let span = args.node.span;
    let word = args.words().iter().rfind(|word| !word.is(")")).unwrap_or(&args.node.name);
    let test = match operator {
        b"=" | b"!=" => Test::Equal(variable, Text::parse(value, span, loading)?),
        b"~" | b"!~" => Test::Match(variable, loading.regex(word, value, false)?),
        b"~*" | b"!~*" => Test::Match(variable, loading.regex(word, value, true)?),
        _ => {
            let message = format!("unexpected \"{}\" in condition", shown(operator));
            let error = Diagnostic::emerg(message).at(span);
            return Err(if operator == b"==" { error.hint("write = to compare") } else { error });
        }
    };
    Ok(Condition { test, is_negated: operator.starts_with(b"!") })
}

impl Kind {
    fn is_at(self, exchange: &Exchange, lookup: &Files, path: &[u8]) -> bool {
        match lookup.look(exchange, path) {
            Ok(opened) => self.fits(&opened),
            Err(error) => {
                if files::errno(&error).is_some() && !files::is_missing(&error) {
                    exchange.log(Level::Crit, &files::failed("stat", path, &error));
                }
                false
            }
        }
    }

    fn fits(self, opened: &Opened) -> bool {
        match self {
            Kind::File => opened.kind == open_file_cache::Kind::File,
            Kind::Directory => opened.kind == open_file_cache::Kind::Directory,
            Kind::Either => opened.kind != open_file_cache::Kind::Other,
            Kind::Executable => opened.is_executable,
        }
    }
}
