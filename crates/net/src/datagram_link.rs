//! The line between two processes that have the same UDP sockets. One of them reads the sockets. Through the line it asks
//! the other process, which ends soon, whether a datagram belongs to a session there.
//!
//! It is a pair of sockets of the kind SOCK_SEQPACKET: messages stay whole, and the end of file tells that the other process
//! is gone. Sending never waits: if the line is full, the datagram is lost, as at a full socket.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::datagram_port::{Arrival, Ecn};

/// How many bytes may wait in the line; the kernel may allow less (`net.core.wmem_max`).
const LINE_BYTES: usize = 4 * 1024 * 1024;

/// The room for one message: the longest payload and what comes before it.
const MESSAGE_ROOM: usize = (1 << 16) + 128;

/// A datagram that arrived where its session may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayDatagram {
    /// The address of the socket that it arrived at.
    pub bound: SocketAddr,
    /// The client.
    pub client: SocketAddr,
    /// The address and port that the client sent it to.
    pub server: SocketAddr,
    /// What the network says about congestion.
    pub ecn: Ecn,
    /// The thread that read it, in the process that read it.
    pub thread: u16,
    /// The payload.
    pub payload: Box<[u8]>,
}

impl StrayDatagram {
    /// A datagram that arrived at a socket with this address, and was read by this thread.
    pub fn new(bound: SocketAddr, thread: u16, arrival: &Arrival<'_>) -> StrayDatagram {
        let Arrival { from, to, payload, ecn } = *arrival;
        StrayDatagram { bound, client: from, server: to, ecn, thread, payload: payload.into() }
    }
}

/// What the processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkMessage {
    /// The newer process wants to read the sockets alone.
    Claims,
    /// The older process has stopped reading.
    Stopped,
    /// The newer process ends first: the older one is to read again.
    Released,
    /// The newer process has no session for this datagram: the older one may have it.
    Asks(StrayDatagram),
    /// The older process has no session for it either.
    Returns(StrayDatagram),
}

/// An end of the line, which no event loop owns yet.
#[derive(Debug)]
pub struct DatagramLink(OwnedFd);

/// An end of the line on the event loop of its thread. Other threads may send.
#[derive(Debug)]
pub struct AsyncDatagramLink(AsyncFd<OwnedFd>);

impl DatagramLink {
    /// Both ends of a line.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn pair() -> io::Result<(DatagramLink, DatagramLink)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&one, &other] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, LINE_BYTES)?;
        }
        Ok((DatagramLink(one), DatagramLink(other)))
    }

    /// A descriptor that came from another process.
    ///
    /// # Errors
    /// It is no end of such a line.
    pub fn from_descriptor(descriptor: OwnedFd) -> io::Result<DatagramLink> {
        if rustix::net::sockopt::socket_type(&descriptor)? != SocketType::SEQPACKET {
            return Err(io::Error::other("not a line between processes"));
        }
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        Ok(DatagramLink(descriptor))
    }

    /// Another descriptor of the same end.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn try_clone(&self) -> io::Result<DatagramLink> {
        self.0.try_clone().map(DatagramLink)
    }

    /// Registers the end with the event loop of this thread; panics outside of a tokio runtime.
    ///
    /// # Errors
    /// The event loop refuses it.
    #[allow(unsafe_code)]
    pub fn into_tokio(self) -> io::Result<AsyncDatagramLink> {
        // SAFETY: the descriptor is owned by the `AsyncFd`, which gives out no `&mut`, so it stays open and the same until
        // the `AsyncFd` is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        Ok(AsyncDatagramLink(registered?))
    }
}

impl AsFd for DatagramLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsyncDatagramLink {
    /// Sends a message; never waits.
    ///
    /// # Errors
    /// `WouldBlock` if the line is full; others if the other process is gone.
    pub fn send(&self, message: &LinkMessage) -> io::Result<()> {
        let bytes = message.encode();
        loop {
            match send(self.0.get_ref(), &bytes, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The other process can send no more. What it sent before still arrives, and then the end.
    pub fn stop_receiving(&self) {
        // A line whose other end is gone has ended already.
        let _ = rustix::net::shutdown(self.0.get_ref(), rustix::net::Shutdown::Read);
    }

    /// The next message; none when the other process is gone. It may be dropped without loss. `room` is memory for further
    /// calls.
    ///
    /// # Errors
    /// What came is malformed, or the system failed.
    pub async fn receive(&self, room: &mut Vec<u8>) -> io::Result<Option<LinkMessage>> {
        room.resize(MESSAGE_ROOM, 0);
        let read = |end: &OwnedFd| loop {
            match recv(end, &mut room[..], RecvFlags::empty()) {
                Ok((length, _)) => return Ok(length),
                // The other process left messages unread.
                Err(Errno::CONNRESET) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno)),
            }
        };
        match self.0.async_io(Interest::READABLE, read).await? {
            0 => Ok(None),
            length => {
                LinkMessage::decode(room.get(..length).unwrap_or_default()).map(Some).ok_or_else(malformed)
            }
        }
    }
}

impl LinkMessage {
    fn encode(&self) -> Vec<u8> {
        let (kind, datagram) = match self {
            LinkMessage::Claims => return b"c".to_vec(),
            LinkMessage::Stopped => return b"s".to_vec(),
            LinkMessage::Released => return b"f".to_vec(),
            LinkMessage::Asks(datagram) => (b'a', datagram),
            LinkMessage::Returns(datagram) => (b'r', datagram),
        };
        let mut bytes = Vec::with_capacity(datagram.payload.len() + 128);
        bytes.push(kind);
        for address in [datagram.bound, datagram.client, datagram.server] {
            put_address(&mut bytes, address);
        }
        bytes.push(datagram.ecn as u8);
        bytes.extend_from_slice(&datagram.thread.to_le_bytes());
        bytes.extend_from_slice(&datagram.payload);
        bytes
    }

