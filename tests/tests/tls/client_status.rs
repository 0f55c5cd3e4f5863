//! Certificates of clients that are checked with OCSP responders (`ssl_ocsp`), next to nginx.

use std::fs;
use std::sync::atomic::Ordering;

use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};
use tests::tls::{Certificate, Client};

use super::stapling::{Controlled, GOOD, Responder, has_openssl, site};

/// Servers that check clients in several ways. The first one asks nobody.
const SERVERS: &str = r#"
    ssl_certificate %%DIR%%/good.pem;
    ssl_certificate_key %%DIR%%/good.key;
    ssl_client_certificate %%DIR%%/ca.pem;
    ssl_verify_client on;
    add_header X-Verify "$ssl_client_verify $ssl_session_reused" always;
    server { listen %%PORT%% ssl; return 204; }
    server { listen %%PORT_1%% ssl; return 204; ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:RESPONDER; }
    server { listen %%PORT_2%% ssl; return 204; ssl_ocsp on; ssl_ocsp_responder http://127.0.0.1:RESPONDER; ssl_verify_client optional; }
    server { listen %%PORT_3%% ssl; return 204; ssl_ocsp on; ssl_ocsp_cache shared:ocsp:1m; }
    server { listen %%PORT_4%% ssl; return 204; ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:IGNORANT; }
"#;

fn client(site: &Site, name: &str) -> Client {
    let read =
        |suffix: &str| fs::read_to_string(site.prefix().join(format!("{name}.{suffix}"))).expect("a file");
    let shown = Certificate { pem: read("one"), key: read("key"), der: Vec::new() };
    Client::new(Some("good")).showing(&shown, &[])
}

/// The status and what is said about the certificate.
fn judged(client: &Client, running: &Running, port: usize) -> String {
    let spoken = client.ask(running.address_of(port), "GET /").expect("an answer");
    let last = spoken.answer.last();
    format!("{} {}", last.status, last.field("X-Verify").unwrap_or_default())
}

#[test]
fn revoked_clients_are_rejected_as_by_nginx() {
    if !has_openssl() {
        return;
    }
    let made = site("", "http://127.0.0.1:9/");
    let responder = Responder::start(&made, "index");
    fs::write(made.prefix().join("empty"), "").expect("a file");
    let ignorant = Responder::start(&made, "empty");
    let text = SERVERS.replace("RESPONDER", &responder.port.to_string());
    let site = Site::new(&text.replace("IGNORANT", &ignorant.port.to_string()));
    for name in ["ca.pem", "good.pem", "good.one", "good.key", "bad.one", "bad.key", "ocsp.pem", "ocsp.key"] {
        fs::copy(made.prefix().join(name), site.prefix().join(name)).expect("a copy");
    }
    // Each connection has a new session.
    let new = |name: &str| if name.is_empty() { Client::new(Some("good")) } else { client(&site, name) };
    for server in [Server::Nginx, Server::Fulmar] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        for (name, port, expected) in [
            ("good", 0, "204 SUCCESS ."),
            ("bad", 0, "204 SUCCESS ."),
            ("good", 1, "204 SUCCESS ."),
            ("bad", 1, "400 FAILED:certificate revoked ."),
            ("good", 2, "204 SUCCESS ."),
            ("bad", 2, "400 FAILED:certificate revoked ."),
            ("", 2, "204 NONE ."),
            ("good", 4, "400 FAILED:certificate status unknown ."),
            // The responder that the certificates name does not answer.
            ("good", 3, "400 FAILED:certificate status request failed ."),
            ("bad", 3, "400 FAILED:certificate status request failed ."),
        ] {
            assert_eq!(
                judged(&new(name), &running, port),
                expected,
                "{server:?} {port}\n{}",
                running.all_logs()
            );
        }
        // Each connection is checked, also those that resume a session.
        let good = new("good");
        let both = [(); 2].map(|()| judged(&good, &running, 1));
        assert_eq!(both, ["204 SUCCESS .", "204 SUCCESS r"], "{server:?}");
        running.stop();
    }
}

#[test]
fn answers_are_kept_and_failures_are_not() {
    if !has_openssl() {
        return;
    }
    let responder = Controlled::start();
    let url = format!("http://127.0.0.1:{}/path", responder.origin.address().port());
    let text = SERVERS.replace("RESPONDER", "9").replace("IGNORANT", "9");
    let made = site(&text, &url);
    *responder.directory.lock().expect("no panic") = made.prefix();
    let running = made.start(Server::Fulmar);
    let (good, bad) = (client(&made, "good"), client(&made, "bad"));
    let failed = "400 FAILED:certificate status request failed .";
    assert_eq!([&good, &bad].map(|client| judged(client, &running, 3)), [failed, failed]);
    assert_eq!(responder.mode.swap(GOOD, Ordering::SeqCst), 2, "each of them asked");
    // The sessions began before.
    let expected = ["204 SUCCESS r", "400 FAILED:certificate revoked r"];
    for _ in 0..2 {
        assert_eq!([&good, &bad].map(|client| judged(client, &running, 3)), expected);
    }
    assert_eq!(responder.mode.load(Ordering::SeqCst), GOOD + 2, "the cache answered");
    running.stop();
}
