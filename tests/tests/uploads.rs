//! Bodies of requests that are passed on while they come, and clients that leave. What can be compared is asked of
//! nginx, too.

use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::raw::{Peer, Raw};
use tests::site::{Running, Site};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(10);
const STREAMS: &str = "proxy_request_buffering off;";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

/// A server in front of one that the test plays, with these settings.
fn start(server: Server, raw: &Raw, settings: &str) -> Running {
    let http = format!(
        "log_format up '$status $upstream_status';
         access_log %%LOGS%%/access.log up;
         upstream u {{ server {address}; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{ proxy_pass http://u; {settings} }}
         }}",
        address = raw.address()
    );
    Site::new(&http).start(server)
}

/// Plays a scene in front of Fulmar, and of nginx where there is one, with a server behind that the test plays.
fn each(settings: &str, scene: impl Fn(&Running, &Raw)) {
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let raw = Raw::listen();
        let running = start(server, &raw, settings);
        scene(&running, &raw);
        running.stop();
    }
}

fn send(running: &Running, text: &str) -> Client {
    let mut client = running.connect();
    assert!(client.send(text.as_bytes()));
    client
}

fn head(peer: &mut Peer) -> String {
    peer.until("\r\n\r\n")
}

#[test]
fn a_body_goes_on_as_it_comes() {
    each(STREAMS, |running, raw| {
        let mut client = send(running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
        let mut peer = raw.accept();
        let text = head(&mut peer);
        assert!(text.contains("Content-Length: 10\r\n") && !text.contains("Transfer-Encoding"), "{text}");
        for part in ["abc", "defg", "hij"] {
            client.send(part.as_bytes());
            assert_eq!(peer.until(part), part);
        }
        peer.send(ANSWER);
        assert_eq!(client.response("POST").unwrap().text(), "good");
        client.send(b"GET /y HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(head(&mut peer).starts_with("GET /y "), "both connections are kept");
        peer.send(ANSWER);
        assert_eq!(client.response("GET").unwrap().status, 200);
    });
}

#[test]
fn chunks_go_on_as_chunks() {
    each(STREAMS, |running, raw| {
        let mut client = send(running, "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut peer = raw.accept();
        let text = head(&mut peer);
        assert!(
            text.contains("Transfer-Encoding: chunked\r\n") && !text.contains("Content-Length"),
            "{text}"
        );
        client.send(b"3;x=y\r\nabc\r\n2\r\nde\r\n");
        assert_eq!(peer.until("abcde\r\n"), "5\r\nabcde\r\n");
        client.send(b"a\r\n01234");
        assert_eq!(peer.until("01234\r\n"), "5\r\n01234\r\n");
        client.send(b"56789\r\n0\r\nTrailer: x\r\n\r\n");
        assert_eq!(peer.until("0\r\n\r\n"), "5\r\n56789\r\n0\r\n\r\n");
        peer.send(ANSWER);
        assert_eq!(client.response("PUT").unwrap().status, 200);
    });
}

#[test]
fn what_is_whole_at_once_has_a_length() {
    each(STREAMS, |running, raw| {
        let text = "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let mut client = send(running, text);
        let mut peer = raw.accept();
        let text = head(&mut peer);
        assert!(text.contains("Content-Length: 3\r\n"), "{text}");
        assert_eq!(peer.until("abc"), "abc");
        peer.send(ANSWER);
        assert_eq!(client.response("PUT").unwrap().status, 200);
    });
}

#[test]
fn http_1_0_has_no_chunks() {
    each("proxy_request_buffering off; proxy_http_version 1.0;", |running, raw| {
        let mut client = send(running, "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(b"3\r\nabc\r\n");
        client.send(b"2\r\nde\r\n0\r\n\r\n");
        let mut peer = raw.accept();
        assert!(head(&mut peer).contains("Content-Length: 5\r\n"));
        assert_eq!(peer.until("abcde"), "abcde");
        peer.send(ANSWER);
        assert_eq!(client.response("PUT").unwrap().status, 200);
    });
}

#[test]
fn leave_to_send_comes_before_the_server_is_asked() {
    each(STREAMS, |running, raw| {
        let text = "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        let mut client = send(running, text);
        assert_eq!(client.response("POST").unwrap().status, 100);
        let mut peer = raw.accept();
        assert!(!head(&mut peer).contains("Expect"));
        client.send(b"abc");
        assert_eq!(peer.until("abc"), "abc");
        peer.send(ANSWER);
        assert_eq!(client.response("POST").unwrap().status, 200);
    });
}

/// Sends zeros until they are not taken any more, or so many went; tells how many.
fn pour(stream: &mut TcpStream, limit: u64) -> u64 {
    let zeros = vec![0; 65536];
    let mut poured = 0;
    while poured < limit {
        let wanted = usize::try_from(limit - poured).unwrap().min(zeros.len());
        match stream.write(&zeros[..wanted]) {
            Ok(count) => poured += count as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("after {poured} bytes: {error}"),
        }
    }
    poured
}

#[test]
fn a_slow_server_makes_the_client_wait() {
    const LENGTH: u64 = 200_000_000;
    let settings = "proxy_request_buffering off; client_max_body_size 0;";
    each(settings, |running, raw| {
        let before = running.peak_bytes();
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        write!(stream, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n").unwrap();
        let mut peer = raw.accept();
        head(&mut peer);
        let poured = pour(&mut stream, LENGTH);
        assert!(poured < LENGTH / 2, "{poured} bytes were taken that nobody wanted");
        let reading = std::thread::spawn(move || {
            let taken = peer.skip(LENGTH);
            peer.send(ANSWER);
            (peer, taken)
        });
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(poured + pour(&mut stream, LENGTH - poured), LENGTH);
        let (_peer, taken) = reading.join().unwrap();
        assert_eq!(taken, LENGTH);
        let grown = running.peak_bytes() - before;
        assert!(grown < LENGTH / 5, "{grown} bytes of memory");
    });
}

#[test]
fn an_early_answer_is_passed_on_and_ends_the_connection() {
    each(STREAMS, |running, raw| {
        let mut client = send(running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
        let mut peer = raw.accept();
        head(&mut peer);
        assert_eq!(peer.until("abc"), "abc");
        peer.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
        let answer = client.response("POST").unwrap();
        assert_eq!((answer.status, answer.text()), (403, "no".to_owned()));
        assert!(client.closes_within(PATIENCE), "the client learns that the rest is not wanted");
        assert!(peer.ends());
    });
}

#[test]
fn the_page_of_an_error_gets_no_rest_of_a_body() {
    let raw = Raw::listen();
    let settings = format!("{STREAMS} proxy_intercept_errors on; error_page 502 = /page;");
    let running = start(Server::Fulmar, &raw, &settings);
    let mut client = send(&running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\npart");
    let mut peer = raw.accept();
    peer.until("part");
    peer.send("HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n");
    let mut page = raw.accept();
    let head = head(&mut page);
    assert!(head.starts_with("GET /page ") && !head.contains("Content-Length: 8"), "{head}");
    page.send(ANSWER);
    assert_eq!(client.response("POST").map(|answer| answer.status), Some(200));
    running.stop();
}

#[test]
fn a_body_goes_on_beside_the_answer() {
    for buffering in ["on", "off"] {
        each(&format!("{STREAMS} proxy_buffering {buffering};"), |running, raw| {
            if buffering == "on" && running.server() == Server::Nginx {
                // It sends no part of what it buffers.
                return;
            }
            let mut client =
                send(running, "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            let mut peer = raw.accept();
            head(&mut peer);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab");
            assert!(wait::until(PATIENCE, || {
                client.read_some(4096);
                client.rest().ends_with(b"ab")
            }));
            client.send(b"3\r\nxyz\r\n0\r\n\r\n");
            assert!(peer.until("0\r\n\r\n").contains("xyz"));
            peer.send("cdef");
            assert_eq!(client.response("POST").unwrap().text(), "abcdef");
        });
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_frees_the_server() {
    each(STREAMS, |running, raw| {
        for half in [false, true] {
            let mut client = send(running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
            let mut peer = raw.accept();
            head(&mut peer);
            peer.until("abc");
            client.finish();
            if !half {
                drop(client);
            }
            assert!(peer.ends());
        }
        assert!(wait::until(PATIENCE, || running.log("access.log").matches("400 ").count() == 2));
    });
}

#[test]
fn a_client_that_stalls_in_the_middle_frees_the_server() {
    each("proxy_request_buffering off; client_body_timeout 1s;", |running, raw| {
        let mut client = send(running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
        let mut peer = raw.accept();
        head(&mut peer);
        assert!(peer.ends());
        assert!(client.closes_within(PATIENCE) && client.rest().is_empty());
        running.wait_for_log("access.log", "408 ");
    });
}

#[test]
fn too_many_chunks_are_refused_when_they_come() {
    each("proxy_request_buffering off; client_max_body_size 10;", |running, raw| {
        let mut client = send(
            running,
            "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n",
        );
        let mut peer = raw.accept();
        head(&mut peer);
        peer.until("01234567");
        client.send(b"8\r\n01234567\r\n");
        assert_eq!(client.response("POST").unwrap().status, 413);
        assert!(peer.ends() && !peer.rest().ends_with(b"0\r\n\r\n"), "the body is not taken for whole");
        running.wait_for_log("error.log", "client intended to send too large chunked body");
        assert!(client.closes_within(PATIENCE));
    });
}

#[test]
fn broken_chunks_are_refused_when_they_come() {
    each(STREAMS, |running, raw| {
        let mut client =
            send(running, "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        let mut peer = raw.accept();
        head(&mut peer);
        peer.until("abc\r\n");
        client.send(b"zz\r\n");
        assert_eq!(client.response("POST").unwrap().status, 400);
        assert!(peer.ends() && peer.rest().is_empty());
    });
}

#[test]
fn a_server_that_dies_in_the_middle_is_502_and_one_line() {
    let (first, second) = (Raw::listen(), Raw::listen());
    let http = format!(
        "upstream u {{ server {}; server {} backup; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{ proxy_pass http://u; {STREAMS} proxy_next_upstream error timeout non_idempotent; }}
         }}",
        first.address(),
        second.address()
    );
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = Site::new(&http).start(server);
        let mut client = send(&running, "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
        let mut peer = first.accept();
        head(&mut peer);
        peer.until("abc");
        drop(peer);
        assert_eq!(client.response("PUT").unwrap().status, 502);
        let log = running.log("error.log");
        assert_eq!(log.matches("[error]").count(), 1, "{log}");
        assert!(second.pending().is_none(), "no other server is asked");
        running.stop();
    }
}

#[test]
fn a_server_that_refuses_costs_nothing() {
    let raw = Raw::listen();
    let http = format!(
        "upstream u {{ server 127.0.0.1:1; server {} backup; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{ proxy_pass http://u; {STREAMS} }}
             location /dead {{ proxy_pass http://127.0.0.1:1; {STREAMS} error_page 502 = @good; }}
             location @good {{ proxy_pass http://u; }}
         }}",
        raw.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    for path in ["/", "/dead"] {
        let mut client =
            send(&running, &format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc"));
        let mut peer = raw.accept();
        head(&mut peer);
        assert_eq!(peer.until("abc"), "abc");
        client.send(b"def");
        assert_eq!(peer.until("def"), "def");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response("POST").unwrap().status, 200, "{path}");
    }
    running.stop();
}

#[test]
fn a_kept_connection_that_takes_nothing_costs_the_body_no_part() {
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let site = Site::new(
            "upstream u { server unix:%%ROOT%%/socket; keepalive 2; }
             server {
                 listen 127.0.0.1:%%PORT%%;
                 location / {
                     proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection '';
                     proxy_request_buffering off; proxy_read_timeout 1s;
                 }
             }",
        );
        let path = site.root().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("permissions");
        let running = site.start(server);
        let mut client = send(&running, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut peer, _) = listener.accept().expect("a connection");
        peer.write_all(ANSWER.as_bytes()).expect("send");
        assert_eq!(client.response("GET").unwrap().status, 200);
        // A write now fails with a broken pipe, and a read waits.
        peer.shutdown(Shutdown::Read).expect("shutdown");
        client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        assert_eq!(client.response("PUT").map(|response| response.status), Some(502), "{server:?}");
        listener.set_nonblocking(true).expect("nonblocking");
        assert!(listener.accept().is_err(), "the rest of a body went to another connection");
        running.stop();
    }
}

#[test]
fn a_body_that_is_gone_is_not_taken_for_an_empty_one() {
    let raw = Raw::listen();
    let http = format!(
        "server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{ proxy_pass http://{0}; {STREAMS} error_page 502 = @other; }}
             location @other {{ proxy_pass http://{0}; }}
         }}",
        raw.address()
    );
    let running = Site::new(&http).start(Server::Fulmar);
    let mut client = send(&running, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    let mut peer = raw.accept();
    peer.until("abc");
    drop(peer);
    assert_eq!(client.response("POST").unwrap().status, 502);
    assert!(raw.pending().is_none());
    running.wait_for_log("error.log", "the body of the request was passed on to another server already");
    running.stop();
}

#[test]
fn an_application_gets_the_body_as_it_comes() {
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let raw = Raw::listen();
        let site = Site::new(&format!(
            "server {{
                 listen 127.0.0.1:%%PORT%%;
                 fastcgi_param CONTENT_LENGTH $content_length;
                 location / {{ fastcgi_pass {}; fastcgi_request_buffering off; }}
             }}",
            raw.address()
        ));
        let running = site.start(server);
        for (framing, parts) in [
            ("Content-Length: 6", ["abc", "def"]),
            ("Transfer-Encoding: chunked", ["3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"]),
        ] {
            let mut client = send(&running, &format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
            let mut peer = raw.accept();
            let length = if framing.starts_with("Content") { "CONTENT_LENGTH6" } else { "CONTENT_LENGTH" };
            peer.until(length);
            client.send(parts[0].as_bytes());
            peer.until("\0\x03\x05\0abc");
            client.send(parts[1].as_bytes());
            peer.until("\0\x03\x05\0def");
            peer.until("\x01\x05\0\x01\0\0\0\0");
            peer.send("\x01\x06\0\x01\0\x06\0\0\r\ngood\x01\x06\0\x01\0\0\0\0\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0");
            // nginx wants to see the end.
            drop(peer);
            assert_eq!(client.response("POST").unwrap().text(), "good");
        }
        running.stop();
    }
}

#[test]
fn a_client_that_closed_its_side_has_left() {
    each("", |running, raw| {
        let mut client = send(running, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = raw.accept();
        head(&mut peer);
        client.finish();
        assert!(peer.ends());
        assert!(client.closes_within(PATIENCE) && client.rest().is_empty());
        running.wait_for_log("access.log", "499 -");
    });
}

#[test]
fn a_client_that_closed_its_side_is_answered_where_leaving_is_ignored() {
    for buffering in ["on", "off"] {
        each(&format!("proxy_ignore_client_abort on; proxy_buffering {buffering};"), |running, raw| {
            let mut client = send(running, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
            client.finish();
            let mut peer = raw.accept();
            head(&mut peer);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
            peer.send("good");
            assert_eq!(client.response("POST").unwrap().text(), "good");
            running.wait_for_log("access.log", "200 200");
        });
    }
}

#[test]
fn a_request_goes_on_without_the_client_where_leaving_is_ignored() {
    each("proxy_ignore_client_abort on;", |running, raw| {
        let client = send(running, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = raw.accept();
        head(&mut peer);
        drop(client);
        peer.send(ANSWER);
        running.wait_for_log("access.log", "200 200");
    });
}

#[test]
fn an_application_goes_on_without_the_client_where_leaving_is_ignored() {
    for (settings, line) in [("", "499"), ("fastcgi_ignore_client_abort on;", "200")] {
        let raw = Raw::listen();
        let site = Site::new(&format!(
            "log_format status '$status'; access_log %%LOGS%%/access.log status;
             server {{ listen 127.0.0.1:%%PORT%%; location / {{ fastcgi_pass {}; {settings} }} }}",
            raw.address()
        ));
        let running = site.start(Server::Fulmar);
        let mut client = send(&running, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        client.finish();
        let mut peer = raw.accept();
        if line == "499" {
            assert!(peer.ends());
        } else {
            peer.until("\x01\x05\0\x01\0\0\0\0");
            peer.send("\x01\x06\0\x01\0\x06\0\0\r\ngood\x01\x06\0\x01\0\0\0\0\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0");
            assert_eq!(client.response("GET").unwrap().text(), "good");
        }
        running.wait_for_log("access.log", line);
        running.stop();
    }
}

#[test]
fn a_tunnel_ends_when_both_sides_have_ended() {
    let upgrade = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    each(upgrade, |running, raw| {
        for client_ends in [true, false] {
            let mut client =
                send(running, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n");
            let mut peer = raw.accept();
            head(&mut peer);
            peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n");
            assert_eq!(client.response("GET").unwrap().status, 101);
            client.send(b"question");
            peer.until("question");
            peer.send("answer");
            if client_ends {
                client.finish();
                assert!(peer.ends(), "the server does not get the end");
                peer.finish();
            } else {
                peer.finish();
            }
            assert!(client.closes_within(PATIENCE), "the client's side stays open");
            assert_eq!(client.rest(), b"answer");
            client.finish();
            assert!(peer.ends(), "the server's side stays open");
        }
    });
}
