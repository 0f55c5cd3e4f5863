//! Values that directives such as `set_sha1` compute.

use super::{Target, Text};
use contract::Exchange;
use journal::Level;

/// The texts to a value, or what is wrong with them.
pub(crate) type Compute = fn(&[Vec<u8>]) -> Result<Vec<u8>, &'static str>;

/// A directive that computes a value from texts, and sets a variable to it.
#[derive(Clone, Debug)]
pub struct Computation {
    /// The name of the directive, for the error log.
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) texts: Box<[Text]>,
    pub(crate) compute: Compute,
}

impl Computation {
    /// The value; `None` if it cannot be computed, which is logged. `escapes`: as for `set`.
    pub(super) fn value(&self, exchange: &Exchange, escapes: bool) -> Option<Vec<u8>> {
        let texts: Vec<Vec<u8>> = self.texts.iter().map(|text| text.evaluate(exchange, escapes)).collect();
        let value = (self.compute)(&texts);
        value.inspect_err(|error| exchange.log(Level::Error, &format!("{}: {error}", self.name))).ok()
    }
}
