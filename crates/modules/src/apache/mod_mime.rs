//! Says in `.htaccess` files what files with an extension are.
//!
//! nginx: none
//!
//! ```file html/a.page
//! a page
//! ```
//!
//! ```file html/.htaccess
//! AddType text/x-page .page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /a.page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/x-page
//!
//! a page
//! ```

use crate::shared::apache::{in_all_files, values};
use conf::{Arity, Diagnostic};
use contract::{Args, Body, Directive, Exchange, Filter, Loading, Module, ScopeBuilder, Types, View};
use std::sync::Arc;

/// Media types and character sets.
pub static MODULE: Module = Module {
    name: "mod_mime",
    directives: &[&ADD_TYPE, &ADD_CHARSET],
    variables: &[],
    compile: Some(compile),
};

/// `AddType TYPE EXTENSION …`
pub(crate) static ADD_TYPE: Directive<AddType> = in_all_files(Directive::new("AddType", parse_add_type))
    .args(Arity::AtLeast(2))
    .help("The media type of files with these extensions.");

/// `AddCharset CHARSET EXTENSION …`
pub(crate) static ADD_CHARSET: Directive<ByExtension> =
    in_all_files(Directive::new("AddCharset", parse_added))
        .args(Arity::AtLeast(2))
        .help("The character set of files with these extensions.");

/// Extensions of a media type.
#[derive(Clone, Debug)]
pub(crate) struct AddType {
    media_type: Box<[u8]>,
    extensions: Vec<Box<[u8]>>,
}

/// Extensions with their character set.
#[derive(Clone, Debug)]
pub(crate) struct ByExtension {
    charset: Box<[u8]>,
    extensions: Vec<Box<[u8]>>,
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let added = values(view, &ADD_TYPE);
    if !added.is_empty() {
        let mut types = Types::clone(&builder.policy.types);
        for AddType { media_type, extensions } in &added {
            extensions.iter().for_each(|extension| drop(types.insert(extension, media_type)));
        }
        builder.policy.types = Arc::new(types);
    }
    let mut added = values(view, &ADD_CHARSET);
    // The last line for an extension overrides the others.
    added.reverse();
    if !added.is_empty() {
        builder.filter(Charsets { added });
    }
    Ok(())
}

fn parse_add_type(args: &Args<'_>, _: &mut Loading) -> Result<AddType, Diagnostic> {
    let extension = |word: &conf::Word| word.text.strip_prefix(b".").unwrap_or(&word.text).into();
    let extensions = args.words().iter().skip(1).map(extension).collect();
    Ok(AddType { media_type: args.word(0)?.text.clone(), extensions })
}

fn parse_added(args: &Args<'_>, _: &mut Loading) -> Result<ByExtension, Diagnostic> {
    let plain =
        |word: &conf::Word| word.text.strip_prefix(b".").unwrap_or(&word.text).to_ascii_lowercase().into();
    let extensions = args.words().iter().skip(1).map(plain).collect();
    Ok(ByExtension { charset: args.word(0)?.text.clone(), extensions })
}

struct Charsets {
    added: Vec<ByExtension>,
}

impl Filter for Charsets {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if let Some(charset) = self.of(&exchange.request.path) {
            add_charset(exchange, charset);
        }
        body
    }
}

/// Appends a character set to the media type that has none, unless the content is a page of the server's own.
pub(crate) fn add_charset(exchange: &mut Exchange, charset: &[u8]) {
    let is_own_page = exchange.response.status.0 >= 300 && !exchange.error_page_used;
    let Some(content_type) = exchange.response.content_type.as_deref().filter(|_| !is_own_page) else {
        return;
    };
    if !content_type.to_ascii_lowercase().windows(8).any(|part| part == b"charset=") {
        let full = [content_type, b"; charset=", charset].concat();
        exchange.response.content_type = Some(full.into());
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
