//! The reference servers as processes: four answer alike, hold many connections, and leave nothing behind; two more
//! speak FastCGI and gRPC.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::measure::process::family;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const KINDS: [&str; 4] = ["process", "thread", "hybrid", "epoll"];

/// How long anything may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that runs.
struct Server {
    child: Child,
    address: SocketAddr,
    kind: &'static str,
}

impl Server {
    fn start(kind: &'static str, root: &TempDir, workers: u32) -> Result<Server> {
        let mut child = command(kind, root, "127.0.0.1:0", workers).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context(line.clone())?.parse()?;
        Ok(Server { child, address, kind })
    }

    /// All that comes back for these bytes, with the date masked.
    fn answer(&self, request: &str) -> Result<String> {
        let mut stream = connect(self.address)?;
        stream.write_all(request.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8(bytes)?;
        let masked = text.split("\r\nDate: ").enumerate().map(|(at, part)| match at {
            0 => part.to_owned(),
            _ => format!("\r\nDate: -{}", &part["Sun, 06 Nov 1994 08:49:37 GMT".len()..]),
        });
        Ok(masked.collect())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no process")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(kind: &str, root: &TempDir, listen: &str, workers: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(["reference", "--kind", kind, "--listen", listen, "--workers", &workers.to_string()]);
    command.arg("--root").arg(root.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// A folder with a small file, a large one and an index.
fn site() -> Result<TempDir> {
    let root = tempfile::tempdir()?;
    fs::write(root.path().join("index.html"), "<p>index")?;
    fs::write(root.path().join("small.txt"), "small")?;
    fs::write(root.path().join("large.png"), "0123456789".repeat(300_000))?;
    Ok(root)
}

#[test]
fn they_answer_alike() {
    let root = site().unwrap();
    let servers = KINDS.map(|kind| Server::start(kind, &root, 8).unwrap());
    let host = "Host: a\r\n";
    for request in [
        format!("GET / HTTP/1.1\r\n{host}\r\n"),
        format!("HEAD /large.png HTTP/1.1\r\n{host}\r\n"),
        format!("GET /large.png?x=y HTTP/1.1\r\n{host}\r\n"),
        format!("GET /small.txt HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
        "GET /small.txt HTTP/1.0\r\n\r\n".to_owned(),
        "GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned(),
        format!(
            "GET /none HTTP/1.1\r\n{host}\r\nGET /large.png HTTP/1.1\r\n{host}\r\nGET / HTTP/1.1\r\n{host}\r\n"
        ),
        format!("GET /../small.txt HTTP/1.1\r\n{host}\r\n"),
        format!("POST / HTTP/1.1\r\n{host}\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\n{host}"),
        String::new(),
    ] {
        let first = servers[0].answer(&request).unwrap();
        for server in &servers[1..] {
            assert_eq!(server.answer(&request).unwrap(), first, "{}: {request:?}", server.kind);
        }
        let complete = request.ends_with("\r\n\r\n");
        assert_eq!(first.starts_with("HTTP/1.1 "), complete, "{request:?}: {first:?}");
        assert_eq!(first.matches("Date: -").count(), first.matches("HTTP/1.1 ").count(), "{first:?}");
    }
}

#[test]
fn they_hold_as_many_connections_as_they_have_workers() {
    let root = site().unwrap();
    for kind in KINDS {
        let server = Server::start(kind, &root, 40).unwrap();
        let mut clients: Vec<TcpStream> = (0..40).map(|_| connect(server.address).unwrap()).collect();
        for _ in 0..2 {
            for client in &mut clients {
                client.write_all(b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            }
            for client in &clients {
                assert_eq!(answer(client).unwrap(), "small", "{kind}");
            }
        }
        if kind == "process" {
            assert_eq!(family(server.child.id()).len(), 41);
        }
    }
}

/// The content of one answer.
fn answer(stream: &TcpStream) -> Result<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head)? > 0, "the connection ended: {head:?}");
    }
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut content = vec![0; length.context("no length")?.parse()?];
    reader.read_exact(&mut content)?;
    Ok(String::from_utf8(content)?)
}

#[test]
fn nothing_is_left_when_they_end() {
    let root = site().unwrap();
    for kind in KINDS {
        for signal in [Signal::TERM, Signal::KILL] {
            let mut server = Server::start(kind, &root, 3).unwrap();
            server.answer("GET / HTTP/1.0\r\n\r\n").unwrap();
            let count = if kind == "process" { 4 } else { 1 };
            wait_until(|| family(server.child.id()).len() == count);
            let processes = family(server.child.id());
            server.signal(signal).unwrap();
            server.child.wait().unwrap();
            wait_until(|| !processes.iter().any(|process| is_running(*process)));
            assert!(TcpStream::connect(server.address).is_err(), "{kind}");
        }
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "it does not come to that");
        park_timeout(Duration::from_millis(5));
    }
}

/// Whether a process is there and not merely waiting for its end to be noticed.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn others_cannot_reach_them_unasked() {
    let root = site().unwrap();
    let output = command("epoll", &root, "0.0.0.0:0", 1).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--beyond-loopback"));
}

