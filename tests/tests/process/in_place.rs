//! Reloads that reach the worker that serves: what goes over, what ends, and what is kept.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tests::binary::Server;
use tests::client::{self, Client};
use tests::origin::{self, Origin};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::tls::{Certificate, Kind, certificate};
use tests::{response, tls, wait, worker};

const LIMIT: Duration = Duration::from_secs(8);

/// A reload by `-s`, which waits for the verdict: what it says.
fn reload(site: &Site, running: &Running, configuration: &str) -> Result<(), String> {
    running.rewrite(configuration);
    let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(told) }
}

/// A reload that has to succeed.
fn must_reload(site: &Site, running: &Running, configuration: &str) {
    if let Err(told) = reload(site, running, configuration) {
        panic!("{told}\n{}", running.all_logs());
    }
}

fn made(text: &str) -> String {
    format!("server {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 {text}; }} }}")
}

/// The answer to `GET /made`, and whether the connection stays.
fn ask(client: &mut Client) -> (String, bool) {
    let response = client.exchange("GET /made").expect("an answer");
    (response.text(), !response.announces_close())
}

#[test]
fn a_connection_goes_over_and_the_worker_stays() {
    let site = Site::new(&made("first"));
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    let mut kept = running.connect();
    let mut silent = running.connect();
    assert_eq!(ask(&mut kept), ("first".to_owned(), true));
    for text in ["second", "third"] {
        must_reload(&site, &running, &made(text));
        assert_eq!(ask(&mut kept), (text.to_owned(), true));
    }
    assert_eq!(
        ask(&mut silent),
        ("third".to_owned(), true),
        "a connection that had no request goes over, too"
    );
    assert_eq!(worker::of(&running), before);
    running.stop();
}

