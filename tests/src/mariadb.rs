//! MariaDB as a separate process, with its own files, for the applications that tests run.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::parts;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(60);
/// Its settings: small files, and nothing has to outlive a test.
const SETTINGS: [&str; 5] = [
    "--innodb-log-file-size=4M",
    "--innodb-buffer-pool-size=32M",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-networking",
    "--skip-log-bin",
];

/// Whether there is a MariaDB. Without one a line is printed, and in CI the test fails.
pub fn have_mariadb() -> bool {
    parts::is_present("MariaDB", server().is_some() && installer().is_some())
}

/// A running MariaDB that listens on a Unix socket. It ends when dropped.
#[derive(Debug)]
pub struct MariaDb {
    child: Child,
    directory: PathBuf,
}

impl MariaDb {
    /// Starts one that keeps its files in a directory, which has to exist, with these databases, each of which
    /// belongs to a user of its name, with the name as password. Panics with its log when it does not start.
    pub fn start(directory: &Path, databases: &[&str]) -> MariaDb {
        install(directory);
        let first = directory.join("first.sql");
        let mut statements = String::new();
        for name in databases {
            let _ = writeln!(
                statements,
                "CREATE DATABASE {name};\nGRANT ALL ON {name}.* TO {name}@localhost IDENTIFIED BY '{name}';"
            );
        }
        fs::write(&first, statements).expect("statements");
        let log = directory.join("mariadb.log");
        let output = File::create(&log).expect("log");
        let mut command = Command::new(server().expect("mariadbd"));
        command.args(common(directory)).args(SETTINGS);
        command.arg(format!("--socket={}", socket(directory).display()));
        command.arg(format!("--pid-file={}/mariadb.pid", directory.display()));
        command.arg(format!("--init-file={}", first.display()));
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("log")).stderr(output);
        let child = command.spawn().expect("mariadbd");
        let mut mariadb = MariaDb { child, directory: directory.to_path_buf() };
        let mut ended = false;
        let listens = wait::until(PATIENCE, || {
            ended = !matches!(mariadb.child.try_wait(), Ok(None));
            ended || UnixStream::connect(mariadb.socket()).is_ok()
        });
        let text = || fs::read_to_string(&log).unwrap_or_default();
        assert!(listens && !ended, "mariadbd does not start:\n{}", text());
        mariadb
    }

    /// Path of its socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.directory)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let ended = wait::until(Duration::from_secs(10), || matches!(self.child.try_wait(), Ok(Some(_))));
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Makes the tables that the server itself needs.
fn install(directory: &Path) {
    let mut command = Command::new(installer().expect("mariadb-install-db"));
    command.args(common(directory)).arg(SETTINGS[0]);
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    let output = command.stdin(Stdio::null()).output().expect("mariadb-install-db");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mariadb-install-db fails:\n{text}");
}

/// Options of both programs.
fn common(directory: &Path) -> Vec<String> {
    let mut arguments = vec!["--no-defaults".to_owned(), format!("--datadir={}/data", directory.display())];
    if geteuid().is_root() {
        arguments.push("--user=root".to_owned());
    }
    arguments
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("mariadb.sock")
}

fn server() -> Option<PathBuf> {
    parts::program(&["mariadbd"])
}

fn installer() -> Option<PathBuf> {
    parts::program(&["mariadb-install-db"])
}
