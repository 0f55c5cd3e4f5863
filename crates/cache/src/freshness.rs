//! Whether a response may be kept, and for how long: nginx's rules.

use http::{Field, Fields, KnownName, Status};

/// How long `Vary` may be, in bytes. A response with a longer one is not kept.
const VARY_MAX: usize = 128;

/// The fields of a response that do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignoring {
    /// `X-Accel-Expires`
    pub accel_expires: bool,
    /// `Expires`
    pub expires: bool,
    /// `Cache-Control`
    pub cache_control: bool,
    /// `Set-Cookie`
    pub set_cookie: bool,
    /// `Vary`
    pub vary: bool,
}

/// How long responses are valid if they do not say so.
#[derive(Clone, Debug, Default)]
pub struct ValidTimes {
    /// Seconds for each status, in the order in which it was written; `None` stands for any status.
    pub by_status: Vec<(Option<u16>, u64)>,
    /// Whether a response without such a time is valid for a part of its age.
    pub is_heuristic: bool,
}

/// Statuses of responses that may be kept without a time of their own (RFC 9110, section 15.1). 206 counts only for requests
/// that get a content in parts.
pub(crate) const USUAL: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// The part of the age of the content for which a response is valid: a tenth (RFC 9111, section 4.2.2).
const HEURISTIC_PART: i64 = 10;

/// The longest heuristic time, in seconds: a day. What is longer would need a warning in RFC 7234.
const HEURISTIC_MAX: i64 = 86_400;

impl ValidTimes {
    /// The time for a status in seconds, if there is one and it is not zero.
    pub fn of(&self, status: Status) -> Option<i64> {
        let found = self.by_status.iter().find(|(of, _)| of.is_none_or(|of| of == status.0));
        found.and_then(|&(_, seconds)| i64::try_from(seconds).ok()).filter(|&seconds| seconds > 0)
    }

    /// The time for a response in seconds: the configured one, otherwise a part of its age.
    pub fn for_response(&self, status: Status, fields: &Fields, now: i64) -> Option<i64> {
        self.of(status).or_else(|| self.heuristic(status, fields, now))
    }

    fn heuristic(&self, status: Status, fields: &Fields, now: i64) -> Option<i64> {
        if !self.is_heuristic || !USUAL.contains(&status.0) || self.is_configured(status) {
            return None;
        }
        let date = |name: &str| fields.get(name).and_then(http::parse_date);
        let age = date("Date").unwrap_or(now).min(now).saturating_sub(date("Last-Modified")?);
        Some((age / HEURISTIC_PART).min(HEURISTIC_MAX)).filter(|&seconds| seconds > 0)
    }

    /// Whether the configuration gives a status a time, or 0.
    fn is_configured(&self, status: Status) -> bool {
        self.by_status.iter().any(|(of, _)| of.is_none_or(|of| of == status.0))
    }
}

/// How long a response may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Seconds since 1970 up to which it is fresh.
    pub valid_until: i64,
    /// For how many seconds after that it may be sent while it is updated.
    pub updating_s: i64,
    /// For how many seconds after that it may be sent if the upstream server fails.
    pub error_s: i64,
    /// The fields of the request that it depends on, as `Vary` names them.
    pub vary: Box<[u8]>,
}

impl Freshness {
    /// The freshness of a response with these fields; `None` where it may not be kept.
    pub fn of(
        status: Status,
        fields: &Fields,
        rules: (Ignoring, &ValidTimes),
        now: i64,
    ) -> Option<Freshness> {
        let (ignoring, valid) = rules;
        let times = Times::of(fields, ignoring, now);
        if times.forbid_to_keep() {
            return None;
        }
        let vary = if times.has_vary { vary(fields, ignoring)? } else { Box::default() };
        let valid_until = match times.valid_until {
            0 => now.saturating_add(valid.for_response(status, fields, now)?),
            until => until,
        };
        Some(Freshness { valid_until, updating_s: times.updating_s, error_s: times.error_s, vary })
    }

