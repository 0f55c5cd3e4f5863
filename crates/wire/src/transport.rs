//! What bytes travel over: a stream in clear, or one that is encrypted.
//!
//! An encrypted stream borrows its buffers from the thread while there is something in them.

use crate::buffer::Buffer;
use net::{Pipe, Stream};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, Waker, ready};
use tls::{ClientHello, Failure, Hello, Negotiated, Processed, Rejection, ServerPolicy, Session};

/// How much is read from the network at once: a record fits.
const READ_SIZE: usize = 17 * 1024;

/// How much content is encrypted at once.
const WRITE_SIZE: usize = 64 * 1024;

/// How much of a file is read and encrypted at once.
const FILE_SIZE: usize = 32 * 1024;

/// Records that a client's own messages cause are sent before they grow past this.
const ANSWERS_LIMIT: usize = 16 * 1024;

/// The first byte of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// What bytes travel over.
pub enum Transport {
    /// In clear.
    Plain(Stream),
    /// Encrypted.
    Tls(Box<Encrypted>),
}

/// An encrypted stream.
pub struct Encrypted {
    stream: Stream,
    stage: Stage,
    /// What arrived and was not decrypted yet: less than a record.
    incoming: Buffer,
    /// Records to send.
    output: Buffer,
    /// Content to be read.
    content: Buffer,
    /// How many bytes of content are in the output and not yet reported to their writer.
    accepted: usize,
    /// Whether the peer sends no more.
    ended: bool,
    /// Whether the peer said so (`close_notify`).
    is_end_announced: bool,
    /// Whether our own `close_notify` was encrypted.
    has_said_goodbye: bool,
    /// Whether our side has ended: nothing more can be sent.
    is_shut: bool,
}

enum Stage {
    /// Until the client's first message is whole.
    Hello(Option<Box<Hello>>),
    Session(Box<Session>),
    /// The client speaks in clear.
    Clear,
}

/// How a client began.
pub enum Opening {
    /// With a handshake.
    Hello(ClientHello),
    /// With something that is no handshake.
    Clear,
}

impl Transport {
    /// An encrypted stream of which nothing was read.
    pub fn encrypted(stream: Stream) -> Transport {
        Transport::Tls(Box::new(Encrypted::new(stream, Stage::Hello(None))))
    }

    /// A connection that we open, encrypted by a client's session. The handshake begins once it stands.
    pub fn client(stream: Stream, session: Session) -> Transport {
        let stage = Stage::Session(Box::new(session));
        Transport::Tls(Box::new(Encrypted::new(stream, stage)))
    }

