//! Dates: any text is one of the three forms or none, and a date that is written reads back.

use http::{format_date, parse_date};

/// Holds the reader and the writer to it.
pub fn run(input: &[u8]) {
    if let Some(seconds) = parse_date(input) {
        assert_eq!(parse_date(format_date(seconds).as_bytes()), Some(seconds), "{input:?}");
    }
    if let Some(bytes) = input.first_chunk() {
        let seconds = i64::from_le_bytes(*bytes);
        let text = format_date(seconds);
        let again = parse_date(text.as_bytes());
        assert!(
            again.is_none_or(|again| again == seconds || format_date(again) == text),
            "{seconds}: {text}"
        );
    }
}
