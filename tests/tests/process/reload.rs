//! Reload and upgrade: what changes, what stays, and that nobody notices.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::load::Load;
use tests::origin::{self, Origin};
use tests::site::{Running, Site, is_alive};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(8);

fn server(text: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made {{ return 200 \"{text}\"; }} }}"
    )
}

fn text(running: &Running) -> String {
    running.ask("GET /made\nConnection: close").last().text()
}

#[test]
fn reload_changes_what_is_served() {
    let site = Site::new(&server("first")).file("f.txt", "file\n");
    let running = site.start(Server::Fulmar);
    assert_eq!(text(&running), "first");
    running.rewrite(&server("second"));
    assert_eq!(text(&running), "first");
    reload(&running, &server("second"), "second");
    running.stop();
}

#[test]
fn a_failed_reload_keeps_the_configuration() {
    let site = Site::new(&server("first"));
    let running = site.start(Server::Fulmar);
    let pid = running.pid();
    assert_eq!(text(&running), "first");
    for broken in ["nonsense;", "server {", "server { listen 127.0.0.1:%%PORT%% nonsense; }"] {
        fs::write(site.logs(Server::Fulmar).join("error.log"), "").expect("error log");
        running.rewrite(broken);
        running.signal(Signal::HUP);
        running.wait_for_log("error.log", "[emerg]");
        assert_eq!((text(&running).as_str(), running.pid()), ("first", pid));
    }
    reload(&running, &server("second"), "second");
    running.stop();
}

/// An editor may have emptied the file that it is about to write. Without a server no address would be listened on.
#[test]
fn a_reload_of_an_emptied_file_keeps_the_configuration() {
    let site = Site::new(&server("first"));
    let running = site.start(Server::Fulmar);
    for part in ["", "user root;\nworker_processes 1;\n"] {
        fs::write(site.logs(Server::Fulmar).join("error.log"), "").expect("error log");
        fs::write(site.prefix().join("fulmar.conf"), part).expect("configuration");
        running.signal(Signal::HUP);
        running.wait_for_log("error.log", "no \"events\" section in configuration");
        assert_eq!(text(&running), "first");
    }
    reload(&running, &server("second"), "second");
    running.stop();
}

#[test]
fn a_download_survives_reloads() {
    const SIZE: usize = 48 << 20;
    let site = Site::new(&server("0")).file("large", vec![b'x'; SIZE]);
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.extend(Duration::from_secs(30));
    client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_some(1000) > 0);
    for turn in 1..4 {
        let said = turn.to_string();
        reload(&running, &server(&said), &said);
    }
    let response = client.response("GET").expect("the rest");
    assert_eq!((response.status, response.body.len(), response.broken), (200, SIZE, None));
    running.stop();
}

