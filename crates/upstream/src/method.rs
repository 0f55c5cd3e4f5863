//! How the server of a request is chosen. The sums are nginx's, so that what belongs to a server stays there when
//! one takes the other's place.

use crate::crc32::Crc32;
use crate::random::random;
use crate::server::Server;
use crate::tier::{Search, Tier};
use crate::timing::LeastTime;
use contract::{Exchange, Peer, Template};
use std::net::IpAddr;

/// How the server of a request is chosen.
#[derive(Clone, Debug, Default)]
pub enum Method {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest requests for its weight (`least_conn`).
    LeastConnections,
    /// The one that takes the least time (`least_time`).
    LeastTime(LeastTime),
    /// By the client's network (`ip_hash`).
    Network,
    /// By a text (`hash`).
    Hash(Template),
    /// By a text, so that few requests change their server where one comes or goes (`hash … consistent`).
    Ring(Template),
    /// By lot, by weight (`random`).
    Random,
    /// The lighter one of two that are drawn (`random two`).
    RandomTwo,
}

impl Method {
    /// What chooses the server of a request; empty where nothing does.
    pub(crate) fn key(&self, exchange: &Exchange) -> Vec<u8> {
        match self {
            Method::Hash(text) | Method::Ring(text) => text.evaluate(exchange),
            Method::Network => match &exchange.connection.peer {
                Peer::Inet(address) => match address.ip() {
                    IpAddr::V4(ip) => ip.octets()[..3].to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                },
                Peer::Unix(_) => vec![0; 3],
            },
            Method::RoundRobin
            | Method::LeastConnections
            | Method::LeastTime(_)
            | Method::Random
            | Method::RandomTwo => Vec::new(),
        }
    }
}

/// After so many servers that could not be asked the next one is that whose turn it is.
const TRIES: u32 = 20;

/// How far the choice of servers for one request came.
#[derive(Debug)]
pub(crate) struct Draw {
    key: Vec<u8>,
    hash: u32,
    rehash: u32,
    tries: u32,
}

impl Draw {
    pub(crate) fn new(method: &Method, key: Vec<u8>, points: &[Point]) -> Draw {
        let hash = match method {
            Method::Network => 89,
            Method::Ring(_) => {
                let hash = Crc32::new().and(&key).value();
                let place = points.partition_point(|point| point.hash < hash);
                u32::try_from(place).unwrap_or(0)
            }
            _ => 0,
        };
        Draw { key, hash, rehash: 0, tries: 0 }
    }

    /// Begins with other servers.
    pub(crate) fn begin_again(&mut self, method: &Method, points: &[Point]) {
        *self = Draw::new(method, std::mem::take(&mut self.key), points);
    }

    /// Whether the servers of a tier take turns, since the method does nothing else or gave up.
    pub(crate) fn takes_turns(&self, method: &Method, tier: &Tier, search: Search<'_>) -> bool {
        let has_choice = match method {
            Method::RoundRobin | Method::LeastConnections | Method::LeastTime(_) => false,
            Method::Ring(_) => !search.is_single,
            _ => tier.servers.len() > 1,
        };
        let lacks_key = matches!(method, Method::Hash(_) | Method::Ring(_)) && self.key.is_empty();
        !has_choice || lacks_key || self.tries > TRIES
    }

    /// The next server of a tier by a method that does not simply take turns; none where it gives up.
    pub(crate) fn next(
        &mut self,
        method: &Method,
        points: &[Point],
        tier: &Tier,
        search: Search<'_>,
    ) -> Option<usize> {
        if self.takes_turns(method, tier, search) {
            return None;
        }
        let mut drawn = None;
        while self.tries <= TRIES {
            let found = match method {
                Method::Ring(_) => self.on_ring(points, tier, search),
                Method::RandomTwo => second(&mut drawn, tier, search),
                _ => {
                    let place = self.place(method, tier);
                    Some(tier.at_weight(place)).filter(|&index| tier.claim(index, search))
                }
            };
            if found.is_some() {
                return found;
            }
            self.tries += 1;
        }
        None
    }

