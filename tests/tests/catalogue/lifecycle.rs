//! Changes while requests are under way (rows M1–M14).
//!
//! | row | elsewhere |
//! |---|---|
//! | M1, M2 | `process::reload::twenty_reloads_under_load` |
//! | M4 | `process::reload::five_upgrades_under_load`, `an_upgrade_taken_back` |
//! | M6 | `process::signals::quit_lets_a_download_finish`, `worker_shutdown_timeout` |
//! | M9 | `process::listening::a_killed_worker_is_replaced` |
//! | M12 | `process::soak`, long by `make soak` |
//! | M11 | `tls::a_reload_brings_a_renewed_certificate_…`, `sessions_are_resumed_…_even_after_a_reload` |

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::load::Load;
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site, is_alive};
use tests::{client, wait, worker};

const PATIENCE: Duration = Duration::from_secs(20);

fn reload(running: &Running, configuration: &str, said: &str) {
    running.rewrite(configuration);
    running.signal(Signal::HUP);
    let text = || running.ask("GET /made\nConnection: close").last().text();
    assert!(wait::until(PATIENCE, || text() == said), "no {said}:\n{}", running.all_logs());
}

/// M3: a reload with fewer threads than before loses none of the connections that wait in the queues of the others.
#[test]
fn m3_fewer_threads() {
    let whole = |threads: usize, said: &str| {
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        format!(
            "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; worker_processes {threads};
             events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 {said}; }} }} }}"
        )
    };
    let running = Site::whole(&whole(4, "four")).start(Server::Fulmar);
    let load = Load::of_new_connections(running.address(), "/made", 3);
    for (threads, said) in [(1, "one"), (4, "again"), (2, "two"), (1, "last")] {
        reload(&running, &whole(threads, said), said);
    }
    let tally = load.finish();
    assert!(
        tally.answered > 20 && tally.failed.is_empty(),
        "{} answered, lost: {:?}",
        tally.answered,
        tally.failed
    );
    running.stop();
}

/// M4: where the new program does not start, the old one goes on as if nothing had been asked.
#[test]
fn m4_a_new_program_that_does_not_start() {
    let site = Site::whole("");
    // A copy, because it will be replaced.
    let program = site.prefix().join("fulmar");
    fs::copy(Server::Fulmar.path(), &program).expect("copy");
    let ports = site.write_configuration(Server::Fulmar, &one_server());
    let address = (std::net::Ipv4Addr::LOCALHOST, ports[&0]).into();
    let mut command = Command::new(&program);
    command.args(site.command(Server::Fulmar).get_args()).current_dir(site.prefix()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // A program that another test starts in this moment may hold the copy open for writing, until it is executed itself.
    let mut started = None;
    assert!(wait::until(PATIENCE, || {
        started = command.spawn().ok().map(Started);
        started.is_some()
    }));
    let mut server = started.expect("run");
    let supervisor = Pid::from_child(&server.0);
    let asks = || std::net::TcpStream::connect(address).is_ok();
    assert!(wait::until(PATIENCE, || asks() && !Running::children(supervisor).is_empty()));
    let pid_file = site.logs(Server::Fulmar).join("pid");
    let ours = || {
        fs::read_to_string(&pid_file).is_ok_and(|text| text.trim() == supervisor.as_raw_nonzero().to_string())
    };
    let log = || fs::read_to_string(site.logs(Server::Fulmar).join("error.log")).unwrap_or_default();
    for (turn, broken) in ["#!/bin/sh\nexit 1\n", "#!/nowhere\n"].into_iter().enumerate() {
        fs::rename(&program, site.prefix().join("before")).expect("rename");
        fs::write(&program, broken).expect("write");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        kill_process(supervisor, Signal::USR2).expect("signal");
        let tried = || log().matches("#0: changing binary").count() == turn + 1;
        let given_up = || tried() && ours() && !pid_file.with_extension("oldbin").exists();
        assert!(wait::until(PATIENCE, given_up), "{broken}: {}", log());
        assert_eq!(client::ask(address, "GET /\nConnection: close").last().text(), "ok", "{broken}");
        fs::rename(site.prefix().join("before"), &program).expect("rename");
    }
    kill_process(supervisor, Signal::QUIT).expect("signal");
    assert!(wait::until(PATIENCE, || server.0.try_wait().is_ok_and(|end| end.is_some())), "it does not stop");
}

/// Ends with the test, and its worker with it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn one_server() -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; return 200 ok; }} }}"
    )
}

/// M6: a tunnel is cut at the deadline of a graceful stop, and a download that ends before it is whole.
#[test]
fn m6_tunnels_and_downloads_at_the_end() {
    const SIZE: usize = 24 << 20;
    let reply = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start(move |_| raw(reply, After::Echo));
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let site = Site::whole(&format!(
        "daemon off; {user} worker_shutdown_timeout 3s; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; events {{ }}
         http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
             location /ws {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
                 proxy_set_header Connection upgrade; }} }} }}",
        origin.address()
    ))
    .file("large", vec![b'x'; SIZE]);
    let mut running = site.start(Server::Fulmar);
    let mut tunnel = running.connect();
    tunnel.extend(PATIENCE);
    tunnel.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.response("GET").expect("an answer").status, 101);
    let mut download = running.connect();
    download.extend(PATIENCE);
    download.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(download.read_some(1000) > 0);
    running.signal(Signal::QUIT);
    let response = download.response("GET").expect("the rest");
    assert_eq!((response.status, response.body.len(), response.broken), (200, SIZE, None));
    tunnel.send(b"still here");
    assert!(tunnel.closes_within(PATIENCE), "the tunnel has no end");
    assert!(running.ends_within(PATIENCE), "{}", running.all_logs());
}

