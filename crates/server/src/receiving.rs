//! A thread receives datagrams: it gives each one to its session, wherever that is, or begins one.

use crate::conn::ConnectionTask;
use crate::datagram_routes::Ends;
use crate::datagram_sessions::Delivered;
use crate::task::{ACCEPT_PAUSE, Task, make_room};
use crate::task_table::TaskTable;
use crate::thread::{Counted, Thread};
use journal::Level;
use journal::counters::{self, Count};
use net::{Arrival, DatagramPort, StrayDatagram};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

/// A socket that datagrams are received from.
pub(crate) struct Receiving {
    pub(crate) thread: Rc<Thread>,
    pub(crate) table: Rc<TaskTable<Task>>,
    /// The place of its address among [`site::Site::listens`] of the site that serves.
    pub(crate) place: Rc<Cell<usize>>,
    pub(crate) port: Rc<DatagramPort>,
}

impl Receiving {
    /// Receives for as long as the thread reads its sockets.
    pub(crate) async fn run(self: Rc<Self>) {
        let (thread, sessions) = (&self.thread, &self.thread.sessions);
        let number = u16::try_from(sessions.thread).unwrap_or(u16::MAX);
        let mut firsts: Vec<StrayDatagram> = Vec::new();
        loop {
            let received = poll_fn(|cx| {
                if !sessions.reads() {
                    return Poll::Ready(None);
                }
                let take = |arrival: &Arrival<'_>| {
                    let ends = Ends { client: arrival.from, server: arrival.to };
                    if sessions.deliver(&ends, arrival.payload) == Delivered::First {
                        firsts.push(StrayDatagram::new(self.port.address(), number, arrival));
                    }
                };
                self.port.poll_receive(cx, &mut thread.receive_room.borrow_mut(), take).map(Some)
            });
            match received.await {
                None => sessions.until_reading().await,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    let reason = net::system_message(&error);
                    thread.log(Level::Crit, &format!("recvmmsg() failed ({reason})"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            for first in firsts.drain(..) {
                if let Some(first) = sessions.routes.pass_on(first, sessions.thread) {
                    self.begin(Ends::of(&first), &first.payload).await;
                }
            }
            // A flood of datagrams leaves the sessions their turns.
            tokio::task::yield_now().await;
        }
    }

    /// Begins a session, unless a datagram before this one did. Where there is no place for it, the datagram is dropped.
    pub(crate) async fn begin(&self, ends: Ends, payload: &[u8]) {
        let Receiving { thread, table, place, port } = self;
        let sessions = &thread.sessions;
        if sessions.deliver(&ends, payload) == Delivered::Taken {
            return;
        }
        counters::add(Count::Accepted);
        let is_crowded = sessions.is_crowded(&ends, thread.places.limit());
        let has_evicted = is_crowded && sessions.evict(Some(&ends));
        let mut counted = Counted::new(thread);
        let has_asked = make_room(thread, table);
        if counted.is_none() && (has_evicted || sessions.evict(None) || has_asked) {
            tokio::task::yield_now().await;
            counted = Counted::new(thread);
        }
        if let Some(counted) = counted {
            let task = ConnectionTask::of_datagrams(counted, place.get(), port, (ends, payload));
            table.add(Task::Connection(task));
        } else if thread.places.complains(Instant::now()) {
            let text = format!("{} worker_connections are not enough", thread.places.limit());
            thread.log(Level::Error, &text);
        }
    }
}
