//! Sockets for datagrams to and from one address: UDP and Unix domain. Sending never waits.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use socket2::{Domain, Socket, Type};

use crate::address::SocketAddress;
use crate::events::{Events, Registration, Wanted};

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

/// A socket for questions to one address, among the [`Events`] of its thread. The kernel gives it a random port, and drops
/// datagrams from any other address.
#[derive(Debug)]
pub struct Questions {
    socket: Datagrams,
    registration: Registration,
}

impl Questions {
    /// Connects to an address, on the event loop of this thread.
    ///
    /// # Errors
    /// As [`Datagrams::connect`]; or this thread has no [`Events`].
    pub fn connect(address: &SocketAddress) -> io::Result<Questions> {
        let events = Events::current().ok_or_else(|| io::Error::other("a thread without an event loop"))?;
        Ok(Questions::new(Datagrams::connect(address)?, &events))
    }

    fn new(socket: Datagrams, events: &Rc<Events>) -> Questions {
        Questions { socket, registration: Registration::new(events) }
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// As [`Datagrams::send`].
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.send(datagram)
    }

    /// Receives one datagram and returns its length. What does not fit into the buffer is lost. The task of the last call
    /// is woken.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let socket = self.socket.0.as_fd();
            ready!(self.registration.poll(cx, socket, Wanted::Read))?;
            match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => return Poll::Ready(Ok(count)),
                Err(rustix::io::Errno::AGAIN) => self.registration.blocked(socket, Wanted::Read)?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;
    use std::future::poll_fn;
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

    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        run(async {
            let events = Events::new().unwrap();
            events.make_current();
            let [server, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let address = SocketAddress::Inet(server.local_addr().unwrap());
            let mut questions = Questions::connect(&address).unwrap();
            let mut bytes = [0; 8];
            poll_fn(|cx| Poll::Ready(questions.poll_receive(cx, &mut bytes).is_pending())).await;
            questions.send(b"question").unwrap();
            let (_, asks) = server.recv_from(&mut bytes).unwrap();
            other.send_to(b"lie", asks).unwrap();
            server.send_to(b"answer", asks).unwrap();
            let count = poll_fn(|cx| {
                while let Poll::Ready(result) = events.poll(cx) {
                    result.unwrap();
                }
                questions.poll_receive(cx, &mut bytes)
            });
            let count = count.await.unwrap();
            assert_eq!(&bytes[..count], b"answer");
        });
    }
}
