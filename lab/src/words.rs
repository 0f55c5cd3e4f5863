//! Figures as they stand in a sentence.

use crate::figure::Figure;

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

/// `1 client`, `1,000 clients`.
pub fn clients(count: u32) -> String {
    if count == 1 { "1 client".into() } else { format!("{} clients", number(f64::from(count))) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
