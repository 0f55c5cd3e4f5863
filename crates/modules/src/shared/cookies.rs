//! How long clients keep cookies.

use http::date_text;
use journal::clock::Time;

/// How long a client keeps a cookie.
#[derive(Clone, Copy, Debug)]
pub enum Expiry {
    /// As long as the browser runs.
    Session,
    /// So many seconds.
    After(i64),
    /// Until the end of 2037.
    Last,
}

impl Expiry {
    /// The attribute that says so; empty for the time of a browser.
    pub(crate) fn attribute(self) -> String {
        match self {
            Expiry::Session => String::new(),
            Expiry::Last => "; expires=Thu, 31-Dec-37 23:55:55 GMT".to_owned(),
            Expiry::After(seconds) => expires(Time::now().seconds.saturating_add(seconds)),
        }
    }

    /// The attribute that gives it in seconds; empty for the time of a browser.
    pub(crate) fn max_age(self) -> String {
        /// As in nginx: ten years.
        const LONGEST_S: i64 = 315_360_000;
        match self {
            Expiry::Session => String::new(),
            Expiry::Last => format!("; max-age={LONGEST_S}"),
            Expiry::After(seconds) => format!("; max-age={seconds}"),
        }
    }
}

/// A time as cookies have it: years up to 2037 have two digits.
fn expires(seconds: i64) -> String {
    let date = date_text(seconds);
    let text = String::from_utf8_lossy(date.as_ref());
    let parts: Vec<&str> = text.split(' ').collect();
    let [day, date, month, year, time, zone] = parts[..] else { return String::new() };
    let year = match year.parse::<u32>() {
        Ok(..=2037) => &year[2..],
        _ => year,
    };
    format!("; expires={day} {date}-{month}-{year} {time} {zone}")
}

#[cfg(test)]
mod tests {
    use super::{Expiry, expires};

    #[test]
    fn years_have_two_digits_up_to_2037() {
        assert_eq!(expires(1_704_164_645), "; expires=Tue, 02-Jan-24 03:04:05 GMT");
        assert_eq!(expires(4_102_444_800), "; expires=Fri, 01-Jan-2100 00:00:00 GMT");
    }

    #[test]
    fn times_in_seconds() {
        let texts = [Expiry::Session, Expiry::After(3780), Expiry::Last].map(Expiry::max_age);
        assert_eq!(texts, ["", "; max-age=3780", "; max-age=315360000"]);
        assert!(Expiry::After(3780).attribute().starts_with("; expires="));
    }
}
