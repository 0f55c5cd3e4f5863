//! Sets the media types of files: `types` and `default_type`.
//!
//! A `types` block maps file name extensions to media types. The extension is what follows the last dot of the
//! name; case does not matter. A file whose extension is not in a block gets the `default_type`.
//!
//! A level with a `types` block does not inherit the outer blocks. Several blocks of one level are joined. Without
//! any block, Fulmar knows the extensions `html`, `gif` and `jpg` only, as nginx does. A file without an `http` block
//! gets the types of the packaged `mime.types`.
//!
//! ```file html/a.HTM
//! a
//! ```
//!
//! ```file html/b.unknown
//! b
//! ```
//!
//! ```conf
//! types {
//!     text/html html htm;
//! }
//! default_type application/octet-stream;
//! server {
//!     listen 8080;
//! }
//! ```
//!
//! ```http
//! GET /a.HTM HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! ---
//! GET /b.unknown HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/octet-stream
//! ```

use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic, Node};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use http::TypesByExtension;
use std::sync::{Arc, LazyLock};

/// The media types of files.
pub static MODULE: Module =
    Module { name: "types", directives: &[&TYPES, &DEFAULT_TYPE], variables: &[], compile: Some(compile) };

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `types { … }`
pub static TYPES: Directive<Block> = Directive::new("types", parse_types)
    .within(LEVELS)
    .block(Arity::None)
    .rule(Rule::List)
    .default("{ text/html html; image/gif gif; image/jpeg jpg; }")
    .help("Media types, each with the extensions of its files.");

/// `default_type TYPE`
pub static DEFAULT_TYPE: Directive<Box<[u8]>> =
    Directive::new("default_type", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .default("text/plain")
        .help("The media type of files whose extension is not in `types`.");

/// A `types` block: its entries in order, and the same entries as a lookup table, which several scopes can share.
pub struct Block {
    entries: Vec<Entry>,
    table: Arc<TypesByExtension>,
}

struct Entry {
    extension: Box<[u8]>,
    media_type: Box<[u8]>,
}

fn parse_types(args: &Args<'_>, loading: &mut Loading) -> Result<Block, Diagnostic> {
    let mut entries = Vec::new();
    let mut table = TypesByExtension::default();
    for node in args.node.children() {
        if node.block.is_some() {
            return Err(conf::spec::unexpected_block(node));
        }
        for extension in &node.args {
            let earlier = table.insert(&extension.text, &node.name.text);
            if let Some(earlier) = earlier {
                loading.note(duplicate(node, extension, &earlier));
            }
            entries.push(Entry { extension: extension.text.clone(), media_type: node.name.text.clone() });
        }
    }
    Ok(Block { entries, table: Arc::new(table) })
}

fn duplicate(node: &Node, extension: &conf::Word, earlier: &[u8]) -> Diagnostic {
    let earlier = String::from_utf8_lossy(earlier);
    let message = format!(
        "duplicate extension \"{extension}\", content type: \"{}\", previous content type: \"{earlier}\"",
        node.name
    );
    Diagnostic::warn(message).at(node.span).under(extension.span)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    static DEFAULT: LazyLock<Arc<TypesByExtension>> = LazyLock::new(|| {
        let known: [(&[u8], &[u8]); 3] =
            [(b"html", b"text/html"), (b"gif", b"image/gif"), (b"jpg", b"image/jpeg")];
        Arc::new(table(known))
    });
    let blocks = view.all(&TYPES);
    builder.policy.types = match &blocks[..] {
        [] => Arc::clone(&DEFAULT),
        [block] => Arc::clone(&block.value.table),
        blocks => {
            let entries = blocks.iter().flat_map(|block| &block.value.entries);
            Arc::new(table(entries.map(|entry| (&*entry.extension, &*entry.media_type))))
        }
    };
    if let Some(default) = view.get(&DEFAULT_TYPE) {
        builder.policy.default_type = Bytes::copy_from_slice(default);
    }
    Ok(())
}

fn table<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> TypesByExtension {
    let mut table = TypesByExtension::default();
    for (extension, media_type) in entries {
        table.insert(extension, media_type);
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    fn media_type(site: &Site, path: &str) -> String {
        String::from_utf8_lossy(&site.get("/").media_type(path.as_bytes())).into_owned()
    }

    #[test]
    fn three_types_are_known_without_a_block() {
        let site = Site::location("");
        assert_eq!(media_type(&site, "/a.html"), "text/html");
        assert_eq!(media_type(&site, "/a.css"), "text/plain");
    }

    #[test]
    fn blocks_of_one_level_are_joined_and_hide_the_default() {
        let site = Site::location("types { a/a a; } types { b/b b A; } default_type d/d;");
        assert_eq!(media_type(&site, "/x.a"), "b/b", "the later one counts");
        assert_eq!(media_type(&site, "/x.B"), "b/b");
        assert_eq!(media_type(&site, "/x.html"), "d/d");
    }

    #[test]
    fn no_block_inside() {
        assert_eq!(Site::error("types { a/a { } }"), "unexpected \"{\"");
    }
}
