//! Servers of other protocols than HTTP as separate processes: Redis, OpenSSH, mosquitto, and an SMTP server in Python.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::parts;
use crate::tls::Certificate;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(30);

/// Prints each message that it gets. It accepts messages over TLS only.
const SMTP: &str = include_str!("python/smtp.py");

/// Whether these programs are there. Without one a line is printed, and in CI the test fails.
pub fn have(names: &[&str]) -> bool {
    names.iter().all(|name| parts::is_present(name, parts::program(&[name]).is_some()))
}

/// The Python that Debian's packages are for.
const PYTHON: &str = "/usr/bin/python3";

/// Whether that Python has a module. Without it a line is printed, and in CI the test fails.
pub fn have_python(module: &str) -> bool {
    let mut command = Command::new(PYTHON);
    command.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
    parts::is_present(module, command.status().is_ok_and(|status| status.success()))
}

/// A running server. It ends when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Where it listens, as `proxy_pass` says it.
    pub address: String,
}

impl Daemon {
    /// A Redis that listens on a Unix socket in this directory and keeps nothing.
    pub fn redis(directory: &Path) -> Daemon {
        let socket = directory.join("redis.sock");
        let mut command = Command::new(parts::program(&["redis-server"]).expect("redis-server"));
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"]).arg(directory);
        command.arg("--unixsocket").arg(&socket);
        Daemon::on_socket(command, &socket)
    }

    /// A mosquitto that listens on a Unix socket in this directory, for everybody.
    pub fn mosquitto(directory: &Path) -> Daemon {
        let (socket, settings) = (directory.join("mqtt.sock"), directory.join("mosquitto.conf"));
        let text = format!("listener 0 {}\nallow_anonymous true\nuser root\n", socket.display());
        fs::write(&settings, text).expect("settings");
        let mut command = Command::new(parts::program(&["mosquitto"]).expect("mosquitto"));
        command.arg("-c").arg(&settings);
        Daemon::on_socket(command, &socket)
    }

    /// An SMTP server that listens on a Unix socket in this directory and writes messages to the file `messages`.
    pub fn smtp(directory: &Path, made: &Certificate) -> Daemon {
        let socket = directory.join("smtp.sock");
        for (name, text) in [("smtp.pem", &made.pem), ("smtp.key", &made.key)] {
            fs::write(directory.join(name), text).expect("a certificate");
        }
        let mut command = Command::new(PYTHON);
        command.args(["-c", SMTP]).arg(directory);
        Daemon::on_socket(command, &socket)
    }

    /// An OpenSSH that lets the owner of the key in the file `key` of this directory in.
    pub fn sshd(directory: &Path) -> Daemon {
        for name in ["host", "key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(name));
            assert!(command.status().expect("ssh-keygen").success(), "ssh-keygen fails");
        }
        // Where sshd separates privileges it needs this directory, which the package's unit makes.
        let _ = fs::create_dir_all("/run/sshd");
        let address = free_address();
        let place = directory.display();
        let text = format!(
            "ListenAddress {address}\nHostKey {place}/host\nAuthorizedKeysFile {place}/key.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        );
        fs::write(directory.join("sshd_config"), text).expect("settings");
        // sshd starts itself anew by its whole path.
        let mut command = Command::new(parts::program(&["sshd"]).expect("sshd"));
        command.args(["-D", "-e", "-f"]).arg(directory.join("sshd_config"));
        Daemon::start(command, address.to_string(), || TcpStream::connect(address).is_ok())
    }

    fn on_socket(command: Command, socket: &PathBuf) -> Daemon {
        Daemon::start(command, format!("unix:{}", socket.display()), || UnixStream::connect(socket).is_ok())
    }

    fn start(mut command: Command, address: String, listens: impl Fn() -> bool) -> Daemon {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Daemon { child: command.spawn().expect("a server"), address };
        assert!(wait::until(PATIENCE, listens), "{command:?} does not start");
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address")
}
