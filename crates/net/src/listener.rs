//! Accepting connections on the event loop of one thread.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use nix::errno::Errno;
use socket2::Socket;
use tokio::net::{TcpListener, UnixListener};

use crate::address::SocketAddress;
use crate::stream::Stream;

/// A listening socket on the event loop of its thread.
///
/// Dropping it stops accepting here; the queue lives on as long as another process has the socket.
#[derive(Debug)]
pub struct Listener {
    socket: Accepting,
    address: SocketAddress,
}

#[derive(Debug)]
enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn new(socket: Socket, address: SocketAddress) -> io::Result<Listener> {
        let socket = if address.is_unix() {
            Accepting::Unix(UnixListener::from_std(socket.into())?)
        } else {
            Accepting::Tcp(TcpListener::from_std(socket.into())?)
        };
        Ok(Listener { socket, address })
    }

    /// The address that the socket is bound to, possibly a wildcard.
    pub fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// Takes the next connection, and the address of the client.
    ///
    /// A connection that broke while it waited is passed over. Errors are about the process or the system
    /// (no descriptors, no memory): the connection stays in the queue, so the caller must pause before it
    /// tries again.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, SocketAddress)>> {
        loop {
            let accepted = match &self.socket {
                Accepting::Tcp(listener) => listener
                    .poll_accept(cx)
                    .map_ok(|(stream, peer)| (Stream::Tcp(stream), SocketAddress::Inet(peer))),
                Accepting::Unix(listener) => {
                    listener.poll_accept(cx).map_ok(|(stream, peer)| (Stream::Unix(stream), peer.into()))
                }
            };
            match accepted {
                Poll::Ready(Err(error)) if concerns_connection_only(&error) => {}
                other => return other,
            }
        }
    }

    /// [`poll_accept`](Self::poll_accept) as a future, which may be dropped without loss.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddress)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Accepting::Tcp(listener) => listener.as_fd(),
            Accepting::Unix(listener) => listener.as_fd(),
        }
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
