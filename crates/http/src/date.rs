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

const LONG_DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

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

/// Parses a date as nginx does, to seconds since 1970; `None` where it is no date. The name of the day, the zone and what follows
/// it have no effect, nor has the case of the letters but for the first one of the month.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let parts = preferred_parts(text).or_else(|| loose_parts(text))?;
    let [_, month, ..] = parts;
    if month[0].is_ascii_uppercase() { seconds_of(parts) } else { None }
}

/// Parses one of the three forms, in upper or lower case, to seconds since 1970; `None` for anything that is not quite one of them.
/// Caches use it for what decides how long a response may be used (RFC 9111, sections 4.2 and 5.3). A year of two digits that
/// would be more than fifty years after `now` is one of the last century (RFC 9110, section 5.6.7).
pub fn parse_exact_date(text: &[u8], now: i64) -> Option<i64> {
    const FIFTY_YEARS_S: i64 = 50 * 31_556_952;
    let is_day = |name: &[u8]| DAYS.iter().any(|day| name.eq_ignore_ascii_case(&day[..]));
    let is_long_day = |name: &[u8]| LONG_DAYS.iter().any(|day| name.eq_ignore_ascii_case(day.as_bytes()));
    let name = text.split(|byte| b", ".contains(byte)).next().unwrap_or_default();
    let (rest, is_short) = (&text[name.len()..], is_day(name));
    if is_short && is_like(rest, b", ## @@@ #### ##:##:## GMT") {
        return seconds_of([&rest[2..4], &rest[5..8], &rest[9..13], &rest[14..22]]);
    }
    if is_short && (is_like(rest, b" @@@ ## ##:##:## ####") || is_like(rest, b" @@@  # ##:##:## ####")) {
        return seconds_of([rest[5..7].trim_ascii_start(), &rest[1..4], &rest[17..21], &rest[8..16]]);
    }
    if is_long_day(name) && is_like(rest, b", ##-@@@-## ##:##:## GMT") {
        let [day, month, year, time] = [&rest[2..4], &rest[5..8], &rest[9..11], &rest[12..20]];
        let is_near = |time: &i64| *time <= now.saturating_add(FIFTY_YEARS_S);
        let this_century = seconds_of([day, month, &[b"20", year].concat(), time]).filter(is_near);
        return this_century.or_else(|| seconds_of([day, month, &[b"19", year].concat(), time]));
    }
    None
}

/// The texts of day, month, year and time.
type Parts<'a> = [&'a [u8]; 4];

/// The parts of a date in the preferred form, where each has its place.
fn preferred_parts(text: &[u8]) -> Option<Parts<'_>> {
    let is_preferred = text.len() == HTTP_DATE_LENGTH
        && text[3..5] == *b", "
        && [text[7], text[11], text[16]] == [b' '; 3]
        && text[25..] == *b" GMT";
    is_preferred.then(|| [&text[5..7], &text[8..11], &text[12..16], &text[17..25]])
}

/// The parts of a date in the forms that nginx takes.
fn loose_parts(text: &[u8]) -> Option<Parts<'_>> {
    let name_ends = text.iter().position(|byte| b" ,".contains(byte))?;
    let is_asctime = text[name_ends] == b' ';
    let rest = text[name_ends + 1..].trim_ascii_start();
    let starts = |form: &[u8]| rest.get(..form.len()).is_some_and(|start| is_like(start, form));
    if is_asctime {
        // One or two spaces, and one or two digits.
        let day = rest.get(4..)?;
        let day = day.strip_prefix(b" ").unwrap_or(day);
        let digits = day.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (day, after) = day.split_at(digits);
        let is_form =
            matches!(digits, 1 | 2) && after.len() >= 14 && is_like(&after[..14], b" ##:##:## ####");
        return is_form.then(|| [day, &rest[..3], &after[10..14], &after[1..9]]);
    }
    if starts(b"## @@@ #### ##:##:##") {
        return Some([&rest[..2], &rest[3..6], &rest[7..11], &rest[12..20]]);
    }
    starts(b"##-@@@-## ##:##:##").then(|| [&rest[..2], &rest[3..6], &rest[7..9], &rest[10..18]])
}

