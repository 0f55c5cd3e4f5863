//! Figures and dates as they stand in a sentence.

use strsim::levenshtein;

use crate::model::figure::Figure;

/// A number with the digits that matter, its thousands apart.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        whole if whole >= 100.0 || value.fract() == 0.0 => 0,
        tens if tens >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}{fraction}", if value < 0.0 { "-" } else { "" })
}

/// A figure's name with the unit of [`scaled`].
pub fn named(figure: Figure) -> String {
    match figure {
        Figure::MemoryBytes => "memory in MB".into(),
        Figure::SystemMemoryBytes => "memory of the machine in MB".into(),
        Figure::MemoryPerConnectionBytes => "memory a connection in KB".into(),
        Figure::BytesPerS => "MB/s".into(),
        _ => figure.title().replace(", ", " in "),
    }
}

/// A figure's value, in the unit of [`named`].
pub fn scaled(figure: Figure, value: f64) -> String {
    number(match figure {
        Figure::MemoryBytes | Figure::SystemMemoryBytes => value / 1_048_576.0,
        Figure::MemoryPerConnectionBytes => value / 1024.0,
        Figure::BytesPerS => value / 1e6,
        _ => value,
    })
}

/// That nothing has this name, which name may have been meant, and which ones there are.
pub fn unknown<S: AsRef<str>>(what: &str, name: &str, known: &[S]) -> String {
    let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let nearest = names.iter().map(|other| (levenshtein(name, other), *other)).min();
    // Two letters that changed places count as two mistakes.
    let is_near = |wrong: usize, letters: usize| wrong <= 2.max(letters / 3) && 2 * wrong <= letters;
    let meant = nearest.filter(|(wrong, other)| is_near(*wrong, name.len().max(other.len())));
    let meant = meant.map_or(String::new(), |(_, other)| format!("; did you mean {other}?"));
    let there_are = if meant.is_empty() { "; there are" } else { " There are" };
    format!("no {what} is called {name}{meant}{there_are} {}", names.join(", "))
}

/// `1 client`, `1,000 clients`.
pub fn clients(count: u32) -> String {
    if count == 1 { "1 client".into() } else { format!("{} clients", number(f64::from(count))) }
}

/// Seconds since 1970 as `2026-11-21 23:12` in UTC.
pub fn date(epoch_s: f64) -> String {
    let days = (epoch_s / 86_400.0).floor();
    let minutes = ((epoch_s - days * 86_400.0) / 60.0).floor();
    let (year, month, day) = civil(days);
    let (hour, minute) = ((minutes / 60.0).floor(), minutes % 60.0);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a day since 1970 in the Gregorian calendar, whose 400 years have 146,097 days. The year
/// is taken to begin in March, so that the odd day is its last.
fn civil(days: f64) -> (f64, f64, f64) {
    let shifted = days + 719_468.0;
    let era = (shifted / 146_097.0).floor();
    let of_era = shifted - era * 146_097.0;
    let leap_days = (of_era / 1_460.0).floor() - (of_era / 36_524.0).floor() + (of_era / 146_096.0).floor();
    let year_of_era = ((of_era - leap_days) / 365.0).floor();
    let leaps = 365.0 * year_of_era + (year_of_era / 4.0).floor() - (year_of_era / 100.0).floor();
    let of_year = of_era - leaps;
    let march_month = ((5.0 * of_year + 2.0) / 153.0).floor();
    let day = of_year - ((153.0 * march_month + 2.0) / 5.0).floor() + 1.0;
    let month = if march_month < 10.0 { march_month + 3.0 } else { march_month - 9.0 };
    let year = year_of_era + era * 400.0 + f64::from(u8::from(month <= 2.0));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_mistake_is_guessed() {
        let known = ["nginx", "apache-event", "apache-prefork"];
        assert_eq!(
            unknown("contender", "ngnix", &known),
            "no contender is called ngnix; did you mean nginx? There are nginx, apache-event, apache-prefork"
        );
        let far = unknown("contender", "colour", &known);
        assert_eq!(far, "no contender is called colour; there are nginx, apache-event, apache-prefork");
        let counts = [levenshtein("", "ab"), levenshtein("abc", "abc"), levenshtein("apache", "apaches")];
        assert_eq!(counts, [2, 0, 1]);
    }

    #[test]
    fn numbers() {
        let shown = [0.0, 0.256, 1.5, 12.34, 123.4, 1234.0, 1_234_567.8, -1500.0].map(number);
        assert_eq!(shown, ["0", "0.26", "1.50", "12.3", "123", "1,234", "1,234,568", "-1,500"]);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!((named(Figure::P99Ms), scaled(Figure::P99Ms, 4.1)), ("p99 in ms".into(), "4.10".into()));
        assert_eq!(named(Figure::RequestsPerS), "requests/s");
        assert_eq!(scaled(Figure::MemoryBytes, 52.0 * 1_048_576.0), "52");
        assert_eq!(clients(1), "1 client");
    }

    #[test]
    fn dates() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_302_765.9), "2026-11-21 23:12 UTC");
        assert_eq!(date(4_107_542_399.0), "2100-02-28 23:59 UTC");
    }
}
