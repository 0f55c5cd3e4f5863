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

    /// Holds back what does not fill a segment until our side ends (TCP_CORK), so that both leave together; nothing to
    /// do for Unix domain sockets.
    pub fn hold_until_end(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => SockRef::from(stream).set_tcp_cork(true),
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::os::unix::net::UnixStream as UnixClient;

    use super::*;
    use crate::bind::bind;
    use crate::bound::ListenOptions;
    use crate::testing::run;

    /// Both ends of a TCP connection; the client blocks for at most five seconds.
    async fn connected() -> (Stream, Client) {
        let address = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
        let bound = bind(&address, &ListenOptions::default(), 1).unwrap().remove(0);
        let SocketAddress::Inet(inet) = *bound.address() else { panic!("not TCP") };
        let client = Client::connect(inet).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let listener = bound.into_tokio().unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, SocketAddress::Inet(client.local_addr().unwrap()));
        assert_eq!(stream.peer().unwrap(), peer);
        assert_eq!(&stream.local().unwrap(), listener.address());
        (stream, client)
    }

    fn file_of(length: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    async fn read_some(stream: &mut Stream) -> Vec<u8> {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap();
        buffer.filled().to_vec()
    }

    #[test]
    fn bytes_go_both_ways() {
        run(async {
            let (mut stream, mut client) = connected().await;
            client.write_all(b"question").unwrap();
            let mut peeked = [0; 4];
            assert_eq!(poll_fn(|cx| stream.poll_peek(cx, &mut peeked)).await.unwrap(), 4);
            assert_eq!(&peeked, b"ques");
            assert_eq!(read_some(&mut stream).await, b"question");
            assert_eq!(poll_fn(|cx| stream.poll_write(cx, b"an")).await.unwrap(), 2);
            let slices = [IoSlice::new(b"sw"), IoSlice::new(b"er")];
            assert_eq!(poll_fn(|cx| stream.poll_write_vectored(cx, &slices)).await.unwrap(), 4);
            stream.shutdown_write().unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "answer");
            client.write_all(b"more").unwrap();
            assert_eq!(read_some(&mut stream).await, b"more");
            drop(client);
            assert!(read_some(&mut stream).await.is_empty());
        });
    }

    #[test]
    fn a_file_is_sent_while_the_client_reads() {
        run(async {
            let (mut stream, mut client) = connected().await;
            let length = 8 << 20;
            let file = file_of(length);
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                client.read_to_end(&mut received).map(|_| received)
            });
            let mut offset = 10;
            while offset < length as u64 {
                let left = length - usize::try_from(offset).unwrap();
                let before = offset;
                let sent = poll_fn(|cx| stream.poll_send_file(cx, &file, &mut offset, left)).await.unwrap();
                assert!(sent > 0 && offset == before + sent as u64);
            }
            drop(stream);
            let received = reader.join().unwrap().unwrap();
            assert_eq!(received.len(), length - 10);
            assert!(received.iter().zip(10..).all(|(byte, i)| usize::from(*byte) == i % 251));
        });
    }

    #[test]
    fn a_truncated_file_sends_nothing() {
        run(async {
            let (mut stream, _client) = connected().await;
            let file = file_of(1000);
            let mut offset = 0;
            let sent = poll_fn(|cx| stream.poll_send_file(cx, &file, &mut offset, 2000)).await.unwrap();
            assert_eq!((sent, offset), (1000, 1000));
            file.set_len(500).unwrap();
            let sent = poll_fn(|cx| stream.poll_send_file(cx, &file, &mut offset, 1000)).await.unwrap();
            assert_eq!((sent, offset), (0, 1000));
        });
    }

    #[test]
    fn an_announced_head_waits_for_its_body() {
        run(async {
            let (mut stream, mut client) = connected().await;
            client.set_nonblocking(true).unwrap();
            let head = [IoSlice::new(b"he"), IoSlice::new(b"ad ")];
            assert_eq!(poll_fn(|cx| stream.poll_write_more(cx, &head)).await.unwrap(), 5);
            let mut buffer = [0; 64];
            assert_eq!(client.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            let mut offset = 0;
            poll_fn(|cx| stream.poll_send_file(cx, file_of(3), &mut offset, 3)).await.unwrap();
            client.set_nonblocking(false).unwrap();
            assert_eq!(client.read(&mut buffer).unwrap(), 8);
            assert_eq!(&buffer[..8], b"head \x00\x01\x02");
        });
    }

    #[test]
    fn a_full_stream_waits_until_it_is_read() {
        run(async {
            let (mut stream, mut client) = connected().await;
            let block = vec![1; 1 << 20];
            let mut written = 0;
            let pending = loop {
                let once = poll_fn(|cx| Poll::Ready(stream.poll_write(cx, &block))).await;
                match once {
                    Poll::Ready(count) => written += count.unwrap(),
                    Poll::Pending => break poll_fn(|cx| Poll::Ready(stream.poll_writable(cx))).await,
                }
            };
            assert!(pending.is_pending());
            client.read_exact(&mut vec![0; written]).unwrap();
            poll_fn(|cx| stream.poll_writable(cx)).await.unwrap();
        });
    }

    #[test]
    fn accepted_streams_do_not_gather() {
        run(async {
            let (stream, _client) = connected().await;
            assert!(SockRef::from(&stream).tcp_nodelay().unwrap());
            stream.set_nodelay(false).unwrap();
            assert!(!SockRef::from(&stream).tcp_nodelay().unwrap());
        });
    }

    #[test]
    fn what_is_held_back_leaves_with_the_end() {
        run(async {
            let (mut stream, mut client) = connected().await;
            client.set_nonblocking(true).unwrap();
            stream.hold_until_end().unwrap();
            let mut offset = 0;
            poll_fn(|cx| stream.poll_send_file(cx, file_of(3), &mut offset, 3)).await.unwrap();
            assert_eq!(client.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            stream.shutdown_write().unwrap();
            client.set_nonblocking(false).unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, [0, 1, 2]);
        });
    }

    #[test]
    fn no_lingering_resets() {
        run(async {
            let (stream, mut client) = connected().await;
            stream.set_linger_zero().unwrap();
            drop(stream);
            assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn a_vanished_peer_is_an_error() {
        run(async {
            let (mut stream, client) = connected().await;
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            let gone = poll_fn(|cx| stream.poll_write_more(cx, &[IoSlice::new(b"x")])).await;
            assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            let gone = poll_fn(|cx| stream.poll_write_vectored(cx, &[IoSlice::new(b"x")])).await;
            assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_unix_client_has_no_name() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("socket");
            let address = SocketAddress::Unix(path.clone());
            let bound = bind(&address, &ListenOptions::default(), 1).unwrap().remove(0);
            let listener = bound.into_tokio().unwrap();
            let mut client = UnixClient::connect(&path).unwrap();
            let (mut stream, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.to_string(), "unix:");
            assert_eq!(stream.local().unwrap(), address);
            stream.set_nodelay(true).unwrap();
            let mut offset = 0;
            poll_fn(|cx| stream.poll_send_file(cx, file_of(3), &mut offset, 3)).await.unwrap();
            let mut received = [9; 3];
            client.read_exact(&mut received).unwrap();
            assert_eq!(received, [0, 1, 2]);
        });
    }

    #[test]
    fn we_connect_too() {
        run(async {
            let name = format!("net-stream-{}", std::process::id()).into_bytes();
            let inet = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
            for address in [inet, SocketAddress::Abstract(name)] {
                let bound = bind(&address, &ListenOptions::default(), 1).unwrap().remove(0);
                let stream = Stream::connect(bound.address()).await.unwrap();
                assert_eq!(&stream.peer().unwrap(), bound.address());
                bound.into_tokio().unwrap().accept().await.unwrap();
            }
        });
    }
}
