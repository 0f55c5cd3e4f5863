//! Certificates that change on disk are served without a reload.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, geteuid};
use tests::binary::Server;
use tests::site::{Running, Site};
use tests::tls::{Certificate, Client, Kind, certificate};
use tests::{wait, worker};

const LIMIT: Duration = Duration::from_secs(30);

/// A server for each name, with the files `NAME.pem` and `NAME.key`.
fn configuration(servers: &[(&str, &str)]) -> String {
    let user = if geteuid().is_root() { "user nobody nogroup;" } else { "" };
    let server = |(name, settings): &(&str, &str)| {
        format!(
            "server {{ listen 127.0.0.1:%%PORT%% ssl; server_name {name}.example; {settings}
             ssl_certificate %%DIR%%/{name}.pem; ssl_certificate_key %%DIR%%/{name}.key; return 200 {name}; }}"
        )
    };
    let servers: String = servers.iter().map(server).collect();
    format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{ access_log off; {servers} }}"
    )
}

/// Writes a file as careful programs do: under another name first, and for the superuser only.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).expect("a file");
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).expect("mode");
    fs::rename(&next, path).expect("a new name");
}

fn write(site: &Site, name: &str, made: &Certificate) {
    replace(&site.prefix().join(format!("{name}.pem")), &made.pem);
    replace(&site.prefix().join(format!("{name}.key")), &made.key);
}

/// The certificate that a client gets for this name.
fn served(running: &Running, name: &str) -> Vec<u8> {
    let host = format!("{name}.example");
    let answer = Client::new(Some(&host)).ask(running.address(), "GET /\nConnection: close");
    answer.expect("an answer").certificate
}

fn becomes(running: &Running, name: &str, made: &Certificate) {
    assert!(wait::until(LIMIT, || served(running, name) == made.der), "{}", running.all_logs());
}

/// Waits for a line of the error log. The files are looked at every few seconds.
fn logs(running: &Running, text: &str) {
    let is_there = || running.log("error.log").contains(text);
    assert!(wait::until(LIMIT, is_there), "{text:?} never came:\n{}", running.all_logs());
}

fn made() -> Certificate {
    certificate("a.example", Kind::Ecdsa)
}

#[test]
fn only_watched_files_are_read_again() {
    let site = Site::whole(&configuration(&[("a", ""), ("b", "ssl_certificate_watch off;")]));
    let (one, two) = (made(), made());
    write(&site, "a", &one);
    write(&site, "b", &one);
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    assert_eq!([served(&running, "a"), served(&running, "b")], [one.der.clone(), one.der.clone()]);
    running.rewrite("nonsense;");
    write(&site, "b", &two);
    write(&site, "a", &two);
    becomes(&running, "a", &two);
    assert_eq!(served(&running, "b"), one.der, "not watched");
    assert_eq!(worker::of(&running), before);
    logs(&running, "certificates renewed");
    // The second renewal begins from the first one.
    write(&site, "a", &one);
    becomes(&running, "a", &one);
    assert_eq!(worker::of(&running), before);
    running.stop();
}

#[test]
fn files_that_cannot_be_used_change_nothing() {
    let site = Site::whole(&configuration(&[("a", "")]));
    let (one, two) = (made(), made());
    write(&site, "a", &one);
    let running = site.start(Server::Fulmar);
    replace(&site.prefix().join("a.pem"), &two.pem);
    logs(&running, "key values mismatch");
    logs(&running, "the previous certificates stay in use");
    assert_eq!(served(&running, "a"), one.der);
    replace(&site.prefix().join("a.key"), &two.key);
    becomes(&running, "a", &two);
    fs::remove_file(site.prefix().join("a.key")).expect("removed");
    logs(&running, "No such file or directory");
    assert_eq!(served(&running, "a"), two.der);
    running.stop();
}

/// Hands a certificate and its key over in the pipes `NAME.pem` and `NAME.key`, to the next reader of each.
fn hand_over(site: &Site, name: &str, made: &Certificate) {
    for (kind, text) in [("pem", &made.pem), ("key", &made.key)] {
        let (path, text) = (site.prefix().join(format!("{name}.{kind}")), text.clone());
        thread::spawn(move || fs::write(path, text));
    }
}

#[test]
fn certificates_come_through_named_pipes() {
    let site = Site::whole(&configuration(&[("a", ""), ("b", "")]));
    let (one, two) = (made(), made());
    for kind in ["pem", "key"] {
        let path = site.prefix().join(format!("a.{kind}"));
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    }
    write(&site, "b", &one);
    hand_over(&site, "a", &one);
    let running = site.start(Server::Fulmar);
    assert_eq!(served(&running, "a"), one.der);
    // Nobody writes to the pipes when another certificate changes.
    write(&site, "b", &two);
    becomes(&running, "b", &two);
    assert_eq!(served(&running, "a"), one.der);
    hand_over(&site, "a", &two);
    running.signal(Signal::HUP);
    becomes(&running, "a", &two);
    running.stop();
}

/// Certbot keeps all certificates in `archive`, and replaces links in `live`.
#[test]
fn links_that_lead_to_other_files_are_noticed() {
    let site = Site::whole(&configuration(&[("a", "")]));
    let (one, two) = (made(), made());
    for (name, made) in [("one", &one), ("two", &two)] {
        write(&site, name, made);
    }
    let link = |name: &str| {
        for kind in ["pem", "key"] {
            let next = site.prefix().join("link");
            symlink(format!("{name}.{kind}"), &next).expect("a link");
            fs::rename(&next, site.prefix().join(format!("a.{kind}"))).expect("a new name");
        }
    };
    link("one");
    let running = site.start(Server::Fulmar);
    assert_eq!(served(&running, "a"), one.der);
    link("two");
    becomes(&running, "a", &two);
    // A worker that starts after the renewal serves what was renewed.
    let before = worker::of(&running);
    rustix::process::kill_process(before, Signal::KILL).expect("killed");
    worker::after(&running, before);
    becomes(&running, "a", &two);
    running.stop_alerted();
}
