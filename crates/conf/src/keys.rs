//! Keys in the text of a configuration instead of separate files.

use std::sync::Arc;

use crate::lexer::{Lexer, Token};
use crate::lua;
use crate::source::FileId;
use crate::tree::Word;

/// How a value begins that is the content of a file instead of its name.
const CONTENT: &[u8] = b"data:";

/// How the names of directives end whose values are keys.
const KEY: &[u8] = b"_key";

/// What stands instead of a key.
const HIDDEN: &[u8] = b"data:***";

/// The text of a configuration without its keys: each word `data:…` of a directive `…_key` becomes `data:***`. A word that
/// only names a variable stays.
pub fn hide_keys(text: &[u8]) -> Vec<u8> {
    let mut lexer = Lexer::new(Arc::from(text), FileId(0));
    let (mut shown, mut from) = (Vec::with_capacity(text.len()), 0);
    // A text with an error of the grammar is no part of a configuration.
    while let Ok(token) = lexer.next_token() {
        let words = match token {
            Token::Simple(words, _) => words,
            Token::Open(words, _) => {
                if words.first().is_some_and(|name| lua::holds_lua(&name.text)) {
                    lexer.skip_lua();
                }
                continue;
            }
            Token::Close(_) => continue,
            Token::End(_) => break,
        };
        let Some((_, values)) = words.split_first().filter(|(name, _)| name.text.ends_with(KEY)) else {
            continue;
        };
        for value in values.iter().filter(|value| is_key(value)) {
            let [start, end] = [value.span.start, value.span.end].map(|offset| offset as usize);
            shown.extend_from_slice(text.get(from..start).unwrap_or_default());
            shown.extend_from_slice(HIDDEN);
            from = end;
        }
    }
    shown.extend_from_slice(text.get(from..).unwrap_or_default());
    shown
}

fn is_key(word: &Word) -> bool {
    word.text.strip_prefix(CONTENT).is_some_and(|content| !content.starts_with(b"$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> String {
        String::from_utf8(hide_keys(text.as_bytes())).unwrap()
    }

    #[test]
    fn keys_are_hidden_and_all_else_stays() {
        let text = "http { # external_account_key a data:b;\n  acme_issuer a {\n    external_account_key kid data:a2V5 ; }\n\
                    content_by_lua_block { x_key = 'data:1;' }\n\
                    ssl_certificate_key \"data:-----BEGIN KEY-----\\nx;\n-----END\";\n}\n";
        let shown = hidden(text);
        assert_eq!(
            shown,
            "http { # external_account_key a data:b;\n  acme_issuer a {\n    external_account_key kid data:*** ; }\n\
                    content_by_lua_block { x_key = 'data:1;' }\n\
                    ssl_certificate_key data:***;\n}\n"
        );
        for same in [
            "",
            "ssl_certificate_key data:$key; ssl_certificate_key /etc/key.pem;",
            "return 200 data:text; ssl_certificate data:-----BEGIN;",
            "proxy_cache_key $uri;",
        ] {
            assert_eq!(hidden(same), same);
        }
    }
}
