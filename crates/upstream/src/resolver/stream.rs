//! Questions whose answers do not fit into a datagram (RFC 7766).

use dns::{Query, Unusable};
use net::{SocketAddress, Stream};
use std::io;
use std::task::{Context, Poll, ready};

/// How much is read at once, in bytes.
const READ: usize = 4096;

/// A connection to a name server. What was read and not used yet is less than one message, which has at most 64 KiB.
#[derive(Debug)]
pub(super) struct NameStream {
    stream: Stream,
    stands: bool,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl NameStream {
    /// Begins to connect.
    pub(super) fn connect(address: &SocketAddress) -> io::Result<NameStream> {
        let stream = Stream::connect(address)?;
        Ok(NameStream { stream, stands: false, output: Vec::new(), input: Vec::new() })
    }

    /// Sends a message as soon as that is possible.
    pub(super) fn send(&mut self, message: &[u8]) {
        if let Ok(length) = u16::try_from(message.len()) {
            self.output.extend_from_slice(&length.to_be_bytes());
            self.output.extend_from_slice(message);
        }
    }

    /// Sends what waits, and reads what came. Ready when the connection cannot be used any more; with an error, if it
    /// broke the rules.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, query: &mut Query) -> Poll<Result<(), Unusable>> {
        match self.poll_io(cx, query) {
            Poll::Ready(Ok(unusable)) => Poll::Ready(unusable.map_or(Ok(()), Err)),
            Poll::Ready(Err(_)) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_io(&mut self, cx: &mut Context<'_>, query: &mut Query) -> Poll<io::Result<Option<Unusable>>> {
        if !self.stands {
            ready!(self.stream.poll_connected(cx))?;
            self.stands = true;
        }
        while !self.output.is_empty() {
            let Poll::Ready(count) = self.stream.poll_write(cx, &self.output)? else { break };
            self.output.drain(..count);
        }
        let mut bytes = [0; READ];
        loop {
            let count = ready!(self.stream.poll_read(cx, &mut bytes))?;
            if count == 0 {
                return Poll::Ready(Ok(None));
            }
            self.input.extend_from_slice(&bytes[..count]);
            while let Some(message) = self.message() {
                if let Err(unusable) = query.receive(&message, true) {
                    return Poll::Ready(Ok(Some(unusable)));
                }
            }
            if query.outcome().is_some() {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Takes the next message out of the input.
    fn message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.input.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let message = rest.get(..length)?.to_vec();
        self.input.drain(..2 + length);
        Some(message)
    }
}
