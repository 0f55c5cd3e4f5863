//! Datagrams that are passed on (`listen … udp` in `stream`), compared with nginx.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::binary::{Server, have_nginx};
use tests::parts;
use tests::site::{Running, START, Site};
use tests::wait;

/// No wait for something that comes takes longer, whatever else the machine does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A wait for something that must not come.
const SILENCE: Duration = Duration::from_millis(400);

/// The `%%PORT%%` of a site is of TCP, so that its start can be seen.
pub(crate) const READY: &str = "server { listen 127.0.0.1:%%PORT%%; return ready; access_log off; }";

fn site(servers: &str) -> Site {
    Site::whole(&format!("{START} stream {{ {READY} {servers} }}"))
}

pub(crate) fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A server that sends `answers` datagrams for each one that it gets: the port of its client and the payload.
pub(crate) fn answering(answers: usize) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = vec![0; 70_000];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            let told = [format!("{}:", from.port()).as_bytes(), &room[..count]].concat();
            for _ in 0..answers {
                let _ = socket.send_to(&told, from);
            }
        }
    });
    address
}

/// A server that returns each datagram as it is.
pub(crate) fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = vec![0; 70_000];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..count], from);
        }
    });
    address
}

/// A client of one port.
pub(crate) struct Client(UdpSocket);

impl Client {
    pub(crate) fn of(running: &Running, port: usize) -> Client {
        Client::at(running.address_of(port))
    }

    pub(crate) fn at(address: SocketAddr) -> Client {
        let client = bind();
        client.connect(address).unwrap();
        Client(client)
    }

    pub(crate) fn send(&self, payload: impl AsRef<[u8]>) {
        self.0.send(payload.as_ref()).unwrap();
    }

    pub(crate) fn receive(&self) -> Vec<u8> {
        self.received(PATIENCE).expect("no datagram came")
    }

    pub(crate) fn received(&self, limit: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(limit)).unwrap();
        let mut room = vec![0; 70_000];
        match self.0.recv(&mut room) {
            Ok(count) => Some(room[..count].to_vec()),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn ask(&self, payload: &str) -> String {
        self.send(payload);
        String::from_utf8(self.receive()).unwrap()
    }

    /// The port from which the server was asked (see [`answering`]).
    pub(crate) fn port(&self, payload: &str) -> u16 {
        self.ask(payload).split_once(':').unwrap().0.parse().unwrap()
    }
}

const SERVERS: &str = r#"
    log_format sessions "$server_port|$protocol|$status|$bytes_received|$bytes_sent|$upstream_bytes_sent|$upstream_bytes_received|$limit_conn_status";
    access_log %%LOGS%%/sessions.log sessions;
    limit_conn_zone $binary_remote_addr zone=clients:1m;
    proxy_timeout 700ms;
    server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_responses 1; }
    server { listen 127.0.0.1:%%PORT_2%% udp; proxy_pass SILENT; proxy_responses 0; }
    server { listen 127.0.0.1:%%PORT_3%% udp; proxy_pass SILENT; proxy_responses 1; }
    server { listen 127.0.0.1:%%PORT_4%% udp; deny 127.0.0.1; allow all; proxy_pass BACK; }
    server { listen 127.0.0.1:%%PORT_5%% udp; return "$protocol $remote_addr $server_addr"; }
    server { listen 127.0.0.1:%%PORT_6%% udp; return ""; }
    server { listen 127.0.0.1:%%PORT_7%% udp; proxy_pass BACK; proxy_responses 1; proxy_protocol on; }
    server { listen 127.0.0.1:%%PORT_8%% udp; pass 127.0.0.1:%%PORT_5%%; }
    server { listen 127.0.0.1:%%PORT_9%% udp; limit_conn clients 1; proxy_pass BACK; }
    server { listen 127.0.0.1:%%PORT_10%% udp; proxy_pass SILENT; }
    server { listen 127.0.0.1:%%PORT_11%% udp; proxy_ssl on; ssl_preread on; proxy_pass BACK; proxy_responses 1; }
    server { listen 127.0.0.1:%%PORT_12%% udp; proxy_pass TWICE; proxy_requests 2; proxy_responses 2; }
"#;

