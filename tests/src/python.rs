//! Applications in Python as separate processes: run by uWSGI, and by a small SCGI server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::parts;
use crate::wait;

const APPLICATION: &str = include_str!("python/wsgi.py");
const DJANGO_SITE: &str = include_str!("python/django_site.py");
const SCGI_SERVER: &str = include_str!("python/scgi.py");
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether there is a uWSGI with Python. Without one a line is printed, and in CI the test fails.
pub fn have_uwsgi() -> bool {
    let has_plugin = Path::new("/usr/lib/uwsgi/plugins/python3_plugin.so").exists();
    parts::is_present("uWSGI with Python", has_plugin && parts::program(&["uwsgi"]).is_some())
}

/// Whether there is a Django of the system's Python. Without one a line is printed, and in CI the test fails.
pub fn have_django() -> bool {
    parts::is_present("Django", Path::new("/usr/lib/python3/dist-packages/django").exists())
}

/// Whether there is a Python. Without one a line is printed, and in CI the test fails.
pub fn have_python() -> bool {
    parts::is_present("Python", parts::program(&["python3"]).is_some())
}

/// A running uWSGI that listens on a Unix socket and on a port. It ends when dropped.
#[derive(Debug)]
pub struct Uwsgi {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Uwsgi {
    /// Starts one that keeps its files in a directory, which has to exist. Panics with its log when it does not start.
    pub fn start(directory: &Path) -> Uwsgi {
        Uwsgi::run(directory, APPLICATION)
    }

    /// As [`Uwsgi::start`], with a project of Django.
    pub fn start_django(directory: &Path) -> Uwsgi {
        Uwsgi::run(directory, DJANGO_SITE)
    }

    fn run(directory: &Path, application: &str) -> Uwsgi {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let path = |name: &str| directory.join(name).display().to_string();
        fs::write(path("wsgi.py"), application).expect("application");
        let mut command = Command::new(parts::program(&["uwsgi"]).expect("uwsgi"));
        command.args(["--plugins", "python3", "--need-app", "--die-on-term", "--disable-logging"]);
        command.args(["--threads", "4", "--buffer-size", "65535", "--wsgi-file", &path("wsgi.py")]);
        command.args(["--uwsgi-socket", &format!("127.0.0.1:{port}"), "--uwsgi-socket", &path("uwsgi.sock")]);
        command.args(["--logto", &path("uwsgi.log")]);
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("uwsgi");
        let uwsgi = Uwsgi { child, directory: directory.to_path_buf(), port };
        let log = || fs::read_to_string(path("uwsgi.log")).unwrap_or_default();
        let listens = || {
            let is_open =
                UnixStream::connect(uwsgi.socket()).is_ok() && TcpStream::connect(uwsgi.address()).is_ok();
            is_open && log().contains("ready in")
        };
        assert!(wait::until(PATIENCE, listens), "uwsgi does not start:\n{}", log());
        uwsgi
    }

    /// Path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("uwsgi.sock")
    }

    /// Where it listens on a port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Drop for Uwsgi {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running SCGI server. It ends when dropped.
#[derive(Debug)]
pub struct Scgi {
    child: Child,
    address: SocketAddr,
}

impl Scgi {
    /// Starts one that keeps its files in a directory, which has to exist, and waits until it listens.
    pub fn start(directory: &Path) -> Scgi {
        let path = |name: &str| directory.join(name).display().to_string();
        fs::write(path("wsgi.py"), APPLICATION).expect("application");
        fs::write(path("scgi.py"), SCGI_SERVER).expect("server");
        let mut command = Command::new(parts::program(&["python3"]).expect("python3"));
        command.args([path("scgi.py"), path("wsgi.py")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the SCGI server says {line:?}"));
        Scgi { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Scgi {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