#[test]
fn content_of_requests_is_read_and_dropped() {
    let root = site().unwrap();
    for kind in KINDS {
        let server = Server::start(kind, &root, 8).unwrap();
        let mut load = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
        load.args(["load", "--json", "-k", "-c", "4", "-n", "40", "--body", "70000"]);
        let output = load.arg(format!("http://{}/small.txt", server.address)).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let point = &document["points"][0];
        assert_eq!(point["statuses"], serde_json::json!({"200": 40}), "{kind}: {document}");
        assert_eq!(point["bytes"]["content"], 5 * 40, "{kind}: {document}");
    }
}

#[test]
fn the_fastcgi_responder_keeps_connections() {
    let root = site().unwrap();
    let server = Server::start("fastcgi", &root, 1).unwrap();
    let mut stream = connect(server.address).unwrap();
    // BEGIN_REQUEST as a responder that keeps the connection, PARAMS, and the ends of PARAMS and STDIN.
    let params = [&[15, 14][..], b"SCRIPT_FILENAME/srv/small.txt"].concat();
    let request = [
        &[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 4, 0, 1, 0, 31, 0, 0][..],
        &params,
        &[1, 4, 0, 1, 0, 0, 0, 0, 1, 5, 0, 1, 0, 0, 0, 0],
    ];
    let content = b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nsmall";
    let length = u8::try_from(content.len()).unwrap();
    let answer = [
        &[1, 6, 0, 1, 0, length, 0, 0][..],
        content,
        &[1, 6, 0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for _ in 0..2 {
        stream.write_all(&request.concat()).unwrap();
        let mut found = vec![0; answer.concat().len()];
        stream.read_exact(&mut found).unwrap();
        assert_eq!(found, answer.concat());
    }
}

#[test]
fn the_grpc_responder_keeps_connections() {
    let root = site().unwrap();
    let server = Server::start("grpc", &root, 1).unwrap();
    let mut stream = connect(server.address).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    // SETTINGS with a limit of streams, and the acknowledgement of ours.
    let mut settings = [0; 24];
    stream.read_exact(&mut settings).unwrap();
    assert_eq!((settings[3], &settings[15..]), (4, &b"\0\0\0\x04\x01\0\0\0\0"[..]));
    for id in [1, 3] {
        let head = [0, 0, 0, 1, 4, 0, 0, 0, id];
        let data = [&[0, 0, 7, 0, 1, 0, 0, 0, id][..], b"\0\0\0\0\x02ab"].concat();
        stream.write_all(&[&head[..], &data].concat()).unwrap();
        let answer = [
            &[0, 0, 20, 1, 4, 0, 0, 0, id][..],
            b"\x88\x0f\x10\x10application/grpc\0\0\x07\0\0\0\0\0",
            &[id],
            b"\0\0\0\0\x02ab",
            &[0, 0, 15, 1, 5, 0, 0, 0, id],
            b"\0\x0bgrpc-status\x010",
        ];
        let mut found = vec![0; answer.concat().len()];
        stream.read_exact(&mut found).unwrap();
        assert_eq!(found, answer.concat());
    }
}

#[test]
fn the_uwsgi_responder_answers_and_closes() {
    let root = site().unwrap();
    let server = Server::start("uwsgi", &root, 1).unwrap();
    for _ in 0..2 {
        let mut stream = connect(server.address).unwrap();
        let params = [&[11, 0][..], b"REQUEST_URI", &[17, 0], b"/passed/small.txt"].concat();
        stream.write_all(&[&[0, u8::try_from(params.len()).unwrap(), 0, 0][..], &params].concat()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nsmall"), "{text}");
        assert!(text.contains("\r\nContent-Length: 5\r\n"), "{text}");
    }
}
