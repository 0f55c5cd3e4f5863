//! The time, which is read once per turn of a thread, and its texts, which are formatted once per second.

use http::HTTP_DATE_LENGTH;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// How long a reading of the wall clock is reused. Its resolution is a millisecond.
const WALL_VALID: Duration = Duration::from_millis(1);

/// A moment: by the monotonic clock for measuring, by the wall clock for display.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The monotonic clock, for durations.
    pub instant: Instant,
    /// The monotonic clock in whole milliseconds since the first reading of this process.
    pub uptime_ms: u64,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Milliseconds within the second.
    pub milliseconds: u16,
}

impl Time {
    /// The current time; during a [`Turn`] the time of its start.
    #[inline]
    pub fn now() -> Time {
        TURN.get().unwrap_or_else(|| {
            // Taken apart, so that callers that need one field need not copy the others.
            let Time { instant, uptime_ms, seconds, milliseconds } = Time::read();
            Time { instant, uptime_ms, seconds, milliseconds }
        })
    }

    #[cold]
    fn read() -> Time {
        let instant = Instant::now();
        let Some(Wall { time, uptime_ns }) = WALL.get() else { return Time::read_wall(instant) };
        let since = instant.saturating_duration_since(time.instant);
        if since >= WALL_VALID {
            return Time::read_wall(instant);
        }
        let uptime_ns = uptime_ns.saturating_add(u64::from(since.subsec_nanos()));
        Time { instant, uptime_ms: uptime_ns / 1_000_000, ..time }
    }

    fn read_wall(instant: Instant) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let uptime_ns = uptime_ns(instant);
        let time = Time {
            instant,
            uptime_ms: uptime_ns / 1_000_000,
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            milliseconds: u16::try_from(since.subsec_millis()).unwrap_or(0),
        };
        WALL.set(Some(Wall { time, uptime_ns }));
        time
    }
}

/// Both clocks, when they were read last.
#[derive(Clone, Copy)]
struct Wall {
    time: Time,
    /// The time since this process first looked, in nanoseconds.
    uptime_ns: u64,
}

fn uptime_ns(now: Instant) -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = now.saturating_duration_since(*FIRST.get_or_init(|| now));
    since.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(since.subsec_nanos()))
}

/// A turn of a thread, which does not block. While it lives, [`Time::now`] returns the time of its start, so that a request
/// that is answered within the turn reads one clock once.
#[derive(Debug)]
pub struct Turn {
    /// Whether the turn is a part of another one, whose time it has.
    is_inner: bool,
}

impl Turn {
    /// Begins a turn now, or within the turn that goes on.
    #[must_use]
    pub fn begin() -> Turn {
        let is_inner = TURN.get().is_some();
        if !is_inner {
            TURN.set(Some(Time::read()));
        }
        Turn { is_inner }
    }

    /// Reads the clock again, and returns the time.
    pub fn renew(&mut self) -> Time {
        let time = Time::read();
        TURN.set(Some(time));
        time
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_inner {
            TURN.set(None);
        }
    }
}

/// The texts of one second.
struct Texts {
    second: i64,
    http: [u8; HTTP_DATE_LENGTH],
    log: String,
    iso8601: String,
    error_log: String,
    syslog: String,
}

thread_local! {
    /// When the current turn began.
    static TURN: Cell<Option<Time>> = const { Cell::new(None) };
    /// The last reading of both clocks.
    static WALL: Cell<Option<Wall>> = const { Cell::new(None) };
    static TEXTS: RefCell<Option<Texts>> = const { RefCell::new(None) };
    static ZONE: TimeZone = TimeZone::system();
}

/// Forgets the time zone after the environment (`TZ`) changed. Threads that start later look it up again.
pub fn forget_zone() {
    jiff::tz::reset_system_time_zone_cache();
}

/// The value of a `Date` field (RFC 9110, section 6.6.1).
pub fn http_date(time: Time) -> [u8; HTTP_DATE_LENGTH] {
    with_texts(time, |texts| texts.http)
}

