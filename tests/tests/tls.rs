//! Encrypted connections: the same answers as nginx over TLS, and what only TLS has.

mod chosen_certificates;
mod client_certificates;
mod client_status;
mod conversations;
mod early_data;
mod grade;
mod pem_files;
mod stapling;
mod ticket_keys;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::version::{TLS12, TLS13};
use tests::binary::{Server, have_nginx};
use tests::client::End;
use tests::compare::{Compared, difference, normalise};
use tests::parts;
use tests::site::{Running, Site};
use tests::tls::{Certificate, Client, Kind, Spoken, certificate};

/// Several servers at one address, with certificates by name, and one more in clear.
const SERVERS: &str = r#"
    log_format tls '$ssl_protocol $ssl_cipher $ssl_server_name $ssl_session_reused $scheme $status';
    access_log %%LOGS%%/access.log tls;
    server {
        listen %%PORT%% ssl;
        server_name a.example;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_certificate %%DIR%%/rsa.pem;
        ssl_certificate_key %%DIR%%/rsa.key;
        root %%ROOT%%;
        location /dir/ { }
        location /v {
            return 200 "$scheme|$https|$ssl_protocol|$ssl_cipher|$ssl_server_name|$server_name|$ssl_client_verify\n";
        }
    }
    server {
        listen %%PORT%% ssl;
        server_name b.example *.b.example;
        ssl_certificate %%DIR%%/b.pem;
        ssl_certificate_key %%DIR%%/b.key;
        ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;
        return 200 "b|$ssl_cipher|$ssl_server_name|$host\n";
    }
    server {
        listen %%PORT_1%%;
        return 301 https://$host$request_uri;
    }
    server {
        listen %%PORT_2%% ssl;
        ssl_reject_handshake on;
        error_page 497 https://$host:1$request_uri;
    }
    server {
        listen %%PORT_2%% ssl;
        server_name only13.example;
        ssl_protocols TLSv1.3;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        return 200 only13;
    }
"#;

struct Made {
    site: Site,
    a: Certificate,
    b: Certificate,
    rsa: Certificate,
}

fn made(configuration: &str) -> Made {
    let a = certificate("a.example", Kind::Ecdsa);
    let b = certificate("b.example", Kind::Ecdsa);
    let rsa = certificate("a.example", Kind::Rsa);
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let mut site = Site::new(configuration).file("index.html", "hello\n").file("big", big).dir("dir/sub");
    for (name, made) in [("a", &a), ("b", &b), ("rsa", &rsa)] {
        site = site.in_prefix(&format!("{name}.pem"), &made.pem).in_prefix(&format!("{name}.key"), &made.key);
    }
    Made { site, a, b, rsa }
}

