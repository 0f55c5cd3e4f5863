//! An application in Node.js as a separate process.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use crate::client::Client;
use crate::parts;

const APPLICATION: &str = include_str!("node/application.js");

/// Whether there is a Node.js. Without one a line is printed, and in CI the test fails.
pub fn have_node() -> bool {
    parts::is_present("Node.js", parts::program(&["node"]).is_some())
}

/// The running application. It ends when dropped.
#[derive(Debug)]
pub struct Node {
    child: Child,
    address: SocketAddr,
}

/// What the application counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Connections so far, this question's own included.
    pub connections: usize,
    /// Clients that listen to events.
    pub events: usize,
    /// Open WebSockets.
    pub sockets: usize,
}

impl Node {
    /// Starts it and waits until it listens.
    pub fn start() -> Node {
        let mut command = Command::new(parts::program(&["node"]).expect("node"));
        command.args(["--eval", APPLICATION]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("node");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("node says {line:?}"));
        Node { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the application itself, on a separate connection.
    pub fn ask(&self, path: &str) -> String {
        let short = format!("GET {path}\nConnection: close");
        Client::connect(self.address).exchange(&short).expect("an answer").text()
    }

    /// What it counts.
    pub fn counted(&self) -> Counted {
        let text = self.ask("/count");
        let number = |name: &str| {
            let (_, rest) = text.split_once(&format!("\"{name}\":")).expect("a number");
            let digits = rest.split(|other: char| !other.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().expect("a number")
        };
        Counted { connections: number("connections"), events: number("events"), sockets: number("sockets") }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