    /// Whether the fields of a response allow to keep it, if it gets a time.
    pub fn may_be_kept(fields: &Fields, ignoring: Ignoring, now: i64) -> bool {
        !Times::of(fields, ignoring, now).forbid_to_keep() && vary(fields, ignoring).is_some()
    }

    /// Whether it is fresh at a time.
    pub fn is_fresh(&self, now: i64) -> bool {
        self.valid_until >= now
    }

    /// Whether it may be sent while it is updated.
    pub fn serves_updating(&self, now: i64) -> bool {
        self.valid_until.saturating_add(self.updating_s) >= now
    }

    /// Whether it may be sent if the upstream server fails.
    pub fn serves_errors(&self, now: i64) -> bool {
        self.valid_until.saturating_add(self.error_s) >= now
    }
}

/// What the fields of a response say about time. The order of the fields counts, as in nginx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Seconds since 1970 up to which it is fresh; 0 where nothing says so.
    pub valid_until: i64,
    /// As in [`Freshness`].
    pub updating_s: i64,
    /// As in [`Freshness`].
    pub error_s: i64,
    /// A field forbids to keep it, whatever else is said.
    is_refused: bool,
    /// `Cache-Control` forbids to keep it.
    is_denied: bool,
    /// It has expired already.
    is_expired: bool,
    has_accel: bool,
    has_expires: bool,
    /// Whether there is a field `Vary`.
    has_vary: bool,
}

impl Times {
    /// What these fields say.
    pub fn of(fields: &Fields, ignoring: Ignoring, now: i64) -> Times {
        const NAMES: [KnownName; 5] = [
            KnownName::CacheControl,
            KnownName::Expires,
            KnownName::SetCookie,
            KnownName::Vary,
            KnownName::XAccelExpires,
        ];
        let mut times = Times::default();
        // Many responses say nothing.
        if fields.has_any(&NAMES) {
            fields.iter().for_each(|field| times.read(&field, ignoring, now));
        }
        times
    }

    fn forbid_to_keep(&self) -> bool {
        self.is_refused || self.is_denied || self.is_expired
    }

    fn read(&mut self, field: &Field<'_>, ignoring: Ignoring, now: i64) {
        match field.known {
            KnownName::CacheControl if !ignoring.cache_control => self.read_cache_control(field.value, now),
            KnownName::Expires => self.read_expires(field.value, ignoring, now),
            KnownName::SetCookie => self.is_refused |= !ignoring.set_cookie,
            KnownName::Vary => self.has_vary = true,
            KnownName::XAccelExpires => self.read_accel(field.value, ignoring, now),
            _ => {}
        }
    }

    /// A time in seconds from now, or after `@` since 1970. The first such field counts.
    fn read_accel(&mut self, value: &[u8], ignoring: Ignoring, now: i64) {
        if std::mem::replace(&mut self.has_accel, true) || ignoring.accel_expires {
            return;
        }
        let (digits, start) = match value.strip_prefix(b"@") {
            Some(digits) => (digits, None),
            None => (value, Some(now)),
        };
        let Some(number) = number(digits) else { return };
        if number == 0 && start.is_some() {
            self.is_refused = true;
            return;
        }
        self.valid_until = start.unwrap_or(0).saturating_add(number);
        (self.is_denied, self.is_expired) = (false, false);
    }

    fn read_expires(&mut self, value: &[u8], ignoring: Ignoring, now: i64) {
        if std::mem::replace(&mut self.has_expires, true) || ignoring.expires || self.valid_until != 0 {
            return;
        }
        match http::parse_date(value) {
            Some(time) if time >= now => self.valid_until = time,
            _ => self.is_expired = true,
        }
    }

