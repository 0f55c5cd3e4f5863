//! Which server of a group is asked: the same as by nginx, where the method leaves nothing to chance.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use tests::binary::{Server, have_nginx};
use tests::differential::agree_on_mistake;
use tests::origin::{After, Origin, ok, raw};
use tests::raw::Raw;
use tests::site::{Running, Site};
use tests::wait;

const COUNT: usize = 4;

/// Servers that say which they are.
fn origins() -> Vec<Origin> {
    (0..COUNT).map(|number| Origin::start(move |_| ok(number.to_string()))).collect()
}

/// A group of these servers, with what stands before the address of each and after it.
fn group(name: &str, method: &str, origins: &[Origin], parameters: [&str; COUNT]) -> String {
    let mut text = format!("upstream {name} {{ {method};\n");
    for (origin, parameters) in origins.iter().zip(parameters) {
        let _ = writeln!(text, "server {} {parameters};", origin.address());
    }
    text + "}\n"
}

fn servers() -> Vec<Server> {
    let oracle = have_nginx().then_some(Server::Nginx);
    [Server::Fulmar].into_iter().chain(oracle).collect()
}

/// Has each server answer these questions, and compares.
fn same(site: &Site, ask: impl Fn(&Running) -> Vec<String>) -> Vec<String> {
    let mut answers = servers().into_iter().map(|server| {
        let running = site.start(server);
        let answers = ask(&running);
        running.stop();
        answers
    });
    let fulmar = answers.next().unwrap();
    for nginx in answers {
        assert_eq!(fulmar, nginx);
    }
    fulmar
}

#[test]
fn texts_meet_the_servers_that_they_meet_at_nginx() {
    let origins = origins();
    let weights = ["weight=1", "weight=5", "weight=2", ""];
    let less = ["", "down", "", ""];
    let mut http = String::new();
    let methods = ["hash $arg_key", "hash $arg_key consistent"];
    for (number, method) in methods.iter().enumerate() {
        for (name, parameters) in [("even", [""; COUNT]), ("weighted", weights), ("less", less)] {
            http += &group(&format!("{name}{number}"), method, &origins, parameters);
        }
    }
    http += "server { listen 127.0.0.1:%%PORT%%; location ~ ^/(.+)$ { proxy_pass http://$1; } }";
    let site = Site::new(&http);
    let asked = same(&site, |running| {
        let mut client = running.connect();
        client.extend(Duration::from_secs(60));
        let mut answers = Vec::new();
        for name in ["even0", "weighted0", "less0", "even1", "weighted1", "less1"] {
            for key in 0..100 {
                let answer = client.exchange(&format!("GET /{name}?key=some+text+{key}")).unwrap();
                answers.push(format!("{name} {key} {}", answer.text()));
            }
        }
        answers
    });
    let of = |name: &str| -> Vec<&str> {
        let lines = asked.iter().filter(|line| line.split(' ').next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap()).collect()
    };
    let moved = |number: u32| {
        let (before, after) = (of(&format!("even{number}")), of(&format!("less{number}")));
        assert!(after.iter().all(|&server| server != "1"), "a server that is down is asked");
        before.iter().zip(&after).filter(|(a, b)| a != b && **a != "1").count()
    };
    assert_eq!(moved(1), 0, "who met another server than the one that went still meets it");
}

/// A connection from an address of this host.
fn connect_from(source: Ipv4Addr, target: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(source, 0)).unwrap();
    connect(&socket, &target).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

#[test]
fn networks_meet_the_servers_that_they_meet_at_nginx() {
    let origins = origins();
    let mut http = group("even", "ip_hash", &origins, [""; COUNT]);
    http += &group("weighted", "ip_hash", &origins, ["weight=3", "", "down", "weight=2"]);
    http += "server { listen 127.0.0.1:%%PORT%%; location ~ ^/(.+)$ { proxy_pass http://$1; } }";
    let asked = same(&Site::new(&http), |running| {
        let mut answers = Vec::new();
        for number in 0..60_u8 {
            for name in ["even", "weighted"] {
                let source = Ipv4Addr::new(127, number, number.wrapping_mul(37), 1 + number % 2);
                let mut stream = connect_from(source, running.address());
                write!(stream, "GET /{name} HTTP/1.0\r\n\r\n").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                answers.push(format!("{name} {source} {}", text.lines().last().unwrap()));
            }
        }
        answers
    });
    let used: BTreeMap<&str, usize> = asked.iter().fold(BTreeMap::new(), |mut used, line| {
        *used.entry(line.rsplit(' ').next().unwrap()).or_default() += 1;
        used
    });
    assert!(used.len() == COUNT, "{used:?}");
}

#[test]
fn a_server_that_cannot_be_asked_gives_way() {
    let good = Origin::start(|_| ok("good"));
    for method in [
        "hash $arg_key",
        "hash $arg_key consistent",
        "ip_hash",
        "random",
        "random two",
        "least_conn",
        "least_time header",
        "least_time last_byte inflight",
    ] {
        let site = Site::new(&format!(
            "upstream u {{ {method}; server 127.0.0.1:1; server {}; }}
             server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://u; }} }}",
            good.address()
        ));
        same(&site, |running| {
            let mut client = running.connect();
            let ask = |key| client.exchange(&format!("GET /?key={key}")).unwrap().text();
            let answers: Vec<String> = (0..20).map(ask).collect();
            assert!(answers.iter().all(|answer| answer == "good"), "{method}: {answers:?}");
            answers
        });
    }
}

