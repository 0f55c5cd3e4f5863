//! Logs: what is gathered is written whole and in time, syslog, JSON, and logs that cannot be written. What lines say
//! is compared with nginx in `differential::logs`.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Signal};
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::inflate::inflate;
use tests::log::mask_error;
use tests::site::{Running, Site};
use tests::wait;
use tests::worker;

const LIMIT: Duration = Duration::from_secs(20);

fn ask(running: &Running, target: &str) {
    let answer = running.ask(&format!("GET {target}\nConnection: close"));
    assert_eq!(answer.statuses(), [200], "{target}");
}

fn log_holds(running: &Running, name: &str, text: &str) -> bool {
    wait::until(LIMIT, || running.log(name) == text)
}

#[test]
fn the_first_line_waits_no_longer_than_it_may() {
    let site = Site::new(
        "log_format uri $uri;
        access_log %%LOGS%%/soon uri buffer=64k flush=100ms;
        access_log %%LOGS%%/late uri buffer=64k flush=1h;
        access_log %%LOGS%%/soon.gz uri gzip flush=100ms;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }",
    );
    let running = site.start(Server::Fulmar);
    for (target, text) in [("/a", "/a\n"), ("/b", "/a\n/b\n")] {
        ask(&running, target);
        assert!(log_holds(&running, "soon", text), "{:?}", running.log("soon"));
        let zipped = || inflate(&fs::read(site.logs(Server::Fulmar).join("soon.gz")).unwrap_or_default());
        assert!(wait::until(LIMIT, || zipped().is_some_and(|lines| lines == text.as_bytes())));
    }
    assert_eq!(running.log("late"), "");
    running.stop_and(|running| assert_eq!(running.log("late"), "/a\n/b\n", "at the end"));
}

/// A stop that does not wait for clients, and a server without a process for its worker.
#[test]
fn what_was_gathered_is_written_at_every_end() {
    for (master_process, signal) in [("on", Signal::TERM), ("off", Signal::QUIT), ("off", Signal::TERM)] {
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let site = Site::whole(&format!(
            "daemon off; master_process {master_process}; {user} pid %%LOGS%%/pid; error_log %%LOGS%%/error.log;
            events {{ }}
            http {{
                access_log %%LOGS%%/late combined buffer=64k;
                server {{ listen 127.0.0.1:%%PORT%%; return 200 ok; }}
            }}"
        ));
        let mut running = site.start(Server::Fulmar);
        ask(&running, "/");
        assert_eq!(running.log("late"), "");
        running.signal(signal);
        assert!(running.ends_within(LIMIT));
        assert_eq!(running.log("late").lines().count(), 1, "master_process {master_process}, {signal:?}");
    }
}

/// What a daemon says on its error stream follows the log when that is opened anew.
#[test]
fn last_words_follow_the_log() {
    let text = |name: &str| {
        format!(
            "daemon on; pid %%LOGS%%/pid; error_log %%LOGS%%/{name} notice; events {{ }}
            http {{ access_log off; server {{ listen 127.0.0.1:%%PORT%%; return 200 ok; }} }}"
        )
    };
    let running = Site::whole(&text("error.log")).start(Server::Fulmar);
    let pids = || [running.pid(), worker::of(&running)];
    let stream = |pid: Pid| fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
    let all_at = |name: &str| pids().into_iter().all(|pid| stream(pid).ends_with(name));
    assert!(wait::until(LIMIT, || all_at("logs-fulmar/error.log")), "{:?}", pids().map(stream));
    let log = stream(running.pid());
    fs::rename(&log, log.with_extension("old")).expect("rename");
    assert!(all_at("error.old"));
    running.signal(Signal::USR1);
    assert!(wait::until(LIMIT, || all_at("logs-fulmar/error.log")), "{:?}", pids().map(stream));
    running.rewrite(&text("other.log"));
    running.signal(Signal::HUP);
    assert!(wait::until(LIMIT, || all_at("other.log")), "{:?}", pids().map(stream));
    running.stop();
}

