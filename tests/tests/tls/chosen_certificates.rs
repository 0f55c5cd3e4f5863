//! Certificates that variables name: each connection finds its own, as in nginx.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;
use rustls::version::{TLS12, TLS13};
use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};
use tests::tls::{Certificate, Client, Kind, certificate};
use tests::wait;

const NAMES: [&str; 3] = ["a.example", "b.example", "c.example"];

/// A site with the files `NAME.pem` and `NAME.key` of each certificate.
fn site(configuration: &str, certificates: &[(&str, &Certificate)]) -> Site {
    let site = Site::new(configuration);
    certificates.iter().fold(site, |site, (name, made)| {
        site.in_prefix(&format!("{name}.pem"), &made.pem).in_prefix(&format!("{name}.key"), &made.key)
    })
}

/// The certificate and the answer that a client gets, or nothing.
fn served(running: &Running, port: usize, client: &Client) -> Option<(Vec<u8>, String)> {
    let spoken = client.ask(running.address_of(port), "GET /\nConnection: close").ok()?;
    let body = spoken.answer.responses.last()?.text();
    Some((spoken.certificate, body))
}

#[test]
fn certificates_are_those_of_nginx() {
    if !have_nginx() {
        return;
    }
    let [a, b, c] = NAMES.map(|name| certificate(name, Kind::Ecdsa));
    let rsa = certificate("a.example", Kind::Rsa);
    let text = r#"
        geo $letter { default b; }
        map $ssl_server_name $inline { default $letter.example.pem; c.example "data:INLINE_PEM"; }
        map $ssl_server_name $inline_key { default $letter.example.key; c.example "data:INLINE_KEY"; }
        server {
            listen %%PORT%% ssl;
            ssl_certificate $ssl_server_name.pem;
            ssl_certificate_key $ssl_server_name.key;
            return 200 "$ssl_server_name|$ssl_session_reused";
        }
        server {
            listen %%PORT%% ssl;
            server_name inherits.example;
            return 200 "inherits|$ssl_server_name";
        }
        server {
            listen %%PORT_1%% ssl;
            ssl_certificate_cache max=10;
            ssl_certificate $inline;
            ssl_certificate_key $inline_key;
            ssl_certificate rsa.pem;
            ssl_certificate_key rsa.key;
            return 200 "$ssl_server_name|$ssl_cipher";
        }
    "#;
    let text = text.replace("INLINE_PEM", &c.pem).replace("INLINE_KEY", &c.key);
    let certificates = [("a.example", &a), ("b.example", &b), ("inherits.example", &a), ("rsa", &rsa)];
    let site = site(&text, &certificates);
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    for name in ["a.example", "b.example", "c.example", "inherits.example", "none.example"] {
        for (versions, kind) in [(&TLS12, Kind::Ecdsa), (&TLS13, Kind::Ecdsa), (&TLS13, Kind::Rsa)] {
            for port in [0, 1] {
                let client = || Client::with(Some(name), &[versions], kind);
                let (theirs, own) = (served(&nginx, port, &client()), served(&fulmar, port, &client()));
                assert_eq!(own, theirs, "{name} at {port} with {kind:?}\n{}", fulmar.all_logs());
            }
        }
    }
    assert_eq!(served(&fulmar, 0, &Client::new(Some("b.example"))).expect("an answer").0, b.der);
    assert!(served(&fulmar, 0, &Client::new(Some("none.example"))).is_none());
    let log = fulmar.log("error.log");
    assert!(
        log.contains("none.example.pem\": BIO_new_file() failed (2: No such file or directory)"),
        "{log}"
    );
    nginx.stop();
    fulmar.stop();
}

