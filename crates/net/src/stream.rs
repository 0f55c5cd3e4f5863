//! Connected streams, TCP or Unix domain, on the event loop of one thread.
//!
//! No write raises SIGPIPE: a peer that went away is an error of the kind `BrokenPipe`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::address::SocketAddress;

/// A connected, non-blocking stream.
///
/// Reading and writing wake the task of the last call each; one task may do both.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection over a Unix domain socket.
    Unix(UnixStream),
}

impl Stream {
    /// Connects to an address.
    pub async fn connect(address: &SocketAddress) -> io::Result<Stream> {
        match address {
            SocketAddress::Inet(inet) => Ok(Stream::Tcp(TcpStream::connect(inet).await?)),
            SocketAddress::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            SocketAddress::Abstract(name) => {
                let mut path = vec![0];
                path.extend_from_slice(name);
                let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.as_slice());
                Ok(Stream::Unix(UnixStream::connect(path).await?))
            }
        }
    }

    /// Reads what is there into the buffer; nothing read means that the peer will send no more.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    /// Looks at what is there without taking it, and returns its length in bytes; 0 at the end.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_call(cx, Interest::READABLE, |fd| {
            Ok(rustix::net::recv(fd, &mut *buffer, RecvFlags::PEEK)?.0)
        })
    }

    /// Writes a part of the bytes and returns how many.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Writes a part of the slices' bytes in one call and returns how many; the kernel takes up to 1024 slices.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    /// Writes as [`poll_write_vectored`](Self::poll_write_vectored) does and announces more: the kernel
    /// holds a partial segment back until the next write, so that head and file leave together (MSG_MORE).
    pub fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_call(cx, Interest::WRITABLE, |fd| {
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            Ok(rustix::net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags)?)
        })
    }

    /// Waits until something can be written.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Sends up to `count` bytes of a file from `offset` on, which moves forward; returns how many.
    ///
    /// The kernel copies, see sendfile(2). 0, where bytes were asked for, means that the file ends at
    /// `offset`: it was truncated. A file whose contents are not in memory blocks the thread.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: impl AsFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_call(cx, Interest::WRITABLE, |fd| {
            Ok(rustix::fs::sendfile(fd, file.as_fd(), Some(offset), count)?)
        })
    }

    /// Sends small writes at once (TCP_NODELAY), or gathers them; nothing to do for Unix domain sockets.
    ///
    /// Connections from a [`Listener`](crate::Listener) have it on already.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(nodelay),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// Ends our side: the peer reads an end once it has read everything before.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self, Shutdown::Write)?)
    }

    /// Closing will reset the connection and drop what was not sent (`reset_timedout_connection`).
    pub fn set_linger_zero(&self) -> io::Result<()> {
        SockRef::from(self).set_linger(Some(Duration::ZERO))
    }

    /// The address of the other end.
    pub fn peer(&self) -> io::Result<SocketAddress> {
        match self {
            Stream::Tcp(stream) => Ok(SocketAddress::Inet(stream.peer_addr()?)),
            Stream::Unix(stream) => Ok(stream.peer_addr()?.into()),
        }
    }

    /// The address of our end, never a wildcard.
    pub fn local(&self) -> io::Result<SocketAddress> {
        match self {
            Stream::Tcp(stream) => Ok(SocketAddress::Inet(stream.local_addr()?)),
            Stream::Unix(stream) => Ok(stream.local_addr()?.into()),
        }
    }

    /// Does a system call that tokio has no method for, when the stream is ready for it.
    fn poll_call<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            let done = match self {
                Stream::Tcp(stream) => stream.try_io(interest, || call(stream.as_fd())),
                Stream::Unix(stream) => stream.try_io(interest, || call(stream.as_fd())),
            };
            match done {
                Err(error) if retries(&error) => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match (self, interest.is_readable()) {
            (Stream::Tcp(stream), true) => stream.poll_read_ready(cx),
            (Stream::Tcp(stream), false) => stream.poll_write_ready(cx),
            (Stream::Unix(stream), true) => stream.poll_read_ready(cx),
            (Stream::Unix(stream), false) => stream.poll_write_ready(cx),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

fn retries(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
