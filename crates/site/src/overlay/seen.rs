//! What a thread saw of files since it last took events from the kernel.
//!
//! Requests that a thread answers one after the other need the same files. A request may use an earlier look at a file if
//! the thread made it after the first byte of the request had arrived. An edit that was complete before the client sent
//! the request was then complete before the look, which sees it. How much time has passed since does not matter.
//!
//! Two rules say when a request had arrived. [`net::moment`] numbers the calls that take something from the kernel:
//!
//! - All that the thread has read arrived before the present moment. So the requests of one read, such as those for the
//!   parts of a page over HTTP/2, share looks, and so do the lookups of one request that a rule leads elsewhere.
//! - Under load one call reports many connections as readable. If nothing was read from such a connection since, and
//!   nothing of a request was left from before, then the next request began before that call ([`net::events_moment`]). It
//!   shares the looks that were made for other connections since.
//!
//! Where nothing but the files decides which scope applies, the scope is kept with the looks and shared like them.
//!
//! A request that has waited looks for itself: what it waited for, such as a program, may have changed the files.

use super::files::Files;
use contract::{Exchange, Overlaid, Overlay, Scope};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// How many requests' files are kept, and the longest path among them, in bytes.
const WAYS_MAX: usize = 16;
const PATH_MAX: usize = 1024;

/// For so long the files of a request save work, in milliseconds. Then they are looked up in the cache again, which notes
/// that they are in use.
const PAST_MS_MAX: u64 = 1000;

thread_local! {
    /// A moment before which the first byte of the request had arrived that runs now.
    static ARRIVED: Cell<Option<u64>> = const { Cell::new(None) };
    static SEEN: RefCell<Seen> =
        const { RefCell::new(Seen { events: 0, arrived: 0, ways: Vec::new(), past: Vec::new() }) };
}

/// While it lives, the thread runs one request, which does not wait.
#[derive(Debug)]
pub struct SharedLooks(());

impl SharedLooks {
    /// Lets the request that runs now share looks at files. Its first byte had arrived before this moment of the thread.
    #[must_use]
    pub fn begin(arrived: u64) -> SharedLooks {
        ARRIVED.set(Some(arrived));
        SharedLooks(())
    }
}

impl Drop for SharedLooks {
    fn drop(&mut self) {
        ARRIVED.set(None);
    }
}

/// Calls a function with what the request that runs now may share. A request that has waited shares nothing.
pub(super) fn shared<T>(use_seen: impl FnOnce(&mut Seen) -> T) -> Option<T> {
    let arrived = ARRIVED.get()?;
    SEEN.with_borrow_mut(|seen| {
        seen.begin(net::events_moment(), arrived);
        Some(use_seen(seen))
    })
}

/// What was chosen for a request for the same path in the same location, if the request that runs now may share that.
pub(super) fn chosen(exchange: &Exchange) -> Option<Rc<Overlaid>> {
    shared(|seen| seen.chosen(&exchange.scope, &exchange.request.path)).flatten()
}

/// Forgets all: another site serves.
pub(super) fn forget() {
    SEEN.take();
}

/// What was seen since the thread took events.
#[derive(Default)]
pub(super) struct Seen {
    /// The moment when it took events.
    events: u64,
    /// A moment before which the request had arrived.
    arrived: u64,
    /// The latest last.
    ways: Vec<Way>,
    /// Those of before. They save work where a new look finds the same files.
    past: Vec<Way>,
}

/// The files of one request.
#[derive(Clone)]
pub(super) struct Way {
    /// The moment of the first look at any of them.
    pub(super) moment: u64,
    /// What is at the request's own path, and the scopes.
    pub(super) own: Rc<Overlaid>,
    /// Where the directories end in that path.
    pub(super) directories_end: usize,
    pub(super) files: Rc<Files>,
    /// Whether the scope with the settings is known, since nothing but the files decides which one it is.
    pub(super) is_chosen: bool,
}

impl Way {
    /// The scope with the settings, if it is known and still kept.
    pub(super) fn chosen(&self) -> Option<Arc<Scope>> {
        if self.is_chosen { self.own.scope.upgrade() } else { None }
    }