    /// Where on the line of weights the next server is.
    fn place(&mut self, method: &Method, tier: &Tier) -> u64 {
        let number = match method {
            Method::Network => {
                let step = |hash: u32, &byte: &u8| (hash * 113 + u32::from(byte)) % 6271;
                self.hash = self.key.iter().fold(self.hash, step);
                u64::from(self.hash)
            }
            Method::Hash(_) => {
                let again = if self.rehash > 0 { self.rehash.to_string() } else { String::new() };
                let sum = Crc32::new().and(again.as_bytes()).and(&self.key).value();
                self.hash = self.hash.wrapping_add((sum >> 16) & 0x7fff);
                self.rehash += 1;
                u64::from(self.hash)
            }
            _ => random(),
        };
        number % tier.weight.max(1)
    }

    /// The server of the next point; points are passed over while their server cannot be asked.
    fn on_ring(&mut self, points: &[Point], tier: &Tier, search: Search<'_>) -> Option<usize> {
        let at = usize::try_from(self.hash).unwrap_or(0).checked_rem(points.len())?;
        let name = &tier.servers[points[at].server].written;
        let found = tier.next(search, |server| server.written == *name);
        if found.is_none() {
            self.hash = self.hash.wrapping_add(1);
        }
        found
    }
}

/// Draws one of two servers; none before the second one, which has to be another.
fn second(drawn: &mut Option<usize>, tier: &Tier, search: Search<'_>) -> Option<usize> {
    let index = tier.at_weight(random() % tier.weight.max(1));
    if *drawn == Some(index) || !tier.has_free(index, search) {
        return None;
    }
    let Some(first) = *drawn else {
        *drawn = Some(index);
        // The first one is no failed try.
        return second(drawn, tier, search);
    };
    let lighter = tier.lighter(first, index);
    tier.claim(lighter, search).then_some(lighter)
}

/// A place on the ring of hashes that belongs to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    hash: u32,
    server: usize,
}

/// How many places a server has for each unit of its weight.
const POINTS: u64 = 160;

/// The ring of these servers, which other programs compute alike: the hash of a place covers host, NUL, port, and the
/// hash of the server's place before.
pub(crate) fn ring(servers: &[Server]) -> Box<[Point]> {
    let mut points = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let (host, port) = host_and_port(&server.written);
        let base = Crc32::new().and(host.as_bytes()).and(&[0]).and(port.as_bytes());
        let mut hash = 0_u32;
        for _ in 0..u64::from(server.settings.weight) * POINTS {
            hash = base.and(&hash.to_le_bytes()).value();
            points.push(Point { hash, server: index });
        }
    }
    points.sort_by_key(|point| point.hash);
    points.dedup_by_key(|point| point.hash);
    points.into()
}

/// The parts of an address as it is written.
fn host_and_port(written: &str) -> (&str, &str) {
    if let Some(path) = written.get(5..).filter(|_| written[..5].eq_ignore_ascii_case("unix:")) {
        return (path, "");
    }
    match written.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (written, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::{host_and_port, ring};
    use crate::server::{PeerSettings, Server};
    use net::SocketAddress;

    #[test]
    fn addresses_have_two_parts() {
        for (written, parts) in [
            ("127.0.0.1:8081", ("127.0.0.1", "8081")),
            ("backend", ("backend", "")),
            ("[::1]:80", ("[::1]", "80")),
            ("[::1]", ("[::1]", "")),
            ("unix:/run/x:1", ("/run/x:1", "")),
            ("a", ("a", "")),
        ] {
            assert_eq!(host_and_port(written), parts, "{written}");
        }
    }

    #[test]
    fn a_ring_has_places_by_weight() {
        let server = |port: u16, weight| {
            let address = SocketAddress::Inet(([127, 0, 0, 1], port).into());
            Server::new(address).with(PeerSettings { weight, ..PeerSettings::DEFAULT })
        };
        let points = ring(&[server(1, 1), server(2, 3)]);
        assert!(points.is_sorted_by(|a, b| a.hash < b.hash));
        assert_eq!(points.iter().filter(|point| point.server == 0).count(), 160);
        assert_eq!(points.iter().filter(|point| point.server == 1).count(), 480);
        let same = ring(&[server(1, 1), server(1, 1)]);
        assert!(same.len() == 160 && same.iter().all(|point| point.server == 0));
    }
}
