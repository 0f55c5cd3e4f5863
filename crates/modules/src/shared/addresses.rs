//! A value for each address, looked up in the same time whether ten networks were named or a hundred thousand.

use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Bound, RangeInclusive};

/// What every address comes to, while it is made: painted network by network, of which the last one painted counts.
#[derive(Clone, Debug)]
pub(crate) struct Painting<V> {
    v4: BTreeMap<u32, V>,
    v6: BTreeMap<u128, V>,
}

/// What every address comes to.
#[derive(Clone, Debug)]
pub(crate) struct Addresses<V> {
    v4: Line<u32, V>,
    v6: Line<u128, V>,
}

/// The addresses of a family in order, cut where the value changes: what stands at a start counts up to the next one.
#[derive(Clone, Debug)]
struct Line<K, V> {
    /// The first is the family's first address.
    starts: Box<[K]>,
    values: Box<[V]>,
}

impl<V: Copy + PartialEq> Painting<V> {
    /// This value for every address.
    pub(crate) fn all(value: V) -> Painting<V> {
        Painting { v4: BTreeMap::from([(0, value)]), v6: BTreeMap::from([(0, value)]) }
    }

    /// Gives a network a value.
    pub(crate) fn paint(&mut self, network: IpNet, value: V) {
        match network {
            IpNet::V4(net) => self.paint_range(&(net.network()..=net.broadcast()), value),
            IpNet::V6(net) => {
                let (first, last) = (u128::from(net.network()), u128::from(net.broadcast()));
                paint(&mut self.v6, first, last, last.checked_add(1), value);
            }
        }
    }

    /// Gives the addresses from one to another a value.
    pub(crate) fn paint_range(&mut self, range: &RangeInclusive<Ipv4Addr>, value: V) {
        let (first, last) = (u32::from(*range.start()), u32::from(*range.end()));
        paint(&mut self.v4, first, last, last.checked_add(1), value);
    }

    /// What came of it.
    pub(crate) fn finish(self) -> Addresses<V> {
        Addresses { v4: Line::new(self.v4), v6: Line::new(self.v6) }
    }
}

/// Gives what is from the first to the last a value; `behind` is what comes after the last.
fn paint<K: Ord + Copy, V: Copy>(line: &mut BTreeMap<K, V>, first: K, last: K, behind: Option<K>, value: V) {
    let value_of = |at: K| line.range(..=at).next_back().map(|(_, value)| *value);
    let rest = behind.and_then(|behind| Some((behind, value_of(behind)?)));
    let covered: Vec<K> =
        line.range((Bound::Included(first), Bound::Included(last))).map(|(at, _)| *at).collect();
    for at in covered {
        line.remove(&at);
    }
    line.insert(first, value);
    if let Some((behind, earlier)) = rest {
        line.entry(behind).or_insert(earlier);
    }
}

impl<V: Copy> Addresses<V> {
    /// The value of an address. An IPv4 address in an IPv6 one is an IPv4 address.
    pub(crate) fn get(&self, address: IpAddr) -> Option<V> {
        match address {
            IpAddr::V4(ip) => self.get_v4(ip),
            IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or_else(|| self.get_v6(ip), |ip| self.get_v4(ip)),
        }
    }

    pub(crate) fn get_v4(&self, ip: Ipv4Addr) -> Option<V> {
        self.v4.get(ip.into())
    }

    /// As [`get`](Self::get), but an IPv4 address in this one is as any other.
    pub(crate) fn get_v6(&self, ip: Ipv6Addr) -> Option<V> {
        self.v6.get(ip.into())
    }
}

impl<K: Ord + Copy, V: Copy> Line<K, V> {
    fn new(painted: BTreeMap<K, V>) -> Line<K, V>
    where
        V: PartialEq,
    {
        let mut cuts: Vec<(K, V)> = painted.into_iter().collect();
        cuts.dedup_by(|next, before| next.1 == before.1);
        let (starts, values): (Vec<K>, Vec<V>) = cuts.into_iter().unzip();
        Line { starts: starts.into(), values: values.into() }
    }

    fn get(&self, at: K) -> Option<V> {
        let behind = self.starts.partition_point(|start| *start <= at);
        self.values.get(behind.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Painting;
    use ipnet::IpNet;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn the_last_one_counts() {
        let mut painting = Painting::all('-');
        for (net, value) in [("10.0.0.0/8", 'a'), ("10.1.0.0/16", 'b'), ("::/0", 'c'), ("2001:db8::/32", 'd')]
        {
            painting.paint(net.parse().unwrap(), value);
        }
        painting.paint_range(&(Ipv4Addr::new(10, 1, 2, 3)..=Ipv4Addr::new(10, 2, 0, 0)), 'e');
        painting.paint("255.255.255.255/32".parse().unwrap(), 'f');
        let addresses = painting.finish();
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
        assert_eq!(addresses.get_v6("::ffff:10.1.0.0".parse().unwrap()), Some('c'));
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
            let mut painting = Painting::all(usize::MAX);
            for (index, (low, bits)) in networks.iter().enumerate() {
                painting.paint(net(*low, *bits), index);
            }
            let addresses = painting.finish();
            for low in asked {
                let ip = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(low)));
                let holds = |&(_, (low, bits)): &(usize, &(u16, u8))| net(*low, *bits).contains(&ip);
                let expected = networks.iter().enumerate().rfind(holds);
                prop_assert_eq!(addresses.get(ip), Some(expected.map_or(usize::MAX, |(index, _)| index)));
            }
        }
    }
}
