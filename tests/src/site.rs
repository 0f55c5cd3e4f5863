//! A site to serve: documents and a configuration in a separate directory, and the servers started on it.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::binary::{Nginx, Server};
use crate::client::{self, Answer, Client};
use crate::wait;

/// The beginning of a whole configuration with one thread, whose error log tells of sessions.
pub const START: &str = "daemon off;
    user root;
    worker_processes 1;
    pid %%LOGS%%/pid;
    error_log %%LOGS%%/error.log info;
    events { worker_connections 512; }
";
/// Modification time of every document, in seconds since 1970: Tue, 02 Jan 2024 03:04:05 GMT.
pub const MTIME: u64 = 1_704_164_645;
/// A server that has not started, or not stopped, after this long has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Another process may take a chosen port first; then others are chosen.
const ATTEMPTS: usize = 4;

/// Documents and a configuration. In all texts `%%ROOT%%` is the directory of the documents, `%%LOGS%%` the
/// one of the server's logs, `%%DIR%%` the prefix, `%%PORT%%` and `%%PORT_1%%`, `%%PORT_2%%` … free ports.
#[derive(Debug)]
pub struct Site {
    directory: Arc<TempDir>,
    configuration: String,
    whole: bool,
    nginx: Option<Nginx>,
}

impl Site {
    /// A site whose configuration is the content of `http {}`; the rest is supplied (see `render`).
    pub fn new(http: &str) -> Site {
        let directory = TempDir::with_prefix("site-").expect("temporary directory");
        fs::create_dir(directory.path().join("html")).expect("html");
        let directory = Arc::new(directory);
        Site { directory, configuration: http.to_owned(), whole: false, nginx: None }
    }

    /// A site whose configuration is the whole file; only marks are replaced.
    pub fn whole(configuration: &str) -> Site {
        Site { whole: true, ..Site::new(configuration) }
    }

    /// Has another nginx serve it than the usual one.
    pub fn nginx(self, nginx: Nginx) -> Site {
        Site { nginx: Some(nginx), ..self }
    }

    /// The same site, which speaks HTTP/2 besides; `None` where its configuration or its nginx leaves no room for that.
    pub fn with_http2(&self) -> Option<Site> {
        let is_free = !self.whole && self.nginx.is_none() && !self.configuration.contains("http2");
        is_free.then(|| Site {
            directory: Arc::clone(&self.directory),
            configuration: format!("http2 on;\n{}", self.configuration),
            whole: false,
            nginx: None,
        })
    }

