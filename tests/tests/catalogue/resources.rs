//! What the system does not give (rows L1–L22).
//!
//! | row | elsewhere |
//! |---|---|
//! | L2 | `process::signals::usr1_reopens_logs` |
//! | L11 | `process::listening::a_killed_worker_is_replaced`; `server::worker` for a thread that panics |
//! | L8, L12, L16–L18, L21 | `catalogue::system` |

use std::fs::{self, File};
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Resource, Signal, kill_process};
use tests::binary::Server;
use tests::crowd::slow_reader;
use tests::origin::{Origin, ok};
use tests::site::{Running, Site, is_alive};
use tests::{parts, wait, worker};

use super::surroundings::{Alone, Tracer, whole};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server in front of an origin that tells how long its request was.
fn in_front_of(origin: &Origin, settings: &str) -> Running {
    let http = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; client_max_body_size 100m; {settings}
             location / {{ proxy_pass http://{}; }} location /made {{ return 200 ok; }} }}",
        origin.address()
    );
    Site::new(&http).start(Server::Fulmar)
}

fn upload(running: &Running, path: &str, length: usize) -> Option<u16> {
    let mut client = running.connect();
    client.extend(PATIENCE);
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").as_bytes());
    client.send(&vec![b'x'; length]);
    client.response("POST").map(|response| response.status)
}

/// L1: an upload that the disk has no room for is refused, and when there is room again the next one is taken.
#[test]
fn l1_no_room_for_a_body() {
    let origin = Origin::start(|asked| ok(asked.text.len().to_string()));
    let running = in_front_of(&origin, "client_body_temp_path %%LOGS%%;");
    let process = worker::of(&running);
    worker::limit(process, Resource::Fsize, Some(100_000));
    for _ in 0..3 {
        assert!(matches!(upload(&running, "/", 1_000_000), None | Some(500)));
        assert_eq!(upload(&running, "/", 1_000), Some(200));
    }
    running.wait_for_log("error.log", "the body of a request cannot be kept");
    worker::limit(process, Resource::Fsize, None);
    assert_eq!(upload(&running, "/", 1_000_000), Some(200));
    assert_eq!(worker::of(&running), process, "the worker is another one");
    running.stop();
}

/// L1: a response that the disk has no room for comes whole from memory, or is cut; it is never taken for whole.
#[test]
fn l1_no_room_for_a_response() {
    const SIZE: usize = 24 << 20;
    let origin = Origin::start(|_| ok(vec![b'x'; SIZE]));
    let running = in_front_of(&origin, "proxy_temp_path %%LOGS%%;");
    let process = worker::of(&running);
    worker::limit(process, Resource::Fsize, Some(100_000));
    let mut reader = slow_reader(running.address());
    reader.set_read_timeout(Some(PATIENCE)).expect("a limit");
    reader.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("send");
    // Nothing is read for a while, so that the response has to be kept somewhere.
    wait::pause(Duration::from_millis(500));
    let mut received = Vec::new();
    let _ = reader.read_to_end(&mut received);
    let head = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let is_cut = received.len() < head + SIZE && !received.ends_with(b"0\r\n\r\n");
    assert!(is_cut || received.len() == head + SIZE, "{} bytes", received.len());
    assert_eq!(running.ask("GET /made").statuses(), [200]);
    assert_eq!(worker::of(&running), process, "the worker is another one:\n{}", running.all_logs());
    running.stop();
}

/// L1: a log that the disk has no room for loses lines, complains now and then, and goes on when there is room.
#[test]
fn l1_no_room_for_a_log() {
    let running = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }").start(Server::Fulmar);
    let process = worker::of(&running);
    worker::limit(process, Resource::Fsize, Some(2_000));
    for at in 0..300 {
        assert_eq!(running.ask(&format!("GET /{at}\nConnection: close")).statuses(), [200]);
    }
    assert!(running.log("access.log").len() <= 2_000);
    worker::limit(process, Resource::Fsize, None);
    let resumed = wait::until(PATIENCE, || {
        running.ask("GET /resumed\nConnection: close");
        running.log("access.log").contains("/resumed")
    });
    assert!(resumed, "{}", running.log("access.log"));
    let log = running.log("access.log");
    assert!(
        log.lines().filter(|line| line.contains("/resumed")).all(|line| line.starts_with("127.0.0.1 - "))
    );
    assert_eq!(worker::of(&running), process, "the worker is another one");
    running.stop_alerted();
}