    fn read_cache_control(&mut self, value: &[u8], now: i64) {
        let value = value.to_ascii_lowercase();
        let after = |name: &str| find(&value, name.as_bytes()).map(|at| &value[at + name.len()..]);
        if self.valid_until == 0 || !self.has_accel {
            if ["no-cache", "no-store", "private"].iter().any(|name| after(name).is_some()) {
                self.is_denied = true;
                return;
            }
            match after("s-maxage=").or_else(|| after("max-age=")).map(delta_seconds) {
                Some(None) => self.is_refused = true,
                Some(Some(0)) => self.is_denied = true,
                Some(Some(seconds)) => {
                    (self.valid_until, self.is_expired) = (now.saturating_add(seconds), false);
                }
                None => {}
            }
            if self.is_refused || self.is_denied {
                return;
            }
        }
        if let Some(seconds) = after("stale-while-revalidate=").map(delta_seconds) {
            match seconds {
                Some(seconds) => (self.updating_s, self.error_s) = (seconds, seconds),
                None => self.is_refused = true,
            }
        }
        if let Some(seconds) = after("stale-if-error=").map(delta_seconds) {
            match seconds {
                Some(seconds) => self.error_s = seconds,
                None => self.is_refused = true,
            }
        }
    }
}

/// The fields that `Vary` names; `None` where the response may not be kept for it.
pub(crate) fn vary(fields: &Fields, ignoring: Ignoring) -> Option<Box<[u8]>> {
    if ignoring.vary || fields.get("Vary").is_none() {
        return Some(Box::default());
    }
    let all: Vec<&[u8]> = fields.all("Vary").collect();
    let joined = all.join(&b", "[..]);
    let has_star = joined.split(|&byte| byte == b',').any(|name| name.trim_ascii() == b"*");
    (!has_star && joined.len() <= VARY_MAX).then(|| joined.into())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A number of seconds up to a comma, a semicolon or a space; `None` where it is no number.
fn delta_seconds(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|byte| matches!(byte, b',' | b';' | b' ')).unwrap_or(text.len());
    let digit = |number: i64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    };
    text[..end].iter().try_fold(0, digit)
}

