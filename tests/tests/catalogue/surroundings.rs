//! Servers in surroundings that a test makes: traced, with their own environment and streams.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::site::{Running, Site};
use tests::{parts, wait};

const PATIENCE: Duration = Duration::from_secs(20);

/// `strace` on a running process, to have its system calls fail.
pub(crate) struct Tracer(Child);

impl Tracer {
    /// None where there is no strace, or it may not.
    pub(crate) fn attach(process: Pid, arguments: &[&str]) -> Option<Tracer> {
        let is_there = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
        if !parts::is_present("strace", is_there) {
            return None;
        }
        let mut child = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null"])
            .args(arguments)
            .args(["-p", &process.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace");
        let status = format!("/proc/{process}/status");
        let traced = || fs::read_to_string(&status).is_ok_and(|text| !text.contains("TracerPid:\t0\n"));
        let attached = wait::until(PATIENCE, || traced() || child.try_wait().is_ok_and(|end| end.is_some()));
        assert!(attached, "strace does not attach");
        traced().then_some(Tracer(child))
    }

    pub(crate) fn leave(self) {}
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let _ = self.0.wait();
    }
}

/// A server that was started in separate surroundings.
pub(super) struct Alone {
    child: Child,
    pub(super) pid: Pid,
    pub(super) address: std::net::SocketAddr,
}

impl Alone {
    pub(super) fn start(site: &Site, environment: &[(&str, &str)], streams: &str) -> Option<Alone> {
        let configuration = "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }";
        let ports = site.write_configuration(Server::Fulmar, &whole(configuration));
        let mut command = Command::new("/bin/sh");
        command.env_clear().current_dir(site.prefix());
        command.envs(environment.iter().copied()).arg("-c").arg(format!("exec \"$0\" \"$@\"{streams}"));
        Alone::run(command, site, ports[&0])
    }

    /// As [`Alone::run`], by a program that runs it as its child.
    pub(super) fn below(command: Command, site: &Site, port: u16) -> Option<Alone> {
        let mut alone = Alone::run(command, site, port)?;
        alone.pid = *Running::children(alone.pid).first()?;
        Some(alone)
    }

    pub(super) fn run(mut command: Command, site: &Site, port: u16) -> Option<Alone> {
        let plain = site.command(Server::Fulmar);
        command.arg(plain.get_program()).args(plain.get_args());
        command.stdin(Stdio::null());
        let child = command.spawn().expect("run");
        let pid = Pid::from_child(&child);
        let address = (std::net::Ipv4Addr::LOCALHOST, port).into();
        let alone = Alone { child, pid, address };
        let listens = || TcpStream::connect(address).is_ok() && !Running::children(pid).is_empty();
        wait::until(PATIENCE, listens).then_some(alone)
    }

    pub(super) fn stop(&mut self) {
        let _ = kill_process(self.pid, Signal::QUIT);
        let ended = wait::until(PATIENCE, || self.child.try_wait().is_ok_and(|end| end.is_some()));
        assert!(ended, "it does not stop");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole file around one server, without a user.
pub(super) fn whole(server: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; events {{ }}
         http {{ access_log %%LOGS%%/access.log; {server} }}"
    )
}
