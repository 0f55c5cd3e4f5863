//! Tunnels for clients that send CONNECT, compared with nginx.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site};

const PATIENCE: Duration = Duration::from_secs(20);

fn servers() -> &'static [Server] {
    if have_nginx() { &[Server::Fulmar, Server::Nginx] } else { &[Server::Fulmar] }
}

/// What a client reads until the end that sends these parts, each after the head of the answer to the one before.
fn told(running: &Running, port: usize, parts: &[&str]) -> String {
    let mut stream = TcpStream::connect(running.address_of(port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        stream.write_all(part.as_bytes()).unwrap();
        let mut byte = [0];
        while at + 1 < parts.len() && !got.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            got.push(byte[0]);
        }
    }
    stream.read_to_end(&mut got).unwrap();
    String::from_utf8(got).unwrap()
}

/// A text without what names the instance.
fn without_names(text: &str) -> Vec<String> {
    let is_own = |line: &&str| !line.starts_with("Server: ") && !line.starts_with("Date: ");
    text.split("\r\n").filter(is_own).map(str::to_owned).collect()
}

fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

const INSIDE: &str = "GET /inside HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n";

fn site(origin: &Origin) -> Site {
    Site::new(&format!(
        "log_format short '$request_method $status $upstream_status $host $request_port';
        access_log %%LOGS%%/access.log short;
        upstream fixed {{ server 127.0.0.1:1 max_fails=0; server {origin}; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{
                allow all;
                if ($request_method = CONNECT) {{
                    tunnel_pass;
                    error_page 502 /down;
                    break;
                }}
            }}
            location = /down {{ return 200 down; }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_1%%;
            tunnel_pass fixed;
            location = /own {{ return 204; }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_2%%;
            location / {{ deny 127.0.0.1; allow all; tunnel_pass $host:$request_port; }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_4%%;
            auth_basic proxy;
            auth_basic_user_file %%DIR%%/users;
            location / {{ add_header X-User \"[$remote_user]\"; tunnel_pass; }}
            location = /any {{ satisfy any; deny all; return 204; }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_3%%;
            location / {{ proxy_pass http://{origin}; }}
        }}",
        origin = origin.address()
    ))
    .in_prefix("users", "u:{PLAIN}p\n")
}

/// A request for a tunnel with the credentials `u:p` in this field.
fn connect_as(field: &str, target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{field}: Basic dTpw\r\n\r\n")
}

#[test]
fn tunnels_lead_where_nginx_leads_them() {
    let origin = Origin::start(|asked| {
        let answer = format!("HTTP/1.1 200 OK\r\n\r\n{} {}", asked.target, asked.text.len());
        raw(&answer, After::Close)
    });
    let target = origin.address().to_string();
    let site = site(&origin);
    let all: Vec<Vec<Vec<String>>> = servers()
        .iter()
        .map(|&server| {
            let running = site.start(server);
            let got = vec![
                told(&running, 0, &[&connect(&target), INSIDE]),
                // What follows the head at once is for the tunnel.
                told(&running, 0, &[&(connect(&target) + INSIDE)]),
                told(&running, 1, &[&connect("elsewhere.example:443"), INSIDE]),
                told(&running, 4, &[&connect_as("Proxy-Authorization", &target), INSIDE]),
            ];
            for text in &got {
                assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
                assert!(
                    text.contains("\r\n\r\nHTTP/1.1 200 OK\r\n")
                        && text.ends_with(&format!("/inside {}", INSIDE.len())),
                    "{text}"
                );
            }
            running.stop();
            got.iter().map(|text| without_names(text)).collect()
        })
        .collect();
    all.iter().for_each(|got| assert_eq!(got, &all[0]));
}

#[test]
fn what_gets_no_tunnel() {
    let origin = Origin::start(|_| ok("page"));
    let site = site(&origin);
    let all: Vec<Vec<String>> = servers()
        .iter()
        .map(|&server| {
            let running = site.start(server);
            let lines = [
                (0, connect("127.0.0.1:1")),
                (0, connect("127.0.0.1")),
                (0, connect("127.0.0.1:")),
                (0, connect(":80")),
                (0, connect("127.0.0.1:65536")),
                (0, connect("user@127.0.0.1:80")),
                (0, "CONNECT 127.0.0.1:80 HTTP/1.0\r\nHost: a\r\n\r\n".to_owned()),
                (0, "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".to_owned()),
                (
                    0,
                    "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                        .to_owned(),
                ),
                (0, "CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n".to_owned()),
                (1, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned()),
                (1, "GET /own HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned()),
                (2, connect("127.0.0.1:80")),
                (3, connect("127.0.0.1:80")),
                (4, connect("127.0.0.1:80")),
                (4, connect_as("Authorization", "127.0.0.1:80")),
                (4, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned()),
            ];
            let got = lines.iter().map(|(port, text)| {
                let answer = told(&running, *port, &[text]);
                format!("{text:?}: {}", answer.lines().next().unwrap_or_default())
            });
            let got = got.collect();
            running.stop();
            got
        })
        .collect();
    all.iter().for_each(|got| assert_eq!(got, &all[0]));
    assert!(
        all[0][0].ends_with("HTTP/1.1 502 Bad Gateway") && all[0][13].contains(": HTTP/1.1 405"),
        "{:?}",
        all[0]
    );
}

/// nginx opens a tunnel to anything here, for anyone.
#[test]
fn a_tunnel_that_no_rule_opens_is_closed() {
    let origin = Origin::start(|_| raw("HTTP/1.1 200 OK\r\n\r\npage", After::Close));
    let target = origin.address().to_string();
    for (rule, status) in [
        ("", 403),
        ("auth_request off;", 403),
        ("allow all;", 200),
        ("allow 127.0.0.1; deny all;", 200),
        ("deny all;", 403),
        ("auth_basic off; auth_basic_user_file %%DIR%%/users;", 403),
        ("auth_basic realm;", 403),
        ("auth_basic realm; auth_basic_user_file %%DIR%%/users;", 407),
    ] {
        for at in ["", "location / "] {
            let (open, close) = if at.is_empty() { ("", "") } else { ("{", "}") };
            let site = Site::new(&format!(
                "server {{
                    listen 127.0.0.1:%%PORT%%;
                    {rule}
                    {at}{open} tunnel_pass; {close}
                }}"
            ));
            let site = site.in_prefix("users", "");
            assert_eq!(told_status(&site, &target), format!("HTTP/1.1 {status}"), "{rule} {at}");
        }
    }
    assert_eq!(origin.connections(), 4);
}

/// The status line that a client of Fulmar gets that asks for a tunnel.
fn told_status(site: &Site, target: &str) -> String {
    let running = site.start(Server::Fulmar);
    let answer = told(&running, 0, &[&connect(target), INSIDE]);
    running.stop();
    answer.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn bodies_are_read_early() {
    let origin =
        Origin::start(|asked| ok(asked.text.split(|&byte| byte == b'\n').next_back().unwrap_or_default()));
    let site = Site::new(&format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            client_max_body_size 20;
            client_body_early_read $http_x_early $arg_early;
            if ($request_body ~ secret) {{ return 403; }}
            location / {{ return 200 '[$request_body]'; }}
            location /large/ {{ client_max_body_size 1m; proxy_pass http://{origin}; }}
            location /passed/ {{ proxy_pass http://{origin}; }}
            location /streamed/ {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://{origin}; }}
            location /again/ {{ rewrite ^ /passed/ last; }}
        }}",
        origin = origin.address()
    ));
    let long = format!("POST /large/\nX-Early: 1\n\n{}", "x".repeat(30));
    let late = format!("POST /large/\nX-Early: 0\n\n{}", "x".repeat(30));
    let running = site.start(Server::Fulmar);
    for (case, status, text) in [
        ("POST /\nX-Early: 1\n\ntext", 200, "[text]"),
        ("POST /?early=1\n\ntext", 200, "[text]"),
        ("POST /\nX-Early: 0\n\ntext", 200, "[]"),
        ("POST /\n\ntext", 200, "[]"),
        ("POST /\nX-Early: 1\n\na secret", 403, ""),
        ("POST /\n\na secret", 200, "[]"),
        ("GET /\nX-Early: 1", 200, "[]"),
        ("POST /passed/\nX-Early: 1\n\ntext", 200, "text"),
        ("POST /streamed/\nX-Early: 1\n\ntext", 200, "text"),
        ("POST /again/\nX-Early: 1\n\ntext", 200, "text"),
        (&long, 413, ""),
        (&late, 200, &"x".repeat(30)),
    ] {
        let answer = running.ask(case);
        assert_eq!(answer.last().status, status, "{case}");
        assert!(status != 200 || answer.last().text() == text, "{case}: {}", answer.last().text());
    }
    running.stop();
}

/// More than the sockets on the way hold.
const FLOOD_MAX: usize = 256 * 1024 * 1024;

/// Sends a pattern until nothing more is taken, and returns how many bytes were.
fn flood(mut stream: &TcpStream) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let pattern: Vec<u8> = (0..=250).cycle().take(251 * 256).collect();
    let mut sent = 0;
    while sent < FLOOD_MAX {
        match stream.write(&pattern[sent % 251..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return sent,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing holds the sender back")
}

/// Reads so many bytes of the pattern.
fn drain(mut stream: &TcpStream, count: usize) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut got, mut room) = (0, vec![0; 64 * 1024]);
    while got < count {
        let read = stream.read(&mut room).unwrap();
        assert!(read > 0, "the tunnel ends after {got} of {count} bytes");
        let is_right = |(at, &byte): (usize, &u8)| usize::from(byte) == (got + at) % 251;
        assert!(room[..read].iter().enumerate().all(is_right), "after {got} bytes");
        got += read;
    }
    assert_eq!(got, count);
}

#[test]
fn a_tunnel_holds_back_both_sides_and_loses_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let site = Site::new(
        "log_format sent 'sent $bytes_sent;'; access_log %%LOGS%%/access.log sent;
         server { listen 127.0.0.1:%%PORT%%; allow all; tunnel_pass; }",
    );
    for &server in servers() {
        let running = site.start(server);
        let mut client = TcpStream::connect(running.address()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(connect(&target).as_bytes()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (0, [0; 4]);
        while byte != *b"\r\n\r\n" {
            byte.rotate_left(1);
            client.read_exact(&mut byte[3..]).unwrap();
            head += 1;
        }
        let (down, up) = thread::scope(|scope| {
            let up = scope.spawn(|| flood(&client));
            (flood(&peer), up.join().unwrap())
        });
        thread::scope(|scope| {
            scope.spawn(|| drain(&peer, up));
            drain(&client, down);
        });
        drop((client, peer));
        running.wait_for_log("access.log", &format!("sent {};", head + down));
        running.stop();
    }
}
