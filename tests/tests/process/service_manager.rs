//! What a service manager does with a service: it listens to what it says, and passes and keeps its sockets.

use std::fs;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tests::binary::Server;
use tests::client;
use tests::site::{Running, Site, is_alive};
use tests::wait;

use crate::stream_udp::Client;

const PATIENCE: Duration = Duration::from_secs(10);

/// A service manager of one service.
struct Manager {
    site: Site,
    socket: UnixDatagram,
}

/// What the service said at once, and what it handed over.
struct Message {
    text: String,
    passed: Vec<OwnedFd>,
}

/// The service; it ends with the test.
struct Service(Child);

impl Manager {
    /// One of a service with this content of `http`.
    fn new(http: &str) -> Manager {
        let site = Site::whole("");
        let socket = UnixDatagram::bind(site.prefix().join("notify")).expect("socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let manager = Manager { site, socket };
        manager.configure(http);
        manager
    }

    fn configure(&self, http: &str) {
        self.configure_block(&format!("http {{ access_log off; {http} }}"));
    }

    fn configure_block(&self, block: &str) {
        let user = if geteuid().is_root() { "user root;" } else { "" };
        let whole = format!(
            "daemon off; {user} worker_processes 2; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; \
             events {{ }} {block}"
        );
        self.site.write_configuration(Server::Fulmar, &whole);
    }

    /// Starts the service with at most two sockets under these names.
    fn start(&self, sockets: Vec<OwnedFd>, names: &str) -> Service {
        Service(self.command(sockets, names).spawn().expect("run"))
    }

    fn command(&self, sockets: Vec<OwnedFd>, names: &str) -> Command {
        let fulmar = self.site.command(Server::Fulmar);
        // Sockets come in as streams that every child has, and are put where a service manager puts them.
        let script = "exec 3<&0 4<&1 < /dev/null > /dev/null\nLISTEN_PID=$$ exec \"$@\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]).arg(fulmar.get_program()).args(fulmar.get_args());
        command.current_dir(self.site.prefix()).env("NOTIFY_SOCKET", self.site.prefix().join("notify"));
        command.env("LISTEN_FDS", sockets.len().to_string()).env("LISTEN_FDNAMES", names);
        let mut sockets = sockets.into_iter().map(Stdio::from);
        command.stdin(sockets.next().unwrap_or_else(Stdio::null));
        command.stdout(sockets.next().unwrap_or_else(Stdio::null));
        command.stderr(Stdio::null());
        command
    }

    /// The next message.
    fn next(&self) -> Message {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let length = received.unwrap_or_else(|error| panic!("{error}\n{}", self.log())).bytes;
        let passed = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(passed) => passed.collect(),
            _ => Vec::new(),
        });
        let passed = passed.collect();
        Message { text: String::from_utf8_lossy(&bytes[..length]).into_owned(), passed }
    }

    /// The next message that is not about keeping sockets.
    fn next_state(&self) -> String {
        loop {
            let message = self.next();
            if !message.text.starts_with("FDSTORE") {
                return message.text;
            }
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.site.logs(Server::Fulmar).join("error.log")).unwrap_or_default()
    }

    /// The process that the pid file names; none while an upgrade renames it.
    fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.site.logs(Server::Fulmar).join("pid")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }
}

impl Service {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signal");
    }

    fn ends(&mut self) {
        let ended = wait::until(PATIENCE, || self.0.try_wait().expect("wait").is_some());
        assert!(ended, "the service goes on");
    }
}

/// What an upgrade started is no child of the test.
impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = kill_process(self.pid(), Signal::TERM);
        if !wait::until(Duration::from_secs(3), || matches!(self.0.try_wait(), Ok(Some(_)))) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// At an IP address that nobody else uses, so that its port stays free when it is closed.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.9.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    (listener, address)
}

fn server(address: SocketAddr, text: &str) -> String {
    format!("server {{ listen {address}; return 200 \"{text}\"; }}")
}

fn ask(address: SocketAddr) -> String {
    client::ask(address, "GET /\nConnection: close").last().text()
}

#[test]
fn states_are_told() {
    let (free, address) = listener();
    drop(free);
    let manager = Manager::new(&server(address, "first"));
    let mut service = manager.start(Vec::new(), "");
    assert_eq!(manager.next_state(), "READY=1\nSTATUS=serving configuration 1");
    assert_eq!(ask(address), "first", "it is ready when it accepts");

    manager.configure(&server(address, "second"));
    service.signal(Signal::HUP);
    let reloading = manager.next_state();
    let time = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("a time");
    assert!(
        reloading.starts_with("RELOADING=1\n") && time.parse::<u64>().is_ok_and(|us| us > 0),
        "{reloading}"
    );
    assert_eq!(manager.next_state(), "READY=1\nSTATUS=serving configuration 2");
    assert!(wait::until(PATIENCE, || ask(address) == "second"));

    manager.configure("nonsense;");
    service.signal(Signal::HUP);
    assert!(manager.next_state().starts_with("RELOADING=1\n"));
    let refused = manager.next_state();
    let start = "READY=1\nSTATUS=serving configuration 2; the last one was refused: ";
    assert!(refused.starts_with(start) && refused.contains("unknown directive \"nonsense\""), "{refused}");
    assert_eq!(refused.lines().count(), 2, "{refused}");

    service.signal(Signal::QUIT);
    assert!(manager.next_state().starts_with("STOPPING=1\n"));
    service.ends();
}

