//! Answers of OCSP responders that are fetched while the server runs (`ssl_stapling`), next to nginx.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tests::binary::{Server, have_nginx};
use tests::dns::NameServer;
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::site::{Running, Site};
use tests::{parts, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// The authority, a responder of it, and certificates `good` and `bad`, of which the second is revoked. `OTHER` is an
/// authority that signed nothing.
const MADE: &[&str] = &[
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 3",
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout other.key -out other.pem -subj /CN=other",
    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ocsp.key -out ocsp.csr -subj /CN=responder",
    "x509 -req -in ocsp.csr -CA ca.pem -CAkey ca.key -set_serial 0x10 -days 3 -extfile ocsp.cnf -out ocsp.pem",
    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout good.key -out good.csr -subj /CN=good",
    "x509 -req -in good.csr -CA ca.pem -CAkey ca.key -set_serial 0x11 -days 3 -extfile leaf.cnf -out good.one",
    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout bad.key -out bad.csr -subj /CN=bad",
    "x509 -req -in bad.csr -CA ca.pem -CAkey ca.key -set_serial 0x12 -days 3 -extfile leaf.cnf -out bad.one",
];

/// What the responder knows: states, ends, times of revocation, serial numbers.
const INDEX: &str = "V\t991231235959Z\t\t11\tunknown\t/CN=good\n\
                     R\t991231235959Z\t200101000000Z\t12\tunknown\t/CN=bad\n";

pub(super) fn has_openssl() -> bool {
    parts::is_present("openssl", parts::program(&["openssl"]).is_some())
}

fn openssl(directory: &Path, arguments: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(directory).stdin(Stdio::null());
    let output = command.output().expect("openssl");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A site with certificates that name this responder.
pub(super) fn site(configuration: &str, responder: &str) -> Site {
    let leaf = format!("authorityInfoAccess = OCSP;URI:{responder}\n");
    let site = Site::new(configuration)
        .in_prefix("index", INDEX)
        .in_prefix("ocsp.cnf", "extendedKeyUsage = OCSPSigning\n")
        .in_prefix("leaf.cnf", &leaf);
    MADE.iter().for_each(|arguments| drop(openssl(&site.prefix(), arguments)));
    let read = |name: &str| fs::read_to_string(site.prefix().join(name)).expect("a file");
    for name in ["good", "bad"] {
        let chain = read(&format!("{name}.one")) + &read("ca.pem");
        fs::write(site.prefix().join(format!("{name}.pem")), chain).expect("a file");
    }
    site
}

/// What a client of OpenSSL learns about the certificate.
fn status(running: &Running, site: &Site, port: usize) -> Option<String> {
    let shown = openssl(&site.prefix(), &format!("s_client -status -connect {}", running.address_of(port)));
    if shown.contains("OCSP response: no response sent") {
        return None;
    }
    assert!(shown.contains("OCSP Response Status: successful"), "{shown}");
    shown.lines().find_map(|line| line.trim().strip_prefix("Cert Status: ")).map(str::to_owned)
}

fn becomes_good(running: &Running, site: &Site, port: usize) {
    let is_good = || status(running, site, port).as_deref() == Some("good");
    assert!(wait::until(LIMIT, is_good), "{port}: {}", running.log("error.log"));
}

/// The responder of OpenSSL.
pub(super) struct Responder {
    process: Child,
    pub(super) port: u16,
}

impl Responder {
    /// Starts it on a free port, with what is in this directory, and knows what is in this file.
    pub(super) fn start(directory: &Site, index: &str) -> Responder {
        let arguments =
            format!("ocsp -port 0 -index {index} -CA ca.pem -rsigner ocsp.pem -rkey ocsp.key -nmin 60");
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(directory.prefix()).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a responder");
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().expect("its output"));
        said.read_line(&mut line).expect("a line");
        let port =
            line.split(" PID").next().and_then(|before| before.trim().rsplit(':').next()?.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in {line:?}"));
        Responder { process, port }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn answers_of_the_responder_of_openssl_are_sent_as_nginx_sends_them() {
    if !has_openssl() {
        return;
    }
    let made = site("", "http://127.0.0.1:9/");
    let responder = Responder::start(&made, "index");
    let site = Site::new(
        "ssl_stapling on; ssl_trusted_certificate %%DIR%%/ca.pem;
         ssl_stapling_responder http://localhost:RESPONDER;
         ssl_certificate %%DIR%%/good.pem; ssl_certificate_key %%DIR%%/good.key;
         server { listen %%PORT%% ssl; return 204; }
         server { listen %%PORT_1%% ssl; ssl_stapling_verify on; return 204; }
         server { listen %%PORT_2%% ssl; ssl_certificate %%DIR%%/good.one; ssl_certificate_key %%DIR%%/good.key;
                  return 204; }
         server { listen %%PORT_3%% ssl; ssl_certificate %%DIR%%/bad.pem; ssl_certificate_key %%DIR%%/bad.key;
                  return 204; }
         server { listen %%PORT_4%% ssl; ssl_stapling_verify on; ssl_trusted_certificate %%DIR%%/other.pem;
                  return 204; }
         server { listen %%PORT_5%% ssl; ssl_certificate %%DIR%%/good.one; ssl_certificate_key %%DIR%%/good.key;
                  ssl_trusted_certificate %%DIR%%/other.pem; return 204; }"
            .replace("RESPONDER", &responder.port.to_string())
            .as_str(),
    );
    for name in ["ca.pem", "other.pem", "good.pem", "good.one", "good.key", "bad.pem", "bad.key"] {
        fs::copy(made.prefix().join(name), site.prefix().join(name)).expect("a copy");
    }
    for server in [Server::Nginx, Server::Fulmar] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        // nginx asks the responder when a client asks for the first time.
        [3, 4].iter().for_each(|port| assert_eq!(status(&running, &site, *port), None));
        [0, 1, 2].iter().for_each(|port| becomes_good(&running, &site, *port));
        running.wait_for_log("error.log", "certificate status \"revoked\" in the OCSP response");
        let untrusted = match server {
            Server::Fulmar => "the signer of the OCSP response is not trusted",
            _ => "OCSP_basic_verify() failed",
        };
        running.wait_for_log("error.log", untrusted);
        [3, 4, 5]
            .iter()
            .for_each(|port| assert_eq!(status(&running, &site, *port), None, "{server:?} {port}"));
        running.stop();
    }
}

/// A responder that a test controls.
pub(super) struct Controlled {
    pub(super) origin: Origin,
    /// How many requests there were; from `GOOD` on it answers them.
    pub(super) mode: Arc<AtomicUsize>,
    /// The directory that `openssl` works in.
    pub(super) directory: Arc<Mutex<PathBuf>>,
}

/// An answer of `openssl ocsp`.
pub(super) const GOOD: usize = 1000;

impl Controlled {
    pub(super) fn start() -> Controlled {
        let (mode, directory) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(PathBuf::new())));
        let (shared, place) = (Arc::clone(&mode), Arc::clone(&directory));
        let origin = Origin::start(move |asked| match shared.fetch_add(1, Ordering::SeqCst) {
            0 => raw("HTTP/1.1 500 Internal Server Error\r\n\r\n", After::Close),
            1 => raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", After::Close),
            2..GOOD => raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", After::Close),
            _ => answer(asked, &place.lock().expect("no panic")),
        });
        Controlled { origin, mode, directory }
    }
}

/// Has `openssl` answer a request.
fn answer(asked: &Asked, directory: &Path) -> Reply {
    let text =
        asked.target.trim_start_matches('/').replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    let question = text.rsplit("path/").next().expect("a question");
    fs::write(directory.join("text"), question).expect("a file");
    openssl(directory, "base64 -d -A -in text -out question");
    openssl(
        directory,
        "ocsp -index index -CA ca.pem -rsigner ca.pem -rkey ca.key -reqin question -respout answer -nmin 60",
    );
    let body = fs::read(directory.join("answer")).expect("an answer");
    let head = "HTTP/1.0 200 OK\r\nContent-Type: application/ocsp-response\r\n\r\n";
    ([head.as_bytes(), &body].concat(), After::Close)
}

const CONTROLLED: &str = "ssl_stapling on; resolver %%RESOLVER%% ipv6=off;
    server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/good.pem; ssl_certificate_key %%DIR%%/good.key;
             return 204; }";

