//! Networks: an address and how many of its leading bits count.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ValueError;
use super::address::{ipv4, ipv6};
use crate::tree::Word;
use http::parse_number;

/// An address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The network, with the bits after its prefix cleared.
    pub net: IpNet,
    /// Whether such bits were set, which deserves a warning: `low address bits of … are meaningless`.
    pub has_low_bits: bool,
}

/// `ADDRESS` or `ADDRESS/BITS`, IPv4 or IPv6.
///
/// # Errors
/// [`ValueError::Network`].
pub fn cidr(word: &Word) -> Result<Network, ValueError> {
    parse(&word.text).ok_or(ValueError::Network)
}

/// What Apache takes for a network: an address, `ADDRESS/BITS`, `ADDRESS/MASK`, or the first numbers of an IPv4
/// address, as in `10.1`.
///
/// # Errors
/// [`ValueError::Network`].
pub fn subnet(word: &Word) -> Result<IpNet, ValueError> {
    let text = &*word.text;
    if let Some(network) = parse(text) {
        return Ok(network.net);
    }
    let (start, mask) = match text.iter().position(|&byte| byte == b'/') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let numbers = start.strip_suffix(b".").unwrap_or(start);
    let count = numbers.split(|&byte| byte == b'.').count();
    let missing = 4_usize.checked_sub(count).ok_or(ValueError::Network)?;
    let full = [numbers, &b".0.0.0"[..2 * missing]].concat();
    let address = ipv4(&full).ok_or(ValueError::Network)?;
    let bits = match mask {
        None => u8::try_from(8 * count).ok(),
        Some(mask) => match ipv4(mask).map(u32::from) {
            Some(mask) if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
                u8::try_from(mask.leading_ones()).ok()
            }
            Some(_) => None,
            None => parse_number(mask).and_then(|bits| u8::try_from(bits).ok()),
        },
    };
    let net = bits.and_then(|bits| IpNet::new(IpAddr::V4(address), bits).ok());
    net.map(|net| net.trunc()).ok_or(ValueError::Network)
}

fn parse(text: &[u8]) -> Option<Network> {
    let slash = text.iter().position(|&byte| byte == b'/');
    let address = &text[..slash.unwrap_or(text.len())];
    let address = ipv4(address).map(IpAddr::V4).or_else(|| ipv6(address).map(IpAddr::V6))?;
    let net = match slash {
        None => IpNet::from(address),
        Some(at) => IpNet::new(address, u8::try_from(parse_number(&text[at + 1..])?).ok()?).ok()?,
    };
    Some(Network { net: net.trunc(), has_low_bits: net.trunc() != net })
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    fn net(text: &str) -> Option<(String, bool)> {
        cidr(&word(text)).ok().map(|network| (network.net.to_string(), network.has_low_bits))
    }

    #[test]
    fn prefixes_are_cleared_behind_their_length() {
        assert_eq!(net("10.0.0.0/8"), Some(("10.0.0.0/8".into(), false)));
        assert_eq!(net("10.1.2.3/8"), Some(("10.0.0.0/8".into(), true)));
        assert_eq!(net("127.0.0.1"), Some(("127.0.0.1/32".into(), false)));
        assert_eq!(net("0.0.0.0/0"), Some(("0.0.0.0/0".into(), false)));
        assert_eq!(net("2001:db8::1/32"), Some(("2001:db8::/32".into(), true)));
        assert_eq!(net("::1"), Some(("::1/128".into(), false)));
    }

    #[test]
    fn networks_as_apache_writes_them() {
        let shown = |text: &str| subnet(&word(text)).map(|net| net.to_string()).unwrap_or_default();
        assert_eq!(shown("10.1"), "10.1.0.0/16");
        assert_eq!(shown("10."), "10.0.0.0/8");
        assert_eq!(shown("10.1.2.3"), "10.1.2.3/32");
        assert_eq!(shown("10.1/255.255.0.0"), "10.1.0.0/16");
        assert_eq!(shown("10.1.0.0/255.255.0.0"), "10.1.0.0/16");
        assert_eq!(shown("10.1/12"), "10.0.0.0/12");
        assert_eq!(shown("2001:db8::/32"), "2001:db8::/32");
        for wrong in ["", ".", "10.x", "1.2.3.4.5", "10.1/255.0.255.0", "10/33", "example.com"] {
            assert_eq!(shown(wrong), "", "{wrong}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in
            ["", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0/8", "a", "1.2.3.4/-1", "[::1]/8"]
        {
            assert_eq!(net(wrong), None, "{wrong}");
        }
    }
}
