//! What the connections of a thread share: the site that they are served by, timers, memory.

use crate::conn::http1::request::Http1Request;
use crate::conn::pool::Pool;
use crate::conn::pooled::PooledRequest;
use crate::datagram_sessions::Sessions;
use crate::places::Places;
use crate::pulse::Pulse;
use crate::successor::Settings;
use journal::Level;
use journal::counters::{self, Activity, Count};
use net::ReceiveRoom;
use site::Site;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::spawn_local;
use wire::Timers;

/// How long it takes until it is looked whether a site is gone, at first and at most.
const GONE_SOON: Duration = Duration::from_millis(100);
const GONE_LATE: Duration = Duration::from_secs(60);

/// What the connections of a thread share.
pub(crate) struct Thread {
    serving: RefCell<Rc<Serving>>,
    pub(crate) timers: Rc<Timers>,
    /// Whether idle connections are to be closed and no response keeps one.
    pub(crate) draining: Cell<bool>,
    pub(crate) places: Places,
    /// The sessions of datagrams.
    pub(crate) sessions: Rc<Sessions>,
    /// Memory for the datagrams of one call.
    pub(crate) receive_room: RefCell<ReceiveRoom>,
    /// Requests that ended, for further ones: of sessions and of all versions of HTTP but HTTP/1.
    pub(crate) requests: Pool<PooledRequest>,
    /// The same for HTTP/1.
    pub(crate) http1_requests: Pool<Http1Request>,
    /// The fields of the block that is being read, in HTTP/2.
    pub(crate) header_list: RefCell<http2::HeaderList>,
    pub(crate) pulse: Arc<Pulse>,
    /// How many detached requests are under way.
    pub(crate) detached: Rc<Cell<usize>>,
    /// Takes over detached requests, once the thread has tasks.
    pub(crate) adopt: OnceCell<Adopt>,
}

/// Adds a detached request to the tasks of a thread. Returns whether there was room for it.
pub(crate) type Adopt = Box<dyn Fn(engine::Detached, &Rc<Serving>) -> bool>;

/// A site, for as long as anything of the thread is served by it.
pub(crate) struct Serving {
    pub(crate) site: Arc<Site>,
    pub(crate) settings: Settings,
    stage: Cell<Stage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// New connections are this site's.
    Current,
    /// Another site serves; what began here ends here.
    Past,
    /// The time for that is over.
    Over,
}

impl Serving {
    fn new(site: Arc<Site>, settings: Settings) -> Rc<Serving> {
        Rc::new(Serving { site, settings, stage: Cell::new(Stage::Current) })
    }

    /// Whether new connections are this site's.
    pub(crate) fn is_current(&self) -> bool {
        self.stage.get() == Stage::Current
    }

    /// Whether connections are to end that are still served by this site.
    pub(crate) fn is_over(&self) -> bool {
        self.stage.get() == Stage::Over
    }

    /// Whether connections of the sites before are to end.
    pub(crate) fn drains(&self) -> bool {
        self.settings.drains
    }
}

impl Thread {
    pub(crate) fn new(
        site: Arc<Site>,
        settings: Settings,
        pulse: Arc<Pulse>,
        sessions: Rc<Sessions>,
    ) -> Rc<Thread> {
        wire::memory::limit_to(settings.request_memory);
        Rc::new(Thread {
            serving: RefCell::new(Serving::new(site, settings)),
            timers: Timers::new(),
            draining: Cell::new(false),
            places: Places::new(settings.connections),
            sessions,
            receive_room: RefCell::default(),
            requests: Pool::default(),
            http1_requests: Pool::default(),
            header_list: RefCell::default(),
            pulse,
            detached: Rc::default(),
            adopt: OnceCell::new(),
        })
    }

    /// Goes on with a detached request under this site, unless there are too many.
    pub(crate) fn detach(&self, request: engine::Detached, serving: &Rc<Serving>) {
        if !self.adopt.get().is_some_and(|adopt| adopt(request, serving)) {
            serving.site.log(Level::Error, "a copy of a request is dropped: too many are under way");
        }
    }

    /// Whether nothing goes on that began here.
    pub(crate) fn is_idle(&self) -> bool {
        self.places.taken() == 0 && self.detached.get() == 0
    }

    /// What serves new connections.
    pub(crate) fn serving(&self) -> Rc<Serving> {
        Rc::clone(&self.serving.borrow())
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.serving.borrow().site.log(level, message);
    }

    /// Ends the requests of the site that serves, and logs them.
    pub(crate) fn end_requests(&self) {
        self.serving.borrow().stage.set(Stage::Over);
        self.timers.wake_all();
    }

    /// Lets another site serve, and all who wait look who they belong to.
    pub(crate) fn succeed(self: &Rc<Thread>, site: Arc<Site>, settings: Settings) {
        let past = self.serving.replace(Serving::new(site, settings));
        past.stage.set(Stage::Past);
        self.requests.forget();
        self.http1_requests.forget();
        site::forget();
        self.places.limit_to(settings.connections);
        wire::memory::limit_to(settings.request_memory);
        spawn_local(give_up_behind(Arc::downgrade(&past.site)));
        if let Some(limit) = past.settings.shutdown_timeout {
            let (thread, past) = (Rc::clone(self), Rc::downgrade(&past));
            spawn_local(async move {
                tokio::time::sleep(limit).await;
                if let Some(past) = past.upgrade() {
                    past.stage.set(Stage::Over);
                    thread.timers.wake_all();
                }
            });
        }
        self.timers.wake_all();
    }
}

/// Gives up what the thread keeps for a site, once no thread has it any more. Most sites are gone soon; one that serves a
/// connection for days is looked at seldom.
async fn give_up_behind(site: Weak<Site>) {
    let mut pause = GONE_SOON;
    while site.strong_count() > 0 {
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(GONE_LATE);
    }
    contract::leavings::give_up();
}

/// Counts a connection for as long as it lives.
pub(crate) struct Counted {
    thread: Rc<Thread>,
    /// What the connection does.
    pub(crate) activity: Activity,
}

impl Counted {
    pub(crate) fn new(thread: &Rc<Thread>) -> Option<Counted> {
        thread.places.take().then(|| {
            counters::add(Count::Handled);
            Counted { thread: Rc::clone(thread), activity: Activity::new() }
        })
    }

    pub(crate) fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.thread.places.release();
    }
}
