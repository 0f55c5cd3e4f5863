//! Patterns: the first line is one, with a leading `*` for either case; the rest is what it is tried on.
//! Whichever engine takes it, groups lie within the subject and matching ends.

use conf::value::{Captures, Language, Pattern};

/// Longer ones only take longer.
const PATTERN_BYTES_MAX: usize = 128;
const SUBJECT_BYTES_MAX: usize = 256;

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let mut lines = input.splitn(2, |&byte| byte == b'\n');
    let text = lines.next().unwrap_or_default();
    let subject = lines.next().unwrap_or_default();
    let case_insensitive = text.starts_with(b"*");
    let text = text.strip_prefix(b"*").unwrap_or(text);
    if text.len() > PATTERN_BYTES_MAX || subject.len() > SUBJECT_BYTES_MAX {
        return;
    }
    for language in [Language::Nginx, Language::Apache, Language::ApacheLines] {
        if let Ok(pattern) = Pattern::new(text, case_insensitive, language) {
            try_on(&pattern, subject);
        }
    }
}

fn try_on(pattern: &Pattern, subject: &[u8]) {
    let mut captures = Captures::default();
    let found = pattern.captures(subject, &mut captures);
    assert_eq!(found, pattern.is_match(subject), "{pattern:?} on {subject:?}");
    if !found {
        return;
    }
    assert_eq!(captures.groups.len(), pattern.names().len());
    assert!(captures.get(0, subject).is_some());
    for &(start, end) in captures.groups.iter().flatten() {
        assert!(start as usize <= subject.len() && end as usize <= subject.len());
    }
}