    /// Adds a document; `path` is relative to the document root, missing directories are made.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Site {
        write(&self.root().join(path), content.as_ref());
        self
    }

    /// Adds an empty directory.
    pub fn dir(self, path: &str) -> Site {
        fs::create_dir_all(self.root().join(path)).expect("directory");
        self
    }

    /// Adds a symbolic link in the document root.
    pub fn link(self, path: &str, target: &str) -> Site {
        std::os::unix::fs::symlink(target, self.root().join(path)).expect("link");
        self
    }

    /// Adds a file next to the configuration, for `include`.
    pub fn in_prefix(self, path: &str, content: impl AsRef<[u8]>) -> Site {
        write(&self.prefix().join(path), content.as_ref());
        self
    }

    /// Adds a symbolic link next to the configuration.
    pub fn link_in_prefix(self, path: &str, target: &str) -> Site {
        let path = self.prefix().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directory");
        std::os::unix::fs::symlink(target, path).expect("link");
        self
    }

    /// Directory of the documents.
    pub fn root(&self) -> PathBuf {
        self.prefix().join("html")
    }

    /// Directory given to the server as its prefix.
    pub fn prefix(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("prefix")
    }

    /// Directory of one server's logs.
    pub fn logs(&self, server: Server) -> PathBuf {
        self.prefix().join(format!("logs-{}", server.name()))
    }

    /// Starts a server and waits until it listens. Panics with its logs when it does not.
    pub fn start(&self, server: Server) -> Running {
        self.try_start(server).unwrap_or_else(|text| panic!("{} does not start:\n{text}", server.name()))
    }

    /// As `start`, but gives the logs of a server that does not start.
    pub fn try_start(&self, server: Server) -> Result<Running, String> {
        for _ in 1..ATTEMPTS {
            match self.launch(server, &self.configuration) {
                // Another process took the port between choosing and binding.
                Err(text) if text.contains("(98: Address") => {}
                other => return other,
            }
        }
        self.launch(server, &self.configuration)
    }

    /// Has a server test the configuration (`-t`); gives what it says when that fails.
    pub fn test(&self, server: Server) -> Result<(), String> {
        self.write_configuration(server, &self.configuration);
        let output = self.command(server).arg("-t").output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(text) }
    }

    /// Writes the configuration for a server as `<server>.conf` in the prefix, with its own ports, and
    /// gives them.
    pub fn write_configuration(&self, server: Server, configuration: &str) -> BTreeMap<usize, u16> {
        fs::create_dir_all(self.logs(server)).expect("logs");
        let ports = choose_ports(configuration);
        let text = self.render(server, configuration, &ports);
        fs::write(self.prefix().join(conf_name(server)), text).expect("configuration");
        ports
    }

    /// A command that runs the server on this site's prefix and configuration, without separate arguments.
    pub fn command(&self, server: Server) -> Command {
        let mut command = Command::new(self.program(server));
        command.current_dir(self.prefix()).stdin(Stdio::null());
        command.arg("-p").arg(format!("{}/", self.prefix().display()));
        command.arg("-c").arg(conf_name(server));
        command.arg("-e").arg(format!("logs-{}/error.log", server.name()));
        if self.whole && self.configuration.starts_with("ServerRoot ") {
            // Apache's language has no line for that.
            command.args(["-g", "daemon off;"]);
        }
        command
    }

    fn launch(&self, server: Server, configuration: &str) -> Result<Running, String> {
        let ports = self.write_configuration(server, configuration);
        let console = self.logs(server).join("console");
        let output = File::create(&console).expect("console");
        let mut command = self.command(server);
        command.stdout(output.try_clone().expect("console")).stderr(output);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program(server).display()));
        let mut running = Running {
            server,
            child,
            ports,
            prefix: self.prefix(),
            _directory: Arc::clone(&self.directory),
            logs: self.logs(server),
            whole: self.whole,
            loads: self.loads(server),
            daemon: configuration.contains("daemon on;"),
            stopped: false,
        };
        if running.is_ready() { Ok(running) } else { Err(running.all_logs()) }
    }

    fn render(&self, server: Server, configuration: &str, ports: &BTreeMap<usize, u16>) -> String {
        let text = if self.whole { configuration.to_owned() } else { frame(server, configuration) };
        fill(&(self.loads(server) + &text), &self.prefix(), &self.logs(server), ports)
    }

    fn program(&self, server: Server) -> &Path {
        match (&self.nginx, server) {
            (Some(nginx), Server::Nginx) => &nginx.path,
            _ => server.path(),
        }
    }

    /// The directives that a configuration for this server has to start with.
    fn loads(&self, server: Server) -> String {
        let modules = self.nginx.iter().filter(|_| server == Server::Nginx).flat_map(|nginx| &nginx.loads);
        modules.map(|module| format!("load_module {};\n", module.display())).collect()
    }
}

/// A started server. Dropping it ends the processes that it is known to consist of, and no others.
#[derive(Debug)]
pub struct Running {
    server: Server,
    child: Child,
    ports: BTreeMap<usize, u16>,
    prefix: PathBuf,
    /// Keeps the site's files as long as the server that uses them.
    _directory: Arc<TempDir>,
    logs: PathBuf,
    whole: bool,
    loads: String,
    /// Whether the started process goes away while its child serves.
    daemon: bool,
    stopped: bool,
}

impl Running {
    /// Which server this is.
    pub fn server(&self) -> Server {
        self.server
    }

