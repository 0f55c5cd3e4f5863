//! UDP sockets that the datagrams of many clients arrive at. Datagrams are received and sent in batches.
//!
//! A socket that is bound to all addresses learns from the kernel which address each client asked (`IP_PKTINFO`), and
//! answers from that address. Otherwise the client would discard the answer, because it comes from another address.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::libc;
use socket2::{SockAddr, Socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::address::SocketAddress;
use crate::bound::set_option;

/// How many datagrams one call receives or sends at most.
pub const BATCH: usize = 32;

/// The room for one datagram. No datagram of UDP is larger, because its length has 16 bits.
const DATAGRAM_ROOM: usize = 1 << 16;

/// The room for the control messages of one datagram: either `in_pktinfo` or `in6_pktinfo`, with its header.
const CONTROL_WORDS: usize = 8;

/// A UDP socket on the event loop of its thread.
///
/// Dropping it stops receiving here; the queue lives on as long as another process has the socket.
pub struct DatagramPort {
    socket: AsyncFd<Arc<Socket>>,
    address: SocketAddr,
}

/// A datagram that arrived.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The client.
    pub from: SocketAddr,
    /// The address and port that the client sent it to.
    pub to: SocketAddr,
    /// The payload, which may be empty.
    pub payload: &'a [u8],
}

/// Room for the datagrams of one call, which is allocated by the first one.
#[derive(Default)]
pub struct ReceiveRoom(Vec<u8>);

impl DatagramPort {
    #[allow(unsafe_code)]
    pub(crate) fn new(socket: Arc<Socket>, address: &SocketAddress) -> io::Result<DatagramPort> {
        let SocketAddress::Inet(address) = *address else {
            return Err(io::Error::other("a Unix socket cannot answer datagrams"));
        };
        // SAFETY: the socket owns its descriptor, which stays the same for as long as the socket lives.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(DatagramPort { socket, address })
    }

