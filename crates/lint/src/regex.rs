//! What the text of a regular expression shows.

/// A group that is repeated without a limit, and in which everything can be repeated or left out: its text can be
/// divided between the two in very many ways, and all are tried where the whole does not match.
pub(crate) fn explodes(pattern: &str) -> bool {
    let pieces = pieces(pattern.as_bytes());
    group_explodes(&pieces)
}

/// One atom with its quantifier.
struct Piece {
    /// The content, where it is a group.
    group: Option<Vec<Piece>>,
    /// Whether it may match any number of times.
    is_unbounded: bool,
    /// Whether it may match nothing.
    is_optional: bool,
    /// Whether it separates alternatives.
    is_bar: bool,
    /// Whether it is an assertion, such as `^`, which has no length.
    is_empty: bool,
}

fn group_explodes(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| {
        let Some(group) = &piece.group else { return false };
        let solid = group.iter().filter(|inner| !inner.is_empty);
        // Only the plain form is judged: `(a+)+`, `(a*b?)*`. Anything fixed inside keeps the parts apart.
        let all_loose = solid.clone().all(|inner| !inner.is_bar && (inner.is_unbounded || inner.is_optional));
        let any_unbounded = solid.clone().any(|inner| inner.is_unbounded);
        (piece.is_unbounded && all_loose && any_unbounded) || group_explodes(group)
    })
}

fn pieces(text: &[u8]) -> Vec<Piece> {
    let mut at = 0;
    sequence(text, &mut at)
}

/// Reads up to the end or a closing parenthesis. What is no valid pattern ends somewhere, too.
fn sequence(text: &[u8], at: &mut usize) -> Vec<Piece> {
    let mut out = Vec::new();
    while let Some(&byte) = text.get(*at) {
        *at += 1;
        let (mut group, mut is_bar, mut is_empty) = (None, false, false);
        match byte {
            b')' => return out,
            b'(' => {
                is_empty = skip_group_head(text, at);
                group = Some(sequence(text, at));
            }
            b'[' => skip_class(text, at),
            b'\\' => {
                is_empty = matches!(text.get(*at), Some(b'b' | b'B' | b'A' | b'z' | b'Z'));
                *at += 1;
            }
            b'|' => is_bar = true,
            b'^' | b'$' => is_empty = true,
            _ => {}
        }
        let (is_unbounded, is_optional) = quantifier(text, at);
        out.push(Piece { group, is_unbounded, is_optional, is_bar, is_empty });
    }
    out
}

/// Skips `?:`, `?<name>` and similar marks. Returns whether the group is a lookahead or a lookbehind.
fn skip_group_head(text: &[u8], at: &mut usize) -> bool {
    if text.get(*at) != Some(&b'?') {
        return false;
    }
    let rest = &text[*at..];
    let looks = [&b"?="[..], b"?!", b"?<=", b"?<!"].iter().any(|head| rest.starts_with(head));
    let end = match rest.get(1) {
        Some(b'<' | b'P' | b'\'') if !looks => rest.iter().skip(2).position(|&b| b == b'>' || b == b'\''),
        _ => None,
    };
    *at += end.map_or(if looks && rest.get(1) == Some(&b'<') { 3 } else { 2 }, |end| end + 3);
    looks
}

fn skip_class(text: &[u8], at: &mut usize) {
    // A bracket right at the start stands for itself.
    if text.get(*at) == Some(&b'^') {
        *at += 1;
    }
    if text.get(*at) == Some(&b']') {
        *at += 1;
    }
    while let Some(&byte) = text.get(*at) {
        *at += if byte == b'\\' { 2 } else { 1 };
        if byte == b']' {
            return;
        }
    }
}

/// Whether the quantifier here has no limit, and whether it allows nothing. A possessive one gives nothing back, so
/// that there is only one way.
fn quantifier(text: &[u8], at: &mut usize) -> (bool, bool) {
    let (is_unbounded, is_optional) = match text.get(*at) {
        Some(b'*') => (true, true),
        Some(b'+') => (true, false),
        Some(b'?') => (false, true),
        Some(b'{') => {
            let rest = &text[*at..];
            let Some(end) = rest.iter().position(|&b| b == b'}') else { return (false, false) };
            let inside = &rest[1..end];
            if !inside.iter().all(|b| b.is_ascii_digit() || *b == b',') || inside.is_empty() {
                return (false, false);
            }
            *at += end;
            (inside.ends_with(b","), inside.starts_with(b"0"))
        }
        _ => return (false, false),
    };
    *at += 1;
    match text.get(*at) {
        Some(b'+') => {
            *at += 1;
            (false, is_optional)
        }
        Some(b'?') => {
            *at += 1;
            (is_unbounded, is_optional)
        }
        _ => (is_unbounded, is_optional),
    }
}

/// Whether a pattern holds for the beginning and the end of its subject only.
pub(crate) fn is_anchored(pattern: &str) -> bool {
    let start = ["^", "\\A"].iter().any(|anchor| pattern.starts_with(anchor));
    let end = pattern.ends_with("\\z") || pattern.ends_with("\\Z");
    let dollar = pattern.ends_with('$') && !pattern.ends_with("\\$");
    start && (end || dollar)
}

/// Whether a dot that stands for any character stands where one between two parts of a name does.
pub(crate) fn has_loose_dot(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    bytes.windows(3).enumerate().any(|(at, window)| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric();
        let escaped = at > 0 && bytes[at - 1] == b'\\';
        window[1] == b'.' && is_name(window[0]) && is_name(window[2]) && !escaped && !in_class(bytes, at + 1)
    })
}

fn in_class(bytes: &[u8], at: usize) -> bool {
    let open = bytes[..at].iter().rposition(|&byte| byte == b'[');
    open.is_some_and(|open| !bytes[open..at].contains(&b']'))
}

#[cfg(test)]
mod tests {
    use super::{explodes, has_loose_dot, is_anchored};

    #[test]
    fn only_repeated_repetitions_explode() {
        for bad in
            ["^(a+)+$", "(.*)*", "^/(?:[a-z]+)*/x$", "(\\w+\\s?)+$", "(?<n>x*)+", "((a+)+)b", "([^/]*){2,}"]
        {
            assert!(explodes(bad), "{bad}");
        }
        for good in [
            "^/a/(.*)$",
            "^(/[^/]+)+$",
            "(a|b)+",
            "(ab?)+",
            "\\.(css|js)$",
            "(a+)++",
            "(a++)+",
            "(a{1,3})+",
            "[(+)]+",
            "(",
        ] {
            assert!(!explodes(good), "{good}");
        }
    }

    #[test]
    fn anchors_and_dots() {
        assert!(is_anchored("^a$") && is_anchored("\\Aa\\z"));
        assert!(!is_anchored("a$") && !is_anchored("^a") && !is_anchored("^a\\$"));
        assert!(has_loose_dot("^www.a$") && has_loose_dot("a.example\\.com"));
        assert!(!has_loose_dot("^www\\.a$") && !has_loose_dot("^[a.b]$") && !has_loose_dot("^a.*$"));
    }
}
