//! Certbot with its plugin for nginx, which tests, changes and reloads the configuration of Fulmar.

use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;
use tests::binary::Server;
use tests::dns::NameServer;
use tests::parts;
use tests::pebble::{Options, Pebble, have_pebble};
use tests::site::{Running, Site};
use tests::tls::Client;

/// What the plugin needs besides Certbot itself.
const PLUGIN: &str = "/usr/lib/python3/dist-packages/certbot_nginx";

const SITE: &str = "# A server with TLS will be at %%PORT_1%%.
    server { listen 127.0.0.1:%%PORT%%; server_name site.example www.site.example; root %%ROOT%%; }";

/// The certificate that a client gets.
fn served(running: &Running) -> Vec<u8> {
    let client = Client::new(Some("www.site.example"));
    let answer = client.ask(running.address_of(1), "GET /page\nHost: www.site.example\nConnection: close");
    let answer = answer.unwrap_or_else(|error| panic!("{error}:\n{}", running.all_logs()));
    assert_eq!(answer.answer.last().text(), "hello");
    answer.certificate
}

#[test]
fn certbot_installs_and_renews_a_certificate() {
    let certbot = parts::program(&["certbot"]).filter(|_| std::path::Path::new(PLUGIN).exists());
    if !have_pebble() || !parts::is_present("Certbot with its plugin for nginx", certbot.is_some()) {
        return;
    }
    let directory = TempDir::with_prefix("certbot-").unwrap();
    let names = NameServer::of("127.0.0.1");
    let pebble = Pebble::start(directory.path(), &names, Options::default());
    let site = Site::new(SITE).file("page", "hello");
    let running = site.start(Server::Fulmar);
    pebble.validates_at(running.address(), running.address_of(1));
    symlink(site.prefix().join("fulmar.conf"), site.prefix().join("nginx.conf")).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(certbot.as_ref().unwrap())
            .args(arguments)
            .args(["--non-interactive", "--no-verify-ssl", "--nginx-ctl"])
            .arg(Server::Fulmar.path())
            .arg("--nginx-server-root")
            .arg(site.prefix())
            .args(["config", "work", "logs"].map(|kind| {
                format!("--{kind}-dir={}", directory.path().join("certbot").join(kind).display())
            }))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}\n{}\n{}", running.all_logs(), pebble.log());
    };
    let (web, encrypted) = (running.address().port().to_string(), running.address_of(1).port().to_string());
    run(&[
        "--nginx",
        "--server",
        &pebble.directory_uri(),
        "--agree-tos",
        "--email=admin@site.example",
        "--domain=site.example",
        "--domain=www.site.example",
        "--http-01-port",
        &web,
        "--https-port",
        &encrypted,
    ]);
    let first = served(&running);
    run(&["renew", "--force-renewal", "--no-random-sleep-on-renew"]);
    assert_ne!(served(&running), first);
    running.stop();
}
