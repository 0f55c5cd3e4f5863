//! Patterns of nginx's language that are a word or a part of one.

use super::{Language, Pattern, ValueError};
use crate::{Diagnostic, Span, Word};

/// Compiles a pattern of nginx's language that is a part of a word.
///
/// # Errors
/// PCRE2's message, with the place in the word.
pub fn pattern(word: &Word, text: &[u8], ignore_case: bool) -> Result<Pattern, Diagnostic> {
    Pattern::new(text, ignore_case, Language::Nginx).map_err(|error| {
        let place = match &error {
            ValueError::Pattern(wrong) => place_in(word, text, wrong.offset),
            _ => word.span,
        };
        Diagnostic::emerg(error.to_string()).at(word.span).under(place)
    })
}

/// Where a byte of a pattern stands that is in a word; the whole word, where it is not written as it is meant.
fn place_in(word: &Word, pattern: &[u8], offset: usize) -> Span {
    let quotes = usize::from(word.quoted);
    let written = (word.span.end - word.span.start) as usize;
    let found = word.text.windows(pattern.len().max(1)).rposition(|part| part == pattern);
    match found.filter(|_| written == word.text.len() + 2 * quotes) {
        Some(begin) => {
            let start = word.span.start + u32::try_from(quotes + begin + offset).unwrap_or(0);
            Span { start, end: word.span.end.max(start), ..word.span }
        }
        None => word.span,
    }
}