/// All sessions: what their clients get, and the lines of the log, in the order of the ports.
fn sessions(server: Server) -> (Vec<String>, Vec<String>) {
    let silent = bind();
    let servers = SERVERS
        .replace("BACK", &echo().to_string())
        .replace("TWICE", &answering(2).to_string())
        .replace("SILENT", &silent.local_addr().unwrap().to_string());
    let running = site(&servers).start(server);
    let mut told = Vec::new();
    let clients: Vec<Client> = (1..=12).map(|port| Client::of(&running, port)).collect();
    let mut tell = |port: usize, answer: Option<Vec<u8>>| {
        let text = answer.map_or("-".to_owned(), |bytes| String::from_utf8(bytes).unwrap());
        let own = clients[port - 1].0.local_addr().unwrap().port().to_string();
        let address = running.address_of(port).port().to_string();
        told.push(format!("{port}: {}", text.replace(&own, "OWN").replace(&address, "PORT")));
    };
    for port in [1, 5, 7, 9, 11] {
        clients[port - 1].send("question");
        tell(port, Some(clients[port - 1].receive()));
    }
    // The session of port 9 goes on, and another client has none.
    clients[8].send("again");
    tell(9, Some(clients[8].receive()));
    let other = Client::of(&running, 9);
    other.send("another");
    tell(9, other.received(SILENCE));
    for port in [2, 3, 4, 6, 8, 10] {
        clients[port - 1].send("question");
        tell(port, clients[port - 1].received(SILENCE));
    }
    for _ in 0..3 {
        clients[11].send("x");
    }
    let answers: Vec<Vec<u8>> = (0..6).map(|_| clients[11].receive()).collect();
    let same = |one: usize, other: usize| answers[one] == answers[other];
    told.push(format!("12: {} {} {}", same(0, 1), same(0, 3), same(0, 5)));
    // Sessions that wait for something end by their time.
    let ended = wait::until(PATIENCE, || running.log("sessions.log").lines().count() == 14);
    assert!(ended, "{}", running.log("sessions.log"));
    let ports: Vec<(usize, u16)> = running.ports().collect();
    let log = running.stop_and(|running| running.log("sessions.log"));
    let line = |line: &str| {
        let (port, rest) = line.split_once('|').unwrap();
        let (index, _) = ports.iter().find(|(_, known)| known.to_string() == port).unwrap();
        let is_told = [7, 12].contains(index);
        // These tell ports of different lengths.
        format!(
            "{index:02}|{}",
            if is_told { rest.split('|').take(2).collect::<Vec<_>>().join("|") } else { rest.to_owned() }
        )
    };
    let mut lines: Vec<String> = log.lines().map(line).collect();
    lines.sort();
    (told, lines)
}

#[test]
fn sessions_of_datagrams_go_as_in_nginx() {
    let (told, lines) = sessions(Server::Fulmar);
    let expected = [
        "1: question",
        "5: UDP 127.0.0.1 127.0.0.1",
        "7: PROXY TCP4 127.0.0.1 127.0.0.1 OWN PORT\r\nquestion",
        "9: question",
        "11: question",
        "9: again",
        "9: -",
        "2: -",
        "3: -",
        "4: -",
        "6: -",
        "8: -",
        "10: -",
        "12: true true false",
    ];
    assert_eq!(told, expected);
    let expected = [
        "01|UDP|200|8|8|8|8|-",
        "02|UDP|200|8|0|8|0|-",
        "03|UDP|502|8|0|8|0|-",
        "04|UDP|403|8|0|-|-|-",
        "05|UDP|200|8|23|-|-|-",
        "06|UDP|200|8|0|-|-|-",
        "07|UDP|200",
        "08|UDP|500|8|0|-|-|-",
        "09|UDP|200|13|13|13|13|PASSED",
        "09|UDP|503|7|0|-|-|REJECTED",
        "10|UDP|200|8|0|8|0|-",
        "11|UDP|200|8|8|8|8|-",
        "12|UDP|200",
        "12|UDP|200",
    ];
    assert_eq!(lines, expected);
    if have_nginx() {
        let (of_nginx, nginx_lines) = sessions(Server::Nginx);
        assert_eq!(told, of_nginx);
        assert_eq!(lines, nginx_lines);
    }
}