    fn directories(&self) -> &[u8] {
        &self.own.path[..self.directories_end]
    }

    /// Whether it is that of a path in the location with this scope.
    fn is_of(&self, below: &Arc<Scope>, uri: &[u8]) -> bool {
        self.own.below.as_ptr() == Arc::as_ptr(below) && self.own.uri() == Some(uri)
    }
}

impl Seen {
    /// Begins a request. No request may use what was seen before the thread took events.
    fn begin(&mut self, events: u64, arrived: u64) {
        self.arrived = arrived;
        if self.events != events {
            self.events = events;
            std::mem::swap(&mut self.ways, &mut self.past);
            self.ways.clear();
        }
    }

    /// What was chosen for a path in the location with this scope.
    fn chosen(&self, below: &Arc<Scope>, uri: &[u8]) -> Option<Rc<Overlaid>> {
        let is_same = |way: &&Way| way.moment >= self.arrived && way.is_of(below, uri);
        let way = self.ways.iter().rev().find(is_same)?;
        way.is_chosen.then(|| Rc::clone(&way.own))
    }

    /// Takes what was chosen for a path before the thread took events. It is no more than a guess.
    pub(super) fn take_past(&mut self, below: &Arc<Scope>, uri: &[u8], now: u64) -> Option<Way> {
        let is_same = |way: &Way| {
            way.is_chosen && way.is_of(below, uri) && now.saturating_sub(way.files.found) < PAST_MS_MAX
        };
        let place = self.past.iter().position(is_same)?;
        Some(self.past.swap_remove(place))
    }

    /// Keeps what was chosen after these looks, if nothing but the files decided that.
    pub(super) fn choose(&mut self, looked: &Rc<Overlaid>, chosen: &Rc<Overlaid>) {
        if let Some(way) = self.ways.iter_mut().find(|way| Rc::ptr_eq(&way.own, looked)) {
            (way.own, way.is_chosen) = (Rc::clone(chosen), true);
        }
    }

    /// The files for a path below a root that ends there.
    pub(super) fn find(&self, path: &[u8], root: (usize, &Arc<Overlay>)) -> Option<Way> {
        self.ways(root).find(|way| way.own.path == path).cloned()
    }

    /// The files for all paths in a directory, the moment of the first look at them, and the scope, if it is known.
    pub(super) fn find_directory(
        &self,
        directory: &[u8],
        root: (usize, &Arc<Overlay>),
    ) -> Option<(Rc<Files>, u64, Option<Weak<Scope>>)> {
        // The latest of them knows most.
        let same = self.ways(root).rev().find(|way| way.directories() == directory);
        if let Some(way) = same {
            let scope = way.is_chosen.then(|| way.own.scope.clone());
            return Some((Rc::clone(&way.files), way.moment, scope));
        }
        // A front controller is in a directory above. The lengths of paths tell directories apart where slashes stand alone.
        let is_plain = !directory.windows(2).any(|pair| pair == b"//");
        let is_above =
            |way: &&Way| way.directories().strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"));
        let below = self.ways(root).find(is_above).filter(|_| is_plain)?;
        Some((Rc::new(below.files.down_to(directory.len())), below.moment, None))
    }

    fn ways(&self, root: (usize, &Arc<Overlay>)) -> impl DoubleEndedIterator<Item = &Way> {
        self.ways.iter().filter(move |way| way.moment >= self.arrived && way.files.is_below(root))
    }

