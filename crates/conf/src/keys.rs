//! Hides private keys that are written in a configuration (`ssl_certificate_key data:…`) when `-T` prints it.

use std::sync::Arc;

use memchr::memmem;

use crate::lexer::{Lexer, Token};
use crate::lua;
use crate::source::FileId;
use crate::tree::Word;

/// The beginning of a value that is the key itself and not the name of its file.
const CONTENT: &[u8] = b"data:";

/// The end of the names of directives that may take such a value.
const KEY: &[u8] = b"_key";

/// What stands instead of a key.
const HIDDEN: &[u8] = b"data:***";

/// What stands instead of a text that is not a configuration.
const UNREADABLE: &[u8] = b"# the rest has an error, and may contain keys: it is not shown\n";

/// The text of a configuration without its keys: each word `data:…` of a directive `…_key` becomes `data:***`, also in
/// comments. A value that is only a variable (`data:$key`) stays.
pub fn hide_keys(text: &[u8]) -> Vec<u8> {
    let mut lexer = Lexer::new(Arc::from(text), FileId(0));
    let mut copy = Copy { text, from: 0, shown: Vec::with_capacity(text.len()) };
    loop {
        let (words, is_block) = match lexer.next_token() {
            Ok(Token::Simple(words, _)) => (words, false),
            Ok(Token::Open(words, _)) => (words, true),
            Ok(Token::Close(_)) => (Vec::new(), false),
            Ok(Token::End(_)) => break,
            Err(_) => {
                copy.shown.extend_from_slice(UNREADABLE);
                return copy.shown;
            }
        };
        let may_have_key = !is_block && words.first().is_some_and(|name| name.text.ends_with(KEY));
        for word in &words {
            let [start, end] = [word.span.start, word.span.end].map(|offset| offset as usize);
            copy.comments(start);
            if may_have_key && is_key(word) { copy.hidden(end) } else { copy.plain(end) }
        }
        copy.comments(lexer.position());
        if is_block && words.first().is_some_and(|name| lua::holds_lua(&name.text)) {
            lexer.skip_lua();
            copy.plain(lexer.position());
        }
    }
    copy.comments(text.len());
    copy.shown
}

fn is_key(word: &Word) -> bool {
    word.text.strip_prefix(CONTENT).is_some_and(|content| !is_variable(content))
}

/// Whether a text is one variable and nothing else.
fn is_variable(text: &[u8]) -> bool {
    let Some(name) = text.strip_prefix(b"$") else { return false };
    let inside = name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}"));
    inside.unwrap_or(name).iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A copy of a text, up to an offset.
struct Copy<'a> {
    text: &'a [u8],
    from: usize,
    shown: Vec<u8>,
}

impl Copy<'_> {
    /// Copies as it is.
    fn plain(&mut self, end: usize) {
        let part = self.text.get(self.from..end).unwrap_or_default();
        self.shown.extend_from_slice(part);
        self.from = end;
    }

    /// Copies a value that is a key.
    fn hidden(&mut self, end: usize) {
        self.shown.extend_from_slice(HIDDEN);
        self.from = end;
    }

    /// Copies what stands between words: spaces, comments and the end of a directive.
    fn comments(&mut self, end: usize) {
        let part = self.text.get(self.from..end).unwrap_or_default();
        self.from = end;
        // A key in several lines, of which each is a comment.
        let mut is_inside = false;
        for line in part.split_inclusive(|byte| *byte == b'\n') {
            let ends = |line: &[u8]| memmem::find(line, b"-----END").is_some();
            let key = line.iter().position(|byte| *byte == b'#').and_then(|at| key_in(line, at));
            if is_inside {
                is_inside = !ends(line);
                self.shown.extend_from_slice(b"# ***\n");
            } else if let Some(at) = key {
                is_inside = memmem::find(line, b"-----BEGIN").is_some() && !ends(line);
                self.shown.extend_from_slice(&line[..at]);
                self.shown.extend_from_slice(HIDDEN);
                self.shown.push(b'\n');
            } else {
                self.shown.extend_from_slice(line);
            }
        }
    }
}

/// Where a key begins in a line whose comment begins at an offset.
fn key_in(line: &[u8], comment: usize) -> Option<usize> {
    let name = comment + memmem::find(&line[comment..], KEY)?;
    let at = name + memmem::find(&line[name..], CONTENT)?;
    let content = &line[at + CONTENT.len()..];
    let end = content.iter().position(|byte| b" \t\r\n;\"'".contains(byte)).unwrap_or(content.len());
    (!is_variable(&content[..end])).then_some(at)
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
            "http { # external_account_key a data:***\n  acme_issuer a {\n    external_account_key kid data:*** ; }\n\
                    content_by_lua_block { x_key = 'data:1;' }\n\
                    ssl_certificate_key data:***;\n}\n"
        );
        for same in [
            "",
            "ssl_certificate_key data:$key; ssl_certificate_key data:${key}; ssl_certificate_key /etc/key.pem;",
            "# proxy_cache_key $uri;\nroot a; # ssl_certificate_key data:$key;\n# a data: URL",
            "return 200 data:text; ssl_certificate data:-----BEGIN;",
            "proxy_cache_key $uri;",
        ] {
            assert_eq!(hidden(same), same);
        }
    }

    #[test]
    fn nothing_of_a_key_is_left() {
        assert_eq!(hidden("ssl_certificate_key \"data:${part}SECRET\";"), "ssl_certificate_key data:***;");
        let commented = "root a;\n# ssl_certificate_key \"data:-----BEGIN PRIVATE KEY-----\n# SECRET\n\
                         # -----END PRIVATE KEY-----\";\nindex b; # account_key data:SECRET; x";
        assert_eq!(
            hidden(commented),
            "root a;\n# ssl_certificate_key \"data:***\n# ***\n# ***\nindex b; # account_key data:***\n"
        );
        let broken = hidden("root a;\nindex \"b\"c;\nssl_certificate_key data:SECRET;\n");
        assert!(!broken.contains("SECRET") && broken.starts_with("root a;"), "{broken}");
    }
}