/// A datagram arrives as it was sent: empty, long, and many at once.
#[test]
fn datagrams_keep_their_borders() {
    let servers = "server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_buffer_size 64k; proxy_timeout 3s; }";
    let text = servers.replace("BACK", &echo().to_string());
    for server in [Some(Server::Fulmar), have_nginx().then_some(Server::Nginx)].into_iter().flatten() {
        let running = site(&text).start(server);
        let client = Client::of(&running, 1);
        for length in [1, 0, 1472, 0, 9000, 60_000, 2] {
            let payload = vec![b'x'; length];
            client.send(&payload);
            assert!(client.receive() == payload, "{length} bytes to {}", server.name());
        }
        let all: Vec<String> = (0..40).map(|number| "y".repeat(number)).collect();
        all.iter().for_each(|payload| client.send(payload));
        let answers: Vec<Vec<u8>> = all.iter().map(|_| client.receive()).collect();
        assert!(answers.iter().zip(&all).all(|(answer, payload)| answer == payload.as_bytes()));
        running.stop();
    }
}

/// Each session has a port of its own towards the server, and each client gets what is for it.
#[test]
fn each_client_has_its_session() {
    let text = "server { listen 127.0.0.1:%%PORT_1%% udp reuseport; proxy_pass BACK; }
                server { listen 127.0.0.1:%%PORT_2%% udp; proxy_pass BACK; proxy_requests 1; }";
    let configuration = START.replace("worker_processes 1", "worker_processes 3");
    let text =
        format!("{configuration} stream {{ {READY} {text} }}").replace("BACK", &answering(1).to_string());
    let running = Site::whole(&text).start(Server::Fulmar);
    let clients: Vec<Client> = (0..30).map(|_| Client::of(&running, 1)).collect();
    let ports = |turn: &str| -> Vec<u16> { clients.iter().map(|client| client.port(turn)).collect() };
    let first = ports("one");
    assert_eq!(first, ports("two"));
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 30);
    let client = Client::of(&running, 2);
    assert_ne!(client.port("a"), client.port("b"));
    running.stop();
}

/// A queue that is shorter than it was asked to be loses datagrams in bursts.
#[test]
fn a_queue_that_the_kernel_does_not_allow_is_told() {
    let text = |size: &str| {
        let server = format!("server {{ listen 127.0.0.1:%%PORT_1%% udp rcvbuf={size}; return x; }}");
        format!("{START} stream {{ {READY} {server} }}")
    };
    let site = Site::whole(&text("1024m"));
    let running = site.start(Server::Fulmar);
    let told = |size: u64| format!("set net.core.rmem_max to {size} by sysctl");
    assert!(running.all_logs().contains(&told(1 << 30)), "{}", running.all_logs());
    running.rewrite(&text("512m"));
    reload(&site, &running);
    assert!(running.all_logs().contains(&told(1 << 29)), "{}", running.all_logs());
    running.stop();
}

/// A client discards an answer from another address than it asked.
#[test]
fn answers_come_from_the_address_that_was_asked() {
    let text = "server { listen %%PORT_1%% udp; return $server_addr; }
                server { listen [::]:%%PORT_1%% udp; return $server_addr; }";
    let running = site(text).start(Server::Fulmar);
    let port = running.address_of(1).port();
    for address in ["127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"] {
        let ip: IpAddr = address.parse().unwrap();
        let any = if ip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let client = UdpSocket::bind(any).unwrap();
        client.connect((ip, port)).unwrap();
        assert_eq!(Client(client).ask("which"), address);
    }
    running.stop();
}

#[test]
fn a_range_of_ports_is_served() {
    let text = "server { listen 127.0.0.1:FIRST-LAST udp; return $server_port; }";
    // Three free ports in a row: others may take one meanwhile, then others are tried.
    for _ in 0..20 {
        let first = bind().local_addr().unwrap().port();
        let Some(last) = first.checked_add(2) else { continue };
        let text = text.replace("FIRST", &first.to_string()).replace("LAST", &last.to_string());
        let Ok(running) = site(&text).try_start(Server::Fulmar) else { continue };
        for port in first..=last {
            let client = Client::at(SocketAddr::from(([127, 0, 0, 1], port)));
            assert_eq!(client.ask("which"), port.to_string());
        }
        return running.stop();
    }
    panic!("no free ports");
}

/// Another process that has the port is an error, although it lets others share it.
#[test]
fn a_port_of_datagrams_that_is_in_use_is_an_error() {
    let text = "server { listen 127.0.0.1:PORT udp; return x; }";
    let holder = bind();
    let text = text.replace("PORT", &holder.local_addr().unwrap().port().to_string());
    let error = site(&text).try_start(Server::Fulmar).unwrap_err();
    assert!(error.contains("(udp) failed (98: Address already in use)"), "{error}");
}