    /// Receives the datagrams that wait, at most [`BATCH`], and passes each to `take`. The task of the last call is woken.
    ///
    /// Errors are about the process or the system (no memory), so the caller must pause before it tries again.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: &mut ReceiveRoom,
        mut take: impl FnMut(&Arrival<'_>),
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            if room.0.is_empty() {
                // The kernel provides its pages when a datagram uses them.
                room.0 = vec![0; BATCH * DATAGRAM_ROOM];
            }
            let mut headers = Headers::new();
            match headers.receive(self.socket.get_ref(), room) {
                Ok(count) => {
                    // A datagram that arrives from now on is a new event.
                    if count < BATCH {
                        guard.clear_ready();
                    }
                    headers.arrivals(room, count, self.address).for_each(|arrival| take(&arrival));
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends datagrams to a client from the address that the client asked, at most [`BATCH`], and returns how many were
    /// sent. Sending never waits.
    ///
    /// Errors are about the first datagram: the kernel's buffer is full (`WouldBlock`), the datagram is too long, or there is
    /// no route to the client.
    #[allow(unsafe_code)]
    pub fn send(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        datagrams: &[impl AsRef<[u8]>],
    ) -> io::Result<usize> {
        let name = SockAddr::from(to);
        let mut control = [0_u64; CONTROL_WORDS];
        let is_any = self.address.ip().is_unspecified();
        let control_length = if is_any { put_source(&mut control, from.ip()) } else { 0 };
        // SAFETY: all-zero bytes are valid values of these structures of C.
        let (mut parts, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { mem::zeroed() };
        let count = datagrams.len().min(BATCH);
        for ((datagram, part), header) in datagrams.iter().zip(&mut parts).zip(&mut headers) {
            let bytes = datagram.as_ref();
            *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let message = &mut header.msg_hdr;
            (message.msg_iov, message.msg_iovlen) = (part, 1);
            (message.msg_name, message.msg_namelen) = (name.as_ptr().cast_mut().cast(), name.len());
            if control_length > 0 {
                message.msg_control = control.as_mut_ptr().cast();
                message.msg_controllen = control_length;
            }
        }
        let descriptor = self.socket.get_ref().as_raw_fd();
        // SAFETY: the descriptor is open while `self` is borrowed. `count` headers are filled in. They point to the payloads,
        // the address and the control message, which outlive the call and are only read.
        let sent =
            unsafe { libc::sendmmsg(descriptor, headers.as_mut_ptr(), to_c_uint(count), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Makes the kernel tell which address each datagram was sent to. Only a socket of all addresses needs that.
pub(crate) fn request_destination(socket: &Socket, address: &SocketAddress) -> io::Result<()> {
    match address.ip() {
        Some(IpAddr::V4(ip)) if ip.is_unspecified() => {
            set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
        }
        Some(IpAddr::V6(ip)) if ip.is_unspecified() => {
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
        }
        _ => Ok(()),
    }
}

/// What one call of recvmmsg(2) fills in, besides the payloads.
struct Headers {
    names: [libc::sockaddr_storage; BATCH],
    controls: [[u64; CONTROL_WORDS]; BATCH],
    headers: [libc::mmsghdr; BATCH],
}

impl Headers {
    #[allow(unsafe_code)]
    fn new() -> Headers {
        // SAFETY: all-zero bytes are valid values of these structures of C.
        unsafe { mem::zeroed() }
    }

    /// Receives as many datagrams as wait and returns how many.
    #[allow(unsafe_code)]
    fn receive(&mut self, socket: &Socket, room: &mut ReceiveRoom) -> io::Result<usize> {
        // SAFETY: all-zero bytes are valid values of this structure of C.
        let mut parts: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        let rooms = room.0.chunks_exact_mut(DATAGRAM_ROOM);
        for (index, (bytes, part)) in rooms.zip(&mut parts).enumerate() {
            *part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let message = &mut self.headers[index].msg_hdr;
            (message.msg_iov, message.msg_iovlen) = (part, 1);
            message.msg_name = (&raw mut self.names[index]).cast();
            message.msg_namelen = socket_length::<libc::sockaddr_storage>();
            message.msg_control = self.controls[index].as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&self.controls[index]);
        }
        // SAFETY: the descriptor is open while `socket` is borrowed. All `BATCH` headers are filled in. They point to memory
        // of their lengths that is borrowed mutably, and nothing else uses it during the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                to_c_uint(BATCH),
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// The datagrams that the last call received at a socket with this address. A datagram from an unknown kind of address is
    /// left out.
    fn arrivals<'a>(
        &'a self,
        room: &'a ReceiveRoom,
        count: usize,
        bound: SocketAddr,
    ) -> impl Iterator<Item = Arrival<'a>> {
        room.0.chunks_exact(DATAGRAM_ROOM).take(count).enumerate().filter_map(move |(index, bytes)| {
            let length = usize::try_from(self.headers[index].msg_len).ok()?;
            let from = inet(&self.names[index])?;
            let ip = self.destination(index).unwrap_or(bound.ip());
            Some(Arrival { from, to: SocketAddr::new(ip, bound.port()), payload: bytes.get(..length)? })
        })
    }

    /// The address that the client sent a datagram to, if the kernel told.
    #[allow(unsafe_code)]
    fn destination(&self, index: usize) -> Option<IpAddr> {
        let message = &self.headers[index].msg_hdr;
        // The pointer of the call is stale if `self` was moved since.
        let message =
            libc::msghdr { msg_control: self.controls[index].as_ptr().cast_mut().cast(), ..*message };
        // SAFETY: the kernel wrote `msg_controllen` bytes to `controls[index]`, to which `msg_control` points.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: `next` is null or the header of a whole control message of the kernel in `controls[index]`, which is
        // aligned to 8 bytes as `cmsghdr` asks. The data of each of the two kinds has the structure that is read.
        while let Some(header) = unsafe { next.as_ref() } {
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    // SAFETY: see above.
                    let info: libc::in_pktinfo = unsafe { ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
                    return Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    // SAFETY: see above.
                    let info: libc::in6_pktinfo =
                        unsafe { ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
                    return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                // SAFETY: see above; `message` outlives the loop.
                _ => next = unsafe { libc::CMSG_NXTHDR(&raw const message, next) },
            }
        }
        None
    }
}

/// Writes the control message that chooses the source address, and returns its length.
#[allow(unsafe_code)]
fn put_source(control: &mut [u64; CONTROL_WORDS], source: IpAddr) -> usize {
    match source {
        IpAddr::V4(ip) => {
            let address = libc::in_addr { s_addr: u32::from(ip).to_be() };
            // The kernel takes the source from `ipi_spec_dst`, see ip(7).
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
            put_message(control, (libc::IPPROTO_IP, libc::IP_PKTINFO), info)
        }
        IpAddr::V6(ip) => {
            let info =
                libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
            put_message(control, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info)
        }
    }
}

/// Writes one control message, and returns the length of all.
#[allow(unsafe_code)]
fn put_message<T: Copy>(control: &mut [u64; CONTROL_WORDS], (level, kind): (i32, i32), data: T) -> usize {
    let length = to_c_uint(size_of::<T>());
    // SAFETY: both only compute lengths.
    let (all, space) = unsafe { (libc::CMSG_LEN(length), libc::CMSG_SPACE(length)) };
    assert!(space as usize <= size_of_val(control), "a control message has no room");
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: `control` is aligned to 8 bytes, is borrowed mutably, and has room for the header and the data, as was just
    // checked.
    unsafe {
        header.write(libc::cmsghdr { cmsg_len: all as usize, cmsg_level: level, cmsg_type: kind });
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), data);
    }
    space as usize
}

/// The address in a structure that the kernel filled in.
#[allow(unsafe_code)]
fn inet(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure this is; `sockaddr_storage` is as large and as aligned as any.
            let address = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some((ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: see above.
            let address = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let (port, flow) = (u16::from_be(address.sin6_port), address.sin6_flowinfo);
            Some(std::net::SocketAddrV6::new(ip, port, flow, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Lengths here are small constants.
fn to_c_uint(length: usize) -> libc::c_uint {
    libc::c_uint::try_from(length).unwrap_or(libc::c_uint::MAX)
}

fn socket_length<T>() -> libc::socklen_t {
    to_c_uint(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::bind;
    use crate::bound::{BoundSocket, ListenOptions};
    use crate::endpoint::Endpoint;
    use crate::testing::run;
    use std::future::poll_fn;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn ports(address: &str, count: usize) -> (SocketAddr, Vec<BoundSocket>) {
        let endpoint = Endpoint::datagram(SocketAddress::Inet(address.parse().unwrap()));
        let sockets = bind(&endpoint, &ListenOptions::default(), count).unwrap();
        let SocketAddress::Inet(bound) = *sockets[0].address() else { panic!("not UDP") };
        (bound, sockets)
    }

    async fn receive(port: &DatagramPort, room: &mut ReceiveRoom) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        let take = |all: &mut Vec<_>, arrival: &Arrival<'_>| {
            all.push((arrival.from, arrival.to, arrival.payload.to_vec()));
        };
        poll_fn(|cx| port.poll_receive(cx, room, |arrival| take(&mut all, arrival))).await.unwrap();
        all
    }

    /// An answer leaves from the address that the client asked, although the socket is bound to all addresses.
    #[test]
    fn answers_leave_from_the_address_that_was_asked() {
        run(async {
            for (any, asked) in [("0.0.0.0:0", "127.0.0.3"), ("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")] {
                let (bound, mut sockets) = ports(any, 1);
                let port = sockets.remove(0).into_datagram_port().unwrap();
                let asked = SocketAddr::new(asked.parse().unwrap(), bound.port());
                let client = UdpSocket::bind((any.parse::<SocketAddr>().unwrap().ip(), 0)).unwrap();
                client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                // A connected socket takes datagrams from that address only.
                client.connect(asked).unwrap();
                client.send(b"question").unwrap();
                let arrived = receive(&port, &mut ReceiveRoom::default()).await;
                let (from, to, payload) = arrived[0].clone();
                assert_eq!((from, to, &payload[..]), (client.local_addr().unwrap(), asked, &b"question"[..]));
                assert_eq!(port.send(from, to, &["first", "", "last"]).unwrap(), 3);
                let mut buffer = [0; 16];
                let lengths = [(); 3].map(|()| client.recv(&mut buffer).unwrap());
                assert_eq!(lengths, [5, 0, 4]);
            }
        });
    }

    #[test]
    fn datagrams_keep_their_borders_and_come_in_batches() {
        run(async {
            let (address, mut sockets) = ports("127.0.0.1:0", 1);
            let port = sockets.remove(0).into_datagram_port().unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(address).unwrap();
            let longest = vec![7; 65_507];
            let all: [&[u8]; 4] = [b"", b"short", &longest, b""];
            all.iter().for_each(|datagram| assert_eq!(client.send(datagram).unwrap(), datagram.len()));
            let mut room = ReceiveRoom::default();
            let arrived = receive(&port, &mut room).await;
            let payloads: Vec<_> = arrived.iter().map(|(_, _, payload)| &payload[..]).collect();
            assert_eq!(payloads, all);
            for _ in 0..=BATCH {
                client.send(b"many").unwrap();
            }
            assert_eq!(receive(&port, &mut room).await.len(), BATCH);
            assert_eq!(receive(&port, &mut room).await.len(), 1);
            let refused = port.send(client.local_addr().unwrap(), address, &[vec![0; 70_000]]);
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        });
    }

    /// The kernel spreads clients over the sockets of a port, and keeps each client at one socket.
    #[test]
    fn each_socket_of_a_port_has_clients() {
        run(async {
            let (address, sockets) = ports("127.0.0.1:0", 2);
            let ports = sockets.into_iter().map(|socket| socket.into_datagram_port().unwrap());
            let clients = [(); 64].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            for client in clients.iter().chain(&clients) {
                client.send_to(b"x", address).unwrap();
            }
            let mut counts = Vec::new();
            for port in ports {
                let (mut froms, mut room) = (Vec::new(), ReceiveRoom::default());
                for _ in 0..4 {
                    let look =
                        poll_fn(|cx| port.poll_receive(cx, &mut room, |arrival| froms.push(arrival.from)));
                    let _ = tokio::time::timeout(Duration::from_millis(50), look).await;
                }
                let all = froms.len();
                froms.sort_unstable();
                froms.dedup();
                assert_eq!(all, 2 * froms.len(), "both datagrams of a client come to one socket");
                counts.push(froms.len());
            }
            assert!(
                counts.iter().all(|count| *count > 0) && counts.iter().sum::<usize>() == 64,
                "{counts:?}"
            );
        });
    }
}
