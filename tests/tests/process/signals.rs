//! QUIT, TERM, USR1, WINCH.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::binary::Server;
use tests::client::Client;
use tests::origin::{After, Origin, raw};
use tests::site::{Running, Site};
use tests::wait;

const SIZE: usize = 48 << 20;

fn site(extra: &str) -> Site {
    let server = "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made { return 200 ok; } }";
    Site::new(&format!("{extra}\n{server}")).file("large", vec![b'x'; SIZE])
}

fn slow_download(running: &Running) -> Client {
    let mut client = running.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_some(1000) > 0);
    client
}

#[test]
fn quit_lets_a_download_finish() {
    let mut running = site("").start(Server::Fulmar);
    let mut client = slow_download(&running);
    let mut idle = running.connect();
    assert_eq!(idle.exchange("GET /made").expect("an answer").status, 200);
    running.signal(Signal::QUIT);
    let refused = || Client::try_connect(running.address()).is_err();
    assert!(wait::until(Duration::from_secs(3), refused), "connections are still accepted");
    assert!(idle.closes_within(Duration::from_secs(3)), "an idle connection is still open");
    client.extend(Duration::from_secs(20));
    let response = client.response("GET").expect("the rest");
    assert_eq!((response.status, response.body.len(), response.broken), (200, SIZE, None));
    assert!(running.ends_within(Duration::from_secs(5)), "{}", running.all_logs());
    assert!(!running.pid_path().exists(), "the pid file stays");
    running.assert_healthy();
}

/// A request that is on its way when the server gets a signal to stop is answered, and the connection ends with it. The time
/// for that is a second, which a busy machine may take whole: then the test begins anew.
#[test]
fn quit_leaves_kept_connections_time_for_a_request() {
    let answered = || {
        let mut running = site("").start(Server::Fulmar);
        let mut kept: Vec<Client> = (0..8).map(|_| running.connect()).collect();
        for client in &mut kept {
            assert_eq!(client.exchange("GET /made").expect("an answer").status, 200);
        }
        running.signal(Signal::QUIT);
        let refused = || Client::try_connect(running.address()).is_err();
        assert!(wait::until(Duration::from_secs(8), refused), "connections are still accepted");
        let told = |client: &mut Client| client.exchange("GET /made");
        let answers: Vec<_> = kept.iter_mut().filter_map(told).collect();
        let good = answers.iter().filter(|answer| answer.status == 200 && answer.announces_close());
        let all = good.count() == kept.len();
        assert!(running.ends_within(Duration::from_secs(8)), "{}", running.all_logs());
        all
    };
    assert!((0..3).any(|_| answered()), "kept connections end before their request is answered");
}

/// A thread without connections ends at once, and leaves the others their time.
#[test]
fn quit_lets_each_thread_finish() {
    let text = r#"
        daemon off;
        worker_processes 4;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log;
        events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; } }
    "#;
    let site = Site::whole(&format!("{}{text}", root_user())).file("large", vec![b'x'; SIZE]);
    let mut running = site.start(Server::Fulmar);
    let mut client = slow_download(&running);
    running.signal(Signal::QUIT);
    let refused = || Client::try_connect(running.address()).is_err();
    assert!(wait::until(Duration::from_secs(8), refused), "connections are still accepted");
    client.extend(Duration::from_secs(20));
    let response = client.response("GET").expect("the rest");
    assert_eq!((response.status, response.body.len(), response.broken), (200, SIZE, None));
    assert!(running.ends_within(Duration::from_secs(8)), "{}", running.all_logs());
}

#[test]
fn term_and_int_do_not_wait() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut running = site("").start(Server::Fulmar);
        let mut client = slow_download(&running);
        running.signal(signal);
        // Nobody takes the rest of the download meanwhile, so that there is no end for who waits for it.
        assert!(running.ends_within(Duration::from_secs(20)), "{signal:?}");
        assert!(client.closes_within(Duration::from_secs(8)) && client.rest().len() < SIZE);
        running.assert_healthy();
    }
}

#[test]
fn worker_shutdown_timeout() {
    let text = r#"
        daemon off;
        worker_shutdown_timeout 1s;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log;
        events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; } }
    "#;
    let site = Site::whole(&format!("{}{text}", root_user())).file("large", vec![b'x'; SIZE]);
    let mut running = site.start(Server::Fulmar);
    let mut client = slow_download(&running);
    let started = Instant::now();
    running.signal(Signal::QUIT);
    assert!(running.ends_within(Duration::from_secs(6)), "{}", running.all_logs());
    assert!(started.elapsed() > Duration::from_millis(700), "{:?}", started.elapsed());
    assert!(client.closes_within(Duration::from_secs(3)) && client.rest().len() < SIZE);
}