#[test]
fn the_server_with_the_fewest_requests() {
    for server in servers() {
        let (first, second) = (Raw::listen(), Raw::listen());
        let running = Site::new(&format!(
            "upstream u {{ least_conn; server {}; server {} weight=2; }}
             server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://u; }} }}",
            first.address(),
            second.address()
        ))
        .start(server);
        let ask = || {
            let mut client = running.connect();
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        };
        // Where both are even the weights have their turn.
        let (mut clients, mut peers) = (Vec::new(), Vec::new());
        for asked in [&second, &first, &second, &first, &second, &second] {
            clients.push(ask());
            peers.push(asked.accept());
        }
        for peer in &mut peers {
            peer.until("\r\n\r\n");
            peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.response("GET").unwrap().status, 204);
        }
        running.stop();
    }
}

#[test]
fn the_server_that_takes_the_least_time() {
    let slow = Origin::start(|_| {
        wait::pause(Duration::from_secs(1));
        ok("slow")
    });
    let quick = Origin::start(|_| ok("quick"));
    // Its head comes at once, and the last of its content two seconds later.
    let late = Origin::start(|_| {
        raw("HTTP/1.1 200 OK\r\nX-Late: yes\r\nContent-Length: 43\r\n\r\nlat", After::Drip(40))
    });
    let site = Site::new(&format!(
        "upstream head {{ least_time header; server {slow}; server {quick}; }}
         upstream all {{ least_time last_byte; server {slow}; server {quick}; }}
         upstream flight {{ least_time last_byte inflight; server {slow}; server {quick}; }}
         upstream late_head {{ least_time header; server {slow}; server {late}; }}
         upstream late_all {{ least_time last_byte; server {late}; server {slow}; }}
         server {{ listen 127.0.0.1:%%PORT%%; location ~ ^/(.+)$ {{ proxy_pass http://$1; }} }}",
        slow = slow.address(),
        quick = quick.address(),
        late = late.address()
    ));
    let ask = |running: &Running, names: &[&str]| -> Vec<String> {
        let mut client = running.connect();
        client.extend(Duration::from_secs(60));
        let mut ask = |name: &&str| {
            let answer = client.exchange(&format!("GET /{name}")).unwrap();
            let is_late = answer.field("X-Late").is_some();
            format!("{name} {}", if is_late { "late".to_owned() } else { answer.text() })
        };
        names.iter().map(&mut ask).collect()
    };
    let names: Vec<&str> = ["head", "all", "flight"].iter().flat_map(|name| [*name; 5]).collect();
    let mut asked = same(&site, |running| ask(running, &names));
    // On a busy machine nginx takes the slow server again in place of the late one.
    let running = site.start(Server::Fulmar);
    asked.extend(ask(&running, &["late_head", "late_head", "late_head", "late_all", "late_all", "late_all"]));
    running.stop();
    let of = |name: &str| -> Vec<&str> {
        asked
            .iter()
            .filter_map(|line| line.strip_prefix(name))
            .filter_map(|rest| rest.strip_prefix(' '))
            .collect()
    };
    for name in ["head", "all", "flight"] {
        assert_eq!(of(name), ["slow", "quick", "quick", "quick", "quick"], "{name}");
    }
    assert_eq!(
        (of("late_head"), of("late_all")),
        (vec!["slow", "late", "late"], vec!["late", "slow", "slow"])
    );
}

#[test]
fn drawn_servers_are_all_drawn() {
    let origins = origins();
    let mut http = group("one", "random", &origins, ["", "", "down", ""]);
    http += &group("two", "random two least_conn", &origins, ["", "", "down", ""]);
    http += "server { listen 127.0.0.1:%%PORT%%; location ~ ^/(.+)$ { proxy_pass http://$1; } }";
    let running = Site::new(&http).start(Server::Fulmar);
    let mut client = running.connect();
    for name in ["one", "two"] {
        let mut drawn = BTreeMap::<String, usize>::new();
        for _ in 0..300 {
            *drawn.entry(client.exchange(&format!("GET /{name}")).unwrap().text()).or_default() += 1;
        }
        // Each has a third; that one has less than a tenth is less likely than anything else that fails.
        assert!(drawn.len() == 3 && drawn.values().all(|&count| count > 30), "{name}: {drawn:?}");
    }
    running.stop();
}

#[test]
fn mistakes_are_those_of_nginx() {
    for inside in [
        "hash $uri steady; server 127.0.0.1:1;",
        "hash; server 127.0.0.1:1;",
        "random three; server 127.0.0.1:1;",
        "random two most_conn; server 127.0.0.1:1;",
        "ip_hash on; server 127.0.0.1:1;",
        "least_time; server 127.0.0.1:1;",
        "least_time first_byte; server 127.0.0.1:1;",
        "least_time header all; server 127.0.0.1:1;",
        "ip_hash; server 127.0.0.1:1; server 127.0.0.1:2 backup;",
        "hash $uri consistent; server 127.0.0.1:1; server 127.0.0.1:2 backup;",
        "random; server 127.0.0.1:1; server 127.0.0.1:2 backup;",
    ] {
        agree_on_mistake(&Site::new(&format!(
            "upstream u {{ {inside} }} server {{ listen 127.0.0.1:%%PORT%%; }}"
        )));
    }
}