#[test]
fn failures_are_told_and_tried_again_and_answers_outlast_reloads() {
    if !has_openssl() {
        return;
    }
    let responder = Controlled::start();
    let names = NameServer::of("127.0.0.1");
    let text = CONTROLLED.replace("%%RESOLVER%%", &names.address().to_string());
    let url = format!("http://ocsp.example:{}/path", responder.origin.address().port());
    let made = site(&text, &url);
    *responder.directory.lock().expect("no panic") = made.prefix();
    let running = made.start(Server::Fulmar);
    for reason in [
        "sent status 500",
        "sent invalid \"Content-Type\" header: \"text/html\"",
        "prematurely closed connection",
    ] {
        running.wait_for_log("error.log", reason);
    }
    assert_eq!(status(&running, &made, 0), None);
    // The longer pauses are left out.
    responder.mode.store(GOOD, Ordering::SeqCst);
    running.signal(Signal::HUP);
    becomes_good(&running, &made, 0);
    assert!(running.log("error.log").contains(&format!("responder: {url}, certificate: \"good\"")));
    assert!(names.count("ocsp.example", tests::dns::A) > 0);

    let before = responder.origin.connections();
    running.rewrite(&text.replace("return 204", "return 418"));
    running.signal(Signal::HUP);
    let is_new = || {
        let asked = tests::tls::Client::new(Some("good")).ask(running.address(), "GET /");
        asked.is_ok_and(|spoken| spoken.answer.last().status == 418)
    };
    assert!(wait::until(LIMIT, is_new));
    assert_eq!(status(&running, &made, 0).as_deref(), Some("good"));
    assert_eq!(responder.origin.connections(), before, "it is not due");
    running.stop();
}

#[test]
fn certificates_without_issuer_or_responder_are_warned_of() {
    if !has_openssl() {
        return;
    }
    let made = site("", "https://127.0.0.1/");
    for (lines, warning) in [
        (
            "ssl_certificate good.one;",
            "\"ssl_stapling\" ignored, issuer certificate not found for certificate",
        ),
        ("ssl_certificate good.pem;", "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate"),
        ("ssl_certificate good.pem; ssl_stapling_responder ftp://a;", "the URL must begin with \"http://\""),
    ] {
        let text = format!(
            "events {{}} error_log stderr; http {{ access_log off; ssl_stapling on; server {{ listen 127.0.0.1:8443 ssl; {lines} \
             ssl_certificate_key good.key; }} }}"
        );
        fs::write(made.prefix().join("fulmar.conf"), text).expect("a configuration");
        let output = made.command(Server::Fulmar).arg("-t").output().expect("a check");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && said.contains("[warn]") && said.contains(warning),
            "{lines}: {said}"
        );
    }
}
