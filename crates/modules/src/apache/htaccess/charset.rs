//! The character sets of texts: `AddDefaultCharset`, `AddCharset`.

use super::{in_all_files, in_file, values};
use conf::{Arity, Diagnostic};
use contract::{Args, Body, Directive, Exchange, Filter, Loading, ScopeBuilder, View};

/// `AddDefaultCharset On | Off | CHARSET`
pub(super) static ADD_DEFAULT_CHARSET: Directive<Option<Box<[u8]>>> =
    in_file(Directive::new("AddDefaultCharset", parse_default))
        .args(Arity::Exactly(1))
        .help("The character set of plain and HTML text that names none.");

/// `AddCharset CHARSET EXTENSION …`
pub(super) static ADD_CHARSET: Directive<ByExtension> =
    in_all_files(Directive::new("AddCharset", parse_added))
        .args(Arity::AtLeast(2))
        .help("The character set of files with these extensions.");

/// Extensions with their character set.
#[derive(Clone, Debug)]
pub(super) struct ByExtension {
    charset: Box<[u8]>,
    extensions: Vec<Box<[u8]>>,
}

fn parse_default(args: &Args<'_>, _: &mut Loading) -> Result<Option<Box<[u8]>>, Diagnostic> {
    let text = &args.word(0)?.text;
    Ok(match text.to_ascii_lowercase().as_slice() {
        b"off" => None,
        b"on" => Some(Box::from(&b"iso-8859-1"[..])),
        _ => Some(text.clone()),
    })
}

fn parse_added(args: &Args<'_>, _: &mut Loading) -> Result<ByExtension, Diagnostic> {
    let plain =
        |word: &conf::Word| word.text.strip_prefix(b".").unwrap_or(&word.text).to_ascii_lowercase().into();
    let extensions = args.words().iter().skip(1).map(plain).collect();
    Ok(ByExtension { charset: args.word(0)?.text.clone(), extensions })
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let default = values(view, &ADD_DEFAULT_CHARSET).pop().flatten();
    let mut added = values(view, &ADD_CHARSET);
    // The last line for an extension overrides the others.
    added.reverse();
    if default.is_some() || !added.is_empty() {
        builder.filter(Charsets { default, added });
    }
}

struct Charsets {
    default: Option<Box<[u8]>>,
    added: Vec<ByExtension>,
}

impl Filter for Charsets {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_own_page = exchange.response.status.0 >= 300 && !exchange.error_page_used;
        let Some(content_type) = exchange.response.content_type.as_deref().filter(|_| !is_own_page) else {
            return body;
        };
        if content_type.to_ascii_lowercase().windows(8).any(|part| part == b"charset=") {
            return body;
        }
        let is_plain = matches!(content_type, b"text/html" | b"text/plain");
        let default = self.default.as_deref().filter(|_| is_plain);
        if let Some(charset) = self.of(&exchange.request.path).or(default) {
            let full = [content_type, b"; charset=", charset].concat();
            exchange.response.content_type = Some(full.into());
        }
        body
    }
}

impl Charsets {
    fn of(&self, path: &[u8]) -> Option<&[u8]> {
        let name = path.rsplit(|&byte| byte == b'/').next()?;
        let dot = name.iter().rposition(|&byte| byte == b'.')?;
        let extension = name[dot + 1..].to_ascii_lowercase();
        let fits = |entry: &&ByExtension| entry.extensions.iter().any(|known| **known == *extension);
        self.added.iter().find(fits).map(|entry| &*entry.charset)
    }
}
