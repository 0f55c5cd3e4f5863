//! Connections that begin with a header of the PROXY protocol: what nginx makes of it, what HAProxy sends, and what is
//! no header.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::site::{Running, Site};
use tests::tls::{self, Kind, certificate};
use tests::{parts, wait};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// No wait for something that comes takes longer, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a header says, and who the client is by it.
const SERVERS: &str = r#"
    server {
        listen 127.0.0.1:%%PORT%% proxy_protocol;
        listen 127.0.0.1:%%PORT_1%% proxy_protocol ssl;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        set_real_ip_from 127.0.0.1;
        real_ip_header proxy_protocol;
        client_header_timeout 1s;
        allow 192.0.2.0/24;
        allow 2001:db8::/32;
        allow 127.0.0.1;
        deny all;
        location / {
            add_header X-Said "$proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$proxy_protocol_server_port" always;
            add_header X-Client "$remote_addr|$remote_port|$realip_remote_addr" always;
            add_header X-Values "$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0x01|$proxy_protocol_tlv_authority|$proxy_protocol_tlv_unique_id|$proxy_protocol_tlv_netns" always;
            add_header X-Ssl "$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_ssl_version|$proxy_protocol_tlv_ssl_cn|$proxy_protocol_tlv_ssl_0x23|$proxy_protocol_tlv_0xae" always;
            alias %%ROOT%%/;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_2%%;
        return 200 "$proxy_protocol_addr.";
    }
"#;

fn site() -> Site {
    let made = certificate("a.example", Kind::Ecdsa);
    Site::new(SERVERS).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key).file("f.txt", "file\n")
}

/// Clients whose requests are passed on with a header, and the server that reads it.
const PASSING: &str = r#"
    keepalive_timeout 60s;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    upstream back { server 127.0.0.1:%%PORT_1%%; keepalive 8; }
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_2%% ssl;
        add_header X-Port $remote_port;
        location /one { proxy_protocol on; proxy_pass http://back; }
        location /two { proxy_protocol v2; proxy_pass http://back; }
    }
    server {
        listen 127.0.0.1:%%PORT_1%% proxy_protocol;
        return 200 "$proxy_protocol_addr $proxy_protocol_port $connection $proxy_protocol_tlv_ssl_version";
    }
"#;

/// A connection to a server belongs to one client: what is kept of it serves no other.
#[test]
fn requests_are_passed_on_with_the_header_of_their_client() {
    let made = certificate("a.example", Kind::Ecdsa);
    let site = Site::new(PASSING).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key);
    let running = site.start(Server::Fulmar);
    for path in ["/one", "/two"] {
        let (mut first, mut second) = (running.connect(), running.connect());
        let mut ask = |is_first: bool| {
            let client = if is_first { &mut first } else { &mut second };
            let answer = client.exchange(&format!("GET {path}")).unwrap();
            let words: Vec<String> = answer.text().split(' ').map(str::to_owned).collect();
            assert_eq!((words[0].as_str(), Some(words[1].as_str())), ("127.0.0.1", answer.field("X-Port")));
            words[2].clone()
        };
        let connections = [true, false, true, false, true].map(&mut ask);
        assert!(connections[0] != connections[1] && connections[1] == connections[3], "{connections:?}");
        assert!(connections[0] == connections[2] && connections[2] == connections[4], "{connections:?}");
    }
    let spoken = tls::Client::new(Some("a.example")).ask(running.address_of(2), "GET /two").unwrap();
    let text = spoken.answer.last().text();
    assert!(text.ends_with(" TLSv1.3"), "{text}");
    running.stop();
    let shared = PASSING.replace("proxy_http_version 1.1", "proxy_http_version 2");
    let site = Site::new(&shared).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key);
    let told = site.test(Server::Fulmar).unwrap_err();
    assert!(told.contains("\"proxy_protocol\" does not work with \"proxy_http_version 2\""), "{told}");
}

fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family][..], &length, content].concat()
}

fn value(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind], &length[..], content].concat()
}

const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0, 123, 22, 46];

