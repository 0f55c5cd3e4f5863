//! Sizes that may differ from request to request.

use crate::{Args, Directive, Exchange, Loading, Template};
use conf::Diagnostic;
use conf::value::size_in_text;
use journal::Level;

/// A size in bytes that may have variables.
#[derive(Clone, Debug)]
pub enum Amount {
    /// The same for all requests.
    Fixed(u64),
    /// A text that becomes a size for each request.
    Computed(Template),
}

impl Amount {
    /// The size for this exchange. An invalid text is logged and counts as zero, as in nginx.
    pub fn evaluate(&self, exchange: &Exchange) -> u64 {
        let template = match self {
            Amount::Fixed(size) => return *size,
            Amount::Computed(template) => template,
        };
        let text = template.evaluate(exchange);
        size_in_text(&text).unwrap_or_else(|| {
            exchange.log(Level::Error, &format!("invalid size \"{}\"", String::from_utf8_lossy(&text)));
            0
        })
    }
}

impl Directive<Amount> {
    /// A size in memory, in bytes, that may have variables.
    pub const fn amount(name: &'static str) -> Directive<Amount> {
        Directive::new(name, parse)
    }
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Amount, Diagnostic> {
    let template = loading.template(args.word(0)?)?;
    match template.constant() {
        Some(text) => size_in_text(text).map(Amount::Fixed).ok_or_else(|| args.error("invalid value")),
        None => Ok(Amount::Computed(template)),
    }
}
