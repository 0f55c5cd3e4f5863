//! Connections that are passed on (`stream`), compared with nginx.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::site::{Running, START, Site};
use tests::tls::{self, Kind, certificate};
use tests::wait;

/// No wait for something that comes takes longer, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(20);

const SERVERS: &str = r#"
stream {
    log_format sessions "$server_port|$protocol|$status|$bytes_received|$bytes_sent|$upstream_bytes_sent|$upstream_bytes_received|$limit_conn_status";
    map $server_port $log { %%PORT%% 0; default 1; }
    access_log %%LOGS%%/sessions.log sessions if=$log;
    map $server_port $kind { %%PORT_2%% text; default other; }
    geo $near { default far; 127.0.0.0/8 near; }
    split_clients "$remote_addr" $part { 100% all; }
    limit_conn_zone $binary_remote_addr zone=clients:1m;
    proxy_connect_timeout 5s;
    upstream group { server 127.0.0.1:1; server BACK; }
    upstream hashed { hash $remote_addr consistent; server BACK; }
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_1%%; proxy_pass group; }
    server { listen 127.0.0.1:%%PORT_2%%; set $own "<$kind>"; return "$own $near $part $remote_addr"; }
    server { listen 127.0.0.1:%%PORT_3%%; deny 127.0.0.1; allow all; return secret; }
    server { listen 127.0.0.1:%%PORT_4%%; proxy_pass 127.0.0.1:1; }
    server { listen 127.0.0.1:%%PORT_5%% proxy_protocol; set_real_ip_from 127.0.0.1;
             return "$proxy_protocol_addr $remote_addr $realip_remote_addr"; }
    server { listen 127.0.0.1:%%PORT_6%%; proxy_protocol on; proxy_pass 127.0.0.1:%%PORT_5%%; }
    server { listen 127.0.0.1:%%PORT_7%%; proxy_half_close on; proxy_pass hashed; }
    server { listen 127.0.0.1:%%PORT_8%%; limit_conn clients 1; proxy_pass BACK; }
    server { listen 127.0.0.1:%%PORT_9%%; proxy_next_upstream off; proxy_pass group; proxy_timeout 300ms; }
    server { listen unix:%%LOGS%%/socket; proxy_pass BACK; }
    server { listen 127.0.0.1:%%PORT_10%%; proxy_pass unix:%%LOGS%%/socket; proxy_download_rate 1m; proxy_upload_rate 1m; }
    server { listen 127.0.0.1:%%PORT_11%%; proxy_pass $kind.invalid:$remote_port; }
    server { listen 127.0.0.1:%%PORT_12%%; proxy_timeout 300ms; proxy_pass BACK; }
}
"#;

/// A server that returns what it gets, and says at the end of its client how many bytes that were.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut room, mut all) = ([0; 4096], 0);
                while let Ok(count @ 1..) = stream.read(&mut room) {
                    all += count;
                    if stream.write_all(&room[..count]).is_err() {
                        return;
                    }
                }
                let _ = stream.write_all(format!(" {all} in all").as_bytes());
            });
        }
    });
    address
}

fn connect(running: &Running, port: usize) -> TcpStream {
    let stream = TcpStream::connect(running.address_of(port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads so many.
fn echoed(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).unwrap();
    String::from_utf8(read).unwrap()
}

/// What comes until the connection ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    String::from_utf8_lossy(&read).into_owned()
}

/// All sessions: what their clients get, and the lines of the log, in the order of the ports.
fn sessions(server: Server, back: SocketAddr) -> (Vec<String>, Vec<String>) {
    let text = START.to_owned() + &SERVERS.replace("BACK", &back.to_string());
    let running = Site::whole(&text).start(server);
    let mut told = Vec::new();
    // Bytes go both ways, by the second server; the connection ends when the client ends its side.
    let mut stream = connect(&running, 1);
    told.push(echoed(&mut stream, "one") + &echoed(&mut stream, "two"));
    stream.shutdown(Shutdown::Write).unwrap();
    rest(&mut stream);
    for port in [2, 3, 4, 6, 9, 11] {
        told.push(rest(&mut connect(&running, port)));
    }
    for header in ["PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "no header\r\n"] {
        let mut stream = connect(&running, 5);
        stream.write_all(header.as_bytes()).unwrap();
        told.push(rest(&mut stream));
    }
    // One side may end before the other.
    let mut stream = connect(&running, 7);
    told.push(echoed(&mut stream, "half"));
    stream.shutdown(Shutdown::Write).unwrap();
    told.push(rest(&mut stream));
    let mut first = connect(&running, 8);
    told.push(echoed(&mut first, "first"));
    told.push(rest(&mut connect(&running, 8)));
    drop(first);
    let mut stream = connect(&running, 10);
    told.push(echoed(&mut stream, "by a file"));
    drop(stream);
    // Nobody says anything.
    told.push(rest(&mut connect(&running, 12)));
    let ports: Vec<(usize, u16)> = running.ports().collect();
    let log = running.stop_and(|running| running.log("sessions.log"));
    let line = |line: &str| {
        let (port, rest) = line.split_once('|').unwrap();
        let known = ports.iter().find(|(_, known)| known.to_string() == port);
        known.map_or_else(|| line.to_owned(), |(index, _)| format!("{index:02}|{rest}"))
    };
    let mut lines: Vec<String> = log.lines().map(line).collect();
    lines.sort();
    (told, lines)
}

#[test]
fn sessions_go_as_in_nginx() {
    let back = echo();
    let (told, lines) = sessions(Server::Fulmar, back);
    let expected = [
        "onetwo",
        "<text> near all 127.0.0.1",
        "",
        "",
        "127.0.0.1 127.0.0.1 127.0.0.1",
        "",
        "",
        "192.0.2.1 192.0.2.1 127.0.0.1",
        "",
        "half",
        " 4 in all",
        "first",
        "",
        "by a file",
        "",
    ];
    assert_eq!(told, expected);
    for line in ["01|TCP|200|6|6|0, 6|0, 6|-", "03|TCP|403|0|0|-|-|-", "08|TCP|503|0|0|-|-|REJECTED"] {
        assert!(lines.iter().any(|known| known == line), "{line}: {lines:#?}");
    }
    if have_nginx() {
        let (of_nginx, nginx_lines) = sessions(Server::Nginx, back);
        assert_eq!(told, of_nginx);
        assert_eq!(lines, nginx_lines);
    }
}

/// A server that says its name after a time, and closes.
fn named(name: &'static str, after: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            wait::pause(after);
            let _ = stream.write_all(name.as_bytes());
        }
    });
    address
}

