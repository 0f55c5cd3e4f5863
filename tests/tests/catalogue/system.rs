//! What the system does not do, or not in time (rows L2, L8, L12, L16–L21).

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Signal, geteuid, kill_process};
use tests::binary::Server;
use tests::client::Client;
use tests::origin::{Origin, ok};
use tests::site::Site;
use tests::{parts, tls, wait, worker};

use super::surroundings::{Alone, Tracer, whole};

const PATIENCE: Duration = Duration::from_secs(20);

/// L2: the server does not wait for the reader of its standard error stream, a pipe that another process made blocking.
#[test]
fn l2_a_standard_error_stream_that_nobody_reads() {
    let site = Site::whole("");
    let configuration = whole("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; error_log stderr; }");
    let ports = site.write_configuration(Server::Fulmar, &configuration);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = Command::new("/usr/bin/env");
    command.current_dir(site.prefix()).stderr(writer);
    let Some(mut server) = Alone::run(command, &site, ports[&0]) else { panic!("it does not start") };
    let mut kept = Client::connect(server.address);
    kept.extend(PATIENCE);
    let long = "x".repeat(1_000);
    // Several times what a pipe holds.
    for at in 0..500 {
        assert_eq!(kept.exchange(&format!("GET /{at}/{long}")).expect("an answer").status, 404, "{at}");
    }
    let mut held = vec![0; 1 << 20];
    let count = reader.read(&mut held).expect("what the pipe held");
    assert!(String::from_utf8_lossy(&held[..count]).contains("[error]"));
    drop(kept);
    server.stop();
}

/// L8: a disk that does not answer keeps those waiting who asked for what is on it, and nobody else.
#[test]
fn l8_a_disk_that_hangs() {
    const LARGE: usize = 70_000;
    let http = "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made { return 200 ok; }
        location /copied/ { alias %%ROOT%%/; sendfile off; } }";
    let text = whole(http).replace("events", "worker_processes 1; events");
    let site = Site::whole(&text).file("large", vec![b'x'; LARGE]);
    let running = site.start(Server::Fulmar);
    let large = site.root().join("large").display().to_string();
    for path in ["/large", "/copied/large"] {
        // Nothing of the file is said to be in memory, and to read it takes longer than this test.
        let faults = ["inject=preadv2:error=EAGAIN", "inject=pread64:delay_enter=30000000"];
        let arguments = ["-P", &large, "-e", "trace=preadv2,pread64", "-e", faults[0], "-e", faults[1]];
        let Some(tracer) = Tracer::attach(worker::of(&running), &arguments) else { return };
        let mut slow = running.connect();
        slow.extend(PATIENCE);
        slow.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        for _ in 0..10 {
            assert_eq!(running.ask("GET /made\nConnection: close").statuses(), [200]);
        }
        assert!(!slow.closes_within(Duration::from_millis(100)), "{path}: nothing had to be waited for");
        tracer.leave();
        slow.extend(PATIENCE);
        let response = slow.response("GET").expect("the response after all");
        assert_eq!((response.status, response.body.len()), (200, LARGE), "{path}");
    }
    running.stop();
}

/// L12, L21: workers that end as soon as they start, because the system gives them no thread, are started again after
/// pauses that grow; when there are threads, one serves.
#[test]
fn l12_l21_workers_that_cannot_start() {
    if !geteuid().is_root() {
        return;
    }
    let text =
        "daemon off; user nobody nogroup; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log notice; events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; return 200 ok; } }";
    let mut running = Site::whole(text).start(Server::Fulmar);
    let (supervisor, process) = (running.pid(), worker::of(&running));
    let starts = || running.log("error.log").matches(": start worker process ").count();
    let before = starts();
    // The superuser's processes are not counted, those of a worker are.
    worker::limit(supervisor, Resource::Nproc, Some(1));
    let began = Instant::now();
    kill_process(process, Signal::KILL).expect("kill");
    assert!(wait::until(PATIENCE, || starts() >= before + 4), "{}", running.all_logs());
    // Pauses of 100, 200, 400 ms and so on. A worker that takes a second to fail begins them anew.
    let (most, now) = (5 + began.elapsed().as_secs() * 2, (starts() - before) as u64);
    assert!(now <= most, "{now} starts in {:?}", began.elapsed());
    running.wait_for_log("error.log", "the worker failed (11: Resource temporarily unavailable)");
    worker::limit(supervisor, Resource::Nproc, None);
    let serves = || {
        let answer = Client::try_connect(running.address()).ok();
        answer.and_then(|mut client| client.exchange("GET /")).is_some_and(|one| one.status == 200)
    };
    assert!(wait::until(PATIENCE, serves), "{}", running.all_logs());
    running.signal(Signal::QUIT);
    assert!(running.ends_within(PATIENCE));
    assert!(!running.all_logs().contains("panicked at"), "{}", running.all_logs());
}

