//! When content is stale.

use crate::shared::scratch::with_scratch;
use conf::{Diagnostic, FileId, Span, Word, value};
use contract::{Args, Exchange, Loading, Template};
use http::Fields;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use journal::clock::Time;
use std::cell::RefCell;

/// What `expires` asks for.
#[derive(Clone)]
pub struct Expires {
    modified: bool,
    when: When,
}

#[derive(Clone)]
enum When {
    Fixed(Moment),
    /// A text that becomes one for each request.
    Computed(Template),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Off,
    Epoch,
    Max,
    /// Seconds from now on, or after the last modification.
    After(i64),
    /// Seconds since midnight.
    Daily(i64),
}

impl Expires {
    /// Whether nothing is asked for.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.when, When::Fixed(Moment::Off))
    }

    /// Sets `Expires` and `Cache-Control`. A computed value that is no time sets nothing.
    pub(super) fn apply(&self, exchange: &mut Exchange) {
        let moment = match &self.when {
            When::Fixed(moment) => *moment,
            When::Computed(template) => {
                let text = template.evaluate(exchange);
                parse_moment(&text, self.modified).unwrap_or(Moment::Off)
            }
        };
        let from = if self.modified { last_modified(exchange) } else { None };
        let Some((expires, age)) = times(moment, from, Time::now()) else { return };
        with_scratch(|control| {
            write_control(age, control);
            let fields = &mut exchange.response.fields;
            fields.remove("Expires");
            push_expires(fields, expires, None);
            let _ = fields.set("Cache-Control", control);
        });
    }
}

/// When the content was modified: of a file, or as another server says.
fn last_modified(exchange: &Exchange) -> Option<i64> {
    let response = &exchange.response;
    response.last_modified.or_else(|| http::parse_date(response.fields.get("last-modified")?))
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Expires, Diagnostic> {
    let (modified, word) = match args.words() {
        [first, word] if first.is("modified") => (true, word),
        [_, _] => return Err(args.error("invalid value")),
        _ => (false, args.word(0)?),
    };
    let template = loading.template(word)?;
    let when = match template.constant() {
        Some(text) => When::Fixed(parse_moment(text, modified).map_err(|message| args.error(message))?),
        None => When::Computed(template),
    };
    Ok(Expires { modified, when })
}

fn parse_moment(text: &[u8], modified: bool) -> Result<Moment, &'static str> {
    match text {
        b"epoch" if !modified => return Ok(Moment::Epoch),
        b"max" if !modified => return Ok(Moment::Max),
        b"off" if !modified => return Ok(Moment::Off),
        _ => {}
    }
    if let Some(time) = text.strip_prefix(b"@") {
        if modified {
            return Err("daily time cannot be used with \"modified\" parameter");
        }
        let seconds = seconds(time)?;
        const DAY: i64 = 24 * 60 * 60;
        return if seconds > DAY {
            Err("daily time value must be less than 24 hours")
        } else {
            Ok(Moment::Daily(seconds))
        };
    }
    match text.split_first() {
        Some((b'-', time)) => Ok(Moment::After(-seconds(time)?)),
        Some((b'+', time)) => Ok(Moment::After(seconds(time)?)),
        _ => Ok(Moment::After(seconds(text)?)),
    }
}

fn seconds(text: &[u8]) -> Result<i64, &'static str> {
    let nowhere = Span { file: FileId(0), start: 0, end: 0, line: 0 };
    let word = Word { text: text.into(), quoted: false, span: nowhere };
    let time = value::time_s(&word).ok().and_then(|time| i64::try_from(time).ok());
    time.ok_or("invalid value")
}

/// When content is stale, in seconds since 1970, and how long it is fresh; a negative age means no age. `from` is
/// what a time counts from, if not from now on.
fn times(moment: Moment, from: Option<i64>, now: Time) -> Option<(i64, i64)> {
    /// Thu, 31 Dec 2037 23:55:55 GMT.
    const MAX: i64 = 2_145_916_555;
    const TEN_YEARS: i64 = 10 * 365 * 24 * 60 * 60;
    Some(match moment {
        Moment::Off => return None,
        Moment::Epoch => (1, -1),
        Moment::Max => (MAX, TEN_YEARS),
        Moment::After(0) => (now.seconds, 0),
        Moment::After(time) => {
            let expires = from.unwrap_or(now.seconds).saturating_add(time);
            // A negative time is always in the past, however new the content is.
            (expires, if time < 0 { -1 } else { expires.saturating_sub(now.seconds) })
        }
        Moment::Daily(time) => {
            let expires = next(time, now.seconds, &TimeZone::system()).unwrap_or(now.seconds);
            (expires, expires.saturating_sub(now.seconds))
        }
    })
}

/// The value of `Cache-Control`.
fn write_control(age: i64, out: &mut Vec<u8>) {
    match u64::try_from(age) {
        Ok(age) => {
            out.extend_from_slice(b"max-age=");
            http::write_number(age, 1, out);
        }
        Err(_) => out.extend_from_slice(b"no-cache"),
    }
}