    /// Address of `%%PORT%%`.
    pub fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// Address of `%%PORT_n%%`.
    pub fn address_of(&self, n: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[&n]))
    }

    /// All chosen ports.
    pub fn ports(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.ports.iter().map(|(&n, &port)| (n, port))
    }

    /// Sends a request in the short form (see `request::expand`) on a separate connection.
    pub fn ask(&self, short: &str) -> Answer {
        client::ask(self.address(), short)
    }

    /// Sends bytes as they stand on a separate connection.
    pub fn ask_bytes(&self, bytes: &[u8]) -> Answer {
        client::ask_bytes(self.address(), bytes)
    }

    /// A connection to `%%PORT%%`.
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Process id of the supervisor that was started, or after an upgrade of its successor.
    pub fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.pid_path()).unwrap_or_default();
        text.trim().parse().ok().and_then(Pid::from_raw).unwrap_or_else(|| Pid::from_child(&self.child))
    }

    /// Path of the pid file.
    pub fn pid_path(&self) -> PathBuf {
        self.logs.join("pid")
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signal");
    }

    /// Process ids of the children of `pid`.
    pub fn children(pid: Pid) -> Vec<Pid> {
        children(pid)
    }

    /// The most memory that the server's worker ever had, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    /// How much memory the server's worker has now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    fn memory_bytes(&self, name: &str) -> u64 {
        let mut workers = Vec::new();
        wait::until(PATIENCE, || {
            workers = Running::children(self.pid());
            !workers.is_empty()
        });
        let worker = workers.first().expect("a worker");
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a number");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Replaces the configuration, keeping the ports; the server is not told.
    pub fn rewrite(&self, configuration: &str) {
        let text = if self.whole { configuration.to_owned() } else { frame(self.server, configuration) };
        let text = fill(&format!("{}{text}", self.loads), &self.prefix, &self.logs, &self.ports);
        // At once: a server that reads the file meanwhile must not find half of it.
        let path = self.prefix.join(conf_name(self.server));
        let whole = path.with_extension("whole");
        fs::write(&whole, text).and_then(|()| fs::rename(whole, path)).expect("configuration");
    }

    /// Path of a file among this server's logs.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.logs.join(name)
    }

    /// Content of a file among this server's logs; empty when there is none.
    pub fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.logs.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until a log holds `text`; panics when it does not come.
    pub fn wait_for_log(&self, name: &str, text: &str) {
        let found = wait::until(PATIENCE, || self.log(name).contains(text));
        assert!(found, "{:?} never came in {name}:\n{}", text, self.all_logs());
    }

    /// Error log and console together.
    pub fn all_logs(&self) -> String {
        format!("--- error.log\n{}--- console\n{}", self.log("error.log"), self.log("console"))
    }

    /// Stops gracefully (QUIT) and makes sure that nothing was logged that must never be.
    pub fn stop(self) {
        self.stop_and(|_| ());
    }

    /// As `stop`, then reads something, such as the logs that are complete now.
    pub fn stop_and<T>(mut self, read: impl FnOnce(&Running) -> T) -> T {
        self.signal(Signal::QUIT);
        assert!(
            self.ends_within(PATIENCE),
            "{} did not stop on QUIT:\n{}",
            self.server.name(),
            self.all_logs()
        );
        self.stopped = true;
        self.assert_healthy();
        read(&self)
    }

    /// Stops a server whose log has alerts that a test caused, and makes sure that it did not panic.
    pub fn stop_alerted(mut self) {
        self.signal(Signal::QUIT);
        assert!(self.ends_within(PATIENCE), "{}", self.all_logs());
        self.stopped = true;
        assert!(!self.all_logs().contains("panicked at"), "{}", self.all_logs());
    }

    /// Panics when the logs tell of a crash.
    pub fn assert_healthy(&self) {
        let logs = self.all_logs();
        for bad in ["panicked at", "[alert]", "Sanitizer", "core dumped"] {
            assert!(!logs.contains(bad), "{} logged {bad:?}:\n{logs}", self.server.name());
        }
    }

    /// Waits for all supervisors of this server to end: the one started and those that followed it.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        let pid = self.pid();
        wait::until(limit, || {
            let exited = self.child.try_wait().expect("wait").is_some();
            exited && !is_alive(pid)
        })
    }

    fn is_ready(&mut self) -> bool {
        let listens = self.ports.contains_key(&0);
        wait::until(PATIENCE, || {
            if self.has_failed() {
                return true;
            }
            let written = fs::read_to_string(self.pid_path()).is_ok_and(|text| text.ends_with('\n'));
            written && (!listens || TcpStream::connect(self.address()).is_ok())
        }) && !self.has_failed()
    }
}