#[test]
fn an_empty_line_keeps_no_site() {
    // The log of each site is a descriptor that only it has.
    let with = |text: &str| {
        whole("", &made(text)).replace("access_log off", &format!("access_log %%LOGS%%/{text}.log"))
    };
    let site = Site::whole(&with("first"));
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    let mut idle = running.connect();
    assert_eq!(ask(&mut idle), ("first".to_owned(), true));
    idle.send(b"\r\n");
    // That is read by the time another connection is answered; if not, there is nothing to keep.
    assert_eq!(ask(&mut running.connect()).0, "first");
    must_reload(&site, &running, &with("second"));
    assert!(wait::until(LIMIT, || !has_open(process, "first.log")), "the site before stays");
    assert_eq!(ask(&mut idle), ("second".to_owned(), true));
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// The content of a file that was removed takes room on the disk as long as a process has it open.
#[test]
fn files_are_kept_open_no_longer_than_that_is_asked_for() {
    let with = |cache: &str| format!("server {{ listen 127.0.0.1:%%PORT%%; root html; {cache} }}");
    let site = Site::new(&with("open_file_cache max=10;")).file("large.bin", vec![0; 100_000]);
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    assert_eq!(running.ask("GET /large.bin").statuses(), [200]);
    assert!(has_open(process, "large.bin"));
    for cache in ["open_file_cache max=10; server_tokens off;", "open_file_cache max=10;"] {
        must_reload(&site, &running, &with(cache));
        assert_eq!(running.ask("GET /large.bin").statuses(), [200]);
        assert!(has_open(process, "large.bin"), "it is asked for as before");
    }
    must_reload(&site, &running, &with(""));
    assert!(wait::until(LIMIT, || !has_open(process, "large.bin")), "nobody asks for it");
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// Whether a process has a file of this name open.
fn has_open(process: Pid, name: &str) -> bool {
    let links = fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors").flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|path| path.ends_with(name))
}

#[test]
fn what_is_broken_changes_nothing_and_is_told() {
    let site = Site::new(&made("first"));
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    let mut kept = running.connect();
    assert_eq!(ask(&mut kept), ("first".to_owned(), true));
    let log = "access_log /nonexistent/directory/a.log;";
    for (broken, reason) in [
        ("nonsense;".to_owned(), "unknown directive \"nonsense\""),
        (format!("{log} {}", made("second")), "/nonexistent/directory/a.log"),
    ] {
        let told = reload(&site, &running, &broken).expect_err("a verdict");
        assert!(told.contains(reason), "{told}");
        assert_eq!(ask(&mut kept), ("first".to_owned(), true));
        assert_eq!(worker::of(&running), before);
    }
    running.stop();
}

#[test]
fn a_request_is_answered_as_it_began() {
    let (asked, arrivals) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let (asked, released) = (Mutex::new(asked), Mutex::new(released));
    let origin = Origin::start(move |_| {
        asked.lock().expect("lock").send(()).expect("the test");
        let _ = released.lock().expect("lock").recv_timeout(LIMIT);
        origin::ok("slow")
    });
    let configuration = |text: &str| {
        let address = origin.address();
        let slow = format!("location /slow {{ proxy_pass http://{address}; add_header X-Site {text}; }}");
        made(text).replace("location /made", &format!("{slow} location /made"))
    };
    let site = Site::new(&configuration("first"));
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    arrivals.recv_timeout(LIMIT).expect("the request behind the server");
    must_reload(&site, &running, &configuration("second"));
    release.send(()).expect("the origin");
    let response = client.response("GET").expect("an answer");
    assert_eq!((response.field("x-site"), response.announces_close()), (Some("first"), false));
    assert_eq!(ask(&mut client), ("second".to_owned(), true));
    running.stop();
}

/// Connections of a removed address get `Connection: close`, by the configuration that had it; the other one stays.
#[test]
fn an_address_that_is_gone_ends_its_connections() {
    let first = "server { listen 127.0.0.1:%%PORT%%; listen 127.0.0.1:%%PORT_1%%; return 200 first; }";
    let second = "server { listen 127.0.0.1:%%PORT%%; return 200 second; }";
    let site = Site::new(first);
    let running = site.start(Server::Fulmar);
    let mut stays = running.connect();
    let mut goes = Client::connect(running.address_of(1));
    let mut idle = Client::connect(running.address_of(1));
    for client in [&mut stays, &mut goes, &mut idle] {
        assert_eq!(ask(client), ("first".to_owned(), true));
    }
    let before = worker::of(&running);
    must_reload(&site, &running, second);
    // A connection that has to end is given a second; a slow machine may take it whole.
    let told = goes.exchange("GET /made").map(|response| (response.text(), response.announces_close()));
    assert!(told.is_none_or(|told| told == ("first".to_owned(), true)));
    assert!(idle.closes_within(LIMIT), "an idle connection to an address that is gone stays");
    assert!(wait::until(LIMIT, || Client::try_connect(running.address_of(1)).is_err()));
    assert_eq!(ask(&mut stays), ("second".to_owned(), true));
    must_reload(&site, &running, first);
    let again = client::ask(running.address_of(1), "GET /made\nConnection: close").last().text();
    assert_eq!((again, ask(&mut stays)), ("first".to_owned(), ("first".to_owned(), true)));
    assert_eq!(worker::of(&running), before);
    running.stop();
}

#[test]
fn connections_are_drained_where_that_is_asked_for() {
    let with = |text: &str| whole("", &made(text)) + " reload_connections drain;";
    let site = Site::whole(&with("first"));
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    let mut idle = running.connect();
    assert_eq!((ask(&mut client).0, ask(&mut idle).0), ("first".to_owned(), "first".to_owned()));
    let before = worker::of(&running);
    must_reload(&site, &running, &with("second"));
    let told = client.exchange("GET /made").map(|response| (response.text(), response.announces_close()));
    assert!(told.is_none_or(|told| told == ("first".to_owned(), true)));
    assert!(idle.closes_within(LIMIT), "an idle connection stays");
    assert_eq!(running.ask("GET /made\nConnection: close").last().text(), "second");
    assert_eq!(worker::of(&running), before);
    running.stop();
}

/// A worker cannot change its number of threads: another one takes over.
#[test]
fn what_a_process_has_from_its_start_needs_a_new_worker() {
    let site = Site::whole(&whole("worker_processes 1;", &made("first")));
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    let mut client = running.connect();
    assert_eq!(ask(&mut client).0, "first");
    must_reload(&site, &running, &whole("worker_processes 2;", &made("second")));
    assert_ne!(worker::after(&running, before), before);
    assert_eq!(running.ask("GET /made\nConnection: close").last().text(), "second");
    running.stop();
}

#[test]
fn what_began_before_is_cut_off_in_the_end() {
    const SIZE: usize = 48 << 20;
    let with = |text: &str| {
        whole("worker_shutdown_timeout 500ms;", &made(text).replace("location", "root %%ROOT%%; location"))
    };
    let site = Site::whole(&with("first")).file("large", vec![b'x'; SIZE]);
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    let mut kept = running.connect();
    assert_eq!(ask(&mut kept).0, "first");
    // When that is done all of the worker has started.
    must_reload(&site, &running, &with("first"));
    let open = worker::descriptors(before);
    let mut slow = running.connect();
    slow.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(slow.read_some(1000) > 0);
    must_reload(&site, &running, &with("second"));
    // The connection of the download, its file, and the log of the configuration before.
    assert!(wait::until(LIMIT, || worker::descriptors(before) <= open), "{}", running.all_logs());
    assert!(slow.closes_within(LIMIT) && slow.rest().len() < SIZE);
    assert_eq!(ask(&mut kept), ("second".to_owned(), true));
    running.stop();
}

/// What waits for no client is bounded by the time of its site, too.
#[test]
fn what_outlasts_its_client_does_not_outlast_its_site() {
    let origin = Origin::start(|_| origin::raw("", origin::After::Hang));
    let with = |text: &str| {
        let passed = format!(
            "location /lasts {{ proxy_ignore_client_abort on; proxy_pass http://{0}; }}
             location /copied {{ mirror /copy; root %%ROOT%%; }}
             location /copy {{ proxy_pass http://{0}; }}
             location /followed {{ post_action /copy; return 200 followed; }} location /made",
            origin.address()
        );
        whole("worker_shutdown_timeout 300ms;", &made(text).replace("location /made", &passed))
    };
    let site = Site::whole(&with("first")).file("copied", "copied");
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    let mut clients = ["/lasts", "/copied", "/followed"].map(|path| {
        let mut client = running.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        client
    });
    assert!(wait::until(LIMIT, || origin.open() == 3), "{}", running.all_logs());
    must_reload(&site, &running, &with("second"));
    for client in [0, 2] {
        assert!(clients[client].closes_within(LIMIT), "nothing cuts it");
    }
    assert!(wait::until(LIMIT, || origin.open() == 0), "{} stay", origin.open());
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// A tunnel goes on under the site that it was opened by, as long as that may: then it is cut, and nothing of the site
/// before is left.
#[test]
fn tunnels_last_as_long_as_their_site_may() {
    let reply = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start(move |_| origin::raw(reply, origin::After::Echo));
    let with = |limit: &str, text: &str| {
        let passed = format!(
            "location /ws {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
             proxy_set_header Connection upgrade; }} location /made",
            origin.address()
        );
        // The log of each site is a descriptor that only it has.
        let server = made(text).replace("location /made", &passed);
        whole(limit, &server).replace("access_log off", &format!("access_log %%LOGS%%/{text}.log"))
    };
    for limit in ["", "worker_shutdown_timeout 300ms;"] {
        let site = Site::whole(&with(limit, "first"));
        let running = site.start(Server::Fulmar);
        let process = worker::of(&running);
        let mut tunnel = running.connect();
        tunnel.extend(LIMIT * 2);
        tunnel.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(tunnel.response("GET").expect("an answer").status, 101);
        must_reload(&site, &running, &with(limit, "second"));
        let has_log = || has_open(process, "first.log");
        if limit.is_empty() {
            for _ in 0..3 {
                tunnel.send(b"ping");
                assert!(tunnel.read_some(4) > 0, "it is cut, although nothing bounds it");
            }
            assert!(has_log(), "its site is gone");
            drop(tunnel);
        } else {
            assert!(tunnel.closes_within(LIMIT), "nothing cuts it");
        }
        assert!(wait::until(LIMIT, || !has_log()), "the site before stays: {}", running.all_logs());
        assert_eq!(worker::of(&running), process);
        assert_eq!(running.ask("GET /made\nConnection: close").last().text(), "second");
        running.stop();
    }
}

/// A zone and what is known of servers behind this one outlive a reload, with the connections to them.
#[test]
fn state_is_carried_over() {
    let origin = Origin::start(|_| origin::ok("behind"));
    let configuration = |zone: &str, text: &str| {
        let address = origin.address();
        format!(
            "limit_req_zone $server_port {zone}; upstream behind {{ server {address}; }}
             server {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 {text}; }}
                 location /behind {{ proxy_pass http://behind; proxy_http_version 1.1;
                     proxy_set_header Connection ''; }}
                 location /limited {{ limit_req zone=few; limit_req_status 429; try_files none @passed; }}
                 location @passed {{ return 200 passed; }} }}"
        )
    };
    let few = "zone=few:1m rate=1r/m";
    let site = Site::new(&configuration(few, "first"));
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    let mut status = |target: &str| client.exchange(&format!("GET {target}")).expect("an answer").status;
    assert_eq!((status("/behind"), status("/limited"), status("/limited")), (200, 200, 429));
    must_reload(&site, &running, &configuration(few, "second"));
    assert_eq!((status("/behind"), status("/limited")), (200, 429));
    assert_eq!(origin.connections(), 1, "the connection to the server behind was not kept");
    must_reload(&site, &running, &configuration("zone=few:2m rate=1r/m", "third"));
    assert_eq!(status("/limited"), 200, "another size is another zone");
    running.stop();
}