/// L16: random numbers come from the system call, and no device has to be there.
#[test]
fn l16_no_device_for_random_numbers() {
    let is_there = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !parts::is_present("strace", is_there) {
        return;
    }
    let made = tls::certificate("a.example", tls::Kind::Ecdsa);
    let site = Site::whole("").in_prefix("c.pem", &made.pem).in_prefix("c.key", &made.key);
    let text = whole(
        "server { listen 127.0.0.1:%%PORT%% ssl; ssl_certificate %%DIR%%/c.pem; ssl_certificate_key %%DIR%%/c.key;
         location /id { return 200 $request_id; } }",
    );
    let ports = site.write_configuration(Server::Fulmar, &text);
    let trace = site.prefix().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=open,openat,getrandom", "-e", "signal=none", "-o"]).arg(&trace);
    command.current_dir(site.prefix()).stderr(Stdio::null());
    let Some(mut server) = Alone::below(command, &site, ports[&0]) else { panic!("it does not start") };
    let client = tls::Client::new(Some("a.example"));
    let answer = client.ask(server.address, "GET /id\nConnection: close").expect("an answer").answer;
    assert_eq!(answer.last().text().len(), 32);
    server.stop();
    let calls = fs::read_to_string(&trace).expect("calls");
    assert!(calls.contains("c.pem") && calls.contains("getrandom("), "nothing was traced");
    assert!(!calls.contains("/dev/urandom") && !calls.contains("/dev/random"), "a device is read");
}

/// L17: without a port for another connection to the server behind, 502, at once and again and again; when there is one,
/// all is well.
#[test]
fn l17_no_port_left() {
    let origin = Origin::start(|_| ok("origin"));
    let text = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://{}; }} }}",
        origin.address()
    );
    let running = Site::new(&text).start(Server::Fulmar);
    let process = worker::of(&running);
    let inject = ["-e", "trace=connect", "-e", "inject=connect:error=EADDRNOTAVAIL"];
    let Some(tracer) = Tracer::attach(process, &inject) else { return };
    let before = worker::ticks(process);
    for _ in 0..20 {
        assert_eq!(running.ask("GET /\nConnection: close").statuses(), [502]);
    }
    let spent = worker::ticks(process) - before;
    assert!(spent < 100, "{spent} hundredths of a second for 20 failures");
    running.wait_for_log("error.log", "(99: ");
    tracer.leave();
    assert!(wait::until(PATIENCE, || running.ask("GET /\nConnection: close").statuses() == [200]));
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// L18: a queue that is full loses nobody who waits: the system has them try again.
#[test]
fn l18_a_full_queue() {
    let running =
        Site::new("server { listen 127.0.0.1:%%PORT%% backlog=4; return 200 ok; }").start(Server::Fulmar);
    let (process, address) = (worker::of(&running), running.address());
    kill_process(process, Signal::STOP).expect("stop");
    let answered = std::thread::scope(|scope| {
        let ask = || {
            wait::until(PATIENCE, || {
                let Ok(mut client) = Client::try_connect(address) else { return false };
                client.extend(PATIENCE);
                client.exchange("GET /").is_some_and(|response| response.status == 200)
            })
        };
        let clients: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        // Each thread of the worker has a queue. What does not fit is not connected.
        let is_full = wait::until(PATIENCE, || longest_queue(address.port()) > 4);
        kill_process(process, Signal::CONT).expect("continue");
        assert!(is_full, "the queue has {} at most", longest_queue(address.port()));
        clients.into_iter().map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    assert_eq!(answered, [true; 40]);
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// How many connections to a port wait in the longest queue for being accepted.
fn longest_queue(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let listens =
        table.lines().filter(|line| line.contains(&format!(":{port:04X} ")) && line.contains(" 0A "));
    let queue =
        |line: &str| usize::from_str_radix(line.split_whitespace().nth(4)?.split(':').nth(1)?, 16).ok();
    listens.filter_map(queue).max().unwrap_or(0)
}

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// L21: where a worker that serves gets no other thread, its jobs wait for each other.
#[test]
fn l21_no_thread_left() {
    if !geteuid().is_root() {
        return;
    }
    // Nobody else's processes count for this user.
    let text = "daemon off; user bin bin; worker_processes 1; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; events { }
        http { access_log off; server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; htaccess on; } }";
    let names: Vec<String> = (0..30).map(|at| format!("{at}")).collect();
    let site = names.iter().fold(Site::whole(text), |site, name| {
        site.file(&format!("{name}/.htaccess"), "Header set X-From file\n").file(&format!("{name}/f"), name)
    });
    let mut running = site.start(Server::Fulmar);
    let before = worker::of(&running);
    worker::limit(running.pid(), Resource::Nproc, Some(20));
    kill_process(before, Signal::KILL).expect("kill");
    let process = worker::after(&running, before);
    let serves =
        || Client::try_connect(running.address()).is_ok_and(|mut client| client.exchange("GET /").is_some());
    assert!(wait::until(PATIENCE, serves), "{}", running.all_logs());
    // Now the same user has as many processes as it may have.
    let others = (0..20).map(|_| Command::new("sleep").arg("60").uid(2).gid(2).spawn().expect("sleep"));
    let others: Vec<_> = others.map(Ending).collect();
    let mut clients: Vec<_> = names.iter().map(|_| running.connect()).collect();
    for (client, name) in clients.iter_mut().zip(&names) {
        client.extend(PATIENCE);
        client.send(format!("GET /{name}/f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
    }
    for (client, name) in clients.iter_mut().zip(&names) {
        let response = client.response("GET").expect("an answer");
        assert_eq!((&response.text(), response.field("X-From")), (name, Some("file")));
    }
    assert_eq!(worker::of(&running), process, "{}", running.all_logs());
    drop((clients, others));
    running.signal(Signal::QUIT);
    assert!(running.ends_within(PATIENCE));
    assert!(!running.all_logs().contains("panicked at"), "{}", running.all_logs());
}
