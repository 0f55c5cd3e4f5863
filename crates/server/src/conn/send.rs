//! Sending what does not fit into one write: files, long bodies, bodies that come into being.

use super::Io;
use super::body::client_left;
use super::cold::{self, Unknown};
use super::exchange::Begun;
use super::pace::Pace;
use super::respond::{Answer, append_bytes, append_end, append_head};
use super::throttle::{self, Throttle};
use super::transport::Transport;
use super::{tunnel, work};
use crate::crowd;
use contract::policy::LingeringPolicy;
use contract::{Body, Piece, Pull};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much of a file is read at once where `sendfile` is off.
const READ_SIZE: usize = 64 * 1024;

/// Sends a response. After an error the connection is of no more use.
pub(crate) async fn response(io: &mut Io, begun: &mut Begun, answer: &Answer, body: Body) -> io::Result<()> {
    let mut pace = Pace::of_response(&begun.flow.exchange.scope.policy.sending);
    if throttle::is_limited(&begun.flow.exchange) {
        // Earlier answers that were not sent yet have limits of their own.
        flush(io, &mut pace).await?;
        pace = pace.limited(Throttle::of(&mut begun.flow.exchange));
    }
    let pace = &mut pace;
    if !answer.keep_alive && !pace.is_limited() && body.has_file() {
        // The last bytes of the file leave with the end of the connection; a failure costs a segment.
        io.is_held = io.stream.hold_until_end().is_ok();
    }
    append_head(&mut io.output, &mut begun.flow, answer);
    if let Body::Tunnel(far) = body {
        begun.flow.exchange.wire.bytes += tunnel::run(io, far).await;
        return Ok(());
    }
    if answer.has_body {
        match body {
            Body::Empty | Body::Tunnel(_) => {}
            Body::Piece(item) => piece(io, (begun, answer), &item, pace).await?,
            Body::Pieces(pieces) => {
                for item in &pieces {
                    piece(io, (begun, answer), item, pace).await?;
                }
            }
            Body::Source(mut source) => loop {
                match source.pull() {
                    Pull::Piece(item) => piece(io, (begun, answer), &item, pace).await?,
                    Pull::Await(wanted) => {
                        // What is there is sent before waiting for more.
                        flush(io, pace).await?;
                        let outcome = work::perform(io, begun, wanted).await;
                        source.resume(outcome);
                    }
                    Pull::End => break,
                    Pull::Failed => return Err(io::Error::other("the content could not be completed")),
                }
            },
        }
    }
    append_end(&mut io.output, &mut begun.flow, answer);
    flush(io, pace).await
}

async fn piece(
    io: &mut Io,
    (begun, answer): (&mut Begun, &Answer),
    piece: &Piece,
    pace: &mut Pace,
) -> io::Result<()> {
    match piece {
        Piece::Bytes(bytes) => {
            let before = io.output.bytes().len();
            append_bytes(&mut io.output, answer, bytes);
            begun.flow.exchange.wire.bytes += (io.output.bytes().len() - before) as u64;
            if io.output.bytes().len() >= super::OUTPUT_LIMIT {
                flush(io, pace).await?;
            }
            Ok(())
        }
        Piece::File { length: 0, .. } => Ok(()),
        Piece::File { file, offset, length } => {
            if answer.chunked {
                let before = io.output.bytes().len();
                io.output.append(|out| h1::encode_chunk_head(*length, out));
                begun.flow.exchange.wire.bytes += (io.output.bytes().len() - before) as u64;
            }
            let policy = &begun.flow.exchange.scope.policy.sending;
            let by_kernel = policy.sendfile;
            let chunk = if policy.sendfile_max_chunk == 0 { u64::MAX } else { policy.sendfile_max_chunk };
            let unknown = if policy.aio_threads { Unknown::Cold } else { Unknown::Warm };
            let part = Part { file, offset: *offset, end: *offset + *length, unknown };
            let counted = &mut begun.flow.exchange.wire.bytes;
            if crowd::is_busy() {
                crowd::yield_turn().await;
            }
            if by_kernel {
                send_file(io, part, chunk, (pace, counted)).await?;
            } else {
                read_file(io, part, (pace, counted)).await?;
            }
            if answer.chunked {
                io.output.append(|out| out.extend_from_slice(h1::CHUNK_END));
                *counted += h1::CHUNK_END.len() as u64;
            }
            Ok(())
        }
    }
}

/// A part of a file.
struct Part<'a> {
    file: &'a Arc<File>,
    offset: u64,
    end: u64,
    unknown: Unknown,
}

