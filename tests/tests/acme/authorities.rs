//! What authorities offer besides certificates: other chains, profiles, and suggestions about renewals.

use super::{LIMIT, Parts, configuration, is_issued, parts, parts_with, served, server};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::process::Command;
use tests::binary::Server;
use tests::dns::NameServer;
use tests::pebble::{Options, have_pebble};
use tests::site::Site;
use tests::wait;

const DAY: i64 = 86_400;

/// A site whose certificates have two other chains.
fn parts_with_chains(issuer: &str) -> Parts {
    let options = Options { alternate_chains: 2, ..Options::default() };
    parts_with(NameServer::of("127.0.0.1"), issuer, &server("a.example"), options)
}

/// The name in the topmost certificate that is served, among these.
fn topmost(parts: &Parts, names: &[String]) -> Vec<String> {
    let text = parts.kept();
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.expect("certificates");
    let last = chain.last().expect("a certificate");
    let is_in = |name: &&String| last.windows(name.len()).any(|part| part == name.as_bytes());
    names.iter().filter(is_in).cloned().collect()
}

#[test]
fn preferred_chain_is_served() {
    if !have_pebble() {
        return;
    }
    let mut parts = parts_with_chains("");
    let roots = parts.pebble.roots();
    assert_eq!(roots.len(), 3, "{}", parts.pebble.log());
    for root in &roots {
        let issuer = format!("{} preferred_chain \"{root}\";", parts.pebble.issuer());
        parts.site = Site::whole(&configuration(&issuer, &server("a.example")));
        let running = parts.start();
        parts.issued(&running, "a.example");
        assert_eq!(topmost(&parts, &roots), std::slice::from_ref(root));
        assert!(!running.log("error.log").contains("default chain"), "{}", running.all_logs());
        running.stop();
        std::fs::remove_dir_all(parts.state()).expect("the state");
    }
}

#[test]
fn default_chain_is_used_if_none_is_preferred() {
    if !have_pebble() {
        return;
    }
    let parts = parts_with_chains("preferred_chain \"A client Else\";");
    let running = parts.start();
    parts.issued(&running, "a.example");
    let log = running.log("error.log");
    assert!(log.contains("offers no chain of \"A client Else\": its default chain is used"), "{log}");
    running.stop();
}

#[test]
fn external_key_is_not_shown() {
    let issuer = "uri https://localhost/dir; external_account_key kid data:c2VjcmV0LW9mLWFub3RoZXI;";
    let text = configuration(issuer, &server("a.example"));
    let site = Site::whole(&text);
    site.write_configuration(Server::Fulmar, &text);
    let shown = site.command(Server::Fulmar).arg("-T").output().expect("fulmar");
    let shown = String::from_utf8([shown.stdout, shown.stderr].concat()).expect("text");
    assert!(shown.contains("external_account_key kid data:***;"), "{shown}");
    assert!(!shown.contains("c2VjcmV0"), "{shown}");
}

#[test]
#[ignore = "Debian's Pebble has no profiles: make acme-pebble"]
fn profile_is_asked_for() {
    let days = |issuer: &str| {
        let parts = parts(issuer, &server("a.example"), 0);
        let running = parts.start();
        parts.issued(&running, "a.example");
        running.stop();
        parts.listed()["days_left"].as_i64().expect("a number")
    };
    assert_eq!(days("profile shortlived;"), 5);
    assert_eq!(days("profile shortlived require;"), 5);
    assert_eq!(days("profile default;"), 89);
    days("profile unknown;");
    let parts = parts("profile unknown require;", &server("a.example"), 0);
    let running = parts.start();
    running.wait_for_log("error.log", "the authority has no profile \"unknown\"");
    running.stop();
}

#[test]
#[ignore = "Debian's Pebble suggests no renewals: make acme-pebble"]
fn suggested_time_moves_the_renewal() {
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let first = parts.issued(&running, "a.example");
    running.stop();
    let next = || parts.listed()["seconds_to_next_attempt"].as_i64().expect("a number");
    let suggests = |times| {
        let text = parts.kept();
        let certificate = text.find("-----BEGIN CERTIFICATE").map(|start| &text[start..]);
        parts.pebble.suggests_renewal(certificate.expect("a certificate"), times);
    };
    suggests(["2200-01-01T00:00:00Z", "2200-01-02T00:00:00Z"]);
    let running = parts.start();
    assert!(wait::until(LIMIT, || next() > 10_000 * DAY), "{}", parts.fails(&running));
    assert_eq!(served(&running, "a.example"), first);
    running.stop();
    suggests(["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"]);
    let running = parts.start();
    let is_renewed = wait::until(LIMIT, || {
        let now = served(&running, "a.example");
        is_issued(&now) && now != first
    });
    let log = running.log("error.log");
    assert!(is_renewed, "{}", parts.fails(&running));
    assert!(log.contains("suggests to renew the certificate for a.example now"), "{log}");
    assert!(next() > DAY, "the new certificate is left alone");
    running.stop();
}

/// An authority suggests to renew a revoked certificate at once. Certbot revokes it, with the certificate's own key.
#[test]
#[ignore = "Debian's Pebble suggests no renewals: make acme-pebble"]
fn revoked_certificate_is_replaced() {
    let Some(certbot) = tests::parts::program(&["certbot"]) else { return };
    let parts = parts("", &server("a.example"), 0);
    let running = parts.start();
    let first = parts.issued(&running, "a.example");
    running.stop();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let text = parts.kept();
    let (before, chain) = text.split_at(text.find("-----BEGIN CERTIFICATE").expect("a certificate"));
    let key = before.find("-----BEGIN").map(|start| &before[start..]);
    std::fs::write(path("chain.pem"), chain).expect("file");
    std::fs::write(path("key.pem"), key.expect("a key")).expect("file");
    let output = Command::new(certbot)
        .args(["revoke", "--non-interactive", "--no-verify-ssl", "--no-delete-after-revoke", "--server"])
        .arg(parts.pebble.directory_uri())
        .arg("--cert-path")
        .arg(path("chain.pem"))
        .arg("--key-path")
        .arg(path("key.pem"))
        .args(["config", "work", "logs"].map(|kind| format!("--{kind}-dir={}", path(kind).display())))
        .output()
        .expect("certbot");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let running = parts.start();
    let is_replaced = wait::until(LIMIT, || {
        let now = served(&running, "a.example");
        is_issued(&now) && now != first
    });
    assert!(is_replaced, "{}", parts.fails(&running));
    running.stop();
}
