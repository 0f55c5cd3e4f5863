//! An event loop: each thread waits for all of its connections at once, and answers whichever has something to read.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;

use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::cache::Cache;
use super::session::{Progress, Protocol, Session, Worker};

/// What stands for the listening socket among the connections.
pub(super) const LISTENER: u64 = u64::MAX;

/// How many events are taken from the kernel at once.
const EVENTS: usize = 256;

pub(super) fn serve(
    protocol: Protocol,
    listener: &TcpListener,
    cache: &'static Cache,
    workers: u32,
) -> Result<ExitCode> {
    listener.set_nonblocking(true)?;
    super::threads(workers, || Loop::new(listener, Worker::of(protocol, cache))?.run())
}

struct Loop<'a> {
    epoll: OwnedFd,
    listener: &'a TcpListener,
    worker: Worker,
    /// By the number of their descriptor.
    sessions: HashMap<u64, Session>,
}

impl<'a> Loop<'a> {
    fn new(listener: &'a TcpListener, worker: Worker) -> Result<Loop<'a>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // A connection wakes one thread, and not all.
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), flags)?;
        Ok(Loop { epoll, listener, worker, sessions: HashMap::new() })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            wait(&self.epoll, &mut events)?;
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    token => self.handle(token, event.flags),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Some(stream) = super::accept(self.listener) {
            let token = token(&stream);
            let Ok(session) = open(&self.epoll, stream, EventFlags::IN) else { continue };
            self.sessions.insert(token, session);
        }
    }

    fn handle(&mut self, token: u64, ready: EventFlags) {
        let Some(session) = self.sessions.get_mut(&token) else { return };
        let was_writing = ready.contains(EventFlags::OUT);
        let progress = proceed(session, ready, &mut self.worker);
        let is_writing = progress == Progress::Writing;
        let kept = progress != Progress::Over
            && (was_writing == is_writing
                || epoll::modify(
                    &self.epoll,
                    session.stream(),
                    EventData::new_u64(token),
                    interest(progress),
                )
                .is_ok());
        if !kept {
            self.sessions.remove(&token);
        }
    }
}

/// What stands for a connection: the number of its descriptor, which no other open one has.
pub(super) fn token(stream: &TcpStream) -> u64 {
    u64::try_from(stream.as_raw_fd()).unwrap_or(LISTENER)
}

/// Begins to wait for a connection.
pub(super) fn open(epoll: &OwnedFd, stream: TcpStream, flags: EventFlags) -> Result<Session> {
    stream.set_nonblocking(true)?;
    let session = Session::new(stream)?;
    epoll::add(epoll, session.stream(), EventData::new_u64(token(session.stream())), flags)?;
    Ok(session)
}

/// Does what a connection is ready for.
pub(super) fn proceed(session: &mut Session, ready: EventFlags, worker: &mut Worker) -> Progress {
    if ready.contains(EventFlags::OUT) { session.advance(worker) } else { session.read(worker) }
}

/// What a connection waits for.
pub(super) fn interest(progress: Progress) -> EventFlags {
    if progress == Progress::Writing { EventFlags::OUT } else { EventFlags::IN }
}

/// Waits until something is ready.
pub(super) fn wait(epoll: &OwnedFd, events: &mut Vec<Event>) -> Result<()> {
    match epoll::wait(epoll, spare_capacity(events), None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
