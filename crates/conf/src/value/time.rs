//! Times, alone or combined: `30`, `30s`, `1h 30m`, `500ms`.

use super::ValueError;
use crate::tree::Word;

/// Largest number that nginx reads on 64-bit systems.
const MAX: u64 = i64::MAX.unsigned_abs();

/// A unit, in the order in which units must stand; only months and smaller ones in milliseconds.
struct Unit {
    letter: u8,
    rank: u8,
    seconds: u64,
}

const YEAR: u8 = 1;
const SECOND: u8 = 7;
const MILLISECOND: u8 = 8;
const SPACE: u8 = 9;

/// A space after a number ends it as seconds, and no unit may follow.
const UNITS: [Unit; 8] = [
    Unit { letter: b'y', rank: YEAR, seconds: 365 * 86400 },
    Unit { letter: b'M', rank: 2, seconds: 30 * 86400 },
    Unit { letter: b'w', rank: 3, seconds: 7 * 86400 },
    Unit { letter: b'd', rank: 4, seconds: 86400 },
    Unit { letter: b'h', rank: 5, seconds: 3600 },
    Unit { letter: b'm', rank: 6, seconds: 60 },
    Unit { letter: b's', rank: SECOND, seconds: 1 },
    Unit { letter: b' ', rank: SPACE, seconds: 1 },
];

/// A time in seconds; a number without a unit means seconds. Units from `y` to `s`, each once at most, the
/// larger first.
///
/// # Errors
/// [`ValueError::Time`].
pub fn time_s(word: &Word) -> Result<u64, ValueError> {
    parse(&word.text, false).ok_or(ValueError::Time)
}

/// A time in milliseconds; a number without a unit means seconds. Units from `w` to `ms`, each once at most,
/// the larger first.
///
/// # Errors
/// [`ValueError::Time`].
pub fn time_ms(word: &Word) -> Result<u64, ValueError> {
    parse(&word.text, true).ok_or(ValueError::Time)
}

fn parse(text: &[u8], millis: bool) -> Option<u64> {
    let per_second = if millis { 1000 } else { 1 };
    // Years and months have no place among milliseconds.
    let mut rank = if millis { 2 } else { 0 };
    let mut total = 0u64;
    let mut value = 0u64;
    let mut any_digit = false;
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte.is_ascii_digit() {
            value = checked(value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?)?;
            any_digit = true;
            continue;
        }
        let (next, scale) = match (byte, rest) {
            (b'm', [b's', after @ ..]) => {
                rest = after;
                (millis.then_some(MILLISECOND)?, 1)
            }
            _ => {
                let unit = UNITS.iter().find(|unit| unit.letter == byte)?;
                (unit.rank, unit.seconds * per_second)
            }
        };
        let in_order = if next == SPACE { rank < SECOND } else { rank < next };
        if !in_order {
            return None;
        }
        rank = next;
        total = checked(total.checked_add(checked(value.checked_mul(scale)?)?)?)?;
        value = 0;
        rest = &rest[rest.iter().take_while(|byte| **byte == b' ').count()..];
    }
    let last = checked(value.checked_mul(per_second)?)?;
    any_digit.then_some(checked(total.checked_add(last)?)?)
}

fn checked(value: u64) -> Option<u64> {
    (value <= MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    #[test]
    fn a_bare_number_means_seconds() {
        assert_eq!(time_s(&word("30")), Ok(30));
        assert_eq!(time_ms(&word("30")), Ok(30_000));
    }

    #[test]
    fn units_combine_from_large_to_small() {
        assert_eq!(time_s(&word("1y2M3w4d5h6m7s")), Ok(38_898_367));
        assert_eq!(time_s(&word("1h 30m")), Ok(5400));
        assert_eq!(time_ms(&word("1m30s500ms")), Ok(90_500));
        assert_eq!(time_ms(&word("1d12h")), Ok(129_600_000));
        assert_eq!(time_s(&word("5 6")), Ok(11));
        for wrong in ["30m1h", "1s1s", "1m1m", "", "s", "1x", "-1", "1.5s", "5 6s", " "] {
            assert_eq!(time_s(&word(wrong)), Err(ValueError::Time), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_no_milliseconds_and_milliseconds_no_years() {
        assert_eq!(time_s(&word("1ms")), Err(ValueError::Time));
        assert_eq!(time_ms(&word("1y")), Err(ValueError::Time));
        assert_eq!(time_ms(&word("1M")), Err(ValueError::Time));
        assert_eq!(time_ms(&word("1w")), Ok(604_800_000));
    }

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(time_s(&word("9223372036854775807")), Ok(MAX));
        assert_eq!(time_s(&word("9223372036854775808")), Err(ValueError::Time));
        assert_eq!(time_ms(&word("9223372036854775807")), Err(ValueError::Time));
        assert_eq!(time_s(&word("292471208678y")), Err(ValueError::Time));
    }
}
