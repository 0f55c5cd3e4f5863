//! HTTP dates (RFC 9110, section 5.6.7).

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// The length of a date in the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const HTTP_DATE_LENGTH: usize = 29;

/// Formats seconds since 1970 in the preferred form. Times before 1970 and after 9999 are moved to
/// the nearest that can be written.
pub fn format_date(seconds: i64) -> String {
    date(seconds).to_string()
}

/// Appends what [`format_date`] gives.
pub fn write_date(seconds: i64, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{}", date(seconds));
}

fn date(seconds: i64) -> HttpDate {
    const YEAR_9999: u64 = 253_402_300_799;
    let seconds = u64::try_from(seconds).unwrap_or(0).min(YEAR_9999);
    (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).into()
}

/// Parses any of the three forms to seconds since 1970, or `None` where it is no date.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::{HTTP_DATE_LENGTH, format_date, parse_date};

    #[test]
    fn round_trip_and_the_obsolete_forms() {
        let text = format_date(784_111_777);
        assert_eq!(text, "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text.len(), HTTP_DATE_LENGTH);
        for form in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(form.as_bytes()), Some(784_111_777), "{form}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_clamped() {
        assert_eq!(format_date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(parse_date(b"soon"), None);
    }
}
