//! Where a server receives: an address, and what arrives there. The same port may serve streams and datagrams.

use std::fmt;

use socket2::Type;

use crate::address::SocketAddress;

/// What arrives at a socket, see socket(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketType {
    /// Connections: TCP, or streams of a Unix domain socket.
    #[default]
    Stream,
    /// Datagrams: UDP, or those of a Unix domain socket.
    Datagram,
}

impl SocketType {
    pub(crate) fn to_kernel(self) -> Type {
        match self {
            SocketType::Stream => Type::STREAM,
            SocketType::Datagram => Type::DGRAM,
        }
    }

    /// The type that the kernel gave, none for others than these two.
    pub(crate) fn from_kernel(kind: Type) -> Option<SocketType> {
        [SocketType::Stream, SocketType::Datagram].into_iter().find(|known| known.to_kernel() == kind)
    }
}

/// Where a server receives. It is the key of a listening socket: two sockets of one address and of different types have
/// nothing in common.
///
/// It is displayed as its address; one of datagrams with ` (udp)` behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// What arrives.
    pub transport: SocketType,
    /// Where.
    pub address: SocketAddress,
}

impl Endpoint {
    /// Where connections arrive.
    pub fn stream(address: SocketAddress) -> Endpoint {
        Endpoint { transport: SocketType::Stream, address }
    }

    /// Where datagrams arrive.
    pub fn datagram(address: SocketAddress) -> Endpoint {
        Endpoint { transport: SocketType::Datagram, address }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            SocketType::Stream => self.address.fmt(f),
            SocketType::Datagram => write!(f, "{} (udp)", self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_has_two_endpoints() {
        let address = SocketAddress::Inet("127.0.0.1:443".parse().unwrap());
        let both = [Endpoint::stream(address.clone()), Endpoint::datagram(address)];
        assert_ne!(both[0], both[1]);
        assert_eq!(both.map(|endpoint| endpoint.to_string()), ["127.0.0.1:443", "127.0.0.1:443 (udp)"]);
    }

    #[test]
    fn types_survive_the_kernels_form() {
        for kind in [SocketType::Stream, SocketType::Datagram] {
            assert_eq!(SocketType::from_kernel(kind.to_kernel()), Some(kind));
        }
        assert_eq!(SocketType::from_kernel(Type::SEQPACKET), None);
    }
}