    /// Keeps the files of a request.
    pub(super) fn keep(&mut self, way: Way) {
        if way.own.path.len() <= PATH_MAX {
            if self.ways.len() == WAYS_MAX {
                self.ways.remove(0);
            }
            self.ways.push(way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Arc, Files, Overlaid, Overlay, PATH_MAX, Rc, Scope, Seen, SharedLooks, WAYS_MAX, Way, Weak, shared,
    };
    use conf::Arity;
    use contract::{Config, Directive, Policy, Root, ScopeBuilder, Selection, Template};
    use std::path::{Path, PathBuf};

    static SELECTIONS: Directive<Selection> =
        Directive::new("Selections", |_, _| unreachable!()).args(Arity::Flag);

    const ROOT_END: usize = "src".len();

    fn overlay() -> Arc<Overlay> {
        let names = Arc::from([Box::from(*b"seen.rs") as Box<[u8]>]);
        let rules = Box::from([(Box::default(), None)]);
        Arc::new(Overlay { section: Config::MAIN, names, rules, selections: &SELECTIONS, share: 1 })
    }

    /// A request whose only file with settings is in `src/overlay`.
    fn way(overlay: &Arc<Overlay>, path: &str, moment: u64) -> Way {
        let directories_end = path.rfind('/').unwrap();
        let files = Files::of(overlay, Path::new("src"), Path::new("src/overlay"), 0).unwrap();
        let (uri_start, below) = (Some(ROOT_END), Weak::new());
        let (root_end, scope) = (ROOT_END, below.clone());
        let own = Overlaid { path: path.into(), uri_start, root_end, metadata: None, scope, below };
        Way { moment, own: Rc::new(own), directories_end, files: Rc::new(files), is_chosen: false }
    }

    fn scope() -> Arc<Scope> {
        let root = Root { path: Template::literal(b"src"), alias: None, prefix: PathBuf::new() };
        Arc::new(ScopeBuilder::new(None, Policy::new(root)).finish())
    }

    #[test]
    fn a_request_shares_the_looks_that_are_later_than_itself() {
        let (mut seen, overlay) = (Seen::default(), overlay());
        let finds = |seen: &mut Seen, events, arrived| {
            seen.begin(events, arrived);
            let found = seen.find(b"src/overlay/b.html", (ROOT_END, &overlay)).is_some();
            assert_eq!(seen.find_directory(b"src/overlay", (ROOT_END, &overlay)).is_some(), found);
            found
        };
        // Events at 1; the first connection is read at 2, where its request looks.
        seen.begin(1, 1);
        seen.keep(way(&overlay, "src/overlay/b.html", 2));
        assert!(finds(&mut seen, 1, 1), "a connection that was reported with the first one, and read later");
        assert!(finds(&mut seen, 1, 2), "a request of the same read");
        assert!(!finds(&mut seen, 1, 3), "a request that may have come after the look");
        assert!(!finds(&mut seen, 4, 4), "events were taken again");
    }

    #[test]
    fn a_choice_lasts_as_long_as_its_looks() {
        let (mut seen, overlay) = (Seen::default(), overlay());
        let (location, settings) = (scope(), scope());
        let mut way = way(&overlay, "src/overlay/b.html", 2);
        let looked = Overlaid { below: Arc::downgrade(&location), ..Overlaid::clone(&way.own) };
        let chosen = Rc::new(Overlaid { scope: Arc::downgrade(&settings), ..looked.clone() });
        way.own = Rc::new(looked);
        let finds = |seen: &Seen, uri: &str| {
            let found = seen.chosen(&location, uri.as_bytes());
            found.is_some_and(|own| Rc::ptr_eq(&own, &chosen))
        };
        let scope_of_directory = |seen: &Seen, directory: &str| {
            let found = seen.find_directory(directory.as_bytes(), (ROOT_END, &overlay));
            found.and_then(|(_, _, scope)| scope).is_some_and(|scope| scope.ptr_eq(&chosen.scope))
        };
        seen.begin(1, 1);
        seen.keep(way.clone());
        assert!(!finds(&seen, "/overlay/b.html") && !scope_of_directory(&seen, "src/overlay"));
        seen.choose(&way.own, &chosen);
        assert!(finds(&seen, "/overlay/b.html") && scope_of_directory(&seen, "src/overlay"));
        assert!(!finds(&seen, "/overlay/c.html") && !scope_of_directory(&seen, "src"));
        assert!(seen.chosen(&settings, b"/overlay/b.html").is_none(), "another location");
        seen.begin(1, 3);
        assert!(!finds(&seen, "/overlay/b.html"), "a request that may have come after the look");
        seen.begin(1, 2);
        assert!(finds(&seen, "/overlay/b.html"));
        drop(settings);
        assert!(chosen.scope.upgrade().is_none(), "nothing is kept for longer");
        seen.begin(4, 2);
        assert!(
            seen.find_directory(b"src/overlay", (ROOT_END, &overlay)).is_none(),
            "events were taken again"
        );
    }

    #[test]
    fn what_was_chosen_before_is_a_guess_for_a_while() {
        let (location, overlay) = (scope(), overlay());
        let way = |is_chosen| {
            let way = way(&overlay, "src/overlay/b.html", 1);
            let own = Overlaid { below: Arc::downgrade(&location), ..Overlaid::clone(&way.own) };
            Way { own: Rc::new(own), is_chosen, ..way }
        };
        let (uri, found) = (b"/overlay/b.html", way(true).files.found);
        let seen = |is_chosen, moments: &[u64]| {
            let mut seen = Seen::default();
            seen.begin(1, 1);
            seen.keep(way(is_chosen));
            moments.iter().for_each(|&moment| seen.begin(moment, moment));
            seen
        };
        let mut past = seen(true, &[4]);
        assert!(past.take_past(&location, b"/overlay/c.html", found).is_none(), "another path");
        assert!(past.take_past(&scope(), uri, found).is_none(), "another location");
        assert!(past.take_past(&location, uri, found + 1000).is_none(), "too long ago");
        assert!(past.take_past(&location, uri, found + 900).is_some());
        assert!(past.take_past(&location, uri, found).is_none(), "it was taken");
        assert!(seen(true, &[]).take_past(&location, uri, found).is_none(), "it is no guess yet");
        assert!(seen(true, &[4, 5]).take_past(&location, uri, found).is_none(), "nothing is kept for longer");
        assert!(seen(false, &[4]).take_past(&location, uri, found).is_none(), "nothing was chosen");
    }

    #[test]
    fn a_directory_above_has_a_part_of_the_files() {
        let (mut seen, overlay) = (Seen::default(), overlay());
        seen.keep(way(&overlay, "src/overlay/b.html", 1));
        let count = |directory: &[u8]| {
            seen.find_directory(directory, (ROOT_END, &overlay)).map(|(files, ..)| files.list.len())
        };
        assert_eq!((count(b"src/overlay"), count(b"src")), (Some(1), Some(0)));
        assert_eq!((count(b"sr"), count(b"src/overlay/b")), (None, None));
        assert_eq!((count(b"src/"), count(b"src/overlay/")), (None, None));
    }

    #[test]
    fn other_files_are_told_apart() {
        let (mut seen, another, overlay) = (Seen::default(), overlay(), overlay());
        seen.keep(way(&overlay, "src/overlay/b.html", 1));
        assert!(seen.find(b"src/overlay/c.html", (ROOT_END, &overlay)).is_none());
        assert!(seen.find_directory(b"src/b", (ROOT_END, &overlay)).is_none());
        for other in [("src/overlay".len(), &overlay), (ROOT_END, &another)] {
            assert!(seen.find(b"src/overlay/b.html", other).is_none());
            assert!(seen.find_directory(b"src/overlay", other).is_none());
        }
    }

    #[test]
    fn little_is_kept() {
        let (mut seen, overlay) = (Seen::default(), overlay());
        seen.keep(way(&overlay, &format!("src/{}/x", "a".repeat(PATH_MAX)), 1));
        assert!(seen.ways.is_empty());
        (0..2 * WAYS_MAX).for_each(|number| seen.keep(way(&overlay, &format!("src/{number}/x"), 1)));
        assert_eq!(seen.ways.len(), WAYS_MAX);
        assert!(seen.find(b"src/31/x", (ROOT_END, &overlay)).is_some(), "the latest are kept");
    }

    #[test]
    fn a_request_that_has_waited_shares_nothing() {
        assert!(shared(|_| ()).is_none());
        let looks = SharedLooks::begin(1);
        assert!(shared(|_| ()).is_some());
        drop(looks);
        assert!(shared(|_| ()).is_none());
    }
}
