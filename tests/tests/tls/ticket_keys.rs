//! Keys of tickets that files hold (`ssl_session_ticket_key`), identifiers of sessions, and what commands of OpenSSL's
//! configuration change.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use rustls::version::{TLS12, TLS13};
use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};
use tests::tls::{Client, Kind, certificate};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(60);

/// Two servers with keys of files, at separate addresses, as two machines would have them.
const SERVERS: &str = r#"
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    server {
        listen %%PORT%% ssl;
        ssl_session_ticket_key %%DIR%%/first;
        ssl_session_ticket_key %%DIR%%/second;
        return 200 "$ssl_session_reused|$ssl_session_id\n";
    }
    server {
        listen %%PORT_1%% ssl;
        ssl_session_timeout 10m;
        ssl_session_ticket_key %%DIR%%/second;
        return 200 "$ssl_session_reused|$ssl_session_id\n";
    }
    server {
        listen %%PORT_2%% ssl;
        ssl_session_tickets off;
        ssl_session_cache shared:SSL:1m;
        return 200 "$ssl_session_reused|$ssl_session_id\n";
    }
    server {
        listen %%PORT_3%% ssl;
        ssl_session_tickets off;
        return 200 "$ssl_session_reused|$ssl_session_id\n";
    }
"#;

fn site(text: &str) -> Site {
    let made = certificate("a.example", Kind::Ecdsa);
    let other = certificate("other.example", Kind::Ecdsa);
    let files = [
        ("a.pem", made.pem.as_str()),
        ("a.key", &made.key),
        ("other.pem", &other.pem),
        ("other.key", &other.key),
        ("first", &"1".repeat(80)),
        ("second", &"2".repeat(48)),
        ("third", &"3".repeat(80)),
    ];
    files.iter().fold(Site::new(text), |site, (name, text)| site.in_prefix(name, text))
}

/// How a session was resumed, and its identifier.
fn session(client: &Client, running: &Running, port: usize) -> (String, String) {
    let spoken = client.ask(running.address_of(port), "GET /").expect("an answer");
    let text = spoken.answer.last().text();
    let (reused, id) = text.trim_end().split_once('|').expect("two values");
    assert_eq!(spoken.resumed, reused == "r", "{text}");
    (reused.to_owned(), id.to_owned())
}

#[test]
fn sessions_go_from_server_to_server_and_outlast_a_rotation() {
    let site = site(SERVERS);
    let running = site.start(Server::Fulmar);
    for version in [&TLS12, &TLS13] {
        let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa);
        let (reused, id) = session(&client, &running, 1);
        assert!(reused == "." && id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        // The first server has the key of the second one as its second one, and seals with another one.
        assert_eq!(session(&client, &running, 0), ("r".to_owned(), id.clone()), "{version:?}");
        assert_eq!(session(&client, &running, 0), ("r".to_owned(), id.clone()), "{version:?}");
        let (reused, other) = session(&client, &running, 1);
        assert!(reused == "." && other != id, "the second server does not have the key of the first one");
    }
    let client = Client::new(Some("a.example"));
    let (_, id) = session(&client, &running, 0);
    let kept = Client::new(Some("a.example"));
    let mut stream = kept.connect(running.address()).expect("a connection that stays");
    fs::copy(site.prefix().join("first"), site.prefix().join("second")).expect("a rotation");
    fs::copy(site.prefix().join("third"), site.prefix().join("first")).expect("a rotation");
    running.signal(Signal::HUP);
    // The new key seals as soon as the second server opens nothing that the first one seals.
    let is_rotated = || {
        let other = Client::new(Some("a.example"));
        session(&other, &running, 1);
        session(&other, &running, 0).0 == "r"
    };
    assert!(wait::until(LIMIT, is_rotated), "{}", running.all_logs());
    assert_eq!(session(&client, &running, 0), ("r".to_owned(), id), "the earlier key opens");
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.0\r\n\r\n").expect("the connection is there");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "a rotation ends no connection: {text}");
    running.stop();
}

#[test]
fn kept_sessions_have_identifiers_and_others_none() {
    let running = site(SERVERS).start(Server::Fulmar);
    for version in [&TLS12, &TLS13] {
        let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa);
        let (_, id) = session(&client, &running, 2);
        assert_eq!(session(&client, &running, 2), ("r".to_owned(), id.clone()), "{version:?}");
        assert_eq!(id.len(), 64);
        let none = (".".to_owned(), String::new());
        let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa);
        assert_eq!([(); 2].map(|()| session(&client, &running, 3)), [none.clone(), none]);
    }
    running.stop();
}

