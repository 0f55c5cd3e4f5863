//! One client: its connection and the requests that are on it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SendFlags;

use super::answer::Reader;
use super::tls::Session;

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Closed,
    Connecting,
    Handshaking,
    /// The WebSocket is not open yet.
    Upgrading,
    Open,
}

/// A request and its times, in nanoseconds since the beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// When it should have been sent.
    pub(super) due_ns: u64,
    /// When it was taken up.
    pub(super) begun_ns: u64,
    /// When its connection was open.
    pub(super) open_ns: u64,
    /// When its last byte was written, 0 before.
    pub(super) written_ns: u64,
}

/// A client of a thread.
pub(super) struct Client {
    pub(super) stage: Stage,
    pub(super) socket: Option<OwnedFd>,
    pub(super) session: Option<Box<Session>>,
    pub(super) reader: Reader,
    /// Requests that are not answered, the oldest first.
    pub(super) flights: VecDeque<Flight>,
    /// Bytes of them that are not written.
    pub(super) unsent: usize,
    /// The next of those within the thread's copies of the request.
    pub(super) offset: usize,
    /// Whether the session has to be flushed.
    pub(super) is_flushed: bool,
    /// When the connection was begun.
    pub(super) opening_ns: u64,
    /// When the answer that is being read began.
    pub(super) first_ns: u64,
    /// Answers on this connection.
    pub(super) answers: u64,
}

impl Client {
    /// A client that is not connected, and begins with the request at this place within the thread's copies.
    pub(super) fn new(offset: usize) -> Client {
        Client {
            stage: Stage::Closed,
            socket: None,
            session: None,
            reader: Reader::default(),
            flights: VecDeque::new(),
            unsent: 0,
            offset,
            is_flushed: true,
            opening_ns: 0,
            first_ns: 0,
            answers: 0,
        }
    }

    /// Takes bytes from the wire.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        rustix::io::read(socket, buffer)
    }

    /// Writes what is to be written as far as that goes; `batch` is the request, some times over. Says whether all
    /// of it is written, and how many bytes of requests were.
    pub(super) fn send(&mut self, batch: &[u8]) -> io::Result<(bool, u64)> {
        let before = self.unsent;
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        while self.unsent > 0 && self.stage == Stage::Open {
            let length = self.unsent.min(batch.len() - self.offset);
            let piece = &batch[self.offset..self.offset + length];
            let written = match &mut self.session {
                Some(session) => {
                    session.queue(piece)?;
                    self.is_flushed = false;
                    length
                }
                None => match rustix::net::send(socket, piece, SendFlags::NOSIGNAL) {
                    Ok(written) => written,
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                },
            };
            self.unsent -= written;
            self.offset = (self.offset + written) % batch.len();
        }
        if let (Some(session), false) = (&mut self.session, self.is_flushed) {
            self.is_flushed = session.flush(socket)?;
        }
        let sent = (before - self.unsent) as u64;
        let is_all = self.unsent == 0 || self.stage != Stage::Open;
        Ok((is_all && self.is_flushed, sent))
    }

    /// Asks for a WebSocket. The request is short, so a new connection takes all of it.
    pub(super) fn upgrade(&mut self, request: &[u8]) -> io::Result<()> {
        self.stage = Stage::Upgrading;
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        if let Some(session) = &mut self.session {
            session.queue(request)?;
            self.is_flushed = session.flush(socket)?;
        } else if rustix::net::send(socket, request, SendFlags::NOSIGNAL)? < request.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    /// Whether something is to be written.
    pub(super) fn has_output(&self) -> bool {
        self.unsent > 0 || !self.is_flushed
    }

    /// Ends the connection. For requests that are not answered others would have to be sent, from their beginning. Gives
    /// the bytes that had arrived of an answer that is lost so.
    pub(super) fn close(&mut self, request_length: usize) -> u64 {
        let lost = self.reader.arrived();
        if let (Some(session), Some(socket)) = (&mut self.session, &self.socket) {
            session.close(socket);
        }
        self.stage = Stage::Closed;
        (self.socket, self.session) = (None, None);
        self.reader = Reader::default();
        self.unsent = self.flights.len() * request_length;
        self.offset -= self.offset % request_length;
        self.is_flushed = true;
        self.answers = 0;
        for flight in &mut self.flights {
            flight.written_ns = 0;
        }
        lost
    }
}