    /// Ready when a connection that we open stands, before any handshake.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream_mut().poll_connected(cx)
    }

    /// Ready when the handshake of a connection that stands is over. A stream in clear has none.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => tls.poll_handshake(cx).map_ok(drop),
        }
    }

    /// Pending while nothing arrived that was not read yet. The task is woken when that changes. Messages of TLS that
    /// concern the connection alone, such as tickets, do not count. A part of a record counts: nothing is known of it.
    #[inline]
    pub fn poll_stirred(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Transport::Plain(stream) => stream.poll_stirred(cx),
            Transport::Tls(tls) => {
                if tls.is_drained() {
                    ready!(tls.stream.poll_stirred(cx));
                }
                let polled = tls.poll_read(cx, &mut [0]).map(drop);
                if tls.incoming.is_empty() { polled } else { Poll::Ready(()) }
            }
        }
    }

    /// Whether nothing arrived that was not read yet, as [`poll_stirred`](Self::poll_stirred) says it, for this moment.
    pub fn is_silent(&mut self) -> bool {
        let (is_drained, stream) = match self {
            Transport::Plain(stream) => (true, stream),
            Transport::Tls(tls) => (tls.is_drained(), &mut tls.stream),
        };
        let is_known = is_drained && !stream.may_have_more();
        is_known || self.poll_stirred(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Whether what the client sent may be a replay: its handshake is not over ([`Session::is_early`]).
    pub fn is_early(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => matches!(&tls.stage, Stage::Session(session) if session.is_early()),
        }
    }

    /// Whether a part of the last write may have left, although its writer still waits.
    pub fn is_sending(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.accepted > 0)
    }

    /// Reads what is there into the buffer and returns how much; 0 means that the peer will send no more.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_read(cx, buffer),
            Transport::Tls(tls) => tls.poll_read(cx, buffer),
        }
    }

    /// Receives one datagram into the buffer and returns its length, which may be 0. Datagrams are not encrypted.
    ///
    /// # Errors
    /// See [`Stream::poll_receive`].
    pub fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream_mut().poll_receive(cx, buffer)
    }

    /// Reads after what the buffer has, with room for at least so many bytes, and returns how many came; 0 means that the
    /// peer will send no more. A buffer that has nothing borrows no memory while nothing is there.
    pub fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        least: usize,
    ) -> Poll<io::Result<usize>> {
        let polled = match self {
            Transport::Plain(stream) => return buffer.poll_read(stream, cx, least),
            Transport::Tls(tls) => tls.poll_read(cx, buffer.room(least)),
        };
        let count = ready!(buffer.release_if_pending(polled))?;
        buffer.grew(count);
        Poll::Ready(Ok(count))
    }

    /// Looks whether something arrived, without taking it; 0 at the end.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            // It was received from the network, but not read by the caller yet.
            Transport::Tls(tls) if !tls.content.is_empty() => Poll::Ready(Ok(tls.content.bytes().len())),
            other => other.stream_mut().poll_peek(cx, buffer),
        }
    }

    /// Writes in clear, also where a handshake follows.
    pub fn poll_write_clear(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream_mut().poll_write(cx, bytes)
    }

    /// Ready when the client sends no more or is gone, whatever of what it sent was not read yet.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream_mut().poll_ended(cx)
    }

    /// Whether the client may have sent more than was read.
    pub fn may_have_more(&self) -> bool {
        match self {
            Transport::Plain(stream) => stream.may_have_more(),
            Transport::Tls(tls) => tls.stream.may_have_more(),
        }
    }

    /// Whether the first byte of the last read is known to have arrived before this thread last took events
    /// ([`net::events_moment`]). It is unknown of an encrypted stream.
    pub fn had_reported(&self) -> bool {
        matches!(self, Transport::Plain(stream) if stream.had_reported())
    }

    /// Whether an encrypted stream ended and its peer did not say so (`close_notify`): an attacker may have cut it off.
    pub fn ended_unannounced(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.ended && !tls.is_end_announced)
    }

    /// Writes a part of the bytes and returns how many. A caller that has to wait comes again with the same bytes
    /// in front.
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_write(cx, bytes),
            Transport::Tls(tls) => tls.poll_write(cx, bytes),
        }
    }

    /// As [`poll_write`](Self::poll_write), and announces more.
    pub fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_write_more(cx, bytes),
            Transport::Tls(tls) => tls.poll_write(cx, bytes),
        }
    }

    /// Moves what is there into an empty pipe, see [`Stream::poll_fill`]. It must be in clear ([`Transport::is_plain`]).
    ///
    /// # Errors
    /// `InvalidInput` if the bytes cannot be moved so.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_fill(cx, pipe),
            Transport::Tls(_) => Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
        }
    }

    /// Moves bytes out of a pipe that has some, see [`Stream::poll_drain`]. It must be in clear.
    ///
    /// # Errors
    /// `InvalidInput` if the bytes cannot be moved so.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_drain(cx, pipe),
            Transport::Tls(_) => Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
        }
    }

    /// Whether bytes are sent as they are, from wherever they are in memory.
    pub fn is_plain(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Writes a part of two texts, the second behind the first, and returns how many bytes.
    pub fn poll_write_both(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_write_both(cx, first, second),
            Transport::Tls(tls) => tls.poll_write(cx, if first.is_empty() { second } else { first }),
        }
    }

    /// Sends up to `count` bytes of a file from `offset` on, which moves forward; 0 at the file's end. Where the
    /// stream is encrypted it is read through memory.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(stream) => stream.poll_send_file(cx, file, offset, count),
            Transport::Tls(tls) => tls.poll_send_file(cx, file, offset, count),
        }
    }

    /// Tells the peer of an encrypted stream that all was sent, so that it knows of no attacker who cut it off.
    /// One that takes nothing is not waited for.
    pub fn say_goodbye(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.say_goodbye();
        }
    }

    /// Holds back what does not fill a segment until our side ends.
    pub fn hold_until_end(&mut self) -> io::Result<()> {
        self.stream_mut().hold_until_end()
    }

    /// As [`say_goodbye`](Self::say_goodbye); ready when the network has taken it, with all that was written before.
    pub fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => tls.poll_goodbye(cx),
        }
    }

    /// Ends our side once the network has taken all that was written. The peer may go on sending.
    pub fn poll_shutdown_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_goodbye(cx))?;
        Poll::Ready(self.shutdown_write())
    }

    /// Ends our side at once. What was written to an encrypted stream and not sent is lost:
    /// call [`poll_goodbye`](Self::poll_goodbye) before.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        if let Transport::Tls(tls) = self {
            tls.is_shut = true;
            tls.output.consume(usize::MAX);
        }
        self.stream_mut().shutdown_write()
    }

    /// Closing will reset the connection and drop what was not sent.
    pub fn set_linger_zero(&self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.set_linger_zero(),
            Transport::Tls(tls) => tls.stream.set_linger_zero(),
        }
    }

    fn stream_mut(&mut self) -> &mut Stream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &mut tls.stream,
        }
    }
}