#[test]
fn answers_over_tls_are_nginx_answers() {
    if !have_nginx() {
        return;
    }
    let clients = [
        ("no name", Client::new(None)),
        ("a", Client::new(Some("a.example"))),
        ("b", Client::new(Some("www.b.example"))),
        ("unknown", Client::new(Some("c.example"))),
        ("1.2", Client::with(Some("a.example"), &[&TLS12], Kind::Ecdsa)),
        ("1.2 b", Client::with(Some("b.example"), &[&TLS12], Kind::Ecdsa)),
        ("1.3 rsa", Client::with(Some("a.example"), &[&TLS13], Kind::Rsa)),
        ("1.2 rsa", Client::with(None, &[&TLS12], Kind::Rsa)),
    ];
    let requests = [
        "GET /",
        "HEAD /",
        "GET /v",
        "GET /v HTTP/1.0",
        "GET /v\nHost: b.example",
        "GET /v\nHost: unknown.example",
        "GET /big\nRange: bytes=100-20000",
        "GET /big",
        "GET /missing",
        "GET /dir/sub",
        "GET /\nConnection: close",
        "POST /v\nContent-Length: 5\n\nhello",
    ];
    let made = made(SERVERS);
    let (nginx, fulmar) = (made.site.start(Server::Nginx), made.site.start(Server::Fulmar));
    let mut wrong = String::new();
    for (who, client) in &clients {
        for request in requests {
            let theirs = client.ask(nginx.address(), request).unwrap();
            // Each server has its own tickets.
            let own = client.ask(fulmar.address(), request).unwrap();
            let text = compare((&nginx, &theirs), (&fulmar, &own));
            if !text.is_empty() {
                wrong += &format!("{who}: {request:?}\n{text}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    nginx.stop();
    fulmar.stop();
}

fn compare((nginx, theirs): (&Running, &Spoken), (fulmar, own): (&Running, &Spoken)) -> String {
    let left = Compared { plain: &theirs.answer, normal: normalise(&theirs.answer, nginx) };
    let right = Compared { plain: &own.answer, normal: normalise(&own.answer, fulmar) };
    let mut text = difference(&left, &right).unwrap_or_default();
    let facts = |spoken: &Spoken| (spoken.protocol.clone(), spoken.said_goodbye);
    if facts(theirs) != facts(own) {
        text += &format!("protocol and goodbye: {:?}, not {:?}\n", facts(own), facts(theirs));
    }
    if !theirs.resumed && !own.resumed && theirs.certificate != own.certificate {
        text += "another certificate\n";
    }
    text
}

#[test]
fn requests_in_clear_are_told_so_as_nginx_does() {
    if !have_nginx() {
        return;
    }
    let made = made(SERVERS);
    let cases: [(usize, &str); 7] = [
        (0, "GET /\nHost: a.example"),
        (0, "GET /v?x=1\nHost: b.example"),
        (0, "POST /v\nContent-Length: 3\n\nabc"),
        (0, "HEAD / HTTP/1.0"),
        (0, "GARBAGE\r\n\r\n"),
        (1, "GET /x?y"),
        (2, "GET /x?y=1\nHost: c.example"),
    ];
    tests::differential::agree_with_logs(&made.site, &cases, &[]);
}

#[test]
fn names_versions_and_signatures_choose_the_certificate() {
    let made = made(SERVERS);
    let server = made.site.start(Server::Fulmar);
    let ask = |client: &Client| client.ask(server.address(), "GET /").unwrap();
    assert_eq!(ask(&Client::new(None)).certificate, made.a.der);
    assert_eq!(ask(&Client::new(Some("x.b.example"))).certificate, made.b.der);
    assert_eq!(ask(&Client::new(Some("unknown.example"))).certificate, made.a.der);
    for version in [&TLS12, &TLS13] {
        assert_eq!(ask(&Client::with(None, &[version], Kind::Rsa)).certificate, made.rsa.der);
        assert_eq!(ask(&Client::with(None, &[version], Kind::Ecdsa)).certificate, made.a.der);
    }
    let second = server.address_of(2);
    let refused = Client::new(None).ask(second, "GET /").unwrap_err();
    assert!(refused.contains("UnrecognisedName"), "{refused}");
    let spoken = Client::new(Some("only13.example")).ask(second, "GET /\nHost: only13.example").unwrap();
    assert_eq!((spoken.answer.last().text().as_str(), spoken.protocol.as_str()), ("only13", "TLSv1_3"));
    let refused =
        Client::with(Some("only13.example"), &[&TLS12], Kind::Ecdsa).ask(second, "GET /").unwrap_err();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    server.stop_and(|server| {
        let log = server.log("error.log");
        assert!(log.is_empty() || !log.contains("[crit]"), "{log}");
    });
}

#[test]
fn protocols_of_the_application_are_agreed_on_as_with_nginx() {
    let configuration = "server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key; return 200 \"$ssl_alpn_protocol|$ssl_curve|$ssl_session_reused\"; }";
    let made = made(configuration);
    let servers = [Server::Nginx, Server::Fulmar]
        .into_iter()
        .filter(|&server| server == Server::Fulmar || have_nginx());
    for server in servers {
        let running = made.site.start(server);
        for version in [&TLS12, &TLS13] {
            let ask = |protocols: &[&str]| {
                let client = Client::with(None, &[version], Kind::Ecdsa).offering(protocols);
                client.ask(running.address(), "GET /").map(|spoken| spoken.answer.last().text())
            };
            assert!(ask(&[]).unwrap().starts_with('|'), "{server:?}");
            assert!(ask(&["http/1.1"]).unwrap().starts_with("http/1.1|"), "{server:?}");
            assert!(ask(&["h2", "http/1.1"]).unwrap().starts_with("http/1.1|"), "{server:?}");
            let refused = ask(&["spdy/3"]).unwrap_err();
            assert!(refused.contains("NoApplicationProtocol"), "{server:?}: {refused}");
        }
        running.stop();
    }
}

#[test]
fn sessions_are_resumed_at_the_same_certificate_even_after_a_reload() {
    let made = made(SERVERS);
    let server = made.site.start(Server::Fulmar);
    for version in [&TLS12, &TLS13] {
        let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa);
        let resumed = |client: &Client| client.ask(server.address(), "GET /v").unwrap().resumed;
        assert!(!resumed(&client));
        assert!(resumed(&client), "{version:?}");
        let reload = made.site.command(Server::Fulmar).args(["-s", "reload"]).status().expect("run");
        assert!(reload.success(), "{}", server.all_logs());
        assert!(resumed(&client), "{version:?} after a reload");
    }
    server.stop();
}

#[test]
fn a_reload_brings_a_renewed_certificate_and_keeps_the_last_good_one() {
    let made = made(SERVERS);
    let server = made.site.start(Server::Fulmar);
    let prefix = made.site.prefix();
    let shown = || Client::new(None).ask(server.address(), "GET /").unwrap().certificate;
    assert_eq!(shown(), made.a.der);
    std::fs::write(prefix.join("a.pem"), &made.b.pem).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("error.log", "key values mismatch");
    assert_eq!(shown(), made.a.der, "what does not fit is not used");
    std::fs::write(prefix.join("a.key"), &made.b.key).unwrap();
    server.signal(Signal::HUP);
    assert!(tests::wait::until(Duration::from_secs(10), || shown() == made.b.der));
    server.stop();
}

#[test]
fn certificates_of_version_1_with_nothing_but_a_subject_are_served() {
    if !parts::is_present("openssl", parts::program(&["openssl"]).is_some()) {
        return;
    }
    let site = Site::new(
        "server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/v1.pem; ssl_certificate_key %%DIR%%/v1.key;
         return 200 \"$ssl_protocol\\n\"; }",
    );
    let openssl = |arguments: &str| {
        let arguments = arguments.split(' ');
        let output = Command::new("openssl").args(arguments).current_dir(site.prefix()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    openssl("req -new -newkey rsa:2048 -nodes -keyout v1.key -out v1.csr -subj /CN=old.example");
    openssl("x509 -req -in v1.csr -signkey v1.key -out v1.pem -days 3");
    assert!(openssl("x509 -in v1.pem -noout -text").contains("Version: 1 "));
    let server = site.start(Server::Fulmar);
    let port = server.address().port();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-ign_eof", "-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let printed = client.wait_with_output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&printed).ends_with("\r\n\r\nTLSv1.3\n"));
    server.stop();
}

#[test]
fn what_is_wrong_with_certificates_is_told_as_nginx_does() {
    let made = made("");
    let prefix = made.site.prefix();
    let place = |file: &str| prefix.join(file).display().to_string();
    let said = |server: &str| {
        std::fs::write(
            prefix.join("fulmar.conf"),
            format!("events {{}}\nhttp {{\nserver {{ {server} }}\n}}\n"),
        )
        .unwrap();
        let output = made.site.command(Server::Fulmar).arg("-t").output().unwrap();
        assert!(!output.status.success(), "{server}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = said("listen 8443 ssl;");
    assert!(
        text.contains("[emerg] no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive in ")
    );
    assert!(text.contains("fulmar.conf:3"), "{text}");
    let text = said("listen 8443 ssl; ssl_certificate a.pem;");
    assert!(text.contains("no \"ssl_certificate_key\" is defined for certificate \""), "{text}");
    let text = said("ssl_certificate none.pem; ssl_certificate_key a.key;");
    assert!(text.contains(&format!("cannot load certificate \"{}\": ", place("none.pem"))), "{text}");
    let text = said("ssl_certificate a.pem; ssl_certificate_key none.key;");
    assert!(text.contains(&format!("cannot load certificate key \"{}\": ", place("none.key"))), "{text}");
    let text = said("ssl_certificate a.pem; ssl_certificate_key b.key;");
    assert!(text.contains(&format!("SSL_CTX_use_PrivateKey(\"{}\") failed", place("b.key"))), "{text}");
    assert!(text.contains("key values mismatch"), "{text}");
    let text = said("ssl_certificate a.pem; ssl_certificate_key a.key; ssl_ciphers RC4;");
    assert!(text.contains("SSL_CTX_set_cipher_list(\"RC4\") failed"), "{text}");
    let pair = "ssl_certificate a.pem; ssl_certificate_key a.key;";
    let text = said(&format!("{pair}\nssl_ciphers nonsense;"));
    assert!(text.contains("set_cipher_list(\"nonsense\") failed (no cipher match) in "), "{text}");
    assert!(text.contains("fulmar.conf:4\n") && text.contains("hint: leave the line out, or "), "{text}");
    let text = said(&format!("{pair}\nssl_ecdh_curve secp521r1;"));
    assert!(text.contains("set1_curves_list(\"secp521r1\") failed (no group match) in "), "{text}");
    assert!(text.contains("fulmar.conf:4\n") && text.contains("hint: leave the line out, or "), "{text}");
    let text =
        said("listen 8443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_verify_client on;");
    assert!(text.contains("no ssl_client_certificate or ssl_trusted_certificate for"), "{text}");
}

#[test]
fn files_of_authorities_must_be_readable() {
    let made = made("");
    let pair = "ssl_certificate a.pem; ssl_certificate_key a.key;";
    let tested = |server: Server, directives: &str| {
        let text = format!(
            "events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:8443 ssl; {directives} }} }}\n"
        );
        std::fs::write(made.site.prefix().join(format!("{}.conf", server.name())), text).unwrap();
        let output = made.site.command(server).arg("-t").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for server in [Server::Nginx, Server::Fulmar] {
        std::fs::create_dir_all(made.site.logs(server)).unwrap();
    }
    let servers = if have_nginx() { &[Server::Nginx, Server::Fulmar][..] } else { &[Server::Fulmar] };
    for &server in servers {
        for (directives, message) in [
            ("ssl_trusted_certificate none.pem;", "cannot load certificate \""),
            ("ssl_trusted_certificate a.key;", "cannot load certificate \""),
            ("ssl_crl none.pem;", "cannot load CRL \""),
            ("ssl_crl a.pem;", "cannot load CRL \""),
        ] {
            let (passes, text) = tested(server, &format!("{pair} {directives}"));
            assert!(!passes && text.contains(message), "{} takes {directives}: {text}", server.name());
        }
        for directives in [
            "ssl_trusted_certificate a.pem; ssl_client_certificate a.pem;",
            "ssl_trusted_certificate \"\"; ssl_crl \"\"; ssl_client_certificate \"\";",
        ] {
            let (passes, text) = tested(server, &format!("{pair} {directives}"));
            assert!(passes && !text.contains("cannot load"), "{}, {directives}: {text}", server.name());
        }
        // nginx does not read this file unless clients are asked for certificates.
        let (passes, text) = tested(server, &format!("{pair} ssl_client_certificate none.pem;"));
        assert!(passes, "{}: {text}", server.name());
        let is_warned = text.contains("[warn] cannot load certificate \"");
        assert_eq!(is_warned, server == Server::Fulmar, "{text}");
    }
}

#[test]
fn what_distributions_write_of_encryption_is_taken_and_told_once() {
    let made = made("");
    let server = |name: &str| {
        format!("server {{ listen 127.0.0.1:8443 ssl; server_name {name};\nssl_ciphers PROFILE=SYSTEM; }}\n")
    };
    let shared = "ssl_certificate a.pem; ssl_certificate_key a.key;\nssl_protocols TLSv1 TLSv1.1 TLSv1.2;";
    let text = format!("events {{}}\nhttp {{ {shared}\n{}{} }}\n", server("a"), server("b"));
    std::fs::write(made.site.prefix().join("fulmar.conf"), text).unwrap();
    let output = made.site.command(Server::Fulmar).arg("-t").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(" syntax is ok\n"), "{text}");
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("[warn] \"ssl_protocols\" names versions before TLSv1.2"), 1, "{text}");
    assert_eq!(lines("[notice] \"PROFILE=SYSTEM\" of \"ssl_ciphers\" means the default list"), 1, "{text}");
}

#[test]
fn slow_and_broken_handshakes_end() {
    let made = made(
        "client_header_timeout 1s;
         server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
                  return 200 ok; }",
    );
    let server = made.site.start(Server::Fulmar);
    let open = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let started = Instant::now();
    let mut slow: Vec<TcpStream> = [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"].map(open).into();
    for bytes in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x80\x2e\x01\x03\x01\0\0\0", b"\x16\xff\xff\xff\xff\0"]
    {
        let mut answer = Vec::new();
        drop(open(bytes).read_to_end(&mut answer));
        assert!(answer.first().is_none_or(|&first| first == 21), "an alert or nothing: {answer:?}");
    }
    // Another client, which is served meanwhile.
    assert_eq!(Client::new(None).ask(server.address(), "GET /").unwrap().answer.last().text(), "ok");
    for stream in &mut slow {
        assert!(stream.read(&mut [0; 100]).is_ok_and(|count| count == 0));
    }
    assert!(started.elapsed() < Duration::from_secs(6));
    server.stop();
}

#[test]
fn a_directory_is_served_with_a_certificate_of_its_own() {
    let site = Site::whole("%%PORT%%").file("f.txt", "file\n");
    let port = site.write_configuration(Server::Fulmar, "%%PORT%%")[&0];
    let mut child = Command::new(Server::Fulmar.path())
        .args(["serve", "--tls", "--port", &port.to_string()])
        .arg(site.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listens = tests::wait::until(Duration::from_secs(10), || TcpStream::connect(address).is_ok());
    let spoken = Client::new(Some("localhost")).ask(address, "GET /f.txt");
    let told = tests::client::ask(address, "GET /f.txt");
    let mut settings = [0; 5];
    let mut stream = Client::new(Some("localhost")).offering(&["h2"]).connect(address).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    stream.read_exact(&mut settings).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(listens, "{printed}");
    let spoken = spoken.unwrap();
    assert_eq!(spoken.answer.last().text(), "file\n");
    assert_eq!(settings[3], 4, "HTTP/2 begins with SETTINGS: {settings:?}");
    assert!(printed.contains(&fingerprint(&spoken.certificate)), "{printed}");
    assert!(told.last().field("Location").is_some_and(|to| to.starts_with("https://")), "{}", told.last());
}

/// The SHA-256 digest in pairs of hex digits.
fn fingerprint(certificate: &[u8]) -> String {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let digest = suite.common.hash_provider.hash(certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

#[test]
fn waiting_connections_hold_no_buffer() {
    const COUNT: u64 = 300;
    /// A record's buffer alone has more.
    const LIMIT: u64 = 12 * 1024;
    let made = made(SERVERS);
    let server = made.site.start(Server::Fulmar);
    let memory = || {
        let worker = Running::children(server.pid())[0].as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let open = || {
        let mut stream = Client::new(Some("a.example")).connect(server.address()).unwrap();
        stream.write_all(b"GET /index.html HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"hello\n") {
            let mut bytes = [0; 1000];
            let count = stream.read(&mut bytes).unwrap();
            received.extend_from_slice(&bytes[..count]);
        }
        stream
    };
    let warm: Vec<_> = (0..20).map(|_| open()).collect();
    let before = memory();
    let waiting: Vec<_> = (0..COUNT).map(|_| open()).collect();
    let each = memory().saturating_sub(before) / COUNT;
    assert!(each < LIMIT, "{each} bytes for a connection that waits");
    drop((warm, waiting));
    server.stop();
}

#[test]
fn many_requests_share_a_connection_and_waiting_ones_say_goodbye_at_the_end() {
    let made = made(SERVERS);
    let server = made.site.start(Server::Fulmar);
    let mut stream = Client::new(Some("a.example")).connect(server.address()).unwrap();
    let request = b"GET /index.html HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut received = Vec::new();
    for count in 1..=20 {
        // Some come at once, some one by one.
        stream.write_all(&request.repeat(count)).unwrap();
        let mut seen = 0;
        received.clear();
        while seen < count {
            let mut bytes = [0; 1000];
            let read = stream.read(&mut bytes).unwrap();
            received.extend_from_slice(&bytes[..read]);
            seen = received.windows(6).filter(|part| part == b"hello\n").count();
        }
    }
    server.signal(Signal::QUIT);
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "close_notify");
    let spoken = Client::new(None).ask(server.address(), "GET /");
    assert!(spoken.is_err() || spoken.is_ok_and(|spoken| spoken.answer.end == End::Closed));
}