/// The network reports a server that does not receive. The session ends, and the client's next one has another server.
#[test]
fn a_server_that_does_not_receive_counts_as_failed() {
    let text = "
        log_format sessions \"$status $upstream_addr\";
        access_log %%LOGS%%/sessions.log sessions;
        upstream group { server GONE; server BACK; }
        server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass group; proxy_responses 1; }";
    let gone = bind().local_addr().unwrap();
    let text = text.replace("GONE", &gone.to_string()).replace("BACK", &echo().to_string());
    let running = site(&text).start(Server::Fulmar);
    let client = Client::of(&running, 1);
    client.send("lost");
    running.wait_for_log("sessions.log", &format!("502 {gone}"));
    for _ in 0..4 {
        assert_eq!(client.ask("again"), "again");
    }
    running.wait_for_log(
        "error.log",
        "recv() failed (111: Connection refused) while proxying and reading from upstream",
    );
    running.stop();
}

/// Forged addresses take the places of each other, and of no client that was answered.
#[test]
fn a_flood_of_clients_without_answers_displaces_itself() {
    let text = "
        log_format sessions $status;
        access_log %%LOGS%%/sessions.log sessions;
        server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; }
        server { listen 127.0.0.1:%%PORT_2%% udp; proxy_pass SILENT; }";
    let silent = bind();
    let text = text
        .replace("BACK", &answering(1).to_string())
        .replace("SILENT", &silent.local_addr().unwrap().to_string());
    let text = format!("{START} stream {{ {READY} {text} }}").replace("connections 512", "connections 40");
    let running = Site::whole(&text).start(Server::Fulmar);
    let client = Client::of(&running, 1);
    let port = client.port("before");
    let flood: Vec<Client> = (0..200)
        .map(|_| {
            let forged = Client::of(&running, 2);
            forged.send("x");
            forged
        })
        .collect();
    // Half of the places are for the network of all these clients.
    let evicted = || running.log("sessions.log").matches("503").count();
    let mut before = 0;
    let is_over = || {
        wait::pause(SILENCE);
        std::mem::replace(&mut before, evicted()) >= 100 && before == evicted()
    };
    assert!(wait::until(PATIENCE, is_over), "{}", evicted());
    assert!(evicted() <= 181, "no more sessions end than places are needed: {}", evicted());
    assert_eq!(client.port("during"), port, "the answered session is kept");
    let late = Client::of(&running, 1);
    assert_eq!(late.port("late"), late.port("later"), "there is a place for a new session");
    drop(flood);
    running.signal(Signal::TERM);
}

