//! Chunk extensions (RFC 9112, section 7.1.1): checked, since parsers that skip them in different ways
//! disagree about where a chunk starts, and otherwise ignored.

use http::list::is_token_byte;

/// Where in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// Behind the size.
    Start,
    /// White space was read; a semicolon must come.
    BeforeSemicolon,
    BeforeName,
    Name,
    /// White space after a name was read; a semicolon or an equals sign must come.
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    QuotedPair,
    AfterQuoted,
}

impl Extension {
    /// Where the reader is after this byte, which is not a line's end; none if it may not stand here.
    pub(crate) fn step(self, byte: u8) -> Option<Extension> {
        let blank = matches!(byte, b' ' | b'\t');
        let token = is_token_byte(byte);
        let text = byte == b'\t' || !byte.is_ascii_control();
        match self {
            Extension::Quoted => match byte {
                b'"' => Some(Extension::AfterQuoted),
                b'\\' => Some(Extension::QuotedPair),
                _ => text.then_some(Extension::Quoted),
            },
            Extension::QuotedPair => text.then_some(Extension::Quoted),
            Extension::BeforeName | Extension::BeforeValue if blank => Some(self),
            Extension::BeforeName => token.then_some(Extension::Name),
            Extension::BeforeValue if byte == b'"' => Some(Extension::Quoted),
            Extension::BeforeValue => token.then_some(Extension::Value),
            Extension::Name | Extension::Value if token => Some(self),
            Extension::Name | Extension::AfterName if byte == b'=' => Some(Extension::BeforeValue),
            _ if byte == b';' => Some(Extension::BeforeName),
            Extension::Name | Extension::AfterName => blank.then_some(Extension::AfterName),
            _ => blank.then_some(Extension::BeforeSemicolon),
        }
    }

    /// Whether the line may end here.
    pub(crate) fn may_end(self) -> bool {
        matches!(self, Extension::Start | Extension::Name | Extension::Value | Extension::AfterQuoted)
    }
}

#[cfg(test)]
mod tests {
    use super::Extension;

    fn is_valid(text: &str) -> bool {
        let end = text.bytes().try_fold(Extension::Start, Extension::step);
        end.is_some_and(Extension::may_end)
    }

    #[test]
    fn the_grammar() {
        for text in [
            "",
            ";a",
            ";a=b",
            ";a;b=c;d",
            " ; a = b ;c",
            "\t;a",
            ";a=\"\"",
            ";a=\"b;\\\"c\t\u{e9}\\\\\";d",
            ";a=\"b\" ;c",
        ] {
            assert!(is_valid(text), "{text:?}");
        }
        for text in [
            " ",
            ";",
            ";;a",
            ";a=",
            ";=b",
            ";a ",
            ";a=b ",
            "x",
            ";a b",
            ";a=b c",
            ";a=\"",
            ";a=\"b",
            ";a=\"b\\\"",
            ";a=\"b\"c",
            ";a\0",
            ";a=\"\x01\"",
            ";a=\"\x7f\"",
            ";a=\"\\\x01\"",
            ";a=b\"c\"",
            ";(a)",
            ";a=\"b\" ",
            ";a\n",
            ";a==b",
            ";\u{e9}",
        ] {
            assert!(!is_valid(text), "{text:?}");
        }
    }
}
