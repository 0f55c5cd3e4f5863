//! Services: work of a site that belongs to no request.

use conf::{Diagnostic, Memory};
use contract::{Identity, Kept, Loading, Module, Origin, ScopeBuilder, Service, Threads, View};
use net::bind::bind;
use net::channel::{Command, Incoming, Parcel, Report, SupervisorEnd, channel};
use net::{Endpoint, ListenOptions, SocketAddress, Stream};
use server::{Settings, Successor, Worker, run};
use site::{Options, Site, load};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tests::client::Client;
use tests::origin::{After, Origin as Peer, raw};
use tests::wait::until;
use wire::{Job, Timer};

/// How long a thread may take to do what it should do at once.
const LIMIT: Duration = Duration::from_secs(30);

const SETTINGS: Settings =
    Settings { connections: 10, shutdown_timeout: None, request_memory: None, drains: false };

/// What the services of a test did.
#[derive(Default)]
struct Seen {
    started: AtomicUsize,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
    /// How often a timer, a job off the event loop and a socket were waited for.
    rounds: AtomicUsize,
}

static IN_ONE: Seen = Seen::new();
static IN_ALL: Seen = Seen::new();
static FAULTY: Seen = Seen::new();

/// The server that services ask.
static PEER: OnceLock<SocketAddress> = OnceLock::new();

impl Seen {
    const fn new() -> Seen {
        let [started, running, most_at_once, rounds] = [const { AtomicUsize::new(0) }; 4];
        Seen { started, running, most_at_once, rounds }
    }

    /// How many started so far, and how many run.
    fn counts(&self) -> (usize, usize) {
        (self.started.load(SeqCst), self.running.load(SeqCst))
    }
}

/// A service that goes round and round.
struct Rounds(&'static Seen);

/// A service that panics at first.
struct Faulty;

/// Counts a service while it runs.
struct Running(&'static Seen);

impl Running {
    fn new(seen: &'static Seen) -> Running {
        seen.started.fetch_add(1, SeqCst);
        seen.most_at_once.fetch_max(seen.running.fetch_add(1, SeqCst) + 1, SeqCst);
        Running(seen)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Service for Rounds {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let running = Running::new(self.0);
        Box::pin(async move {
            // The whole guard, and not only the field that is used.
            let running = running;
            let timer = Timer::here().unwrap();
            loop {
                timer.set(Duration::from_millis(1));
                poll_fn(|cx| timer.poll(cx)).await;
                assert_eq!(Job::start(|| Ok(7)).await.unwrap(), 7);
                assert!(ask().await > 0);
                running.0.rounds.fetch_add(1, SeqCst);
            }
        })
    }
}

impl Service for Faulty {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let running = Running::new(&FAULTY);
        assert!(FAULTY.counts().0 > 1, "a fault before the first await");
        Box::pin(async move {
            let running = running;
            assert!(running.0.counts().0 > 2, "a fault in the first poll");
        })
    }
}

/// The length of the first bytes of an answer.
async fn ask() -> usize {
    let mut stream = Stream::connect(PEER.get().unwrap()).unwrap();
    poll_fn(|cx| stream.poll_connected(cx)).await.unwrap();
    poll_fn(|cx| stream.poll_write(cx, b"GET / HTTP/1.1\r\n\r\n")).await.unwrap();
    poll_fn(|cx| stream.poll_read(cx, &mut [0; 512])).await.unwrap()
}

static SERVING: Module = Module { name: "serving", directives: &[], variables: &[], compile: Some(compile) };

/// Every scope adds the same services.
fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let shared = |seen: &'static Seen, name: &str| {
        view.origin().share(Identity::default().bytes(name), || Ok::<_, Diagnostic>(Rounds(seen)))
    };
    builder.serve(Threads::One, shared(&IN_ONE, "one")?);
    builder.serve(Threads::All, shared(&IN_ALL, "all")?);
    builder.serve(Threads::One, view.origin().share(Identity::default(), || Ok::<_, Diagnostic>(Faulty))?);
    Ok(())
}

