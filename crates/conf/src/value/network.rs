//! Networks: an address and how many of its leading bits count.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ValueError;
use super::address::{ipv4, ipv6};
use super::number::digits;
use crate::tree::Word;

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

fn parse(text: &[u8]) -> Option<Network> {
    let slash = text.iter().position(|&byte| byte == b'/');
    let address = &text[..slash.unwrap_or(text.len())];
    let address = ipv4(address).map(IpAddr::V4).or_else(|| ipv6(address).map(IpAddr::V6))?;
    let net = match slash {
        None => IpNet::from(address),
        Some(at) => IpNet::new(address, u8::try_from(digits(&text[at + 1..])?).ok()?).ok()?,
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
    fn what_is_no_network_is_refused() {
        for wrong in
            ["", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0/8", "a", "1.2.3.4/-1", "[::1]/8"]
        {
            assert_eq!(net(wrong), None, "{wrong}");
        }
    }
}
