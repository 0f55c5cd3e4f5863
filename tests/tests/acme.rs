//! Automatic certificates, from Pebble.

mod authorities;
mod domains;
mod faults;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tests::binary::Server;
use tests::dns::NameServer;
use tests::pebble::{Options, Pebble, have_pebble};
use tests::site::{Running, Site};
use tests::tls::Client;
use tests::{wait, worker};

const LIMIT: Duration = Duration::from_secs(60);

/// What the certificates of Pebble have in them.
const ISSUER: &[u8] = b"Pebble Intermediate CA";

/// The authority, the names, the site, and the directory of the authority and of the state.
struct Parts {
    pebble: Pebble,
    site: Site,
    directory: TempDir,
    _names: NameServer,
}

/// A site with a server in clear at the first port, and these servers at the second.
fn parts(issuer: &str, servers: &str, rejected_nonces: u8) -> Parts {
    let names = NameServer::of("127.0.0.1");
    parts_with(names, issuer, servers, Options { rejected_nonces, ..Options::default() })
}

fn parts_with(names: NameServer, issuer: &str, servers: &str, options: Options) -> Parts {
    let directory = TempDir::with_prefix("acme-").expect("a directory");
    let pebble = Pebble::start(directory.path(), &names, options);
    let issuer = format!("{} {issuer}", pebble.issuer());
    let site = Site::whole(&configuration(&issuer, servers));
    Parts { pebble, site, directory, _names: names }
}

fn configuration(issuer: &str, servers: &str) -> String {
    let user = if geteuid().is_root() { "user nobody nogroup;" } else { "" };
    format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{ access_log off; acme_issuer test {{ {issuer} }}
           server {{ listen 127.0.0.1:%%PORT%%; return 301 https://$host$request_uri; }}
           {servers} }}"
    )
}

impl Parts {
    fn start(&self) -> Running {
        let running = self.site.start(Server::Fulmar);
        self.pebble.validates_at(running.address(), running.address_of(1));
        running
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The text of the only certificate that is kept, with its key in front.
    fn kept(&self) -> String {
        let files = fs::read_dir(self.state()).expect("the state").flatten().map(|file| file.path());
        let path = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "pem"));
        fs::read_to_string(path.expect("a certificate")).expect("text")
    }

    /// What `fulmar certificates` tells of the only certificate.
    fn listed(&self) -> serde_json::Value {
        let mut command = Command::new(Server::Fulmar.path());
        command.args(["certificates", "--json", "-p"]).arg(self.site.prefix()).args(["-c", "fulmar.conf"]);
        let told = command.output().expect("fulmar");
        serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"))
    }

    fn fails(&self, running: &Running) -> String {
        format!("{}\n{}", running.all_logs(), self.pebble.log())
    }

    /// Waits until the server of this name has a certificate of the authority.
    fn issued(&self, running: &Running, name: &str) -> Vec<u8> {
        let mut found = Vec::new();
        let is_issued = wait::until(LIMIT, || {
            found = served(running, name);
            is_issued(&found)
        });
        assert!(is_issued, "{name} has none: {}", self.fails(running));
        found
    }
}

fn is_issued(der: &[u8]) -> bool {
    der.windows(ISSUER.len()).any(|part| part == ISSUER)
}

/// The certificate that a client gets for this name.
fn served(running: &Running, name: &str) -> Vec<u8> {
    let answer = Client::new(Some(name)).ask(running.address_of(1), "GET /\nConnection: close");
    answer.expect("an answer").certificate
}

/// The process that gets the certificates.
fn issuing(running: &Running) -> Option<Pid> {
    let log = running.log("error.log");
    let line = log.lines().rfind(|line| line.contains("start certificate process "))?;
    line.rsplit(' ').next()?.parse().ok().and_then(Pid::from_raw)
}

/// Waits until another process than this one gets certificates.
fn issuing_after(running: &Running, before: Pid) -> Pid {
    let mut found = None;
    wait::until(LIMIT, || {
        found = issuing(running).filter(|pid| *pid != before);
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("not replaced:\n{}", running.all_logs()))
}

fn server(name: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%%PORT_1%% ssl; server_name {name}; acme_certificate test;
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; return 200 \"{name}\"; }}"
    )
}

