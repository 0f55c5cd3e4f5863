//! The body of a request on its way to a server.

use crate::dialogue::Dialogue;
use bytes::Bytes;
use contract::{RequestBody, Turn};
use http::Status;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::Poll;
use wire::Buffer;

/// How much is taken from a file at once, and how much waits to be sent before more of the body is taken.
pub(crate) const PIECE: usize = 64 * 1024;

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Upload {
    /// There is none.
    None,
    /// All of it is there, so that it can be sent again.
    Whole(RequestBody),
    /// It is passed on as it comes, once.
    Stream,
}

impl Upload {
    pub(crate) fn start(&self) -> Rest {
        match self {
            Upload::None => Rest::End,
            Upload::Whole(RequestBody::Memory(bytes)) => Rest::Bytes(bytes.clone()),
            Upload::Whole(RequestBody::File { file, length }) => {
                Rest::File { file: Arc::clone(file), at: 0, length: *length }
            }
            Upload::Stream => Rest::Stream,
        }
    }
}

/// What is left to write of a request's body.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing.
    Nothing,
    /// The mark of its end.
    End,
    Bytes(Bytes),
    File {
        file: Arc<File>,
        at: u64,
        length: u64,
    },
    Stream,
}

/// Why the body cannot be written.
pub(crate) enum Lost {
    /// The client does not send the rest of it; the request ends with this status.
    Client(Status),
    /// The file cannot be read.
    File(io::Error),
}

impl Rest {
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Rest::Nothing)
    }

    /// Appends the next piece to what is sent, unless much waits there. Pending if the client has to send more.
    pub(crate) fn poll_append(
        &mut self,
        turn: &mut Turn<'_, '_>,
        dialogue: &mut impl Dialogue,
        out: &mut Buffer,
    ) -> Poll<Result<(), Lost>> {
        if out.bytes().len() >= PIECE {
            return Poll::Ready(Ok(()));
        }
        let mut append = |piece: &[u8], has_more: bool| {
            out.append(|out| match (piece.is_empty(), has_more) {
                (true, true) => {}
                (true, false) => dialogue.append_end(out),
                (false, true) => dialogue.append_piece(piece, out),
                (false, false) => dialogue.append_last_piece(piece, out),
            });
            has_more
        };
        let has_more = match self {
            Rest::Nothing => return Poll::Ready(Ok(())),
            Rest::End => append(b"", false),
            Rest::Bytes(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                append(&piece, !bytes.is_empty())
            }
            Rest::File { file, at, length } => {
                let wanted = usize::try_from(*length - *at).unwrap_or(PIECE).min(PIECE);
                let mut piece = vec![0; wanted];
                if let Err(error) = file.read_exact_at(&mut piece, *at) {
                    return Poll::Ready(Err(Lost::File(error)));
                }
                *at += wanted as u64;
                append(&piece, *at < *length)
            }
            Rest::Stream => {
                // What came in several pieces goes on in one.
                let mut whole = Buffer::default();
                let mut gather = |piece: &[u8]| whole.append(|whole| whole.extend_from_slice(piece));
                match turn.body.poll_take(turn.cx, turn.exchange, &mut gather) {
                    Poll::Ready(Ok(has_more)) => append(whole.bytes(), has_more),
                    Poll::Ready(Err(status)) => return Poll::Ready(Err(Lost::Client(status))),
                    Poll::Pending => return Poll::Pending,
                }
            }
        };
        if !has_more {
            *self = Rest::Nothing;
        }
        Poll::Ready(Ok(()))
    }
}
