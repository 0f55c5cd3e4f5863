//! Servers of an `upstream` that follow their names while requests are served.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::binary::Server;
use tests::differential::agree_on_mistake;
use tests::dns::{Message, NameServer, Question, Reply, SRV};
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site};
use tests::wait;

/// Priority, weight and port of a service, and its host.
type Record = ((u16, u16, u16), &'static str);

/// A change is seen within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a name server says, until a test says something else.
#[derive(Clone)]
struct Answer(Arc<Mutex<Vec<&'static str>>>);

impl Answer {
    /// A name server with these addresses of every name: `failure`, `absence` and `silence` are none.
    fn start(addresses: &[&'static str]) -> (Answer, NameServer) {
        let answer = Answer(Arc::new(Mutex::new(addresses.to_vec())));
        let told = answer.clone();
        (answer, NameServer::start(move |question| told.tell(question)))
    }

    fn tell(&self, question: &Question) -> Vec<Reply> {
        let message = Message::to(question);
        match self.0.lock().unwrap().as_slice() {
            ["silence"] => Vec::new(),
            ["failure"] => vec![message.error(2).reply()],
            ["absence"] => vec![message.error(3).reply()],
            all => vec![all.iter().fold(message, |message, ip| message.address(1, ip)).reply()],
        }
    }

    fn set(&self, addresses: &[&'static str]) {
        *self.0.lock().unwrap() = addresses.to_vec();
    }
}

/// A site whose group has the name `app.example` with these parameters. Its servers say which address they have.
fn site(names: &NameServer, parameters: &str) -> String {
    format!(
        "upstream u {{
             zone u 64k;
             server app.example:%%PORT_1%% resolve {parameters};
             resolver {} valid=1s ipv6=off;
             resolver_timeout 1s;
         }}
         server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://u; }} }}
         server {{ listen 127.0.0.1:%%PORT_1%%; listen 127.0.0.2:%%PORT_1%%; return 200 $server_addr; }}",
        names.address()
    )
}

/// Waits until an answer is this text, or this status.
fn wait_for(running: &Running, expected: &str) {
    let is_there = || {
        // One request, since the servers take turns.
        let answer = running.connect().exchange("GET /").expect("an answer");
        answer.status.to_string() == expected || answer.text() == expected
    };
    assert!(wait::until(PATIENCE, is_there), "never {expected}:\n{}", running.all_logs());
}

#[test]
fn members_follow_the_name() {
    let (answer, names) = Answer::start(&["127.0.0.1"]);
    let running = Site::new(&site(&names, "")).start(Server::Fulmar);
    wait_for(&running, "127.0.0.1");
    answer.set(&["127.0.0.2"]);
    wait_for(&running, "127.0.0.2");
    answer.set(&["absence"]);
    wait_for(&running, "502");
    running.wait_for_log("error.log", "app.example could not be resolved (3: Host not found)");
    running.wait_for_log("error.log", "no live upstreams while connecting to upstream");
    answer.set(&["127.0.0.1", "127.0.0.2"]);
    wait_for(&running, "127.0.0.1");
    wait_for(&running, "127.0.0.2");
    running.stop();
}

#[test]
fn servers_stay_while_no_name_server_answers() {
    let (answer, names) = Answer::start(&["127.0.0.1"]);
    let running = Site::new(&site(&names, "")).start(Server::Fulmar);
    wait_for(&running, "127.0.0.1");
    for (failure, message) in [
        ("failure", "app.example could not be resolved (2: Server failure)"),
        ("silence", "app.example could not be resolved (110: Operation timed out)"),
    ] {
        answer.set(&[failure]);
        let is_there = || running.log("error.log").contains(message);
        assert!(wait::until(PATIENCE, is_there), "{}", running.all_logs());
        assert_eq!(running.ask("GET /").last().text(), "127.0.0.1", "{failure}");
    }
    answer.set(&["127.0.0.2"]);
    wait_for(&running, "127.0.0.2");
    running.stop();
}

#[test]
fn a_request_ends_where_it_began() {
    let gate = Arc::new(Mutex::new(()));
    let at_gate = Arc::clone(&gate);
    let is_held = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&is_held);
    let origin = Origin::start(move |asked| {
        if asked.target == "/held" {
            held.store(true, Ordering::SeqCst);
            drop(at_gate.lock().unwrap());
        }
        ok("the first")
    });
    let (answer, names) = Answer::start(&["127.0.0.1"]);
    let port = origin.address().port();
    let text = site(&names, "").replace("app.example:%%PORT_1%%", &format!("app.example:{port}"));
    let text = text.replace(
        "listen 127.0.0.1:%%PORT_1%%; listen 127.0.0.2:%%PORT_1%%",
        &format!("listen 127.0.0.2:{port}"),
    );
    let running = Site::new(&text).start(Server::Fulmar);
    wait_for(&running, "the first");
    let closed = gate.lock().unwrap();
    let mut held = running.connect();
    assert!(held.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(wait::until(PATIENCE, || is_held.load(Ordering::SeqCst)), "{}", running.all_logs());
    answer.set(&["127.0.0.2"]);
    wait_for(&running, "127.0.0.2");
    drop(closed);
    assert_eq!(held.response("GET").unwrap().text(), "the first");
    running.stop();
}

#[test]
fn a_reload_keeps_the_addresses() {
    let (answer, names) = Answer::start(&["127.0.0.1"]);
    let text = site(&names, "");
    let site_of = Site::new(&text);
    let running = site_of.start(Server::Fulmar);
    wait_for(&running, "127.0.0.1");
    answer.set(&["silence"]);
    for (parameters, mark) in [("", "one"), ("weight=3 max_fails=0", "two")] {
        let text = site(&names, parameters).replace("$server_addr", &format!("'{mark} $server_addr'"));
        running.rewrite(&text);
        let output = site_of.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
        assert!(output.status.success(), "{}", running.all_logs());
        assert_eq!(running.ask("GET /").last().text(), format!("{mark} 127.0.0.1"), "{}", running.all_logs());
    }
    answer.set(&["127.0.0.2"]);
    wait_for(&running, "two 127.0.0.2");
    running.stop();
}

#[test]
fn services_name_ports_and_backups() {
    let services: Arc<Mutex<Vec<Record>>> = Arc::default();
    let told = Arc::clone(&services);
    let names = NameServer::start(move |question| {
        let message = Message::to(question);
        let all = told.lock().unwrap().clone();
        vec![
            match question.name.as_str() {
                "_web._tcp.app.example" if question.kind == SRV => {
                    all.iter().fold(message, |message, (numbers, host)| message.service(1, *numbers, host))
                }
                "a.example" => message.address(1, "127.0.0.1"),
                "b.example" => message.address(1, "127.0.0.2"),
                _ => message.error(3),
            }
            .reply(),
        ]
    });
    let [first, second] = ["first", "second"].map(|text| Origin::start(move |_| ok(text)));
    let [first_port, second_port] = [&first, &second].map(|origin| origin.address().port());
    let running = Site::new(&format!(
        "resolver {} valid=1s ipv6=off;
         upstream u {{ zone u; server app.example resolve service=web; }}
         server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://u; add_header X-Asked $upstream_addr; }} }}",
        names.address()
    ))
    .start(Server::Fulmar);
    wait_for(&running, "502");
    running.wait_for_log("error.log", "service web of app.example could not be resolved (3: Host not found)");
    *services.lock().unwrap() = vec![((2, 1, second_port), "a.example"), ((1, 1, first_port), "a.example")];
    wait_for(&running, "first");
    let shares: Vec<_> = (0..4).map(|_| running.ask("GET /").last().text()).collect();
    assert_eq!(shares, ["first"; 4], "the other one is a backup");
    // No server listens at this address and port: the backup is asked.
    *services.lock().unwrap() = vec![
        ((2, 1, second_port), "a.example"),
        ((1, 1, first_port), "b.example"),
        ((1, 1, first_port), "c.example"),
    ];
    wait_for(&running, "second");
    let message =
        "c.example could not be resolved (3: Host not found) while resolving service web of app.example";
    running.wait_for_log("error.log", message);
    running.stop();
}

#[test]
fn mistakes_are_those_of_nginx() {
    for wrong in [
        "server a.example resolve service=;",
        "server a.example service=http;",
        "server a.example:80 resolve service=http;",
        "server 127.0.0.1 resolve service=http;",
        "server a.example resolved;",
        "server 127.0.0.1; zone u 1k;",
        "server 127.0.0.1; zone u x;",
        "server 127.0.0.1; resolver 127.0.0.1 ipv4=x;",
        "zone u 64k; server a.example resolve;",
    ] {
        agree_on_mistake(&Site::new(&format!("upstream u {{ {wrong} }}")));
    }
}

/// A WebSocket stays with the server that it began with, although the name has another address by now.
#[test]
fn a_websocket_outlasts_the_address_of_its_server() {
    let reply = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start(move |asked| match &*asked.target {
        "/ws" => raw(reply, After::Echo),
        _ => ok("the first"),
    });
    let (answer, names) = Answer::start(&["127.0.0.1"]);
    let port = origin.address().port();
    let upgraded = "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
                    proxy_set_header Connection $http_connection;";
    let text = site(&names, "")
        .replace("app.example:%%PORT_1%%", &format!("app.example:{port}"))
        .replace(
            "listen 127.0.0.1:%%PORT_1%%; listen 127.0.0.2:%%PORT_1%%",
            &format!("listen 127.0.0.2:{port}"),
        )
        .replace("proxy_pass http://u;", upgraded);
    let running = Site::new(&text).start(Server::Fulmar);
    wait_for(&running, "the first");
    let mut tunnel = running.connect();
    tunnel.extend(PATIENCE * 2);
    tunnel.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.response("GET").unwrap().status, 101);
    answer.set(&["127.0.0.2"]);
    wait_for(&running, "127.0.0.2");
    tunnel.send(b"ping");
    assert!(tunnel.read_some(4) > 0, "the tunnel is cut");
    drop(tunnel);
    running.stop();
}

/// What the metrics say of the peer at this port.
fn figure(metrics: &str, name: &str, port: u16) -> u64 {
    let start = format!("fulmar_upstream_{name}{{upstream=\"u\",peer=\"127.0.0.1:{port}\"");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{start} is not in\n{metrics}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn changed_settings_of_a_server_keep_its_counters_and_connections() {
    let origin = Origin::start(|_| ok("here"));
    let port = origin.address().port();
    let with = |parameters: &str, more: &str| {
        format!(
            "upstream u {{ server 127.0.0.1:{port} {parameters}; {more} keepalive 4; }}
             server {{
                 listen 127.0.0.1:%%PORT%%;
                 location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; }}
                 location = /metrics {{ fulmar_status; }}
             }}"
        )
    };
    let site = Site::new(&with("weight=2", ""));
    let running = site.start(Server::Fulmar);
    // One request a connection: `ask` sends a further one.
    let page = |path: &str| running.connect().exchange(&format!("GET {path}")).unwrap().text();
    let figures = || {
        let metrics = page("/metrics");
        ["requests_total", "connections_opened_total"].map(|name| figure(&metrics, name, port))
    };
    assert_eq!(page("/"), "here");
    let [before, opened] = figures();
    assert!(before > 0 && opened == 1);
    let others = ["weight=1 max_conns=9", "max_fails=3 fail_timeout=1s", "backup"];
    for (number, parameters) in (1..).zip(others) {
        let more = if parameters == "backup" { "server 127.0.0.1:1 down;" } else { "" };
        running.rewrite(&with(parameters, more));
        let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(page("/"), "here");
        assert_eq!(figures(), [before + number, opened], "{parameters}");
    }
    running.stop();
}
