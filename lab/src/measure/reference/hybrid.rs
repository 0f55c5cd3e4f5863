//! One thread waits for all connections; those that have something to read go to a pool of threads, as in Apache's
//! event. A thread of the pool has a connection until it has to wait for it again.

use std::collections::{HashMap, VecDeque};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::cache::Cache;
use super::epoll::{LISTENER, interest, open, proceed, token, wait};
use super::session::{Progress, Session, Worker};

pub(super) fn serve(listener: &TcpListener, cache: &'static Cache, workers: u32) -> Result<ExitCode> {
    listener.set_nonblocking(true)?;
    let hall = Hall {
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        waiting: Mutex::default(),
        ready: Mutex::default(),
        is_ready: Condvar::new(),
    };
    epoll::add(&hall.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    std::thread::scope(|scope| {
        let pool = scope.spawn(|| super::threads(workers, || hall.work(cache)));
        hall.watch(listener)?;
        pool.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })
}

/// Where connections are.
struct Hall {
    epoll: OwnedFd,
    /// Those that the waiting thread watches, by the number of their descriptor.
    waiting: Mutex<HashMap<u64, Session>>,
    /// Those that the pool has to go on with, and what they are ready for.
    ready: Mutex<VecDeque<(Session, EventFlags)>>,
    is_ready: Condvar,
}

impl Hall {
    /// What the waiting thread does.
    fn watch(&self, listener: &TcpListener) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            wait(&self.epoll, &mut events)?;
            for event in events.drain(..) {
                let token = event.data.u64();
                if token == LISTENER {
                    self.accept(listener);
                } else if let Some(session) = lock(&self.waiting).remove(&token) {
                    lock(&self.ready).push_back((session, event.flags));
                    self.is_ready.notify_one();
                }
            }
        }
    }

    fn accept(&self, listener: &TcpListener) {
        while let Some(stream) = super::accept(listener) {
            let token = token(&stream);
            // Ready once, and then not again before the pool is done with it.
            if let Ok(session) = open(&self.epoll, stream, EventFlags::IN | EventFlags::ONESHOT) {
                lock(&self.waiting).insert(token, session);
            }
        }
    }

    /// What a thread of the pool does.
    fn work(&self, cache: &'static Cache) -> Result<()> {
        let mut worker = Worker::new(cache);
        loop {
            let (mut session, ready) = self.next();
            let progress = proceed(&mut session, ready, &mut worker);
            if progress != Progress::Over {
                self.wait_for(session, progress);
            }
        }
    }

    fn next(&self) -> (Session, EventFlags) {
        let mut ready = lock(&self.ready);
        loop {
            match ready.pop_front() {
                Some(next) => return next,
                None => ready = self.is_ready.wait(ready).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Gives a connection back to the waiting thread.
    fn wait_for(&self, session: Session, progress: Progress) {
        let token = token(session.stream());
        let flags = interest(progress) | EventFlags::ONESHOT;
        // The waiting thread cannot look for it before it is there.
        let mut waiting = lock(&self.waiting);
        if epoll::modify(&self.epoll, session.stream(), EventData::new_u64(token), flags).is_ok() {
            waiting.insert(token, session);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
