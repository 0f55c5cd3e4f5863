//! A contender that runs: with its own folder, port and cores.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal as Code, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::{Action, Found, Signal};
use crate::measure::digest;
use crate::measure::process;
use crate::model::experiment::{Configuration, NginxConf};

/// Where a contender runs and what it serves.
#[derive(Clone, Debug)]
pub struct Place {
    /// A folder for all contenders of the run; each gets its own folder in it.
    pub folder: PathBuf,
    /// The files that are served.
    pub root: PathBuf,
    /// The contender's cores, as taskset takes them.
    pub cores: String,
    /// How many cores these are.
    pub threads: u32,
    /// How many connections it has to hold.
    pub connections: u32,
    /// Which configuration.
    pub configuration: Configuration,
    /// What is different in it.
    pub options: BTreeMap<String, String>,
    /// Options of its backend, which takes those that it knows.
    pub backend_options: BTreeMap<String, String>,
    /// Directives of the load's own, for those that read nginx's.
    pub directives: NginxConf,
    /// A certificate and its key, for loads over TLS.
    pub certificate: PathBuf,
    /// As `certificate`.
    pub key: PathBuf,
    /// Where requests are passed on to, if they are.
    pub backend: Option<SocketAddr>,
}

/// A running contender. It ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    found: Found,
    values: BTreeMap<String, String>,
    folder: PathBuf,
    files: Vec<PathBuf>,
    /// Where it listens.
    pub address: SocketAddr,
    /// SHA-256 of its configuration files, the first 16 hexadecimal digits.
    pub digest: String,
    /// What it stands in front of.
    behind: Option<Box<Running>>,
    is_asked_to_end: bool,
}

/// How long a contender may take to start and to end.
const LIMIT: Duration = Duration::from_secs(20);

/// Every contender may have so many connections, and an eighth more than it has to hold: some close those that are
/// idle once few are left.
const CONNECTIONS: u32 = 4096;

/// How long one look at it waits for the next.
const STEP: Duration = Duration::from_millis(10);

impl Running {
    /// Starts a contender, and before it the one that it stands in front of. `label` names its folder.
    pub fn start(found: &Found, behind: Option<&Found>, label: &str, place: &Place) -> Result<Running> {
        let behind = match behind {
            Some(backend) => {
                // Only the contender that clients see has the load's options and directives.
                let options = backend.contender.known_options(&place.backend_options);
                let place = Place { options, directives: NginxConf::default(), ..place.clone() };
                Some(Box::new(Running::start(backend, None, &format!("{label}-backend"), &place)?))
            }
            None => None,
        };
        if let (Some(user), true) = (&found.contender.family.serves_as, is_root()) {
            let closed = closed_to_others(&place.root);
            ensure!(
                closed.is_none(),
                "it serves as {user}, who cannot enter {}",
                closed.unwrap_or(&place.root).display()
            );
        }
        let folder = fresh_folder(&place.folder.join(label))?;
        let address = free_address()?;
        let mut values = values(found, place, &folder, address);
        if let Some(backend) = behind.as_ref().map(|behind| behind.address).or(place.backend) {
            values.insert("backend".into(), backend.to_string());
            values.insert("backend_port".into(), backend.port().to_string());
        }
        let files = found.contender.configuration(place.configuration, &place.options, &values)?;
        for (name, text) in &files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        let digest = digest_of(&files, &values);
        let files = files.into_keys().map(|name| folder.join(name)).collect();
        prepare(found, &values, &folder)?;
        // It would answer in the contender's place.
        ensure!(
            TcpStream::connect(address).is_err(),
            "another program took port {} before {} could listen on it: run it again",
            address.port(),
            found.contender.name
        );
        let child = spawn(found, &values, &folder, &place.cores)?;
        let mut running = Running {
            child,
            found: found.clone(),
            values,
            folder,
            files,
            address,
            digest,
            behind,
            is_asked_to_end: false,
        };
        running.wait_until_ready().with_context(|| format!("starting {}", found.contender.name))?;
        Ok(running)
    }