impl Encrypted {
    fn new(stream: Stream, stage: Stage) -> Encrypted {
        Encrypted {
            stream,
            stage,
            incoming: Buffer::default(),
            output: Buffer::default(),
            content: Buffer::default(),
            accepted: 0,
            ended: false,
            is_end_announced: false,
            has_said_goodbye: false,
            is_shut: false,
        }
    }

    /// Whether the client's first message is still awaited.
    pub fn awaits_hello(&self) -> bool {
        matches!(self.stage, Stage::Hello(_))
    }

    /// Whether nothing arrived yet.
    pub fn is_untouched(&self) -> bool {
        matches!(self.stage, Stage::Hello(None))
    }

    /// Whether all that was read from the network has been handed on, and more may come.
    fn is_drained(&self) -> bool {
        self.incoming.is_empty() && self.content.is_empty() && !self.ended
    }

    /// Reads until it is known how the client begins.
    pub fn poll_opening(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Opening>> {
        // What stood after a header of a proxy is looked at first.
        let mut is_new = !self.incoming.is_empty() && self.is_untouched();
        loop {
            if !std::mem::take(&mut is_new) {
                ready!(self.poll_receive(cx))?;
            }
            let Some(&first) = self.incoming.bytes().first() else {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            };
            let Stage::Hello(hello) = &mut self.stage else {
                return Poll::Ready(Ok(Opening::Hello(ClientHello::default())));
            };
            // The highest bit begins a handshake of SSL 2, which is answered as one that fails.
            if hello.is_none() && first != HANDSHAKE && first & 0x80 == 0 {
                return Poll::Ready(Ok(Opening::Clear));
            }
            let hello = hello.get_or_insert_with(Box::default);
            let (incoming, mut result) = (self.incoming.bytes(), Ok(None));
            self.output.append(|output| result = hello.read(incoming, output));
            match result {
                Ok(Some(hello)) => return Poll::Ready(Ok(Opening::Hello(hello))),
                Ok(None) if self.ended => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(None) => {}
                Err(failure) => return Poll::Ready(Err(self.give_up(failure))),
            }
        }
    }

    /// Goes on in clear; gives what was read.
    pub fn clear(&mut self) -> Buffer {
        self.stage = Stage::Clear;
        std::mem::take(&mut self.incoming)
    }

    /// Goes on with a handshake, of which this arrived.
    pub fn begin(&mut self, arrived: Buffer) {
        (self.stage, self.incoming) = (Stage::Hello(None), arrived);
    }

    /// Goes on under this policy.
    pub fn accept(&mut self, policy: &ServerPolicy) -> io::Result<()> {
        self.stage = Stage::Session(Box::new(Session::new(policy).map_err(io::Error::other)?));
        self.decrypt().map(|_| ())
    }

    /// Turns the client away.
    pub fn reject(&mut self, rejection: Rejection) {
        self.output.append(|output| output.extend_from_slice(&rejection.alert()));
    }

    /// Goes on with the handshake until it is over.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Negotiated>> {
        loop {
            let established = self.decrypt()?.established;
            ready!(self.poll_flush(cx))?;
            if let Stage::Session(session) = &self.stage
                && established
            {
                return Poll::Ready(Ok(session.negotiated()));
            }
            if self.ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            ready!(self.poll_receive(cx))?;
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Stage::Clear = self.stage {
            return self.stream.poll_read(cx, buffer);
        }
        while self.content.is_empty() && !self.ended {
            if self.output.bytes().len() > ANSWERS_LIMIT {
                ready!(self.poll_flush(cx))?;
            } else {
                // What is to be sent may wait for the client's next bytes.
                let _: Poll<()> = self.poll_flush(cx)?;
            }
            ready!(self.poll_receive(cx))?;
            self.decrypt()?;
        }
        Poll::Ready(Ok(self.content.take(buffer)))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Stage::Clear = self.stage {
            return self.stream.poll_write(cx, bytes);
        }
        ready!(self.poll_flush(cx))?;
        if self.accepted == 0 {
            let plain = &bytes[..bytes.len().min(WRITE_SIZE)];
            self.drive(|session, incoming, buffers| session.encrypt(incoming, plain, buffers))?;
            self.accepted = plain.len();
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(std::mem::take(&mut self.accepted)))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let mut plain = Buffer::default();
        if self.accepted == 0 {
            let room = &mut plain.room(FILE_SIZE)[..FILE_SIZE.min(count)];
            let count = file.read_at(room, *offset)?;
            plain.grew(count);
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
        }
        let sent = ready!(self.poll_write(cx, plain.bytes()))?;
        *offset += sent as u64;
        Poll::Ready(Ok(sent))
    }

    /// Reads from the network once.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.stream.poll_read(cx, self.incoming.room(READ_SIZE));
        let count = ready!(self.incoming.release_if_pending(polled))?;
        self.incoming.grew(count);
        self.ended |= count == 0;
        Poll::Ready(Ok(()))
    }

