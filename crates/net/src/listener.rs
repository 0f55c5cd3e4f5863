//! Accepting connections on the event loop of one thread.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketFlags, acceptfrom_with};
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::address::{SocketAddress, unix};
use crate::events::Events;
use crate::stream::Stream;

/// A listening socket on the event loop of its thread.
///
/// Dropping it stops accepting here; the queue lives on as long as another process has the socket.
pub struct Listener {
    socket: AsyncFd<Arc<Socket>>,
    address: SocketAddress,
}

impl Listener {
    #[allow(unsafe_code)]
    pub(crate) fn new(socket: Arc<Socket>, address: SocketAddress) -> io::Result<Listener> {
        // SAFETY: the socket owns its descriptor, which stays the same for as long as the socket lives.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Listener { socket, address })
    }

    /// The address that the socket is bound to, possibly a wildcard.
    pub fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// Takes the next connection, which will be among these events, and the address of the client.
    ///
    /// A connection that broke while it waited is passed over. Errors are about the process or the system
    /// (no descriptors, no memory): the connection stays in the queue, so the caller must pause before it
    /// tries again.
    pub fn poll_accept(
        &self,
        cx: &mut Context<'_>,
        events: &Rc<Events>,
    ) -> Poll<io::Result<(Stream, SocketAddress)>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match acceptfrom_with(self.socket.get_ref().as_ref(), flags).map_err(io::Error::from) {
                Ok((socket, peer)) => {
                    return Poll::Ready(Ok((Stream::new(socket, events), peer_of(peer))));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if concerns_connection_only(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// [`poll_accept`](Self::poll_accept) as a future, which may be dropped without loss.
    pub async fn accept(&self, events: &Rc<Events>) -> io::Result<(Stream, SocketAddress)> {
        poll_fn(|cx| self.poll_accept(cx, events)).await
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A client whose address is of no family that is known has no name.
fn peer_of(address: Option<SocketAddrAny>) -> SocketAddress {
    let Some(address) = address else { return unix(None, None) };
    match SocketAddr::try_from(address.clone()) {
        Ok(inet) => SocketAddress::Inet(inet),
        Err(_) => match SocketAddrUnix::try_from(address) {
            Ok(address) => {
                let path = address.path_bytes().map(|path| Path::new(OsStr::from_bytes(path)));
                // The kernel reports a client without a name as one with an empty name.
                unix(path, address.abstract_name().filter(|name| !name.is_empty()))
            }
            Err(_) => unix(None, None),
        },
    }
}

/// Linux passes errors of the accepted connection on; accept(2) says to treat them as "try again".
fn concerns_connection_only(error: &io::Error) -> bool {
    let Some(number) = error.raw_os_error() else { return false };
    matches!(
        Errno::from_raw(number),
        Errno::ECONNABORTED
            | Errno::EINTR
            | Errno::ENETDOWN
            | Errno::EPROTO
            | Errno::ENOPROTOOPT
            | Errno::EHOSTDOWN
            | Errno::ENONET
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
    )
}
