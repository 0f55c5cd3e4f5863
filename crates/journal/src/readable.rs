//! Numbers formatted for people.

/// A size in bytes with two or three digits, in units of 1000: `1.4 MB`.
pub fn size(bytes: u64) -> String {
    let mut unit = 1;
    let mut names = ["B", "KB", "MB", "GB", "TB"].into_iter();
    let mut name = names.next().unwrap_or_default();
    for larger in names {
        if bytes / unit < 1000 {
            break;
        }
        (unit, name) = (unit * 1000, larger);
    }
    let whole = bytes / unit;
    if unit == 1 || whole >= 100 {
        return format!("{whole} {name}");
    }
    format!("{whole}.{} {name}", bytes % unit * 10 / unit)
}

/// A count with a comma after each thousand: `1,234`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_have_few_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (1234, "1.2 KB"),
            (123_456, "123 KB"),
            (5_000_000_000, "5.0 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(super::size(bytes), text);
        }
    }

    #[test]
    fn counts_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(super::count(number), text);
        }
    }
}
