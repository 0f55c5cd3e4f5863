//! What a request costs does not grow with what is configured for others: instructions are counted by callgrind, which
//! is the same whatever else the machine does.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tests::binary::Server;
use tests::{parts, wait};

const FEW: usize = 10;
const MANY: usize = 10_000;

/// How many requests are counted together.
const ROUND: u32 = 50;

/// How much more a request may cost among so many. They are found by hash, or by halving a sorted list, which takes ten
/// more comparisons.
const SLACK: f64 = 1.1;

/// A configuration is read under valgrind, and others may be at work.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn a_request_among_thousands_of_servers_and_locations_costs_what_it_costs_among_ten() {
    let is_there =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !parts::is_present("valgrind", is_there) {
        return;
    }
    let (few, many) = std::thread::scope(|scope| {
        let few = scope.spawn(|| Costs::among(FEW));
        let many = Costs::among(MANY);
        (few.join().unwrap(), many)
    });
    assert!(many.server < few.server * SLACK, "a server: {few:?} {many:?}");
    assert!(many.location < few.location * SLACK, "a location: {few:?} {many:?}");
}

/// Instructions in user space of a request that is answered by the last of so many.
#[derive(Debug)]
struct Costs {
    server: f64,
    location: f64,
}

impl Costs {
    fn among(count: usize) -> Costs {
        let directory = tempfile::tempdir().unwrap();
        let mut counted = Counted::start(directory.path(), &configuration(count));
        let last = count - 1;
        let server = counted.cost(&format!("GET / HTTP/1.1\r\nHost: s{last}.example\r\n\r\n"));
        let location = counted.cost(&format!("GET /l{last}/ HTTP/1.1\r\nHost: other\r\n\r\n"));
        Costs { server, location }
    }
}

/// So many servers with names, and a server without one that has so many locations.
fn configuration(count: usize) -> String {
    let locations: String = (0..count).map(|at| format!("location /l{at}/ {{ return 204; }}\n")).collect();
    let server = |at| format!("server {{ listen unix:socket; server_name s{at}.example; return 204; }}\n");
    let servers: String = (0..count).map(server).collect();
    format!(
        "daemon off; master_process off; worker_processes 1; error_log error.log; pid pid; events {{ }}\n\
         http {{ access_log off; keepalive_requests 1000000;\n\
         server {{ listen unix:socket default_server;\n{locations}}}\n{servers}}}\n"
    )
}

/// A server whose instructions are counted, and a connection to it.
struct Counted<'a> {
    child: Child,
    directory: &'a Path,
    stream: UnixStream,
    dumps: u32,
}

impl Counted<'_> {
    fn start<'a>(directory: &'a Path, configuration: &str) -> Counted<'a> {
        fs::write(
            directory.join("conf"),
            configuration.replace("unix:", &format!("unix:{}/", directory.display())),
        )
        .unwrap();
        let child = Command::new("valgrind")
            .args(["-q", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=out"])
            .arg(Server::Fulmar.path())
            .arg("-p")
            .arg(directory)
            .args(["-c", "conf"])
            .current_dir(directory)
            .stderr(Stdio::null())
            .spawn()
            .expect("valgrind");
        let mut stream = None;
        let connected = wait::until(PATIENCE, || {
            stream = UnixStream::connect(directory.join("socket")).ok();
            stream.is_some()
        });
        assert!(connected, "{}", fs::read_to_string(directory.join("error.log")).unwrap_or_default());
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Counted { child, directory, stream, dumps: 0 }
    }

    /// The instructions that a request takes.
    fn cost(&mut self, request: &str) -> f64 {
        // The first ones make what the others find.
        self.control(&["-i", "on"]);
        self.ask(request, 10);
        self.control(&["-z"]);
        self.ask(request, ROUND);
        self.control(&["-d"]);
        self.dumps += 1;
        let dump = fs::read_to_string(self.directory.join(format!("out.{}", self.dumps))).expect("a dump");
        let sum = dump.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a sum");
        let sum: u32 = sum.trim().parse().expect("a number");
        f64::from(sum) / f64::from(ROUND)
    }

    fn control(&self, arguments: &[&str]) {
        let done =
            Command::new("callgrind_control").args(arguments).arg(self.child.id().to_string()).output();
        assert!(done.as_ref().is_ok_and(|output| output.status.success()), "{arguments:?}: {done:?}");
    }

    fn ask(&mut self, request: &str, times: u32) {
        for _ in 0..times {
            self.stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut bytes = [0; 4096];
                let count = self.stream.read(&mut bytes).expect("an answer");
                assert!(count > 0, "an answer");
                answer.extend_from_slice(&bytes[..count]);
            }
            assert!(answer.starts_with(b"HTTP/1.1 204"), "{}", answer.escape_ascii());
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
