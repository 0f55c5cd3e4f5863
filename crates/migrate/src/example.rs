//! A path that a pattern probably matches. A wrong guess costs a request and nothing else.

use std::iter::Peekable;
use std::str::Chars;

/// Letters of an example.
const LENGTH_MAX: usize = 200;

/// An example for a pattern of a location or a rewrite; none for a pattern that the reader does not know well.
pub(crate) fn of_pattern(pattern: &str) -> Option<String> {
    let is_anchored = pattern.starts_with('^');
    let mut out = String::new();
    let mut rest = pattern.trim_start_matches('^').chars().peekable();
    sequence(&mut rest, &mut out, 0)?;
    let start = match (is_anchored, out.starts_with('/')) {
        (_, true) => "",
        (true, false) => "/",
        (false, false) => "/x",
    };
    let path = format!("{start}{out}");
    (path.len() <= LENGTH_MAX && path.bytes().all(|byte| byte.is_ascii_graphic())).then_some(path)
}

/// Writes the first alternative up to the end of the group, and skips the others.
fn sequence(rest: &mut Peekable<Chars<'_>>, out: &mut String, depth: usize) -> Option<()> {
    if depth > 10 {
        return None;
    }
    while let Some(c) = rest.next() {
        match c {
            ')' => return Some(()),
            '|' => {
                // The other alternatives are read and dropped.
                return sequence(rest, &mut String::new(), depth + 1);
            }
            '^' | '$' => {}
            '(' => {
                if rest.next_if_eq(&'?').is_some() {
                    group_start(rest)?;
                }
                let mut inner = String::new();
                sequence(rest, &mut inner, depth + 1)?;
                quantified(rest, &inner, out);
            }
            '[' => {
                let member = class(rest)?;
                quantified(rest, &member, out);
            }
            '.' => quantified(rest, "x", out),
            '\\' => {
                let one = match rest.next()? {
                    'd' => "1".to_owned(),
                    'w' | 'S' | 'D' => "a".to_owned(),
                    'b' | 'A' | 'z' | 'Z' => String::new(),
                    c if c.is_ascii_alphanumeric() => return None,
                    c => c.to_string(),
                };
                quantified(rest, &one, out);
            }
            c => quantified(rest, &c.to_string(), out),
        }
    }
    Some(())
}

/// What follows `(?` of a group that takes part in the match.
fn group_start(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    rest.next_if_eq(&'P');
    match rest.next()? {
        ':' => Some(()),
        '<' if !matches!(rest.peek(), Some('=' | '!')) => rest.find(|c| *c == '>').map(drop),
        _ => None,
    }
}

/// A member of a class such as `[a-z]`.
fn class(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let is_negated = rest.next_if_eq(&'^').is_some();
    let first = match rest.next()? {
        '\\' => match rest.next()? {
            'd' => '1',
            'w' => 'a',
            c => c,
        },
        c => c,
    };
    while rest.next()? != ']' {}
    let member = if is_negated { 'x' } else { first };
    Some(member.to_string())
}

/// Writes a part as its quantifier says: once where it may be left out.
fn quantified(rest: &mut Peekable<Chars<'_>>, part: &str, out: &mut String) {
    match rest.peek() {
        Some('?' | '*' | '+') => {
            rest.next();
        }
        Some('{') => {
            let count: String = rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
            let least = count.split(',').next().and_then(|least| least.parse().ok()).unwrap_or(1);
            (1..least.min(LENGTH_MAX)).for_each(|_| out.push_str(part));
        }
        _ => {}
    }
    // A lazy or possessive quantifier.
    rest.next_if(|c| matches!(c, '?' | '+'));
    out.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_give_paths() {
        for (pattern, path) in [
            ("\\.(gif|jpg|png)$", "/x.gif"),
            ("^/old/(.*)$", "/old/x"),
            ("^/a(?<n>[0-9]{3})/b?$", "/a000/b"),
            ("^(.+\\.php)(/.+)$", "/x.php/x"),
            ("^/[^/]+/x", "/x/x"),
            ("^/a(|b(c))d", "/ad"),
        ] {
            assert_eq!(of_pattern(pattern).as_deref(), Some(path), "{pattern}");
        }
        assert_eq!(of_pattern("(?=x)"), None);
        assert_eq!(of_pattern("^/\\x41"), None);
    }
}
