//! Connections to clients and to other servers, TCP or Unix domain, among the [`Events`] of their thread.
//!
//! No write raises SIGPIPE: a peer that went away is an error of the kind `BrokenPipe`.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::SockRef;

use crate::address::SocketAddress;
use crate::bound::set_option;
use crate::endpoint::SocketType;
use crate::events::{Events, Registration, Wanted, take_moment};

/// A connected, non-blocking stream.
///
/// Whatever is waited for, the task of the last call is woken; one task may read and write.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    pub(crate) registration: Registration,
    delay: Cell<Delay>,
    had_reported: Cell<bool>,
}

/// Whether the kernel delays small writes (Nagle's algorithm). It never delays the first one: a connection on which a request
/// is written at once, and no other one after it, needs no setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delay {
    /// That is not to be changed.
    Settled,
    /// Nothing was written yet.
    BeforeFirst,
    /// The next write must not be delayed.
    BeforeSecond,
}

/// How a connection is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// What it carries. A connection of datagrams reads and writes one whole datagram a call.
    pub transport: SocketType,
    /// The address that it comes from, unless it goes to a Unix socket; port 0 is any port.
    pub local: Option<SocketAddr>,
    /// Whether the kernel probes it while it is idle (`SO_KEEPALIVE`).
    pub keepalive: bool,
    /// How much the kernel buffers of what arrives, in bytes (`SO_RCVBUF`).
    pub receive_buffer: Option<usize>,
    /// How much the kernel buffers of what is sent, in bytes (`SO_SNDBUF`).
    pub send_buffer: Option<usize>,
}

impl ConnectOptions {
    fn apply(&self, socket: &socket2::Socket, is_unix: bool) -> io::Result<()> {
        if let Some(size) = self.receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        if let Some(size) = self.send_buffer {
            socket.set_send_buffer_size(size)?;
        }
        if self.keepalive && self.transport == SocketType::Stream {
            socket.set_keepalive(true)?;
        }
        let Some(local) = self.local.filter(|_| !is_unix) else { return Ok(()) };
        if local.port() == 0 {
            // The port is chosen by the destination, too, so that more connections than ports can exist.
            set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        }
        socket.bind(&local.into())
    }
}

impl Stream {
    /// A stream that is among these events when it has to be waited for.
    pub(crate) fn new(socket: OwnedFd, events: &Rc<Events>) -> Stream {
        let registration = Registration::new(events);
        Stream { socket, registration, delay: Cell::new(Delay::Settled), had_reported: Cell::new(false) }
    }

    /// Begins to connect to an address, on the event loop of this thread. Small writes are sent at once (TCP_NODELAY).
    /// Nothing can be read or written before [`poll_connected`](Self::poll_connected) was ready.
    ///
    /// Errors if the system refuses at once, or this thread has no [`Events`].
    pub fn connect(address: &SocketAddress) -> io::Result<Stream> {
        Stream::connect_with(address, &ConnectOptions::default())
    }

    /// As [`connect`](Self::connect), with options.
    pub fn connect_with(address: &SocketAddress, options: &ConnectOptions) -> io::Result<Stream> {
        let events = Events::current().ok_or_else(|| io::Error::other("a thread without an event loop"))?;
        let address_of_kernel = address.to_kernel()?;
        let kind = options.transport.to_kernel().nonblocking().cloexec();
        let socket = socket2::Socket::new(address_of_kernel.domain(), kind, None)?;
        options.apply(&socket, address.is_unix())?;
        let mut connected = socket.connect(&address_of_kernel);
        if is_in_progress(&connected) && address.ip().is_some_and(|ip| ip.is_loopback()) {
            // The kernel answers itself, at the end of the first call. Asking costs less than waiting for the event.
            connected = socket.connect(&address_of_kernel);
        }
        let stream = Stream::new(socket.into(), &events);
        if !address.is_unix() && options.transport == SocketType::Stream {
            stream.delay.set(Delay::BeforeFirst);
        }
        if is_in_progress(&connected) {
            stream.registration.blocked(stream.socket.as_fd(), Wanted::Write)?;
        } else {
            connected?;
            stream.registration.was_read(true);
        }
        Ok(stream)
    }