/// Sends a part of a file without copying it, no more than a chunk in one turn.
async fn send_file(
    io: &mut Io,
    part: Part<'_>,
    chunk: u64,
    (pace, counted): (&mut Pace, &mut u64),
) -> io::Result<()> {
    let Part { file, mut offset, end, unknown } = part;
    flush_and_hold(io, pace).await?;
    let mut warm_until = offset;
    while offset < end {
        if offset >= warm_until {
            warm_until = end.min(offset.saturating_add(chunk.min(crowd::file_turn())));
            cold::warm(file, offset..warm_until, unknown).await?;
        }
        let count = usize::try_from(warm_until - offset).unwrap_or(usize::MAX);
        let count = room(io, pace, count).await?;
        let Io { stream, timer, input, .. } = io;
        let sending =
            poll_fn(|cx| input.release_if_pending(stream.poll_send_file(cx, file, &mut offset, count)));
        let sent = pace.within(timer, sending).await.map_err(|_| timed_out())??;
        pace.moved(sent as u64);
        *counted += sent as u64;
        if sent == 0 {
            // The file became shorter than the length that was announced.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if offset < end {
            crowd::yield_turn().await;
        }
    }
    Ok(())
}

/// Sends a part of a file through memory (`sendfile off`).
async fn read_file(io: &mut Io, part: Part<'_>, (pace, counted): (&mut Pace, &mut u64)) -> io::Result<()> {
    let Part { file, mut offset, end, unknown } = part;
    let mut turn_ends = offset.saturating_add(crowd::file_turn());
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(READ_SIZE).min(READ_SIZE);
        let room = io.output.room(wanted);
        let count = cold::read(file, &mut room[..wanted], offset, unknown).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        io.output.grew(count);
        (offset, *counted) = (offset + count as u64, *counted + count as u64);
        flush(io, pace).await?;
        if offset >= turn_ends && offset < end {
            crowd::yield_turn().await;
            turn_ends = offset.saturating_add(crowd::file_turn());
        }
    }
    Ok(())
}

/// Waits until the client has taken all answers; gives the connection back for the next request.
pub(crate) async fn answers(mut io: Box<Io>) -> Option<Box<Io>> {
    earlier_answers(&mut io).await.ok()?;
    io.set_timer();
    Some(io)
}

/// Waits until the client has taken the answers to the requests before this one. After an error the connection is of no
/// more use.
pub(crate) async fn earlier_answers(io: &mut Io) -> io::Result<()> {
    let mut pace = Pace::new(io.send_timeout, io.default_policy().sending.send_min_rate);
    flush(io, &mut pace).await.inspect_err(|error| {
        reset_if_timed_out(io, error, &io.default_policy().lingering);
        // Whoever looks at it again must not wait for the client again.
        io.output.consume(usize::MAX);
    })
}

/// Closes at once, where `reset_timedout_connection` asks for it, what a slow client left unread.
pub(crate) fn reset_if_timed_out(io: &Io, error: &io::Error, policy: &LingeringPolicy) {
    if error.kind() == io::ErrorKind::TimedOut && policy.reset_timed_out {
        drop(io.stream.set_linger_zero());
    }
}

/// Writes all output.
pub(crate) async fn flush(io: &mut Io, pace: &mut Pace) -> io::Result<()> {
    write_by(io, pace, Transport::poll_write).await
}

/// Writes all output and tells the kernel that more follows, so that a head leaves with its file, or an answer with the
/// end of its connection.
pub(crate) async fn flush_and_hold(io: &mut Io, pace: &mut Pace) -> io::Result<()> {
    write_by(io, pace, Transport::poll_write_more).await
}

async fn write_by(
    io: &mut Io,
    pace: &mut Pace,
    write: impl Fn(&mut Transport, &mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
) -> io::Result<()> {
    while !io.output.is_empty() {
        let room = room(io, pace, io.output.bytes().len()).await?;
        let Io { stream, timer, input, output, .. } = io;
        let writing = poll_fn(|cx| input.release_if_pending(write(stream, cx, &output.bytes()[..room])));
        let count = pace.within(timer, writing).await.map_err(|_| timed_out())??;
        pace.moved(count as u64);
        io.output.consume(count);
    }
    io.output.release();
    Ok(())
}

/// Waits until something may be sent, and gives how much of the bytes that is. A client that leaves meanwhile is an
/// error: its place is for others.
async fn room(io: &mut Io, pace: &Pace, bytes: usize) -> io::Result<usize> {
    if !pace.is_limited() {
        return Ok(bytes);
    }
    tokio::select! {
        biased;
        room = pace.room(bytes) => Ok(room),
        () = client_left(io) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
