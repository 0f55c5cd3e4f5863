//! A memcached as a separate process.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::parts;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// Whether there is a memcached. Without one a line is printed, and in CI the test fails.
pub fn have_memcached() -> bool {
    parts::is_present("memcached", parts::program(&["memcached"]).is_some())
}

/// A running memcached. It ends when dropped.
#[derive(Debug)]
pub struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    /// Starts one without values. Panics when it does not start.
    pub fn start() -> Memcached {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let mut command = Command::new(parts::program(&["memcached"]).expect("memcached"));
        command.args(["-l", "127.0.0.1", "-U", "0", "-u", "root", "-m", "64", "-t", "1"]);
        command.args(["-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let memcached = Memcached { child: command.spawn().expect("memcached"), port };
        let listens = || TcpStream::connect(memcached.address()).is_ok();
        assert!(wait::until(PATIENCE, listens), "memcached does not start");
        memcached
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Stores a value with its flags.
    pub fn set(&self, key: &str, flags: u32, value: &[u8]) {
        let head = format!("set {key} {flags} 0 {}\r\n", value.len());
        let answer = self.ask(&[head.as_bytes(), value, b"\r\n"].concat(), "STORED");
        assert_eq!(answer.last().map(String::as_str), Some("STORED"), "{key}");
    }

    /// One of the figures of `stats`, such as `total_connections`.
    pub fn figure(&self, name: &str) -> u64 {
        let start = format!("STAT {name} ");
        let lines = self.ask(b"stats\r\n", "END");
        let found = lines.iter().find_map(|line| line.strip_prefix(&start));
        found.and_then(|value| value.parse().ok()).expect("a figure")
    }

    /// The lines that answer a command, up to the one that is `last`.
    fn ask(&self, command: &[u8], last: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address()).expect("memcached");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.write_all(command).expect("a command");
        let mut lines = Vec::new();
        for line in BufReader::new(stream).lines() {
            lines.push(line.expect("a line"));
            if lines.last().is_some_and(|line| line == last) {
                break;
            }
        }
        lines
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