    /// Ready when the connection stands, or cannot be had. The task of the last call is woken.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.registration.poll(cx, self.socket.as_fd(), Wanted::Write))?;
        if self.registration.is_only_writable() {
            return Poll::Ready(Ok(()));
        }
        match SockRef::from(&self.socket).take_error()? {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Whether nothing arrived that was not read yet, as far as that is known without a call of the kernel. The task of
    /// the last call is woken when that changes.
    pub fn poll_stirred(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.registration.poll_stirred(cx, self.socket.as_fd())
    }

    /// Reads as [`poll_read`](Self::poll_read) does into the room that a buffer gives only when there may be something to
    /// read: what does not come needs no memory.
    pub fn poll_read_into<B>(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut B,
        room: impl Fn(&mut B) -> &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut is_filled = false;
        let count = ready!(self.poll_call(cx, Wanted::Read, |socket| {
            let room = room(buffer);
            let (count, _) = rustix::net::recv(socket, &mut *room, RecvFlags::empty())?;
            is_filled = count == room.len();
            Ok(count)
        }))?;
        self.was_read(count, is_filled);
        Poll::Ready(Ok(count))
    }

    /// Receives one datagram into the buffer and returns its length, which may be 0. What does not fit is lost.
    ///
    /// Errors may be about a datagram that was sent before: `ConnectionRefused` if no process receives at the address.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        // A short read says nothing about the next datagram, so the socket stays readable until a call finds it empty.
        self.poll_call(cx, Wanted::Read, |socket| {
            Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?.0)
        })
    }

    /// Reads what is there into the buffer and returns how much; 0 means that the peer will send no more.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.poll_call(cx, Wanted::Read, |socket| {
            Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?.0)
        }))?;
        self.was_read(count, count == buffer.len());
        Poll::Ready(Ok(count))
    }

    /// Takes note of a read. There may be more where the room was filled; the end can be read again.
    pub(crate) fn was_read(&self, count: usize, is_filled: bool) {
        take_moment();
        self.had_reported.set(self.registration.was_read(count > 0 && !is_filled));
    }

    /// Whether the kernel had reported something to read before the last read, and nothing was read in between: the first
    /// byte of the last read arrived before this thread last took events ([`events_moment`](crate::events_moment)).
    pub fn had_reported(&self) -> bool {
        self.had_reported.get()
    }

    /// Looks at what is there without taking it, and returns its length in bytes; 0 at the end.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_call(cx, Wanted::Read, |socket| {
            Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::PEEK)?.0)
        })
    }

    /// Ready when the peer sends no more or is gone, whatever of what it sent was not read yet.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration.poll_ended(cx, self.socket.as_fd())
    }

    /// Whether the peer may have sent more than was read, as far as that is known without asking. To close then would
    /// reset the connection, and what was not sent yet would be lost.
    pub fn may_have_more(&self) -> bool {
        self.registration.may_have_more()
    }

    /// Writes a part of the bytes and returns how many.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes, SendFlags::NOSIGNAL)
    }

    /// Writes as [`poll_write`](Self::poll_write) does and announces more: the kernel holds a partial segment back
    /// until the next write, so that head and file leave together (MSG_MORE).
    pub fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    /// Writes a part of two texts, the second behind the first, in one call, and returns how many bytes.
    pub fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        let both = [IoSlice::new(first), IoSlice::new(second)];
        let count = ready!(self.poll_call(cx, Wanted::Write, |socket| {
            self.settle_delay()?;
            let none = &mut SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(socket, &both, none, SendFlags::NOSIGNAL)?)
        }))?;
        if count > 0 && count < first.len() + second.len() {
            self.registration.filled(self.socket.as_fd())?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8], flags: SendFlags) -> Poll<io::Result<usize>> {
        let count = ready!(self.poll_call(cx, Wanted::Write, |socket| {
            self.settle_delay()?;
            Ok(rustix::net::send(socket, bytes, flags)?)
        }))?;
        if count > 0 && count < bytes.len() {
            self.registration.filled(self.socket.as_fd())?;
        }
        Poll::Ready(Ok(count))
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
        self.poll_call(cx, Wanted::Write, |socket| {
            self.settle_delay()?;
            Ok(rustix::fs::sendfile(socket, file.as_fd(), Some(offset), count)?)
        })
    }

    /// Sees that the second write, and all after it, leave at once.
    #[inline]
    pub(crate) fn settle_delay(&self) -> io::Result<()> {
        match self.delay.get() {
            Delay::Settled => {}
            Delay::BeforeFirst => self.delay.set(Delay::BeforeSecond),
            Delay::BeforeSecond => {
                self.delay.set(Delay::Settled);
                SockRef::from(&self.socket).set_tcp_nodelay(true)?;
            }
        }
        Ok(())
    }

    /// Lets the next writes be made in this turn, however much was done in it: who ends has no other.
    pub fn allow_last(&self) {
        self.registration.allow_last();
    }

    /// Holds back what does not fill a segment until our side ends (TCP_CORK), so that both leave together; an error
    /// for Unix domain sockets.
    pub fn hold_until_end(&self) -> io::Result<()> {
        SockRef::from(&self.socket).set_tcp_cork(true)
    }

    /// Ends our side: the peer reads an end once it has read everything before.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }

    /// Closing will reset the connection and drop what was not sent (`reset_timedout_connection`).
    pub fn set_linger_zero(&self) -> io::Result<()> {
        SockRef::from(&self.socket).set_linger(Some(Duration::ZERO))
    }

    /// The address of our end, never a wildcard.
    pub fn local(&self) -> io::Result<SocketAddress> {
        let address = SockRef::from(&self.socket).local_addr()?;
        SocketAddress::from_kernel(&address).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Does a system call when the stream may be ready for it.
    pub(crate) fn poll_call<T>(
        &self,
        cx: &mut Context<'_>,
        wanted: Wanted,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let socket = self.socket.as_fd();
            ready!(self.registration.poll(cx, socket, wanted))?;
            match call(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.blocked(socket, wanted)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Poll::Ready(other),
            }
        }
    }
}