/// A header with every value.
fn with_values() -> Vec<u8> {
    let inner = [value(0x21, b"TLSv1.3"), value(0x22, b"c.example"), value(0x23, b"AES128")].concat();
    let values = [
        value(0x01, b"h2"),
        value(0x02, b"a.example"),
        value(0x05, b"id"),
        value(0x20, &[&[7, 0, 0, 0, 9][..], &inner].concat()),
        value(0x30, b"blue"),
        value(0xae, b"own"),
    ];
    binary(0x21, 0x11, &[&V4[..], &values.concat()].concat())
}

/// What comes back on a connection that begins so, and then asks for a file.
fn answer(running: &Running, header: &[u8]) -> Option<Vec<String>> {
    let mut client = running.connect();
    client.send(&[header, b"GET /f.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat());
    let response = client.response_within("GET", PATIENCE)?;
    let field = |name| response.field(name).unwrap_or_default().to_owned();
    let port = |text: String| if text.starts_with("127.0.0.1|") { "itself".to_owned() } else { text };
    Some(vec![
        response.status.to_string(),
        field("X-Said"),
        port(field("X-Client")),
        field("X-Values"),
        field("X-Ssl"),
    ])
}

#[test]
fn what_headers_say() {
    let servers = [Server::Nginx, Server::Fulmar];
    let kept = if have_nginx() { &servers[..] } else { &servers[1..] };
    let site = site();
    let running: Vec<Running> = kept.iter().map(|&server| site.start(server)).collect();
    let v6: Vec<u8> = [
        &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        &[0, 0, 255, 255],
    ]
    .concat();
    for (header, status, said) in [
        (
            b"PROXY TCP4 192.0.2.1 198.51.100.2 123 5678\r\n".to_vec(),
            "200",
            "192.0.2.1|123|198.51.100.2|5678",
        ),
        (b"PROXY TCP4 203.0.113.1 198.51.100.2 0 1\r\n".to_vec(), "403", "203.0.113.1||198.51.100.2|1"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "200", "2001:db8::1|1|2001:db8::2|2"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "200", "|||"),
        (b"PROXY UNKNOWN 1 2 3 4\r\n".to_vec(), "200", "|||"),
        (binary(0x21, 0x11, &V4), "200", "192.0.2.1|123|198.51.100.2|5678"),
        (binary(0x21, 0x21, &v6), "200", "2001:db8::1||2001:db8::2|65535"),
        (with_values(), "200", "192.0.2.1|123|198.51.100.2|5678"),
        (binary(0x20, 0, b""), "200", "|||"),
        (binary(0x21, 0x31, &[0; 216]), "200", "|||"),
        (binary(0x21, 0x12, &V4), "200", "|||"),
        // The file is there, and the value after is cut off.
        (binary(0x21, 0x11, &[&V4[..], b"\x05\0\x01x\x01\0\x09h2"].concat()), "200", "192.0.2.1|123|"),
    ] {
        let answers: Vec<_> = running.iter().map(|running| answer(running, &header)).collect();
        let shown = header.escape_ascii();
        assert!(answers.windows(2).all(|two| two[0] == two[1]), "{shown}: {answers:#?}");
        let got = answers[0].clone().unwrap_or_else(|| panic!("{shown}: closed"));
        assert_eq!(got[0], status, "{shown}: {got:?}");
        assert!(got[1].starts_with(said), "{shown}: {got:?}");
    }
    let got = answer(running.last().unwrap(), &with_values()).unwrap();
    assert_eq!(
        got[2..],
        ["192.0.2.1|123|127.0.0.1", "h2|h2|a.example|id|blue", "9|TLSv1.3|c.example|AES128|own"]
    );
}

/// C11: what is no header, or one that is too long, closes the connection without an answer, and is logged; what is not
/// whole in time does, too.
#[test]
fn c11_what_is_no_header() {
    let running = site().start(Server::Fulmar);
    let too_long = binary(0x21, 0x11, &[&V4[..], &[0; 4096]].concat());
    for header in [
        &b""[..],
        b"PROXY TCP4 192.0.2.1 198.51.100.2 123 5678\n",
        b"PROXY TCP4 192.0.2.1 2001:db8::1 123 5678\r\n",
        b"PROXY TCP5 192.0.2.1 198.51.100.2 123 5678\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 5678\r\n",
        &[b"PROXY UNKNOWN ", &[b'x'; 100][..], b"\r\n"].concat(),
        &binary(0x21, 0x11, &V4[..11]),
        &binary(0x2f, 0x11, &V4),
        &binary(0x31, 0x11, &V4),
        // Its fixed part alone says that it is too long.
        &too_long[..16],
        b"\x16\x03\x01\x02\0",
    ] {
        assert_eq!(answer(&running, header), None, "{}", header.escape_ascii());
        let mut client = Client::connect(running.address_of(1));
        client.send(&[header, b"\x16\x03\x01"].concat());
        assert!(client.closes_within(PATIENCE), "{}", header.escape_ascii());
    }
    for (n, part) in [(0, &b""[..]), (0, b"PROX"), (0, &too_long[..15]), (1, &with_values()[..40]), (1, b"")]
    {
        let started = Instant::now();
        let mut client = Client::connect(running.address_of(n));
        client.extend(PATIENCE);
        client.send(part);
        assert!(client.closes_within(PATIENCE), "{}", part.escape_ascii());
        assert!(started.elapsed() > Duration::from_millis(700), "{}", part.escape_ascii());
    }
    // Where none is expected, a header is a broken request.
    let mut client = Client::connect(running.address_of(2));
    client.send(b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\n\r\n");
    assert_eq!(client.response("GET").map(|response| response.status), Some(400));
    assert_eq!(answer(&running, b"PROXY UNKNOWN\r\n").unwrap()[0], "200");
    running.stop_and(|running| {
        let log = running.log("error.log");
        for text in [
            "[error] ",
            "broken header: \"PROXY TCP5 192.0.2.1 198.51.100.2 123 5678\" while reading PROXY protocol, client: 127.0.0.1",
            "header is too large: \"PROXY UNKNOWN xxx",
            "unknown PROXY protocol version: 3",
            "client timed out (110: Connection timed out) while reading PROXY protocol",
        ] {
            assert!(log.contains(text), "{text} is not in {log}");
        }
    });
}

/// A header that drips gains no time by it.
#[test]
fn c11_a_header_has_one_deadline() {
    let running = site().start(Server::Fulmar);
    let mut client = running.connect();
    let started = Instant::now();
    let mut closed = false;
    for byte in b"PROXY UNKNOWN ".iter().chain(std::iter::repeat_n(&b'x', 90)) {
        closed = !client.send(&[*byte]) || client.closes_within(Duration::from_millis(100));
        if closed {
            break;
        }
    }
    assert!(closed, "still open after {:?}", started.elapsed());
    assert!(started.elapsed() > Duration::from_millis(700), "closed after {:?}", started.elapsed());
}

#[test]
fn however_it_arrives() {
    let running = site().start(Server::Fulmar);
    for header in [b"PROXY TCP4 192.0.2.1 198.51.100.2 123 5678\r\n".to_vec(), with_values()] {
        let mut client = running.connect();
        for byte in [&header[..], b"GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat() {
            assert!(client.send(&[byte]));
        }
        let response = client.response("GET").expect("an answer");
        assert_eq!(response.field("X-Client"), Some("192.0.2.1|123|127.0.0.1"));
        // The header is of the connection: a second one would be a request.
        let second = client.exchange("GET /f.txt").expect("an answer");
        assert_eq!(second.field("X-Client"), Some("192.0.2.1|123|127.0.0.1"));
        client.send(&header);
        assert_eq!(client.response("GET").map(|response| response.status), Some(400));
    }
}

/// The header in the segment of the client's first message, and in one before it.
#[test]
fn in_front_of_a_handshake() {
    let running = site().start(Server::Fulmar);
    let header = with_values();
    let client = tls::Client::new(None).behind(&header);
    for _ in 0..2 {
        let spoken = client.ask(running.address_of(1), "GET /f.txt").expect("a handshake");
        let response = spoken.answer.last();
        assert_eq!(response.field("X-Client"), Some("192.0.2.1|123|127.0.0.1"));
        assert_eq!(response.text(), "file\n");
    }
    let mut client = Client::connect(running.address_of(1));
    client.send(&[&header[..], b"GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(client.response("GET").map(|response| response.status), Some(400), "in clear, and told so");
    assert!(tls::Client::new(None).ask(running.address_of(1), "GET /f.txt").is_err(), "no header");
}

/// A connection whose header is on its way while the configuration changes.
#[test]
fn a_reload_meanwhile() {
    let site = site();
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"PROXY TCP4 192.0.2.1 198.51");
    let reloaded = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
    assert!(reloaded.status.success(), "{reloaded:?}");
    client.send(b".100.2 123 5678\r\nGET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response("GET").expect("an answer");
    assert_eq!(response.field("X-Client"), Some("192.0.2.1|123|127.0.0.1"));
}

/// Over a Unix socket the header is all that tells of the client.
#[test]
fn over_a_unix_socket() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let site = Site::new(
        r#"
        server {
            listen unix:%%DIR%%/s proxy_protocol;
            listen 127.0.0.1:%%PORT%%;
            real_ip_header proxy_protocol;
            location / { return 200 "$remote_addr $proxy_protocol_addr."; }
            location /trusted {
                set_real_ip_from unix:;
                try_files /none @answer;
            }
            location @answer {
                set_real_ip_from unix:;
                return 200 "$remote_addr $proxy_protocol_addr.";
            }
        }
        "#,
    );
    let running = site.start(Server::Fulmar);
    let ask = |path: &str| {
        let mut stream = UnixStream::connect(site.prefix().join("s")).expect("connect");
        write!(stream, "PROXY TCP6 2001:db8::1 ::1 5 6\r\nGET {path} HTTP/1.0\r\n\r\n").expect("send");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
    };
    assert_eq!(ask("/"), "unix: 2001:db8::1.");
    assert_eq!(ask("/trusted"), "2001:db8::1 2001:db8::1.");
    drop(running);
}

/// HAProxy in front, with both versions and what it adds itself.
#[test]
fn haproxy_in_front() {
    let program = parts::program(&["haproxy"]);
    if !parts::is_present("HAProxy", program.is_some()) {
        return;
    }
    // The marks are ports for HAProxy.
    let site = Site::new(&format!("{SERVERS}\n# %%PORT_3%% %%PORT_4%%"));
    let made = certificate("a.example", Kind::Ecdsa);
    let site = site.in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key).file("f.txt", "file\n");
    let running = site.start(Server::Fulmar);
    let port = |n| running.address_of(n).port();
    let configuration = format!(
        "defaults\n mode http\n timeout connect 10s\n timeout client 10s\n timeout server 10s\n\
         frontend one\n bind 127.0.0.1:{}\n default_backend one\n\
         backend one\n server s 127.0.0.1:{} send-proxy\n\
         frontend two\n bind 127.0.0.1:{}\n unique-id-format the-id\n default_backend two\n\
         backend two\n server s 127.0.0.1:{} send-proxy-v2 proxy-v2-options unique-id,crc32c\n",
        port(3),
        port(0),
        port(4),
        port(0),
    );
    let file = site.prefix().join("haproxy.cfg");
    std::fs::write(&file, configuration).expect("configuration");
    let mut command = Command::new(program.expect("a program"));
    command.args(["-db", "-f"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("HAProxy");
    let answers: Vec<_> = [3, 4]
        .into_iter()
        .filter_map(|n| {
            let mut client = None;
            wait::until(PATIENCE, || {
                client = Client::try_connect(running.address_of(n)).ok();
                client.is_some()
            });
            let response = client?.exchange("GET /f.txt")?;
            let field = |name| response.field(name).unwrap_or_default().to_owned();
            Some((response.status, field("X-Said"), field("X-Client"), field("X-Values")))
        })
        .collect();
    child.kill().expect("its end");
    child.wait().expect("its end");
    assert_eq!(answers.len(), 2);
    for (n, (status, said, client, values)) in answers.iter().enumerate() {
        let at = running.address_of(3 + n).port();
        assert_eq!(*status, 200);
        assert!(said.starts_with("127.0.0.1|") && said.ends_with(&format!("|127.0.0.1|{at}")), "{said}");
        let (of_header, _) = said.trim_start_matches("127.0.0.1|").split_once('|').expect("a port");
        assert_eq!(*client, format!("127.0.0.1|{of_header}|127.0.0.1"));
        assert_eq!(values, if n == 0 { "||||" } else { "|||the-id|" });
    }
}
