//! A connection to a server while it serves a request.

use crate::attempts::Attempts;
use crate::balance::Lease;
use crate::pool::{self, Parked};
use bytes::{Bytes, BytesMut};
use contract::{Duplex, RequestBody, Tunnel};
use net::Stream;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;
use tokio::time::timeout;

/// How much one call reads, or takes from a file.
const PIECE: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// A connection to a server while it serves a request.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    /// What was read and not used yet.
    pub input: BytesMut,
    lease: Lease,
    attempts: Attempts,
    clock: Clock,
    opened: Instant,
    requests: u64,
    tag: usize,
    sent_anything: bool,
}

/// Notes how long an attempt took, however it ends.
#[derive(Debug)]
struct Clock {
    attempts: Attempts,
    started: Instant,
    is_done: bool,
}

impl Clock {
    fn stop(&mut self) {
        let elapsed = self.started.elapsed();
        if !std::mem::replace(&mut self.is_done, true) {
            self.attempts.note(|attempt| attempt.response_time = Some(elapsed));
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Link {
    /// Connects, or takes an idle connection.
    pub(crate) async fn open(
        lease: Lease,
        attempts: &Attempts,
        tag: usize,
        limit: Duration,
    ) -> Result<Link, (Lease, io::Error)> {
        let clock = Clock { attempts: attempts.clone(), started: Instant::now(), is_done: false };
        let (group, address) = (lease.group(), &lease.server().address);
        let parked = match pool::take(group, tag, address) {
            Some(parked) => parked,
            None => match timeout(limit, Stream::connect(address)).await {
                Ok(Ok(stream)) => {
                    drop(stream.set_nodelay(true));
                    Parked { stream, requests: 0, opened: Instant::now() }
                }
                Ok(Err(error)) => return Err((lease, error)),
                Err(_) => return Err((lease, ErrorKind::TimedOut.into())),
            },
        };
        attempts.note(|attempt| attempt.connect_time = Some(clock.started.elapsed()));
        let Parked { stream, requests, opened } = parked;
        Ok(Link {
            stream,
            input: BytesMut::new(),
            lease,
            attempts: attempts.clone(),
            clock,
            opened,
            requests,
            tag,
            sent_anything: false,
        })
    }

    /// Whether it served another request before.
    pub fn is_reused(&self) -> bool {
        self.requests > 0
    }

    /// Whether any of the request was sent.
    pub fn sent_anything(&self) -> bool {
        self.sent_anything
    }

    pub(crate) fn lease(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Sends bytes and the content behind them. `false` where the server answered before it took all of
    /// it: then nothing more is sent, and the connection serves no other request.
    pub async fn send(
        &mut self,
        head: &[u8],
        body: Option<&RequestBody>,
        limit: Duration,
    ) -> io::Result<bool> {
        let body = match body {
            Some(RequestBody::Memory(bytes)) if bytes.len() <= PIECE => {
                // Both leave in one packet, if they fit in one.
                return self.write(&[head, bytes].concat(), limit).await;
            }
            other => other,
        };
        if !self.write(head, limit).await? {
            return Ok(false);
        }
        match body {
            None => Ok(true),
            Some(RequestBody::Memory(bytes)) => self.write(bytes, limit).await,
            Some(RequestBody::File { file, length }) => {
                let mut piece = vec![0; PIECE];
                let mut at = 0;
                while at < *length {
                    let wanted = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
                    file.read_exact_at(&mut piece[..wanted], at)?;
                    if !self.write(&piece[..wanted], limit).await? {
                        return Ok(false);
                    }
                    at += wanted as u64;
                }
                Ok(true)
            }
        }
    }

    /// Writes all bytes unless the server answers meanwhile.
    async fn write(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<bool> {
        while !bytes.is_empty() {
            let step = poll_fn(|cx| match self.stream.poll_write(cx, bytes) {
                Poll::Pending => self.poll_read(cx).map_ok(|_| 0),
                written => written,
            });
            let count = timeout(limit, step).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
            if count == 0 {
                return Ok(false);
            }
            self.sent_anything = true;
            self.attempts.note(|attempt| attempt.sent += count as u64);
            bytes = &bytes[count..];
        }
        Ok(true)
    }

    /// Reads once behind [`Link::input`] and returns how many bytes; 0 at the end.
    ///
    /// # Errors
    /// `TimedOut` where nothing comes in time.
    pub async fn read(&mut self, limit: Duration) -> io::Result<usize> {
        let reading = poll_fn(|cx| self.poll_read(cx));
        timeout(limit, reading).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))?
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            self.stream.poll_read(cx, &mut buffer).map_ok(|()| {
                let count = buffer.filled().len();
                self.input.extend_from_slice(buffer.filled());
                self.attempts.note(|attempt| attempt.received += count as u64);
                count
            })
        })
    }

    /// Takes note that the head of the response is there.
    pub fn head_arrived(&self, status: http::Status) {
        let elapsed = self.clock.started.elapsed();
        self.attempts.note(|attempt| {
            attempt.header_time = Some(elapsed);
            attempt.status = Some(status);
        });
    }

    /// Takes note of content.
    pub fn content_arrived(&self, length: usize) {
        self.attempts.note(|attempt| attempt.length += length as u64);
    }

    /// The response is whole. Where the connection can serve another request, it is kept for one.
    pub fn finish(mut self, reusable: bool) {
        self.done();
        let group = self.lease.group();
        let keepalive = group.keepalive;
        let requests = self.requests + 1;
        let young = self.opened.elapsed() <= keepalive.time && requests < keepalive.requests;
        if reusable && keepalive.connections > 0 && young && self.input.is_empty() {
            let address = self.lease.server().address.clone();
            let parked = Parked { stream: self.stream, requests, opened: self.opened };
            pool::put(group, self.tag, address, parked);
        }
    }

    /// The connection changes its protocol.
    pub fn into_tunnel(mut self, idle: Duration) -> Tunnel {
        let first: Bytes = self.input.split().freeze();
        Tunnel { far: Box::new(Far(self)), first, idle }
    }

    pub(crate) fn done(&mut self) {
        self.clock.stop();
    }
}

/// The far end of a tunnel.
struct Far(Link);

impl Duplex for Far {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        self.0.stream.poll_read(cx, &mut read).map_ok(|()| {
            let count = read.filled().len();
            self.0.attempts.note(|attempt| {
                attempt.received += count as u64;
                attempt.length += count as u64;
            });
            count
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.stream.poll_write(cx, bytes)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.stream.shutdown_write()
    }
}