    /// Its program.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// What serves its clients together with its program, with versions: files that it needs, and its backend.
    pub fn parts(&self) -> Vec<String> {
        let behind = self.behind.iter().flat_map(|behind| {
            let named = behind.found.named();
            std::iter::once(named).chain(behind.parts())
        });
        self.found.parts.iter().cloned().chain(behind).collect()
    }

    /// The folder with its configuration and its logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its configuration files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What its templates and commands were filled with.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// The process that was started, and that of what it stands in front of.
    pub fn roots(&self) -> Vec<u32> {
        let behind = self.behind.iter().flat_map(|behind| behind.roots());
        std::iter::once(self.child.id()).chain(behind).collect()
    }

    /// All of its processes, and those of what it stands in front of.
    pub fn processes(&self) -> Vec<u32> {
        let mut all = process::family(self.child.id());
        all.extend(self.behind.iter().flat_map(|behind| behind.processes()));
        all
    }

    /// Whether its first process is still there.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How its first process ended, and what it wrote last, if it has ended.
    pub fn death(&self) -> Option<String> {
        let process = WaitId::Pid(pid(self.child.id())?);
        // It stays to be waited for.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(process, look).ok()??;
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("with code {code}"),
            (None, Some(signal)) => format!("by signal {signal}"),
            (None, None) => "somehow".to_owned(),
        };
        let words = last_words(&self.folder);
        Some(if words.is_empty() { how } else { format!("{how}: {words}") })
    }

    /// Tells it to read its configuration anew. Fails where it cannot do that without losing requests.
    pub fn reload(&self) -> Result<()> {
        match &self.found.contender.family.reload {
            None => bail!("{} has no such reload", self.found.contender.title),
            Some(Action::Signal(signal)) => self.signal(*signal),
            Some(Action::Command(words)) => {
                process::complete(&self.found.contender.command(words, &self.values)?, &self.folder)
            }
        }
    }

    /// Empties its logs, so that they do not fill the disk. `*.log` in its folder are logs.
    pub fn empty_logs(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                // What cannot be emptied was deleted or rotated meanwhile.
                let _ = File::options().write(true).open(&path).and_then(|file| file.set_len(0));
            }
        }
    }

    /// Tells it to end, and does not wait for that.
    pub fn ask_to_end(&mut self) {
        // It may have ended by itself.
        let _ = self.signal(self.found.contender.family.stop);
        self.is_asked_to_end = true;
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = pid(self.child.id()).context("no process")?;
        kill_process(pid, code(signal)).context("sending a signal")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{status}: {}", last_words(&self.folder));
            }
            ensure!(Instant::now() < end, "it does not accept connections: {}", last_words(&self.folder));
            thread::park_timeout(STEP);
        }
        Ok(())
    }
}

impl Drop for Running {
    /// Asks the contender to end, and ends what is left of it when it does not.
    fn drop(&mut self) {
        let family = process::family(self.child.id());
        // A second signal would be a stronger one to some.
        if !self.is_asked_to_end {
            self.ask_to_end();
        }
        let end = Instant::now() + LIMIT / 4;
        while self.is_alive() && Instant::now() < end {
            thread::park_timeout(STEP);
        }
        if let Some(group) = pid(self.child.id()) {
            let _ = kill_process_group(group, Code::KILL);
        }
        // Processes that made a separate group, if they are still those that were seen.
        for process in family.iter().copied().filter(|process| process::works_in(*process, &self.folder)) {
            if let Some(pid) = pid(process) {
                let _ = kill_process(pid, Code::KILL);
            }
        }
        let _ = self.child.wait();
        // What was killed lets go of its port a moment later.
        let end = Instant::now() + LIMIT / 4;
        while family.iter().any(|process| process::works_in(*process, &self.folder)) && Instant::now() < end {
            thread::park_timeout(STEP);
        }
    }
}

/// Runs the commands that come before its start.
fn prepare(found: &Found, values: &BTreeMap<String, String>, folder: &Path) -> Result<()> {
    let contender = &found.contender;
    contender.family.prepare.iter().try_for_each(|words| {
        let words = contender.command(words, values)?;
        process::complete(&words, folder).with_context(|| format!("preparing {}", contender.name))
    })
}

