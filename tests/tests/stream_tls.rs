//! Connections of `stream` whose first bytes choose where they go, that go on at other addresses, or that are encrypted
//! towards servers, compared with nginx.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::site::{Running, START, Site};
use tests::tls::{self, Authority, Certificate, Kind, certificate};
use tests::wait;

/// No wait for something that comes takes longer, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client in clear gets that says this and waits for the end.
fn said(address: SocketAddr, parts: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for part in parts {
        // A server may have closed already.
        let _ = stream.write_all(part);
        wait::pause(Duration::from_millis(20));
    }
    rest(&mut stream)
}

/// What comes until the connection ends.
fn rest(stream: &mut impl Read) -> String {
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    String::from_utf8_lossy(&read).into_owned()
}

/// What a client of TLS gets that says nothing.
fn secret(client: &tls::Client, address: SocketAddr) -> String {
    client.connect(address).map_or_else(|_| "no connection".to_owned(), |mut stream| rest(&mut stream))
}

/// Starts the configuration, with a certificate in `a.pem` and `a.key`, talks, and takes the lines of the log in order.
fn talk(
    server: Server,
    text: &str,
    made: &Certificate,
    talk: impl Fn(&Running) -> Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let site = Site::whole(&(START.to_owned() + text));
    let site = site.in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key);
    let running = site.start(server);
    let told = talk(&running);
    let ports: Vec<(usize, u16)> = running.ports().collect();
    let log = running.stop_and(|running| running.log("sessions.log"));
    // Ports differ from run to run, and so does whether an empty value is shown as `-`.
    let shown = |word: &str| match ports.iter().find(|(_, port)| port.to_string() == word) {
        Some((index, _)) => index.to_string(),
        None => word.replace("-|", "|").replace("|-", "|"),
    };
    // Whether a handshake that failed had a certificate is shown differently, too.
    let line = |line: &str| line.split(' ').map(shown).collect::<Vec<_>>().join(" ").replace("NONE -", "- -");
    let mut lines: Vec<String> = log.lines().map(line).collect();
    lines.sort();
    (told, lines)
}

/// The same of both servers; gives what Fulmar's clients and its log say.
fn compare(
    text: &str,
    made: &Certificate,
    of: impl Fn(&Running) -> Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let own = talk(Server::Fulmar, text, made, &of);
    if have_nginx() {
        assert_eq!(own, talk(Server::Nginx, text, made, &of));
    }
    own
}

const PREREAD: &str = r#"
stream {
    log_format s "$server_port $status $ssl_preread_server_name|$ssl_preread_protocol|$ssl_preread_alpn_protocols";
    map $server_port $log { %%PORT_1%% 1; default 0; }
    access_log %%LOGS%%/sessions.log s if=$log;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    map $ssl_preread_server_name $back { a.example 127.0.0.1:%%PORT_2%%; default 127.0.0.1:%%PORT_3%%; }
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_1%%; ssl_preread on; preread_timeout 300ms; preread_buffer_size 2k; proxy_pass $back; }
    server { listen 127.0.0.1:%%PORT_1%%; server_name named.example; proxy_pass 127.0.0.1:%%PORT_4%%; }
    server { listen 127.0.0.1:%%PORT_2%% ssl; return first; }
    server { listen 127.0.0.1:%%PORT_3%%; return other; }
    server { listen 127.0.0.1:%%PORT_4%% ssl; return named; }
}
"#;