#[test]
fn the_server_that_takes_the_least_time_is_chosen_as_in_nginx() {
    let (slow, quick) = (named("slow", Duration::from_millis(600)), named("quick", Duration::ZERO));
    let servers = format!(
        "stream {{
            upstream first {{ least_time first_byte; server {slow}; server {quick}; }}
            upstream last {{ least_time last_byte; server {slow}; server {quick}; }}
            upstream flight {{ least_time first_byte inflight; server {slow}; server {quick}; }}
            upstream connected {{ least_time connect; server {slow}; server {quick} down; }}
            server {{ listen 127.0.0.1:%%PORT%%; return ready; }}
            server {{ listen 127.0.0.1:%%PORT_1%%; proxy_pass first; }}
            server {{ listen 127.0.0.1:%%PORT_2%%; proxy_pass last; }}
            server {{ listen 127.0.0.1:%%PORT_3%%; proxy_pass flight; }}
            server {{ listen 127.0.0.1:%%PORT_4%%; proxy_pass connected; }}
        }}"
    );
    let site = Site::whole(&(START.to_owned() + &servers));
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        for port in 1..4 {
            let told: Vec<String> = (0..4).map(|_| rest(&mut connect(&running, port))).collect();
            assert_eq!(told, ["slow", "quick", "quick", "quick"], "{port} {server:?}");
        }
        assert_eq!(rest(&mut connect(&running, 4)), "slow");
        running.stop();
    }
}

/// A session goes on after a reload, also if its address is gone, and a new one belongs to the new configuration.
#[test]
fn a_reload_keeps_sessions() {
    let back = echo();
    let text = |servers: &str| format!("{START} stream {{ {servers} }}").replace("BACK", &back.to_string());
    let before = "server { listen 127.0.0.1:%%PORT%%; proxy_pass BACK; }
                  server { listen 127.0.0.1:%%PORT_1%%; proxy_pass BACK; }";
    let site = Site::whole(&text(before));
    let running = site.start(Server::Fulmar);
    let mut streams = [connect(&running, 0), connect(&running, 1)];
    for stream in &mut streams {
        assert_eq!(echoed(stream, "before"), "before");
    }
    running.rewrite(&text("server { listen 127.0.0.1:%%PORT%%; return after; }"));
    let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().unwrap();
    assert!(output.status.success(), "{}", running.all_logs());
    for stream in &mut streams {
        assert_eq!(echoed(stream, "still"), "still");
    }
    assert_eq!(rest(&mut connect(&running, 0)), "after");
    drop(streams);
    running.stop();
}

