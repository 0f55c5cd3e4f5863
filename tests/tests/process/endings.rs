//! How connections end: nothing that was answered is lost, and the log says how much was sent.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tests::binary::{Server, have_nginx};
use tests::client;
use tests::crowd::slow_reader;
use tests::site::{Running, Site};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(10);

/// Larger than what the kernel holds for a client that reads slowly.
const LARGE: usize = 16 << 20;

fn site() -> Site {
    Site::new(
        r#"
        log_format sent "$request_uri $status $bytes_sent $body_bytes_sent";
        access_log %%LOGS%%/sent.log sent;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /read/ { alias %%ROOT%%/; sendfile off; }
            location /slow/ { alias %%ROOT%%/; limit_rate 100k; }
        }
        "#,
    )
    .file("large", vec![b'x'; LARGE])
    .file("small", vec![b'y'; 60_000])
}

/// The servers that are to behave alike.
fn servers() -> Vec<Server> {
    if have_nginx() { vec![Server::Nginx, Server::Fulmar] } else { vec![Server::Fulmar] }
}

/// A client that has little room.
fn narrow(address: SocketAddr) -> TcpStream {
    let stream = slow_reader(address);
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

/// Reads so many bytes at least.
fn read(stream: &mut TcpStream, wanted: usize) -> usize {
    let (mut buffer, mut count) = (vec![0; 16 << 10], 0);
    while count < wanted {
        match client::read(stream, &mut buffer) {
            Ok(more @ 1..) => count += more,
            end => panic!("{end:?} after {count} bytes"),
        }
    }
    count
}

/// Reads up to the end; how much came, and whether that was an end and no reset.
fn read_to_end(stream: &mut TcpStream) -> (usize, bool) {
    let (mut buffer, mut count) = (vec![0; 16 << 10], 0);
    loop {
        match client::read(stream, &mut buffer) {
            Ok(0) => return (count, true),
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (count, false),
            Err(error) => panic!("{error} after {count} bytes"),
        }
    }
}

/// To close while something is there that nobody read would reset the connection, and take along what the client
/// has not received yet.
#[test]
fn what_a_client_sends_during_a_last_answer_costs_it_nothing() {
    for server in servers() {
        let running = site().start(server);
        for path in ["/large", "/read/large"] {
            let mut client = narrow(running.address());
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.write_all(request.as_bytes()).expect("send");
            let before = read(&mut client, 100_000);
            client.write_all(b"GET /small HTTP/1.1\r\n").expect("send");
            let (count, ended) = read_to_end(&mut client);
            assert!(ended && before + count > LARGE, "{} {path}: {}", server.name(), before + count);
        }
        running.stop();
    }
}

/// Nor does what stands after the last request, where the first piece that the server reads ends with that one: so
/// much is read at first.
#[test]
fn what_stands_behind_a_last_request_costs_nothing() {
    const FIRST_PIECE: usize = 16 * 1024;
    for server in servers() {
        let running = site().start(server);
        let first = "GET /none HTTP/1.1\r\nHost: a\r\nX: x\r\n\r\n";
        let last = "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let mut requests = first.replace('x', &"x".repeat(7000)).repeat(2);
        let rest = FIRST_PIECE - requests.len() - last.len() - (first.len() - 1);
        requests.push_str(&first.replace('x', &"x".repeat(rest)));
        requests.push_str(last);
        assert_eq!(requests.len(), FIRST_PIECE);
        let mut client = narrow(running.address());
        client.write_all(format!("{requests}{}", "z".repeat(40_000)).as_bytes()).expect("send");
        let (count, ended) = read_to_end(&mut client);
        assert!(ended && count > 60_000, "{}: {count}", server.name());
        // Who lingers does so for as long as the client is there.
        drop(client);
        running.stop();
    }
}

/// The log has the bytes that were sent to a client that leaves in the middle, for those who count traffic.
#[test]
fn a_download_that_is_broken_off_is_logged_with_what_was_sent() {
    for server in servers() {
        let running = site().start(server);
        for path in ["/large", "/read/large", "/slow/large"] {
            let mut client = narrow(running.address());
            client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("send");
            let read = read(&mut client, 50_000);
            set_socket_linger(&client, Some(Duration::ZERO)).expect("a reset");
            drop(client);
            let (sent, body) = logged(&running, path);
            let head = sent.checked_sub(body).expect("a head");
            assert!((100..1000).contains(&head), "{} {path}: {sent} {body}", server.name());
            assert!((read..LARGE).contains(&sent), "{} {path}: {sent}, {read} were read", server.name());
        }
        running.stop();
    }
}

/// How many bytes the log says were sent for a path, and of its content.
fn logged(running: &Running, path: &str) -> (usize, usize) {
    running.wait_for_log("sent.log", &format!("{path} 200"));
    let log = running.log("sent.log");
    let line = log.lines().find(|line| line.starts_with(&format!("{path} "))).expect("a line");
    let mut numbers = line.split(' ').skip(2).map(|number| number.parse().expect("a number"));
    (numbers.next().expect("all bytes"), numbers.next().expect("those of the content"))
}

/// `reset_timedout_connection` counts for a last answer as for all others, also where it was in memory.
#[test]
fn a_client_that_takes_no_last_answer_is_reset() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%% sndbuf=4096;
            root %%ROOT%%;
            open_file_cache max=10;
            send_timeout 1s;
            location /reset/ { alias %%ROOT%%/; reset_timedout_connection on; }
            location /status { stub_status; }
        }
        "#,
    );
    let running = site.file("small", vec![b'y'; 60_000]).start(Server::Fulmar);
    for (path, reset) in [("/reset/small", true), ("/small", false)] {
        let mut client = narrow(running.address());
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).expect("send");
        let alone = || running.ask("GET /status").last().text().starts_with("Active connections: 1 ");
        // The client cannot see it: what was sent before it did not take.
        assert!(wait::until(PATIENCE, || !alone()) && wait::until(PATIENCE, alone), "{path}");
        let (count, ended) = read_to_end(&mut client);
        assert!(count < 60_000 && ended != reset, "{path}: {count} {ended}");
    }
    running.stop();
}