#[test]
fn wrong_keys_are_errors() {
    for (name, reason) in [("a.pem", "must be 48 or 80 bytes"), ("none", "No such file or directory")] {
        let text = SERVERS.replace("%%DIR%%/first", &format!("%%DIR%%/{name}"));
        let error = site(&text).test(Server::Fulmar).expect_err("an error");
        assert!(error.contains(reason) && error.contains(name), "{error}");
    }
}

#[test]
fn commands_count_more_than_directives() {
    let running = site(
        r#"
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        server {
            listen %%PORT%% ssl;
            ssl_session_tickets off;
            ssl_conf_command Options SessionTicket,-Compression;
            ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;
            ssl_conf_command Groups P-384;
            ssl_conf_command MinProtocol TLSv1.3;
            ssl_conf_command Certificate other.pem;
            ssl_conf_command PrivateKey other.key;
            return 200 "$ssl_session_reused $ssl_protocol $ssl_cipher $ssl_curve\n";
        }
    "#,
    )
    .start(Server::Fulmar);
    let client = Client::new(Some("a.example"));
    for reused in [".", "r"] {
        let spoken = client.ask(running.address(), "GET /").expect("an answer");
        let expected = format!("{reused} TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 secp384r1");
        assert_eq!(spoken.answer.last().text().trim_end(), expected);
        let names = String::from_utf8_lossy(&spoken.certificate).into_owned();
        assert!(names.contains("other.example"), "the certificate of the command");
    }
    let older = Client::with(Some("a.example"), &[&TLS12], Kind::Ecdsa);
    assert!(older.ask(running.address(), "GET /").is_err());
    running.stop();
}

/// By which algorithms the server signs: a client that offers no other one gets no connection.
#[test]
fn signatures_are_those_of_the_command() {
    let server = |number: &str, list: &str| {
        format!(
            "server {{ listen %%PORT{number}%% ssl; ssl_conf_command SignatureAlgorithms {list}; return 204; }}"
        )
    };
    let servers = [("", "ECDSA+SHA384:rsa_pss_rsae_sha256"), ("_1", "RSA+SHA256:ecdsa_secp256r1_sha256")];
    let servers: String = servers.iter().map(|(number, list)| server(number, list)).collect();
    let text = format!("ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key; {servers}");
    for kind in [Server::Fulmar, Server::Nginx] {
        if kind == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site(&text).start(kind);
        // In TLS 1.2 OpenSSL also signs by SHA-384 with a key of P-256.
        let versions = [("1.3", &TLS13), ("1.2", &TLS12)];
        for (version, versions) in &versions[..if kind == Server::Nginx { 1 } else { 2 }] {
            let client = Client::with(Some("a.example"), &[*versions], Kind::Ecdsa);
            assert!(client.ask(running.address(), "GET /").is_err(), "{kind:?} {version}");
            assert!(client.ask(running.address_of(1), "GET /").is_ok(), "{kind:?} {version}");
        }
        running.stop();
    }
    let error = site(&text.replace("RSA+SHA256", "no+such")).test(Server::Fulmar).expect_err("an error");
    assert!(
        error.contains("\"SignatureAlgorithms\" \"no+such:ecdsa_secp256r1_sha256\" is not supported"),
        "{error}"
    );
}

/// The lengths of the records that the server sends with a response of 20,000 bytes.
fn longest_record(running: &Running, port: usize) -> usize {
    use std::io::{Read, Write};
    let client = Client::with(Some("a.example"), &[&TLS13], Kind::Ecdsa);
    let mut stream = client.connect(running.address_of(port)).expect("a connection");
    stream.write_all(b"GET /big HTTP/1.0\r\n\r\n").expect("sent");
    let mut raw = Vec::new();
    stream.sock.read_to_end(&mut raw).expect("a response");
    let (mut rest, mut longest) = (&raw[..], 0);
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        longest = longest.max(length);
        rest = after.get(length..).unwrap_or_default();
    }
    longest
}

#[test]
fn records_are_as_long_as_configured() {
    let text = r"
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        root %%ROOT%%;
        server { listen %%PORT%% ssl; }
        server { listen %%PORT_1%% ssl; ssl_buffer_size 4k; }
    ";
    let running = site(text).file("big", "x".repeat(20_000)).start(Server::Fulmar);
    // A record of TLS 1.3 has a byte for its type and 16 for its tag.
    assert!(longest_record(&running, 0) > 8192);
    assert_eq!(longest_record(&running, 1), 4096 + 17);
    running.stop();
}
