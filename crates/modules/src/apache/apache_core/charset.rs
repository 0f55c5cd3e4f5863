//! The character set of texts: `AddDefaultCharset`.

use crate::apache::mod_mime::add_charset;
use crate::shared::apache::{in_file, values};
use conf::{Arity, Diagnostic};
use contract::{Args, Body, Directive, Exchange, Filter, Loading, ScopeBuilder, View};

/// `AddDefaultCharset On | Off | CHARSET`
pub(crate) static ADD_DEFAULT_CHARSET: Directive<Option<Box<[u8]>>> =
    in_file(Directive::new("AddDefaultCharset", parse_default))
        .args(Arity::Exactly(1))
        .help("The character set of plain and HTML text that names none.");

fn parse_default(args: &Args<'_>, _: &mut Loading) -> Result<Option<Box<[u8]>>, Diagnostic> {
    let text = &args.word(0)?.text;
    Ok(match text.to_ascii_lowercase().as_slice() {
        b"off" => None,
        b"on" => Some(Box::from(&b"iso-8859-1"[..])),
        _ => Some(text.clone()),
    })
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    if let Some(charset) = values(view, &ADD_DEFAULT_CHARSET).pop().flatten() {
        builder.filter(Default { charset });
    }
}

struct Default {
    charset: Box<[u8]>,
}

impl Filter for Default {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if matches!(exchange.response.content_type.as_deref(), Some(b"text/html" | b"text/plain")) {
            add_charset(exchange, &self.charset);
        }
        body
    }
}
