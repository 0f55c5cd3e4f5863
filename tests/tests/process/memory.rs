//! What reloads leave in memory.

use std::fmt::Write;
use std::time::Duration;

use tests::binary::Server;
use tests::site::{Running, Site};
use tests::{wait, worker};

const SERVERS: usize = 2_000;
const RELOADS: usize = 4;

/// Reading and compiling takes a while on a busy machine, and memory is given back some time later.
const LIMIT: Duration = Duration::from_secs(30);

fn configuration(text: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let mut all = format!(
        "daemon off; {user} worker_processes 2; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log notice; events {{ }}\n\
         http {{ access_log off;\nserver {{ listen 127.0.0.1:%%PORT%%; location /made {{ return 200 {text}; }} }}\n"
    );
    for number in 0..SERVERS {
        writeln!(
            all,
            "server {{ listen 127.0.0.1:%%PORT%%; server_name s{number}.example www.s{number}.example; root %%ROOT%%; \
             location / {{ try_files $uri $uri/ =404; }} \
             location /static/ {{ expires 30d; add_header X-Site {number}; }} \
             location ~ \\.(png|jpg)$ {{ access_log off; }} }}"
        )
        .expect("text");
    }
    all + "}\n"
}

fn text(running: &Running) -> String {
    running.ask("GET /made\nConnection: close").last().text()
}

/// A worker that went over to other configurations has the memory of one that was just started.
#[test]
fn reloads_leave_no_memory_of_configurations_before() {
    let site = Site::whole(&configuration("0"));
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    assert_eq!(text(&running), "0");
    let fresh = worker::resident(process);
    for turn in 1..=RELOADS {
        let said = turn.to_string();
        running.rewrite(&configuration(&said));
        let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
        assert!(output.status.success() && text(&running) == said, "{output:?}");
        let small = || worker::resident(process) * 10 <= fresh * 13;
        let resident = wait::until(LIMIT, small);
        assert!(resident, "{} bytes after {turn} reloads, {fresh} before", worker::resident(process));
    }
    assert_eq!(worker::of(&running), process, "another worker serves");
    running.stop();
}
