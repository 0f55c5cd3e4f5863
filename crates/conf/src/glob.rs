//! Shell patterns of `include`: `*`, `?` and `[…]`, none of which matches a slash or a leading dot.

/// Whether a name without slashes matches a pattern without slashes, byte by byte.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.starts_with(b".") && !pattern.starts_with(b".") && !pattern.starts_with(b"\\.") {
        return false;
    }
    matches_wildcards(pattern, name)
}

/// As [`matches`], but a wildcard matches a leading dot, too.
pub fn matches_wildcards(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // Where the last star stood and which tail of the name it was tried with: enough to go back to.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(after) = pattern.strip_prefix(b"*") {
            star = Some((after, name));
            pattern = after;
            continue;
        }
        let step = name.split_first().and_then(|(&byte, rest)| Some((one(pattern, byte)?, rest)));
        if let Some(next) = step {
            (pattern, name) = next;
            continue;
        }
        if name.is_empty() && pattern.is_empty() {
            return true;
        }
        let Some((after, [_, shorter @ ..])) = star else {
            return false;
        };
        star = Some((after, shorter));
        (pattern, name) = (after, shorter);
    }
}

/// Whether a text holds what makes a name a pattern.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[".contains(byte))
}

/// Every existing path that matches, sorted by bytes. `list` gives the names within a folder (the empty path
/// is the root), `exists` tells whether a path is there; a folder that cannot be listed has no names.
pub(crate) fn expand(
    pattern: &[u8],
    list: impl Fn(&[u8]) -> Vec<Vec<u8>>,
    exists: impl Fn(&[u8]) -> bool,
) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    for (index, part) in pattern.split(|&byte| byte == b'/').enumerate() {
        let join = |base: &[u8], name: &[u8]| {
            let slash: &[u8] = if index == 0 { b"" } else { b"/" };
            [base, slash, name].concat()
        };
        found = if is_pattern(part) {
            let children = |base: &Vec<u8>| {
                let folder = if index == 0 { b"." } else { &**base };
                let names = list(folder).into_iter().filter(|name| matches(part, name));
                names.map(|name| join(base, &name)).collect::<Vec<_>>()
            };
            found.iter().flat_map(children).collect()
        } else {
            found.iter().map(|base| join(base, part)).collect()
        };
    }
    found.retain(|path| exists(path));
    found.sort();
    found
}

/// The pattern after its first item, if that item matches the byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((true, rest)) => Some(rest),
            Some((false, _)) => None,
            // Without its bracket it stands for itself.
            None => (byte == b'[').then_some(rest),
        },
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Whether a set has the byte, and the pattern after its `]`; `None` if it is not closed.
fn set(text: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut found = false;
    let mut first = true;
    loop {
        rest = match rest {
            [] => return None,
            [b']', after @ ..] if !first => return Some((found != negated, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                after
            }
            [b'\\', literal, after @ ..] | [literal, after @ ..] => {
                found |= *literal == byte;
                after
            }
        };
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_question_marks_and_sets() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*.conf", ".conf", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("[.]x", ".x", false),
            ("?x", ".x", false),
            ("*", "", true),
            ("**a**", "bab", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("?", "", false),
            ("[a-c]?", "bz", true),
            ("[!a-c]", "b", false),
            ("[^a-c]", "d", true),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
            ("[ab", "[ab", true),
            ("[ab", "a", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn stars_do_not_take_exponential_time() {
        assert!(!matches(&b"*a".repeat(50), &b"a".repeat(5000).iter().map(|_| b'b').collect::<Vec<_>>()));
    }

    #[test]
    fn each_part_of_a_path_may_be_a_pattern() {
        let files: [&[u8]; 4] = [b"/d/b/x.conf", b"/d/a/x.conf", b"/d/a/y.conf", b"/d/z.conf"];
        let list = |folder: &[u8]| {
            let folder = [folder, b"/"].concat();
            let names = files.iter().filter_map(|file| file.strip_prefix(&*folder));
            let mut names: Vec<_> =
                names.map(|name| name.split(|&byte| byte == b'/').next().unwrap().to_vec()).collect();
            names.dedup();
            names
        };
        let found = expand(b"/d/*/x.conf", list, |path| files.contains(&path));
        assert_eq!(found, [b"/d/a/x.conf", b"/d/b/x.conf"]);
        assert_eq!(expand(b"/d/?.conf", list, |path| files.contains(&path)), [b"/d/z.conf"]);
        let here = |folder: &[u8]| if folder == b"." { vec![b"x".to_vec()] } else { Vec::new() };
        assert_eq!(expand(b"*", here, |_| true), [b"x"]);
        assert_eq!(expand(b"/none/*", list, |path| files.contains(&path)), [b""; 0]);
    }
}