impl Running {
    fn has_failed(&mut self) -> bool {
        match self.child.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => !(self.daemon && status.success()),
            Err(_) => true,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        let mut masters = vec![Pid::from_child(&self.child)];
        let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok().and_then(Pid::from_raw);
        masters.extend(read(self.pid_path()).filter(|&pid| self.is_ours(pid)));
        masters.extend(read(self.logs.join("pid.oldbin")).filter(|&pid| self.is_ours(pid)));
        for &master in &masters {
            let _ = kill_process(master, Signal::TERM);
        }
        let ended = wait::until(Duration::from_secs(2), || {
            let _ = self.child.try_wait();
            masters.iter().all(|&pid| !is_alive(pid))
        });
        if !ended {
            let workers: Vec<Pid> = masters.iter().flat_map(|&pid| children(pid)).collect();
            for pid in masters.into_iter().chain(workers).filter(|&pid| self.is_ours(pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

impl Running {
    /// A process is this server's when it runs the same program in the same directory.
    fn is_ours(&self, pid: Pid) -> bool {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|directory| directory.starts_with(&self.prefix))
    }
}

fn conf_name(server: Server) -> String {
    format!("{}.conf", server.name())
}

/// Whether a process runs; one that has ended and is not yet collected by its parent does not.
pub fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The file around the content of `http {}`.
fn frame(server: Server, http: &str) -> String {
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let log = match http.find("access_log") {
        None => "access_log %%LOGS%%/access.log;",
        // What a server logs that says nothing is nobody's concern, but the log has to be somewhere.
        Some(_) if !sets_access_log(http) => "access_log %%LOGS%%/unasked.log;",
        Some(_) => "",
    };
    let temporary = match server {
        Server::Fulmar => String::new(),
        Server::Nginx => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path %%LOGS%%/{name}_temp;"))
            .join("\n    "),
    };
    format!(
        "daemon off;\nmaster_process on;\nworker_processes 1;\n{user}\npid %%LOGS%%/pid;\n\
         error_log %%LOGS%%/error.log info;\nevents {{ worker_connections 512; }}\n\
         http {{\n    {log}\n    {temporary}\n{http}\n}}\n"
    )
}

/// Whether `access_log` stands outside of all blocks.
fn sets_access_log(http: &str) -> bool {
    let is_outside = |text: &str| text.matches('{').count() == text.matches('}').count();
    http.match_indices("access_log").any(|(at, _)| is_outside(&http[..at]))
}

fn fill(text: &str, prefix: &Path, logs: &Path, ports: &BTreeMap<usize, u16>) -> String {
    let mut text = text
        .replace("%%ROOT%%", &prefix.join("html").display().to_string())
        .replace("%%LOGS%%", &logs.display().to_string())
        .replace("%%DIR%%", &prefix.display().to_string());
    for (n, port) in ports {
        text = text.replace(&mark(*n), &port.to_string());
    }
    assert!(!text.contains("%%"), "unknown mark in:\n{text}");
    text
}

/// `%%PORT%%` is number 0.
fn mark(n: usize) -> String {
    if n == 0 { "%%PORT%%".to_owned() } else { format!("%%PORT_{n}%%") }
}

/// A free port for each mark. No port is given twice in this process.
fn choose_ports(text: &str) -> BTreeMap<usize, u16> {
    static GIVEN: OnceLock<Mutex<HashSet<u16>>> = OnceLock::new();
    let mut given = GIVEN.get_or_init(Mutex::default).lock().expect("ports");
    let mut ports = BTreeMap::new();
    for n in (0..16).filter(|&n| text.contains(&mark(n))) {
        let port = loop {
            let port = free_port().expect("a free port");
            // Five digits each, so that lengths do not depend on the port.
            if port >= 10_000 && given.insert(port) {
                break port;
            }
        };
        ports.insert(n, port);
    }
    ports
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port())
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("parent")).expect("directory");
    fs::write(path, content).expect("document");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(MTIME);
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .expect("modification time");
}

fn children(pid: Pid) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::from_raw)).collect()
}
