//! A regular expression whose captures become the exchange's.

use crate::{Definition, Exchange, VariableId, Variables};
use conf::value::{Captures, Pattern};
use std::sync::Arc;

/// A pattern bound to the variables of its named captures.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: Arc<Pattern>,
    named: Box<[(usize, VariableId)]>,
}

impl Regex {
    /// Compiles a pattern; the error is the message for the administrator.
    pub fn new(text: &[u8], ignore_case: bool, variables: &mut Variables) -> Result<Regex, String> {
        let pattern = Pattern::new(text, ignore_case).map_err(|error| error.to_string())?;
        let mut define = |(index, name): (usize, &Option<Box<str>>)| {
            let name = name.as_deref()?;
            Some((index, variables.define(name, Definition::Slot)))
        };
        let named = pattern.names().iter().enumerate().filter_map(&mut define).collect();
        Ok(Regex { pattern: Arc::new(pattern), named })
    }

    /// Whether the pattern matches; if so its captures are the exchange's from now on.
    pub fn matches(&self, exchange: &Exchange, subject: &[u8]) -> bool {
        let mut captures = Captures::default();
        if !self.pattern.captures(subject, &mut captures) {
            return false;
        }
        for &(index, id) in &self.named {
            exchange.set_slot(id, captures.get(index, subject).unwrap_or_default());
        }
        exchange.set_captures(captures, subject);
        true
    }

    /// Whether the pattern matches; no capture is kept.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.pattern.is_match(subject)
    }

    /// Whether any capture has a name.
    pub fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// The pattern as written.
    pub fn text(&self) -> &[u8] {
        self.pattern.text()
    }
}
