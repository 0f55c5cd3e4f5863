//! HTTP dates (RFC 9110, section 5.6.7).

/// The length of a date in the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const HTTP_DATE_LENGTH: usize = 29;

/// Formats seconds since 1970 in the preferred form. Times before 1970 and after 9999 are moved to
/// the nearest that can be written.
pub fn format_date(seconds: i64) -> String {
    String::from_utf8_lossy(&date_text(seconds)).into_owned()
}

/// The bytes of what [`format_date`] gives.
pub fn date_text(seconds: i64) -> [u8; HTTP_DATE_LENGTH] {
    const YEAR_9999: u64 = 253_402_300_799;
    let seconds = u64::try_from(seconds).unwrap_or(0).min(YEAR_9999);
    let days = u32::try_from(seconds / 86_400).unwrap_or(0);
    let second = u32::try_from(seconds % 86_400).unwrap_or(0);
    let (year, month, day) = year_month_day(days);
    let ([c, e], [y, r], [d, a]) = (digits(year / 100), digits(year % 100), digits(day));
    let ([h, o], [m, i], [s, t]) = (digits(second / 3600), digits(second / 60 % 60), digits(second % 60));
    let ([w, n, k], [x, p, q]) = (*DAYS[(days % 7) as usize], *MONTHS[month % MONTHS.len()]);
    [
        w, n, k, b',', b' ', d, a, b' ', x, p, q, b' ', c, e, y, r, b' ', h, o, b':', m, i, b':', s, t, b' ',
        b'G', b'M', b'T',
    ]
}

/// The days of a week, from the first day of 1970 on.
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// How many days of a year are over before each of its months, without a leap day.
const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The year, the month from 0 on and the day from 1 on, of so many days after the first of 1970.
fn year_month_day(days: u32) -> (u32, usize, u32) {
    let mut year = 1970 + days / 366;
    let (mut first, mut next) = (first_day(year), first_day(year + 1));
    while next <= days {
        year += 1;
        (first, next) = (next, first_day(year + 1));
    }
    let (leap_day, day) = (next - first - 365, days - first);
    // No month has more than 31 days, so that this is the month or the one before it.
    let guess = (day / 31) as usize;
    let month = if guess < 11 && days_before(guess + 1, leap_day) <= day { guess + 1 } else { guess };
    (year, month, day - days_before(month, leap_day) + 1)
}

/// How many days of a year with so many leap days are over before a month.
fn days_before(month: usize, leap_days: u32) -> u32 {
    BEFORE[month] + if month > 1 { leap_days } else { 0 }
}

/// How many days after the first of 1970 a year begins.
fn first_day(year: u32) -> u32 {
    let leap_days = |before: u32| before / 4 - before / 100 + before / 400;
    365 * (year - 1970) + leap_days(year - 1) - leap_days(1969)
}

/// The last two digits of a number.
fn digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

/// Parses any of the three forms to seconds since 1970, or `None` where it is no date. As nginx and Apache do, it takes
/// any name for the day of the week, and any zone, or none, for GMT.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let preferred = preferred_parts(text).and_then(seconds_of);
    preferred.or_else(|| seconds_of(any_parts(text)?))
}

/// The texts of day, month, year and time.
type Parts<'a> = [&'a [u8]; 4];

/// The parts of a date in the preferred form, where each has its place.
fn preferred_parts(text: &[u8]) -> Option<Parts<'_>> {
    let is_preferred = text.len() == HTTP_DATE_LENGTH && text[3..5] == *b", " && text[25..] == *b" GMT";
    is_preferred.then(|| [&text[5..7], &text[8..11], &text[12..16], &text[17..25]])
}

/// The parts of a date in any form.
fn any_parts(text: &[u8]) -> Option<Parts<'_>> {
    let text = text.trim_ascii();
    let name_ends = text.iter().position(|byte| b" ,".contains(byte))?;
    let is_asctime = text[name_ends] == b' ';
    let mut words = text[name_ends..].split(|byte| b" ,-".contains(byte)).filter(|word| !word.is_empty());
    let mut word = || words.next();
    let (first, second, third, fourth) = (word()?, word()?, word()?, word()?);
    Some(if is_asctime { [second, first, fourth, third] } else { [first, second, third, fourth] })
}