/// Also the requests that the end of the worker cuts off are logged, as in nginx.
#[test]
fn requests_that_are_cut_off_are_logged() {
    let origin = Origin::start(|_| raw("", After::Hang));
    let text = format!(
        r#"
        daemon off;
        worker_shutdown_timeout 300ms;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log;
        events {{ }}
        http {{
            log_format short "$request $status $body_bytes_sent";
            access_log %%LOGS%%/access.log short;
            server {{ listen 127.0.0.1:%%PORT%%; http2 on; location / {{ proxy_pass http://{}; }} }}
        }}
    "#,
        origin.address()
    );
    let mut running = Site::whole(&format!("{}{text}", root_user())).start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    // The preface, SETTINGS, and HEADERS: GET, http, the path.
    let mut other = running.connect();
    other.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    other.send(b"\0\0\x0b\x01\x05\0\0\0\x01\x82\x86\x04\x04/two\x01\x01a");
    assert!(wait::until(Duration::from_secs(8), || origin.open() == 2), "{}", running.all_logs());
    running.signal(Signal::QUIT);
    assert!(running.ends_within(Duration::from_secs(8)), "{}", running.all_logs());
    let log = running.log("access.log");
    for line in ["GET /one HTTP/1.1 499 0", "GET /two HTTP/2.0 499 0"] {
        assert!(log.lines().any(|logged| logged == line), "{log}");
    }
}

#[test]
fn usr1_reopens_logs() {
    let site = site("");
    let running = site.start(Server::Fulmar);
    let logs = site.logs(Server::Fulmar);
    // The files that a reload hands to the worker are opened anew as those of its start are.
    let reload = site.command(Server::Fulmar).args(["-s", "reload"]).status().expect("run");
    assert!(reload.success(), "{}", running.all_logs());
    running.ask("GET /made?before\nConnection: close");
    running.wait_for_log("access.log", "before");
    fs::rename(logs.join("access.log"), logs.join("access.old")).expect("rename");
    fs::rename(logs.join("error.log"), logs.join("error.old")).expect("rename");
    running.ask("GET /made?between\nConnection: close");
    running.wait_for_log("access.old", "between");
    running.signal(Signal::USR1);
    let reopened = || ["access.log", "error.log"].iter().all(|name| logs.join(name).exists());
    assert!(wait::until(Duration::from_secs(5), reopened));
    let written = || {
        running.ask("GET /made?after\nConnection: close");
        running.log("access.log").contains("after")
    };
    assert!(wait::until(Duration::from_secs(5), written));
    running.stop();
}

/// What a link instead of a log leads to is not given to the worker's user.
#[test]
fn usr1_gives_nobody_what_a_link_leads_to() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let text = r#"
        daemon off;
        user daemon;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log info;
        events { }
        http { access_log %%LOGS%%/access.log; server { listen 127.0.0.1:%%PORT%%; return 200 ok; } }
    "#;
    let site = Site::whole(text).file("secret", "root's own\n");
    let running = site.start(Server::Fulmar);
    let (log, secret) = (site.logs(Server::Fulmar).join("access.log"), site.root().join("secret"));
    fs::remove_file(&log).expect("log");
    std::os::unix::fs::symlink(&secret, &log).expect("link");
    running.signal(Signal::USR1);
    running.wait_for_log("error.log", "access.log\" failed");
    assert_eq!(fs::metadata(&secret).expect("metadata").uid(), 0);
    running.stop();
}

/// WINCH ends the workers and not the supervisor, which HUP lets begin anew.
#[test]
fn winch_and_hup() {
    let text = r#"
        daemon on;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log info;
        events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; return 200 ok; } }
    "#;
    let running = Site::whole(text).start(Server::Fulmar);
    assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
    running.signal(Signal::WINCH);
    let gone = || Running::children(running.pid()).is_empty();
    assert!(wait::until(Duration::from_secs(5), gone), "{}", running.all_logs());
    running.signal(Signal::HUP);
    assert!(wait::until(Duration::from_secs(5), || !gone()), "{}", running.all_logs());
    assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
    running.stop();
}

pub(super) fn root_user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user root;" } else { "" }
}
