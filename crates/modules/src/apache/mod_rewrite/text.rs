//! Texts with groups and variables.

use super::variable::Variable;
use crate::shared::apache::bounded::{Failure, append};
use crate::shared::apache::wrong;
use conf::value::Captures;
use conf::{Diagnostic, Word};
use contract::{Args, Budget, Exchange};

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
    /// Whether it was rewritten.
    pub(super) is_rewritten: bool,
    pub(super) rule: &'a Match,
    pub(super) condition: &'a Match,
    /// Whether groups are escaped.
    pub(super) escapes: bool,
    pub(super) budget: &'a Budget,
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
                (b'$', [b'{', ..]) => return Err(wrong(args, "a map, which is not supported, in", word)),
                (b'%', [b'{', tail @ ..]) => {
                    let end = tail.iter().position(|&byte| byte == b'}');
                    let end = end.ok_or_else(|| wrong(args, "an open brace in", word))?;
                    let variable = Variable::parse(&tail[..end]);
                    let variable = variable.ok_or_else(|| wrong(args, "an unknown variable in", word))?;
                    (Part::Variable(variable), &tail[end + 1..])
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
        Ok(Text { parts })
    }

    pub(super) fn evaluate(&self, context: &Context<'_>) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        let group = |value: &[u8], out: &mut Vec<u8>| match context.escapes {
            true => {
                let mut escaped = Vec::new();
                http::escape::component(value, &mut escaped);
                append(out, &escaped)
            }
            false => append(out, value),
        };
        for part in &self.parts {
            match part {
                Part::Literal(text) => append(&mut out, text)?,
                Part::Rule(index) => group(context.rule.group(*index), &mut out)?,
                Part::Condition(index) => group(context.condition.group(*index), &mut out)?,
                Part::Variable(variable) => append(&mut out, &variable.value(context)?)?,
            }
        }
        context.budget.step(out.len())?;
        Ok(out)
    }
}