/// TLS ends here, for the server whose name the client asks for; what is no handshake is not passed on.
#[test]
fn encrypted_sessions() {
    let back = echo();
    let servers = "stream {
        log_format s \"$status $ssl_server_name $ssl_alpn_protocol\";
        access_log %%LOGS%%/sessions.log s;
        ssl_certificate_key %%DIR%%/a.key;
        server { listen 127.0.0.1:%%PORT_1%% ssl; ssl_certificate %%DIR%%/a.pem; proxy_pass BACK; }
        server { listen 127.0.0.1:%%PORT_1%% ssl; server_name b.example; ssl_certificate %%DIR%%/$ssl_server_name.pem;
                 return second; }
        server { listen 127.0.0.1:%%PORT%%; return ready; access_log off; }
    }";
    let made = certificate("a.example", Kind::Ecdsa);
    let site = || {
        let site = Site::whole(&(START.to_owned() + &servers.replace("BACK", &back.to_string())));
        site.in_prefix("a.pem", &made.pem).in_prefix("b.example.pem", &made.pem).in_prefix("a.key", &made.key)
    };
    let of = |server: Server| {
        let running = site().start(server);
        let mut told = Vec::new();
        for name in ["a.example", "b.example"] {
            let mut stream = tls::Client::new(Some(name)).connect(running.address_of(1)).unwrap();
            let mut read = [0; 6];
            if name == "a.example" {
                stream.write_all(b"secret").unwrap();
            }
            stream.read_exact(&mut read).unwrap();
            told.push(String::from_utf8_lossy(&read).into_owned());
        }
        let mut stream = connect(&running, 1);
        stream.write_all(b"in clear\r\n\r\n").unwrap();
        let clear = rest(&mut stream);
        assert!(!clear.contains("in clear"), "{clear}");
        let log = running.stop_and(|running| running.log("sessions.log"));
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort();
        (told, lines)
    };
    let (told, lines) = of(Server::Fulmar);
    assert_eq!(told, ["secret", "second"]);
    let expected = ["200 a.example -", "200 b.example -", "500 - -"];
    assert_eq!(lines, expected);
    if have_nginx() {
        assert_eq!(of(Server::Nginx), (told, lines));
    }
}

/// What a configuration is refused for, or warned of.
#[test]
fn what_is_not_built_is_refused_by_name() {
    let judged = |inside: &str, other: &str| {
        let text = format!("{START} stream {{ {inside} }} {other}");
        Site::whole(&text).test(Server::Fulmar).map_or_else(|told| told, |()| "accepted".to_owned())
    };
    let server = |inside: &str| format!("server {{ {inside} }}");
    for (inside, message) in [
        (server("listen 127.0.0.1:1; proxy_pass 127.0.0.1:2;"), "accepted"),
        (server("listen 127.0.0.1:1;"), "accepted"),
        (server("proxy_pass 127.0.0.1:2;"), "no \"listen\" is defined for server"),
        (server("listen 127.0.0.1; return x;"), "no port in \"127.0.0.1\" of the \"listen\" directive"),
        (server("listen 127.0.0.1:1 udp; return x;"), "accepted"),
        (
            server("listen 127.0.0.1:1 udp ssl; return x;"),
            "\"listen\" directive \"ssl\" parameter is incompatible with \"udp\"",
        ),
        (server("listen 127.0.0.1:1 ssl; return x;"), "no \"ssl_certificate\" is defined"),
        (server("listen 127.0.0.1:1 ssl; ssl_certificate auto; server_name a.example; return x;"), {
            "certificates of authorities are not built yet in \"stream\""
        }),
        (server("listen 127.0.0.1:1; pass 127.0.0.1;"), "no port in \"127.0.0.1\" of the \"pass\" directive"),
        (
            server("listen 127.0.0.1:1; pass a.example:1;"),
            "host not found in \"a.example:1\" of the \"pass\"",
        ),
        (server("listen 127.0.0.1:1; pass 127.0.0.1:1/a;"), "invalid address in \"127.0.0.1:1/a\""),
        (server("listen 127.0.0.1:1; ssl_alpn ''; return x;"), "ALPN protocol is empty in \"ssl_alpn\""),
        (server("listen 127.0.0.1:1; location / { }"), "\"location\" directive is not allowed here"),
        (server("listen 127.0.0.1:1; return $uri;"), "unknown \"uri\" variable"),
        (
            server("listen 127.0.0.1:1; proxy_pass http://127.0.0.1:2;"),
            "invalid port in \"http://127.0.0.1:2\"",
        ),
        (server("listen 127.0.0.1:1; access_log a.log; return x;"), "log format is not specified"),
        (
            server("listen 127.0.0.1:1; access_log a.log combined; return x;"),
            "unknown log format \"combined\"",
        ),
        ("upstream u { server 127.0.0.1; }".to_owned(), "no port in upstream \"127.0.0.1\""),
        ("upstream u { least_time header; server 127.0.0.1:1; }".to_owned(), "invalid value \"header\""),
        (
            "upstream u { ip_hash; server 127.0.0.1:1; }".to_owned(),
            "\"ip_hash\" directive is not allowed here",
        ),
    ] {
        let told = judged(&inside, "");
        assert!(told.contains(message), "{inside}: {told}");
    }
    // The variables of both parts are separate.
    let inside = "map $protocol $x { default 1; } server { listen 127.0.0.1:1; return $x; }";
    let other = "http { access_log off; map $uri $x { default 2; } map $uri $protocol { default 3; }
                  server { listen 127.0.0.1:LISTEN; return 200 $x$protocol; } }";
    assert_eq!(judged(inside, &other.replace("LISTEN", "2")), "accepted");
    for listen in ["127.0.0.1:LISTEN", "LISTEN"] {
        let told = judged(inside, &other.replace("127.0.0.1:LISTEN", &listen.replace("LISTEN", "1")));
        assert!(told.contains("both \"http\" and \"stream\" listen on this port"), "{told}");
    }
}
