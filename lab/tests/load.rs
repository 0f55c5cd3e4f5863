//! The generator against servers of a few lines that answer, stall and fail as a test wants.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lab::measure::engine::site::Site;
use lab::measure::tool::{Report, named};
use lab::model::figure::Figure;
use lab::model::order::{Amount, Order, Protocol, ToolName};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn exactly_so_many_requests_are_sent() {
    for (clients, options) in
        [(7, &["-k", "-t", "3"][..]), (1, &["-t", "2"]), (5, &["-k", "--pipeline", "8"])]
    {
        let server = Server::start(|_| ok(1000));
        let point = server.load(&["-n", "1003", "-c", &clients.to_string()], options);
        assert_eq!(server.requests(), 1003, "{options:?}");
        assert_eq!((number(&point, "/requests"), number(&point, "/failed/total")), (1003, 0), "{options:?}");
        assert_eq!(number(&point, "/bytes/content"), 1_003_000);
        assert_eq!(number(&point, "/bytes/total"), 1003 * ok(1000).bytes.len() as u64);
        assert_eq!(number(&point, "/statuses/200"), 1003);
        assert_eq!(number(&point, "/content_length"), 1000);
        let counted = point["histogram"].as_array().unwrap().iter().map(|bar| bar["count"].as_u64().unwrap());
        assert_eq!(counted.sum::<u64>(), 1003);
        let connections = if options.contains(&"-k") { clients } else { 1003 };
        assert_eq!(number(&point, "/connections"), connections);
        assert_eq!(number(&point, "/connections"), server.connections() as u64);
    }
}

