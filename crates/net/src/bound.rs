//! Listening sockets that no event loop owns yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Socket, TcpKeepalive};

use crate::address::SocketAddress;
use crate::datagram_port::{DatagramPort, request_details};
use crate::endpoint::{Endpoint, SocketType};
use crate::listener::Listener;

/// What the parameters of a `listen` directive ask of its sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Length of the queue of connections not accepted yet, see listen(2); -1 is the system's maximum.
    pub backlog: i32,
    /// An IPv6 wildcard accepts no IPv4 connections.
    pub ipv6only: bool,
    /// Share the port by SO_REUSEPORT even if only one socket is asked for.
    pub reuseport: bool,
    /// Accept a connection only when its first data are there (TCP_DEFER_ACCEPT).
    pub deferred: bool,
    /// Length of the queue of TCP Fast Open, none to leave it off.
    pub fastopen: Option<i32>,
    /// Receive buffer in bytes.
    pub rcvbuf: Option<usize>,
    /// Send buffer in bytes.
    pub sndbuf: Option<usize>,
    /// TCP keep-alive probes; none leaves the system's setting.
    pub keepalive: Option<KeepAlive>,
    /// Connections may have several paths (Multipath TCP, RFC 8684).
    pub multipath: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            backlog: 511,
            ipv6only: true,
            reuseport: false,
            deferred: false,
            fastopen: None,
            rcvbuf: None,
            sndbuf: None,
            keepalive: None,
            multipath: false,
        }
    }
}

/// `so_keepalive`: TCP keep-alive probes, see tcp(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// No probes.
    Off,
    /// Probes; without a value the system's setting applies.
    On {
        /// Silence before the first probe (TCP_KEEPIDLE).
        idle: Option<Duration>,
        /// Time between probes (TCP_KEEPINTVL).
        interval: Option<Duration>,
        /// Unanswered probes that end the connection (TCP_KEEPCNT).
        count: Option<u32>,
    },
}

/// A listening socket, close-on-exec and non-blocking.
///
/// Dropping it closes the descriptor and never removes the path of a Unix domain socket, because another
/// process may still accept on it.
#[derive(Debug)]
pub struct BoundSocket {
    socket: Arc<Socket>,
    endpoint: Endpoint,
    lent: bool,
}

impl BoundSocket {
    /// A listening socket together with what it really is bound to (a port, where 0 was asked for).
    pub(crate) fn new(socket: Socket) -> io::Result<BoundSocket> {
        let address = SocketAddress::from_kernel(&socket.local_addr()?)
            .ok_or_else(|| io::Error::other("unsupported protocol family"))?;
        let transport = SocketType::from_kernel(socket.r#type()?)
            .ok_or_else(|| io::Error::other("unsupported type of socket"))?;
        Ok(BoundSocket { socket: Arc::new(socket), endpoint: Endpoint { transport, address }, lent: false })
    }

    /// The same, as one that a service manager made and keeps.
    pub(crate) fn lent(self) -> BoundSocket {
        BoundSocket { lent: true, ..self }
    }

    /// Whether a service manager made the socket and keeps it: its address is not ours to give up.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// What the socket is bound to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The address that the socket is bound to.
    pub fn address(&self) -> &SocketAddress {
        &self.endpoint.address
    }

    /// Another descriptor of the same socket and queue.
    pub fn try_clone(&self) -> io::Result<BoundSocket> {
        let socket = Arc::new(self.socket.try_clone()?);
        Ok(BoundSocket { socket, endpoint: self.endpoint.clone(), lent: self.lent })
    }

    /// The same descriptor, for another thread of this process. It is closed with the last of them.
    pub fn share(&self) -> BoundSocket {
        BoundSocket { socket: Arc::clone(&self.socket), endpoint: self.endpoint.clone(), lent: self.lent }
    }

    /// Whether both are the same descriptor.
    pub fn is_shared_with(&self, other: &BoundSocket) -> bool {
        self.socket.as_raw_fd() == other.socket.as_raw_fd()
    }

    /// Applies changed options to a socket that is listening already, after a reload or an upgrade.
    ///
    /// `ipv6only`, `reuseport` and `multipath` belong to the binding and are left as they are.
    ///
    /// A lent socket keeps the queue that it was given, unless an option asks for another one.
    pub fn configure(&self, options: &ListenOptions) -> io::Result<()> {
        if self.lent && *options == ListenOptions::default() {
            let as_long_as_it_may_be = ListenOptions { backlog: -1, ..options.clone() };
            return listen(&self.socket, &self.endpoint, &as_long_as_it_may_be);
        }
        listen(&self.socket, &self.endpoint, options)
    }

    /// What the kernel gives less of than the options ask, and what to change; empty if it gives all.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn shortages(&self, options: &ListenOptions) -> io::Result<Vec<String>> {
        // The kernel counts its own bookkeeping in, for which it doubles what was asked, see socket(7).
        let receive = ("rcvbuf", options.rcvbuf, self.socket.recv_buffer_size()? / 2, "net.core.rmem_max");
        let send = ("sndbuf", options.sndbuf, self.socket.send_buffer_size()? / 2, "net.core.wmem_max");
        let short = |(name, asked, given, limit): (&str, Option<usize>, usize, &str)| {
            let asked = asked.filter(|asked| *asked > given)?;
            let text = format!("\"{name}={asked}\" has no full effect: the kernel allows {given} bytes");
            Some(format!("{text}; set {limit} to {asked} by sysctl"))
        };
        Ok([receive, send].into_iter().filter_map(short).collect())
    }

