//! Pebble, an authority for tests (RFC 8555), as a separate process.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::dns::NameServer;
use crate::parts;
use crate::tls;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// How long certificates are valid, in seconds: usually, and those of the profile `shortlived`, which Debian's Pebble has
/// not.
const MONTHS: u64 = 90 * 86_400;
const SIX_DAYS: u64 = 6 * 86_400;

/// Another process may take the chosen port first; then another one is chosen.
const ATTEMPTS: usize = 4;

/// The environment's name for the program, if it is not that of the system.
const PROGRAM: &str = "PEBBLE";

/// Whether there is a Pebble. Without one a line is printed, and in CI the test fails.
pub fn have_pebble() -> bool {
    parts::is_present("Pebble", program().is_some())
}

fn program() -> Option<PathBuf> {
    env::var_os(PROGRAM).map(PathBuf::from).or_else(|| parts::program(&["pebble"]))
}

/// How an authority behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How many good nonces of a hundred it rejects.
    pub rejected_nonces: u8,
    /// How many other chains each certificate has.
    pub alternate_chains: u8,
    /// How long certificates are valid, in seconds; some months if that is zero. Each order validates its names anew then.
    pub validity_seconds: u64,
}

/// A running Pebble. It ends when dropped.
#[derive(Debug)]
pub struct Pebble {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
    management: SocketAddr,
    web: Door,
    encrypted: Door,
}

