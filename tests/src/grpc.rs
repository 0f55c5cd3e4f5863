//! A gRPC server and a gRPC client in Python, whose messages are plain bytes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::parts;

const SERVER: &str = include_str!("python/grpc_server.py");
const CLIENT: &str = include_str!("python/grpc_client.py");

/// The Python that has gRPC; `make install` puts it there.
fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/grpc/bin/python3")
}

/// Whether there is gRPC for Python. Without it a line is printed, and in CI the test fails.
pub fn have_grpc() -> bool {
    parts::is_present("gRPC for Python", python().with_file_name("../installed").exists())
}

/// A running gRPC server. It ends when dropped.
#[derive(Debug)]
pub struct Grpc {
    child: Child,
    address: SocketAddr,
}

impl Grpc {
    /// Starts one that keeps its files in a directory, which has to exist, and waits until it listens: over TLS with the
    /// files of a certificate and its key.
    pub fn start(directory: &Path, tls: Option<(&Path, &Path)>) -> Grpc {
        let program = directory.join("grpc_server.py");
        fs::write(&program, SERVER).expect("server");
        let mut command = Command::new(python());
        command.arg(program);
        if let Some((certificate, key)) = tls {
            command.args([certificate, key]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the gRPC server says {line:?}"));
        Grpc { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes of one call of each kind to this address.
pub fn calls(directory: &Path, address: SocketAddr) -> String {
    client(directory, &[&address.to_string()])
}

/// What comes of many calls at a time to this address.
pub fn many_calls(directory: &Path, address: SocketAddr) -> String {
    client(directory, &[&address.to_string(), "many"])
}

fn client(directory: &Path, arguments: &[&str]) -> String {
    let program = directory.join("grpc_client.py");
    fs::write(&program, CLIENT).expect("client");
    let output = Command::new(python()).arg(program).args(arguments).output().expect("python3");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the gRPC client failed:\n{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
