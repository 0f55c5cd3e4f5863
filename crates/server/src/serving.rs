//! A worker attacked over sockets: clients that hurry, dawdle, flood, and handlers that panic.

use crate::successor::Settings;
use crate::worker::{Worker, run};
use conf::{Contexts, Diagnostic, Memory};
use contract::{
    Body, Directive, Exchange, Handler, Loading, Module, Outcome, Phase, ScopeBuilder, Step, View, Work,
};
use net::bind::bind;
use net::channel::{Command, SupervisorEnd, channel};
use net::{Endpoint, ListenOptions, SocketAddress};
use site::Site;
use site::{Options, load};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HERE: Contexts = Contexts::SERVER.or(Contexts::LOCATION);

/// Answers with so many bytes.
static BYTES: Directive<u64> = Directive::number("bytes").within(HERE);
/// Panics instead of answering.
static PANICS: Directive<bool> = Directive::flag("panics").within(HERE);
/// Answers when the body of the request is there.
static READS: Directive<bool> = Directive::flag("reads").within(HERE);
/// Milliseconds for which clients are waited for.
static HURRY: Directive<u64> = Directive::number("hurry").within(HERE);

static TRIALS: Module = Module {
    name: "trials",
    directives: &[&BYTES, &PANICS, &READS, &HURRY],
    variables: &[],
    compile: Some(compile),
};

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(&limit) = view.get(&HURRY) {
        let limit = Duration::from_millis(limit);
        builder.policy.head.client_header_timeout = limit;
        builder.policy.sending.send_timeout = limit;
    }
    if view.get(&PANICS).is_some() {
        builder.handle(Phase::Content, Panic);
    } else if view.get(&READS).is_some() {
        builder.handle(Phase::Content, Reads);
    } else if let Some(&length) = view.get(&BYTES) {
        builder.handle(Phase::Content, Bytes(usize::try_from(length).unwrap()));
    }
    Ok(())
}

struct Bytes(usize);

impl Handler for Bytes {
    fn run(&self, exchange: &mut Exchange) -> Step {
        exchange.response.content_length = Some(self.0 as u64);
        Step::Respond(Body::bytes(vec![b'x'; self.0]))
    }
}

struct Reads;

impl Handler for Reads {
    fn run(&self, _: &mut Exchange) -> Step {
        Step::Await(Work::RequestBody)
    }

    fn resume(&self, exchange: &mut Exchange, _: Outcome) -> Step {
        exchange.response.content_length = Some(0);
        Step::Respond(Body::Empty)
    }
}

struct Panic;

impl Handler for Panic {
    fn run(&self, _: &mut Exchange) -> Step {
        panic!("a handler's fault");
    }
}

/// A worker in a thread of the test.
pub(crate) struct Serving {
    address: SocketAddr,
    supervisor: SupervisorEnd,
    worker: JoinHandle<io::Result<()>>,
}

impl Serving {
    /// Serves this content of a `server` block with one thread.
    fn new(server: &str, connections: usize) -> Serving {
        let site = |address| {
            let text = format!("error_log stderr; http {{ server {{ listen {address}; {server} }} }}");
            let inputs = Memory::default().with("/etc/x.conf", text);
            let options = Options {
                path: "/etc/x.conf".into(),
                prefix: "/etc".into(),
                globals: None,
                apache: site::ApacheOptions::default(),
            };
            let modules: &[&Module] = &[&TRIALS];
            let loading = Loading::new(Path::new("/etc"), Path::new("/etc"));
            Site::compile(&mut load(&inputs, &options, modules, loading), modules).unwrap()
        };
        Serving::of(site, connections)
    }

