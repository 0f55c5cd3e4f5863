//! The pid file: which process writes and removes it, and what `-s` says of the process in it.

use std::fs;
use std::process::{Child, Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::client::{self, Client};
use tests::site::{Running, Site, is_alive};
use tests::wait;

use super::signals::root_user;

const LIMIT: Duration = Duration::from_secs(10);

/// The second port is for another server.
const WHOLE: &str = r#"
    daemon off;
    pid %%LOGS%%/pid;
    error_log %%LOGS%%/error.log info;
    events { }
    http { access_log off; server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made { return 200 first; } } }
    # %%PORT_1%%
"#;

/// Another server's configuration on the second port, with a pid file of this name among the logs.
fn other(site: &Site, running: &Running, daemon: &str, pid: &str) -> String {
    let port = running.address_of(1).port();
    let logs = site.logs(Server::Fulmar).display().to_string();
    format!(
        "daemon {daemon}; pid {logs}/{pid}; error_log {logs}/other.log info; events {{ }} \
         http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 other; }} }}"
    )
}

/// A command on `other.conf` next to the configuration, which is written.
fn command(site: &Site, configuration: &str) -> Command {
    fs::write(site.prefix().join("other.conf"), configuration).expect("configuration");
    let mut command = Command::new(Server::Fulmar.path());
    command.current_dir(site.prefix()).arg("-p").arg(site.prefix()).args(["-c", "other.conf"]);
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends with the test, whatever becomes of it.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_stopped_supervisor_is_named() {
    let site = Site::whole(WHOLE);
    let running = site.start(Server::Fulmar);
    let pid = running.pid();
    running.signal(Signal::STOP);
    let ask = |name: &str| site.command(Server::Fulmar).args(["-s", name]).spawn().expect("run");
    let mut clients: Vec<Child> = ["reload", "reopen"].map(ask).into();
    let ended = wait::until(LIMIT * 2, || {
        clients.iter_mut().all(|client| client.try_wait().is_ok_and(|status| status.is_some()))
    });
    let reload = ended.then(|| site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run"));
    running.signal(Signal::CONT);
    assert!(ended, "a client waits for a stopped process");
    for mut client in clients {
        assert_eq!(client.wait().expect("status").code(), Some(1));
    }
    let reload = reload.expect("an output");
    let expected = format!("process {pid} is stopped (by SIGSTOP or a debugger) and does not answer");
    assert!(told(&reload).contains(&expected), "{reload:?}");
    assert!(told(&reload).contains(&format!("kill -CONT {pid}")), "{reload:?}");
    assert_eq!(reload.status.code(), Some(1));
    let reload = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
    assert!(reload.status.success(), "{reload:?}");
    running.stop();
}

#[test]
fn a_second_server_leaves_the_pid_file_of_the_first() {
    let site = Site::whole(WHOLE);
    let mut running = site.start(Server::Fulmar);
    let (pid, path) = (running.pid(), running.pid_path());
    let expected =
        format!("[emerg] \"{}\" is the pid file of process {pid}, a running Fulmar", path.display());
    for daemon in ["off", "on"] {
        let output = command(&site, &other(&site, &running, daemon, "pid")).output().expect("run");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(told(&output).contains(&expected), "daemon {daemon}: {output:?}");
        assert_eq!(running.pid(), pid);
        assert!(Client::try_connect(running.address_of(1)).is_err(), "the second server serves");
    }
    // A stopped process runs, too.
    running.signal(Signal::STOP);
    let output = command(&site, &other(&site, &running, "off", "pid")).output().expect("run");
    running.signal(Signal::CONT);
    assert!(output.status.code() == Some(1) && told(&output).contains(&expected), "{output:?}");
    let stop = site.command(Server::Fulmar).args(["-s", "stop"]).output().expect("run");
    assert!(stop.status.success() && running.ends_within(LIMIT), "{stop:?}");
    assert!(!path.exists(), "the pid file stays");
}

#[test]
fn a_reload_does_not_take_the_pid_file_of_another_server() {
    let site = Site::whole(WHOLE);
    let running = site.start(Server::Fulmar);
    let configuration = other(&site, &running, "off", "other.pid");
    let server = Guard(command(&site, &configuration).spawn().expect("run"));
    let written = site.logs(Server::Fulmar).join("other.pid");
    assert!(wait::until(LIMIT, || fs::read_to_string(&written).is_ok_and(|text| text.ends_with('\n'))));
    let before = fs::read_to_string(&written).expect("pid");
    running.rewrite(&WHOLE.replace("%%LOGS%%/pid", "%%LOGS%%/other.pid").replace("200 first", "200 second"));
    let pid = running.pid();
    kill_process(pid, Signal::HUP).expect("signal");
    running.wait_for_log("error.log", "is the pid file of process");
    assert_eq!(running.ask("GET /made\nConnection: close").last().text(), "first");
    assert_eq!((fs::read_to_string(&written).expect("pid"), running.pid()), (before, pid));
    drop(server);
    assert!(!written.exists(), "the other server's pid file stays");
    running.stop();
}

/// Numbers of processes are used again: by other programs, and by none.
#[test]
fn a_stale_pid_file_is_written_anew() {
    let other = Guard(Command::new("sleep").arg("60").spawn().expect("sleep"));
    for stale in [i32::MAX.to_string(), Pid::from_child(&other.0).to_string(), "no number".to_owned()] {
        let site = Site::whole(WHOLE);
        fs::create_dir_all(site.logs(Server::Fulmar)).expect("logs");
        fs::write(site.logs(Server::Fulmar).join("pid"), format!("{stale}\n")).expect("pid");
        let running = site.start(Server::Fulmar);
        let written = || fs::read_to_string(running.pid_path()).expect("pid");
        assert!(wait::until(LIMIT, || written().trim() != stale), "{stale} stays");
        assert!(is_alive(running.pid()) && written().trim() == running.pid().to_string());
        running.stop();
    }
}

/// As with nginx, the next server starts while the one before finishes its requests; its pid file stays.
#[test]
fn a_server_that_finishes_leaves_its_pid_file_to_the_next() {
    const SIZE: usize = 48 << 20;
    let site = Site::whole(&format!("{}{WHOLE}", root_user())).file("large", vec![b'x'; SIZE]);
    let first = site.start(Server::Fulmar);
    let mut client = first.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_some(1000) > 0);
    let pid = first.pid();
    first.signal(Signal::QUIT);
    assert!(wait::until(LIMIT, || Client::try_connect(first.address()).is_err()), "it still accepts");
    let next = Guard(site.command(Server::Fulmar).spawn().expect("run"));
    let taken = wait::until(LIMIT, || first.pid() == Pid::from_child(&next.0));
    assert!(taken && is_alive(pid), "{}", first.all_logs());
    client.extend(LIMIT * 2);
    assert_eq!(client.response("GET").expect("the rest").body.len(), SIZE);
    assert!(wait::until(LIMIT, || !is_alive(pid)), "{}", first.all_logs());
    assert_eq!(first.pid(), Pid::from_child(&next.0), "the pid file is gone");
    assert_eq!(client::ask(first.address(), "GET /made\nConnection: close").last().text(), "first");
}
