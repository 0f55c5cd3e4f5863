//! The content of a request on its way to a server.

use bytes::Bytes;
use contract::{BodyStream, RequestBody};
use net::Stream;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much is taken from a file at once.
const PIECE: usize = 64 * 1024;

/// The content of a request.
#[derive(Clone, Debug)]
pub enum Upload {
    /// All of it is there, so that it can be sent again.
    Whole(RequestBody),
    /// It is passed on as it comes, once.
    Stream(BodyStream),
}

impl Upload {
    /// The stream that it is.
    pub fn stream(&self) -> Option<&BodyStream> {
        match self {
            Upload::Whole(_) => None,
            Upload::Stream(stream) => Some(stream),
        }
    }
}

/// How a protocol writes content.
#[derive(Clone, Copy, Debug)]
pub struct Coding {
    /// Writes a piece that is not empty.
    pub piece: fn(&[u8], &mut Vec<u8>),
    /// Writes what follows the last one.
    pub end: fn(&mut Vec<u8>),
}

impl Coding {
    /// Content as it is.
    pub const PLAIN: Coding = Coding { piece: |bytes, out| out.extend_from_slice(bytes), end: |_| {} };
}

/// What is left to send of a request.
#[derive(Debug)]
pub(crate) struct Sending {
    rest: Rest,
    coding: Coding,
    /// What is written next.
    out: Vec<u8>,
    /// How much of that was written.
    written: usize,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Bytes(Bytes),
    File { file: Arc<File>, at: u64, length: u64 },
    Stream(BodyStream),
}

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All was sent.
    All,
    /// The client has to send more.
    AwaitsClient,
    /// The server has to take more.
    AwaitsServer,
}

impl Sending {
    pub(crate) fn new(head: &[u8], upload: Option<&Upload>, coding: Coding) -> Sending {
        let rest = match upload {
            None => Rest::Nothing,
            Some(Upload::Whole(RequestBody::Memory(bytes))) => Rest::Bytes(bytes.clone()),
            Some(Upload::Whole(RequestBody::File { file, length })) => {
                Rest::File { file: Arc::clone(file), at: 0, length: *length }
            }
            Some(Upload::Stream(stream)) => Rest::Stream(stream.clone()),
        };
        let mut out = head.to_vec();
        if upload.is_none() {
            (coding.end)(&mut out);
        }
        Sending { rest, coding, out, written: 0 }
    }

    /// Writes what there is to write and can be written now; `count` is told of each success.
    pub(crate) fn poll(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        mut count: impl FnMut(usize),
    ) -> io::Result<Sent> {
        loop {
            // What follows the head at once leaves with it.
            let filled = self.fill(cx)?;
            while self.written < self.out.len() {
                match stream.poll_write(cx, &self.out[self.written..])? {
                    Poll::Ready(written) => {
                        self.written += written;
                        count(written);
                    }
                    Poll::Pending => return Ok(Sent::AwaitsServer),
                }
            }
            self.out.clear();
            self.written = 0;
            match (filled, &self.rest) {
                (Poll::Pending, _) => return Ok(Sent::AwaitsClient),
                (Poll::Ready(()), Rest::Nothing) => return Ok(Sent::All),
                (Poll::Ready(()), _) => {}
            }
        }
    }

    /// Adds the next piece to what is written, unless there is much of it already.
    fn fill(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        if self.out.len() >= PIECE {
            return Ok(Poll::Ready(()));
        }
        let (coding, out) = (self.coding, &mut self.out);
        let over = match &mut self.rest {
            Rest::Nothing => return Ok(Poll::Ready(())),
            Rest::Bytes(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                append(coding, &piece, out);
                bytes.is_empty()
            }
            Rest::File { file, at, length } => {
                let wanted = usize::try_from(*length - *at).unwrap_or(PIECE).min(PIECE);
                let mut piece = vec![0; wanted];
                file.read_exact_at(&mut piece, *at)?;
                append(coding, &piece, out);
                *at += wanted as u64;
                *at >= *length
            }
            Rest::Stream(stream) => {
                let taken = match stream.poll_take(cx) {
                    Poll::Ready(taken) => taken,
                    Poll::Pending => return Ok(Poll::Pending),
                };
                let piece = taken.map_err(|_| io::Error::from(ErrorKind::ConnectionAborted))?;
                append(coding, &piece.unwrap_or_default(), out);
                stream.is_over()
            }
        };
        if over {
            (coding.end)(out);
            self.rest = Rest::Nothing;
        }
        Ok(Poll::Ready(()))
    }
}

fn append(coding: Coding, piece: &[u8], out: &mut Vec<u8>) {
    if !piece.is_empty() {
        (coding.piece)(piece, out);
    }
}
