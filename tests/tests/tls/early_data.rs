//! Requests that come with the first message of a connection (RFC 8446, section 2.3; RFC 8470).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::StreamOwned;
use rustls::version::TLS13;
use tests::binary::Server;
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};
use tests::tls::{Client, Kind, certificate};

const LIMIT: Duration = Duration::from_secs(30);

fn site(settings: &str, origin: &Origin) -> Site {
    let settings = if settings.is_empty() { "ssl_early_data on;" } else { settings };
    let made = certificate("a.example", Kind::Ecdsa);
    Site::new(&format!(
        "server {{ listen %%PORT%% ssl; http2 on; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key; \
         {settings} \
         location / {{ return 200 \"early:$ssl_early_data reused:$ssl_session_reused\\n\"; }} \
         location /strict {{ if ($ssl_early_data) {{ return 425; }} return 204; }} \
         location /set/ {{ proxy_set_header Early-Data \"set:$ssl_early_data\"; proxy_pass http://{origin}; }} \
         location /passed/ {{ proxy_pass http://{origin}; }} }}",
        origin = origin.address()
    ))
    .in_prefix("a.pem", &made.pem)
    .in_prefix("a.key", &made.key)
}

/// A server that tells the field it gets.
fn origin() -> Origin {
    Origin::start(|asked| {
        let text = String::from_utf8_lossy(&asked.text);
        let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("early-data"));
        ok(line.unwrap_or("none"))
    })
}

fn client() -> Client {
    Client::with(Some("a.example"), &[&TLS13], Kind::Ecdsa).eager()
}

/// What comes back for early data until this text is there, or the connection ends.
fn answer(running: &Running, client: &Client, bytes: &[u8], end: &str) -> String {
    let (first, connection) = client.early(bytes).expect("a session that allows early data");
    let mut stream = TcpStream::connect(running.address()).expect("connect");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.write_all(&first).expect("sent");
    let mut stream = StreamOwned::new(connection, stream);
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&received).contains(end) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
        }
    }
    assert!(stream.conn.is_early_data_accepted(), "{}", String::from_utf8_lossy(&received));
    String::from_utf8_lossy(&received).into_owned()
}

/// Has a handshake, so that the client has a session.
fn prepare(running: &Running, client: &Client) {
    let answer = client.ask(running.address(), "GET / HTTP/1.1").expect("an answer").answer;
    assert!(answer.last().text().starts_with("early: reused:"), "{}", answer.last().text());
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").into_bytes()
}

#[test]
fn request_with_the_first_message_is_answered_and_marked() {
    let origin = origin();
    let running = site("", &origin).start(Server::Fulmar);
    for (path, expected) in [
        ("/", "early:1 reused:r"),
        ("/strict", "HTTP/1.1 425"),
        ("/set/x", "Early-Data: set:1"),
        ("/passed/x", "Early-Data: 1"),
    ] {
        let client = client();
        prepare(&running, &client);
        let text = answer(&running, &client, &get(path), expected);
        assert!(text.contains(expected), "{path}: {text}\n{}", running.all_logs());
    }
    let client = client();
    prepare(&running, &client);
    let late = client.ask(running.address(), "GET /passed/x HTTP/1.1").expect("an answer");
    assert_eq!((late.resumed, late.answer.last().text().as_str()), (true, "none"));
    running.stop();
}

#[test]
fn early_data_may_be_http2() {
    let origin = origin();
    let running = site("", &origin).start(Server::Fulmar);
    let client = client().offering(&["h2"]);
    {
        let mut stream = client.connect(running.address()).expect("a handshake");
        // The session comes after the handshake, with the server's settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("sent");
        assert!(stream.read(&mut [0; 9]).expect("settings") > 0);
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let block = [&[0x82, 0x84, 0x87, 0x41, 9][..], b"a.example"].concat();
    bytes.extend([0, 0, u8::try_from(block.len()).expect("short"), 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let text = answer(&running, &client, &bytes, "reused:r");
    assert!(text.contains("early:1 reused:r"), "{text}\n{}", running.all_logs());
    running.stop();
}

#[test]
fn replayed_first_message_reaches_nothing() {
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    let origin = Origin::start(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        ok(b"once")
    });
    for settings in ["ssl_early_data on;", "ssl_early_data on; ssl_session_cache shared:S:1m;"] {
        let running = site(settings, &origin).start(Server::Fulmar);
        let client = client();
        prepare(&running, &client);
        let (first, connection) = client.early(&get("/passed/once")).expect("a session");
        let before = count.load(Ordering::SeqCst);
        for is_replay in [false, true, true] {
            let mut stream = TcpStream::connect(running.address()).expect("connect");
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            stream.write_all(&first).expect("sent");
            if is_replay {
                stream.shutdown(Shutdown::Write).expect("the end");
            }
            // A server that answers early data closes, and one that ignores it has nothing to go on with.
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            assert!(!received.is_empty());
        }
        drop(connection);
        assert_eq!(count.load(Ordering::SeqCst) - before, 1, "{settings}");
        running.stop();
    }
}

#[test]
fn early_data_is_off_by_default_and_where_clients_are_checked() {
    let origin = origin();
    for settings in [
        "ssl_early_data off;",
        "ssl_early_data on; ssl_verify_client optional; ssl_client_certificate %%DIR%%/a.pem;",
    ] {
        let running = site(settings, &origin).start(Server::Fulmar);
        let client = client();
        prepare(&running, &client);
        assert!(client.early(b"x").is_none(), "{settings}");
        running.stop();
    }
}