    /// Serves the site for an address with one thread.
    pub(crate) fn of(site: impl FnOnce(SocketAddr) -> Site, connections: usize) -> Serving {
        let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
        let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
        let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
        let site = Arc::new(site(address));
        let (supervisor, channel) = channel().unwrap();
        let settings = Settings { connections, shutdown_timeout: None, request_memory: None, drains: false };
        let replay = Arc::new(|_: &[u8], _| Err(String::new()));
        let sockets = vec![sockets];
        let processors = Vec::new();
        let worker = Worker { site, sockets, threads: 1, processors, settings, replay, channel, older: None };
        Serving { address, supervisor, worker: std::thread::spawn(move || run(worker)) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    /// The status line and more of the answer to a request for this path.
    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        answer
    }

    pub(crate) fn end(self) -> io::Result<()> {
        drop(self.supervisor.send(Command::Terminate));
        self.worker.join().unwrap()
    }
}

/// How long it takes until the server closes.
fn until_closed(mut stream: TcpStream) -> Duration {
    let started = Instant::now();
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    started.elapsed()
}

#[test]
fn empty_lines_gain_no_time() {
    let serving = Serving::new("bytes 1; hurry 400;", 100);
    let mut stream = serving.connect();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let started = Instant::now();
    loop {
        let written = stream.write_all(b"\r\n");
        match stream.read(&mut [0; 10]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && written.is_ok() => {}
            _ => break,
        }
        assert!(started.elapsed() < Duration::from_secs(4), "the connection is kept");
    }
    assert!(serving.get("/").starts_with("HTTP/1.1 200"));
    serving.end().unwrap();
}

#[test]
fn a_client_that_takes_no_answers_is_let_go() {
    let serving = Serving::new("bytes 30000; hurry 400;", 100);
    let mut stream = serving.connect();
    stream.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let error = loop {
        if let Err(error) = stream.write_all(requests.as_bytes()) {
            break error.kind();
        }
    };
    assert_ne!(error, io::ErrorKind::WouldBlock, "the connection is kept");
    serving.end().unwrap();
}

#[test]
fn every_pipelined_request_is_answered() {
    const COUNT: usize = 500;
    let serving = Serving::new("bytes 5000;", 100);
    let mut stream = serving.connect();
    let mut writer = stream.try_clone().unwrap();
    let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(COUNT);
    let writing = std::thread::spawn(move || {
        writer.write_all(requests.as_bytes()).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    writing.join().unwrap();
    let heads = answers.windows(12).filter(|part| part == b"HTTP/1.1 200").count();
    let content = answers.iter().filter(|&&byte| byte == b'x').count();
    assert_eq!((heads, content), (COUNT, COUNT * 5000));
    serving.end().unwrap();
}

/// A client that has the answer to its first request before it sends the rest of its second one.
#[test]
fn an_answer_does_not_wait_for_the_next_request() {
    let serving = Serving::new("location / { bytes 1; } location /reads { reads on; }", 100);
    let mut stream = serving.connect();
    let second = "POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab";
    write!(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n{second}").unwrap();
    let mut answers = Vec::new();
    while !answers.ends_with(b"\r\n\r\nx") {
        let mut some = [0; 1000];
        let count = stream.read(&mut some).expect("the first answer");
        answers.extend_from_slice(&some[..count]);
    }
    stream.write_all(b"cde").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    serving.end().unwrap();
}

#[test]
fn a_panic_ends_its_own_connection_only() {
    let serving = Serving::new("location / { bytes 1; } location /panic { panics on; }", 4);
    let mut witness = serving.connect();
    for _ in 0..20 {
        assert_eq!(serving.get("/panic"), "");
    }
    witness.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(until_closed(witness) < Duration::from_secs(3));
    assert!(serving.get("/").starts_with("HTTP/1.1 200"), "its place among the connections is free again");
    serving.end().unwrap();
}

#[test]
fn connections_that_only_linger_give_way_to_new_ones() {
    let serving = Serving::new("bytes 1;", 4);
    let mut lingering = Vec::new();
    for connection in ["close", "keep-alive"].into_iter().cycle().take(12) {
        let mut stream = serving.connect();
        let fields = format!("Host: x\r\nConnection: {connection}\r\nContent-Length: 9000");
        write!(stream, "POST / HTTP/1.1\r\n{fields}\r\n\r\nonly a part").unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        lingering.push(stream);
    }
    serving.end().unwrap();
}

#[test]
fn idle_connections_give_way_to_new_ones() {
    let serving = Serving::new("bytes 1;", 4);
    let mut idle = Vec::new();
    for _ in 0..12 {
        let mut stream = serving.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        idle.push(stream);
    }
    serving.end().unwrap();
}

#[test]
fn the_connection_that_is_idle_for_longest_closes_first() {
    let serving = Serving::new("bytes 1;", 64);
    let ask = |stream: &mut std::net::TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answers = Vec::new();
        while !answers.ends_with(b"\r\n\r\nx") {
            let mut some = [0; 1000];
            let count = stream.read(&mut some).expect("an answer");
            assert!(count > 0, "the connection was closed");
            answers.extend_from_slice(&some[..count]);
        }
    };
    let mut idle: Vec<_> = (0..50).map(|_| serving.connect()).collect();
    idle.iter_mut().for_each(ask);
    let mut busy = serving.connect();
    for _ in 0..100 {
        ask(&mut busy);
        idle.push(serving.connect());
        ask(idle.last_mut().unwrap());
    }
    serving.end().unwrap();
}