#[test]
fn so_many_requests_as_asked_for_are_pipelined() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // This server answers no request before eight of them wait.
    let server = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (mut waiting, mut buffer) = (Vec::new(), [0; 4096]);
        for _ in 0..10 {
            let heads = |bytes: &[u8]| bytes.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
            while heads(&waiting) < 8 {
                let length = stream.read(&mut buffer).unwrap();
                assert!(length > 0, "the client closed with {} requests waiting", heads(&waiting));
                waiting.extend_from_slice(&buffer[..length]);
            }
            assert_eq!(heads(&waiting), 8);
            waiting.clear();
            stream.write_all(&ok(10).bytes.repeat(8)).unwrap();
        }
    });
    let output = load(&["-n", "80", "-c", "1", "-k", "--pipeline", "8", &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.join().unwrap();
}

#[test]
fn every_failure_is_counted_by_its_kind() {
    let wrong = |reply: fn() -> Reply| move |n: usize| if n % 10 == 9 { reply() } else { ok(50) };
    let cases: [(&str, Server); 5] = [
        ("length", Server::start(wrong(|| ok(49)))),
        ("status", Server::start(wrong(|| plain("HTTP/1.1 503 Busy\r\nContent-Length: 50\r\n\r\n", 50)))),
        ("malformed", Server::start(wrong(|| plain("SMTP ready\r\n\r\n", 0)))),
        ("reset", Server::start(wrong(|| plain("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", 20).last()))),
        ("reset", Server::start(wrong(|| plain("", 0).last()))),
    ];
    for (kind, server) in cases {
        let point = server.load(&["-n", "100", "-c", "3"], &["-k"]);
        assert_eq!(number(&point, "/failed/total"), 10, "{kind}: {point}");
        assert_eq!(number(&point, &format!("/failed/{kind}")), 10, "{kind}: {point}");
        let is_answer = kind == "length" || kind == "status";
        assert_eq!(number(&point, "/requests"), if is_answer { 100 } else { 90 }, "{kind}");
        assert_eq!(server.requests(), 100, "{kind}");
    }
    let wrong = Server::start(|_| plain("HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n", 1));
    let output = load(&["-n", "5", &wrong.url()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "no answer was right");
    let server = Server::start(|n| if n == 1 { plain("", 0) } else { ok(50) });
    let point = server.load(&["-n", "20", "-c", "2"], &["-k", "--timeout", "0.3"]);
    assert_eq!((number(&point, "/requests"), number(&point, "/failed/timeout")), (19, 1), "{point}");
    let server = Server::start(|_| ok(50));
    let point = server.load(&["-n", "20", "-c", "2"], &["-k", "--expect-length", "51"]);
    assert_eq!(number(&point, "/failed/length"), 20);
}

#[test]
fn why_nothing_is_connected_is_told() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let without_tls = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let mut streams = listener.incoming().take(2).map(Result::unwrap);
        streams.try_for_each(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    });
    let cases =
        [(format!("http://{closed}/"), "Connection refused"), (format!("https://{without_tls}/"), "no TLS")];
    for (url, told) in cases {
        let output = load(&["-n", "2", "-c", "2", &url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.lines().any(|line| line.starts_with("Not connected:") && line.contains(told)),
            "{url}: {said}"
        );
    }
    server.join().unwrap().unwrap();
}

#[test]
fn what_arrived_of_an_answer_counts_by_itself() {
    let server = Server::start(|_| plain("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", 20).last());
    let point = server.load(&["-n", "3"], &[]);
    let part = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n".len() as u64 + 20;
    assert_eq!((number(&point, "/bytes/total"), number(&point, "/bytes/partial")), (0, 3 * part), "{point}");
}

#[test]
fn a_connection_that_the_server_ends_with_an_answer_is_no_failure() {
    let closing = || plain("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", 5).last();
    let endless = || plain("HTTP/1.1 200 OK\r\n\r\n", 5).last();
    let chunked = || plain("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0);
    let server = Server::start(move |n| match n % 6 {
        0 => closing(),
        3 => endless(),
        5 => chunked(),
        _ => ok(5),
    });
    for options in [&["-k"][..], &["-k", "--pipeline", "4"], &[]] {
        let before = server.requests();
        let point = server.load(&["-n", "300", "-c", "4"], options);
        assert_eq!((number(&point, "/requests"), number(&point, "/failed/total")), (300, 0), "{point}");
        // Pipelined requests that follow the last answer of a connection are sent again.
        assert!(server.requests() - before == 300 || options.len() == 3, "{options:?}");
    }
}

#[test]
fn nothing_answers() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = load(&["--json", "-n", "10", "-c", "2", &format!("http://{address}/")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(number(&document(&output)["points"][0], "/failed/connect"), 10);
}

#[test]
fn other_machines_are_not_loaded() {
    let output = load(&["-n", "1", "http://192.0.2.1/"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--i-own-this-target"));
}

/// The server answers nobody for a second. At a constant rate, half of all requests were due within that second.
/// In a closed loop it costs each client one request: coordinated omission.
#[test]
fn a_stall_shows_in_the_latency_from_when_requests_were_due() {
    const STALL: Duration = Duration::from_secs(1);
    let gate = Arc::new(Mutex::new(()));
    let stalls = move |n: usize| {
        let guard = gate.lock().unwrap();
        if n == 20 {
            thread::park_timeout(STALL);
        }
        drop(guard);
        ok(10)
    };
    let due = Server::start(stalls.clone()).load(&["-n", "200", "-c", "2"], &["-k", "-R", "100"]);
    let closed = Server::start(stalls).load(&["-n", "200", "-c", "2"], &["-k"]);
    let percentile = |point: &Value, name: &str| point["latency"]["percentiles"][name].as_f64().unwrap();
    assert!(percentile(&due, "p99") > 900.0, "{due}");
    assert!(percentile(&due, "p75") > 300.0, "{due}");
    assert!(due["phases"]["late"]["max_ms"].as_f64().unwrap() > 900.0, "{due}");
    assert!(percentile(&closed, "p100") > 900.0, "{closed}");
    assert!(percentile(&closed, "p90") < percentile(&due, "p75"), "{closed}");
}

#[test]
fn a_rate_for_some_seconds() {
    let server = Server::start(|_| ok(10));
    let point = server.load(&["-d", "1", "-c", "4"], &["-k", "-R", "200", "-t", "2"]);
    let settled = ["/requests", "/unfinished", "/unsent"].map(|name| number(&point, name));
    assert_eq!(settled.iter().sum::<u64>(), 200, "{point}");
    assert!(point["seconds"].as_f64().unwrap() >= 1.0);
    assert_eq!(number(&point, "/failed/total"), 0);
}

#[test]
fn polling_is_told_apart_from_work() {
    let server = Server::start(|_| ok(10));
    let polled = |options: &[&str]| {
        let point = server.load(&["-n", "200", "-c", "2"], options);
        assert_eq!((number(&point, "/requests"), number(&point, "/failed/total")), (200, 0), "{point}");
        (point["polled_s"].as_f64().unwrap(), point["seconds"].as_f64().unwrap())
    };
    assert_eq!(polled(&["-k", "-t", "2"]).0, 0.0);
    // A server cannot answer before it has been asked.
    let (polled_s, seconds) = polled(&["-k", "-t", "2", "--poll", "1000"]);
    assert!(polled_s > 0.0 && polled_s <= 2.0 * seconds, "{polled_s} s of two threads in {seconds} s");
    let refused =
        load(&["-c", "1", "-d", "1", "-R", "10", "--poll", "50", "http://127.0.0.1:1/"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("threads have to sleep"), "{said}");
}

#[test]
fn tls_sessions_are_resumed_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_tls(folder.path());
    for (resume, expected) in [("off", 0), ("on", 18)] {
        let point = server.load(&["-n", "20", "-c", "2", "-t", "1", "--tls"], &["--tls-resume", resume]);
        assert_eq!((number(&point, "/requests"), number(&point, "/failed/total")), (20, 0), "{point}");
        assert_eq!(number(&point, "/resumed"), expected, "{point}");
    }
    // With two threads, one may have sent all requests before the other connects.
    let point = server.load(&["-n", "20", "-c", "2", "-t", "1", "--tls"], &["-k"]);
    assert_eq!((number(&point, "/requests"), number(&point, "/connections")), (20, 2), "{point}");
}

#[test]
fn idle_connections_are_held_until_the_input_ends() {
    for limit in ["4000", "200"] {
        let server = Server::start(|_| ok(10));
        let mut child = limited(limit, &["--json", "--idle", "-c", "150", &server.url()]);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "{\"held\":150}\n");
        assert_eq!((server.connections(), server.open()), (150, 150));
        drop(child.stdin.take());
        line.clear();
        output.read_line(&mut line).unwrap();
        assert!(child.wait().unwrap().success());
        let point = &serde_json::from_str::<Value>(&line).unwrap()["points"][0];
        assert_eq!((number(point, "/requests"), number(point, "/dropped")), (150, 0));
        // Two processes where one may not open as many.
        assert_eq!(number(point, "/processes"), if limit == "200" { 2 } else { 1 });
    }
}

#[test]
fn idle_connections_are_no_longer_opened_once_one_waits_in_vain() {
    let silence = || Reply { bytes: Vec::new(), is_last: false };
    let server = Server::start(move |request| if request < 100 { ok(10) } else { silence() });
    let (url, options) = (server.url(), ["--json", "--idle", "-t", "1", "--timeout", "1", "-d", "0.1"]);
    let output = load(&[&options[..], &["-c", "1000", &url]].concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (held, last) = text.split_once('\n').unwrap();
    assert_eq!(held, "{\"held\":100}");
    let point = &serde_json::from_str::<Value>(last).unwrap()["points"][0];
    let (waited, unsent) = (number(point, "/failed/timeout"), number(point, "/unsent"));
    assert!(waited >= 1 && waited + unsent == 900, "{point}");
}

/// A program that ends with the test, even with one that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lab's own server echoes; then a server that answers otherwise, and one that echoes something else.
#[test]
fn messages_over_websockets_come_back() {
    const FIELDS: [&str; 8] = [
        "-k",
        "-H",
        "Connection: Upgrade",
        "-H",
        "Upgrade: websocket",
        "-H",
        "Sec-WebSocket-Key: x",
        "--body",
    ];
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let mut reference = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    reference.args(["reference", "--kind", "epoll", "--listen", "127.0.0.1:0", "--root", root]);
    let mut reference = Running(reference.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(reference.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = format!("http://{}/", line.trim().strip_prefix("listening on ").unwrap());
    for length in ["0", "125", "128", "70000"] {
        let options = ["--json", "-n", "1003", "-c", "7", "-t", "2"];
        let output = load(&[&options[..], &FIELDS, &[length, &url]].concat()).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let point = &document["points"][0];
        assert_eq!((number(point, "/statuses/101"), number(point, "/failed/total")), (1003, 0), "{document}");
        assert_eq!(number(point, "/connections"), 7, "{document}");
        assert_eq!(number(point, "/bytes/content"), 1003 * length.parse::<u64>().unwrap(), "{document}");
    }
    let refused = Server::start(|_| ok(10)).load(&["-n", "7"], &[&FIELDS[..], &["5"]].concat());
    assert_eq!(number(&refused, "/failed/connect"), 7, "{refused}");
    let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\u{1}\u{5}abcde";
    let wrong =
        Server::start(move |_| plain(switched, 0)).load(&["-n", "7"], &[&FIELDS[..], &["5"]].concat());
    assert_eq!(number(&wrong, "/failed/malformed"), 7, "{wrong}");
}

#[test]
fn connections_that_change_their_protocol_are_held() {
    let server = Server::start(|_| plain("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 0));
    let point = server.load(&["--idle", "-d", "0.1", "-c", "10"], &["-H", "Upgrade: x"]);
    assert_eq!((number(&point, "/statuses/101"), number(&point, "/failed/total")), (10, 0), "{point}");
}

#[test]
fn an_interrupt_ends_it_with_what_was_measured() {
    for limit in ["4000", "200"] {
        let server = Server::start(|_| ok(10));
        let child = limited(limit, &["--json", "-k", "-c", "150", "-d", "600", &server.url()]);
        while server.requests() < 300 {
            thread::park_timeout(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let document = document(&output);
        assert_eq!(document["interrupted"], true);
        assert!(number(&document["points"][0], "/requests") >= 100);
    }
}

#[test]
fn sweeps_and_tables() {
    let server = Server::start(|_| ok(10));
    let point = server.load(&["-c", "[0-4 step:2 rounds:2]", "-n", "10"], &["-k"]);
    assert_eq!(number(&point, "/clients"), 1);
    assert_eq!(server.requests(), 60);
    let output = load(&["-c", "[0-4 step:2]", "-n", "100", "-k", &server.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "Concurrency Level:      4",
        "Complete requests:      100",
        "Connect:",
        "   99% ",
        "Response time histogram",
        "resp wait:",
        " clients  round ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn requests_that_differ_are_all_sent() {
    for keep_alive in [true, false] {
        let server = Server::start(|_| ok(10));
        let (path, numbers) = ("/{number}?k={number}".to_owned(), Some(20));
        let order =
            Order { path, numbers, keep_alive, amount: Amount::Requests(40), ..order(server.address) };
        let report = ask(&order);
        assert_eq!((report.requests, report.figures[&Figure::Failed]), (40, 0.0));
        let targets = server.state.targets.lock().unwrap();
        assert!(!targets.is_sorted(), "{targets:?}");
        for number in 0..20 {
            let target = format!("/{number:02}?k={number:02}");
            assert_eq!(targets.iter().filter(|seen| **seen == target).count(), 2, "{targets:?}");
        }
    }
}

#[test]
fn orders_are_carried_out_and_reported() {
    let server = Server::start(|_| ok(10));
    let order = Order {
        clients: 4,
        amount: Amount::Requests(100),
        pipeline: 2,
        fields: vec!["Accept-Encoding: gzip".into()],
        ..order(server.address)
    };
    let report = ask(&order);
    assert_eq!((report.requests, server.requests(), server.connections()), (100, 100, 4));
    assert_eq!((report.figures[&Figure::Failed], report.figures[&Figure::ContentBytes]), (0.0, 10.0));
    assert!(report.figures.contains_key(&Figure::P99Ms));
}

fn order(address: SocketAddr) -> Order {
    Order {
        address,
        path: "/1k".into(),
        clients: 1,
        amount: Amount::Requests(1),
        keep_alive: true,
        pipeline: 1,
        tls: None,
        protocol: Protocol::Http1,
        rate: None,
        fields: Vec::new(),
        numbers: None,
        body_bytes: None,
        threads: 1,
        has_own_cores: false,
        folder: ".".into(),
    }
}

/// Runs the generator as the engine does.
fn ask(order: &Order) -> Report {
    let tool = named(ToolName::FulmarLab).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    let output = command.args((tool.arguments)(order).unwrap()).output().unwrap();
    (tool.read)(order, &String::from_utf8_lossy(&output.stdout)).unwrap()
}

/// A server on a separate port. It ends with the test.
struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: AtomicUsize,
    connections: AtomicUsize,
    open: AtomicUsize,
    targets: Mutex<Vec<String>>,
}

/// An answer, and whether the connection ends after it.
struct Reply {
    bytes: Vec<u8>,
    is_last: bool,
}

impl Reply {
    fn last(self) -> Reply {
        Reply { is_last: true, ..self }
    }
}

fn ok(length: usize) -> Reply {
    plain(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"), length)
}

fn plain(head: &str, length: usize) -> Reply {
    Reply { bytes: [head.as_bytes(), &vec![b'x'; length]].concat(), is_last: false }
}

impl Server {
    /// A server with an answer to the request of each number, from 0.
    fn start(answer: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Server {
        Server::with(answer, Ok)
    }

    fn start_tls(folder: &Path) -> Server {
        use rustls::pki_types::pem::PemObject;
        let site = Site::create(folder, &[]).unwrap();
        let certificates = rustls::pki_types::CertificateDer::pem_file_iter(&site.certificate).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&site.key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates.map(Result::unwrap).collect(), key)
            .unwrap();
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        let config = Arc::new(config);
        Server::with(
            |_| ok(10),
            move |stream| {
                let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                Ok(rustls::StreamOwned::new(connection, stream))
            },
        )
    }

    fn with<S: Read + Write>(
        answer: impl Fn(usize) -> Reply + Send + Sync + 'static,
        open: impl Fn(TcpStream) -> std::io::Result<S> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(State::default()));
        let (shared, serve) = (Arc::clone(&state), Arc::new((answer, open)));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (state, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                thread::spawn(move || {
                    state.open.fetch_add(1, Ordering::SeqCst);
                    // A client that is gone is no concern of the server.
                    let _gone = serve_one(stream, &state, &serve.0, &serve.1);
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Server { address, state }
    }

    fn url(&self) -> String {
        format!("http://{}/x", self.address)
    }

    fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Loads it: the first measurement.
    fn load(&self, amount: &[&str], options: &[&str]) -> Value {
        let url = self.url();
        let arguments = [&["--json"], amount, options, &[url.as_str()]].concat();
        let output = load(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        // It ends with 1 where no answer was right.
        assert!(matches!(output.status.code(), Some(0 | 1)) && error.is_empty(), "{error}");
        document(&output)["points"][0].clone()
    }
}

fn serve_one<S: Read + Write>(
    stream: TcpStream,
    state: &State,
    answer: &impl Fn(usize) -> Reply,
    open: &impl Fn(TcpStream) -> std::io::Result<S>,
) -> std::io::Result<()> {
    let socket = stream.try_clone()?;
    let mut stream = open(stream)?;
    converse(&mut stream, state, answer)?;
    // Unread bytes would reset the connection at its end, and the client would lose the last answer.
    socket.shutdown(Shutdown::Write)?;
    while stream.read(&mut [0; 4096])? > 0 {}
    Ok(())
}

/// Answers until the client or an answer ends the connection.
fn converse<S: Read + Write>(
    stream: &mut S,
    state: &State,
    answer: &impl Fn(usize) -> Reply,
) -> std::io::Result<()> {
    let (mut waiting, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        waiting.extend_from_slice(&buffer[..length]);
        while let Some(end) = waiting.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head: Vec<u8> = waiting.drain(..end + 4).collect();
            let target = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
            state.targets.lock().unwrap().push(target);
            let reply = answer(state.requests.fetch_add(1, Ordering::SeqCst));
            stream.write_all(&reply.bytes)?;
            stream.flush()?;
            if reply.is_last {
                return Ok(());
            }
        }
    }
}

fn load(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.arg("load").args(arguments).stdin(Stdio::null());
    command
}

/// The generator with so many descriptors.
fn limited(limit: &str, arguments: &[&str]) -> Child {
    let script = format!("ulimit -n {limit} && exec \"$0\" load \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_fulmar-lab")]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// What it printed last.
fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap()
}

fn number(point: &Value, pointer: &str) -> u64 {
    point.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {point}"))
}