/// A WebSocket and a download that began before reloads and an upgrade go on in the old process, to their ends.
#[test]
fn websockets_and_downloads_survive_reloads_and_an_upgrade() {
    const SIZE: usize = 48 << 20;
    let reply = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let body = vec![b'x'; SIZE];
    let origin = Origin::start(move |asked| match &*asked.target {
        "/ws" => origin::raw(reply, origin::After::Echo),
        _ => origin::ok(&body),
    });
    let passed = format!(
        "location /large {{ proxy_pass http://{origin}; }}
        location /ws {{ proxy_pass http://{origin}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade; }} location /made",
        origin = origin.address()
    );
    let with = |text: &str| whole("daemon on;", &server(text).replace("location /made", &passed));
    let running = Site::whole(&with("x")).start(Server::Fulmar);
    let mut download = running.connect();
    download.extend(LIMIT * 4);
    download.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(download.read_some(1000) > 0);
    let mut tunnel = running.connect();
    tunnel.extend(LIMIT * 4);
    tunnel.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.response("GET").expect("an answer").status, 101);
    let mut echoes = |when: &str| {
        tunnel.send(b"ping");
        assert!(tunnel.read_some(4) > 0, "the tunnel is cut {when}");
    };
    for said in ["second", "x"] {
        reload(&running, &with(said), said);
        echoes("by a reload");
    }
    let before = running.pid();
    start_upgrade(&running, before);
    echoes("by the start of an upgrade");
    kill_process(before, Signal::QUIT).expect("signal");
    echoes("by an upgrade");
    assert_eq!(text(&running), "x");
    let response = download.response("GET").expect("the rest");
    assert_eq!((response.status, response.body.len(), response.broken), (200, SIZE, None));
    echoes("by the end of the download");
    assert!(is_alive(before), "the program before ends before its connections do");
    drop(tunnel);
    assert!(wait::until(LIMIT, || !is_alive(before)), "the old one stays:\n{}", running.all_logs());
    running.stop();
}

/// Addresses may come and go with a configuration.
#[test]
fn listening_follows_the_configuration() {
    let both = "server { listen 127.0.0.1:%%PORT%%; listen 127.0.0.1:%%PORT_1%%; return 200 both; }";
    let one = "server { listen 127.0.0.1:%%PORT%%; return 200 one; }";
    let running = Site::new(both).start(Server::Fulmar);
    let ask = |n: usize| tests::client::ask(running.address_of(n), "GET /\nConnection: close").last().text();
    assert_eq!((ask(0), ask(1)), ("both".to_owned(), "both".to_owned()));
    running.rewrite(one);
    running.signal(Signal::HUP);
    let refused = || tests::client::Client::try_connect(running.address_of(1)).is_err();
    assert!(wait::until(LIMIT, || ask(0) == "one" && refused()), "{}", running.all_logs());
    running.rewrite(both);
    running.signal(Signal::HUP);
    assert!(wait::until(LIMIT, || ask(0) == "both" && !refused()), "{}", running.all_logs());
    assert_eq!(ask(1), "both");
    running.stop();
}

#[test]
fn twenty_reloads_under_load() {
    let site = Site::whole(&whole("daemon off;", &server("0"))).file("f.txt", "x".repeat(3000));
    let running = site.start(Server::Fulmar);
    let made = Load::of_new_connections(running.address(), "/made", 2);
    let files = Load::of_new_connections(running.address(), "/f.txt", 1);
    let kept = Load::of_kept_connections(running.address(), "/f.txt", 1);
    for turn in 1..=20 {
        let said = turn.to_string();
        reload(&running, &whole("daemon off;", &server(&said)), &said);
    }
    assert_nothing_lost("made", made);
    assert_nothing_lost("files", files);
    assert_nothing_lost("kept", kept);
    running.stop();
}

#[test]
fn five_upgrades_under_load() {
    let site = Site::whole(&whole("daemon on;", &server("x"))).file("f.txt", "x".repeat(3000));
    let running = site.start(Server::Fulmar);
    let made = Load::of_new_connections(running.address(), "/made", 2);
    let kept = Load::of_kept_connections(running.address(), "/f.txt", 1);
    for _ in 0..5 {
        upgrade(&running);
    }
    assert_nothing_lost("new connections", made);
    assert_nothing_lost("kept connections", kept);
    running.stop();
}

/// Connections that are kept over an upgrade are answered as before until the program before has to end; then each has
/// one more answer, which says that it is the last. No request is without an answer.
#[test]
fn an_upgrade_tells_kept_connections() {
    let running = Site::whole(&whole("daemon on;", &server("x"))).start(Server::Fulmar);
    let mut kept: Vec<_> = (0..8).map(|_| running.connect()).collect();
    let mut ask = |expected: &str| {
        for client in &mut kept {
            let response = client.exchange("GET /made").expect("an answer");
            assert_eq!((response.text().as_str(), response.announces_close()), ("x", false), "{expected}");
        }
    };
    ask("before");
    let before = running.pid();
    start_upgrade(&running, before);
    ask("beside the new program");
    std::thread::scope(|scope| {
        for client in &mut kept {
            scope.spawn(|| {
                client.extend(LIMIT * 2);
                let last =
                    wait::until(LIMIT, || client.exchange("GET /made").expect("an answer").announces_close());
                assert!(last && client.closes_within(LIMIT), "a connection stays");
            });
        }
        kill_process(before, Signal::QUIT).expect("signal");
    });
    assert!(wait::until(LIMIT, || !is_alive(before)), "the old one stays:\n{}", running.all_logs());
    assert_eq!(text(&running), "x");
    running.stop();
}

/// The old supervisor takes over again when the new one stops.
#[test]
fn an_upgrade_taken_back() {
    let running = Site::whole(&whole("daemon on;", &server("x"))).start(Server::Fulmar);
    assert_eq!(text(&running), "x");
    let before = running.pid();
    let after = start_upgrade(&running, before);
    assert_eq!(text(&running), "x");
    kill_process(after, Signal::QUIT).expect("signal");
    assert!(wait::until(LIMIT, || !is_alive(after)), "{}", running.all_logs());
    assert!(wait::until(LIMIT, || running.pid() == before), "the pid file is not the old one's again");
    assert_eq!(text(&running), "x");
    running.stop();
}

/// A whole file around the content of `http {}`, with several workers.
pub(super) fn whole(daemon: &str, http: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{daemon} {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; worker_processes 2; \
         events {{ worker_connections 512; }} http {{ access_log off; {http} }}"
    )
}

fn assert_nothing_lost(name: &str, load: Load) {
    let tally = load.finish();
    assert!(tally.answered > 50, "{name}: only {} answers", tally.answered);
    let (failed, answered) = (tally.failed.len(), tally.answered);
    assert!(tally.failed.is_empty(), "{name}: {failed} lost, {answered} answered: {}", tally.failed[0]);
}

/// Puts a configuration whose server says `said` in place and waits for it to take effect.
pub(super) fn reload(running: &Running, configuration: &str, said: &str) {
    running.rewrite(configuration);
    running.signal(Signal::HUP);
    assert!(wait::until(LIMIT, || text(running) == said), "no {said}:\n{}", running.all_logs());
}

pub(crate) fn upgrade(running: &Running) {
    let before = running.pid();
    start_upgrade(running, before);
    kill_process(before, Signal::QUIT).expect("signal");
    assert!(wait::until(LIMIT, || !is_alive(before)), "the old one stays:\n{}", running.all_logs());
    assert_eq!(text(running), "x");
}

/// Starts the new binary; gives its process id once it has written it.
fn start_upgrade(running: &Running, before: Pid) -> Pid {
    kill_process(before, Signal::USR2).expect("signal");
    let old = running.pid_path().with_extension("oldbin");
    let begun = wait::until(LIMIT, || {
        let written = fs::read_to_string(running.pid_path()).is_ok_and(|text| text.ends_with('\n'));
        old.exists() && written && running.pid() != before
    });
    assert!(begun, "no new supervisor:\n{}", running.all_logs());
    running.pid()
}

#[test]
fn the_end_ends_reloads_that_wait_for_others() {
    let site = Site::new(&server("first"));
    let mut running = site.start(Server::Fulmar);
    let path = site.prefix().join("second.sock");
    let unix = format!("server {{ listen unix:{}; }}", path.display());
    running.rewrite(&format!("{}\n{unix}", server("second")));
    for signal in [Signal::HUP, Signal::HUP, Signal::TERM] {
        running.signal(signal);
    }
    assert!(running.ends_within(Duration::from_secs(10)), "{}", running.all_logs());
    assert!(!path.exists(), "a socket that nobody serves stays: {}", running.all_logs());
}