/// Whether a text has a form, in upper or lower case: `#` stands for a digit, `@` for a letter.
fn is_like(text: &[u8], form: &[u8]) -> bool {
    text.len() == form.len()
        && text.iter().zip(form).all(|(byte, of)| match of {
            b'#' => byte.is_ascii_digit(),
            b'@' => byte.is_ascii_alphabetic(),
            of => byte.eq_ignore_ascii_case(of),
        })
}

fn seconds_of([day, month, year, time]: Parts<'_>) -> Option<i64> {
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
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
    use super::{HTTP_DATE_LENGTH, format_date, parse_date, parse_exact_date};
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

    /// nginx takes these for dates. Which of them decide how long a response may be used?
    #[test]
    fn an_exact_date_has_one_of_the_three_forms() {
        const NOW: i64 = 784_111_777;
        for (form, is_exact) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", true),
            ("SUN, 06 NOV 1994 08:49:37 gMT", true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", true),
            ("Sun Nov  6 08:49:37 1994", true),
            ("Sun Nov 06 08:49:37 1994", true),
            ("Mon, 06 Nov 1994 08:49:37 GMT", true),
            ("any, 06 Nov 1994 08:49:37", false),
            ("Sun, 06 Nov 1994 08:49:37", false),
            ("Sun, 06 Nov 1994 08:49:37 +0200", false),
            ("Sun, 06 Nov 1994 08:49:37 UTC", false),
            ("Sun,06 Nov 1994 08:49:37 GMT", false),
            ("Sun,  06 Nov 1994 08:49:37 GMT", false),
            ("Sun, 06 Nov 1994 08:49:37  GMT", false),
            ("Sunday, 06 Nov 1994 08:49:37 GMT", false),
            ("Sun, 06-Nov-94 08:49:37 GMT", false),
            ("Sunday, 06-Nov-94 08:49:37", false),
            ("Mon Nov 6 08:49:37 1994 GMT", false),
        ] {
            assert_eq!(parse_date(form.as_bytes()), Some(NOW), "{form}");
            let exact = parse_exact_date(form.as_bytes(), NOW);
            assert_eq!(exact, Some(NOW).filter(|_| is_exact), "{form}");
        }
        let lower = b"sun, 06 nov 1994 08:49:37 gmt";
        assert_eq!((parse_date(lower), parse_exact_date(lower, NOW)), (None, Some(NOW)));
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_away() {
        const NOW: i64 = 1_795_000_000;
        let year = |digits: &str| {
            let text = format!("Sunday, 06-Nov-{digits} 08:49:37 GMT");
            let time = parse_exact_date(text.as_bytes(), NOW).unwrap();
            format_date(time)[12..16].to_owned()
        };
        let years = ["26", "50", "76", "77", "94"].map(year);
        assert_eq!(years, ["2026", "2050", "2076", "1977", "1994"].map(str::to_owned));
        assert_eq!(parse_exact_date(b"Sunday, 06-Nov-50 08:49:37 GMT", i64::MAX), Some(2_551_337_377));
    }

    #[test]
    fn no_dates() {
        for text in [
            "",
            "Sun",
            "Sun, ",
            "06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Noc 1994 08:49:37 GMT",
            "Sun, 06  1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06, Nov, 1994, 08:49:37, GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun,  6 Nov 1994 08:49:37 GMT",
            "Sun, 06xNov 1994 08:49:37 GMT",
            "Sun, 06 Novx1994 08:49:37 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT",
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
            assert_eq!(parse_exact_date(text.as_bytes(), 0), None, "{text}");
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
            prop_assert_eq!(parse_exact_date(format_date(seconds).as_bytes(), 0), Some(seconds));
        }

        #[test]
        fn an_exact_date_is_the_same_for_nginx(text in "[A-Za-z]{3,9}[, ]{0,2}[-0-9A-Za-z: ,]{0,24}( GMT)?") {
            let dates = (parse_date(text.as_bytes()), parse_exact_date(text.as_bytes(), 784_111_777));
            if let (Some(date), Some(exact)) = dates {
                prop_assert_eq!(date, exact);
            }
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
