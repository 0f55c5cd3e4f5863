//! What streams of a connection are read and written by.

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, Side, VarInt, WriteError};

/// The number of a stream (RFC 9000, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What a stream had to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Bytes(Bytes),
    /// Nothing has come; an event tells when it has.
    Blocked,
    /// The peer sent all.
    End,
    /// The peer gave up, with this code of the application.
    Reset(u64),
    /// The stream is not open for reading.
    Closed,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many of them were taken.
    Bytes(usize),
    /// There is no room; an event tells when there is.
    Blocked,
    /// The peer reads no more, and gave this code of the application.
    Stopped(u64),
    /// The stream is not open for writing.
    Closed,
}

impl StreamId {
    /// The number in the library's own type. The library knows no stream of a number that is too large.
    fn inner(self) -> quinn_proto::StreamId {
        let side = if self.0 & 1 == 0 { Side::Client } else { Side::Server };
        let direction = if self.is_two_way() { Dir::Bi } else { Dir::Uni };
        quinn_proto::StreamId::new(side, direction, self.0 >> 2)
    }

    /// Whether both sides send on it.
    fn is_two_way(self) -> bool {
        self.0 & 2 == 0
    }

    /// Whether the client can send on it. The library panics at other streams.
    fn is_readable(self) -> bool {
        self.is_two_way() || self.0 & 1 == 0
    }

    /// Whether we can send on it. The library panics at other streams.
    fn is_writable(self) -> bool {
        self.is_two_way() || self.0 & 1 == 1
    }

    pub(crate) fn of(id: quinn_proto::StreamId) -> StreamId {
        StreamId(VarInt::from(id).into_inner())
    }
}

pub(crate) fn read(connection: &mut Connection, id: StreamId, length_max: usize) -> Read {
    if !id.is_readable() {
        return Read::Closed;
    }
    let mut stream = connection.recv_stream(id.inner());
    let Ok(mut chunks) = stream.read(true) else { return Read::Closed };
    let read = match chunks.next(length_max) {
        Ok(Some(chunk)) => Read::Bytes(chunk.bytes),
        Ok(None) => Read::End,
        Err(ReadError::Blocked) => Read::Blocked,
        Err(ReadError::Reset(code)) => Read::Reset(code.into_inner()),
    };
    // The result says that a window must be sent. `Endpoint::depart` asks the connection in any case.
    let _ = chunks.finalize();
    read
}

pub(crate) fn write(connection: &mut Connection, id: StreamId, bytes: &[u8]) -> Written {
    if !id.is_writable() {
        return Written::Closed;
    }
    match connection.send_stream(id.inner()).write(bytes) {
        Ok(length) => Written::Bytes(length),
        Err(WriteError::Blocked) => Written::Blocked,
        Err(WriteError::Stopped(code)) => Written::Stopped(code.into_inner()),
        Err(WriteError::ClosedStream) => Written::Closed,
    }
}

pub(crate) fn finish(connection: &mut Connection, id: StreamId) -> bool {
    id.is_writable() && connection.send_stream(id.inner()).finish().is_ok()
}

pub(crate) fn reset(connection: &mut Connection, id: StreamId, code: u64) -> bool {
    id.is_writable() && connection.send_stream(id.inner()).reset(code_of(code)).is_ok()
}

pub(crate) fn stop(connection: &mut Connection, id: StreamId, code: u64) -> bool {
    id.is_readable() && connection.recv_stream(id.inner()).stop(code_of(code)).is_ok()
}

/// A code of the application. One that cannot be sent becomes the largest that can.
pub(crate) fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
