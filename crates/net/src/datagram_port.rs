//! UDP sockets that the datagrams of many clients arrive at. Datagrams are received and sent in batches.
//!
//! A socket that is bound to all addresses learns from the kernel which address each client asked (`IP_PKTINFO`), and
//! answers from that address. Otherwise the client would discard the answer, because it comes from another address.
//!
//! Datagrams of one length to one client leave in one message, which the kernel or the network card divides
//! (`UDP_SEGMENT`), and the kernel may join datagrams that arrive in the same way (`UDP_GRO`), see udp(7).

use std::cell::Cell;
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

/// The room for the control messages of one datagram, each with a header of 16 bytes: `in_pktinfo` or `in6_pktinfo`, the
/// traffic class, and the length of the datagrams that were joined.
const CONTROL_WORDS: usize = 16;

/// The longest datagrams that are sent in one message. The kernel divides no message into datagrams that exceed the size of
/// packets of the network, and nearly all networks have at least the size of Ethernet.
const SEGMENT_MAX: usize = 1452;

/// The bytes of one message that the kernel divides.
const MESSAGE_MAX: usize = 65_000;

/// A UDP socket on the event loop of its thread.
///
/// Dropping it stops receiving here; the queue lives on as long as another process has the socket.
pub struct DatagramPort {
    socket: AsyncFd<Arc<Socket>>,
    address: SocketAddr,
    /// Whether the kernel divides messages into datagrams.
    divides: Cell<bool>,
}

/// What the network says about congestion, in the two lowest bits of the traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not take part (Not-ECT).
    #[default]
    Unable = 0,
    /// The sender takes part: ECT(1).
    Able1 = 1,
    /// The sender takes part: ECT(0).
    Able0 = 2,
    /// A router on the way was congested (CE).
    Congested = 3,
}

impl Ecn {
    /// The mark in a traffic class.
    pub fn of_class(class: u8) -> Ecn {
        [Ecn::Unable, Ecn::Able1, Ecn::Able0, Ecn::Congested][usize::from(class & 3)]
    }
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
    /// What the network says about congestion.
    pub ecn: Ecn,
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
        // A kernel that does not know the option would send a message as one datagram.
        let divides = Cell::new(set_option(socket.get_ref(), libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok());
        Ok(DatagramPort { socket, address, divides })
    }

    /// The address that the socket is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
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
    pub fn send(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        datagrams: &[impl AsRef<[u8]>],
    ) -> io::Result<usize> {
        self.send_marked((to, from), Ecn::Unable, datagrams)
    }

    /// As [`DatagramPort::send`], with a mark for the network. `ends` are the client and the address that the client asked.
    pub fn send_marked(
        &self,
        ends: (SocketAddr, SocketAddr),
        ecn: Ecn,
        datagrams: &[impl AsRef<[u8]>],
    ) -> io::Result<usize> {
        let sent = match datagrams {
            [_] => self.send_some::<1>(ends, ecn, datagrams),
            _ => self.send_some::<BATCH>(ends, ecn, datagrams),
        };
        match sent {
            // The network card, or the way to the client, allows no divided messages of this size.
            Err(error) if self.divides.get() && is_about_dividing(&error) && datagrams.len() > 1 => {
                let is_lasting = error.raw_os_error() == Some(libc::EIO);
                self.divides.set(false);
                let sent = self.send_some::<BATCH>(ends, ecn, datagrams);
                self.divides.set(!is_lasting);
                sent
            }
            sent => sent,
        }
    }

