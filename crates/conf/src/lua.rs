//! Where a block of Lua ends. Such blocks are refused. The rest of the file is still read, so that all refused directives
//! are reported at once.

/// Whether the block of this directive contains Lua.
pub(crate) fn holds_lua(name: &[u8]) -> bool {
    name.ends_with(b"_by_lua_block")
}

/// Where a block ends: the offset of its closing brace in `text`, which starts after the opening brace. Without a closing
/// brace, the length of `text`.
pub(crate) fn end(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        at += match byte {
            b'}' if depth == 0 => return at,
            b'"' | b'\'' => quoted(rest),
            b'[' => long(rest).unwrap_or(1),
            b'-' if rest.starts_with(b"--") => 2 + long(&rest[2..]).unwrap_or_else(|| line(&rest[2..])),
            b'{' | b'}' => {
                depth = if byte == b'{' { depth + 1 } else { depth - 1 };
                1
            }
            _ => 1,
        };
    }
    text.len()
}

/// The length of a text in quotes, with its closing quote. Without one it ends before the line break; a line break after a
/// backslash belongs to the text.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == text[0] => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of `[[…]]` or `[=[…]=]`, if that begins here.
fn long(text: &[u8]) -> Option<usize> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|byte| **byte == b'=').count();
    let start = level + 2;
    (text.get(start - 1) == Some(&b'[')).then_some(())?;
    let close = [&b"]"[..], &text[1..=level], b"]"].concat();
    let found = memchr::memmem::find(&text[start..], &close);
    Some(found.map_or(text.len(), |at| start + at + close.len()))
}

fn line(text: &[u8]) -> usize {
    memchr::memchr(b'\n', text).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_lua_ends_them() {
        for inside in [
            "",
            "a = { b = {} }",
            "s = \"}\"",
            "s = 'it\\'s }'",
            "-- it's }\nx()",
            "--[[ } ]] x()",
            "s = [==[ }]] ]=] }]==]",
            "t[1] = a[b[2]]",
            "s = \"not closed }\n",
        ] {
            assert_eq!(end(format!("{inside}}} rest }}").as_bytes()), inside.len(), "{inside}");
        }
        for open in ["", "{ }", "--[[ }", "s = '}", "\"\\"] {
            assert_eq!(end(open.as_bytes()), open.len(), "{open}");
        }
    }
}