/// L1: the same where the device says so (ENOSPC).
#[test]
fn l1_a_full_device() {
    let running = Site::new("server { listen 127.0.0.1:%%PORT%%; access_log /dev/full; return 200 ok; }")
        .start(Server::Fulmar);
    for _ in 0..200 {
        assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
    }
    running.wait_for_log("error.log", "No space left on device");
    let complaints = running.log("error.log").matches("No space left on device").count();
    assert!(complaints < 20, "{complaints} complaints about 200 lines");
    running.stop_alerted();
}

/// L2: nobody waits for a reader of a log.
#[test]
fn l2_a_log_that_nobody_reads() {
    let site = Site::new("access_log %%DIR%%/fifo; server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let fifo = site.prefix().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("fifo");
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    let mut reader = File::options().read(true).custom_flags(nonblocking).open(&fifo).expect("open");
    let running = site.start(Server::Fulmar);
    let long = "x".repeat(4_000);
    for at in 0..50 {
        assert_eq!(running.ask(&format!("GET /{at}{long}\nConnection: close")).statuses(), [200], "{at}");
    }
    let mut log = vec![0; 1 << 20];
    let read = reader.read(&mut log).expect("what the pipe held");
    assert!(log[..read].starts_with(b"127.0.0.1 - ") && read >= 4_000);
    drop(reader);
    assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200], "nobody is at the other end");
    running.stop_alerted();
}

/// L2: a pipe without a reader neither hangs the start nor the reload.
#[test]
fn l2_a_pipe_without_a_reader() {
    let site = Site::new("access_log %%DIR%%/fifo; server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let fifo = site.prefix().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("fifo");
    match site.try_start(Server::Fulmar) {
        Ok(running) => {
            assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
            running.stop();
        }
        Err(text) => assert!(text.contains("fifo"), "{text}"),
    }
}

/// L3: without descriptors new clients wait, those in the middle of a request are served, nothing spins, and it is over
/// when there are descriptors again.
#[test]
fn l3_no_descriptor_left() {
    let site =
        Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made { return 200 ok; } }")
            .file("f.txt", "file\n");
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    assert_eq!(running.ask("GET /made\nConnection: close").statuses(), [200]);
    let spare = 10;
    worker::limit(process, Resource::Nofile, Some((worker::descriptors(process) + spare) as u64));
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = running.connect();
        client.extend(PATIENCE);
        let begun = "GET /f.txt HTTP/1.1\r\nHost: a\r\nX: ";
        if clients.is_empty() {
            // The server reads both at once: this connection is in the middle of a request before the others come.
            client.send(format!("GET /made HTTP/1.1\r\nHost: a\r\n\r\n{begun}").as_bytes());
            assert_eq!(client.response("GET").expect("an answer").status, 200);
        } else {
            client.send(begun.as_bytes());
        }
        clients.push(client);
    }
    running.wait_for_log("error.log", "(24: Too many open files)");
    let before = worker::ticks(process);
    wait::pause(Duration::from_secs(1));
    let spent = worker::ticks(process) - before;
    assert!(spent < 50, "{spent} hundredths of a second for nothing");
    // A file cannot be opened, and that is an answer, too; then there is a descriptor.
    clients[0].send(b"x\r\nConnection: close\r\n\r\n");
    let status = clients[0].response("GET").expect("who is here is answered").status;
    assert!(matches!(status, 200 | 500 | 503), "{status}");
    let complaints = running.log("error.log").matches("accept() failed").count();
    assert!(complaints < 50, "{complaints} complaints");
    worker::limit(process, Resource::Nofile, Some(1000));
    // A connection of which the server had read nothing yet counts as idle, and idle connections make room for others.
    // No more than the spare descriptors can be such connections: all clients that waited in the queue are answered.
    let mut closed = 0;
    for client in &mut clients[1..] {
        client.send(b"x\r\nConnection: close\r\n\r\n");
        match client.response("GET") {
            Some(answer) => assert_eq!(answer.text(), "file\n"),
            None => closed += 1,
        }
    }
    assert!(closed < spare, "{closed} clients got no answer: {}", running.all_logs());
    assert_eq!(worker::of(&running), process);
    running.stop_alerted();
}

