//! Addresses that a request cannot choose (`upstream_deny`).

use conf::value::Network;
use net::SocketAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that a request cannot choose.
#[derive(Clone, Debug, Default)]
pub struct Denied {
    /// Whether all are meant that are not on the public internet, and Unix sockets.
    pub internal: bool,
    /// Further ones.
    pub networks: Box<[Network]>,
}

impl Denied {
    /// Whether no connection to this address is opened.
    pub fn has(&self, address: &SocketAddress) -> bool {
        match address {
            SocketAddress::Inet(address) => self.has_ip(address.ip()),
            SocketAddress::Unix(_) | SocketAddress::Abstract(_) => self.internal,
        }
    }

    fn has_ip(&self, ip: IpAddr) -> bool {
        let is_listed = |ip| self.networks.iter().any(|network| network.net.contains(&ip));
        let carried = carried(ip).map(IpAddr::V4);
        is_listed(ip) || carried.is_some_and(is_listed) || (self.internal && is_internal(ip))
    }
}

/// The IPv4 address that packets to an IPv6 address reach.
fn carried(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let segments = ip.segments();
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // Mapped (RFC 4291, 2.5.5.2), compatible (2.5.5.1), and translated (RFC 2765).
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(from(high, low)),
        // The well-known prefix of NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// What is not on the public internet (IANA's registries of special addresses).
fn is_internal(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => INTERNAL_V4.iter().any(|&(net, bits)| starts_alike_v4(ip, net, bits)),
        IpAddr::V6(ip) => match ip.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0xffff, ..] | [0x2002, ..] => {
                carried(ip.into()).is_none_or(|carried| is_internal(carried.into()))
            }
            _ => {
                !starts_alike_v6(ip, GLOBAL_V6, 3)
                    || RESERVED_V6.iter().any(|&(net, bits)| starts_alike_v6(ip, net, bits))
            }
        },
    }
}

/// Networks of IPv4 that are not on the public internet.
const INTERNAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // With the metadata of clouds at 169.254.169.254.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Where all addresses of IPv6 on the public internet are.
const GLOBAL_V6: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

/// What is not public among them: protocols (with Teredo, which carries addresses of IPv4), and documentation.
const RESERVED_V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn starts_alike_v4(ip: Ipv4Addr, net: Ipv4Addr, bits: u32) -> bool {
    (u32::from(ip) ^ u32::from(net)).leading_zeros() >= bits
}

fn starts_alike_v6(ip: Ipv6Addr, net: Ipv6Addr, bits: u32) -> bool {
    (u128::from(ip) ^ u128::from(net)).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::Denied;
    use conf::value::Network;
    use net::SocketAddress;
    use std::path::PathBuf;

    fn inet(ip: &str) -> SocketAddress {
        SocketAddress::Inet((ip.parse::<std::net::IpAddr>().unwrap(), 80).into())
    }

    #[test]
    fn internal_addresses_in_every_notation() {
        let denied = Denied { internal: true, ..Denied::default() };
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.255.255",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5:6",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(denied.has(&inet(ip)), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:4860:4860::8888",
            "2a00:1450::1",
        ] {
            assert!(!denied.has(&inet(ip)), "{ip}");
        }
        assert!(denied.has(&SocketAddress::Unix(PathBuf::from("/run/x"))));
        assert!(denied.has(&SocketAddress::Abstract(b"x".to_vec())));
    }

    #[test]
    fn listed_networks_also_where_an_address_of_ipv6_carries_them() {
        let network = |text: &str| Network { net: text.parse().unwrap(), has_low_bits: false };
        let networks = [network("198.41.0.0/24"), network("2a00::/16")].into();
        let denied = Denied { internal: false, networks };
        for ip in ["198.41.0.4", "::ffff:198.41.0.4", "64:ff9b::198.41.0.4", "2002:c629:4::", "2a00::1"] {
            assert!(denied.has(&inet(ip)), "{ip}");
        }
        for ip in ["198.41.1.4", "127.0.0.1", "::1", "2a01::1"] {
            assert!(!denied.has(&inet(ip)), "{ip}");
        }
        assert!(!denied.has(&SocketAddress::Unix(PathBuf::from("/run/x"))));
    }
}