#[test]
fn the_first_message_chooses_the_server_as_in_nginx() {
    let made = certificate("a.example", Kind::Ecdsa);
    let (told, lines) = compare(PREREAD, &made, |running| {
        let address = running.address_of(1);
        let named = |name: &str| tls::Client::new(Some(name)).offering(&["h2", "http/1.1"]);
        vec![
            secret(&named("a.example"), address),
            secret(&named("NAMED.example"), address),
            // Its handshake meets a server in clear.
            secret(&named("c.example"), address),
            said(address, &[b"GET / HTTP/1.0\r\n\r\n"]),
            // A first message that never ends, one that is too long, and half of an old one.
            said(address, &[&[22, 3, 1, 1, 0, 1]]),
            said(address, &[&[22, 3, 1, 63, 255, 1], &[1; 4000]]),
            said(address, &[&[0x80, 0x2e, 1], &[3, 1, 0, 0]]),
        ]
    });
    assert_eq!(told, ["first", "named", "no connection", "other", "", "", "other"]);
    let expected = [
        "1 200 NAMED.example|TLSv1.3|h2,http/1.1",
        "1 200 a.example|TLSv1.3|h2,http/1.1",
        "1 200 c.example|TLSv1.3|h2,http/1.1",
        "1 200 |TLSv1|",
        "1 200 ||",
        "1 200 ||",
        "1 400 ||",
    ];
    assert_eq!(lines, expected);
}

const PASS: &str = r#"
stream {
    log_format s "$status";
    map $server_port $log { %%PORT%% 0; %%PORT_1%% 0; default 1; }
    access_log %%LOGS%%/sessions.log s if=$log;
    map $ssl_preread_server_name $port { a.example 127.0.0.1:%%PORT_5%%; default 127.0.0.1:%%PORT_6%%; }
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_1%%; ssl_preread on; pass $port; }
    server { listen 127.0.0.1:%%PORT_2%%; pass 127.0.0.1:%%PORT_2%%; }
    server { listen 127.0.0.1:%%PORT_3%%; pass 127.0.0.1:1; }
    server { listen 127.0.0.1:%%PORT_4%%; pass $server_addr; }
    server { listen 127.0.0.1:%%PORT_7%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
             pass 127.0.0.1:%%PORT_6%%; }
    server { listen 127.0.0.1:%%PORT_8%%; pass unix:%%LOGS%%/socket; }
    server { listen unix:%%LOGS%%/socket; return "by a file from $remote_addr"; }
    server { listen 127.0.0.1:%%PORT_9%% proxy_protocol; pass 127.0.0.1:%%PORT_6%%; }
}
http {
    access_log off;
    server { listen 127.0.0.1:%%PORT_5%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
             location / { return 200 "$scheme $ssl_server_name $remote_addr $connection_requests"; } }
    server { listen %%PORT_6%%; location / { return 200 "$scheme $proxy_protocol_addr $connection_requests"; } }
}
"#;

