//! Texts that differ in a number: `{number}` and `{network}` in paths, header fields and lines of files.

use crate::model::random::XorShift;

/// Stands for a number in a text. All numbers get as many digits as the largest has: zeros fill them up.
pub const NUMBER: &str = "{number}";

/// Stands for a network of 256 addresses in a text. Numbers in a row give networks that lie far apart.
pub const NETWORK: &str = "{network}";

/// How many networks there are from 11.0.0.0 to 126.255.255.0, between the private network 10.0.0.0/8 and loopback.
const NETWORKS: u64 = 116 << 16;

/// The distance between the networks of two numbers in a row. It has no divisor in common with [`NETWORKS`], so no network
/// comes twice.
const STRIDE: u64 = 4_637_093;

/// The text with `number` in place of [`NUMBER`] and [`NETWORK`]. `count` is how many numbers there are.
pub fn put(text: &str, number: u32, count: u32) -> String {
    let width = count.saturating_sub(1).to_string().len();
    let text = text.replace(NUMBER, &format!("{number:0width$}"));
    if !text.contains(NETWORK) {
        return text;
    }
    let index = u64::from(number) * STRIDE % NETWORKS;
    let network = format!("{}.{}.{}.0/24", 11 + (index >> 16), index >> 8 & 255, index & 255);
    text.replace(NETWORK, &network)
}

/// The text as `count` lines, each with its own number.
pub fn lines(text: &str, count: u32) -> String {
    (0..count).map(|number| put(text, number, count) + "\n").collect()
}

/// All numbers below a count, mixed, and always in the same way.
pub fn mixed(count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    let mut random = XorShift::new();
    for place in (1..numbers.len()).rev() {
        numbers.swap(place, random.below(place + 1));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_as_wide_as_the_largest() {
        assert_eq!(put("/{number}/x{number}", 7, 101), "/007/x007");
        assert_eq!(put("/x", 7, 101), "/x");
        assert_eq!(lines("a{number};", 3), "a0;\na1;\na2;\n");
    }

    #[test]
    fn no_network_comes_twice() {
        assert_eq!(put("deny {network};", 0, 2), "deny 11.0.0.0/24;");
        let networks = lines("{network}", 100_000);
        assert_eq!(networks.lines().collect::<BTreeSet<_>>().len(), 100_000);
        let first = |line: &str| line.split('.').next().unwrap().parse::<u8>().unwrap();
        assert!(networks.lines().all(|line| (11..127).contains(&first(line))));
    }

    #[test]
    fn all_numbers_come_once() {
        let numbers = mixed(1000);
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 1000);
        let rises = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&rises), "{rises}");
        assert!(mixed(0).is_empty());
    }
}