/// Appends local time as the access log's `$time_local`: `21/Nov/2026:20:05:56 +0000`.
pub fn write_log_time(time: Time, out: &mut Vec<u8>) {
    with_texts(time, |texts| out.extend_from_slice(texts.log.as_bytes()));
}

/// Appends local time as `$time_iso8601`: `2026-11-21T20:05:56+00:00`.
pub fn write_iso8601(time: Time, out: &mut Vec<u8>) {
    with_texts(time, |texts| out.extend_from_slice(texts.iso8601.as_bytes()));
}

/// Appends local time with milliseconds (RFC 3339): `2026-11-21T20:05:56.123+00:00`.
pub fn write_iso8601_milliseconds(time: Time, out: &mut Vec<u8>) {
    with_texts(time, |texts| {
        let (seconds, zone) = texts.iso8601.split_at(ISO8601_SECONDS.min(texts.iso8601.len()));
        // Writing to memory does not fail.
        let _ = write!(out, "{seconds}.{:03}{zone}", time.milliseconds);
    });
}

/// The length of `2026-11-21T20:05:56`.
const ISO8601_SECONDS: usize = 19;

/// Appends local time in the format of syslog (RFC 3164, section 4.1.2): `Nov  1 20:05:56`.
pub fn write_syslog_time(time: Time, out: &mut Vec<u8>) {
    with_texts(time, |texts| out.extend_from_slice(texts.syslog.as_bytes()));
}

/// Local time in the format of the error log: `2026/11/21 20:05:56`.
pub fn error_log_time(time: Time) -> String {
    with_texts(time, |texts| texts.error_log.clone())
}

/// Formats a moment as local time or UTC by a `strftime` format that is known to be right.
pub fn format(seconds: i64, local: bool, format: &str) -> String {
    try_format(seconds, local, format).unwrap_or_default()
}

/// Formats a moment as local time or UTC; nothing where the text is no `strftime` format.
pub fn try_format(seconds: i64, local: bool, format: &str) -> Option<String> {
    let zone = if local { ZONE.with(TimeZone::clone) } else { TimeZone::UTC };
    let timestamp = Timestamp::from_second(seconds).unwrap_or_default();
    jiff::fmt::strtime::format(format, &timestamp.to_zoned(zone)).ok()
}

fn with_texts<T>(time: Time, read: impl FnOnce(&Texts) -> T) -> T {
    TEXTS.with_borrow_mut(|cached| {
        let stale = cached.as_ref().is_none_or(|texts| texts.second != time.seconds);
        let texts = if stale {
            cached.insert(texts_of(time.seconds))
        } else {
            cached.get_or_insert_with(|| texts_of(time.seconds))
        };
        read(texts)
    })
}

fn texts_of(second: i64) -> Texts {
    Texts {
        second,
        http: http::date_text(second),
        log: format(second, true, "%d/%b/%Y:%H:%M:%S %z"),
        iso8601: format(second, true, "%Y-%m-%dT%H:%M:%S%:z"),
        error_log: format(second, true, "%Y/%m/%d %H:%M:%S"),
        syslog: format(second, true, "%b %e %H:%M:%S"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, Turn, WALL_VALID};
    use std::time::Instant;

    #[test]
    fn time_is_constant_during_a_turn_only() {
        let mut turn = Turn::begin();
        let start = Time::now();
        while start.instant.elapsed() < 2 * WALL_VALID {}
        assert_eq!(Time::now().instant, start.instant);
        drop(Turn::begin());
        assert_eq!(Time::now().instant, start.instant, "a turn within another one has its time");
        let renewed = turn.renew();
        assert!(renewed.instant > start.instant);
        assert_eq!(Time::now().instant, renewed.instant);
        while renewed.instant.elapsed() < 2 * WALL_VALID {}
        drop(turn);
        let before = Instant::now();
        let now = Time::now();
        assert!(now.instant >= before);
        let milliseconds = |time: Time| time.seconds * 1000 + i64::from(time.milliseconds);
        assert!(milliseconds(now) > milliseconds(start), "the wall clock was read again");
    }
}