#[test]
fn connections_go_on_at_other_addresses_as_in_nginx() {
    let made = certificate("a.example", Kind::Ecdsa);
    let body = |text: String| text.split("\r\n\r\n").nth(1).unwrap_or(&text).to_owned();
    let (told, lines) = compare(PASS, &made, |running| {
        let client = tls::Client::new(Some("a.example"));
        let secret =
            |port: usize| client.ask(running.address_of(port), "GET /").unwrap().answer.last().text();
        let get: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
        let clear = |port: usize, parts: &[&[u8]]| body(said(running.address_of(port), parts));
        vec![
            secret(1),
            clear(1, &[get]),
            clear(2, &[]),
            clear(3, &[]),
            clear(4, &[]),
            secret(7),
            clear(8, &[]),
            clear(9, &[b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", get]),
        ]
    });
    let expected = [
        "https a.example 127.0.0.1 1",
        "http  1",
        "",
        "",
        "",
        "https  1",
        "by a file from 127.0.0.1",
        "http 192.0.2.1 1",
    ];
    assert_eq!(told, expected);
    // What goes on is logged where it goes on.
    assert_eq!(lines, ["200", "200", "500", "500"]);
}

#[test]
fn the_kind_of_protocol_is_known_by_the_first_bytes() {
    let text = "stream {
        map $preread_kind $port { tls %%PORT_2%%; http %%PORT_3%%; ssh %%PORT_4%%; default %%PORT_5%%; }
        server { listen 127.0.0.1:%%PORT%%; return ready; }
        server { listen 127.0.0.1:%%PORT_1%%; preread_kind on; preread_timeout 300ms; pass 127.0.0.1:$port; }
        server { listen 127.0.0.1:%%PORT_2%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key; return tls; }
        server { listen 127.0.0.1:%%PORT_3%%; return http; }
        server { listen 127.0.0.1:%%PORT_4%%; return ssh; }
        server { listen 127.0.0.1:%%PORT_5%%; return \"220 I speak first\"; }
    }";
    let made = certificate("a.example", Kind::Ecdsa);
    let (told, _) = talk(Server::Fulmar, text, &made, |running| {
        let address = running.address_of(1);
        vec![
            secret(&tls::Client::new(Some("a.example")), address),
            said(address, &[b"G", b"ET / HTTP/1.1\r\n"]),
            said(address, &[b"SSH-", b"2.0-a\r\n"]),
            said(address, &[b"\x10\x0c\x00\x04MQTT"]),
            said(address, &[]),
        ]
    });
    assert_eq!(told, ["tls", "http", "ssh", "220 I speak first", "220 I speak first"]);
}

const SECURED: &str = r#"
stream {
    log_format s "$status";
    map $server_port $log { %%PORT%% 0; %%PORT_9%% 0; default 1; }
    access_log %%LOGS%%/sessions.log s if=$log;
    proxy_ssl on;
    proxy_ssl_trusted_certificate %%DIR%%/authority.pem;
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_1%%; proxy_pass 127.0.0.1:%%PORT_9%%; proxy_ssl_verify on; proxy_ssl_name a.example;
             proxy_protocol on; proxy_ssl_server_name on; proxy_ssl_alpn "" b c; }
    server { listen 127.0.0.1:%%PORT_2%%; proxy_pass 127.0.0.1:%%PORT_9%%; proxy_ssl_verify on; proxy_ssl_name b.example;
             proxy_protocol on; }
    server { listen 127.0.0.1:%%PORT_3%%; proxy_pass 127.0.0.1:%%PORT_9%%; proxy_protocol on;
             proxy_ssl_certificate %%DIR%%/a.pem; proxy_ssl_certificate_key %%DIR%%/a.key; }
    server { listen 127.0.0.1:%%PORT_9%% proxy_protocol ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
             ssl_verify_client optional; ssl_client_certificate %%DIR%%/authority.pem; ssl_alpn c d;
             return "$proxy_protocol_addr $ssl_server_name|$ssl_alpn_protocol|$ssl_client_verify|$ssl_client_s_dn"; }
}
"#;

/// A header of version 2 tells of the encryption that ended here; this is read by the same server.
#[test]
fn headers_of_version_2_tell_of_the_encryption() {
    let text = r#"stream {
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_client_certificate %%DIR%%/a.pem;
        proxy_protocol v2;
        server { listen 127.0.0.1:%%PORT%%; return ready; }
        server { listen 127.0.0.1:%%PORT_1%% ssl; ssl_verify_client on; ssl_alpn b; proxy_pass 127.0.0.1:%%PORT_9%%; }
        server { listen 127.0.0.1:%%PORT_2%%; proxy_pass 127.0.0.1:%%PORT_9%%; }
        server { listen 127.0.0.1:%%PORT_9%% proxy_protocol;
                 return "$proxy_protocol_addr $proxy_protocol_tlv_authority $proxy_protocol_tlv_alpn $proxy_protocol_tlv_ssl_version $proxy_protocol_tlv_ssl_cn $proxy_protocol_tlv_ssl_verify"; }
    }"#;
    let made = certificate("a.example", Kind::Ecdsa);
    let (told, _) = talk(Server::Fulmar, text, &made, |running| {
        let client = tls::Client::new(Some("a.example")).offering(&["b"]).showing(&made, &[]);
        vec![secret(&client, running.address_of(1)), said(running.address_of(2), &[])]
    });
    assert_eq!(told, ["127.0.0.1 a.example b TLSv1.3 a.example 0", "127.0.0.1     "]);
}