/// The worker that was killed is followed by one that serves what was loaded last.
#[test]
fn a_killed_worker_is_followed_by_one_of_the_last_configuration() {
    let site = Site::new(&made("first"));
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    must_reload(&site, &running, &made("second"));
    kill_process(before, Signal::KILL).expect("kill");
    worker::after(&running, before);
    let answer = || Client::try_connect(running.address()).ok()?.exchange("GET /made\nConnection: close");
    assert!(wait::until(LIMIT, || answer().is_some_and(|response| response.text() == "second")));
    let mut kept = running.connect();
    assert_eq!(ask(&mut kept).0, "second");
    must_reload(&site, &running, &made("third"));
    assert_eq!(ask(&mut kept), ("third".to_owned(), true));
}

#[test]
fn metrics_tell_of_reloads() {
    let metrics = |text: &str| {
        made(text).replace("location /made", "location /metrics { fulmar_status; } location /made")
    };
    let site = Site::new(&metrics("first"));
    let running = site.start(Server::Fulmar);
    let value = |name: &str| -> Option<u64> {
        let text = running
            .ask("GET /metrics\nAccept: application/openmetrics-text\nConnection: close")
            .last()
            .text();
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("fulmar_{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().ok()
    };
    let reach = |wanted: [u64; 3]| {
        let names = [
            "reloads_total{result=\"success\"}",
            "reloads_total{result=\"failure\"}",
            "configuration_generation",
        ];
        // The worker gets the result after the requester of the reload.
        assert!(
            wait::until(LIMIT, || names.map(value) == wanted.map(Some)),
            "{wanted:?}: {:?}",
            names.map(value)
        );
    };
    reach([0, 0, 1]);
    let since = value("configuration_since_timestamp_seconds").expect("a time");
    assert!(since > 1_700_000_000);
    must_reload(&site, &running, &metrics("second"));
    reach([1, 0, 2]);
    // By `-s` the server would not even be asked.
    running.rewrite("nonsense;");
    running.signal(Signal::HUP);
    reach([1, 1, 2]);
    assert!(value("configuration_since_timestamp_seconds").expect("a time") >= since);
    running.stop();
}

/// Keys and logs are the superuser's own; the worker is nobody's.
#[test]
fn a_worker_without_rights_gets_keys_and_logs() {
    if !geteuid().is_root() {
        return;
    }
    let with = |name: &str| {
        let server = format!(
            "access_log %%LOGS%%/{name}.log; server {{ listen 127.0.0.1:%%PORT%% ssl;
             ssl_certificate %%DIR%%/{name}.pem; ssl_certificate_key %%DIR%%/{name}.key; return 200 {name}; }}"
        );
        whole("user nobody nogroup;", &server)
    };
    let (one, two) = (certificate("a.example", Kind::Ecdsa), certificate("a.example", Kind::Ecdsa));
    let site = with_certificates(Site::whole(&with("one")), &[("one", &one), ("two", &two)]);
    for name in ["one.key", "two.key"] {
        fs::set_permissions(site.prefix().join(name), fs::Permissions::from_mode(0o600)).expect("mode");
    }
    let running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    let client = tls::Client::new(Some("a.example"));
    let served = || client.ask(running.address(), "GET /\nConnection: close").expect("an answer").certificate;
    assert_eq!(served(), one.der);
    must_reload(&site, &running, &with("two"));
    assert_eq!(served(), two.der);
    running.wait_for_log("two.log", "GET / HTTP/1.1");
    assert_eq!(worker::of(&running), before);
    running.stop();
}

