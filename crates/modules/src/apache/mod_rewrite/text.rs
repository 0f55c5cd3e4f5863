//! Texts with groups and variables.

use super::context::Context;
use super::variable::Variable;
use crate::shared::apache::bounded::{Failure, append};
use crate::shared::apache::wrong;
use conf::{Diagnostic, Word};
use contract::Args;
use std::borrow::Cow;

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
