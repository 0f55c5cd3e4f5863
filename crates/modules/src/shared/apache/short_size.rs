//! Sizes of files as Apache shows them.

/// A size in four characters.
pub(crate) fn short_size(size: Option<u64>) -> String {
    let Some(mut size) = size else { return "  - ".to_owned() };
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in "KMGTPE".chars() {
        let rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || (size == 9 && rest < 973) {
            let tenths = (rest * 5 + 256) / 512;
            let (size, tenths) = if tenths >= 10 { (size + 1, 0) } else { (size, tenths) };
            return format!("{size}.{tenths}{unit}");
        }
        return format!("{:3}{unit}", size + u64::from(rest >= 512));
    }
    "****".to_owned()
}

#[cfg(test)]
mod tests {
    use super::short_size;

    #[test]
    fn sizes_in_four_characters() {
        let sizes = [0, 972, 973, 1024, 10_000, 1_000_000, 5 << 30];
        let expected = ["  0 ", "972 ", "1.0K", "1.0K", "9.8K", "1.0M", "5.0G"];
        assert_eq!(sizes.map(|size| short_size(Some(size))), expected);
        assert_eq!(short_size(None), "  - ");
    }
}