/// A client that does not confirm its address gets a limited number of bytes.
#[test]
fn an_answer_to_a_forged_address_is_limited() {
    let text = "server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_amplification 5; }
                server { listen 127.0.0.1:%%PORT_2%% udp; proxy_pass BACK; }";
    let running = site(&text.replace("BACK", &answering(8).to_string())).start(Server::Fulmar);
    let count = |client: &Client| {
        client.send("ten bytes!");
        let mut count = 0;
        while client.received(SILENCE).is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(count(&Client::of(&running, 2)), 8);
    // Each answer has 15 or 16 bytes, and ten bytes allow 50.
    let client = Client::of(&running, 1);
    assert_eq!(count(&client), 3);
    assert_eq!(count(&client), 8, "a client that sends again received something");
    running.signal(Signal::TERM);
}

/// Sessions go on after a reload with their configuration, and new ones begin with the new configuration.
#[test]
fn sessions_of_datagrams_outlive_a_reload() {
    let back = answering(1);
    let text =
        |server: &str| format!("{START} stream {{ {READY} {server} }}").replace("BACK", &back.to_string());
    let site = Site::whole(&text("server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; }"));
    let running = site.start(Server::Fulmar);
    let client = Client::of(&running, 1);
    let port = client.port("before");
    running.rewrite(&text("server { listen 127.0.0.1:%%PORT_1%% udp; return after; }"));
    reload(&site, &running);
    assert_eq!(client.port("still"), port);
    assert_eq!(Client::of(&running, 1).ask("new"), "after");
    // Without its address a session ends: no datagram can come.
    running.rewrite(&text(""));
    reload(&site, &running);
    let gone = wait::until(PATIENCE, || UdpSocket::bind(running.address_of(1)).is_ok());
    assert!(gone, "the socket is still open");
    running.stop();
}

pub(crate) fn reload(site: &Site, running: &Running) {
    let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().unwrap();
    assert!(output.status.success(), "{}", running.all_logs());
}

/// Questions at a fixed rate, each by a new client, are all answered while the configuration is reloaded.
#[test]
fn reloads_lose_no_question() {
    let text = "server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_responses 1; }";
    let text = format!("{START} stream {{ {READY} {text} }}").replace("BACK", &echo().to_string());
    let site = Site::whole(&text.replace("worker_processes 1", "worker_processes 2"));
    let running = site.start(Server::Fulmar);
    let questions = Questions::ask(running.address_of(1));
    for _ in 0..10 {
        reload(&site, &running);
    }
    questions.are_all_answered();
    running.stop();
}

/// Questions at a fixed rate, each by a new client.
pub(crate) struct Questions {
    is_over: Arc<AtomicBool>,
    /// How many were asked, and how many of them had no answer.
    asking: thread::JoinHandle<(usize, usize)>,
}

impl Questions {
    pub(crate) fn ask(address: SocketAddr) -> Questions {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let asking = thread::spawn(move || {
            let mut waiting: Vec<Client> = Vec::new();
            let (mut asked, mut lost) = (0, 0);
            let started = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                asked += 1;
                let client = Client::at(address);
                client.send(format!("question {asked}"));
                waiting.push(client);
                // The rate does not depend on the answers.
                if waiting.len() == 64 {
                    lost += waiting.drain(..32).filter(|client| client.received(PATIENCE).is_none()).count();
                }
                let due = started + Duration::from_millis(2) * u32::try_from(asked).unwrap();
                wait::pause(due.saturating_duration_since(Instant::now()));
            }
            let lost = lost + waiting.iter().filter(|client| client.received(PATIENCE).is_none()).count();
            (asked, lost)
        });
        Questions { is_over, asking }
    }

    pub(crate) fn are_all_answered(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let (asked, lost) = self.asking.join().unwrap();
        assert_eq!(lost, 0, "of {asked} questions");
    }
}

/// A resolver is asked through Fulmar, over UDP and TCP.
#[test]
fn a_resolver_answers_over_udp_and_tcp() {
    let (dnsmasq, digger) = (parts::program(&["dnsmasq"]), parts::program(&["dig"]));
    if !parts::is_present("dnsmasq and dig", dnsmasq.is_some() && digger.is_some()) {
        return;
    }
    // A port that neither UDP nor TCP uses.
    let back = loop {
        let back = bind().local_addr().unwrap();
        if TcpListener::bind(back).is_ok() {
            break back;
        }
    };
    let records: Vec<String> =
        (0..60).map(|number| format!("--txt-record=long.example,{}", "x".repeat(100 + number))).collect();
    let mut resolver = Command::new(dnsmasq.unwrap())
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--bind-interfaces",
        ])
        .args([
            "--user=root",
            "--pid-file",
            "--listen-address=127.0.0.1",
            "--address=/short.example/192.0.2.7",
        ])
        .arg(format!("--port={}", back.port()))
        .args(&records)
        .spawn()
        .unwrap();
    let text =
        "server { listen 127.0.0.1:%%PORT_1%% udp; proxy_pass BACK; proxy_responses 1; proxy_timeout 5s; }
                server { listen 127.0.0.1:%%PORT_1%%; proxy_pass BACK; }";
    let running = site(&text.replace("BACK", &back.to_string())).start(Server::Fulmar);
    let port = running.address_of(1).port();
    let dig = |words: &[&str]| {
        let mut command = Command::new(digger.as_ref().unwrap());
        command.args(["@127.0.0.1", "-p", &port.to_string(), "+tries=1", "+time=5"]).args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(wait::until(PATIENCE, || dig(&["short.example", "A", "+short"]) == "192.0.2.7\n"));
    assert_eq!(dig(&["short.example", "A", "+short", "+tcp"]), "192.0.2.7\n");
    // The answer does not fit into a datagram: the resolver says so, and the client asks again over TCP.
    let long = dig(&["long.example", "TXT", "+bufsize=1232"]);
    assert!(long.contains("(TCP)") && long.matches("xxxx").count() >= 60, "{long}");
    let truncated = dig(&["long.example", "TXT", "+bufsize=1232", "+ignore"]);
    assert!(truncated.contains(" tc ") && truncated.contains("(UDP)"), "{truncated}");
    resolver.kill().unwrap();
    resolver.wait().unwrap();
    running.stop();
}
