//! Numbers as text.

/// Appends a decimal number of at least so many digits.
pub fn write_number(number: u64, digits: usize, out: &mut Vec<u8>) {
    let mut text = [b'0'; 20];
    let mut start = text.len();
    let mut rest = number;
    while rest > 0 || text.len() - start < digits.min(text.len()) {
        start -= 1;
        text[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&text[start..]);
}

#[cfg(test)]
mod tests {
    use super::write_number;

    #[test]
    fn as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 12345, u64::MAX] {
            for digits in [0, 1, 3, 20] {
                let mut out = Vec::new();
                write_number(number, digits, &mut out);
                let theirs =
                    if digits == 0 && number == 0 { String::new() } else { format!("{number:0digits$}") };
                assert_eq!(String::from_utf8(out).unwrap(), theirs);
            }
        }
    }
}
