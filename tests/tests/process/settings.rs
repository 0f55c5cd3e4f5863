//! What the configuration says of the worker's process, as the kernel shows it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid};
use rustix::thread::sched_getaffinity;
use tests::binary::Server;
use tests::site::{Running, Site};
use tests::wait;

const REST: &str = r#"
    daemon off;
    pid %%LOGS%%/pid;
    error_log %%LOGS%%/error.log info;
    events { }
    http {
        log_format time '$time_local';
        access_log %%LOGS%%/access.log time;
        server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; }
    }
"#;

fn start(settings: &str) -> Running {
    let user = if geteuid().is_root() { "user root;" } else { "" };
    Site::whole(&format!("{user}\n{settings}\n{REST}")).start(Server::Fulmar)
}

fn worker(running: &Running) -> Pid {
    let mut workers = Vec::new();
    assert!(wait::until(Duration::from_secs(5), || {
        workers = Running::children(running.pid());
        !workers.is_empty()
    }));
    assert_eq!(running.ask("GET /\nConnection: close").statuses(), [200]);
    workers[0]
}

fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("processors");
    (0..1024).filter(|&number| allowed.is_set(number)).collect()
}

/// Which processors may run the threads that serve, in the order of their names.
fn of_threads(worker: Pid) -> Vec<String> {
    let mut found: Vec<(String, String)> = fs::read_dir(format!("/proc/{worker}/task"))
        .expect("threads")
        .filter_map(|thread| {
            let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let name = value("Name:")?.to_owned();
            name.starts_with("serve-").then(|| Some((name, value("Cpus_allowed_list:")?.to_owned())))?
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, processors)| processors).collect()
}

#[test]
fn threads_stay_on_their_processors() {
    let all = processors();
    let (first, last) = (all[0], all[all.len() - 1]);
    let running = start("worker_processes 3; worker_cpu_affinity auto;");
    let expected: Vec<String> = (0..3).map(|index| all[index % all.len()].to_string()).collect();
    // The port is open before the threads are there.
    let are_there = || of_threads(worker(&running)) == expected;
    assert!(wait::until(Duration::from_secs(10), are_there), "{:?}", of_threads(worker(&running)));
    running.stop();
    let mask = |number: usize| format!("1{}", "0".repeat(number));
    let masks = format!("worker_processes 2; worker_cpu_affinity {} {};", mask(last), mask(first));
    let running = start(&masks);
    let are_there = || of_threads(worker(&running)) == [last.to_string(), first.to_string()];
    assert!(wait::until(Duration::from_secs(10), are_there), "{:?}", of_threads(worker(&running)));
    running.stop();
}

#[test]
fn priority_core_files_and_directory() {
    if !geteuid().is_root() {
        return;
    }
    let niceness = |pid: Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let after_name = stat.rsplit(") ").next().expect("fields").to_owned();
        after_name.split(' ').nth(16).expect("niceness").parse::<i32>().expect("a number")
    };
    let own = niceness(rustix::process::getpid());
    let lower = own + 1;
    let site = Site::whole(&format!(
        "user root; worker_priority {lower}; worker_rlimit_core 5k; working_directory %%DIR%%/html; {REST}"
    ));
    let running = site.start(Server::Fulmar);
    let worker = worker(&running);
    // In a container it may not be raised back, so the supervisor's is left alone.
    assert_eq!((niceness(worker), niceness(running.pid())), (lower, own));
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).expect("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a line");
    assert_eq!(core.split_whitespace().nth(4), Some("5120"), "{core}");
    assert_eq!(fs::read_link(format!("/proc/{worker}/cwd")).expect("cwd"), site.root());
    running.stop();
}

/// A process that may leave a core file belongs to its user; one that may not, to root.
#[test]
fn only_a_worker_that_may_leave_a_core_file_can_be_looked_into() {
    use std::os::unix::fs::MetadataExt;
    if !geteuid().is_root() {
        return;
    }
    let groups = fs::read_to_string("/etc/group").expect("groups");
    let group = if groups.lines().any(|line| line.starts_with("nogroup:")) { "nogroup" } else { "nobody" };
    for (settings, is_root_s) in [("", true), ("worker_rlimit_core 1m;", false)] {
        let site = Site::whole(&format!("user nobody {group}; {settings} {REST}"));
        let running = site.start(Server::Fulmar);
        let owner = fs::metadata(format!("/proc/{}/mem", worker(&running))).expect("memory").uid();
        assert_eq!(owner == 0, is_root_s, "{settings}");
        running.stop();
    }
}

/// Everything about the connections of some clients is logged, whatever the level, but no secret.
#[test]
fn some_clients_are_looked_at() {
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let site = Site::whole(&format!(
        r#"
        daemon off; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log alert;
        events {{ debug_connection unix:; }}
        http {{
            access_log off;
            server {{
                listen 127.0.0.1:%%PORT%%;
                listen unix:%%DIR%%/socket;
                location /here/ {{ return 204; }}
            }}
        }}
        "#
    ));
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /here/first\nConnection: close").statuses(), [204]);
    let mut stream = UnixStream::connect(site.prefix().join("socket")).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let request = "GET /here/second HTTP/1.0\r\nX-Tell: 1\r\nCookie: hidden\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answer");
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    running.wait_for_log("error.log", "answered with 204");
    running.stop_and(|running| {
        let log = running.log("error.log");
        assert!(log.contains("[debug]") && log.contains("; X-Tell: 1; Cookie: …"), "{log}");
        assert!(log.contains("location \"/here/\" for \"/here/second\""), "{log}");
        assert!(!log.contains("first") && !log.contains("hidden"), "{log}");
    });
}

#[test]
fn the_environment_is_what_is_written() {
    // By name, where the system knows names.
    let named = Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists();
    let zone = if named { "Asia/Tokyo" } else { "JST-9" };
    let running = start(&format!("env TZ={zone}; env FIRST=1; env HOME;"));
    let written = |pid: Pid| fs::read_to_string(format!("/proc/{pid}/environ")).expect("environment");
    let before = running.pid();
    assert!(written(before).contains("PATH="));
    worker(&running);
    running.wait_for_log("access.log", "+0900");
    running.signal(Signal::USR2);
    let upgraded = || running.pid() != before && !Running::children(running.pid()).is_empty();
    assert!(wait::until(Duration::from_secs(10), upgraded), "{}", running.all_logs());
    let text = written(running.pid());
    let mut names: Vec<&str> =
        text.split_terminator('\0').filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    let home = std::env::var_os("HOME").map(|_| "HOME");
    let expected: Vec<&str> = ["FIRST", "FULMAR_FDS"].into_iter().chain(home).chain(["PATH", "TZ"]).collect();
    assert_eq!(names, expected);
    drop(running);
}