#[test]
fn who_is_too_slow_with_a_head_is_told_in_the_words_of_nginx() {
    let site = Site::new("client_header_timeout 100ms; server { listen 127.0.0.1:%%PORT%%; return 200; }");
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET / HT");
    let told =
        "client timed out (110: Connection timed out), client: 127.0.0.1, server: , request: \"GET / HT\"";
    running.wait_for_log("error.log", told);
}

/// A variable without a value is empty, and never has the value of an earlier request.
#[test]
fn fields_that_are_left_out_are_told() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 $http_x_y$http_z; }");
    let running = site.start(Server::Fulmar);
    let answer = running.ask("GET /\nX_Y: a\"b\nx.y:1\nZ: z");
    assert_eq!(answer.last().text(), "z");
    for line in ["X_Y: a\"b", "x.y:1"] {
        let text = format!(
            "client sent invalid header line: \"{line}\" while reading client request headers, client: "
        );
        running.wait_for_log("error.log", &text);
    }
    running.stop();
}

#[test]
fn a_head_that_never_came_has_nothing_of_the_one_before() {
    let site = Site::new(
        r#"
        log_format known "$status $server_protocol $request_method $http_x";
        access_log %%LOGS%%/heads known;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }
        "#,
    );
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        assert_eq!(running.ask_bytes(b"GET /a HTTP/1.0\r\nX: y\r\n\r\n").statuses(), [200]);
        running.connect().send(b"G");
        let told = "200 HTTP/1.0 GET y\n400 - - -\n";
        assert!(log_holds(&running, "heads", told), "{server:?}: {}", running.log("heads"));
    }
}

#[test]
fn a_full_buffer_is_written_in_whole_lines() {
    let site = Site::new(
        "log_format uri $uri;
        access_log %%LOGS%%/full uri buffer=100;
        server { listen 127.0.0.1:%%PORT%%; keepalive_requests 1000; return 200 ok; }",
    );
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    let targets: Vec<String> = (0..100).map(|number| format!("/{number:09}")).collect();
    for target in &targets {
        assert_eq!(client.exchange(&format!("GET {target}")).expect("an answer").status, 200);
    }
    let lines = targets.join("\n") + "\n";
    // Eleven bytes a line: nine lines go together, and what is last may still be gathered.
    let written = wait::until(LIMIT, || running.log("full").lines().count() >= 99);
    assert!(written && lines.starts_with(&running.log("full")), "{}", running.log("full"));
    let long = format!("/{}", "n".repeat(200));
    assert_eq!(client.exchange(&format!("GET {long}")).expect("an answer").status, 200);
    assert!(log_holds(&running, "full", &format!("{lines}{long}\n")), "a line that fits into no buffer");
    running.stop();
}

/// M8: while logs are rotated and the server is reloaded under load, each request has its line, and each line is whole.
#[test]
fn m8_rotation_loses_no_line() {
    const ROUNDS: usize = 6;
    let text = |settings: &str| {
        format!(
            "daemon off; worker_processes 2; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log notice; {} events {{ }}
            http {{
                log_format uri $uri;
                access_log %%LOGS%%/gathered uri buffer=1k flush=20ms;
                access_log %%LOGS%%/zipped.gz uri buffer=1k gzip;
                access_log %%LOGS%%/plain uri {settings};
                server {{ listen 127.0.0.1:%%PORT%%; keepalive_requests 100; return 200 ok; }}
            }}",
            if rustix::process::geteuid().is_root() { "user root;" } else { "" }
        )
    };
    let site = Site::whole(&text(""));
    let running = site.start(Server::Fulmar);
    let logs = site.logs(Server::Fulmar);
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let answered = thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(|| requests(&running, &stop, &next))).collect();
        for round in 0..ROUNDS {
            let served = next.load(Ordering::Relaxed);
            assert!(wait::until(LIMIT, || next.load(Ordering::Relaxed) > served + 100), "no requests");
            for name in ["gathered", "zipped.gz", "plain"] {
                fs::rename(logs.join(name), logs.join(format!("{round}-{name}"))).expect("rename");
            }
            running.signal(Signal::USR1);
            assert!(wait::until(LIMIT, || logs.join("plain").exists()), "{}", running.all_logs());
            if round % 2 == 1 {
                let log = running.log("error.log").matches("reconfiguring").count();
                running.rewrite(&text("if=1"));
                running.signal(Signal::HUP);
                let begun = || running.log("error.log").matches("reconfiguring").count() > log;
                assert!(wait::until(LIMIT, begun), "{}", running.all_logs());
            }
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    running.stop();
    assert!(answered.len() > ROUNDS * 50);
    for name in ["gathered", "zipped.gz", "plain"] {
        let rounds = (0..ROUNDS).map(|round| format!("{round}-{name}")).chain([name.to_owned()]);
        let lines: Vec<String> =
            rounds.flat_map(|name| lines_of(&fs::read(logs.join(name)).unwrap())).collect();
        let different: BTreeSet<&String> = lines.iter().collect();
        assert_eq!(different.len(), lines.len(), "{name}: a request was logged twice");
        let missing = answered.iter().filter(|target| !different.contains(target)).count();
        assert_eq!(missing, 0, "{name} lacks lines");
        assert!(lines.iter().all(|line| line.len() == "/000000000".len()), "{name} has torn lines");
    }
}