#[test]
fn ten_names_get_certificates_from_an_empty_state() {
    if !have_pebble() {
        return;
    }
    let names: Vec<String> = (0..10).map(|number| format!("name{number}.example")).collect();
    let servers: String = names.iter().map(|name| server(name)).collect();
    let parts = parts("", &servers, 30);
    let running = parts.start();
    let before = worker::of(&running);
    let certificates: Vec<Vec<u8>> = names.iter().map(|name| parts.issued(&running, name)).collect();
    assert_eq!(worker::of(&running), before, "nothing was restarted");
    assert!(running.log("error.log").contains("a self-signed one is served until"));
    // Nobody else may read what is kept.
    let state = parts.state();
    assert_eq!(fs::metadata(&state).expect("the state").mode() & 0o777, 0o700);
    for file in fs::read_dir(&state).expect("the state") {
        let file = file.expect("a file");
        let text = fs::read(file.path()).expect("a file");
        let is_secret = text.windows(7).any(|part| part == b"PRIVATE" || part == b"key_pkc");
        let mode = file.metadata().expect("a file").permissions().mode() & 0o777;
        assert!(!is_secret || mode == 0o600, "{:?} has {mode:o}", file.path());
    }
    let shown = parts.site.command(Server::Fulmar).arg("-T").output().expect("fulmar");
    let shown = [shown.stdout, shown.stderr].concat();
    assert!(!shown.is_empty() && !shown.windows(11).any(|part| part == b"PRIVATE KEY"));
    let mut list = std::process::Command::new(Server::Fulmar.path());
    list.arg("certificates").arg("-p").arg(parts.site.prefix()).args(["-c", "fulmar.conf"]);
    let list = String::from_utf8_lossy(&list.output().expect("fulmar").stdout).into_owned();
    let valid = list.lines().filter(|line| line.starts_with("  certificate   valid for ")).count();
    assert_eq!(valid, names.len(), "{list}");
    running.stop();
    // What is there is served at once, and asked for by nobody.
    let running = parts.start();
    for (name, certificate) in names.iter().zip(&certificates) {
        assert_eq!(served(&running, name), *certificate);
    }
    running.stop();
}

#[test]
fn damaged_file_costs_a_renewal() {
    if !have_pebble() {
        return;
    }
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let first = parts.issued(&running, "a.example");
    running.stop();
    for file in fs::read_dir(parts.state()).expect("the state").flatten() {
        if file.path().extension().is_some() {
            fs::write(file.path(), "damaged").expect("a file");
        }
    }
    let running = parts.start();
    let second = parts.issued(&running, "a.example");
    assert_ne!(first, second);
    running.stop();
}

#[test]
fn administrator_renews_a_certificate_at_once() {
    if !have_pebble() {
        return;
    }
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let first = parts.issued(&running, "a.example");
    let renew = |name: &str| {
        let mut command = std::process::Command::new(Server::Fulmar.path());
        command.arg("certificates").arg("-p").arg(parts.site.prefix()).args([
            "-c",
            "fulmar.conf",
            "renew",
            name,
        ]);
        let output = command.output().expect("fulmar");
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (good, text) = renew("b.example");
    assert!(
        !good && text.contains("no certificate of this configuration has the name \"b.example\""),
        "{text}"
    );
    let (good, text) = renew("a.example");
    assert!(good && text.contains("are ordered now"), "{text}");
    assert!(wait::until(LIMIT, || served(&running, "a.example") != first), "{}", running.all_logs());
    running.stop();
}

#[test]
fn automatic_certificate_needs_one_line_and_no_clear_port() {
    if !have_pebble() {
        return;
    }
    let server = "server { listen 127.0.0.1:%%PORT_1%% ssl; server_name a.example b.example;
         ssl_certificate auto; return 200 a; }";
    let parts = parts("challenge tls-alpn-01;", server, 0);
    let running = parts.start();
    parts.issued(&running, "b.example");
    running.stop();
}

#[test]
fn order_that_fails_leaves_the_others_alone() {
    if !have_pebble() {
        return;
    }
    // One name leads to nowhere.
    let names = NameServer::start(|question| {
        let message = tests::dns::Message::to(question);
        let is_bad = question.name.starts_with("bad");
        vec![if is_bad { message.error(3).reply() } else { message.address(60, "127.0.0.1").reply() }]
    });
    let servers = [server("bad.example"), server("good.example")].concat();
    let parts = parts_with(names, "", &servers, Options::default());
    let running = parts.start();
    parts.issued(&running, "good.example");
    let told = wait::until(LIMIT, || running.log("error.log").contains("no certificate for bad.example: "));
    assert!(told, "{}", parts.fails(&running));
    assert!(!is_issued(&served(&running, "bad.example")));
    running.stop();
}

#[test]
fn killed_processes_are_replaced() {
    if !have_pebble() {
        return;
    }
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let certificate = parts.issued(&running, "a.example");
    let issuer = issuing(&running).expect("a process");
    kill_process(issuer, Signal::KILL).expect("killed");
    issuing_after(&running, issuer);
    assert_eq!(served(&running, "a.example"), certificate);
    let before = worker::of(&running);
    kill_process(before, Signal::KILL).expect("killed");
    worker::after(&running, before);
    assert!(wait::until(LIMIT, || served(&running, "a.example") == certificate));
    running.stop_alerted();
}
