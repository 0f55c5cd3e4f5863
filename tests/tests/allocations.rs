//! What requests cost in allocations: a file that is in memory is served without any, and a request is passed on with few;
//! and what a request holds that waits.

mod allocator;

use crate::http2::raw::{HEADERS, Raw, get};
use conf::{Diagnostic, Memory};
use contract::{Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Step, View};
use net::bind::bind;
use net::channel::{Command, channel};
use net::{BoundSocket, Endpoint, ListenOptions, SocketAddress};
use server::{Settings, Worker, run};
use site::{Options, Site, load};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tests::client::Client;
use tests::origin::{After, Origin, raw};
use tests::wait::until;

/// How many requests in a row are to allocate nothing.
const ROW: usize = 20;

/// How many a request may need that is passed on: its content.
const PASSED_MAX: u64 = 1;

/// How many connections wait at first, and how many then wait in addition. With the probe they fill the tables that grow
/// by doubling.
const WAITING: usize = 63;

/// How many bytes a connection may hold that waits for an upstream, without the memory of the kernel.
const WAITING_MAX: usize = 7300;

/// How many streams of a connection wait.
const WAITING_STREAMS: u32 = 100;

/// How many bytes a stream may hold that waits for its client.
const WAITING_STREAM_MAX: usize = 3072;

/// How long it may take until the file is in memory: one that is younger than two seconds is not kept there.
const LIMIT: Duration = Duration::from_secs(30);

/// What the serving thread had allocated when the last request was logged, and when the one before was.
static COUNTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// How many bytes the serving thread had when the last request was logged.
static LIVE: AtomicUsize = AtomicUsize::new(0);

static COUNTING: Module =
    Module { name: "counting", directives: &[], variables: &[], compile: Some(compile) };

fn compile(_: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.handle(Phase::Log, Count);
    Ok(())
}

struct Count;

impl Handler for Count {
    fn run(&self, _: &mut Exchange) -> Step {
        COUNTS[1].store(COUNTS[0].load(Ordering::SeqCst), Ordering::SeqCst);
        COUNTS[0].store(allocator::count(), Ordering::SeqCst);
        LIVE.store(allocator::live(), Ordering::SeqCst);
        Step::Next
    }
}

/// How often the server allocated since the request before this one was logged.
fn allocations(client: &mut Client, request: &str) -> u64 {
    let answer = client.exchange(request).expect("an answer");
    assert_eq!(answer.status, 200);
    // The answer leaves after it was logged. Another thread counts from zero.
    COUNTS[0].load(Ordering::SeqCst).wrapping_sub(COUNTS[1].load(Ordering::SeqCst))
}

/// A file in memory, without a log and with logs that are gathered, and with fields that are added. All threads share the counts: one test after the other.
#[test]
fn a_file_in_memory_needs_none() {
    for (logs, fields) in [
        ("access_log off;", ""),
        ("access_log DIR/combined combined buffer=64k flush=1h;", ""),
        (
            "access_log DIR/fields combined buffer=64k; expires 1h; add_header X-Uri $request_uri; \
             add_header X-Who \"$host for $remote_addr\" always; add_header X-Fixed yes;",
            "",
        ),
        (
            "log_format own '$remote_addr [$time_iso8601] $request_time $connection_time $msec \"$request\" \
             $status $bytes_sent $http_user_agent'; \
             access_log DIR/own own buffer=64k if=$request_method; access_log DIR/json json buffer=64k;",
            "\nUser-Agent: agent",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let logs = logs.replace("DIR", &directory.path().display().to_string());
        needs_none(directory.path(), &logs, &format!("GET /a.txt{fields}"));
    }
}

/// A request that is passed on, and its answer of one kilobyte, over connections that stand.
#[test]
fn an_answer_that_is_passed_on_needs_few() {
    let origin = Origin::start(|_| {
        let content = "x".repeat(1024);
        let head = "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sat, 21 Nov 2026 20:05:56 GMT\r\nContent-Type: text/plain";
        raw(
            &format!("{head}\r\nContent-Length: 1024\r\nConnection: keep-alive\r\n\r\n{content}"),
            After::Keep,
        )
    });
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text = format!(
        "error_log stderr; http {{ access_log off; keepalive_requests 100000; \
         upstream u {{ server {}; keepalive 8; keepalive_requests 100000; }} server {{ listen {address}; \
         location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header X-Real-IP $remote_addr; }} }} }}",
        origin.address()
    );
    let request = "GET /a?b=c\nUser-Agent: agent\nAccept: */*";
    let counted = counted_within(PASSED_MAX, text, (sockets, address), request);
    assert!(counted.iter().all(|count| *count <= PASSED_MAX), "{counted:?}");
}

/// A request that waits for its upstream, which has the request and does not answer.
#[test]
fn a_connection_that_waits_for_an_upstream_holds_little() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    upstream.set_nonblocking(true).unwrap();
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text = format!(
        "error_log stderr crit; http {{ access_log off; server {{ listen {address}; location /wait {{ \
         proxy_pass http://{}; proxy_set_header X-Real-IP $remote_addr; }} \
         location / {{ return 200; }} }} }}",
        upstream.local_addr().unwrap()
    );
    let mut held = Vec::new();
    serve(text, sockets, &COUNTING, || {
        let mut waiting = Vec::new();
        let mut probe = Client::connect(address);
        probe.extend(2 * LIMIT);
        for _ in 0..2 {
            for _ in 0..WAITING {
                let mut client = Client::connect(address);
                client.send(b"GET /wait HTTP/1.1\r\nHost: a\r\nUser-Agent: agent\r\n\r\n");
                let mut accepted = None;
                until(LIMIT, || {
                    accepted = upstream.accept().ok();
                    accepted.is_some()
                });
                let (mut connection, _) = accepted.expect("a connection to the upstream");
                connection.set_nonblocking(false).unwrap();
                connection.set_read_timeout(Some(LIMIT)).unwrap();
                // The server has sent the request, and waits for the answer.
                assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
                waiting.push((client, connection));
            }
            probe.exchange("GET /").expect("an answer");
            // The second answer follows the log of the first one.
            probe.exchange("GET /").expect("an answer");
            held.push(LIVE.load(Ordering::SeqCst));
        }
    });
    let each = (held[1] - held[0]) / WAITING;
    assert!((1000..=WAITING_MAX).contains(&each), "{each} bytes for each connection");
}