/// Asks until it is stopped; the targets that were answered. Connections may end between two requests.
fn requests(running: &Running, stop: &AtomicBool, next: &AtomicU64) -> Vec<String> {
    let mut answered = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(running.address());
        while !stop.load(Ordering::Relaxed) {
            let target = format!("/{:09}", next.fetch_add(1, Ordering::Relaxed));
            match client.exchange(&format!("GET {target}")) {
                Some(answer) if answer.status == 200 => answered.push(target),
                _ => break,
            }
        }
    }
    answered
}

fn lines_of(bytes: &[u8]) -> Vec<String> {
    let text =
        if bytes.starts_with(b"\x1f\x8b") { inflate(bytes).expect("whole members") } else { bytes.to_vec() };
    assert!(text.is_empty() || text.ends_with(b"\n"));
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// L1: lines that were gathered for a full device are lost, and told of once.
#[test]
fn l1_a_full_device_behind_buffers() {
    let site = Site::new(
        "access_log /dev/full combined buffer=200 flush=10ms;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }",
    );
    let mut running = site.start(Server::Fulmar);
    for _ in 0..50 {
        ask(&running, "/");
    }
    running.wait_for_log("error.log", "write() to \"/dev/full\" failed (28: No space left on device)");
    running.signal(Signal::QUIT);
    assert!(running.ends_within(LIMIT));
    // One a minute, and a machine may be slow.
    let told = running.log("error.log").matches("[alert]").count();
    assert!((1..=3).contains(&told), "{}", running.log("error.log"));
}

/// L1: what a full disk cut off is taken back, so that a compressed log is readable to its end.
#[test]
fn l1_no_room_for_a_compressed_log() {
    let site = Site::new(
        "access_log %%LOGS%%/log.gz combined gzip=1 buffer=1k flush=10ms;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }",
    );
    let mut running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    let path = site.logs(Server::Fulmar).join("log.gz");
    let length = || fs::metadata(&path).expect("a log").len();
    for (limit, name) in [(Some(1_500), "early"), (None, "late")] {
        worker::limit(process, Resource::Fsize, limit);
        let is_done = || {
            (0..30).for_each(|at| ask(&running, &format!("/{name}{at}{}", request_noise(at))));
            running.log("error.log").contains("write() to ") && (limit.is_some() || length() > 2_000)
        };
        assert!(wait::until(LIMIT, is_done), "{} bytes\n{}", length(), running.all_logs());
    }
    running.signal(Signal::QUIT);
    assert!(running.ends_within(LIMIT));
    let text = inflate(&fs::read(&path).expect("a log")).expect("whole members");
    let text = String::from_utf8(text).expect("lines");
    // The first of the late ones may have been gathered with early ones, and lost with them.
    assert!(text.contains("/early0") && text.contains("/late29"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("127.0.0.1 - ") && line.ends_with('"')), "{text}");
}

/// L1: a line that a full disk cut off is not joined to one of the next configuration, or of another process.
#[test]
fn l1_no_room_and_a_reload() {
    for reload in ["reload_connections keep;", "worker_priority 1;"] {
        let text = "USER daemon off; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info; RELOAD
            events { }
            http {
                access_log %%LOGS%%/plain combined; access_log %%LOGS%%/gathered combined buffer=1k flush=10ms;
                server { listen 127.0.0.1:%%PORT%%; return 200 ok; }
            }";
        let text = text.replace("USER", if rustix::process::geteuid().is_root() { "user root;" } else { "" });
        let site = Site::whole(&text.replace("RELOAD", ""));
        let mut running = site.start(Server::Fulmar);
        // A prime number: no log can hold whole lines only.
        worker::limit(worker::of(&running), Resource::Fsize, Some(1_999));
        let names = ["plain", "gathered"];
        let is_full = || {
            ask(&running, "/early");
            names.iter().all(|name| running.log("error.log").contains(&format!("{name}\" failed (27: ")))
        };
        assert!(wait::until(LIMIT, is_full), "{}", running.all_logs());
        running.rewrite(&text.replace("RELOAD", reload));
        let told = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
        assert!(told.status.success(), "{told:?} {}", running.all_logs());
        worker::limit(worker::of(&running), Resource::Fsize, None);
        let is_written = || {
            ask(&running, "/late");
            names.iter().all(|name| running.log(name).contains("/late"))
        };
        assert!(wait::until(LIMIT, is_written), "{}", running.all_logs());
        running.signal(Signal::QUIT);
        assert!(running.ends_within(LIMIT), "{}", running.all_logs());
        for name in names {
            let log = running.log(name);
            let is_line = |line: &str| line.rfind("127.0.0.1 - ") == Some(0) && line.ends_with("\"-\" \"-\"");
            assert!(log.ends_with('\n') && log.lines().all(is_line), "{reload} {name}: {log}");
        }
    }
}

/// What does not compress well.
fn request_noise(seed: u64) -> String {
    let mut value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let digit = |_| {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        format!("{:x}", value & 0xf)
    };
    (0..60).map(digit).collect()
}

/// L1: messages that cannot be written are reported where they can.
#[test]
fn l1_a_full_device_under_the_error_log() {
    let site = Site::whole(
        "daemon off; pid %%LOGS%%/pid; error_log /dev/full info; events { }
        http { access_log %%LOGS%%/access.log; server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; } }",
    );
    let mut running = site.start(Server::Fulmar);
    for _ in 0..20 {
        assert_eq!(running.ask("GET /none\nConnection: close").statuses(), [404]);
    }
    running.signal(Signal::QUIT);
    assert!(running.ends_within(LIMIT));
    let console = running.log("console");
    let told = console.matches("write() to \"/dev/full\" failed (28: No space left on device)").count();
    // The supervisor and the worker each have one a minute.
    assert!((1..=6).contains(&told), "{console}");
    assert_eq!(running.log("access.log").lines().count(), 20);
}