    /// Decrypts what arrived.
    fn decrypt(&mut self) -> io::Result<Processed> {
        self.drive(|session, incoming, (output, content)| session.process(incoming, output, content))
    }

    fn drive(
        &mut self,
        act: impl FnOnce(&mut Session, &mut [u8], (&mut Vec<u8>, &mut Vec<u8>)) -> Result<Processed, Failure>,
    ) -> io::Result<Processed> {
        let Stage::Session(session) = &mut self.stage else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (incoming, output, content) = (&mut self.incoming, &mut self.output, &mut self.content);
        let mut result = Ok(Processed::default());
        output.append(|output| {
            content.append(|content| result = act(session, incoming.bytes_mut(), (output, content)));
        });
        if self.is_shut {
            // An answer to a message of the connection: an error would end what is still read.
            self.output.consume(usize::MAX);
        }
        self.content.release();
        self.output.release();
        match result {
            Ok(processed) => {
                self.incoming.consume(processed.consumed);
                self.incoming.release();
                self.ended |= processed.ended;
                self.is_end_announced |= processed.ended;
                Ok(processed)
            }
            Err(failure) => Err(self.give_up(failure)),
        }
    }

    /// Sends the alert about a failure, if the client takes it at once.
    fn give_up(&mut self, failure: Failure) -> io::Error {
        self.flush_once();
        let kind = if failure.is_ours { io::ErrorKind::Other } else { io::ErrorKind::InvalidData };
        io::Error::new(kind, failure)
    }

    fn say_goodbye(&mut self) {
        self.stream.allow_last();
        let _ = self.poll_goodbye(&mut Context::from_waker(Waker::noop()));
    }

    fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_said_goodbye, true) {
            // A session that has failed or not begun has nothing to say.
            drop(self.drive(|session, incoming, (output, content)| session.close(incoming, output, content)));
        }
        self.poll_flush(cx)
    }

    /// Sends what the client takes at once; the rest is dropped.
    fn flush_once(&mut self) {
        self.stream.allow_last();
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()));
    }

    /// Sends all records.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let count = ready!(self.stream.poll_write(cx, self.output.bytes()))?;
            self.output.consume(count);
        }
        self.output.release();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Opening, Transport};
    use crate::testing::runtime;
    use net::{Endpoint, Events, ListenOptions, SocketAddress, bind};
    use std::future::poll_fn;
    use std::net::TcpStream;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};
    use tls::{Choices, ClientPolicy, ClientSettings, Pair, SelfSigned, ServerPolicy, Session, Settings};

    fn policies() -> (ServerPolicy, ClientPolicy) {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let pairs = [Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").unwrap()];
        let settings = Settings { pairs: &pairs, choices: &Choices::default(), clients: None };
        let client = ClientSettings {
            pair: None,
            tls12: true,
            tls13: true,
            ciphers: "DEFAULT",
            suites: "",
            curves: "auto",
            tells_name: true,
            trust: None,
            protocols: &[],
            resumes: false,
        };
        (ServerPolicy::new(&settings).unwrap(), ClientPolicy::new(&client).unwrap())
    }

    #[test]
    fn both_ends_of_a_connection_over_tls() {
        runtime().block_on(async {
            let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
            let socket = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap().remove(0);
            let address = socket.address().clone();
            let (listener, events) = (socket.into_tokio().unwrap(), Events::new().unwrap());
            events.make_current();
            let (server, client) = policies();
            let session = Session::connect(&client, "a.example", "peer").unwrap();
            let mut near = Transport::client(net::Stream::connect(&address).unwrap(), session);
            let (accepted, _) = listener.accept(&events).await.unwrap();
            let mut far = Transport::encrypted(accepted);
            let Transport::Tls(tls) = &mut far else { panic!("in clear") };
            let (mut has_policy, mut near_is_done, mut far_is_done) = (false, false, false);
            poll_fn(|cx| {
                let _: Poll<()> = events.poll(cx).map(Result::unwrap);
                if !near_is_done && near.poll_connected(cx).map(Result::unwrap).is_ready() {
                    near_is_done = near.poll_handshake(cx).map(Result::unwrap).is_ready();
                }
                if !has_policy && let Poll::Ready(opening) = tls.poll_opening(cx) {
                    let Opening::Hello(hello) = opening.unwrap() else { panic!("in clear") };
                    assert_eq!(hello.server_name.as_deref(), Some("a.example"));
                    tls.accept(&server).unwrap();
                    has_policy = true;
                }
                if has_policy && !far_is_done {
                    far_is_done = tls.poll_handshake(cx).map(Result::unwrap).is_ready();
                }
                cx.waker().wake_by_ref();
                if near_is_done && far_is_done { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            // The tickets that follow the handshake are no content.
            assert!(poll_fn(|cx| Poll::Ready(near.poll_stirred(cx))).await.is_pending() && near.is_silent());
            // What a part of a record will be is not known.
            let part = |near: &mut Transport, change: fn(&mut crate::buffer::Buffer)| {
                let Transport::Tls(tls) = near else { panic!("in clear") };
                change(&mut tls.incoming);
            };
            part(&mut near, |incoming| incoming.append(|bytes| bytes.extend_from_slice(&[23, 3, 3])));
            assert!(poll_fn(|cx| Poll::Ready(near.poll_stirred(cx))).await.is_ready() && !near.is_silent());
            part(&mut near, |incoming| incoming.consume(usize::MAX));
            assert!(near.is_silent());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(!near.is_sending());
            while near.poll_write(&mut cx, &[7; 30_000]).map(Result::unwrap).is_ready() {}
            assert!(near.is_sending(), "a part of what is not written yet may have left");
            let mut bytes = [0; 10];
            let count = poll_fn(|cx| {
                let _: Poll<()> = events.poll(cx).map(Result::unwrap);
                cx.waker().wake_by_ref();
                far.poll_read(cx, &mut bytes)
            });
            assert_eq!(count.await.unwrap(), 10);
            assert_eq!(bytes, [7; 10]);
        });
    }

    /// Two ends of a connection whose handshake is over: the client's, and the server's.
    async fn established(events: &Rc<Events>) -> (Transport, Transport) {
        let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
        let socket = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap().remove(0);
        let address = socket.address().clone();
        let listener = socket.into_tokio().unwrap();
        let (server, client) = policies();
        let session = Session::connect(&client, "a.example", "peer").unwrap();
        let mut near = Transport::client(net::Stream::connect(&address).unwrap(), session);
        let (accepted, _) = listener.accept(events).await.unwrap();
        let mut far = Transport::encrypted(accepted);
        let mut has_policy = false;
        poll_fn(|cx| {
            let _: Poll<()> = events.poll(cx).map(Result::unwrap);
            cx.waker().wake_by_ref();
            let is_near_done = near.poll_connected(cx).map(Result::unwrap).is_ready()
                && near.poll_handshake(cx).map(Result::unwrap).is_ready();
            let Transport::Tls(tls) = &mut far else { panic!("in clear") };
            if !has_policy && tls.poll_opening(cx).map(Result::unwrap).is_ready() {
                tls.accept(&server).unwrap();
                has_policy = true;
            }
            let is_far_done = has_policy && tls.poll_handshake(cx).map(Result::unwrap).is_ready();
            if is_near_done && is_far_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        (near, far)
    }

    /// The network takes nothing more at the moment of the end.
    #[test]
    fn the_end_of_an_encrypted_side_follows_all_that_was_written() {
        runtime().block_on(async {
            let events = Events::new().unwrap();
            events.make_current();
            let (mut near, mut far) = established(&events).await;
            let (mut written, mut got, mut room) = (0, 0, [0; 30_000]);
            poll_fn(|cx| {
                let _: Poll<()> = events.poll(cx).map(Result::unwrap);
                while let Poll::Ready(count) = near.poll_write(cx, &[7; 30_000]) {
                    written += count.unwrap();
                }
                Poll::Ready(())
            })
            .await;
            // These bytes are in records that wait for room.
            written += 30_000;
            let (mut is_shut, mut is_answered, mut answer) = (false, false, 0);
            poll_fn(|cx| {
                let _: Poll<()> = events.poll(cx).map(Result::unwrap);
                cx.waker().wake_by_ref();
                if !is_shut {
                    is_shut = near.poll_shutdown_write(cx).map(Result::unwrap).is_ready();
                    assert!(!is_shut || got > 0, "the end does not wait");
                }
                while let Poll::Ready(count) = far.poll_read(cx, &mut room) {
                    let count = count.unwrap();
                    got += count;
                    if count == 0 {
                        is_answered = true;
                        break;
                    }
                }
                if is_answered { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert_eq!((got, far.ended_unannounced()), (written, false));
            // The other direction goes on.
            poll_fn(|cx| {
                let _: Poll<()> = events.poll(cx).map(Result::unwrap);
                cx.waker().wake_by_ref();
                if answer == 0 {
                    let Poll::Ready(count) = far.poll_write(cx, b"answer").map(Result::unwrap) else {
                        return Poll::Pending;
                    };
                    answer = count;
                }
                near.poll_read(cx, &mut room).map(|count| assert_eq!(count.unwrap(), 6))
            })
            .await;
        });
    }

    #[test]
    fn what_nobody_has_read_is_there_although_the_client_is_gone() {
        runtime().block_on(async {
            let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
            let socket = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap().remove(0);
            let &SocketAddress::Inet(address) = socket.address() else { panic!("not TCP") };
            let (listener, events) = (socket.into_tokio().unwrap(), Events::new().unwrap());
            drop(TcpStream::connect(address).unwrap());
            let (client, _) = listener.accept(&events).await.unwrap();
            let mut transport = Transport::encrypted(client);
            for (content, there) in [(&b"rest"[..], 4), (b"", 0)] {
                let Transport::Tls(tls) = &mut transport else { panic!("in clear") };
                tls.content.consume(usize::MAX);
                tls.content.append(|bytes| bytes.extend_from_slice(content));
                assert_eq!(poll_fn(|cx| transport.poll_peek(cx, &mut [0])).await.unwrap(), there);
            }
        });
    }
}