impl Pebble {
    /// Starts one that keeps its files in a directory and asks a name server. It validates names at the server of
    /// [`Pebble::validates_at`]. Panics with its log when it does not start.
    pub fn start(directory: &Path, names: &NameServer, options: Options) -> Pebble {
        let authority = tls::Authority::new("authority of the authority");
        let own = authority.certificate("127.0.0.1", 7);
        fs::write(directory.join("pebble-trusted.pem"), &authority.pem).expect("a file");
        fs::write(directory.join("pebble.pem"), &own.pem).expect("a file");
        fs::write(directory.join("pebble.key"), &own.key).expect("a file");
        // Another process may have taken the port: only this Pebble has the certificate.
        let is_ours = |address: SocketAddr| {
            let answer = tls::Client::new(None).ask(address, "GET /dir\nConnection: close");
            answer.is_ok_and(|spoken| spoken.certificate == own.der)
        };
        let doors = [Door::open(), Door::open()];
        for _ in 0..ATTEMPTS {
            let any = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
            let [address, management] = any.map(|any| any.local_addr().expect("an address"));
            let mut child = spawn(directory, [address, management], &doors, names, options);
            let mut ended = false;
            let listens = wait::until(PATIENCE, || {
                ended = !matches!(child.try_wait(), Ok(None));
                ended || TcpStream::connect(address).is_ok() && is_ours(address)
            });
            if listens && !ended {
                let [web, encrypted] = doors;
                let directory = directory.to_path_buf();
                return Pebble { child, directory, address, management, web, encrypted };
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("pebble does not start:\n{}", log(directory));
    }

    /// The lines of an `acme_issuer` that uses it.
    pub fn issuer(&self) -> String {
        let (uri, directory) = (self.directory_uri(), self.directory.display());
        format!(
            "uri {uri}; contact admin@test.example; accept_terms_of_service;
             ssl_trusted_certificate {directory}/pebble-trusted.pem; state_path {directory}/state;"
        )
    }

    /// Where clients begin (RFC 8555, section 7.1.1).
    pub fn directory_uri(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// Has names validated by these addresses: in clear, and encrypted.
    pub fn validates_at(&self, web: SocketAddr, encrypted: SocketAddr) {
        self.web.lead_to(Some(web));
        self.encrypted.lead_to(Some(encrypted));
    }

    /// Has names validated only when [`Pebble::validates_at`] is called again.
    pub fn holds_validations(&self) {
        self.web.lead_to(None);
        self.encrypted.lead_to(None);
    }

    /// The common names of the authorities above all others.
    pub fn roots(&self) -> Vec<String> {
        let log = self.log();
        let line = |line: &str| {
            let (_, name) = line.split_once("Generated new root issuer CN=")?;
            Some(name.split_once(" with serial")?.0.to_owned())
        };
        log.lines().filter_map(line).collect()
    }

    /// Suggests to renew a certificate (PEM) between two times (RFC 3339). Debian's Pebble cannot.
    pub fn suggests_renewal(&self, certificate: &str, [start, end]: [&str; 2]) {
        let window = format!(r#"{{"suggestedWindow": {{"start": "{start}", "end": "{end}"}}}}"#);
        let body = serde_json::json!({"certificate": certificate, "ariResponse": window}).to_string();
        let ask = format!(
            "POST /set-renewal-info/\nUser-Agent: test\nConnection: close\nContent-Length: {}\n\n{body}",
            body.len()
        );
        let told = tls::Client::new(None).ask(self.management, &ask).expect("an answer");
        assert_eq!(told.answer.last().status, 200, "{}", told.answer.last().text());
    }

    /// What it wrote.
    pub fn log(&self) -> String {
        log(&self.directory)
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("pebble.log")).unwrap_or_default()
}

fn spawn(
    directory: &Path,
    [address, management]: [SocketAddr; 2],
    [web, encrypted]: &[Door; 2],
    names: &NameServer,
    options: Options,
) -> Child {
    let here = directory.display();
    let (web, encrypted) = (web.address.port(), encrypted.address.port());
    // Pebble chooses among the profiles by chance if none is asked for.
    let has_choice = options.validity_seconds == 0;
    let short = format!(r#", "shortlived": {{"description": "six days", "validityPeriod": {SIX_DAYS}}}"#);
    let short = if has_choice { short } else { String::new() };
    let validity = if has_choice { MONTHS } else { options.validity_seconds };
    let settings = format!(
        r#"{{"pebble": {{"listenAddress": "{address}", "managementListenAddress": "{management}",
            "certificate": "{here}/pebble.pem", "privateKey": "{here}/pebble.key",
            "httpPort": {web}, "tlsPort": {encrypted}, "ocspResponderURL": "",
            "certificateValidityPeriod": {validity},
            "profiles": {{"default": {{"description": "usual", "validityPeriod": {validity}}}{short}}},
            "externalAccountBindingRequired": false}}}}"#
    );
    let path = directory.join("pebble.json");
    fs::write(&path, settings).expect("settings");
    let output = File::create(directory.join("pebble.log")).expect("log");
    let mut command = Command::new(program().expect("pebble"));
    command.arg("-config").arg(&path).arg("-dnsserver").arg(names.address().to_string());
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", options.rejected_nonces.to_string());
    command.env("PEBBLE_ALTERNATE_ROOTS", options.alternate_chains.to_string());
    if options.validity_seconds != 0 {
        command.env("PEBBLE_AUTHZREUSE", "0");
    }
    command.stdin(Stdio::null()).stdout(output.try_clone().expect("log")).stderr(output);
    command.spawn().expect("pebble")
}

/// An address that is known before the server that it leads to.
#[derive(Debug)]
struct Door {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
}

impl Door {
    fn open() -> Door {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let target: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let known = Arc::clone(&target);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                thread::spawn(move || pass_through(client, &known));
            }
        });
        Door { address, target }
    }

    fn lead_to(&self, target: Option<SocketAddr>) {
        *self.target.lock().expect("the target") = target;
    }
}

/// A client whose server never comes is left alone.
fn pass_through(client: TcpStream, target: &Mutex<Option<SocketAddr>>) {
    let known = || *target.lock().expect("the target");
    wait::until(PATIENCE, || known().is_some());
    let Some(server) = known().and_then(|address| TcpStream::connect(address).ok()) else { return };
    let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else { return };
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    let _ = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
}