fn seconds_of([day, month, year, time]: Parts<'_>) -> Option<i64> {
    let month = MONTHS.iter().position(|name| name[..] == *month)?;
    let year = match (number(year)?, year.len()) {
        (year, 4) => year,
        (year, 2) => year + if year < 70 { 2000 } else { 1900 },
        _ => return None,
    };
    let day = number(day)?;
    let &[h, o, b':', m, i, b':', s, t] = time else { return None };
    let (hour, minute, second) = (number(&[h, o])?, number(&[m, i])?, number(&[s, t])?);
    if year < 1970 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let first = first_day(year);
    let leap_days = first_day(year + 1) - first - 365;
    let before = days_before(month, leap_days);
    let next = if month + 1 < BEFORE.len() { days_before(month + 1, leap_days) } else { 365 + leap_days };
    let days = first + before + day.checked_sub(1).filter(|day| before + day < next)?;
    Some(i64::from(days) * 86_400 + i64::from(hour * 3600 + minute * 60 + second))
}

/// A number of at most four digits.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |number, &digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{HTTP_DATE_LENGTH, format_date, parse_date};
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

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
    fn names_of_days_and_zones_say_nothing() {
        for form in [
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "any, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 +0200",
            "Sun,  6 Nov 1994 08:49:37 UTC",
            "Sunday, 06-Nov-94 08:49:37",
            "Mon Nov 06 08:49:37 1994 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT ",
        ] {
            assert_eq!(parse_date(form.as_bytes()), Some(784_111_777), "{form}");
        }
    }

    #[test]
    fn no_dates() {
        for text in [
            "",
            "Sun",
            "Sun, ",
            "06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Tue, 29 Feb 2100 08:49:37 GMT",
            "Sun, 06 Nov 994 08:49:37 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 23:60:00 GMT",
            "Sun, 06 Nov 1994 23:59:60 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 0x Nov 1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37",
            "784111777",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_others_take_for_a_date(text in "[A-Z][a-z]{2}, [0-3][0-9] (Jan|Feb|Nov|Dec) (19|20)[0-9]{2} [0-2][0-9]:[0-6][0-9]:[0-6][0-9] GMT") {
            if let Ok(theirs) = httpdate::parse_http_date(&text) {
                let since = theirs.duration_since(UNIX_EPOCH).unwrap().as_secs();
                prop_assert_eq!(parse_date(text.as_bytes()), i64::try_from(since).ok());
            }
        }

        #[test]
        fn the_date_reads_back(seconds in 0i64..253_402_300_800) {
            prop_assert_eq!(parse_date(format_date(seconds).as_bytes()), Some(seconds));
        }

        #[test]
        fn the_date_of_any_second(seconds in 0u64..253_402_300_800) {
            let theirs = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            prop_assert_eq!(format_date(i64::try_from(seconds).unwrap()), theirs);
        }
    }

    #[test]
    fn the_ends_of_months_and_years() {
        for text in [
            "Mon, 29 Feb 2016 23:59:59 GMT",
            "Tue, 01 Mar 2016 00:00:00 GMT",
            "Tue, 29 Feb 2000 12:00:00 GMT",
            "Sun, 28 Feb 2100 23:59:59 GMT",
            "Mon, 01 Mar 2100 00:00:00 GMT",
            "Sat, 31 Dec 2022 23:59:59 GMT",
            "Sun, 01 Jan 2023 00:00:00 GMT",
        ] {
            assert_eq!(format_date(parse_date(text.as_bytes()).unwrap()), text);
        }
    }

    #[test]
    fn what_cannot_be_written_is_clamped() {
        assert_eq!(format_date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(parse_date(b"soon"), None);
    }
}
