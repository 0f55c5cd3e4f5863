//! Every contender that is found: started with each of its configurations, asked, told to read its configuration
//! anew, stopped, and gone without a trace. Those that are not installed are named and left out.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::measure::contender::{Contender, Found, Place, Running, find};
use lab::measure::engine::fetch;
use lab::measure::engine::site::{Site, content};
use lab::model::block;
use lab::model::experiment::{Configuration, NginxConf, SiteFile};

/// 7 bytes, 1 KB and 72 KB, with their types.
const FILES: [(&str, u64, &str); 3] =
    [("/index.html", 7, "text/html"), ("/1k.txt", 1024, "text/plain"), ("/72k.png", 71_882, "image/png")];

/// Which configuration, and whether it takes TLS and writes a log.
type Life = (Configuration, &'static str);

const LIVES: [Life; 4] = [
    (Configuration::Default, "off"),
    (Configuration::Default, "on"),
    (Configuration::Tuned, "off"),
    (Configuration::Tuned, "on"),
];

/// So many contenders run at once.
const AT_ONCE: usize = 4;

/// How long a contender may take for what it does by and by.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn every_contender_serves_reloads_and_leaves_nothing_behind() {
    // Where `make lab` leaves what it fetched and built.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let files = FILES.map(|(path, length, _)| SiteFile { path: path.into(), length, ..SiteFile::default() });
    let site = Site::create(folder.path(), &files).unwrap();
    let all = Contender::built_in().unwrap();
    let found: BTreeMap<&str, Result<Found>> =
        all.iter().map(|contender| (contender.name.as_str(), find(contender, None))).collect();

    let mut cases = Vec::new();
    for contender in &all {
        let behind = contender.family.behind.as_deref().map(|name| found[name].as_ref());
        match (found[contender.name.as_str()].as_ref(), behind.transpose()) {
            (Ok(found), Ok(behind)) => {
                println!("{} {} ({})", contender.name, found.version, found.origin);
                cases.extend(
                    LIVES.map(|life| Case { found, behind, life }).into_iter().filter(Case::is_known),
                );
            }
            (Err(error), _) | (_, Err(error)) => println!("left out: {}: {error}", contender.name),
        }
    }
    let bench = Bench { folder: folder.path(), site: &site, ports: Mutex::default() };
    let cases = Mutex::new(cases);
    let wrong = Mutex::new(Vec::new());
    let next = || cases.lock().unwrap().pop();
    // Most of the time is spent in waiting until contenders start and end.
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if let Err(error) = case.lives(&bench) {
                        wrong.lock().unwrap().push(format!("{}: {error:#}", case.label()));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Otherwise those of one contender count against the next one, until the application may open no more files.
#[test]
fn the_application_behind_others_lets_go_of_websockets() {
    let all = Contender::built_in().unwrap();
    let contender = all.iter().find(|contender| contender.name == "node").unwrap();
    let Ok(found) = find(contender, None) else {
        println!("left out: {} is not installed", contender.title);
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let site = Site::create(folder.path(), &[]).unwrap();
    let place = Place { options: BTreeMap::new(), ..place(folder.path(), &site, LIVES[0]) };
    let running = Running::start(&found, None, "node", &place).unwrap();
    let mut client = TcpStream::connect(running.address).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("the application closes the connection, too");
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A load with resumed sessions, with nginx as it is and with nginx that resumes none.
const RESUMED: &str = r#"
id = "resumed"
title = "Resumed"
question = "Does it resume?"
contenders = ["nginx"]

[[files]]
path = "1k"
length = 1024

[[loads]]
id = "on"
title = "On"
path = "/1k"
clients = 2
requests = 100
tls = { resume = true }

[[loads]]
id = "off"
title = "Off"
path = "/1k"
clients = 2
requests = 100
tls = { resume = true }
nginx_conf = { server = "ssl_session_cache off; ssl_session_tickets off;" }
"#;

/// Otherwise the time of new handshakes would be taken for that of resumed ones.
#[test]
fn sessions_are_resumed_before_that_is_timed() {
    let all = Contender::built_in().unwrap();
    let contender = all.iter().find(|contender| contender.name == "nginx").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().unwrap();
    let experiment = folder.path().join("resumed.toml");
    fs::write(&experiment, RESUMED).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    check.args(["check", "resumed", "--experiment"]).arg(&experiment);
    let output = check.arg("--out").arg(folder.path()).current_dir(root).output().unwrap();
    let blocks = block::read(&folder.path().join("check").join(block::FILE)).unwrap();
    if blocks.iter().any(|block| block.version.is_empty()) {
        println!("left out: {} is not installed", contender.title);
        assert!(std::env::var_os("CI").is_none(), "{blocks:?}");
        return;
    }
    let failures: Vec<(&str, &str)> = blocks
        .iter()
        .map(|block| (block.cell.load.as_str(), block.failure.as_deref().unwrap_or_default()))
        .collect();
    let why = "it is not compared, because it does not resume TLS sessions: 0 of 4 connections resumed the session of the \
               one before";
    assert_eq!(
        failures,
        [("off", why); 2],
        "nginx and its twin: {}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// What all contenders of the test share.
struct Bench<'a> {
    folder: &'a Path,
    site: &'a Site,
    /// The ports of those that run. One is started at a time, so that no two are given the same port; and the port of
    /// one that is gone may be another's by now.
    ports: Mutex<Vec<u16>>,
}

impl Bench<'_> {
    fn ports(&self) -> MutexGuard<'_, Vec<u16>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A contender with one configuration.
struct Case<'a> {
    found: &'a Found,
    behind: Option<&'a Found>,
    life: Life,
}

impl Case<'_> {
    fn is_known(&self) -> bool {
        let options = &self.found.contender.family.options;
        let has = |option: &str, setting| {
            options.get(option).is_some_and(|settings| settings.contains_key(setting))
        };
        has("tls", self.life.1) && has("access_log", self.life.1)
    }

    fn label(&self) -> String {
        let (configuration, switch) = self.life;
        format!("{}-{configuration:?}-tls-and-log-{switch}", self.found.contender.name)
    }

    fn lives(&self, bench: &Bench<'_>) -> Result<()> {
        let place = place(bench.folder, bench.site, self.life);
        let running = {
            let mut ports = bench.ports();
            let running = Running::start(self.found, self.behind, &self.label(), &place)?;
            ports.extend(ports_of(&running));
            running
        };
        let (own, folder) = (ports_of(&running), running.folder().to_path_buf());
        let result = serves(&running, &place);
        drop(running);
        let gone = leaves_nothing(&folder);
        let mut ports = bench.ports();
        for port in &own {
            let place = ports.iter().position(|other| other == port);
            ports.swap_remove(place.context("its port")?);
        }
        result?;
        gone?;
        for port in own.into_iter().filter(|port| !ports.contains(port)) {
            let address = (Ipv4Addr::LOCALHOST, port);
            ensure!(TcpStream::connect(address).is_err(), "it still listens on {port}");
        }
        fs::remove_dir_all(&folder).context("its folder")
    }
}

fn place(folder: &Path, site: &Site, (configuration, switch): Life) -> Place {
    let options = [("tls", switch), ("access_log", switch)];
    Place {
        folder: folder.to_path_buf(),
        root: site.root.clone(),
        cores: "0".into(),
        threads: 1,
        connections: 1,
        configuration,
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        backend_options: BTreeMap::new(),
        directives: NginxConf::default(),
        certificate: site.certificate.clone(),
        key: site.key.clone(),
        backend: None,
    }
}

/// Where it listens, and where what is behind it does.
fn ports_of(running: &Running) -> Vec<u16> {
    let behind = running.values().get("backend_port").and_then(|port| port.parse().ok());
    std::iter::once(running.address.port()).chain(behind).collect()
}

/// It answers, writes its log, and goes on when it reads its configuration anew.
fn serves(running: &Running, place: &Place) -> Result<()> {
    let (tls, log) = (place.options["tls"] == "on", place.options["access_log"] == "on");
    asked(running, tls)?;
    ensure!(!running.processes().is_empty(), "no processes");
    if log {
        logged(running)?;
    }
    if running.found().contender.family.reload.is_some() {
        running.reload().context("reload")?;
        for (path, length, _) in FILES.repeat(10) {
            // A kept connection may end with the process that had it.
            let mut connection = fetch::connect(running.address, tls).context("after the reload")?;
            let answer =
                fetch::get(&mut connection, path, &["Connection: close"]).context("after the reload")?;
            ensure!(
                answer.content.len() as u64 == length,
                "after the reload: {} bytes",
                answer.content.len()
            );
        }
    }
    Ok(())
}

/// None of its processes and sockets is there, once what was killed is gone.
fn leaves_nothing(folder: &Path) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while let left = processes_of(folder)
        && !left.is_empty()
    {
        ensure!(Instant::now() < end, "processes are left: {left:?}");
        thread::park_timeout(Duration::from_millis(20));
    }
    let sockets = fs::read_to_string("/proc/net/unix")?;
    let left: Vec<&str> =
        sockets.lines().filter(|line| line.contains(&folder.display().to_string())).collect();
    ensure!(left.is_empty(), "sockets are left: {left:?}");
    Ok(())
}

/// All files on one connection, and one on another.
fn asked(running: &Running, tls: bool) -> Result<()> {
    let mut connection = fetch::connect(running.address, tls)?;
    for (path, length, media_type) in FILES {
        let answer = fetch::get(&mut connection, path, &[])?;
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        ensure!(answer.content == content(path, length), "{path}: {} bytes", answer.content.len());
        let field = |name: &str| answer.fields.get(name).map_or("", String::as_str);
        ensure!(
            field("content-length") == length.to_string(),
            "{path}: length {:?}",
            field("content-length")
        );
        let named = field("content-type").split(';').next().unwrap_or_default();
        ensure!(named == media_type, "{path}: type {named:?}");
    }
    let mut other = fetch::connect(running.address, tls)?;
    ensure!(fetch::get(&mut other, "/", &["Connection: close"])?.content.len() == 7, "/ is not the index");
    ensure!(fetch::get(&mut other, "/", &[]).is_err(), "Connection: close keeps the connection");
    Ok(())
}

/// Some log in the folder names the file that was asked for; servers may write it a little later.
fn logged(running: &Running) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        for entry in fs::read_dir(running.folder())? {
            let path = entry?.path();
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            if is_log && fs::read_to_string(&path).unwrap_or_default().contains("72k.png") {
                return Ok(());
            }
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    bail!("no log names the file that was asked for")
}

/// Processes that work in a folder or were started with its name.
fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let works_there =
            fs::read_link(entry.path().join("cwd")).is_ok_and(|current| current.starts_with(folder));
        if works_there || command.contains(&name) {
            left.push(format!("{} {command}", entry.file_name().display()));
        }
    }
    left
}
