//! The lines of a worker to the one that had its sockets of datagrams before, and to the one that has them next. See
//! [`crate::datagram_routes`].

use crate::datagram_routes::Routes;
use crate::tasks::Change;
use net::{AsyncDatagramLink, DatagramLink, LinkMessage};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc as events;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// How long another worker, or a thread, may take to stop reading. One that stands still is not waited for.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

/// The lines of a worker, served by its first thread.
pub(crate) struct Neighbours {
    routes: Arc<Routes>,
    threads: RefCell<Vec<events::UnboundedSender<Change>>>,
    is_leaving: Cell<bool>,
    /// Whether all threads have ended.
    has_ended: Cell<bool>,
}

impl Neighbours {
    /// No lines yet.
    pub(crate) fn new(routes: Arc<Routes>, threads: Vec<events::UnboundedSender<Change>>) -> Rc<Neighbours> {
        let (is_leaving, has_ended) = (Cell::new(false), Cell::new(false));
        Rc::new(Neighbours { routes, threads: RefCell::new(threads), is_leaving, has_ended })
    }

    /// Takes the reading of the sockets over from an older worker.
    pub(crate) fn follow(self: &Rc<Self>, link: DatagramLink) {
        let this = Rc::clone(self);
        spawn_local(async move {
            if let Ok(link) = link.into_tokio() {
                this.hear_older(&Arc::new(link)).await;
            }
        });
    }

    /// Leaves the reading of the sockets to a newer worker, once that is ready.
    pub(crate) fn lead(self: &Rc<Self>, link: DatagramLink) {
        let this = Rc::clone(self);
        spawn_local(async move {
            if let Ok(link) = link.into_tokio() {
                this.hear_newer(&Arc::new(link)).await;
            }
        });
    }

    /// Whether the threads read the sockets of datagrams.
    pub(crate) fn reads(&self) -> bool {
        self.routes.reads()
    }

    /// The threads end with their last sessions, and read no more.
    pub(crate) fn leave(self: &Rc<Self>) {
        self.is_leaving.set(true);
        self.routes.set_reads(false);
        self.threads.borrow_mut().clear();
        if let Some(older) = self.routes.heir() {
            let this = Rc::clone(self);
            spawn_local(async move {
                tell(&older, &LinkMessage::Released).await;
                this.routes.released();
            });
        }
    }

    /// The last thread has ended. Waits until the neighbours have got what was on its way through this worker.
    pub(crate) async fn finish(&self) {
        self.has_ended.set(true);
        self.routes.stop_receiving();
        let gone = async {
            while self.routes.has_neighbours() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = timeout(STOPS_WITHIN, gone).await;
    }

    async fn hear_older(&self, link: &Arc<AsyncDatagramLink>) {
        self.routes.set_older(link);
        let mut room = Vec::new();
        let has_stopped = async {
            tell(link, &LinkMessage::Claims).await;
            while let Ok(Some(message)) = link.receive(&mut room).await {
                match message {
                    LinkMessage::Stopped => return true,
                    LinkMessage::Returns(datagram) => self.routes.returned(datagram),
                    _ => {}
                }
            }
            false
        };
        let is_gone = timeout(STOPS_WITHIN, has_stopped).await == Ok(false);
        self.read(true).await;
        while !is_gone && let Ok(Some(message)) = link.receive(&mut room).await {
            if let LinkMessage::Returns(datagram) = message {
                self.routes.returned(datagram);
            }
        }
        self.empty_mailboxes();
        self.routes.forget_older(link);
    }

    async fn hear_newer(&self, link: &Arc<AsyncDatagramLink>) {
        // From now on this worker may leave: the newer one passes datagrams on as soon as it reads.
        self.routes.set_newer(link);
        let mut room = Vec::new();
        while let Ok(Some(message)) = link.receive(&mut room).await {
            match message {
                LinkMessage::Claims => {
                    self.routes.set_newer(link);
                    self.read(false).await;
                    tell(link, &LinkMessage::Stopped).await;
                }
                LinkMessage::Released => self.resume(link).await,
                LinkMessage::Asks(datagram) => self.routes.asked(datagram),
                // It ends first.
                LinkMessage::Returns(datagram) => self.routes.begin(datagram),
                LinkMessage::Stopped => {}
            }
        }
        self.empty_mailboxes();
        self.resume(link).await;
    }

    /// No thread takes its mail when this worker ends.
    fn empty_mailboxes(&self) {
        if self.has_ended.get() {
            self.routes.empty_mailboxes();
        }
    }

    /// The newer worker reads no more.
    async fn resume(&self, link: &Arc<AsyncDatagramLink>) {
        if self.routes.forget_newer(link) {
            self.read(true).await;
        }
    }

    /// Makes all threads read, or stop reading.
    async fn read(&self, reads: bool) {
        if self.is_leaving.get() {
            return;
        }
        self.routes.set_reads(reads);
        let (done, mut results) = events::unbounded_channel();
        for thread in &*self.threads.borrow() {
            drop(thread.send(Change::Reading { reads, done: done.clone() }));
        }
        drop(done);
        let all = async { while results.recv().await.is_some() {} };
        let _ = timeout(STOPS_WITHIN, all).await;
    }
}

/// Sends what must not be lost: it waits while the line is full, unless the other worker stands still. One that is gone ends
/// the line.
async fn tell(link: &AsyncDatagramLink, message: &LinkMessage) {
    let is_full = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let sent = async {
        while link.send(message).is_err_and(is_full) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(STOPS_WITHIN, sent).await;
}

#[cfg(test)]
mod tests {
    use super::tell;
    use crate::event_loop::runtime;
    use net::{DatagramLink, Ecn, LinkMessage, StrayDatagram};
    use tokio::task::spawn_local;

    /// What must not be lost comes after all that filled the line.
    #[test]
    fn a_message_waits_while_the_line_is_full() {
        runtime(None).unwrap().block_on(async {
            let (one, other) = DatagramLink::pair().unwrap();
            let (one, other) = (one.into_tokio().unwrap(), other.into_tokio().unwrap());
            let address = "192.0.2.1:53".parse().unwrap();
            let asks = LinkMessage::Asks(StrayDatagram {
                bound: address,
                client: address,
                server: address,
                ecn: Ecn::Unable,
                thread: 0,
                payload: [0; 1000].into(),
            });
            while one.send(&asks).is_ok() {}
            spawn_local(async move { tell(&one, &LinkMessage::Released).await });
            let mut room = Vec::new();
            let mut told = other.receive(&mut room).await.unwrap();
            while let Some(LinkMessage::Asks(_)) = told {
                told = other.receive(&mut room).await.unwrap();
            }
            assert_eq!(told, Some(LinkMessage::Released));
        });
    }
}