/// A connection keeps the certificate by which it was opened, and ends where another one is to be shown; sessions can
/// be resumed for as long as it stays.
#[test]
fn an_encrypted_connection_lasts_as_long_as_its_certificate() {
    let server = |server_name: &str, name: &str, text: &str| {
        format!(
            "server {{ listen 127.0.0.1:%%PORT%% ssl; server_name {server_name};
             ssl_certificate %%DIR%%/{name}.pem; ssl_certificate_key %%DIR%%/{name}.key; return 200 {text}; }}"
        )
    };
    let with = |name: &str, text: &str| server("a.example", name, text);
    // Servers with the same certificate come and go.
    let with_another = |name: &str, text: &str| server("b.example", name, "another") + &with(name, text);
    let (one, two) = (certificate("a.example", Kind::Ecdsa), certificate("a.example", Kind::Ecdsa));
    let site = with_certificates(Site::new(&with_another("one", "first")), &[("one", &one), ("two", &two)]);
    let running = site.start(Server::Fulmar);
    let client = tls::Client::new(Some("a.example"));
    let mut stream = client.connect(running.address()).expect("a connection");
    let first =
        client.ask(running.address(), "GET /\nHost: a.example\nConnection: close").expect("an answer");
    assert_eq!(first.answer.last().text(), "first");
    let told =
        |response: Option<Response>| response.map(|response| (response.text(), response.announces_close()));
    assert_eq!(told(get(&mut stream)), Some(("first".to_owned(), false)));
    must_reload(&site, &running, &with("one", "second"));
    assert_eq!(told(get(&mut stream)), Some(("second".to_owned(), false)));
    let resumed =
        client.ask(running.address(), "GET /\nHost: a.example\nConnection: close").expect("an answer");
    assert!(resumed.resumed, "the tickets of the same certificate are worth nothing any more");
    must_reload(&site, &running, &with("two", "third"));
    let last = told(get(&mut stream));
    assert!(last.clone().is_none_or(|told| told == ("second".to_owned(), true)), "{last:?}");
    running.stop();
}

fn with_certificates(site: Site, certificates: &[(&str, &Certificate)]) -> Site {
    certificates.iter().fold(site, |site, (name, made)| {
        site.in_prefix(&format!("{name}.pem"), &made.pem).in_prefix(&format!("{name}.key"), &made.key)
    })
}

/// One exchange on a stream that stays.
fn get(stream: &mut (impl Read + Write)) -> Option<Response> {
    stream.write_all(b"GET /made HTTP/1.1\r\nHost: a.example\r\n\r\n").ok()?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).unwrap_or(0);
        received.extend_from_slice(&piece[..count]);
        if let Some((response, _)) = response::take("GET", &received, count == 0) {
            return Some(response);
        }
        if count == 0 {
            return None;
        }
    }
}

/// A whole file around the content of `http {}`.
fn whole(main: &str, http: &str) -> String {
    let user = if geteuid().is_root() && !main.contains("user ") { "user root;" } else { "" };
    format!(
        "daemon off; {user} {main} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{ access_log off; {http} }}"
    )
    .replace(if http.contains("access_log ") { "access_log off; " } else { "\u{0}" }, "")
}