/// L2: a log that cannot be opened anew stays what it was, and the requester gets the reason.
#[test]
fn l2_a_log_that_cannot_be_opened_anew() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let running = site.start(Server::Fulmar);
    let logs = site.logs(Server::Fulmar);
    ask(&running, "/before");
    fs::rename(logs.join("access.log"), logs.join("access.old")).expect("rename");
    fs::create_dir(logs.join("access.log")).expect("a directory in its place");
    running.signal(Signal::USR1);
    running.wait_for_log("error.log", "access.log\" failed (21: Is a directory)");
    ask(&running, "/after");
    assert!(wait::until(LIMIT, || running.log("access.old").contains("/after")), "{}", running.all_logs());
    running.stop();
}

/// L2: a syslog server that is not there holds nobody up, and is used when it comes.
#[test]
fn l2_syslog_that_comes_and_goes() {
    let site = Site::new(
        "log_format uri $uri;
        access_log syslog:server=unix:%%DIR%%/log,nohostname uri;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }",
    );
    let running = site.start(Server::Fulmar);
    for _ in 0..20 {
        ask(&running, "/lost");
    }
    let log = running.log("error.log");
    assert!((1..=3).contains(&log.matches("send() to syslog").count()), "{log}");
    assert!(log.contains("failed (2: No such file or directory) while logging request, client: "), "{log}");
    let path = site.prefix().join("log");
    for target in ["/first", "/second"] {
        let server = UnixDatagram::bind(&path).expect("a socket");
        ask(&running, target);
        assert!(receive(&server).ends_with(&format!(" nginx: {target}")));
        drop(server);
        fs::remove_file(&path).expect("its path");
    }
    let server = UnixDatagram::bind(&path).expect("a socket");
    // Nobody reads: its queue is full, and what does not fit is lost.
    let mut client = running.connect();
    for _ in 0..900 {
        assert_eq!(client.exchange("GET /x").expect("an answer").status, 200);
    }
    assert!(receive(&server).ends_with("nginx: /x"));
    running.stop();
}

