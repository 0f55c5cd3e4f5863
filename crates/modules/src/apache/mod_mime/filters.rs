//! Responses with what extensions say of their files.

use super::{Description, add_charset, describe, of_path};
use crate::apache::mod_negotiation::accept::known_name;
use crate::shared::apache::methods;
use contract::{Body, Exchange, Filter};

/// Sets the type of a file whose last extension has none: as in Apache, it is that of the extension before.
pub(super) struct Typed;

impl Filter for Typed {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        // Most files have the type of their last extension, and keep it.
        let response = &exchange.response;
        if response.content_type.as_ref().is_some_and(|known| *known != exchange.scope.policy.default_type) {
            return body;
        }
        // Most names have one dot, which is seen without a copy.
        if exchange.file.is_some() && !has_two_dots(&exchange.request.path) {
            return body;
        }
        let Some(path) = methods::path_of_file(exchange).filter(|path| has_two_dots(path)) else {
            return body;
        };
        let by_name = Some(exchange.media_type(&path)).filter(|media_type| !media_type.is_empty());
        // A rule may have set another type.
        if exchange.response.content_type == by_name {
            let types = &exchange.scope.policy.types;
            let of = |extension: &[u8]| types.of_path(&[b"/x.", extension].concat()).cloned();
            let found = of_path(&path).filter_map(of).filter(|media_type| !media_type.is_empty()).last();
            exchange.response.content_type = found.or(by_name);
        }
        body
    }
}

/// Whether the name of the file at a path has two extensions.
fn has_two_dots(path: &[u8]) -> bool {
    let name = path.iter().rev().take_while(|byte| **byte != b'/');
    name.filter(|byte| **byte == b'.').nth(1).is_some()
}

/// Sets character set and encoding.
pub(super) struct Described;

impl Filter for Described {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let answered = methods::path_of_file(exchange);
        let path = answered.clone().unwrap_or_else(|| exchange.request.path.clone());
        let Description { media_type, charset, encodings, .. } = describe(&exchange.scope, &path);
        if answered.is_some() {
            let encoding = known_name(exchange, &encodings.join(&b", "[..]));
            if !encoding.is_empty() {
                // A value that is no field's is left out.
                let _ = exchange.response.fields.push(b"Content-Encoding", &encoding);
            }
            // A rule may have set another type.
            let by_name = Some(exchange.media_type(&path)).filter(|media_type| !media_type.is_empty());
            if media_type.is_some() && exchange.response.content_type == by_name {
                exchange.response.content_type = media_type;
            }
        }
        if let Some(charset) = charset {
            add_charset(exchange, &charset);
        }
        body
    }
}

/// Sets the language. As in Apache it comes after `Header`, whose languages are listed after those of the file.
pub(super) struct Languages;

impl Filter for Languages {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let path = methods::path_of_file(exchange).or_else(|| methods::path_of_program(exchange));
        let Some(path) = path else { return body };
        let Description { mut languages, .. } = describe(&exchange.scope, &path);
        if languages.is_empty() {
            return body;
        }
        let fields = &mut exchange.response.fields;
        let present = fields.get("content-language").unwrap_or_default().to_ascii_lowercase();
        for item in present.split(|&byte| byte == b',') {
            let words: Vec<&[u8]> =
                item.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            let language: Box<[u8]> = words.join(&b' ').into();
            if !language.is_empty() && !languages.iter().any(|known| known.eq_ignore_ascii_case(&language)) {
                languages.push(language);
            }
        }
        // A value that is no field's is left out.
        let _ = fields.set("Content-Language", &languages.join(&b',')[..]);
        body
    }
}
