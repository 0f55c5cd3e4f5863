//! Numbers and units as people read them.

use super::document::Text;
use crate::judge::statistics::Estimate;
use crate::model::figure::Figure;

/// A figure's column: its title with the unit, and what a value is divided by to be in that unit.
pub(super) fn unit(figure: Figure) -> (&'static str, f64) {
    match figure {
        Figure::MemoryBytes => ("memory, MiB", 1024.0 * 1024.0),
        Figure::MemoryPerConnectionBytes => ("memory a connection, KiB", 1024.0),
        Figure::SystemMemoryBytes => ("memory of the machine, MiB", 1024.0 * 1024.0),
        Figure::BytesPerS => ("transfer, MB/s", 1e6),
        Figure::BytesPerAnswer => ("an answer, bytes", 1.0),
        Figure::ContentBytes => ("content, bytes", 1.0),
        Figure::TotalBytes => ("all answers, bytes", 1.0),
        Figure::TotalContentBytes => ("all content, bytes", 1.0),
        Figure::Failed => ("failed requests", 1.0),
        _ => (figure.title(), 1.0),
    }
}

/// A figure's value in the unit of its column.
pub(super) fn value(figure: Figure, value: f64) -> String {
    let exact = matches!(
        figure,
        Figure::BytesPerAnswer
            | Figure::ContentBytes
            | Figure::TotalBytes
            | Figure::TotalContentBytes
            | Figure::Failed
            | Figure::Connections
    );
    let scaled = value / unit(figure).1;
    if exact && scaled.fract() == 0.0 { grouped(scaled, 0) } else { number(scaled) }
}

/// A value with its unit, for a sentence.
pub(super) fn with_unit(figure: Figure, value: f64) -> String {
    let (title, _) = unit(figure);
    let number = self::value(figure, value);
    match title.rsplit_once(", ") {
        _ if figure == Figure::MemoryPerConnectionBytes => format!("{number} KiB a connection"),
        Some((_, unit)) => format!("{number} {unit}"),
        None => format!("{number} {title}"),
    }
}

/// A median with its interval, in the unit of the figure's column. One turn has no interval.
pub(super) fn estimate(figure: Figure, estimate: Estimate, turns: usize) -> Text {
    ranged(estimate, turns, |shown| value(figure, shown), "")
}

/// Three significant digits, or all of a larger number, with its thousands apart.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if !value.is_finite() => return "–".into(),
        0.0 => 0,
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.09995 => 3,
        _ => 4,
    };
    grouped(value, decimals)
}

/// A number on an axis: as short as it can be.
pub(super) fn tick(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.6}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = thousands(whole);
    if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") }
}

/// A share of 1 as a percentage: `87 %`.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{}\u{a0}%", percent_digits(share)) } else { "–".into() }
}

/// A share of the best with its interval: 87 %, 84–90.
pub(super) fn percent_range(share: Estimate, turns: usize) -> Text {
    ranged(share, turns, percent_digits, "\u{a0}%")
}

/// A mean share with the least and the most of what it is of.
pub(super) fn percent_between(mean: f64, low: f64, high: f64) -> Text {
    ranged(Estimate { median: mean, low, high }, 2, percent_digits, "\u{a0}%")
}

/// A median, and its interval if there is one that differs from it in the digits that are shown.
fn ranged(estimate: Estimate, turns: usize, digits: impl Fn(f64) -> String, unit: &str) -> Text {
    let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(digits);
    let text = Text::from(format!("{median}{unit}"));
    if turns < 2 || (low == median && high == median) { text } else { text.aside(format!("{low}–{high}")) }
}

/// A share of requests on an axis: `99.9 %`.
pub(super) fn percentile(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{}\u{a0}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A figure's name without its unit.
pub(super) fn named(figure: Figure) -> &'static str {
    match figure {
        Figure::CpuUsPerRequest => "CPU time a request",
        Figure::P99Ms => "99th percentile of latency",
        Figure::Connections => "clients",
        _ => unit(figure).0.split(", ").next().unwrap_or_default(),
    }
}