/// Digits as a number.
fn number(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Freshness, Ignoring, ValidTimes};
    use http::{Fields, Status};

    const NOW: i64 = 784_111_777;

    fn ask(
        list: &[(&str, &str)],
        ignoring: Ignoring,
        valid: &[(Option<u16>, u64)],
    ) -> Option<(i64, i64, i64)> {
        let mut fields = Fields::new();
        list.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
        let valid = ValidTimes { by_status: valid.to_vec(), is_heuristic: false };
        let freshness = Freshness::of(Status::OK, &fields, (ignoring, &valid), NOW)?;
        Some((freshness.valid_until - NOW, freshness.updating_s, freshness.error_s))
    }

    fn says(list: &[(&str, &str)]) -> Option<(i64, i64, i64)> {
        ask(list, Ignoring::default(), &[])
    }

    #[test]
    fn a_response_says_how_long_it_is_valid() {
        const LATER: &str = "Sun, 06 Nov 1994 08:50:37 GMT";
        const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
        assert_eq!(says(&[]), None, "nothing says so");
        assert_eq!(says(&[("Cache-Control", "max-age=5")]), Some((5, 0, 0)));
        assert_eq!(says(&[("Cache-Control", "public, s-maxage=6, max-age=5")]), Some((6, 0, 0)));
        assert_eq!(
            says(&[("Cache-Control", "MAX-AGE=99999999999999999999")]).map(|(age, ..)| age > 1 << 40),
            Some(true)
        );
        assert_eq!(says(&[("Expires", LATER)]), Some((60, 0, 0)));
        assert_eq!(says(&[("Expires", LATER), ("Cache-Control", "max-age=5")]), Some((5, 0, 0)));
        assert_eq!(says(&[("Cache-Control", "max-age=5"), ("Expires", BEFORE)]), Some((5, 0, 0)));
        assert_eq!(says(&[("X-Accel-Expires", "7"), ("Cache-Control", "no-cache")]), Some((7, 0, 0)));
        assert_eq!(says(&[("Cache-Control", "no-cache"), ("X-Accel-Expires", "7")]), Some((7, 0, 0)));
        assert_eq!(says(&[("X-Accel-Expires", "@784111780")]), Some((3, 0, 0)));
        let stale = "max-age=1, stale-while-revalidate=10, stale-if-error=20";
        assert_eq!(says(&[("Cache-Control", stale)]), Some((1, 10, 20)));
    }

    #[test]
    fn a_response_forbids_to_keep_it() {
        for (name, value) in [
            ("Cache-Control", "no-cache"),
            ("Cache-Control", "no-store"),
            ("Cache-Control", "max-age=10, private"),
            ("Cache-Control", "max-age=0"),
            ("Cache-Control", "max-age=x"),
            ("Cache-Control", "stale-if-error=x"),
            ("Expires", "Sun, 06 Nov 1994 08:49:36 GMT"),
            ("Expires", "0"),
            ("X-Accel-Expires", "0"),
            ("Set-Cookie", "a=b"),
            ("Vary", "*"),
            ("Vary", "Cookie, *"),
        ] {
            let always = [(None, 60)];
            assert_eq!(ask(&[(name, value)], Ignoring::default(), &always), None, "{name}: {value}");
            let all = Ignoring {
                accel_expires: true,
                expires: true,
                cache_control: true,
                set_cookie: true,
                vary: true,
            };
            assert_eq!(ask(&[(name, value)], all, &always), Some((60, 0, 0)), "{name}: {value}");
        }
        let long = "x".repeat(129);
        assert_eq!(ask(&[("Vary", &long)], Ignoring::default(), &[(None, 60)]), None);
    }

    #[test]
    fn the_first_time_that_fits_a_status_counts() {
        let of = |status: u16, list: &[(Option<u16>, u64)]| {
            ValidTimes { by_status: list.to_vec(), is_heuristic: false }.of(Status(status))
        };
        let list = [(Some(200), 5), (Some(404), 0), (None, 9)];
        assert_eq!((of(200, &list), of(404, &list), of(500, &list)), (Some(5), None, Some(9)));
        assert_eq!(of(500, &list[..2]), None);
    }

    #[test]
    fn a_tenth_of_the_age_is_the_time_where_nothing_says_more() {
        let of = |status: u16, list: &[(&str, &str)], configured: &[(Option<u16>, u64)]| {
            let mut fields = Fields::new();
            list.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
            let valid = ValidTimes { by_status: configured.to_vec(), is_heuristic: true };
            let freshness = Freshness::of(Status(status), &fields, (Ignoring::default(), &valid), NOW)?;
            Some(freshness.valid_until - NOW)
        };
        let hour = ("Last-Modified", "Sun, 06 Nov 1994 07:49:37 GMT");
        assert_eq!(
            [200, 404, 203, 202, 500, 302].map(|status| of(status, &[hour], &[])),
            [Some(360), Some(360), Some(360), None, None, None]
        );
        assert_eq!(of(200, &[("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")], &[]), Some(86_400));
        assert_eq!(
            of(200, &[("Last-Modified", "Sun, 06 Nov 1994 09:49:37 GMT")], &[]),
            None,
            "in the future"
        );
        assert_eq!(of(200, &[("Last-Modified", "never")], &[]), None);
        assert_eq!(of(200, &[], &[]), None);
        let before = ("Date", "Sun, 06 Nov 1994 08:19:37 GMT");
        assert_eq!(of(200, &[hour, before], &[]), Some(180), "the age is that of the answer");
        assert_eq!(of(200, &[hour, ("Cache-Control", "max-age=5")], &[]), Some(5));
        assert_eq!(of(200, &[hour, ("Cache-Control", "no-cache")], &[]), None);
        assert_eq!(of(200, &[hour], &[(Some(200), 7)]), Some(7));
        assert_eq!(of(200, &[hour], &[(Some(200), 0)]), None, "0 says that it is not kept");
    }
}
