//! Names with `*` and `?`.

/// Whether a name is what `*`, `?`, `[…]` and `\` describe (fnmatch(3)).
pub(crate) fn matches(glob: &[u8], name: &[u8]) -> bool {
    walk(glob, name, step)
}

/// Whether a name is what `*` and `?` describe; all other characters stand for themselves.
pub(crate) fn stars(glob: &[u8], name: &[u8]) -> bool {
    walk(glob, name, |glob, byte| match glob {
        [b'*', ..] => Step::Star,
        [first, ..] if *first == b'?' || *first == byte => Step::One(1),
        _ => Step::No,
    })
}

fn walk(glob: &[u8], name: &[u8], step: impl Fn(&[u8], u8) -> Step) -> bool {
    let (mut glob_at, mut name_at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        match step(&glob[glob_at..], name[name_at]) {
            Step::Star => {
                star = Some((glob_at + 1, name_at));
                glob_at += 1;
            }
            Step::One(used) => (glob_at, name_at) = (glob_at + used, name_at + 1),
            Step::No => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (glob_at, name_at) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[glob_at..].iter().all(|&byte| byte == b'*')
}

enum Step {
    Star,
    /// One byte of the name, for so many of the glob.
    One(usize),
    No,
}

fn step(glob: &[u8], byte: u8) -> Step {
    match glob {
        [b'*', ..] => Step::Star,
        [b'?', ..] => Step::One(1),
        [b'\\', escaped, ..] if *escaped == byte => Step::One(2),
        [b'[', rest @ ..] => match rest.iter().skip(1).position(|&end| end == b']') {
            Some(end) if in_set(&rest[..=end], byte) => Step::One(end + 3),
            Some(_) => Step::No,
            None if byte == b'[' => Step::One(1),
            None => Step::No,
        },
        [first, ..] if *first == byte => Step::One(1),
        _ => Step::No,
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    let (set, negated) = match set {
        [b'!' | b'^', rest @ ..] => (rest, true),
        set => (set, false),
    };
    let range = set.windows(3).any(|part| part[1] == b'-' && (part[0]..=part[2]).contains(&byte));
    (range || set.contains(&byte)) != negated
}

#[cfg(test)]
mod tests {
    use super::{matches, stars};

    #[test]
    fn only_stars() {
        for (glob, name, expected) in [
            ("[a]", "[a]", true),
            ("[a]", "a", false),
            ("*\\?", "x\\y", true),
            ("a*", "b", false),
            ("", "", true),
        ] {
            assert_eq!(stars(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        }
    }

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("*.php", "a.php", true),
            ("*.php", "a.phps", false),
            ("?.*", "a.b", true),
            ("wp-config.php", "wp-config.php", true),
            ("*a*b", "xaxaxb", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("\\*", "*", true),
            ("", "", true),
            ("*", "", true),
            ("a", "", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        }
    }
}