/// A new program is the service from the moment at which the one before it leaves: before, a manager would not listen to
/// it, and so it has everything to tell then.
#[test]
fn an_upgrade_moves_the_service() {
    let (free, address) = listener();
    let (other_free, other) = listener();
    drop((free, other_free));
    let manager = Manager::new(&server(address, "before"));
    let mut service = manager.start(Vec::new(), "");
    assert!(manager.next_state().starts_with("READY=1\n"));
    let before = service.pid();
    manager.configure(&server(other, "after"));
    service.signal(Signal::USR2);
    let successor = || manager.pid().filter(|&pid| pid != before);
    assert!(wait::until(PATIENCE, || successor().is_some()), "{}", manager.log());
    let after = successor().expect("its number");
    assert_eq!((ask(address), ask(other)), ("before".to_owned(), "after".to_owned()));
    service.signal(Signal::QUIT);
    assert_eq!(manager.next().text, format!("MAINPID={after}\nSTATUS=serving"));
    service.ends();

    let name = |address: SocketAddr| format!("FDNAME=fulmar-{}", address.to_string().replace(':', "_"));
    let kept = manager.next();
    assert_eq!((kept.text, kept.passed.len()), (format!("FDSTORE=1\n{}", name(other)), 2));
    assert_eq!(manager.next().text, format!("FDSTOREREMOVE=1\n{}", name(address)));
    assert_eq!(manager.next().text, "READY=1\nSTATUS=serving configuration 1");
    assert_eq!(ask(other), "after");
    kill_process(after, Signal::QUIT).expect("signal");
    assert!(manager.next_state().starts_with("STOPPING=1\n"));
    assert!(wait::until(PATIENCE, || !is_alive(after)));
}

/// Sockets that the manager made are found by their addresses, and are still its own when the service ends.
#[test]
fn sockets_are_passed_in() {
    let (tcp, address) = listener();
    let (unwanted, superfluous) = listener();
    let manager = Manager::new("");
    let path = manager.site.prefix().join("socket");
    let unix = UnixListener::bind(&path).expect("listen");
    let unix_server = format!("server {{ listen unix:{}; return 200 unix; }}", path.display());
    manager.configure(&(server(address, "tcp") + &unix_server));
    let sockets = vec![tcp.try_clone().expect("clone").into(), unix.try_clone().expect("clone").into()];
    let mut service = manager.start(sockets, "tcp:unix");
    assert!(manager.next_state().starts_with("READY=1\n"), "{}", manager.log());
    // On every thread.
    for _ in 0..8 {
        assert_eq!(ask(address), "tcp");
    }
    let ask_unix = || {
        let mut stream = UnixStream::connect(&path).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        answer
    };
    assert!(ask_unix().ends_with("unix"));
    service.signal(Signal::QUIT);
    service.ends();
    assert!(path.exists(), "the path is the manager's");

    // Between two starts clients wait.
    let mut early = TcpStream::connect(address).expect("the queue takes connections");
    early.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("send");
    manager.configure(&server(address, "again"));
    let mut service = manager.start(vec![tcp.into(), unwanted.into()], "tcp:other");
    let mut answer = String::new();
    early.set_read_timeout(Some(PATIENCE)).expect("timeout");
    early.read_to_string(&mut answer).expect("answer");
    assert!(answer.ends_with("again"), "{answer}");
    let log = manager.log();
    let told = format!("the service manager listens on {superfluous}, but no \"listen\" names that address");
    assert!(log.lines().any(|line| line.contains("[warn]") && line.contains(&told)), "{log}");
    service.signal(Signal::TERM);
    service.ends();
}

