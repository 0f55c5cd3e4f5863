//! `proxy_pass https://` with nginx as the upstream, and the same configuration on Fulmar and nginx.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustls::{ServerConfig, ServerConnection};
use tests::binary::{Server, have_nginx};
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site};
use tests::tls::{Authority, Certificate, Kind, certificate, server_config};
use tests::wait;
use tests::websocket::WebSocket;

/// Two servers by name at one address, one of TLS 1.2 only, one in clear.
const UPSTREAM: &str = r#"
    server {
        listen %%PORT%% ssl;
        server_name a.example;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_verify_client optional_no_ca;
        root %%ROOT%%;
        location /v {
            add_header X-Host $http_host;
            return 200 "$ssl_server_name|$ssl_client_verify|$ssl_client_s_dn|$ssl_protocol|$uri\n";
        }
        location /reused { return 200 "$ssl_session_reused|$connection_requests\n"; }
        location /upload { client_max_body_size 20m; proxy_pass http://ORIGIN; }
        location /echo {
            proxy_pass http://ORIGIN;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }
    }
    server {
        listen %%PORT%% ssl;
        server_name b.example;
        ssl_certificate %%DIR%%/b.pem;
        ssl_certificate_key %%DIR%%/b.key;
        return 200 "b|$ssl_server_name\n";
    }
    server {
        listen %%PORT_1%% ssl;
        ssl_protocols TLSv1.2;
        ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;
        ssl_certificate %%DIR%%/rsa.pem;
        ssl_certificate_key %%DIR%%/rsa.key;
        location / { return 200 "$ssl_protocol|$ssl_cipher\n"; }
        location /reused { return 200 "$ssl_session_reused|$connection_requests\n"; }
    }
    server { listen %%PORT_2%%; return 200 "in clear\n"; }
"#;

/// A key that the password `geheim` opens.
const SEALED_KEY: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiIrmLXulHqcQICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHOPJhnRZC/n/mQ29ONHzSYEgZDd\n\
/PeIw8j/g7jvFib8KRs8pYD7K8Y/2uW9DSqwUIEZ0VglgVIcVbFOq+TmroNEcK5o\n\
GuETV5bBCdXxKBNc3N3nRgzAVCKlHyw93pOOjHQBvWC4y0GvTLOeu7/9K9u/K/4u\n\
g3PWEEdEMeV2dKktbL8kPOCputLe2d/LbpYi8kBAIRORHTtMDkrMupOCQ9bAk/g=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";

/// Its certificate, for a hundred years.
const SEALED: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBijCCAS+gAwIBAgIUK1SLK8jZvQm4yHhpdTK2oFOY7rgwCgYIKoZIzj0EAwIw\n\
GTEXMBUGA1UEAwwOc2VhbGVkLmV4YW1wbGUwIBcNMjYxMTIzMDI1ODI2WhgPMjEy\n\
NjEwMzAwMjU4MjZaMBkxFzAVBgNVBAMMDnNlYWxlZC5leGFtcGxlMFkwEwYHKoZI\n\
zj0CAQYIKoZIzj0DAQcDQgAELIyNbgxQL9oe1oVKo9PrrQaGfbcZlICrm3rU+v71\n\
4xDHQ+uf9bVg77S6ExKkPtIaWgcLhGaOWA7JlLldZ/AA6aNTMFEwHQYDVR0OBBYE\n\
FJXldCJpS2NQBSyqXGQSrnpiI8rHMB8GA1UdIwQYMBaAFJXldCJpS2NQBSyqXGQS\n\
rnpiI8rHMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhANgRPetf\n\
6SgSQjKlJ+JkKFVM3w+tWpcu8CRmVbIYFYPhAiEA/f2VliEnEtPdxi6Ymn6YLpVa\n\
cCv5/z2p2YaEmiycWHE=\n\
-----END CERTIFICATE-----\n\
";

struct Made {
    authority: Authority,
    a: Certificate,
    b: Certificate,
    rsa: Certificate,
    running: Running,
}

fn upstream() -> Made {
    let authority = Authority::new("an authority");
    let a = authority.certificate("a.example", 7);
    let b = certificate("b.example", Kind::Ecdsa);
    let rsa = certificate("c.example", Kind::Rsa);
    let origin = Origin::start(|asked| match asked.target.as_str() {
        "/echo" => raw(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            After::Echo,
        ),
        _ => ok(asked.text.len().to_string().as_bytes()),
    });
    let big: Vec<u8> = (0..5_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let text = UPSTREAM.replace("ORIGIN", &origin.address().to_string());
    let mut site = Site::new(&text).file("big", big).file("index.html", "hello\n");
    for (name, made) in [("a", &a), ("b", &b), ("rsa", &rsa)] {
        site = site.in_prefix(&format!("{name}.pem"), &made.pem).in_prefix(&format!("{name}.key"), &made.key);
    }
    Made { authority, running: site.start(Server::Nginx), a, b, rsa }
}

impl Made {
    /// A site in front, with `%%A%%`, `%%RSA%%` and `%%CLEAR%%` as the addresses of the servers.
    fn front(&self, http: &str) -> Site {
        let text = http
            .replace("%%A%%", &self.running.address().to_string())
            .replace("%%RSA%%", &self.running.address_of(1).to_string())
            .replace("%%CLEAR%%", &self.running.address_of(2).to_string());
        let mut site = Site::new(&text);
        for (name, made) in [("a", &self.a), ("b", &self.b), ("rsa", &self.rsa)] {
            site = site
                .in_prefix(&format!("{name}.pem"), &made.pem)
                .in_prefix(&format!("{name}.key"), &made.key);
        }
        site.in_prefix("sealed.key", SEALED_KEY)
            .in_prefix("sealed.pem", SEALED)
            .in_prefix("passwords", "wrong\n\ngeheim\n")
            .in_prefix("ca.pem", &self.authority.pem)
            .in_prefix("none.crl", self.authority.revoke(&[8]))
            .in_prefix("seven.crl", self.authority.revoke(&[8, 7]))
    }
}

#[test]
fn answers_over_tls_are_those_through_nginx() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let site = upstream.front(
        r#"
        upstream group { server %%A%%; }
        upstream a.example { server %%A%%; }
        server {
            listen %%PORT%%;
            proxy_ssl_trusted_certificate %%DIR%%/ca.pem;
            # nginx would resume sessions of locations that verify less.
            proxy_ssl_session_reuse off;
            location / { proxy_pass https://%%A%%; client_max_body_size 20m; }
            location /group/ { proxy_pass https://group/; proxy_ssl_server_name on; }
            location /named/ { proxy_pass https://group/; proxy_ssl_server_name on; proxy_ssl_name b.example; }
            location /port/ { proxy_pass https://group/; proxy_ssl_server_name on; proxy_ssl_name $arg_n:80; }
            location /silent/ { proxy_pass https://a.example/; }
            location /rsa/ { proxy_pass https://%%RSA%%/; }
            location /only13/ { proxy_pass https://%%RSA%%/; proxy_ssl_protocols TLSv1.3; }
            location /cipher/ { proxy_pass https://%%RSA%%/; proxy_ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384; }
            location /clear/ { proxy_pass https://%%CLEAR%%/; }
            location /verify/ { proxy_pass https://a.example/; proxy_ssl_verify on; }
            location /wrongname/ { proxy_pass https://group/; proxy_ssl_verify on; }
            location /wrongca/ {
                proxy_pass https://a.example/;
                proxy_ssl_verify on;
                proxy_ssl_trusted_certificate %%DIR%%/b.pem;
            }
            location /unrevoked/ {
                proxy_pass https://a.example/;
                proxy_ssl_verify on;
                proxy_ssl_crl %%DIR%%/none.crl;
            }
            location /revoked/ {
                proxy_pass https://a.example/;
                proxy_ssl_verify on;
                proxy_ssl_crl %%DIR%%/seven.crl;
            }
            location /client/ {
                proxy_pass https://a.example/;
                proxy_ssl_certificate %%DIR%%/rsa.pem;
                proxy_ssl_certificate_key %%DIR%%/rsa.key;
            }
            location /sealed/ {
                proxy_pass https://a.example/;
                proxy_ssl_certificate %%DIR%%/sealed.pem;
                proxy_ssl_certificate_key %%DIR%%/sealed.key;
                proxy_ssl_password_file %%DIR%%/passwords;
            }
            location /variable/ {
                set $to https://a.example;
                proxy_pass $to/v?x;
                proxy_ssl_server_name on;
                proxy_ssl_verify on;
            }
        }
        "#,
    );
    let paths = [
        "GET /",
        "GET /v",
        "GET /missing",
        "GET /big",
        "GET /big\nRange: bytes=100-20000",
        "HEAD /big",
        "GET /group/v",
        "GET /named/v",
        "GET /port/v?n=b.example",
        "GET /port/v?n=127.0.0.1",
        "GET /port/v",
        "GET /silent/v",
        "GET /rsa/v",
        "GET /only13/v",
        "GET /cipher/v",
        "GET /clear/v",
        "GET /verify/v",
        "GET /wrongname/v",
        "GET /wrongca/v",
        "GET /unrevoked/v",
        "GET /revoked/v",
        "GET /client/v",
        "GET /sealed/v",
        "GET /variable/",
        "GET /v HTTP/1.0",
    ];
    agree(&site, &paths);
}

#[test]
fn variables_name_the_certificate_of_a_request() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let text = r#"
        map $arg_inline $pem { default "%%DIR%%/$arg_c.pem"; yes "data:INLINE_PEM"; }
        map $arg_inline $key { default "%%DIR%%/$arg_c.key"; yes "data:INLINE_KEY"; }
        server {
            listen %%PORT%%;
            proxy_ssl_session_reuse off;
            proxy_ssl_certificate $arg_c.pem;
            proxy_ssl_certificate_key $arg_c.key;
            proxy_ssl_password_file %%DIR%%/passwords;
            location / { proxy_pass https://%%A%%; }
            location /cached/ { proxy_pass https://%%A%%/; proxy_ssl_certificate_cache max=4; }
            location /whole/ {
                proxy_pass https://%%A%%/;
                proxy_ssl_certificate $pem;
                proxy_ssl_certificate_key $key;
            }
            location /plain/ {
                proxy_pass https://%%A%%/;
                proxy_ssl_certificate $arg_c;
                proxy_ssl_certificate_key $arg_c;
            }
        }
    "#;
    let text = text.replace("INLINE_PEM", &upstream.rsa.pem).replace("INLINE_KEY", &upstream.rsa.key);
    agree(
        &upstream.front(&text),
        &[
            "GET /v?c=rsa",
            "GET /v?c=b",
            "GET /v?c=sealed",
            "GET /v?c=none",
            "GET /v",
            "GET /cached/v?c=rsa",
            "GET /cached/v?c=rsa",
            "GET /cached/v?c=sealed",
            "GET /whole/v?c=b",
            "GET /whole/v?inline=yes",
            "GET /plain/v",
        ],
    );
}

#[test]
fn connections_are_kept_for_the_same_certificate_only() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let site = upstream.front(
        "upstream kept { server %%A%%; keepalive 4; } server { listen %%PORT%%; \
         proxy_ssl_certificate $arg_c.pem; proxy_ssl_certificate_key $arg_c.key; \
         location / { proxy_pass https://kept; } }",
    );
    let running = site.start(Server::Fulmar);
    let requests = |name: &str| {
        let answer = running.ask(&format!("GET /reused?c={name}"));
        answer.last().text().trim().rsplit('|').next().unwrap().to_owned()
    };
    assert_eq!(["rsa", "rsa", "b", "rsa", "b"].map(requests), ["1", "2", "1", "3", "2"]);
    running.stop();
}

#[test]
fn upload_and_download_arrive_whole() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    for buffering in ["on", "off"] {
        let site = upstream.front(&format!(
            "server {{ listen %%PORT%%; client_max_body_size 20m; proxy_request_buffering {buffering}; \
             proxy_buffering {buffering}; location / {{ proxy_pass https://%%A%%; }} }}"
        ));
        let running = site.start(Server::Fulmar);
        let body = "x".repeat(6_000_000);
        let upload = format!("POST /upload\nContent-Length: {}\n\n{body}", body.len());
        let sent: usize = running.ask(&upload).last().text().parse().expect("a length");
        assert!(sent > body.len() && sent < body.len() + 500, "{sent}");
        let answer = running.ask("GET /big");
        let big = &answer.last().body;
        assert_eq!(big.len(), 5_000_000);
        assert!(big.iter().enumerate().all(|(i, &byte)| usize::from(byte) == i % 251));
        running.stop();
    }
}

#[test]
fn websocket_goes_through() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let site = upstream.front(
        "server { listen %%PORT%%; location / { proxy_pass https://%%A%%; \
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } }",
    );
    let running = site.start(Server::Fulmar);
    let stream = TcpStream::connect(running.address()).expect("connect");
    let mut socket = WebSocket::open(stream, "/echo").expect("a socket");
    for length in [5, 100_000] {
        // The server echoes bytes and knows nothing of frames.
        let bytes = vec![7; length];
        socket.stream().write_all(&bytes).expect("sent");
        let mut echoed = vec![0; length];
        socket.stream().read_exact(&mut echoed).expect("an echo");
        assert_eq!(echoed, bytes);
    }
    drop(socket);
    running.stop();
}

#[test]
fn connections_are_kept_and_sessions_resumed() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    for (at, extra, expected) in [
        ("%%A%%", "", [".|1", "r|1", "r|1"]),
        ("%%RSA%%", "", [".|1", "r|1", "r|1"]),
        ("%%A%%", "proxy_ssl_session_reuse off;", [".|1", ".|1", ".|1"]),
        ("%%RSA%%", "proxy_ssl_session_reuse off;", [".|1", ".|1", ".|1"]),
    ] {
        let site = upstream.front(&format!(
            "upstream u {{ server {at}; keepalive 0; }} upstream kept {{ server {at}; keepalive 4; }} \
             server {{ listen %%PORT%%; {extra} \
             location / {{ proxy_pass https://u; }} location /kept/ {{ proxy_pass https://kept/; }} \
             location /other/ {{ proxy_pass https://kept/; proxy_ssl_name other; }} }}"
        ));
        let running = site.start(Server::Fulmar);
        for expected in expected {
            assert_eq!(running.ask("GET /reused").last().text().trim(), expected, "{at} {extra}");
        }
        let requests = |path: &str| {
            let answer = running.ask(&format!("GET {path}"));
            answer.last().text().trim().rsplit('|').next().unwrap().to_owned()
        };
        assert_eq!(["/kept/reused"; 3].map(requests), ["1", "2", "3"], "{at}");
        assert_eq!(requests("/other/reused"), "1", "another name has its own connection");
        assert_eq!(requests("/kept/reused"), "4");
        running.stop();
    }
}

/// Answers "first" together with the begin of a record, whose rest follows as soon as there is another request.
fn answer_with_a_part(mut stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
    let mut session = ServerConnection::new(config).expect("a server");
    let mut request = [0; 4096];
    if rustls::Stream::new(&mut session, &mut stream).read(&mut request)? == 0 {
        return Ok(());
    }
    let mut record = |text: &str| {
        let mut bytes = Vec::new();
        session.writer().write_all(&ok(text).0)?;
        while session.wants_write() {
            session.write_tls(&mut bytes)?;
        }
        std::io::Result::Ok(bytes)
    };
    let (first, unasked) = (record("first")?, record("unasked")?);
    stream.write_all(&[&first, &unasked[..7]].concat())?;
    if stream.read(&mut request)? > 0 {
        stream.write_all(&unasked[7..])?;
        while stream.read(&mut request)? > 0 {}
    }
    Ok(())
}

#[test]
fn a_part_of_a_record_ends_a_kept_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let config = server_config(&certificate("origin.example", Kind::Ecdsa));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || answer_with_a_part(stream, config));
        }
    });
    let running = Site::new(&format!(
        "upstream u {{ server {address}; keepalive 4; }}
         server {{ listen %%PORT%%; location / {{ proxy_pass https://u; }} }}"
    ))
    .start(Server::Fulmar);
    for _ in 0..4 {
        assert_eq!(running.ask("GET /").last().text(), "first");
    }
    running.stop();
}

#[test]
fn reload_keeps_connections_unless_their_settings_change() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let configuration = |depth: u32, said: &str| {
        format!(
            "upstream u {{ server {}; keepalive 4; }} server {{ listen %%PORT%%; proxy_ssl_verify on; \
             proxy_ssl_name a.example; proxy_ssl_verify_depth {depth}; \
             proxy_ssl_trusted_certificate %%DIR%%/ca.pem; \
             proxy_ssl_certificate %%DIR%%/rsa.pem; proxy_ssl_certificate_key %%DIR%%/rsa.key; \
             location / {{ proxy_pass https://u; }} location = /said {{ return 200 {said}; }} }}",
            upstream.running.address()
        )
    };
    let running = upstream.front(&configuration(1, "first")).start(Server::Fulmar);
    let requests = || {
        let answer = running.ask("GET /reused\nConnection: close");
        answer.last().text().trim().rsplit('|').next().unwrap().to_owned()
    };
    let reload = |depth, said: &str| {
        running.rewrite(&configuration(depth, said));
        running.signal(Signal::HUP);
        let is_new = || running.ask("GET /said\nConnection: close").last().text() == said;
        assert!(wait::until(Duration::from_secs(20), is_new), "{}", running.all_logs());
    };
    assert_eq!((requests().as_str(), requests().as_str()), ("1", "2"));
    reload(1, "same");
    assert_eq!(requests(), "3", "the connection is kept");
    reload(2, "other");
    assert_eq!(requests(), "1", "the connection was opened with other settings");
    running.stop();
}

#[test]
fn failures_are_logged_in_nginx_words() {
    if !have_nginx() {
        return;
    }
    let upstream = upstream();
    let site = upstream.front(
        r#"
        upstream both { server %%CLEAR%%; server %%A%% backup; }
        upstream a.example { server %%A%%; }
        server {
            listen %%PORT%%;
            proxy_ssl_trusted_certificate %%DIR%%/ca.pem;
            location /clear { proxy_pass https://%%CLEAR%%; }
            location /13 { proxy_pass https://%%RSA%%; proxy_ssl_protocols TLSv1.3; }
            location /name { proxy_pass https://a.example; proxy_ssl_name b.example; proxy_ssl_verify on; }
            location /ca {
                proxy_pass https://a.example;
                proxy_ssl_verify on;
                proxy_ssl_trusted_certificate %%DIR%%/b.pem;
            }
            location /v { proxy_pass https://both; }
        }
        "#,
    );
    let running = site.start(Server::Fulmar);
    for (path, logged) in [
        ("/clear", "SSL_do_handshake() failed (SSL: "),
        ("/13", "SSL_do_handshake() failed (SSL: "),
        ("/name", "upstream SSL certificate does not match \"b.example\" while SSL handshaking to upstream"),
        (
            "/ca",
            "upstream SSL certificate verify error: (21:unable to verify the first certificate) while SSL handshaking to",
        ),
    ] {
        assert_eq!(running.ask(&format!("GET {path}")).last().status, 502, "{path}");
        assert!(running.all_logs().contains(logged), "{path}: {}", running.all_logs());
    }
    assert_eq!(running.ask("GET /v").last().status, 200, "the next server is asked");
    running.stop();
}

#[test]
fn silent_server_ends_the_handshake_in_time() {
    let origin = Origin::start(|_| raw("", After::Hang));
    let site = Site::new(&format!(
        "server {{ listen %%PORT%%; proxy_connect_timeout 300ms; location / {{ proxy_pass https://{}; }} }}",
        origin.address()
    ));
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /").last().status, 504);
    let logged = "upstream timed out (110: Connection timed out) while SSL handshaking to upstream";
    assert!(running.all_logs().contains(logged), "{}", running.all_logs());
    running.stop();
}

#[test]
fn wrong_files_are_errors_at_load() {
    let a = certificate("a.example", Kind::Ecdsa);
    let b = certificate("b.example", Kind::Ecdsa);
    for (lines, message) in [
        ("proxy_ssl_verify on;", "no proxy_ssl_trusted_certificate for proxy_ssl_verify"),
        (
            "proxy_ssl_certificate %%DIR%%/a.pem;",
            "no \"proxy_ssl_certificate_key\" is defined for certificate \"",
        ),
        (
            "proxy_ssl_certificate %%DIR%%/a.pem; proxy_ssl_certificate_key %%DIR%%/b.key;",
            "failed (key values mismatch)",
        ),
        (
            "proxy_ssl_verify on; proxy_ssl_trusted_certificate %%DIR%%/no.pem;",
            "BIO_new_file() failed (2: No such file or directory)",
        ),
        (
            "proxy_ssl_verify on; proxy_ssl_trusted_certificate %%DIR%%/a.key;",
            "PEM_read_bio_X509_AUX() failed (no certificate in PEM form is there)",
        ),
        (
            "proxy_ssl_verify on; proxy_ssl_trusted_certificate %%DIR%%/a.pem; proxy_ssl_crl %%DIR%%/a.pem;",
            "PEM_read_bio_X509_CRL() failed (no CRL in PEM form is there)",
        ),
        ("proxy_ssl_ciphers RC4;", "SSL_CTX_set_cipher_list(\"RC4\") failed (no cipher match)"),
        ("proxy_ssl_protocols TLSv1;", "\"proxy_ssl_protocols\" enables no supported version"),
        (
            "proxy_ssl_conf_command Options x;",
            "\"proxy_ssl_conf_command\" with \"Options\" \"x\" is not supported",
        ),
        (
            "proxy_ssl_certificate $uri;",
            "no \"proxy_ssl_certificate_key\" is defined for certificate \"$uri\"",
        ),
        (
            "proxy_ssl_certificate_cache valid=1s;",
            "\"proxy_ssl_certificate_cache\" must have the \"max\" parameter",
        ),
    ] {
        let site = Site::new(&format!(
            "server {{ listen 127.0.0.1:%%PORT%%; {lines} location / {{ proxy_pass https://127.0.0.1; }} }}"
        ));
        let site = site.in_prefix("a.pem", &a.pem).in_prefix("a.key", &a.key).in_prefix("b.key", &b.key);
        let text = site.test(Server::Fulmar).unwrap_err();
        assert!(text.contains(message), "{lines}: {text}");
    }
    if have_nginx() {
        agree_on_mistake(&Site::new(
            "server { listen 127.0.0.1:%%PORT%%; proxy_ssl_verify on; \
             location / { proxy_pass https://127.0.0.1; } }",
        ));
    }
}
