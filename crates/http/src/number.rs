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

/// The number of decimal digits and nothing else, up to the largest signed 64-bit number: an offset in a file.
pub fn parse_number(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0i64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.filter(|_| !digits.is_empty()).and_then(|number| u64::try_from(number).ok())
}

/// Appends a number in hexadecimal digits, in lower case.
pub fn write_hexadecimal(number: u64, out: &mut Vec<u8>) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(number >> (digit * 4) & 15) as usize]));
}

#[cfg(test)]
mod tests {
    use super::{parse_number, write_hexadecimal, write_number};

    #[test]
    fn numbers_that_fit_an_offset() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("", None),
            ("+1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn hexadecimal_digits() {
        for number in [0, 1, 15, 16, 0xabc, 0x1000, u64::MAX, 1 << 60] {
            let mut text = Vec::new();
            write_hexadecimal(number, &mut text);
            assert_eq!(text, format!("{number:x}").as_bytes());
        }
    }

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