fn is_in_progress(connected: &io::Result<()>) -> bool {
    let code = connected.as_ref().err().and_then(io::Error::raw_os_error);
    code.is_some_and(|code| [Errno::EINPROGRESS as i32, Errno::EALREADY as i32].contains(&code))
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::bind::bind;
    use crate::bound::ListenOptions;
    use crate::endpoint::Endpoint;
    use crate::testing::run;

    /// Our end of a connection, and its events.
    struct End {
        client: Stream,
        events: Rc<Events>,
    }

    impl End {
        /// Calls until it is done.
        async fn until<T>(
            &mut self,
            mut call: impl FnMut(&mut Stream, &mut Context<'_>) -> Poll<io::Result<T>>,
        ) -> io::Result<T> {
            poll_fn(|cx| {
                while let Poll::Ready(result) = self.events.poll(cx) {
                    result.unwrap();
                }
                call(&mut self.client, cx)
            })
            .await
        }

        async fn read_some(&mut self) -> Vec<u8> {
            let mut bytes = [0; 64];
            let count = self.until(|client, cx| client.poll_read(cx, &mut bytes)).await.unwrap();
            bytes[..count].to_vec()
        }

        async fn send_file(&mut self, file: &File, offset: &mut u64, count: usize) -> usize {
            self.until(|client, cx| client.poll_send_file(cx, file, offset, count)).await.unwrap()
        }
    }

    /// Both ends of a TCP connection; the peer blocks for at most five seconds.
    async fn connected() -> (End, TcpStream) {
        let address = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
        let bound = bind(&Endpoint::stream(address), &ListenOptions::default(), 1).unwrap().remove(0);
        let SocketAddress::Inet(inet) = *bound.address() else { panic!("not TCP") };
        let peer = TcpStream::connect(inet).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let events = Events::new().unwrap();
        let listener = bound.into_tokio().unwrap();
        let (client, address) = listener.accept(&events).await.unwrap();
        assert_eq!(address, SocketAddress::Inet(peer.local_addr().unwrap()));
        assert_eq!(&client.local().unwrap(), listener.address());
        (End { client, events }, peer)
    }

    fn file_of(length: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn bytes_go_both_ways() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.write_all(b"question").unwrap();
            let mut peeked = [0; 4];
            assert_eq!(end.until(|client, cx| client.poll_peek(cx, &mut peeked)).await.unwrap(), 4);
            assert_eq!(&peeked, b"ques");
            assert_eq!(end.read_some().await, b"question");
            assert_eq!(end.until(|client, cx| client.poll_write(cx, b"answer")).await.unwrap(), 6);
            end.client.shutdown_write().unwrap();
            let mut answer = String::new();
            peer.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "answer");
            peer.write_all(b"more").unwrap();
            assert_eq!(end.read_some().await, b"more");
            drop(peer);
            assert!(end.read_some().await.is_empty());
        });
    }

    #[test]
    fn an_end_that_came_with_the_last_bytes_is_read() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.write_all(b"last").unwrap();
            drop(peer);
            assert_eq!(end.read_some().await, b"last");
            assert!(end.read_some().await.is_empty());
            assert!(end.read_some().await.is_empty());
        });
    }

    #[test]
    fn an_end_is_seen_behind_what_was_not_read() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.write_all(b"more").unwrap();
            assert_eq!(end.until(|client, cx| client.poll_peek(cx, &mut [0; 9])).await.unwrap(), 4);
            let waits = poll_fn(|cx| Poll::Ready(end.client.poll_ended(cx))).await;
            assert!(waits.is_pending(), "the peer is there");
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            end.until(Stream::poll_ended).await.unwrap();
            assert_eq!(end.read_some().await, b"more");
        });
    }

    #[test]
    fn what_may_be_there_unread_is_known() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.write_all(b"question").unwrap();
            assert_eq!(end.until(|client, cx| client.poll_read(cx, &mut [0; 8])).await.unwrap(), 8);
            assert!(end.client.may_have_more(), "the room was filled");
            peer.write_all(b"more").unwrap();
            assert_eq!(end.read_some().await, b"more");
            assert!(!end.client.may_have_more());
            peer.write_all(b"again").unwrap();
            assert_eq!(end.until(|client, cx| client.poll_peek(cx, &mut [0; 9])).await.unwrap(), 5);
            assert!(end.client.may_have_more(), "it was only looked at");
        });
    }

    #[test]
    fn what_was_reported_arrived_before_the_events_were_taken() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.write_all(b"first").unwrap();
            assert_eq!(end.read_some().await, b"first");
            assert!(!end.client.had_reported(), "no event says when it arrived");
            let before = crate::moment();
            peer.write_all(b"question").unwrap();
            end.until(|client, cx| client.poll_stirred(cx).map(Ok)).await.unwrap();
            let events = crate::events_moment();
            assert!(events > before && crate::moment() == events);
            assert_eq!(end.until(|client, cx| client.poll_peek(cx, &mut [0; 9])).await.unwrap(), 8);
            assert_eq!(end.until(|client, cx| client.poll_read(cx, &mut [0; 4])).await.unwrap(), 4);
            assert!(end.client.had_reported() && crate::moment() > events);
            assert_eq!(end.read_some().await, b"tion");
            assert!(!end.client.had_reported(), "it may have arrived in between");
        });
    }

    #[test]
    fn a_file_is_sent_while_the_peer_reads() {
        run(async {
            let (mut end, mut peer) = connected().await;
            let length = 8 << 20;
            let file = file_of(length);
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                peer.read_to_end(&mut received).map(|_| received)
            });
            let mut offset = 10;
            while offset < length as u64 {
                let left = length - usize::try_from(offset).unwrap();
                let before = offset;
                let sent = end.send_file(&file, &mut offset, left).await;
                assert!(sent > 0 && offset == before + sent as u64);
            }
            drop(end);
            let received = reader.join().unwrap().unwrap();
            assert_eq!(received.len(), length - 10);
            assert!(received.iter().zip(10..).all(|(byte, i)| usize::from(*byte) == i % 251));
        });
    }

    #[test]
    fn two_texts_leave_in_one_call() {
        run(async {
            let (mut end, mut peer) = connected().await;
            let sent =
                end.until(|client, cx| client.poll_write_both(cx, b"head ", b"content")).await.unwrap();
            assert_eq!(sent, 12);
            assert_eq!(end.until(|client, cx| client.poll_write_both(cx, b"", b"!")).await.unwrap(), 1);
            drop(end);
            let mut received = String::new();
            peer.read_to_string(&mut received).unwrap();
            assert_eq!(received, "head content!");
        });
    }

    #[test]
    fn a_truncated_file_sends_nothing() {
        run(async {
            let (mut end, _peer) = connected().await;
            let file = file_of(1000);
            let mut offset = 0;
            assert_eq!((end.send_file(&file, &mut offset, 2000).await, offset), (1000, 1000));
            file.set_len(500).unwrap();
            let sent = end.send_file(&file, &mut offset, 1000).await;
            assert_eq!((sent, offset), (0, 1000));
        });
    }

    #[test]
    fn an_announced_head_waits_for_its_body() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.set_nonblocking(true).unwrap();
            assert_eq!(end.until(|client, cx| client.poll_write_more(cx, b"head ")).await.unwrap(), 5);
            let mut buffer = [0; 64];
            assert_eq!(peer.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            end.send_file(&file_of(3), &mut 0, 3).await;
            peer.set_nonblocking(false).unwrap();
            assert_eq!(peer.read(&mut buffer).unwrap(), 8);
            assert_eq!(&buffer[..8], b"head \x00\x01\x02");
        });
    }

    #[test]
    fn connects_to_tcp_and_unix() {
        run(async {
            let events = Events::new().unwrap();
            let directory = tempfile::tempdir().unwrap();
            let path = SocketAddress::Unix(directory.path().join("socket"));
            let name = SocketAddress::Abstract(format!("net-{}", std::process::id()).into_bytes());
            let tcp = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
            assert!(Stream::connect(&tcp).is_err(), "the thread has no events");
            events.make_current();
            for address in [tcp, path, name] {
                let bound = bind(&Endpoint::stream(address), &ListenOptions::default(), 1).unwrap().remove(0);
                let address = bound.address().clone();
                let listener = bound.into_tokio().unwrap();
                let mut end = End { client: Stream::connect(&address).unwrap(), events: Rc::clone(&events) };
                end.until(|stream, cx| stream.poll_connected(cx)).await.unwrap();
                assert!(poll_fn(|cx| Poll::Ready(end.client.poll_stirred(cx))).await.is_pending());
                let (client, _) = listener.accept(&events).await.unwrap();
                let mut far = End { client, events: Rc::clone(&events) };
                assert_eq!(far.until(|stream, cx| stream.poll_write(cx, b"hello")).await.unwrap(), 5);
                end.until(|stream, cx| stream.poll_stirred(cx).map(Ok)).await.unwrap();
                assert_eq!(end.read_some().await, b"hello");
                assert!(poll_fn(|cx| Poll::Ready(end.client.poll_stirred(cx))).await.is_pending());
                drop(far);
                end.until(|stream, cx| stream.poll_stirred(cx).map(Ok)).await.unwrap();
            }
        });
    }

    #[test]
    fn datagrams_have_borders_and_a_port_without_receiver_is_told() {
        run(async {
            let events = Events::new().unwrap();
            events.make_current();
            let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = SocketAddress::Inet(receiver.local_addr().unwrap());
            let options = ConnectOptions { transport: SocketType::Datagram, ..ConnectOptions::default() };
            let client = Stream::connect_with(&address, &options).unwrap();
            let mut end = End { client, events: Rc::clone(&events) };
            end.until(|stream, cx| stream.poll_connected(cx)).await.unwrap();
            for payload in [&b"first"[..], b"", b"last"] {
                let sent = end.until(|stream, cx| stream.poll_write(cx, payload)).await.unwrap();
                assert_eq!(sent, payload.len());
                let (count, from) = receiver.recv_from(&mut [0; 16]).unwrap();
                assert_eq!(count, payload.len());
                receiver.send_to(payload, from).unwrap();
            }
            let mut room = [0; 16];
            for expected in [5, 0, 4] {
                let count = end.until(|stream, cx| stream.poll_receive(cx, &mut room)).await.unwrap();
                assert_eq!(count, expected);
            }
            drop(receiver);
            end.until(|stream, cx| stream.poll_write(cx, b"lost")).await.unwrap();
            let error = end.until(|stream, cx| stream.poll_receive(cx, &mut room)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        });
    }

    #[test]
    fn connections_come_from_the_address_that_the_options_name() {
        run(async {
            let events = Events::new().unwrap();
            events.make_current();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = SocketAddress::Inet(listener.local_addr().unwrap());
            let options = ConnectOptions {
                local: Some("127.0.0.2:0".parse().unwrap()),
                keepalive: true,
                receive_buffer: Some(20_000),
                send_buffer: Some(30_000),
                ..ConnectOptions::default()
            };
            let client = Stream::connect_with(&address, &options).unwrap();
            let mut end = End { client, events: Rc::clone(&events) };
            end.until(|stream, cx| stream.poll_connected(cx)).await.unwrap();
            assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.0.0.2");
            let socket = SockRef::from(&end.client.socket);
            assert!(socket.keepalive().unwrap());
            // Linux doubles what is asked for.
            let sizes = (socket.recv_buffer_size().unwrap(), socket.send_buffer_size().unwrap());
            assert_eq!(sizes, (40_000, 60_000));
            let foreign = ConnectOptions { local: Some("192.0.2.1:0".parse().unwrap()), ..options };
            assert!(Stream::connect_with(&address, &foreign).is_err());
        });
    }

    #[test]
    fn nobody_listens() {
        run(async {
            let events = Events::new().unwrap();
            events.make_current();
            let any = Endpoint::stream(SocketAddress::Inet("127.0.0.1:0".parse().unwrap()));
            let bound = bind(&any, &ListenOptions::default(), 1).unwrap().remove(0);
            let address = bound.address().clone();
            drop(bound);
            let refused = match Stream::connect(&address) {
                Ok(client) => {
                    let mut end = End { client, events: Rc::clone(&events) };
                    end.until(|stream, cx| stream.poll_connected(cx)).await
                }
                Err(error) => Err(error),
            };
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            let missing = Stream::connect(&SocketAddress::Unix("/nowhere/socket".into()));
            assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn a_full_stream_waits_until_it_is_read() {
        run(async {
            let (mut end, mut peer) = connected().await;
            let block = vec![1; 1 << 20];
            let mut written = end.until(|client, cx| client.poll_write(cx, &block)).await.unwrap();
            while let Poll::Ready(count) = poll_fn(|cx| Poll::Ready(end.client.poll_write(cx, &block))).await
            {
                written += count.unwrap();
            }
            let reader = std::thread::spawn(move || peer.read_exact(&mut vec![0; written]).map(|()| peer));
            end.until(|client, cx| client.poll_write(cx, &block)).await.unwrap();
            reader.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_is_held_back_leaves_with_the_end() {
        run(async {
            let (mut end, mut peer) = connected().await;
            peer.set_nonblocking(true).unwrap();
            end.client.hold_until_end().unwrap();
            end.send_file(&file_of(3), &mut 0, 3).await;
            assert_eq!(peer.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            end.client.shutdown_write().unwrap();
            peer.set_nonblocking(false).unwrap();
            let mut received = Vec::new();
            peer.read_to_end(&mut received).unwrap();
            assert_eq!(received, [0, 1, 2]);
        });
    }

    #[test]
    fn clients_do_not_gather_and_no_lingering_resets() {
        run(async {
            let (end, mut peer) = connected().await;
            assert!(SockRef::from(&end.client).tcp_nodelay().unwrap());
            end.client.set_linger_zero().unwrap();
            drop(end);
            assert_eq!(peer.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn a_vanished_peer_is_an_error() {
        run(async {
            let (mut end, peer) = connected().await;
            SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
            drop(peer);
            let gone = end.until(|client, cx| client.poll_write(cx, b"x")).await;
            assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            let gone = end.until(|client, cx| client.poll_write_more(cx, b"x")).await;
            assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_unix_client_has_no_name() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("socket");
            let address = SocketAddress::Unix(path.clone());
            let bound =
                bind(&Endpoint::stream(address.clone()), &ListenOptions::default(), 1).unwrap().remove(0);
            let events = Events::new().unwrap();
            let listener = bound.into_tokio().unwrap();
            let mut peer = UnixStream::connect(&path).unwrap();
            let (client, name) = listener.accept(&events).await.unwrap();
            assert_eq!(name.to_string(), "unix:");
            assert_eq!(client.local().unwrap(), address);
            End { client, events }.send_file(&file_of(3), &mut 0, 3).await;
            let mut received = [9; 3];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(received, [0, 1, 2]);
        });
    }

    #[test]
    fn only_the_first_write_may_be_delayed() {
        run(async {
            let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let events = Events::new().unwrap();
            events.make_current();
            let address = SocketAddress::Inet(server.local_addr().unwrap());
            let client = Stream::connect(&address).unwrap();
            let mut end = End { client, events };
            end.until(|client, cx| client.poll_connected(cx)).await.unwrap();
            let (mut peer, _) = server.accept().unwrap();
            for is_set in [false, true, true] {
                assert_eq!(end.until(|client, cx| client.poll_write(cx, b"a")).await.unwrap(), 1);
                peer.read_exact(&mut [0]).unwrap();
                assert_eq!(SockRef::from(&end.client.socket).tcp_nodelay().unwrap(), is_set);
            }
        });
    }

    #[test]
    fn a_named_unix_client_tells_its_name() {
        run(async {
            let directory = tempfile::tempdir().unwrap();
            let address = SocketAddress::Unix(directory.path().join("socket"));
            let bound =
                bind(&Endpoint::stream(address.clone()), &ListenOptions::default(), 1).unwrap().remove(0);
            let listener = bound.into_tokio().unwrap();
            let theirs = SocketAddress::Unix(directory.path().join("client"));
            let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
            socket.bind(&theirs.to_kernel().unwrap()).unwrap();
            socket.connect(&address.to_kernel().unwrap()).unwrap();
            let events = Events::new().unwrap();
            assert_eq!(listener.accept(&events).await.unwrap().1, theirs);
        });
    }
}
