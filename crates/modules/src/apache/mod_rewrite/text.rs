//! Texts with groups and variables.

use super::variable::Variable;
use crate::shared::apache::bounded::{Failure, append};
use crate::shared::apache::wrong;
use conf::value::Captures;
use conf::{Diagnostic, Word};
use contract::{Args, Budget, Exchange};
use std::borrow::Cow;

/// What a pattern captured, and out of what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    pub(super) captures: Captures,
    pub(super) subject: Vec<u8>,
}

impl Match {
    fn group(&self, index: u8) -> &[u8] {
        self.captures.get(usize::from(index), &self.subject).unwrap_or_default()
    }
}

/// What texts are evaluated for.
pub(super) struct Context<'a> {
    pub(super) exchange: &'a Exchange,
    /// The path as it is rewritten so far.
    pub(super) filename: &'a [u8],
    /// The path info; none while the path still has it.
    pub(super) path_info: Option<&'a [u8]>,
    pub(super) rule: &'a Match,
    pub(super) condition: &'a Match,
    /// How groups are escaped.
    pub(super) escape: Option<&'a Escape>,
    pub(super) budget: &'a Budget,
}

/// How groups are escaped: the flags `B`, `BNP`, `BCTLS` and `BNE`.
#[derive(Clone, Debug)]
pub(super) struct Escape {
    /// Whether `B` or `BCTLS` is there: the other flags only say how.
    pub(super) is_on: bool,
    /// Whether a space becomes a plus sign.
    pub(super) plus: bool,
    /// Whether only spaces and control characters are escaped.
    pub(super) controls_only: bool,
    /// The bytes that are escaped; none for all but letters, digits and the underscore.
    pub(super) only: Option<Box<[u8]>>,
    /// The bytes that are not.
    pub(super) except: Box<[u8]>,
}

impl Default for Escape {
    fn default() -> Escape {
        Escape { is_on: false, plus: true, controls_only: false, only: None, except: Box::default() }
    }
}

impl Escape {
    fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in text {
            let is_meant = match &self.only {
                _ if self.except.contains(&byte) => false,
                _ if self.controls_only => byte == b' ' || byte.is_ascii_control(),
                Some(only) => only.contains(&byte),
                None => !(byte.is_ascii_alphanumeric() || byte == b'_'),
            };
            match byte {
                b' ' if is_meant && self.plus => out.push(b'+'),
                byte if is_meant => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                byte => out.push(byte),
            }
        }
        out
    }
}

/// A text with `$N`, `%N` and `%{VARIABLE}`.
#[derive(Clone, Debug)]
pub(super) struct Text {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    Rule(u8),
    Condition(u8),
    Variable(Variable),
}

impl Text {
    pub(super) fn parse(args: &Args<'_>, word: &Word, text: &[u8]) -> Result<Text, Diagnostic> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            let (part, after) = match (byte, tail) {
                (b'\\', [next, tail @ ..]) => {
                    literal.push(*next);
                    rest = tail;
                    continue;
                }
                (b'$', [digit @ b'0'..=b'9', tail @ ..]) => (Part::Rule(digit - b'0'), tail),
                (b'%', [digit @ b'0'..=b'9', tail @ ..]) => (Part::Condition(digit - b'0'), tail),
                (b'$', [b'{', tail @ ..]) if has_map(tail) => {
                    return Err(wrong(args, "a map, which is not supported, in", word));
                }
                (b'%', [b'{', tail @ ..]) if let Some(end) = tail.iter().position(|&byte| byte == b'}') => {
                    (Part::Variable(Variable::parse(&tail[..end])), &tail[end + 1..])
                }
                _ => {
                    literal.push(*byte);
                    rest = tail;
                    continue;
                }
            };
            parts.push(Part::Literal(std::mem::take(&mut literal)));
            parts.push(part);
            rest = after;
        }
        parts.push(Part::Literal(literal));
        parts.retain(|part| !matches!(part, Part::Literal(text) if text.is_empty()));
        Ok(Text { parts })
    }

    /// Whether it has groups of the rule's pattern.
    pub(super) fn uses_groups(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Rule(_)))
    }

    /// Whether it is the path of the request's file.
    pub(super) fn is_filename(&self) -> bool {
        matches!(&self.parts[..], [Part::Variable(Variable::Filename)])
    }

    /// The headers of requests that it has, which responses vary by. All responses may depend on the host.
    pub(super) fn fields(&self) -> Box<[Box<str>]> {
        let field = |part: &Part| match part {
            Part::Variable(Variable::Field(name)) if !name.eq_ignore_ascii_case("host") => Some(name.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(field).collect()
    }

    /// The text, which is not copied where it is the path of the request's file.
    pub(super) fn value<'c>(&self, context: &Context<'c>) -> Result<Cow<'c, [u8]>, Failure> {
        if !self.is_filename() {
            return self.evaluate(context).map(Cow::Owned);
        }
        let path = Variable::filename(context)?;
        context.budget.step(path.len())?;
        Ok(Cow::Borrowed(path))
    }

    pub(super) fn evaluate(&self, context: &Context<'_>) -> Result<Vec<u8>, Failure> {
        Ok(self.evaluate_marked(context, Mark::First)?.0)
    }

    /// The text, and whether the question mark that starts its query comes from a group or a variable.
    pub(super) fn evaluate_marked(
        &self,
        context: &Context<'_>,
        mark: Mark,
    ) -> Result<(Vec<u8>, bool), Failure> {
        let (mut out, mut is_marked, mut is_foreign) = (Vec::new(), false, false);
        for part in &self.parts {
            let start = out.len();
            match part {
                Part::Literal(text) => append(&mut out, text)?,
                Part::Rule(index) => append_group(&mut out, context.rule.group(*index), context)?,
                Part::Condition(index) => append_group(&mut out, context.condition.group(*index), context)?,
                Part::Variable(variable) => append(&mut out, &variable.value(context)?)?,
            }
            if (!is_marked || mark == Mark::Last) && out[start..].contains(&b'?') {
                (is_marked, is_foreign) = (true, !matches!(part, Part::Literal(_)));
            }
        }
        context.budget.step(out.len())?;
        Ok((out, is_foreign))
    }
}

/// Which question mark starts the query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    First,
    Last,
}

/// Whether `${` is followed by the name of a map with its colon; if not, Apache takes it as it is.
fn has_map(text: &[u8]) -> bool {
    let (mut depth, mut has_colon) = (0_usize, false);
    for byte in text {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return has_colon,
            b'}' => depth -= 1,
            b':' if depth == 0 => has_colon = true,
            _ => {}
        }
    }
    false
}

fn append_group(out: &mut Vec<u8>, value: &[u8], context: &Context<'_>) -> Result<(), Failure> {
    match context.escape {
        Some(escape) => append(out, &escape.apply(value)),
        None => append(out, value),
    }
}