/// Streams of HTTP/2 whose client takes nothing.
#[test]
fn a_stream_that_waits_for_its_client_holds_little() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "x".repeat(100_000)).unwrap();
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text = format!(
        "error_log stderr crit; http {{ access_log off; server {{ listen {address}; http2 on; root {}; \
         location = / {{ return 200; }} }} }}",
        directory.path().display()
    );
    let mut held = Vec::new();
    serve(text, sockets, &COUNTING, || {
        let mut waiting = Vec::new();
        let mut probe = Client::connect(address);
        probe.extend(2 * LIMIT);
        for _ in 0..2 {
            let mut client = Raw::connect(address, 0);
            for index in 0..WAITING_STREAMS {
                client.send(&get(2 * index + 1, "/a.txt"));
            }
            // The heads of all responses were sent.
            client.find(|frame| frame.kind == HEADERS && frame.stream == 2 * WAITING_STREAMS - 1);
            waiting.push(client);
            probe.exchange("GET /").expect("an answer");
            probe.exchange("GET /").expect("an answer");
            held.push(LIVE.load(Ordering::SeqCst));
        }
    });
    let each = (held[1] - held[0]) / WAITING_STREAMS as usize;
    assert!((500..=WAITING_STREAM_MAX).contains(&each), "{each} bytes for each stream");
}

fn needs_none(directory: &Path, logs: &str, request: &str) {
    std::fs::write(directory.join("a.txt"), "x".repeat(1024)).unwrap();
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text = format!(
        "error_log stderr; http {{ {logs} open_file_cache max=10; open_file_cache_valid 1h; \
         keepalive_requests 100000; server {{ listen {address}; root {}; }} }}",
        directory.display()
    );
    let counted = counted_within(0, text, (sockets, address), request);
    assert!(counted.iter().all(|count| *count == 0), "with {logs} {counted:?}");
}

/// How often each of some requests in a row allocated, as soon as none did so more than `most` times.
fn counted_within(
    most: u64,
    configuration: String,
    (sockets, address): (Vec<BoundSocket>, SocketAddr),
    request: &str,
) -> Vec<u64> {
    let mut counted = Vec::new();
    serve(configuration, sockets, &COUNTING, || {
        let mut client = Client::connect(address);
        client.extend(2 * LIMIT);
        until(LIMIT, || {
            counted = (0..ROW).map(|_| allocations(&mut client, request)).collect();
            counted.iter().all(|count| *count <= most)
        });
    });
    counted
}

/// Runs a server of one thread with this configuration and one more module while the clients do their work.
pub(super) fn serve(
    configuration: String,
    sockets: Vec<BoundSocket>,
    added: &'static Module,
    clients: impl FnOnce(),
) {
    // All threads share the counts.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let inputs = Memory::default().with("/etc/x.conf", configuration);
    let options = Options {
        path: "/etc/x.conf".into(),
        prefix: "/etc".into(),
        globals: None,
        apache: Default::default(),
    };
    let modules: Vec<&'static Module> = modules::ALL.iter().copied().chain([added]).collect();
    let loading = Loading::new(Path::new("/etc"), Path::new("/etc"));
    let mut loaded = load(&inputs, &options, &modules, loading);
    let site = Arc::new(Site::compile(&mut loaded, &modules).unwrap());
    site.logs.iter().for_each(|file| file.open().unwrap());
    let (supervisor, channel) = channel().unwrap();
    let settings =
        Settings { connections: 1000, shutdown_timeout: None, request_memory: None, drains: false };
    let replay = Arc::new(|_: &[u8], _| Err(String::new()));
    let (sockets, processors) = (vec![sockets], Vec::new());
    let worker = Worker { site, sockets, threads: 1, processors, settings, replay, channel, older: None };
    let worker = std::thread::spawn(move || run(worker));
    clients();
    supervisor.send(Command::Terminate).unwrap();
    worker.join().unwrap().unwrap();
}