/// A site with or without the services.
fn site(address: &str, has_services: bool, before: Kept) -> Site {
    let text = format!(
        "error_log stderr; http {{ access_log off; server {{ listen {address}; location / {{ return 204; }} }} }}"
    );
    let inputs = Arc::new(Memory::default().with("/etc/x.conf", text));
    let options = Options {
        path: "/etc/x.conf".into(),
        prefix: "/etc".into(),
        globals: None,
        apache: Default::default(),
    };
    let added = has_services.then_some(&SERVING);
    let modules: Vec<&'static Module> = modules::ALL.iter().copied().chain(added).collect();
    let mut loading = Loading::new(Path::new("/etc"), Path::new("/etc"));
    loading.origin = Arc::new(Origin::new(Arc::clone(&inputs) as _, before));
    let mut loaded = load(&*inputs, &options, &modules, loading);
    Site::compile(&mut loaded, &modules).unwrap()
}

/// Has the worker serve another site.
fn reload(supervisor: &SupervisorEnd, generation: u32, has_services: bool) {
    let record = vec![u8::from(has_services)];
    let parcel = Parcel { generation, record, logs: Vec::new(), sockets: Vec::new() };
    supervisor.send_parcel(&parcel).unwrap();
    let is_adopted = || match supervisor.receive().unwrap() {
        Incoming::Report(Report::Adopted(number)) => number == generation,
        Incoming::Report(Report::Declined(_, why)) => panic!("{why}"),
        Incoming::Closed => panic!("the worker ended"),
        Incoming::Report(_) | Incoming::Empty => false,
    };
    assert!(until(LIMIT, is_adopted));
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let counts = || [&IN_ONE, &IN_ALL, &FAULTY].map(Seen::counts);
    assert!(until(LIMIT, &mut ready), "{what}: {:?}", counts());
}

/// Two threads serve. The services run once and twice, are replaced by a reload, and end with the site.
#[test]
fn services_live_as_long_as_their_site() {
    let peer = Peer::start(|_| raw("HTTP/1.1 200 OK\r\n\r\n", After::Close));
    PEER.set(SocketAddress::Inet(peer.address())).unwrap();
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 2).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text = address.to_string();
    let first = Arc::new(site(&text, true, Kept::default()));
    let (supervisor, channel) = channel().unwrap();
    let replay = Arc::new(move |record: &[u8], before: Kept| {
        Ok(Successor { site: site(&text, record == [1], before), settings: SETTINGS })
    });
    let (sockets, processors) = (vec![sockets], Vec::new());
    let worker = Worker {
        site: first,
        sockets,
        threads: 2,
        processors,
        settings: SETTINGS,
        replay,
        channel,
        older: None,
    };
    let worker = std::thread::spawn(move || run(worker));
    let is_served = || Client::connect(address).exchange("GET /").is_some();

    wait_for("one, and one a thread", || (IN_ONE.counts(), IN_ALL.counts()) == ((1, 1), (2, 2)));
    wait_for("they go on", || [&IN_ONE, &IN_ALL].iter().all(|seen| seen.rounds.load(SeqCst) > 4));
    wait_for("a fault is no end", || FAULTY.counts() == (3, 0));
    assert!(is_served());
    reload(&supervisor, 2, true);
    wait_for("the next site has its own", || (IN_ONE.counts(), IN_ALL.counts()) == ((2, 1), (4, 2)));
    assert_eq!((IN_ONE.most_at_once.load(SeqCst), IN_ALL.most_at_once.load(SeqCst)), (1, 2));
    reload(&supervisor, 3, false);
    wait_for("a site without services", || (IN_ONE.counts(), IN_ALL.counts()) == ((2, 0), (4, 0)));
    assert!(is_served());
    reload(&supervisor, 4, true);
    wait_for("they begin again", || (IN_ONE.counts(), IN_ALL.counts()) == ((3, 1), (6, 2)));
    supervisor.send(Command::Terminate).unwrap();
    worker.join().unwrap().unwrap();
    assert_eq!((IN_ONE.counts().1, IN_ALL.counts().1), (0, 0), "they end with the threads");
}
