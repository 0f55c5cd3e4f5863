//! A value for each address, looked up in the same time whether ten networks were named or a hundred thousand.

use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Bound, RangeInclusive};

/// What every address comes to. It is painted network by network; the last one painted counts.
#[derive(Clone, Debug)]
pub(crate) struct Addresses<V> {
    v4: Line<V>,
    v6: Line<V>,
}

/// The addresses of a family in order, cut where the value changes: what stands at a key counts up to the next key.
#[derive(Clone, Debug)]
struct Line<V>(BTreeMap<u128, V>);

impl<V: Copy + PartialEq> Addresses<V> {
    /// This value for every address.
    pub(crate) fn all(value: V) -> Addresses<V> {
        let line = || Line(BTreeMap::from([(0, value)]));
        Addresses { v4: line(), v6: line() }
    }

    /// Gives a network a value.
    pub(crate) fn paint(&mut self, network: IpNet, value: V) {
        match network {
            IpNet::V4(net) => self.v4.paint(number(net.network()), number(net.broadcast()), value),
            IpNet::V6(net) => self.v6.paint(net.network().into(), net.broadcast().into(), value),
        }
    }

    /// Gives the addresses from one to another a value.
    pub(crate) fn paint_range(&mut self, range: &RangeInclusive<Ipv4Addr>, value: V) {
        self.v4.paint(number(*range.start()), number(*range.end()), value);
    }

    /// The value of an address. An IPv4 address in an IPv6 one is an IPv4 address.
    pub(crate) fn get(&self, address: IpAddr) -> Option<V> {
        match address.to_canonical() {
            IpAddr::V4(ip) => self.v4.get(number(ip)),
            IpAddr::V6(ip) => self.v6.get(ip.into()),
        }
    }
}

fn number(address: Ipv4Addr) -> u128 {
    u32::from(address).into()
}

impl<V: Copy + PartialEq> Line<V> {
    fn get(&self, at: u128) -> Option<V> {
        self.0.range(..=at).next_back().map(|(_, value)| *value)
    }

    fn paint(&mut self, first: u128, last: u128, value: V) {
        let behind = last.checked_add(1).and_then(|behind| Some((behind, self.get(last)?)));
        let covered: Vec<u128> =
            self.0.range((Bound::Included(first), Bound::Included(last))).map(|(at, _)| *at).collect();
        for at in covered {
            self.0.remove(&at);
        }
        self.0.insert(first, value);
        if let Some((behind, earlier)) = behind {
            self.0.entry(behind).or_insert(earlier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;
    use ipnet::IpNet;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn the_last_one_counts() {
        let mut addresses = Addresses::all('-');
        for (net, value) in [("10.0.0.0/8", 'a'), ("10.1.0.0/16", 'b'), ("::/0", 'c'), ("2001:db8::/32", 'd')]
        {
            addresses.paint(net.parse().unwrap(), value);
        }
        addresses.paint_range(&(Ipv4Addr::new(10, 1, 2, 3)..=Ipv4Addr::new(10, 2, 0, 0)), 'e');
        addresses.paint("255.255.255.255/32".parse().unwrap(), 'f');
        let values: String = [
            "9.255.255.255",
            "10.0.0.0",
            "10.1.2.2",
            "10.1.2.3",
            "10.2.0.0",
            "10.2.0.1",
            "11.0.0.0",
            "255.255.255.254",
            "255.255.255.255",
            "::1",
            "2001:db8::1",
            "::ffff:10.1.0.0",
        ]
        .iter()
        .map(|ip| addresses.get(ip.parse::<IpAddr>().unwrap()).unwrap())
        .collect();
        assert_eq!(values, "-abeea--fcdb");
    }

    proptest! {
        #[test]
        fn as_if_every_network_was_looked_at(
            networks in prop::collection::vec((any::<u16>(), 16u8..=32), 0..30),
            asked in prop::collection::vec(any::<u16>(), 30),
        ) {
            let net = |low: u16, bits| {
                IpNet::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(low))), bits).unwrap().trunc()
            };
            let mut addresses = Addresses::all(usize::MAX);
            for (index, (low, bits)) in networks.iter().enumerate() {
                addresses.paint(net(*low, *bits), index);
            }
            for low in asked {
                let ip = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(low)));
                let holds = |&(_, (low, bits)): &(usize, &(u16, u8))| net(*low, *bits).contains(&ip);
                let expected = networks.iter().enumerate().rfind(holds);
                prop_assert_eq!(addresses.get(ip), Some(expected.map_or(usize::MAX, |(index, _)| index)));
            }
        }
    }
}