#[test]
fn sessions_are_resumed_with_the_same_certificate_only() {
    let [a, b] = ["a.example", "b.example"].map(|name| certificate(name, Kind::Ecdsa));
    let site = site(
        "ssl_session_cache shared:S:1m; \
         server { listen %%PORT%% ssl; ssl_certificate $ssl_server_name.pem; \
         ssl_certificate_key $ssl_server_name.key; return 200 $ssl_session_reused; }",
        &[("a.example", &a), ("b.example", &b)],
    );
    let running = site.start(Server::Fulmar);
    for version in [&TLS12, &TLS13] {
        let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa);
        let reused = || served(&running, 0, &client).expect("an answer").1;
        assert_eq!([reused(), reused()], [".", "r"]);
        for (file, text) in [("a.example.pem", &b.pem), ("a.example.key", &b.key)] {
            fs::write(site.prefix().join(file), text).expect("a file");
        }
        assert_eq!([reused(), reused()], [".", "r"], "another certificate");
        for (file, text) in [("a.example.pem", &a.pem), ("a.example.key", &a.key)] {
            fs::write(site.prefix().join(file), text).expect("a file");
        }
    }
    running.stop();
}

#[test]
fn no_client_waits_for_the_writer_of_a_pipe() {
    let text = "server { listen %%PORT%% ssl; ssl_certificate $ssl_server_name.pem; \
                ssl_certificate_key a.example.key; return 200 fine; }";
    let site = site(text, &[("a.example", &certificate("a.example", Kind::Ecdsa))]);
    let running = site.start(Server::Fulmar);
    let pipe = site.prefix().join("pipe.example.pem");
    mknodat(CWD, pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    assert!(served(&running, 0, &Client::new(Some("pipe.example"))).is_none());
    running.wait_for_log("error.log", "pipe.example.pem\": BIO_new_file() failed (not a regular file)");
    assert!(served(&running, 0, &Client::new(Some("a.example"))).is_some());
    running.stop();
}

#[test]
fn cache_keeps_as_many_certificates_as_it_may() {
    let [a, b, c] = NAMES.map(|name| certificate(name, Kind::Ecdsa));
    let site = site(
        "ssl_certificate $ssl_server_name.pem; ssl_certificate_key $ssl_server_name.key; \
         ssl_certificate_cache max=4 inactive=1d valid=1d; \
         server { listen %%PORT%% ssl; return 200 kept; } \
         server { listen %%PORT_1%% ssl; ssl_certificate_cache off; return 200 read; }",
        &[("a.example", &a), ("b.example", &b), ("c.example", &c)],
    );
    let running = site.start(Server::Fulmar);
    let certificate =
        |port: usize, name: &str| served(&running, port, &Client::new(Some(name))).map(|it| it.0);
    assert_eq!(certificate(0, "a.example"), Some(a.der.clone()));
    for end in ["pem", "key"] {
        fs::remove_file(site.prefix().join(format!("a.example.{end}"))).expect("a file");
    }
    assert_eq!(certificate(0, "a.example"), Some(a.der));
    assert_eq!(certificate(1, "a.example"), None, "without a cache the files are read");
    // Two certificates and two keys are four.
    assert_eq!(certificate(0, "b.example"), Some(b.der));
    assert_eq!(certificate(0, "c.example"), Some(c.der));
    assert_eq!(certificate(0, "a.example"), None, "it made room");
    running.stop();
}

#[test]
fn worker_reads_keys_with_the_rights_of_its_user() {
    if !geteuid().is_root() {
        return;
    }
    let a = certificate("a.example", Kind::Ecdsa);
    let site = Site::whole(
        "daemon off; user nobody nogroup; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events { } \
         http { access_log off; server { listen 127.0.0.1:%%PORT%% ssl; server_name a.example; \
         ssl_certificate %%DIR%%/$ssl_server_name.pem; ssl_certificate_key %%DIR%%/$ssl_server_name.key; \
         return 200 a; } }",
    );
    let site = site.in_prefix("a.example.pem", &a.pem).in_prefix("a.example.key", &a.key);
    let mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
    mode(site.prefix(), 0o755);
    mode(site.prefix().join("a.example.key"), 0o600);
    let running = site.start(Server::Fulmar);
    let client = Client::new(Some("a.example"));
    assert!(served(&running, 0, &client).is_none());
    let is_told =
        || running.log("error.log").contains("a.example.key\": BIO_new_file() failed (13: Permission");
    assert!(wait::until(std::time::Duration::from_secs(30), is_told), "{}", running.all_logs());
    mode(site.prefix().join("a.example.key"), 0o644);
    assert_eq!(served(&running, 0, &client).expect("an answer").0, a.der);
    running.stop();
}