/// The same as a title begins.
pub(super) fn capital(figure: Figure) -> String {
    let mut letters = named(figure).chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Bytes with a binary unit: `3.9 GiB`.
pub(super) fn bytes(count: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(scaled), units[unit])
}

/// Names in a sentence: `a, b and c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Numbers that follow each other, shortened: `0–2, 5`.
pub(super) fn runs(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last == number || *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// A title with what is added to it, unless it says that already.
pub(super) fn titled(title: &str, added: &str) -> String {
    if added.is_empty() || title.contains(added) { title.to_owned() } else { format!("{title}, {added}") }
}

/// A number with its noun: `1 block`, `2 blocks`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The number of cores with its noun.
pub(super) fn cores(count: u32) -> String {
    if count == 1 { "1 core".into() } else { format!("{count} cores") }
}

/// A whole number with its thousands apart.
pub(super) fn count(number: impl TryInto<u64>) -> String {
    thousands(&number.try_into().unwrap_or(u64::MAX).to_string())
}

fn percent_digits(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "–".into();
    }
    if percent.abs() < 9.95 { format!("{percent:.1}") } else { grouped(percent, 0) }
}

fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", thousands(whole)),
        None => thousands(&text),
    }
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}")
}

#[cfg(test)]
mod tests {
    use super::super::document::Span;
    use super::*;

    fn words(text: &Text) -> String {
        let word = |span: &Span| match span {
            Span::Plain(words) => words.clone(),
            Span::Aside(words) => format!(" [{words}]"),
            other => format!("{other:?}"),
        };
        text.0.iter().map(word).collect()
    }

    #[test]
    fn numbers_have_three_digits_or_all() {
        let shown =
            [0.0, 0.0123, 0.123_4, 1.234, 12.34, 123.4, 1234.5, 1_234_567.0, -4321.0, f64::NAN].map(number);
        assert_eq!(
            shown,
            ["0", "0.0123", "0.123", "1.23", "12.3", "123", "1,234", "1,234,567", "-4,321", "–"]
        );
    }

    #[test]
    fn figures_have_their_units() {
        assert_eq!(with_unit(Figure::RequestsPerS, 48_200.0), "48,200 requests/s");
        assert_eq!(with_unit(Figure::P99Ms, 4.1), "4.10 ms");
        assert_eq!(with_unit(Figure::MemoryBytes, 52.0 * 1024.0 * 1024.0), "52.0 MiB");
        assert_eq!(with_unit(Figure::CpuUsPerRequest, 8.25), "8.25 µs a request");
        assert_eq!(value(Figure::Failed, 3.0), "3");
        let sure = Estimate { median: 10.0, low: 9.0, high: 11.5 };
        assert_eq!(words(&estimate(Figure::P50Ms, sure, 5)), "10.0 [9.00–11.5]");
        assert_eq!(words(&estimate(Figure::P50Ms, sure, 1)), "10.0");
    }

    #[test]
    fn shares() {
        assert_eq!(
            words(&percent_range(Estimate { median: 0.873, low: 0.84, high: 0.9 }, 3)),
            "87\u{a0}% [84–90]"
        );
        assert_eq!(percent(0.012), "1.2\u{a0}%");
        assert_eq!([0.5, 0.99, 0.9999].map(percentile), ["50\u{a0}%", "99\u{a0}%", "99.99\u{a0}%"]);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.0, 0.5, 20.0, 1500.0, 50_000.0, 0.002].map(tick),
            ["0", "0.5", "20", "1,500", "50,000", "0.002"]
        );
    }

    #[test]
    fn titles_say_nothing_twice() {
        assert_eq!(titled("Light: 50 clients", "50 clients"), "Light: 50 clients");
        assert_eq!(titled("Light", "50 clients"), "Light, 50 clients");
        assert_eq!([1, 2].map(|number| counted(number, "run")), ["1 run", "2 runs"]);
    }

    #[test]
    fn lists_and_runs() {
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(bytes(4.0 * 1024.0 * 1024.0 * 1024.0), "4.00 GiB");
        assert_eq!(count(1_234_567_u64), "1,234,567");
    }
}
