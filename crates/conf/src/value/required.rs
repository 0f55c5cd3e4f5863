//! The text that every match of a pattern contains, such as `example\.com` in `^https?://.*example\.com.*$`.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// A shorter text is in too many subjects.
const BYTES_MIN: usize = 4;

/// What is known of a pattern without compiling it.
pub(super) struct Required {
    /// A text that each match contains; where case does not count, in any case.
    pub(super) text: Box<[u8]>,
    /// Names of the groups by number; group 0 has none.
    pub(super) names: Vec<Option<Box<str>>>,
}

impl Required {
    /// The longest text that each match of a linear pattern contains, if that has at least [`BYTES_MIN`] bytes.
    pub(super) fn of(pattern: &str) -> Option<Required> {
        let hir = ParserBuilder::new().utf8(false).unicode(false).build().parse(pattern).ok()?;
        let mut longest: &[u8] = b"";
        search(&hir, &mut longest);
        let mut names = vec![None];
        add_names(&hir, &mut names);
        (longest.len() >= BYTES_MIN).then(|| Required { text: longest.into(), names })
    }
}

fn search<'h>(hir: &'h Hir, longest: &mut &'h [u8]) {
    match hir.kind() {
        HirKind::Literal(literal) if literal.0.len() > longest.len() => *longest = &literal.0,
        HirKind::Capture(group) => search(&group.sub, longest),
        HirKind::Repetition(repetition) if repetition.min > 0 => search(&repetition.sub, longest),
        HirKind::Concat(parts) => parts.iter().for_each(|part| search(part, longest)),
        // A match contains one of several alternatives.
        _ => {}
    }
}

fn add_names(hir: &Hir, names: &mut Vec<Option<Box<str>>>) {
    if let HirKind::Capture(group) = hir.kind() {
        names.push(group.name.clone());
    }
    hir.kind().subs().iter().for_each(|part| add_names(part, names));
}

#[cfg(test)]
mod tests {
    use super::Required;

    #[test]
    fn optional_parts_and_alternatives_are_not_required() {
        for (pattern, expected) in [
            (r"^http(s)?://(www.)?.*bad-site\.com.*$", Some("bad-site.com")),
            ("(?:(wordpress))+", Some("wordpress")),
            ("^(wordpress)?.*$", None),
            ("wordpress|joomla", None),
            ("(?i)wordpress", None),
            ("wordpress{0,3}x", Some("wordpres")),
            ("^/a.b.c$", None),
            ("(", None),
        ] {
            let required = Required::of(pattern).map(|required| required.text);
            assert_eq!(required.as_deref(), expected.map(str::as_bytes), "{pattern}");
        }
    }
}