    /// Whether other sockets can join the port.
    pub fn reuseport(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// Lets other sockets of the same user join the port from now on.
    pub(crate) fn set_reuseport(&self) -> io::Result<()> {
        self.socket.set_reuse_port(true)
    }

    /// Registers the socket with the event loop of this thread.
    ///
    /// Errors if epoll refuses it, or no connections arrive at the socket; panics outside of a tokio runtime.
    pub fn into_tokio(self) -> io::Result<Listener> {
        match self.endpoint.transport {
            SocketType::Stream => Listener::new(self.socket, self.endpoint.address),
            SocketType::Datagram => Err(io::Error::other("a socket of datagrams accepts no connections")),
        }
    }

    /// Registers a UDP socket with the event loop of this thread.
    ///
    /// Errors if epoll refuses it, or it is no UDP socket; panics outside of a tokio runtime.
    pub fn into_datagram_port(self) -> io::Result<DatagramPort> {
        match self.endpoint.transport {
            SocketType::Stream => Err(io::Error::other("a socket of streams receives no datagrams")),
            SocketType::Datagram => DatagramPort::new(self.socket, &self.endpoint.address),
        }
    }
}

impl AsFd for BoundSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Hands the sockets of one address to threads: a list for each of `threads`.
///
/// Each thread gets a socket and each socket a thread. Where threads are fewer, some adopt a second socket,
/// so that no queue is left without a reader; where sockets are fewer (Unix domain), threads share one. A socket of datagrams
/// has one thread, because two that read it would both begin a session for a client.
pub fn share_out(sockets: &[BoundSocket], threads: usize) -> Vec<Vec<BoundSocket>> {
    let mut shares: Vec<Vec<BoundSocket>> = (0..threads).map(|_| Vec::new()).collect();
    if sockets.is_empty() || threads == 0 {
        return shares;
    }
    let is_shared = sockets.iter().all(|socket| socket.endpoint.transport == SocketType::Stream);
    let turns = if is_shared { threads.max(sockets.len()) } else { sockets.len() };
    for turn in 0..turns {
        shares[turn % threads].push(sockets[turn % sockets.len()].share());
    }
    shares
}

/// Whether a connection waits to be accepted at any of these sockets. The call does not wait.
///
/// Errors if poll(2) fails.
pub fn has_connections<'a>(sockets: impl Iterator<Item = &'a BoundSocket>) -> io::Result<bool> {
    let mut polled: Vec<_> = sockets.map(|bound| PollFd::new(&*bound.socket, PollFlags::IN)).collect();
    let ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(ready > 0)
}

/// Sets the options that need no binding and makes the socket listen, or listen anew. A socket of datagrams receives
/// without that.
pub(crate) fn listen(socket: &Socket, endpoint: &Endpoint, options: &ListenOptions) -> io::Result<()> {
    prepare(socket, endpoint, options)?;
    if endpoint.transport == SocketType::Datagram {
        return Ok(());
    }
    socket.listen(options.backlog)?;
    if !endpoint.address.is_unix() {
        set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, i32::from(options.deferred))?;
    }
    Ok(())
}

