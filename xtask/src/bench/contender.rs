//! A server that is measured: its program, and a running one with a folder and a port of its own.

use std::fmt;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::workload::{self, FILES};
use super::{Plan, process};

/// A program that takes nginx's command line.
pub(super) struct Program {
    path: PathBuf,
    version: String,
}

impl Program {
    /// Asks the program for its version.
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        let output = Command::new(&path).arg("-v").output();
        let output = output.with_context(|| format!("running {}", path.display()))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let version = text.lines().next().unwrap_or_default();
        let version = version.rsplit(": ").next().unwrap_or_default().to_owned();
        Ok(Self { path, version })
    }

    /// What is in front of the slash of the version.
    pub(super) fn name(&self) -> &str {
        self.version.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.version, self.path.display())
    }
}

/// The first file of that name below a folder.
pub(super) fn find_below(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().ok()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.file_name() == name {
                return Some(entry.path());
            }
        }
    }
    None
}

/// A running server. It ends when this is dropped.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    pub(super) address: SocketAddr,
}

/// How long a server may take to start and to end.
const LIMIT: Duration = Duration::from_secs(10);

impl Server {
    /// Starts a program on its cores, with a folder of that name below `folder`.
    pub(super) fn start(program: &Program, name: &str, plan: &Plan, folder: &Path) -> Result<Self> {
        write_files(&folder.join("files"))?;
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let user = if is_root { "user root;" } else { "" };
        let conf = workload::configuration(address.port(), plan.threads, user);
        fs::write(folder.join("server.conf"), conf)?;
        let child = Command::new("taskset")
            .args(["--cpu-list", &plan.server_cores()])
            .arg(&program.path)
            .arg("-p")
            .arg(&folder)
            .args(["-e", "error.log", "-c", "server.conf"])
            .stdin(Stdio::null())
            .stderr(File::create(folder.join("stderr.log"))?)
            .spawn()
            .context("running taskset")?;
        let mut server = Self { child, folder, address };
        server.wait_until_ready().with_context(|| format!("starting {program}"))?;
        Ok(server)
    }

    /// All processes of the server.
    pub(super) fn processes(&self) -> Vec<u32> {
        process::family(self.child.id())
    }

    /// Empties what the server logged, so that it does not fill the disk.
    pub(super) fn empty_logs(&self) -> Result<()> {
        let path = self.folder.join("access.log");
        match File::options().write(true).open(&path) {
            Ok(file) => file.set_len(0).with_context(|| format!("emptying {}", path.display())),
            Err(_) => Ok(()),
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{status}, see {}", self.folder.join("stderr.log").display());
            }
            ensure!(Instant::now() < end, "it does not accept connections");
            thread::park_timeout(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    /// Asks the server to end, and ends what is left of it when it does not.
    fn drop(&mut self) {
        let family = self.processes();
        let signal = |pid: u32, signal| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map(|pid| kill_process(pid, signal))
        };
        signal(self.child.id(), Signal::TERM);
        let end = Instant::now() + LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::park_timeout(Duration::from_millis(20));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            for pid in family {
                signal(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

fn write_files(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, length) in FILES {
        fs::write(folder.join(name), workload::content(*length))?;
    }
    Ok(())
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_version() {
        let program = Program { path: "/x/nginx".into(), version: "nginx/1.31.3".into() };
        assert_eq!(program.name(), "nginx");
        assert_eq!(program.to_string(), "nginx/1.31.3 (/x/nginx)");
        assert!(Program::new("/no/such/program".into()).is_err());
    }
}