/// The next moment that it is this many seconds after midnight, after `now`.
fn next(time: i64, now: i64, zone: &TimeZone) -> Option<i64> {
    let today = Timestamp::from_second(now).ok()?.to_zoned(zone.clone()).date();
    [today, today.tomorrow().ok()?].into_iter().find_map(|date| {
        let at: DateTime =
            date.to_datetime(jiff::civil::Time::midnight()).checked_add(time.seconds()).ok()?;
        let moment = at.to_zoned(zone.clone()).ok()?.timestamp().as_second();
        (moment > now).then_some(moment)
    })
}

/// Adds `Expires` with the date of a second, after `Cache-Control` with an age, if one is given. Most often both are
/// those that were asked for last.
pub(crate) fn push_expires(fields: &mut Fields, seconds: i64, age: Option<i64>) {
    /// The lines for a second and an age.
    #[derive(Default)]
    struct Latest {
        known: Option<(i64, Option<i64>)>,
        lines: Fields,
    }
    thread_local! {
        static LATEST: RefCell<Latest> = RefCell::default();
    }
    LATEST.with_borrow_mut(|Latest { known, lines }| {
        if *known != Some((seconds, age)) {
            lines.clear();
            // Ages and dates are digits and letters.
            let _ = age.map(|age| lines.push(b"Cache-Control", &max_age(age)));
            let _ = lines.push(b"Expires", &http::date_text(seconds));
            *known = Some((seconds, age));
        }
        let _ = fields.append(lines);
    });
}

/// The value of `Cache-Control` for an age in seconds.
pub(crate) fn max_age(seconds: i64) -> Vec<u8> {
    let mut control = Vec::with_capacity(32);
    control.extend_from_slice(if seconds < 0 { b"max-age=-" } else { b"max-age=" });
    http::write_number(seconds.unsigned_abs(), 1, &mut control);
    control
}

#[cfg(test)]
mod tests {
    use super::{Moment, next, parse_moment, times, write_control};
    use crate::testing::Site;
    use jiff::tz::TimeZone;
    use journal::clock::Time;

    #[test]
    fn forms() {
        assert_eq!(parse_moment(b"1h", false), Ok(Moment::After(3600)));
        assert_eq!(parse_moment(b"+30", false), Ok(Moment::After(30)));
        assert_eq!(parse_moment(b"-1m", true), Ok(Moment::After(-60)));
        assert_eq!(parse_moment(b"@15h30m", false), Ok(Moment::Daily(55_800)));
        assert_eq!(parse_moment(b"epoch", false), Ok(Moment::Epoch));
        assert_eq!(parse_moment(b"epoch", true), Err("invalid value"));
        assert!(parse_moment(b"@25h", false).is_err() && parse_moment(b"@1h", true).is_err());
    }

    #[test]
    fn ages() {
        let now = Time { seconds: 784_111_777, ..Time::now() };
        let control = |moment, from| {
            times(moment, from, now).map(|(_, age)| {
                let mut control = Vec::new();
                write_control(age, &mut control);
                String::from_utf8(control).unwrap()
            })
        };
        assert_eq!(control(Moment::After(60), None).as_deref(), Some("max-age=60"));
        assert_eq!(control(Moment::After(60), Some(784_111_777 - 20)).as_deref(), Some("max-age=40"));
        assert_eq!(control(Moment::After(60), Some(0)).as_deref(), Some("no-cache"));
        assert_eq!(control(Moment::After(0), Some(0)).as_deref(), Some("max-age=0"));
        assert_eq!(control(Moment::After(-1), Some(784_111_999)).as_deref(), Some("no-cache"));
        assert_eq!(control(Moment::Off, None), None);
        assert_eq!(control(Moment::Max, None).as_deref(), Some("max-age=315360000"));
        let expires = |moment| times(moment, None, now).map(|(expires, _)| http::format_date(expires));
        assert_eq!(expires(Moment::After(60)).as_deref(), Some("Sun, 06 Nov 1994 08:50:37 GMT"));
        assert_eq!(expires(Moment::Max).as_deref(), Some("Thu, 31 Dec 2037 23:55:55 GMT"));
        assert_eq!(expires(Moment::Epoch).as_deref(), Some("Thu, 01 Jan 1970 00:00:01 GMT"));
    }

    #[test]
    fn a_time_of_day_is_today_or_tomorrow() {
        // 08:49:37, universal time.
        let now = 784_111_777;
        assert_eq!(next(9 * 3600, now, &TimeZone::UTC), Some(784_112_400));
        assert_eq!(next(8 * 3600, now, &TimeZone::UTC), Some(784_112_400 - 3600 + 86_400));
        assert_eq!(next(24 * 3600, now, &TimeZone::UTC), Some(784_166_400));
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("expires soon;"), "\"expires\" directive invalid value");
        assert_eq!(Site::error("expires changed 1h;"), "\"expires\" directive invalid value");
        assert_eq!(
            Site::error("expires @25h;"),
            "\"expires\" directive daily time value must be less than 24 hours"
        );
    }
}
