//! Addresses, privileges, and the processes after them.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Signal, geteuid, kill_process};
use tests::binary::Server;
use tests::client;
use tests::site::{Running, Site};
use tests::wait;

#[test]
fn two_servers_on_one_port() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; return 200 "first"; }"#);
    let first = site.start(Server::Fulmar);
    let port = first.address().port();
    for listen in [format!("127.0.0.1:{port}"), format!("127.0.0.1:{port} reuseport")] {
        let second = Site::whole("");
        second.write_configuration(
            Server::Fulmar,
            &format!(
                "daemon off; pid %%LOGS%%/pid; events {{ }} http {{ access_log off; server {{ listen {listen}; return 200 second; }} }}"
            ),
        );
        let output = second.command(Server::Fulmar).output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("bind() to 127.0.0.1:{port} failed (98: Address")), "{text}");
        assert!(!second.logs(Server::Fulmar).join("pid").exists(), "the pid file is written");
    }
    assert_eq!(first.ask("GET /").last().text(), "first");
    first.stop();
}

#[test]
fn families_and_paths() {
    let site = Site::new(
        r#"
        server { listen 127.0.0.1:%%PORT%%; return 200 "four $server_addr $server_port $remote_addr"; }
        server { listen [::1]:%%PORT_1%%; return 200 "six $server_addr $remote_addr"; }
        server { listen unix:%%DIR%%/socket; return 200 "unix $server_addr $remote_addr"; }
        server { listen %%PORT_2%%; return 200 "any $server_addr"; }
        server { listen *:%%PORT_3%% backlog=64 reuseport; return 200 "reuse"; }
        "#,
    );
    let running = site.start(Server::Fulmar);
    let text = |address: SocketAddr| client::ask(address, "GET /\nConnection: close").last().text();
    let port = running.address().port();
    assert_eq!(text(running.address()), format!("four 127.0.0.1 {port} 127.0.0.1"));
    assert_eq!(text(format!("[::1]:{}", running.address_of(1).port()).parse().unwrap()), "six ::1 ::1");
    assert_eq!(text(running.address_of(2)), "any 127.0.0.1");
    assert_eq!(text(running.address_of(3)), "reuse");
    let path = site.prefix().join("socket");
    let mut stream = UnixStream::connect(&path).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answer");
    assert!(answer.ends_with(&format!("unix unix:{} unix:", path.display())), "{answer}");
    running.stop();
    assert!(!path.exists(), "the socket stays");
}

#[test]
fn a_killed_worker_is_replaced() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; }"#);
    let running = site.start(Server::Fulmar);
    assert!(
        wait::until(Duration::from_secs(5), || !Running::children(running.pid()).is_empty()),
        "no worker"
    );
    for _ in 0..2 {
        let worker = Running::children(running.pid())[0];
        kill_process(worker, Signal::KILL).expect("kill");
        let replaced = || Running::children(running.pid()).first().is_some_and(|&pid| pid != worker);
        assert!(wait::until(Duration::from_secs(5), replaced), "not replaced:\n{}", running.all_logs());
        assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
    }
    drop(running);
}

const UNPRIVILEGED: &str = r#"
    daemon off;
    pid %%LOGS%%/pid;
    error_log %%LOGS%%/error.log;
    events { }
    http { access_log off; server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; } }
"#;

/// The process that reads requests is not the one that may do everything.
#[test]
fn workers_are_unprivileged() {
    if !geteuid().is_root() {
        return;
    }
    let groups = fs::read_to_string("/etc/group").expect("groups");
    let group = if groups.lines().any(|line| line.starts_with("nogroup:")) { "nogroup" } else { "nobody" };
    let site = Site::whole(&format!("user nobody {group};{UNPRIVILEGED}"));
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /").statuses(), [200]);
    let workers = Running::children(running.pid());
    assert!(!workers.is_empty());
    for worker in workers {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("status");
        for name in ["Uid:", "Gid:"] {
            let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
            assert!(line.split_whitespace().skip(1).all(|id| id != "0"), "{line}");
        }
        let capabilities = status.lines().find(|line| line.starts_with("CapEff:")).expect("a line");
        assert!(capabilities.ends_with("0000000000000000"), "{capabilities}");
    }
    running.stop();
}

#[test]
fn without_a_supervisor() {
    let site = Site::whole(
        r#"
        daemon off;
        master_process off;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log;
        events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; } }
        "#,
    );
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /").statuses(), [200]);
    assert!(Running::children(running.pid()).is_empty());
    running.stop();
}