/// L4: a worker that gets no memory is replaced; the sockets stay.
#[test]
fn l4_no_memory() {
    let origin = Origin::start(|asked| ok(asked.text.len().to_string()));
    let running = in_front_of(&origin, "client_body_buffer_size 90m;");
    let process = worker::of(&running);
    assert_eq!(running.ask("GET /made\nConnection: close").statuses(), [200]);
    worker::limit(process, Resource::As, Some(worker::address_space(process) + (24 << 20)));
    // All of it would have to be in memory.
    let status = upload(&running, "/", 80 << 20);
    assert!(matches!(status, None | Some(500 | 503)), "{status:?}");
    let answered = || running.ask("GET /made\nConnection: close").statuses() == [200];
    assert!(wait::until(PATIENCE, answered), "{}", running.all_logs());
    let now = worker::of(&running);
    worker::limit(now, Resource::As, None);
    assert_eq!(upload(&running, "/", 1 << 20), Some(200), "{}", running.all_logs());
    running.stop_alerted();
}

/// L6: a connection that broke before it was taken is nobody's business, and does not keep the next one waiting.
#[test]
fn l6_connections_that_broke_in_the_queue() {
    let running = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }").start(Server::Fulmar);
    for error in ["ECONNABORTED", "EPROTO", "ENETDOWN", "EHOSTUNREACH", "EINTR"] {
        let inject = format!("inject=accept4:error={error}:when=1+2");
        let Some(tracer) = Tracer::attach(worker::of(&running), &["-e", "trace=accept4", "-e", &inject])
        else {
            return;
        };
        // An injected error takes no connection out of the queue; whether the next look does shows the next arrival.
        let mut clients: Vec<_> = (0..8).map(|_| running.connect()).collect();
        for client in clients.iter_mut().take(4) {
            client.extend(PATIENCE);
            assert_eq!(client.exchange("GET /").expect("an answer").status, 200, "{error}");
        }
        tracer.leave();
        assert!(!running.log("error.log").contains("[crit]"), "{error}: {}", running.all_logs());
    }
    running.stop();
}