/// M7: an upload, and an answer of another server, that began before a reload end as they would have.
#[test]
fn m7_uploads_over_reloads() {
    let origin = Origin::start(|asked| ok(asked.text.len().to_string()));
    let server = |said: &str| {
        format!(
            "server {{ listen 127.0.0.1:%%PORT%%; client_max_body_size 10m; location /made {{ return 200 {said}; }}
                 location / {{ proxy_pass http://{0}; }} location /streamed {{ proxy_pass http://{0}; proxy_request_buffering off; }} }}",
            origin.address()
        )
    };
    let running = Site::new(&server("0")).start(Server::Fulmar);
    let mut clients: Vec<_> = ["/", "/streamed"]
        .iter()
        .map(|path| {
            let mut client = running.connect();
            client.extend(Duration::from_secs(60));
            client.send(
                format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n").as_bytes(),
            );
            client
        })
        .collect();
    for turn in 1..=3 {
        for client in &mut clients {
            assert!(client.send(&[b'x'; 100_000]), "{turn}");
        }
        let said = turn.to_string();
        reload(&running, &server(&said), &said);
    }
    for client in &mut clients {
        let response = client.response("POST").expect("an answer");
        let length: usize = response.text().parse().expect("a length");
        assert!(response.status == 200 && length > 300_000, "{response}");
    }
    drop(clients);
    running.stop();
}

/// M8: while logs are rotated under load, each request has one line in one of the files, and no line is torn.
#[test]
fn m8_rotation_under_load() {
    for buffer in ["", " combined buffer=4k flush=1s"] {
        let http = format!(
            "access_log %%LOGS%%/access.log{buffer}; server {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 ok; }} }}"
        );
        let site = Site::new(&http);
        let running = site.start(Server::Fulmar);
        let logs = site.logs(Server::Fulmar);
        let load = Load::of_new_connections(running.address(), "/made", 2);
        for turn in 0..8 {
            wait::pause(Duration::from_millis(60));
            fs::rename(logs.join("access.log"), logs.join(format!("access.{turn}"))).expect("rename");
            running.signal(Signal::USR1);
            let reopened = wait::until(PATIENCE, || logs.join("access.log").exists());
            assert!(reopened, "{}", running.all_logs());
        }
        let tally = load.finish();
        assert!(tally.answered > 20 && tally.failed.is_empty(), "{:?}", tally.failed);
        let lines = running.stop_and(|running| {
            let names = (0..8).map(|turn| format!("access.{turn}")).chain(["access.log".to_owned()]);
            names.map(|name| running.log(&name)).collect::<String>()
        });
        let whole = |line: &&str| {
            line.starts_with("127.0.0.1 - - [") && line.contains("] \"GET /made HTTP/1.1\" 200 2 ")
        };
        assert_eq!(lines.lines().filter(whole).count(), tally.answered, "{buffer}");
        assert_eq!(lines.lines().count(), tally.answered, "{buffer}: torn lines");
    }
}

/// M13: a start with very many servers, each of which is found.
#[test]
fn m13_very_many_servers() {
    const COUNT: usize = 3_000;
    let servers: String = (0..COUNT)
        .map(|at| format!("server {{ listen 127.0.0.1:%%PORT%%; server_name n{at}.example *.w{at}.example; return 200 {at}; }}\n"))
        .collect();
    let running = Site::new(&servers).start(Server::Fulmar);
    for at in [0, 1, COUNT / 2, COUNT - 1] {
        for host in [format!("n{at}.example"), format!("a.b.w{at}.example")] {
            let answer = running.ask(&format!("GET /\nHost: {host}\nConnection: close"));
            assert_eq!(answer.last().text(), at.to_string(), "{host}");
        }
    }
    assert_eq!(running.ask("GET /\nHost: other\nConnection: close").last().text(), "0");
    running.stop();
}

/// M14: workers that drain do not pile up: each goes at its deadline, however often the configuration is read anew.
#[test]
fn m14_many_generations() {
    let whole = |said: usize| {
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        format!(
            "daemon off; {user} worker_shutdown_timeout 2s; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log;
             events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
                 location /made {{ return 200 {said}; }} }} }}"
        )
    };
    let site = Site::whole(&whole(0));
    let large = File::create(site.root().join("large")).expect("a file");
    large.set_len(256 << 20).expect("a length");
    let running = site.start(Server::Fulmar);
    let mut downloads = Vec::new();
    for turn in 1..=6 {
        let mut client = running.connect();
        client.extend(PATIENCE);
        client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.read_some(1000) > 0);
        downloads.push(client);
        reload(&running, &whole(turn), &turn.to_string());
    }
    let newest = Running::children(running.pid())
        .into_iter()
        .max_by_key(|pid| pid.as_raw_nonzero())
        .expect("a worker");
    let alone = wait::until(PATIENCE, || Running::children(running.pid()).len() == 1);
    assert!(alone, "{:?} are still there", Running::children(running.pid()));
    assert!(is_alive(newest) && worker::of(&running) == newest);
    drop(downloads);
    running.stop();
}