    /// Sends at most `N` datagrams.
    #[allow(unsafe_code)]
    fn send_some<const N: usize>(
        &self,
        (to, from): (SocketAddr, SocketAddr),
        ecn: Ecn,
        datagrams: &[impl AsRef<[u8]>],
    ) -> io::Result<usize> {
        let name = SockAddr::from(to);
        let source = self.address.ip().is_unspecified().then_some(from.ip());
        let datagrams = &datagrams[..datagrams.len().min(N)];
        // SAFETY: all-zero bytes are valid values of these structures of C.
        let (mut parts, mut headers): ([libc::iovec; N], [libc::mmsghdr; N]) = unsafe { mem::zeroed() };
        let mut controls = [const { Control::new() }; N];
        let mut counts = [0; N];
        for (datagram, part) in datagrams.iter().zip(&mut parts) {
            let bytes = datagram.as_ref();
            *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        let (mut first, mut messages) = (0, 0);
        while first < datagrams.len() {
            let count = if self.divides.get() { joined(&datagrams[first..]) } else { 1 };
            let (control, message) = (&mut controls[messages], &mut headers[messages].msg_hdr);
            (message.msg_iov, message.msg_iovlen) = (&raw mut parts[first], count);
            (message.msg_name, message.msg_namelen) = (name.as_ptr().cast_mut().cast(), name.len());
            source.into_iter().for_each(|ip| control.put_source(ip));
            control.put_ecn(ecn, to.ip());
            if count > 1 {
                let length = u16::try_from(datagrams[first].as_ref().len()).unwrap_or(u16::MAX);
                control.put((libc::SOL_UDP, libc::UDP_SEGMENT), length);
            }
            if control.length > 0 {
                message.msg_control = control.words.as_mut_ptr().cast();
                message.msg_controllen = control.length;
            }
            counts[messages] = count;
            (first, messages) = (first + count, messages + 1);
        }
        let descriptor = self.socket.get_ref().as_raw_fd();
        // SAFETY: the descriptor is open while `self` is borrowed. `messages` headers are filled in. They point to the
        // payloads, the address and the control messages, which outlive the call and are only read.
        let sent = unsafe {
            libc::sendmmsg(descriptor, headers.as_mut_ptr(), to_c_uint(messages), libc::MSG_NOSIGNAL)
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        Ok(counts[..sent.min(messages)].iter().sum())
    }
}

/// How many of these datagrams one message may have: all have one length, but the last one may be shorter.
fn joined(datagrams: &[impl AsRef<[u8]>]) -> usize {
    let Some(length) = datagrams.first().map(|first| first.as_ref().len()) else { return 0 };
    if !(1..=SEGMENT_MAX).contains(&length) {
        return 1;
    }
    let limit = MESSAGE_MAX / length;
    let equal = datagrams.iter().take(limit).take_while(|datagram| datagram.as_ref().len() == length).count();
    let has_last = datagrams.get(equal).is_some_and(|last| (1..length).contains(&last.as_ref().len()));
    equal + usize::from(has_last && equal < limit)
}

/// Whether sending failed because the kernel cannot divide a message.
fn is_about_dividing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

/// Makes the kernel tell more about each datagram: the mark of the network, and, at a socket of all addresses, which address
/// it was sent to. Datagrams of one client may come joined, where the kernel can do that.
pub(crate) fn request_details(socket: &Socket, address: &SocketAddress) -> io::Result<()> {
    let Some(ip) = address.ip() else { return Ok(()) };
    let _ = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    // A socket of IPv6 may receive over IPv4, too.
    let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(ip) => {
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            let is_any = i32::from(ip.is_unspecified());
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, is_any)
        }
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
        let messages = room.0.chunks_exact(DATAGRAM_ROOM).take(count).enumerate();
        messages
            .filter_map(move |(index, bytes)| {
                let length = usize::try_from(self.headers[index].msg_len).ok()?;
                let (from, bytes) = (inet(&self.names[index])?, bytes.get(..length)?);
                let Details { destination, ecn, joined } = self.details(index);
                let to = SocketAddr::new(destination.unwrap_or(bound.ip()), bound.port());
                let joined = joined.filter(|joined| *joined > 0).unwrap_or(length);
                // An empty datagram is a datagram, too.
                let empty = bytes.is_empty().then_some(bytes);
                let payloads = bytes.chunks(joined.max(1)).chain(empty);
                Some(payloads.map(move |payload| Arrival { from, to, payload, ecn }))
            })
            .flatten()
    }

    /// What the kernel told about a message.
    #[allow(unsafe_code)]
    fn details(&self, index: usize) -> Details {
        let message = &self.headers[index].msg_hdr;
        // The pointer of the call is stale if `self` was moved since.
        let message =
            libc::msghdr { msg_control: self.controls[index].as_ptr().cast_mut().cast(), ..*message };
        let mut details = Details::default();
        // SAFETY: the kernel wrote `msg_controllen` bytes to `controls[index]`, to which `msg_control` points.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: `next` is null or the header of a whole control message of the kernel in `controls[index]`, which is
        // aligned to 8 bytes as `cmsghdr` asks.
        while let Some(header) = unsafe { next.as_ref() } {
            // SAFETY: the data of each of these kinds has the structure that is read, and a whole message has all of it.
            unsafe {
                let data = libc::CMSG_DATA(next);
                match (header.cmsg_level, header.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info: libc::in_pktinfo = ptr::read_unaligned(data.cast());
                        let ip = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
                        details.destination = Some(ip.into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info: libc::in6_pktinfo = ptr::read_unaligned(data.cast());
                        details.destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                    }
                    // The first byte is all of it over IPv4.
                    (libc::IPPROTO_IP, libc::IP_TOS) => details.ecn = Ecn::of_class(*data),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        let class: libc::c_int = ptr::read_unaligned(data.cast());
                        details.ecn = Ecn::of_class(class.to_le_bytes()[0]);
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let length: libc::c_int = ptr::read_unaligned(data.cast());
                        details.joined = usize::try_from(length).ok();
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(&raw const message, next);
            }
        }
        details
    }
}

/// What the kernel tells about a message in its control messages.
#[derive(Default)]
struct Details {
    /// The address that the client sent it to.
    destination: Option<IpAddr>,
    ecn: Ecn,
    /// The length of the datagrams that it consists of; the last one may be shorter.
    joined: Option<usize>,
}

/// The control messages of a message that is sent.
struct Control {
    words: [u64; CONTROL_WORDS],
    /// How many bytes of them are filled in.
    length: usize,
}

impl Control {
    const fn new() -> Control {
        Control { words: [0; CONTROL_WORDS], length: 0 }
    }