/// Starts the program in a separate group, on its cores, and so that it ends with this process even where this is
/// killed.
fn spawn(found: &Found, values: &BTreeMap<String, String>, folder: &Path, cores: &str) -> Result<Child> {
    let contender = &found.contender;
    let words = contender.command(&contender.family.start, values)?;
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cores, "setpriv", "--pdeathsig", "TERM", "--"]).args(words);
    for (name, value) in &contender.family.start_environment {
        command.env(name, contender.command(std::slice::from_ref(value), values)?.concat());
    }
    let log = |name: &str| File::create(folder.join(name)).with_context(|| folder.display().to_string());
    let child = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log("stdout.log")?)
        .stderr(log("stderr.log")?)
        .process_group(0)
        .spawn();
    child.context("running taskset: apt-get install util-linux")
}

fn values(found: &Found, place: &Place, folder: &Path, address: SocketAddr) -> BTreeMap<String, String> {
    let root = is_root();
    let pairs = [
        ("program", found.program.display().to_string()),
        ("program_folder", found.program.parent().unwrap_or(Path::new("/")).display().to_string()),
        ("folder", folder.display().to_string()),
        ("root", place.root.display().to_string()),
        ("port", address.port().to_string()),
        ("threads", place.threads.to_string()),
        ("connections", (place.connections / 8 * 9).max(CONNECTIONS).to_string()),
        ("user", if root { "user root;".to_owned() } else { String::new() }),
        // For servers that refuse to serve as root.
        ("account", account()),
        ("unprivileged", if root { "www-data".to_owned() } else { account() }),
        ("http", place.directives.http.clone()),
        ("server", place.directives.server.clone()),
        ("certificate", place.certificate.display().to_string()),
        ("key", place.key.display().to_string()),
        // Without TLS they need not exist.
        ("certificate_text", fs::read_to_string(&place.certificate).unwrap_or_default()),
        ("key_text", fs::read_to_string(&place.key).unwrap_or_default()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The first folder on the way to this one that only its owner may enter.
fn closed_to_others(folder: &Path) -> Option<&Path> {
    let closed =
        |folder: &&Path| fs::metadata(folder).is_ok_and(|data| data.is_dir() && data.mode() & 1 == 0);
    folder.ancestors().filter(closed).last()
}

/// The name of the user that runs this, or the number where it has no name.
fn account() -> String {
    let user = fs::metadata("/proc/self").map_or(0, |process| process.uid()).to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user).then(|| name.to_owned())
    });
    named.unwrap_or(user)
}

/// A digest that is the same whatever the run's folders, ports and certificate are.
fn digest_of(files: &BTreeMap<String, String>, values: &BTreeMap<String, String>) -> String {
    let of_the_run =
        ["certificate_text", "key_text", "folder", "root", "certificate", "key", "port", "backend_port"];
    let all: String = files.iter().map(|(name, text)| format!("{name}\n{text}\n")).collect();
    let pairs = of_the_run.iter().filter_map(|name| Some((*name, values.get(*name)?)));
    let all = pairs
        .filter(|(_, value)| !value.is_empty())
        .fold(all, |all, (name, value)| all.replace(value.as_str(), name));
    digest::short(all.as_bytes())
}

fn fresh_folder(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // Contenders that give up their privileges write here too.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    Ok(fs::canonicalize(folder)?)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The end of what it wrote before it ended.
fn last_words(folder: &Path) -> String {
    let logs = ["stderr.log", "error.log", "stdout.log"];
    let texts = logs.iter().filter_map(|log| fs::read_to_string(folder.join(log)).ok());
    let text = texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

fn code(signal: Signal) -> Code {
    match signal {
        Signal::Hup => Code::HUP,
        Signal::Usr1 => Code::USR1,
        Signal::Usr2 => Code::USR2,
        Signal::Int => Code::INT,
        Signal::Term => Code::TERM,
        Signal::Quit => Code::QUIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_others_cannot_enter_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let allow =
            |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        allow(&inner, 0o755);
        allow(folder.path(), 0o700);
        assert_eq!(closed_to_others(&inner), Some(folder.path()));
        allow(folder.path(), 0o755);
        assert_eq!(closed_to_others(&inner), None);
    }
}
