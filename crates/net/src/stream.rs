//! Streams to servers, TCP or Unix domain, on the event loop of one thread.
//!
//! No write raises SIGPIPE: a peer that went away is an error of the kind `BrokenPipe`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
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
        loop {
            ready!(match self {
                Stream::Tcp(stream) => stream.poll_read_ready(cx),
                Stream::Unix(stream) => stream.poll_read_ready(cx),
            })?;
            let mut peek = |socket: BorrowedFd<'_>| Ok(recv(socket, &mut *buffer, RecvFlags::PEEK)?.0);
            let done = match self {
                Stream::Tcp(stream) => stream.try_io(Interest::READABLE, || peek(stream.as_fd())),
                Stream::Unix(stream) => stream.try_io(Interest::READABLE, || peek(stream.as_fd())),
            };
            match done {
                Err(error) if retries(&error) => {}
                other => return Poll::Ready(other),
            }
        }
    }

    /// Writes a part of the bytes and returns how many.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Sends small writes at once (TCP_NODELAY), or gathers them; nothing to do for Unix domain sockets.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(nodelay),
            Stream::Unix(_) => Ok(()),
        }
    }
}

fn retries(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;
    use crate::testing::run;

    async fn exchange(mut stream: Stream, mut server: impl Read + Write) {
        assert!(poll_fn(|cx| Poll::Ready(stream.poll_peek(cx, &mut [0; 4]))).await.is_pending());
        assert_eq!(poll_fn(|cx| stream.poll_write(cx, b"question")).await.unwrap(), 8);
        server.read_exact(&mut [0; 8]).unwrap();
        server.write_all(b"answer").unwrap();
        let mut peeked = [0; 3];
        assert_eq!(poll_fn(|cx| stream.poll_peek(cx, &mut peeked)).await.unwrap(), 3);
        assert_eq!(&peeked, b"ans");
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap();
        assert_eq!(buffer.filled(), b"answer");
        drop(server);
        assert_eq!(poll_fn(|cx| stream.poll_peek(cx, &mut peeked)).await.unwrap(), 0);
    }

    #[test]
    fn bytes_go_both_ways() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = SocketAddress::Inet(listener.local_addr().unwrap());
            let stream = Stream::connect(&address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            exchange(stream, listener.accept().unwrap().0).await;

            let name = format!("net-stream-{}", std::process::id()).into_bytes();
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            let stream = Stream::connect(&SocketAddress::Abstract(name)).await.unwrap();
            stream.set_nodelay(true).unwrap();
            exchange(stream, listener.accept().unwrap().0).await;
        });
    }
}