fn receive(server: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    server.set_read_timeout(Some(LIMIT)).expect("a limit");
    let length = server.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The messages of both servers, apart from what names the moment and the process.
#[test]
fn syslog_messages_are_those_of_nginx() {
    let said = [Server::Nginx, Server::Fulmar].map(|server| {
        if server == Server::Nginx && !have_nginx() {
            return None;
        }
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_read_timeout(Some(LIMIT)).expect("a limit");
        let to = format!("syslog:server={}", receiver.local_addr().expect("an address"));
        let site = Site::new(&format!(
            "log_format uri '$uri:$status';
            server {{
                listen 127.0.0.1:%%PORT%%;
                root %%ROOT%%;
                location = /plain {{ access_log {to} uri; return 200 ok; }}
                location = /all {{
                    access_log {to},facility=local3,severity=debug,tag=A_1,nohostname uri;
                    return 200 ok;
                }}
                location = /both {{ access_log {to} uri; access_log {to},tag=other uri; return 200 ok; }}
                location = /if {{ access_log {to} uri if=$arg_x; return 200 ok; }}
                location /missing {{ error_log {to},facility=user,severity=debug,tag=errors; }}
            }}"
        ));
        let running = site.start(server);
        let mut messages = Vec::new();
        for (target, count) in
            [("/plain", 1), ("/all", 1), ("/both", 2), ("/if", 0), ("/if?x=1", 1), ("/missing", 1)]
        {
            running.ask(&format!("GET {target}\nConnection: close"));
            for _ in 0..count {
                let mut bytes = [0; 4096];
                let length = receiver.recv(&mut bytes).expect("a message");
                messages.push(without_moment(&String::from_utf8_lossy(&bytes[..length]), &running, &site));
            }
        }
        running.stop();
        Some(messages)
    });
    let [nginx, Some(fulmar)] = said else { panic!("no messages") };
    assert!(fulmar[0].ends_with("nginx: /plain:200"), "{fulmar:?}");
    if let Some(nginx) = nginx {
        assert_eq!(nginx, fulmar);
    }
}

fn without_moment(message: &str, running: &Running, site: &Site) -> String {
    let (priority, rest) = message.split_once('>').expect("a priority");
    let (moment, rest) = rest.split_at("Nov  1 20:05:56".len());
    let shape: String = moment.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert!(shape[3..].replace("  ", " 0") == " 00 00:00:00", "{message}");
    let rest = match rest.split_once(": ") {
        Some((tag, text)) => format!("{tag}: {}", mask_error(text).unwrap_or_else(|| text.to_owned())),
        None => rest.to_owned(),
    };
    let rest = rest.replace(&running.address().port().to_string(), "PORT");
    format!("{priority}>{}", rest.replace(&site.prefix().display().to_string(), "PREFIX"))
}

#[test]
fn logs_in_json_are_objects() {
    let site = Site::new(
        "access_log %%LOGS%%/access.json json;
        server {
            listen 127.0.0.1:%%PORT%%;
            error_log %%LOGS%%/error.json info format=json;
            root %%ROOT%%;
            location = /made { return 200 ok; }
        }",
    );
    let running = site.start(Server::Fulmar);
    running.ask("GET /made?q=\"\\\nUser-Agent: caf\u{e9}\nConnection: close");
    running.ask_bytes(b"\x01\xff garbage\r\n");
    running.ask("GET /none\nReferer: http://a/\nConnection: close");
    running.stop_and(|running| {
        let objects = |name: &str| -> Vec<serde_json::Value> {
            let parse =
                |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            running.log(name).lines().map(parse).collect()
        };
        let access = objects("access.json");
        assert_eq!(access.len(), 3, "{access:?}");
        assert_eq!(access[0]["request_uri"], "/made?q=\"\\");
        assert_eq!(access[0]["http_user_agent"], "caf\u{e9}");
        assert_eq!((&access[0]["status"], &access[0]["body_bytes_sent"]), (&200.into(), &2.into()));
        assert!(access[0]["request_time"].is_f64() && access[0].get("remote_user").is_none());
        assert_eq!(access[1]["status"], 400);
        assert!(
            access[1]["request"].as_str().is_some_and(|text| text.ends_with(" garbage")),
            "{}",
            access[1]
        );
        let errors = objects("error.json");
        let failed = errors.iter().find(|object| object["level"] == "error").expect("a message");
        assert_eq!(
            (&failed["client"], &failed["request"]),
            (&"127.0.0.1".into(), &"GET /none HTTP/1.1".into())
        );
        assert_eq!(failed["referrer"], "http://a/");
        assert!(failed["message"].as_str().is_some_and(|text| text.starts_with("open() ")), "{failed}");
    });
}

/// Whether a worker has a file of this name open.
fn is_open(running: &Running, path: &Path) -> bool {
    let files =
        |pid: Pid| fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).into_iter().flatten().flatten();
    let mut workers = Running::children(running.pid()).into_iter();
    workers.any(|pid| files(pid).any(|file| fs::read_link(file.path()).is_ok_and(|target| target == path)))
}