    fn decode(message: &[u8]) -> Option<LinkMessage> {
        let (kind, mut rest) = message.split_first()?;
        match (kind, rest) {
            (b'c', []) => return Some(LinkMessage::Claims),
            (b's', []) => return Some(LinkMessage::Stopped),
            (b'f', []) => return Some(LinkMessage::Released),
            _ => {}
        }
        let [bound, client, server] =
            [take_address(&mut rest)?, take_address(&mut rest)?, take_address(&mut rest)?];
        let ecn = Ecn::of_class(take::<1>(&mut rest)?[0]);
        let thread = u16::from_le_bytes(take(&mut rest)?);
        let datagram = StrayDatagram { bound, client, server, ecn, thread, payload: rest.into() };
        match kind {
            b'a' => Some(LinkMessage::Asks(datagram)),
            b'r' => Some(LinkMessage::Returns(datagram)),
            _ => None,
        }
    }
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.ip().octets());
        }
        SocketAddr::V6(address) => {
            bytes.push(6);
            bytes.extend_from_slice(&address.ip().octets());
            bytes.extend_from_slice(&address.flowinfo().to_le_bytes());
            bytes.extend_from_slice(&address.scope_id().to_le_bytes());
        }
    }
    bytes.extend_from_slice(&address.port().to_le_bytes());
}

fn take_address(rest: &mut &[u8]) -> Option<SocketAddr> {
    match take::<1>(rest)? {
        [4] => {
            let ip = IpAddr::from(take::<4>(rest)?);
            Some(SocketAddr::new(ip, u16::from_le_bytes(take(rest)?)))
        }
        [6] => {
            let ip = take::<16>(rest)?.into();
            let (flow, scope) = (u32::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
            Some(SocketAddrV6::new(ip, u16::from_le_bytes(take(rest)?), flow, scope).into())
        }
        _ => None,
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed message between workers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    fn stray(client: &str, payload: &[u8]) -> StrayDatagram {
        StrayDatagram {
            bound: "0.0.0.0:53".parse().unwrap(),
            client: client.parse().unwrap(),
            server: "192.0.2.1:53".parse().unwrap(),
            ecn: Ecn::Congested,
            thread: 300,
            payload: payload.into(),
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 7, 3);
        let mut scoped = stray("127.0.0.1:1", b"scoped");
        scoped.client = link_local.into();
        let messages = [
            LinkMessage::Claims,
            LinkMessage::Stopped,
            LinkMessage::Released,
            LinkMessage::Asks(stray("198.51.100.1:1024", b"")),
            LinkMessage::Returns(stray("[2001:db8::1]:65535", &vec![7; 65_507])),
            LinkMessage::Asks(scoped),
        ];
        run(async {
            let (one, other) = DatagramLink::pair().unwrap();
            let (one, other) = (one.into_tokio().unwrap(), other.into_tokio().unwrap());
            messages.iter().for_each(|message| one.send(message).unwrap());
            for message in messages {
                assert_eq!(other.receive(&mut Vec::new()).await.unwrap(), Some(message));
            }
            drop(one);
            assert_eq!(other.receive(&mut Vec::new()).await.unwrap(), None);
            assert!(other.send(&LinkMessage::Stopped).is_err());
        });
    }

    /// A process that ends loses nothing that is on the way to it.
    #[test]
    fn what_was_sent_before_the_end_arrives() {
        run(async {
            let (one, other) = DatagramLink::pair().unwrap();
            let (one, other) = (one.into_tokio().unwrap(), other.into_tokio().unwrap());
            one.send(&LinkMessage::Claims).unwrap();
            other.stop_receiving();
            assert_eq!(one.send(&LinkMessage::Claims).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            assert_eq!(other.receive(&mut Vec::new()).await.unwrap(), Some(LinkMessage::Claims));
            assert_eq!(other.receive(&mut Vec::new()).await.unwrap(), None);
            other.send(&LinkMessage::Stopped).unwrap();
            assert_eq!(one.receive(&mut Vec::new()).await.unwrap(), Some(LinkMessage::Stopped));
        });
    }

    #[test]
    fn no_part_of_a_message_is_one() {
        let whole = LinkMessage::Asks(stray("[2001:db8::1]:1", b"")).encode();
        assert!(LinkMessage::decode(&whole).is_some());
        assert!((0..whole.len()).all(|length| LinkMessage::decode(&whole[..length]).is_none()));
        assert_eq!(LinkMessage::decode(b"cc"), None);
    }

    #[test]
    fn a_process_that_does_not_read_holds_the_other_one_not_up() {
        run(async {
            let (one, _other) = DatagramLink::pair().unwrap();
            let one = one.into_tokio().unwrap();
            let asks = LinkMessage::Asks(stray("127.0.0.1:1", &[0; 1000]));
            let refused = std::iter::repeat_with(|| one.send(&asks)).position(|sent| sent.is_err()).unwrap();
            assert!(refused >= 50, "{refused} messages are little");
            assert_eq!(one.send(&asks).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        });
    }

    #[test]
    fn only_ends_of_a_line_are_taken_over() {
        let (one, other) = DatagramLink::pair().unwrap();
        drop(other);
        assert!(DatagramLink::from_descriptor(one.0).is_ok());
        let stream = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(DatagramLink::from_descriptor(stream.into()).is_err());
    }
}