    /// Chooses the source address.
    fn put_source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(ip) => {
                let address = libc::in_addr { s_addr: u32::from(ip).to_be() };
                // The kernel takes the source from `ipi_spec_dst`, see ip(7).
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
                self.put((libc::IPPROTO_IP, libc::IP_PKTINFO), info);
            }
            IpAddr::V6(ip) => {
                let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
                let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
                self.put((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info);
            }
        }
    }

    /// Marks the datagram for the network.
    fn put_ecn(&mut self, ecn: Ecn, to: IpAddr) {
        let kind = match to.to_canonical() {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        if ecn != Ecn::Unable {
            self.put(kind, ecn as libc::c_int);
        }
    }

    /// Appends one control message.
    #[allow(unsafe_code)]
    fn put<T: Copy>(&mut self, (level, kind): (i32, i32), data: T) {
        let length = to_c_uint(size_of::<T>());
        // SAFETY: both only compute lengths.
        let (own, space) = unsafe { (libc::CMSG_LEN(length) as usize, libc::CMSG_SPACE(length) as usize) };
        assert!(self.length + space <= size_of_val(&self.words), "a control message has no room");
        // SAFETY: `words` is borrowed mutably, and has room for the header and the data, as was just checked. `length` is a
        // sum of spaces, which are multiples of 8, so that the header is aligned.
        unsafe {
            let header = self.words.as_mut_ptr().cast::<u8>().add(self.length).cast::<libc::cmsghdr>();
            header.write(libc::cmsghdr { cmsg_len: own, cmsg_level: level, cmsg_type: kind });
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), data);
        }
        self.length += space;
    }
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

    #[test]
    fn datagrams_of_one_length_share_a_message() {
        let count = |lengths: &[usize]| {
            let all: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0; *length]).collect();
            joined(&all)
        };
        assert_eq!(count(&[100, 100, 100]), 3);
        assert_eq!(count(&[100, 100, 99, 100]), 3, "the last one may be shorter");
        assert_eq!(count(&[100, 101]), 1);
        assert_eq!(count(&[100, 0]), 1, "an empty datagram has its own message");
        assert_eq!(count(&[0, 0]), 1);
        assert_eq!(count(&[SEGMENT_MAX; 60]), MESSAGE_MAX / SEGMENT_MAX);
        assert_eq!(count(&[SEGMENT_MAX + 1; 2]), 1, "a network may not carry it");
    }

    /// The kernel divides what was joined, and the receiver sees each datagram, with its mark.
    #[test]
    fn divided_messages_and_marks_arrive() {
        run(async {
            for any in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
                let [(_, mut sender), (receiver_at, mut receiver)] = [ports(any, 1), ports(any, 1)];
                let sender = sender.remove(0).into_datagram_port().unwrap();
                let receiver = receiver.remove(0).into_datagram_port().unwrap();
                assert!(sender.divides.get(), "every supported kernel divides messages");
                let loopback: IpAddr = match receiver_at.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                let ends = (SocketAddr::new(loopback, receiver_at.port()), SocketAddr::new(loopback, 0));
                let lengths = [1200, 1200, 1200, 7, 0, 1452, 1452, 300, 1453];
                let all: Vec<Vec<u8>> =
                    (0..9).map(|number| vec![number; lengths[usize::from(number)]]).collect();
                for ecn in [Ecn::Unable, Ecn::Able1, Ecn::Able0, Ecn::Congested] {
                    assert_eq!(sender.send_marked(ends, ecn, &all).unwrap(), all.len());
                    let (mut room, mut arrived) = (ReceiveRoom::default(), Vec::new());
                    while arrived.len() < all.len() {
                        let take = |arrival: &Arrival<'_>| {
                            assert_eq!((arrival.ecn, arrival.to), (ecn, ends.0), "{any}");
                            arrived.push(arrival.payload.to_vec());
                        };
                        let mut take = take;
                        poll_fn(|cx| receiver.poll_receive(cx, &mut room, &mut take)).await.unwrap();
                    }
                    assert_eq!(arrived, all, "{any}");
                }
            }
        });
    }

    /// A way to the client that carries less than what was joined gets single datagrams.
    #[test]
    fn what_cannot_be_divided_is_sent_singly() {
        run(async {
            let (_, mut sockets) = ports("127.0.0.1:0", 1);
            let port = sockets.remove(0).into_datagram_port().unwrap();
            // The kernel computes no checksums in segments for a socket that sends none, and refuses to divide.
            set_option(port.socket.get_ref(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let to = client.local_addr().unwrap();
            let all = [[1; 500], [2; 500], [3; 500]];
            assert_eq!(port.send(to, port.address(), &all).unwrap(), 3);
            for payload in all {
                let mut buffer = [0; 600];
                assert_eq!(client.recv(&mut buffer).unwrap(), 500);
                assert_eq!(buffer[..500], payload);
            }
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
