//! PHP-FPM as a separate process, with its own configuration, for the tests of FastCGI.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::parts;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(10);

/// Whether there is a PHP-FPM. Without one a line is printed, and in CI the test fails.
pub fn have_php() -> bool {
    parts::is_present("PHP-FPM", program().is_some())
}

/// A running PHP-FPM that listens on a Unix socket and on a port. It ends when dropped.
#[derive(Debug)]
pub struct Php {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Php {
    /// Starts one that keeps its files in a directory, which has to exist. Panics with its log when it does
    /// not start.
    pub fn start(directory: &Path) -> Php {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let log = directory.join("php.log");
        let configuration = directory.join("php-fpm.conf");
        fs::write(&configuration, render(directory, port)).expect("configuration");
        let mut command = Command::new(program().expect("php-fpm"));
        command.arg("--nodaemonize").arg("--fpm-config").arg(&configuration);
        if geteuid().is_root() {
            command.arg("--allow-to-run-as-root");
        }
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("php-fpm");
        let php = Php { child, directory: directory.to_path_buf(), port };
        let address = php.address();
        let listens = || UnixStream::connect(php.socket()).is_ok() && TcpStream::connect(address).is_ok();
        let text = || fs::read_to_string(&log).unwrap_or_default();
        assert!(wait::until(PATIENCE, listens), "php-fpm does not start:\n{}", text());
        php
    }

    /// Path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("php.sock")
    }

    /// Where it listens on a port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let ended = wait::until(Duration::from_secs(3), || matches!(self.child.try_wait(), Ok(Some(_))));
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Two pools: one on each kind of address.
fn render(directory: &Path, port: u16) -> String {
    let user = if geteuid().is_root() { "user = root\ngroup = root\n" } else { "" };
    let pool = |name: &str, listen: &str| {
        format!(
            "[{name}]\n{user}listen = {listen}\npm = static\npm.max_children = 3\n\
             clear_env = yes\nphp_admin_value[error_log] =\nphp_admin_flag[log_errors] = on\n\
             php_admin_flag[display_errors] = off\nphp_admin_flag[expose_php] = off\n\
             php_admin_value[sendmail_path] = /bin/true\n"
        )
    };
    let directory = directory.display();
    format!(
        "[global]\nerror_log = {directory}/php.log\ndaemonize = no\n{}{}",
        pool("unix", &format!("{directory}/php.sock")),
        pool("inet", &format!("127.0.0.1:{port}")),
    )
}

fn program() -> Option<PathBuf> {
    parts::program(&["php-fpm8.2", "php-fpm8.4", "php-fpm8.3", "php-fpm"])
}