/// Sockets of datagrams are passed in and kept, too; questions wait in them while the service does not run.
#[test]
fn sockets_of_datagrams_are_passed_in_and_kept() {
    let socket = UdpSocket::bind("127.0.9.1:0").expect("bind");
    let (address, unwanted) =
        (socket.local_addr().expect("address"), UdpSocket::bind("127.0.9.1:0").expect("bind"));
    let superfluous = unwanted.local_addr().expect("address");
    let manager = Manager::new("");
    let server = |text: &str| format!("stream {{ server {{ listen {address} udp; return {text}; }} }}");
    manager.configure_block(&server("first"));
    let mut service =
        manager.start(vec![socket.try_clone().expect("clone").into(), unwanted.into()], "dns:other");
    assert!(manager.next_state().starts_with("READY=1\n"), "{}", manager.log());
    let log = manager.log();
    assert!(log.contains(&format!("using the service manager's socket {address} (udp)")), "{log}");
    assert!(log.contains(&format!("the service manager listens on {superfluous} (udp), but no ")), "{log}");
    // Each session is answered once, although there is a socket for one of two threads.
    (0..8).for_each(|_| assert_eq!(Client::at(address).ask("which"), "first"));
    service.signal(Signal::QUIT);
    service.ends();

    let early = Client::at(address);
    early.send("waits");
    manager.configure_block(&server("again"));
    let mut service = manager.start(vec![socket.into()], "dns");
    assert_eq!(early.receive(), b"again");
    service.signal(Signal::QUIT);
    service.ends();

    // Its own sockets survive a crash.
    let mut service = manager.start(Vec::new(), "");
    let name = format!("fulmar-{}_(udp)", address.to_string().replace(':', "_"));
    let kept =
        std::iter::repeat_with(|| manager.next()).find(|message| message.text.starts_with("FDSTORE=1"));
    let kept = kept.expect("sockets");
    assert_eq!((kept.text, kept.passed.len()), (format!("FDSTORE=1\nFDNAME={name}"), 2));
    assert!(manager.next_state().starts_with("READY=1\n"), "{}", manager.log());
    let workers = Running::children(service.pid());
    service.signal(Signal::KILL);
    service.ends();
    assert!(wait::until(PATIENCE, || workers.iter().all(|&worker| !is_alive(worker))));
    let early: Vec<Client> = (0..16).map(|_| Client::at(address)).collect();
    early.iter().for_each(|client| client.send("waits"));
    let _service = manager.start(kept.passed, &format!("{name}:{name}"));
    early.iter().for_each(|client| assert_eq!(client.receive(), b"again"));
}

/// A descriptor that is no listening socket, and sockets that are for another process.
#[test]
fn what_is_passed_in_by_mistake_is_told_or_left_alone() {
    let (free, address) = listener();
    let manager = Manager::new(&server(address, "ok"));
    let connected = TcpStream::connect(address).expect("connect");
    drop(free);
    let service = manager.start(vec![connected.into()], "mistake");
    assert!(manager.next_state().starts_with("READY=1\n"), "{}", manager.log());
    assert!(manager.log().contains("the inherited socket #3 is ignored (not a listening socket)"));
    assert_eq!(ask(address), "ok");
    drop(service);
}

/// A number that no service manager gives takes one line, and not one for each descriptor.
#[test]
fn a_wrong_number_of_sockets_is_told_briefly() {
    for (count, lines) in [("999999999", 1), ("60000", 9), ("many", 1)] {
        let (free, address) = listener();
        drop(free);
        let manager = Manager::new(&server(address, "ok"));
        let mut command = manager.command(Vec::new(), "");
        let service = Service(command.env("LISTEN_FDS", count).spawn().expect("run"));
        assert!(manager.next_state().starts_with("READY=1\n"), "{}", manager.log());
        let log = manager.log();
        assert_eq!(
            log.lines().filter(|line| line.ends_with("ignored") || line.contains("inherited socket")).count(),
            lines,
            "{log}"
        );
        assert_eq!(ask(address), "ok");
        drop(service);
    }
}

/// A server that was killed leaves its queues with the manager; who came meanwhile is answered by the next one.
#[test]
fn sockets_are_kept_over_a_crash() {
    let (free, address) = listener();
    drop(free);
    let manager = Manager::new(&server(address, "ok"));
    let mut service = manager.start(Vec::new(), "");
    let kept = manager.next();
    let name = format!("fulmar-{}", address.to_string().replace(':', "_"));
    assert_eq!(kept.text, format!("FDSTORE=1\nFDNAME={name}"));
    assert_eq!(kept.passed.len(), 2, "a socket for each thread");
    assert!(manager.next_state().starts_with("READY=1\n"));
    let workers = Running::children(service.pid());
    service.signal(Signal::KILL);
    service.ends();
    let workers_end = || workers.iter().all(|&worker| !is_alive(worker));
    assert!(wait::until(PATIENCE, workers_end), "workers live on without their supervisor");

    let mut early: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(address).expect("queued")).collect();
    for stream in &mut early {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("send");
    }
    let mut service = manager.start(kept.passed, &format!("{name}:{name}"));
    for stream in &mut early {
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        assert!(answer.ends_with("ok"), "{answer}");
    }
    assert!(!manager.log().contains("[warn]"), "{}", manager.log());

    // An address that vanishes is forgotten.
    assert!(manager.next_state().starts_with("READY=1\n"));
    let (free, other) = listener();
    drop(free);
    manager.configure(&server(other, "other"));
    service.signal(Signal::HUP);
    let mut texts = Vec::new();
    while texts.last().is_none_or(|text: &String| !text.starts_with("READY=1")) {
        texts.push(manager.next().text);
    }
    assert!(texts.contains(&format!("FDSTOREREMOVE=1\nFDNAME={name}")), "{texts:?}");
    assert_eq!(ask(other), "other");
    service.signal(Signal::QUIT);
    service.ends();
}