/// L6, L7: a disk or a network that fails in the middle of a response ends that connection only.
#[test]
fn l7_an_error_in_the_middle() {
    const LARGE: usize = 24 << 20;
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; sendfile on; location /copied/ { alias %%ROOT%%/; sendfile off; } }",
    )
    .file("large", vec![b'x'; LARGE])
    .file("f.txt", "file\n");
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    let large = site.root().join("large").display().to_string();
    for (path, calls) in [("/large", "sendfile"), ("/copied/large", "pread64,preadv2,preadv,read")] {
        let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO:when=12+"));
        let Some(tracer) = Tracer::attach(process, &["-P", &large, "-e", &trace, "-e", &inject]) else {
            return;
        };
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(client.closes_within(PATIENCE), "{calls}");
        assert!(client.rest().len() < LARGE, "{calls}");
        tracer.leave();
        assert_eq!(running.ask("GET /f.txt\nConnection: close").last().text(), "file\n");
    }
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// L9: deadlines are of the clock that never jumps; dates are of the one that does.
#[test]
fn l9_a_clock_that_jumps() {
    let site = Site::whole("").file("f.txt", "file\n");
    let Some(clock) = Clock::build(&site.prefix()) else { return };
    let Some(mut server) = clock.start(&site) else { panic!("it does not start") };
    let year: i64 = 365 * 24 * 3600;
    let address = server.address;
    let mut kept = tests::client::Client::connect(address);
    kept.extend(PATIENCE);
    let now = httpdate::fmt_http_date(std::time::SystemTime::now());
    for jump in [year, -year, 13 * year, -30 * year, 80 * year, 0] {
        clock.set(jump);
        let mut silent = tests::client::Client::connect(address);
        silent.extend(PATIENCE);
        silent.send(b"GET / HTT");
        let mut response =
            kept.exchange("GET /f.txt").unwrap_or_else(|| panic!("{jump}: a kept connection does not stay"));
        // The clock is read once in a while.
        let moved = wait::until(PATIENCE, || {
            response = kept
                .exchange("GET /f.txt")
                .unwrap_or_else(|| panic!("{jump}: a kept connection does not stay"));
            let date = response.field("Date").expect("a date");
            let years = |date: &str| {
                date.split(' ').nth(3).and_then(|year| year.parse::<i64>().ok()).expect("a year")
            };
            years(date) - years(&now) == jump / year
        });
        assert!(moved, "{jump}: {response}");
        assert_eq!((response.status, response.text().as_str()), (200, "file\n"), "{jump}");
        let is_date = |name| response.field(name).is_some_and(|date| httpdate::parse_http_date(date).is_ok());
        assert!(is_date("Date") && is_date("Expires") && is_date("Last-Modified"), "{jump}: {response}");
        assert!(silent.closes_within(PATIENCE), "{jump}: no deadline any more");
    }
    server.stop();
}

/// L13: workers do not outlive their supervisor, and its port and its path are free for the next one.
#[test]
fn l13_a_killed_supervisor() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; listen unix:%%DIR%%/socket; return 200 ok; }");
    let mut running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    running.signal(Signal::KILL);
    assert!(wait::until(PATIENCE, || !is_alive(process)), "the worker lives on");
    let refused = || TcpStream::connect(running.address()).is_err();
    assert!(wait::until(PATIENCE, refused), "the port is still open");
    assert!(running.ends_within(PATIENCE));
    let again = site.start(Server::Fulmar);
    assert_eq!(again.ask("GET /\nConnection: close").statuses(), [200]);
    again.stop();
}

/// L14: hundreds of signals in any order, some to a worker, for which they are not, and in the end there is one configuration and one worker.
#[test]
fn l14_a_storm_of_signals() {
    let server = |text: &str| format!("server {{ listen 127.0.0.1:%%PORT%%; return 200 {text}; }}");
    let running = Site::new(&server("first")).start(Server::Fulmar);
    let supervisor = running.pid();
    let storm = [Signal::HUP, Signal::USR1, Signal::CHILD, Signal::PIPE, Signal::ALARM, Signal::HUP];
    let mut state: u32 = 1;
    for at in 0..400 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        kill_process(supervisor, storm[(state >> 16) as usize % storm.len()]).expect("signal");
        if at == 200 {
            running.rewrite(&server("last"));
        }
        if at % 40 == 0 {
            let process = worker::of(&running);
            let _ =
                kill_process(process, [Signal::HUP, Signal::USR2, Signal::PIPE, Signal::ALARM][at / 40 % 4]);
        }
    }
    kill_process(supervisor, Signal::HUP).expect("signal");
    let settled = wait::until(PATIENCE, || {
        running.ask("GET /\nConnection: close").responses.first().is_some_and(|one| one.text() == "last")
            && Running::children(supervisor).len() == 1
    });
    assert!(settled, "{:?}:\n{}", Running::children(supervisor), running.all_logs());
    assert_eq!(running.pid(), supervisor);
    running.stop_alerted();
}