#[test]
fn sessions_with_servers_are_encrypted_as_in_nginx() {
    let authority = Authority::new("Authority");
    let made = authority.certificate("a.example", 7);
    let of = |server: Server| {
        let site = Site::whole(&(START.to_owned() + SECURED)).in_prefix("authority.pem", &authority.pem);
        let running = site.in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key).start(server);
        let told: Vec<String> = (1..4).map(|port| said(running.address_of(port), &[])).collect();
        (told, running.stop_and(|running| running.log("sessions.log")))
    };
    let own = of(Server::Fulmar);
    let told = ["127.0.0.1 a.example|c|NONE|", "", "127.0.0.1 ||SUCCESS|CN=a.example"];
    assert_eq!(own, (told.map(str::to_owned).to_vec(), "200\n502\n200\n".to_owned()));
    if have_nginx() {
        assert_eq!(of(Server::Nginx), own);
    }
}

const CHOSEN: &str = r#"
stream {
    log_format s "$status";
    access_log %%LOGS%%/sessions.log s;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    ssl_alpn c d;
    map $remote_addr $file { default a; }
    server { listen 127.0.0.1:%%PORT%%; access_log off; return ready; }
    server { listen 127.0.0.1:%%PORT_1%% ssl; proxy_pass 127.0.0.1:%%PORT_9%%; proxy_ssl on; proxy_ssl_alpn $ssl_alpn_protocol;
             proxy_ssl_certificate %%DIR%%/$file.pem; proxy_ssl_certificate_key %%DIR%%/$file.key; }
    server { listen 127.0.0.1:%%PORT_9%% ssl; ssl_verify_client optional_no_ca; return "$ssl_alpn_protocol $ssl_client_s_dn"; }
}
"#;

#[test]
fn each_session_offers_servers_its_own_protocols_with_one_certificate() {
    let made = certificate("a.example", Kind::Ecdsa);
    let (told, _) = compare(CHOSEN, &made, |running| {
        let offering = |protocol: &str| tls::Client::new(None).offering(&[protocol]);
        ["c", "d", "c"].map(|protocol| secret(&offering(protocol), running.address_of(1))).into()
    });
    assert_eq!(told, ["c CN=a.example", "d CN=a.example", "c CN=a.example"]);
}

const CHECKED: &str = r#"
stream {
    log_format s "$server_port $status $ssl_client_verify $ssl_alpn_protocol";
    map $server_port $log { %%PORT%% 0; default 1; }
    access_log %%LOGS%%/sessions.log s if=$log;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    ssl_client_certificate %%DIR%%/a.pem;
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_1%% ssl; ssl_verify_client on; ssl_alpn one two; return "in $ssl_client_serial"; }
    server { listen 127.0.0.1:%%PORT_2%% ssl; ssl_verify_client optional_no_ca; return "in"; }
    server { listen 127.0.0.1:%%PORT_3%% ssl; }
}
"#;

#[test]
fn clients_of_sessions_are_checked_as_in_nginx() {
    let made = certificate("a.example", Kind::Ecdsa);
    let stranger = certificate("b.example", Kind::Ecdsa);
    let (told, lines) = compare(CHECKED, &made, |running| {
        let mut told = Vec::new();
        for port in [1, 2, 3] {
            let client = tls::Client::new(Some("a.example")).offering(&["two", "one"]);
            for client in [client.clone(), client.clone().showing(&stranger, &[]), client.showing(&made, &[])]
            {
                told.push(secret(&client, running.address_of(port)).split(' ').next().unwrap().to_owned());
            }
        }
        told.push(secret(&tls::Client::new(None).offering(&["three"]), running.address_of(1)));
        told
    });
    assert_eq!(told, ["", "", "in", "in", "in", "in", "", "", "", "no connection"]);
    assert_eq!(lines.len(), 10, "{lines:#?}");
}
