//! Sockets that send datagrams to one address and never wait: UDP and Unix domain.

use std::io;

use socket2::{Domain, Socket, Type};

use crate::address::SocketAddress;

/// A socket that is connected to the address that it sends to.
#[derive(Debug)]
pub struct Datagrams(Socket);

impl Datagrams {
    /// Connects to an address.
    ///
    /// # Errors
    /// Nobody listens at a Unix domain address, or the system has no descriptor left.
    pub fn connect(address: &SocketAddress) -> io::Result<Datagrams> {
        let address = address.to_kernel()?;
        let socket = Socket::new(Domain::from(i32::from(address.family())), Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&address)?;
        Ok(Datagrams(socket))
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// `WouldBlock` where the receiver's queue is full. Others may be about a datagram that was sent before.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.0.send(datagram).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn both_kinds_of_addresses() {
        let mut bytes = [0; 8];
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = Datagrams::connect(&SocketAddress::Inet(receiver.local_addr().unwrap())).unwrap();
        socket.send(b"udp").unwrap();
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 3);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let address = SocketAddress::Unix(path.clone());
        assert!(Datagrams::connect(&address).is_err());
        let receiver = UnixDatagram::bind(&path).unwrap();
        let socket = Datagrams::connect(&address).unwrap();
        socket.send(b"unix").unwrap();
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 4);
        let full = (0..1 << 16).find_map(|_| socket.send(b"unix").err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