/// Sets the options that a socket takes before it listens.
pub(crate) fn prepare(socket: &Socket, endpoint: &Endpoint, options: &ListenOptions) -> io::Result<()> {
    if let Some(size) = options.rcvbuf {
        socket.set_recv_buffer_size(size)?;
    }
    if let Some(size) = options.sndbuf {
        socket.set_send_buffer_size(size)?;
    }
    if endpoint.transport == SocketType::Datagram {
        return request_details(socket, &endpoint.address);
    }
    if !endpoint.address.is_unix() {
        // Accepted connections inherit it: no call for each of them.
        socket.set_tcp_nodelay(true)?;
        set_keepalive(socket, options.keepalive)?;
        if let Some(length) = options.fastopen {
            set_option(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, length)?;
        }
    }
    Ok(())
}

fn set_keepalive(socket: &Socket, keepalive: Option<KeepAlive>) -> io::Result<()> {
    match keepalive {
        None => Ok(()),
        Some(KeepAlive::Off) => socket.set_keepalive(false),
        Some(KeepAlive::On { idle, interval, count }) => {
            let mut probes = TcpKeepalive::new();
            if let Some(idle) = idle {
                probes = probes.with_time(idle);
            }
            if let Some(interval) = interval {
                probes = probes.with_interval(interval);
            }
            if let Some(count) = count {
                probes = probes.with_retries(count);
            }
            socket.set_tcp_keepalive(&probes)
        }
    }
}

#[allow(unsafe_code)]
pub(crate) fn set_option(
    socket: &Socket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let size = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `socket` is borrowed; the pointer and the size are those of
    // `value`, which the kernel only reads.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::bind;

    fn sockets(count: usize) -> Vec<BoundSocket> {
        of(Endpoint::stream, count)
    }

    fn of(endpoint: fn(SocketAddress) -> Endpoint, count: usize) -> Vec<BoundSocket> {
        let any = endpoint(SocketAddress::Inet("127.0.0.1:0".parse().unwrap()));
        bind(&any, &ListenOptions::default(), count).unwrap()
    }

    #[test]
    fn every_thread_and_every_socket_is_served() {
        let lengths = |sockets: &[BoundSocket], threads| -> Vec<usize> {
            share_out(sockets, threads).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(&sockets(2), 2), [1, 1]);
        assert_eq!(lengths(&sockets(3), 2), [2, 1]);
        assert_eq!(lengths(&sockets(1), 3), [1, 1, 1]);
        assert_eq!(lengths(&[], 2), [0, 0]);
        assert_eq!(lengths(&of(Endpoint::datagram, 1), 3), [1, 0, 0]);
        assert_eq!(lengths(&of(Endpoint::datagram, 3), 2), [2, 1]);
    }

    #[test]
    fn a_buffer_that_the_kernel_does_not_allow_is_told() {
        let bound = sockets(1).remove(0);
        let options =
            ListenOptions { rcvbuf: Some(64 * 1024), sndbuf: Some(1 << 30), ..ListenOptions::default() };
        bound.configure(&options).unwrap();
        let told = bound.shortages(&options).unwrap();
        let allowed = std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap();
        let start = "\"sndbuf=1073741824\" has no full effect: the kernel allows";
        let end = "bytes; set net.core.wmem_max to 1073741824 by sysctl";
        assert_eq!(told, [format!("{start} {} {end}", allowed.trim())]);
    }

    #[test]
    fn options_reach_the_kernel() {
        let options = ListenOptions {
            backlog: 3,
            deferred: true,
            fastopen: Some(5),
            rcvbuf: Some(64 * 1024),
            sndbuf: Some(32 * 1024),
            keepalive: Some(KeepAlive::On {
                idle: Some(Duration::from_secs(77)),
                interval: None,
                count: Some(4),
            }),
            ..ListenOptions::default()
        };
        let bound = sockets(1).remove(0);
        bound.configure(&options).unwrap();
        // The kernel doubles buffer sizes for its own bookkeeping, see socket(7).
        assert_eq!(bound.socket.recv_buffer_size().unwrap(), 128 * 1024);
        assert_eq!(bound.socket.send_buffer_size().unwrap(), 64 * 1024);
        assert!(bound.socket.keepalive().unwrap());
        assert_eq!(bound.socket.tcp_keepalive_time().unwrap(), Duration::from_secs(77));
        assert_eq!(bound.socket.tcp_keepalive_retries().unwrap(), 4);
        assert!(bound.socket.nonblocking().unwrap());
        assert!(rustix::io::fcntl_getfd(&bound).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
