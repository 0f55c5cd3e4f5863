//! Services as other people run them, through `stream`, with their own clients.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tests::binary::Server;
use tests::daemon::{Daemon, have, have_python};
use tests::mariadb::{MariaDb, have_mariadb};
use tests::site::{Running, START, Site};
use tests::tls::{Kind, certificate};

/// Starts Fulmar with these servers of `stream` and this `http` block.
fn start(servers: &str, http: &str) -> Running {
    let text = format!(
        "{START} stream {{
            ssl_certificate %%DIR%%/a.pem;
            ssl_certificate_key %%DIR%%/a.key;
            server {{ listen 127.0.0.1:%%PORT%%; return ready; }}
            {servers}
        }}
        {http}"
    );
    let made = certificate("a.example", Kind::Ecdsa);
    let site = Site::whole(&text).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key);
    site.start(Server::Fulmar)
}

/// Runs a client to its end and gives what it prints. It ends after 30 seconds at the latest.
fn run(program: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["30", program]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut sink = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writes = std::thread::spawn(move || drop(sink.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writes.join().unwrap();
    output
}

/// As [`run`], of a client that succeeds.
fn printed(program: &str, arguments: &[&str], input: &[u8]) -> String {
    let Output { status, stdout, stderr } = run(program, arguments, input);
    let told = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{program} {arguments:?}: {told}");
    String::from_utf8_lossy(&stdout).into_owned()
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

#[test]
fn mariadb_by_its_client() {
    if !have_mariadb() || !have(&["mariadb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(directory.path(), &["shop"]);
    let server =
        format!("server {{ listen 127.0.0.1:%%PORT_1%%; proxy_pass unix:{}; }}", mariadb.socket().display());
    let running = start(&server, "");
    let port = port(running.address_of(1));
    let ask = |statements: &str| {
        let arguments =
            ["--no-defaults", "--skip-ssl", "-h127.0.0.1", "-P", &port, "-ushop", "-pshop", "-N", "shop"];
        printed("mariadb", &arguments, statements.as_bytes())
    };
    let long = "x".repeat(300_000);
    let made = ask(&format!(
        "CREATE TABLE t (a LONGTEXT); INSERT INTO t VALUES ('{long}'); SELECT COUNT(*) FROM t;"
    ));
    assert_eq!(made, "1\n");
    assert!(ask("SELECT a FROM t;").trim() == long);
    running.stop();
}

#[test]
fn redis_by_its_client_in_clear_and_over_tls() {
    if !have(&["redis-server", "redis-cli"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let redis = Daemon::redis(directory.path());
    let servers = format!(
        "server {{ listen 127.0.0.1:%%PORT_1%%; listen 127.0.0.1:%%PORT_2%% ssl; proxy_pass {}; }}",
        redis.address
    );
    let running = start(&servers, "");
    let (clear, secret) = (port(running.address_of(1)), port(running.address_of(2)));
    let value = "v".repeat(500_000);
    assert_eq!(printed("redis-cli", &["-p", &clear, "-x", "SET", "key"], value.as_bytes()), "OK\n");
    let got = printed("redis-cli", &["-p", &secret, "--tls", "--insecure", "GET", "key"], b"");
    assert!(got.trim() == value);
    // Many commands without waiting for answers.
    let commands: String = (0..20_000).map(|number| format!("SET k{number} {number}\r\n")).collect();
    let told = printed("redis-cli", &["-p", &clear, "--pipe"], commands.as_bytes());
    assert!(told.contains("errors: 0, replies: 20000"), "{told}");
    running.stop();
}

#[test]
fn mqtt_by_the_clients_of_mosquitto() {
    if !have(&["mosquitto", "mosquitto_pub", "mosquitto_sub"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mosquitto = Daemon::mosquitto(directory.path());
    let servers = format!("server {{ listen 127.0.0.1:%%PORT_1%%; proxy_pass {}; }}", mosquitto.address);
    let running = start(&servers, "");
    let port = port(running.address_of(1));
    let message = "m".repeat(100_000);
    printed(
        "mosquitto_pub",
        &["-h", "127.0.0.1", "-p", &port, "-t", "news", "-r", "-q", "1", "-s"],
        message.as_bytes(),
    );
    let got =
        printed("mosquitto_sub", &["-h", "127.0.0.1", "-p", &port, "-t", "news", "-C", "1", "-q", "1"], b"");
    assert!(got.trim() == message);
    running.stop();
}

/// Sends a message that has to be encrypted.
fn send_mail(port: &str, text: &str) {
    let url = format!("smtp://127.0.0.1:{port}/client.example");
    let arguments = [
        "-sS",
        "-k",
        "--ssl-reqd",
        "--mail-from",
        "a@a.example",
        "--mail-rcpt",
        "b@b.example",
        "-T",
        "-",
        &url,
    ];
    printed("curl", &arguments, format!("Subject: test\r\n\r\n{text}\r\n").as_bytes());
}

fn messages(directory: &Path) -> String {
    fs::read_to_string(directory.join("messages")).unwrap_or_default()
}

#[test]
fn mail_that_becomes_encrypted_on_the_way() {
    if !have(&["curl"]) || !have_python("aiosmtpd") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let smtp = Daemon::smtp(directory.path(), &certificate("mail.example", Kind::Ecdsa));
    let servers = format!("server {{ listen 127.0.0.1:%%PORT_1%%; proxy_pass {}; }}", smtp.address);
    let running = start(&servers, "");
    send_mail(&port(running.address_of(1)), "a letter");
    assert!(messages(directory.path()).contains("a letter"), "{}", messages(directory.path()));
    running.stop();
}

/// Runs a command on the server of OpenSSH.
fn by_ssh(directory: &Path, port: &str, command: &str, input: &[u8]) -> String {
    let key = directory.join("key");
    let arguments = [
        "-p",
        port,
        "-i",
        key.to_str().unwrap(),
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        "127.0.0.1",
        command,
    ];
    printed("ssh", &arguments, input)
}

/// One port for TLS, HTTP, SSH, and a protocol whose server speaks first, as the manual has it.
#[test]
fn one_port_serves_all_protocols() {
    if !have(&["sshd", "ssh", "ssh-keygen", "curl", "openssl"]) || !have_python("aiosmtpd") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sshd = Daemon::sshd(directory.path());
    let smtp = Daemon::smtp(directory.path(), &certificate("mail.example", Kind::Ecdsa));
    let servers = format!(
        "map $preread_kind $service {{ tls 127.0.0.1:%%PORT_2%%; http 127.0.0.1:%%PORT_3%%; ssh {}; default {}; }}
         server {{ listen 127.0.0.1:%%PORT_1%%; preread_kind on; preread_timeout 500ms; proxy_pass $service; }}",
        sshd.address, smtp.address
    );
    let http = "http {
        access_log off;
        server { listen 127.0.0.1:%%PORT_3%%; return 200 page; }
        server { listen 127.0.0.1:%%PORT_2%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
                 return 200 secret; }
    }";
    let running = start(&servers, http);
    let port = port(running.address_of(1));
    assert_eq!(printed("curl", &["-sS", &format!("http://127.0.0.1:{port}/")], b""), "page");
    assert_eq!(printed("curl", &["-sSk", &format!("https://127.0.0.1:{port}/")], b""), "secret");
    let hello = run(
        "openssl",
        &["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", "a.example"],
        b"",
    );
    let told = String::from_utf8_lossy(&hello.stdout).into_owned();
    assert!(told.contains("a.example"), "{told}");
    let sent: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    assert!(by_ssh(directory.path(), &port, "cat", sent.as_bytes()) == sent);
    send_mail(&port, "by the same port");
    assert!(messages(directory.path()).contains("by the same port"), "{}", messages(directory.path()));
    running.stop();
}