/// What is still served by an earlier configuration, or by a server that stops, follows the rotation, too.
#[test]
fn the_last_requests_follow_a_rotation() {
    const SIZE: usize = 32 << 20;
    let configuration = |text: &str| {
        format!(
            "log_format uri $uri; access_log %%LOGS%%/access.log uri;
            server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made {{ return 200 {text}; }} }}"
        )
    };
    let site = Site::new(&configuration("one")).file("large", vec![b'x'; SIZE]);
    let mut running = site.start(Server::Fulmar);
    let start = || {
        let mut client = running.connect();
        client.extend(3 * LIMIT);
        client.send(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.read_some(1000) > 0);
        client
    };
    let rotate = |name: &str| {
        let (log, rotated) =
            (site.logs(Server::Fulmar).join("access.log"), site.logs(Server::Fulmar).join(name));
        fs::rename(&log, &rotated).expect("rename");
        assert!(is_open(&running, &rotated));
        running.signal(Signal::USR1);
        assert!(
            wait::until(LIMIT, || log.exists() && !is_open(&running, &rotated)),
            "{}",
            running.all_logs()
        );
    };
    let mut client = start();
    running.rewrite(&configuration("two"));
    running.signal(Signal::HUP);
    let is_new = || running.ask("GET /made\nConnection: close").last().text() == "two";
    assert!(wait::until(LIMIT, is_new), "{}", running.all_logs());
    rotate("first");
    assert_eq!(client.response("GET").expect("the rest").body.len(), SIZE);
    assert!(wait::until(LIMIT, || running.log("access.log").contains("/large")), "{}", running.all_logs());

    let mut client = start();
    running.signal(Signal::QUIT);
    assert!(wait::until(LIMIT, || Client::try_connect(running.address()).is_err()));
    rotate("second");
    assert_eq!(client.response("GET").expect("the rest").body.len(), SIZE);
    assert!(running.ends_within(LIMIT));
    assert_eq!(running.log("access.log"), "/large\n");
}
