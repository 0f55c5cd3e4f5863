//! `--domain` of `fulmar serve` and `fulmar proxy`, with Pebble as the authority.

use super::{LIMIT, is_issued};
use crate::process::command_line::Guard;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tests::binary::Server;
use tests::dns::NameServer;
use tests::origin::{self, Origin};
use tests::pebble::{Options, Pebble, have_pebble};
use tests::tls::Client;
use tests::wait;

/// Another process may take the chosen port first.
const ATTEMPTS: usize = 4;

/// Starts `fulmar` with these arguments at a free port, for the name `a.example` and this authority.
fn start(arguments: &[&str], directory: &Path, pebble: &Pebble) -> (Guard, SocketAddr) {
    for _ in 0..ATTEMPTS {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let output = File::create(directory.join("console")).expect("a file");
        let mut command = Command::new(Server::Fulmar.path());
        command.args(arguments).args(["--domain", "a.example", "--listen", &address.to_string()]);
        command.args(["--authority", &pebble.directory_uri(), "--authority-certificates"]);
        command.arg(directory.join("pebble-trusted.pem")).env("STATE_DIRECTORY", directory.join("state"));
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a file")).stderr(output);
        let mut running = Guard(command.spawn().expect("fulmar"));
        let is_started = wait::until(LIMIT, || {
            let is_greeted = said(directory).contains("Ctrl-C stops");
            is_greeted || !matches!(running.0.try_wait(), Ok(None))
        });
        if is_started && matches!(running.0.try_wait(), Ok(None)) {
            pebble.validates_at(address, address);
            return (running, address);
        }
    }
    panic!("it does not start: {}", said(directory));
}

fn said(directory: &Path) -> String {
    fs::read_to_string(directory.join("console")).unwrap_or_default()
}

/// Waits for a certificate of the authority, and gives it with the text that is served.
fn served(address: SocketAddr, path: &str, directory: &Path) -> (Vec<u8>, String) {
    let ask = format!("GET {path}\nHost: a.example\nConnection: close");
    let mut found = (Vec::new(), String::new());
    let is_served = wait::until(LIMIT, || {
        let answer = Client::new(Some("a.example")).ask(address, &ask);
        if let Ok(spoken) = answer {
            found = (spoken.certificate.clone(), spoken.answer.last().text());
        }
        is_issued(&found.0)
    });
    assert!(is_served, "{}", said(directory));
    found
}

#[test]
fn serve_and_proxy_get_a_certificate_for_a_domain() {
    if !have_pebble() {
        return;
    }
    let directory = TempDir::with_prefix("domains-").expect("a directory");
    let here = directory.path();
    fs::create_dir(here.join("files")).expect("a directory");
    fs::write(here.join("files/hello.txt"), "hello").expect("a file");
    let pebble = Pebble::start(here, &NameServer::of("127.0.0.1"), Options::default());
    let files = here.join("files");
    let (serving, address) = start(&["serve", files.to_str().expect("text")], here, &pebble);
    let (certificate, text) = served(address, "/hello.txt", here);
    assert_eq!(text, "hello");
    assert!(said(here).contains(&format!("once {} has issued", pebble.directory_uri())), "{}", said(here));
    assert!(said(here).contains("issued a certificate for a.example\n"), "{}", said(here));
    drop(serving);
    // The next command for the same name finds the certificate.
    let behind = Origin::start(|asked| origin::ok(&asked.target));
    let to = behind.address().to_string();
    let (_proxying, address) = start(&["proxy", "--to", &to], here, &pebble);
    assert_eq!(served(address, "/passed", here), (certificate, "/passed".to_owned()));
}
