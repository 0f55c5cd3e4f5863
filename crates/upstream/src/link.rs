//! A connection to a server while it serves a request.

use crate::attempts::Attempts;
use crate::balance::Lease;
use crate::call::Failure;
use crate::pool::{self, Parked};
use crate::settings::{Failures, Settings};
use crate::upload::{Coding, Sending, Sent, Upload};
use bytes::{Bytes, BytesMut};
use contract::{Duplex, Tunnel};
use net::Stream;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;
use tokio::time::{sleep, timeout};

/// How much one call reads.
const PIECE: usize = 64 * 1024;

const SENDING: &str = "sending request to upstream";
const READING: &str = "reading response header from upstream";

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
    /// What is left to send of the request.
    sending: Option<Sending>,
    /// How many bytes of it were sent.
    sent: u64,
    /// Why it could not be sent whole.
    broken: Option<io::Error>,
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
            sending: None,
            sent: 0,
            broken: None,
        })
    }

    /// Whether it served another request before.
    pub fn is_reused(&self) -> bool {
        self.requests > 0
    }

    /// Whether any of the request was sent.
    pub fn sent_anything(&self) -> bool {
        self.sent > 0
    }

    pub(crate) fn lease(&mut self) -> &mut Lease {
        &mut self.lease
    }

    /// Takes a request, which goes out while its answer is read.
    pub fn send(&mut self, head: &[u8], upload: Option<&Upload>, coding: Coding) {
        self.sending = Some(Sending::new(head, upload, coding));
    }

    /// Whether the server took the whole request.
    pub fn took_all(&self) -> bool {
        self.sending.is_none() && self.broken.is_none()
    }

    /// Reads once behind [`Link::input`] in the hope of the head of an answer. The server's time to answer runs
    /// from when it has the whole request.
    ///
    /// # Errors
    /// The server takes nothing, or answers nothing, for too long, or the connection ends. What it said before a
    /// request could be sent whole counts.
    pub async fn read_answer(&mut self, settings: &Settings) -> Result<(), Failure> {
        let mut read = None;
        if self.sending.is_some() {
            read = self.send_on(settings.send_timeout).await?;
        }
        let read = match read {
            Some(read) => read,
            None => self.read(settings.read_timeout).await,
        };
        match (read, self.broken.take()) {
            (Ok(1..), broken) => {
                self.broken = broken;
                Ok(())
            }
            (_, Some(error)) => Err(Failure::io("send", &error, SENDING)),
            (Err(error), None) => Err(Failure::io("recv", &error, READING)),
            (Ok(0), None) => {
                let message = format!("upstream prematurely closed connection while {READING}");
                Err(Failure { kind: Failures::ERROR, message })
            }
        }
    }

    /// Sends until the server has all of the request, or answers: then the result of reading.
    async fn send_on(&mut self, limit: Duration) -> Result<Option<io::Result<usize>>, Failure> {
        let mut stalled = pin!(sleep(limit));
        poll_fn(|cx| {
            let before = self.sent;
            let sent = self.poll_send(cx);
            if sent == Sent::All {
                return Poll::Ready(Ok(None));
            }
            if let Poll::Ready(read) = self.poll_input(cx) {
                return Poll::Ready(Ok(Some(read)));
            }
            if sent == Sent::AwaitsClient || self.sent > before {
                stalled.as_mut().reset(tokio::time::Instant::now() + limit);
            }
            if sent == Sent::AwaitsServer && stalled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Failure::io("send", &ErrorKind::TimedOut.into(), SENDING)));
            }
            Poll::Pending
        })
        .await
    }

    /// Sends what can be sent now. A connection that takes no more may still bring an answer.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Sent {
        let Some(sending) = &mut self.sending else { return Sent::All };
        let (sent, attempts) = (&mut self.sent, &self.attempts);
        let polled = sending.poll(&mut self.stream, cx, |count| {
            *sent += count as u64;
            attempts.note(|attempt| attempt.sent += count as u64);
        });
        let polled = polled.unwrap_or_else(|error| {
            self.broken = Some(error);
            Sent::All
        });
        if polled == Sent::All {
            self.sending = None;
        }
        polled
    }

    /// Reads once behind [`Link::input`] and returns how many bytes; 0 at the end. What is left of the request goes
    /// out meanwhile.
    ///
    /// # Errors
    /// `TimedOut` where nothing comes in time.
    pub async fn read(&mut self, limit: Duration) -> io::Result<usize> {
        let reading = poll_fn(|cx| self.poll_read(cx));
        timeout(limit, reading).await.map_err(|_| io::Error::from(ErrorKind::TimedOut))?
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_send(cx);
        self.poll_input(cx)
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
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
        if reusable && self.took_all() && keepalive.connections > 0 && young && self.input.is_empty() {
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
}
