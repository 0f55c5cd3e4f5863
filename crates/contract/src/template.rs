//! Text with variables, compiled at load.

use crate::{Exchange, VariableId, Variables};
use conf::Span;
use conf::value::{Part as ParsedPart, Template as Parsed};
use std::fmt;
use std::sync::Arc;

/// A text with variables and captures.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Box<[Part]>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Box<[u8]>),
    Variable(VariableId),
    Capture(u8),
    Made(Made),
}

/// A text that a feature makes for a request.
#[derive(Clone)]
pub struct Made(pub Arc<Make>);

/// Makes a text for a request.
pub type Make = dyn Fn(&Exchange) -> Vec<u8> + Send + Sync;

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made")
    }
}

impl Template {
    /// A text that a feature makes.
    pub fn made(made: Made) -> Template {
        Template { parts: Box::new([Part::Made(made)]) }
    }

    /// Binds the names in a parsed text to variables; `span` is named if one of them never comes to exist.
    pub fn new(parsed: Parsed, variables: &mut Variables, span: Span) -> Template {
        let mut bind = |part| match part {
            ParsedPart::Literal(text) => Part::Literal(text),
            ParsedPart::Variable(name) => Part::Variable(variables.refer(&name, Some(span))),
            ParsedPart::Capture(index) => Part::Capture(index),
        };
        Template { parts: parsed.parts.into_iter().map(&mut bind).collect() }
    }

    /// A text without variables.
    pub fn literal(text: &[u8]) -> Template {
        Template { parts: Box::new([Part::Literal(text.into())]) }
    }

    /// The text, if it has no variables.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text in front of the first variable.
    pub fn beginning(&self) -> &[u8] {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => b"",
        }
    }

    /// Appends the text with the values that the variables have for this exchange; a variable
    /// without a value is empty.
    pub fn write(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        self.write_with(exchange, out, |_, _| {}, b"");
    }

    /// The text for this exchange.
    pub fn evaluate(&self, exchange: &Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(exchange, &mut out);
        out
    }

    /// Appends the text with each variable's value changed by `escape`, which gets the place in the output where the
    /// value starts, and `missing` in place of a variable without a value, as access logs do.
    pub fn write_with(
        &self,
        exchange: &Exchange,
        out: &mut Vec<u8>,
        escape: impl Fn(&mut Vec<u8>, usize),
        missing: &[u8],
    ) {
        for part in &self.parts {
            let start = out.len();
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(id) => {
                    if exchange.variable(*id, out) {
                        escape(out, start);
                    } else {
                        out.truncate(start);
                        out.extend_from_slice(missing);
                    }
                }
                Part::Capture(index) => {
                    exchange.capture(*index, out);
                    escape(out, start);
                }
                Part::Made(Made(make)) => out.extend_from_slice(&make(exchange)),
            }
        }
    }
}