/// L19: a zone that is full forgets who came first; nothing breaks.
#[test]
fn l19_a_full_zone() {
    let running = Site::new(
        "limit_req_zone $arg_a zone=few:32k rate=1000r/s; limit_conn_zone $arg_a zone=conns:32k;
         server { listen 127.0.0.1:%%PORT%%; keepalive_requests 100000; limit_req zone=few burst=5; limit_conn conns 5; return 200 ok; }",
    )
    .start(Server::Fulmar);
    let mut client = running.connect();
    client.extend(PATIENCE);
    let long = "x".repeat(60);
    for at in 0..3000 {
        let status = client.exchange(&format!("GET /?a={at}{long}")).expect("an answer").status;
        assert!(matches!(status, 200 | 503), "{at}: {status}");
    }
    assert_eq!(client.exchange("GET /?a=last").expect("an answer").status, 200);
    drop(client);
    running.stop();
}

/// L22: nothing that surrounds the start decides what is served: no standard streams, no environment, or one that lies.
#[test]
fn l22_hostile_surroundings() {
    let site = Site::whole("").file("f.txt", "file\n");
    let lies = [
        ("TZ", "Nowhere/At_All"),
        ("LC_ALL", "xx_YY.none"),
        ("HOME", "\u{1}"),
        ("PATH", ""),
        ("LISTEN_FDS", "3"),
    ];
    for (environment, streams) in
        [(&lies[..], ""), (&[], ""), (&[], " 0<&- 1>&- 2>&-"), (&lies[..], " 0<&- 2>&-")]
    {
        let Some(mut server) = Alone::start(&site, environment, streams) else {
            panic!("it does not start with {environment:?} and {streams:?}")
        };
        let answer = tests::client::ask(server.address, "GET /f.txt\nConnection: close");
        assert_eq!(answer.last().text(), "file\n");
        for process in [server.pid, Running::children(server.pid)[0]] {
            // What was closed may not have become a socket or a log.
            for stream in (0..3).filter(|stream| streams.contains(&format!(" {stream}"))) {
                let target = fs::read_link(format!("/proc/{process}/fd/{stream}")).unwrap_or_default();
                let target = target.display().to_string();
                let is_other = target.starts_with("socket:") || target.ends_with(".log");
                assert!(!is_other, "descriptor {stream} is {target}");
            }
        }
        server.stop();
    }
}

/// A clock of the day that can be set for one server: a library that is loaded before all others.
pub(super) struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        char text[32] = {0};
        int file = open(OFFSET, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0)
                time->tv_sec += atoll(text);
            close(file);
        }
    }
    return (int)result;
}
"#;

impl Clock {
    /// None where there is no C compiler.
    pub(super) fn build(directory: &Path) -> Option<Clock> {
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        fs::write(&source, CLOCK).expect("source");
        let mut compiler = Command::new("cc");
        let offset = directory.join("offset");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        let built = compiler.arg(format!("-DOFFSET=\"{}\"", offset.display())).status();
        let there = parts::is_present("cc", built.is_ok_and(|status| status.success()));
        let clock = there.then_some(Clock { library, offset })?;
        clock.set(0);
        Some(clock)
    }

    /// Moves the clock so many seconds from the true time.
    pub(super) fn set(&self, offset: i64) {
        let beside = self.offset.with_extension("next");
        fs::write(&beside, offset.to_string())
            .and_then(|()| fs::rename(&beside, &self.offset))
            .expect("offset");
    }

    fn start(&self, site: &Site) -> Option<Alone> {
        let configuration = "open_file_cache max=10; open_file_cache_valid 1s;
            server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; client_header_timeout 500ms; expires 1h; }";
        self.start_with(site, configuration)
    }

    /// Starts a server with this content of `http {}`.
    pub(super) fn start_with(&self, site: &Site, configuration: &str) -> Option<Alone> {
        let ports = site.write_configuration(Server::Fulmar, &whole(configuration));
        let mut command = Command::new("/usr/bin/env");
        command.current_dir(site.prefix());
        command.arg(format!("LD_PRELOAD={}", self.library.display()));
        Alone::run(command, site, ports[&0])
    }
}
