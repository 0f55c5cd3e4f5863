//! Clients that people use: curl, nghttp and HTTPX, whose answers are those of nginx; Chromium; and Go's, for which
//! `make go-clients` runs the tests.

use super::encrypted;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tests::binary::{Server, nginx_with};
use tests::node::{Node, have_node};
use tests::origin::{self, Origin};
use tests::parts;
use tests::site::{Running, Site};

/// A browser starts within this time, unless something is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIGURATION: &str = "
    client_max_body_size 4m;
    client_body_buffer_size 4m;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_1%% ssl;
        http2 on;
        ssl_certificate %%DIR%%/c.pem;
        ssl_certificate_key %%DIR%%/k.pem;
        root html;
        location /said { return 200 \"$server_protocol $request_method\\n\"; }
        location /length { proxy_pass http://127.0.0.1:%%PORT_2%%; }
        location /streamed {
            proxy_pass http://127.0.0.1:%%PORT_2%%;
            proxy_http_version 1.1;
            proxy_request_buffering off;
        }
        location /trailer { add_trailer X-Trailer last; return 200 text; }
    }
    server {
        listen 127.0.0.1:%%PORT_2%%;
        location / { client_max_body_size 0; proxy_pass http://127.0.0.1:%%PORT_3%%; }
    }
    server {
        listen 127.0.0.1:%%PORT_3%%;
        location / { return 200 \"$request_method $content_length\\n\"; }
    }";

const LARGE: usize = 300_000;

fn site() -> Site {
    encrypted(CONFIGURATION).file("large.bin", vec![b'x'; LARGE]).file("page.txt", "a page\n")
}

/// What these commands print for both servers, which has to be the same. Ours, for more to be asked of it.
fn agreed(ask: impl Fn(&Running, &Path) -> String) -> String {
    let site = site();
    let root = site.root();
    let running = site.start(Server::Fulmar);
    let ours = ask(&running, &root);
    running.stop();
    if let Some(nginx) = nginx_with(&["--with-http_v2_module", "--with-http_ssl_module"]) {
        let running = site.nginx(nginx).start(Server::Nginx);
        assert_eq!(ours, ask(&running, &root));
        running.stop();
    }
    ours
}

/// The program, if it is there. Without it a line is printed, and in CI the test fails.
fn program(names: &[&str]) -> Option<PathBuf> {
    let found = parts::program(names);
    parts::is_present(names[0], found.is_some()).then_some(found)?
}

/// What a program prints. It has to succeed.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("a program that runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {errors}\n{text}");
    text
}

fn urls(running: &Running) -> [String; 2] {
    [format!("http://{}", running.address()), format!("https://{}", running.address_of(1))]
}

#[test]
fn curl_gets_what_it_gets_from_nginx() {
    let Some(curl) = program(&["curl"]) else { return };
    let told = agreed(|running, root| {
        let [clear, secure] = urls(running);
        let upload = format!("@{}", root.join("large.bin").display());
        let requests: [(&[&str], String); 9] = [
            (&["--http2"], format!("{secure}/said")),
            (&["--http1.1"], format!("{secure}/said")),
            (&["--http2-prior-knowledge"], format!("{clear}/said")),
            // An upgrade from HTTP/1.1, which no server has to take part in.
            (&["--http2"], format!("{clear}/said")),
            (&["--http2", "--data-binary", &upload], format!("{secure}/length")),
            (
                &["--http2", "--data-binary", &upload, "--header", "Expect: 100-continue"],
                format!("{secure}/length"),
            ),
            (&["--http2-prior-knowledge", "--upload-file", &upload[1..]], format!("{clear}/streamed")),
            (&["--http2", "--range", "5-9"], format!("{secure}/large.bin")),
            (&["--http2", "--output", "/dev/null"], format!("{secure}/large.bin")),
        ];
        let ask = |(arguments, url): &(&[&str], String)| {
            let mut command = Command::new(&curl);
            command.args(["--silent", "--show-error", "--insecure", "--noproxy", "*", "--max-time", "60"]);
            command.args(["--write-out", "%{http_version} %{http_code} %{size_download}\n"]);
            output(command.args(*arguments).arg(url))
        };
        let parallel = ["--http2", "--parallel", "--parallel-max", "40"];
        let together = ask(&(&parallel, format!("{secure}/page.txt?[1-100]")));
        // They end in any order.
        let mut lines: Vec<&str> = together.lines().collect();
        lines.sort_unstable();
        requests.iter().map(ask).collect::<String>() + &lines.join("\n")
    });
    assert!(told.starts_with("HTTP/2.0 GET\n2 200 13\nHTTP/1.1 GET\n1.1 200 13\nHTTP/2.0 GET\n"), "{told}");
    assert!(told.contains("POST 300000\n2 200 12\n"), "{told}");
    assert_eq!(told.matches("a page").count(), 100);
}

#[test]
fn nghttp_gets_what_it_gets_from_nginx() {
    let Some(nghttp) = program(&["nghttp"]) else { return };
    let told = agreed(|running, root| {
        let [clear, secure] = urls(running);
        let large = root.join("large.bin").display().to_string();
        let requests: [(&[&str], String); 6] = [
            (&[], format!("{clear}/said")),
            (&["--multiply=100"], format!("{secure}/page.txt")),
            (&["--window-bits=8", "--connection-window-bits=16"], format!("{secure}/large.bin")),
            (&["--header-table-size=0"], format!("{secure}/said")),
            (&["--data", &large], format!("{secure}/length")),
            (&["--data", &large, "--no-content-length"], format!("{clear}/streamed")),
        ];
        let ask = |(arguments, url): &(&[&str], String)| {
            output(Command::new(&nghttp).args(["--no-verify-peer", "--timeout=60"]).args(*arguments).arg(url))
        };
        let bodies: String = requests.iter().map(ask).collect();
        let mut verbose = Command::new(&nghttp);
        let text =
            output(verbose.args(["--verbose", "--null-out", "--timeout=60"]).arg(format!("{clear}/trailer")));
        let trailers =
            text.lines().filter(|line| line.contains("recv (stream_id=") && line.contains("x-trailer:"));
        let trailers: Vec<&str> =
            trailers.filter_map(|line| line.split_once(") ")).map(|(_, field)| field).collect();
        bodies + &trailers.join("\n")
    });
    assert!(told.contains("POST 300000\n") && told.ends_with("x-trailer: last"), "{told:.2000}");
    assert_eq!(told.matches("a page\n").count(), 100);
}

const HTTPX: &str = include_str!("../../src/python/httpx_client.py");

#[test]
fn httpx_gets_what_it_gets_from_nginx() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/httpx/bin/python3");
    if !parts::is_present("HTTPX for Python", python.with_file_name("../installed").exists()) {
        return;
    }
    let told = agreed(|running, _| {
        let [clear, secure] = urls(running);
        output(Command::new(&python).args(["-c", HTTPX, &secure, &clear]))
    });
    assert!(told.contains("('HTTP/2', 200, 'HTTP/2.0 GET\\n')"), "{told}");
    assert!(told.contains("upload: ('HTTP/2', 200, 'POST 300000\\n')"), "{told}");
}

/// A page that says by which protocol it came, and talks over a WebSocket.
const PAGE: &str = r"<!doctype html><title>page</title><script>
addEventListener('load', async () => {
    const lines = [];
    const tell = () => fetch('/told', { method: 'POST', body: lines.join('\n') });
    try {
        await (await fetch('/said')).text();
        for (const entry of performance.getEntries()) {
            const path = entry.nextHopProtocol && new URL(entry.name).pathname;
            if (path && path !== '/favicon.ico') lines.push(path + ' ' + entry.nextHopProtocol);
        }
        const socket = new WebSocket('wss://' + location.host + '/socket');
        socket.onopen = () => socket.send('hello');
        socket.onmessage = event => { lines.push('heard ' + event.data); socket.close(); };
        socket.onclose = event => { lines.push('closed ' + event.wasClean); tell(); };
    } catch (error) {
        lines.push(String(error));
        tell();
    }
});
</script>";

/// A browser that runs. It ends when dropped.
struct Browser(Child);

impl Browser {
    fn open(profile: &Path, url: &str) -> Option<Browser> {
        let chromium = program(&["chromium", "chromium-browser", "google-chrome"])?;
        let mut command = Command::new(chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        // The port keeps the browser from ending with the page.
        command.args(["--ignore-certificate-errors", "--no-proxy-server", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg(url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Browser(command.spawn().expect("a browser")))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// RFC 8441: the WebSocket is a stream of the connection that brought the page.
#[test]
fn chromium_opens_a_websocket_in_the_connection_of_the_page() {
    if !have_node() {
        return;
    }
    let (teller, told) = mpsc::channel();
    let origin = Origin::start(move |asked| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        drop(teller.send(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()));
        origin::ok("")
    });
    let node = Node::start();
    let configuration = format!(
        "log_format t '$connection $http2 $request $status';
         access_log %%LOGS%%/access.log t;
         server {{
             listen 127.0.0.1:%%PORT%% ssl;
             http2 on;
             ssl_certificate %%DIR%%/c.pem;
             ssl_certificate_key %%DIR%%/k.pem;
             root html;
             location /said {{ return 200 $server_protocol; }}
             location /told {{ proxy_pass http://{}; }}
             location /socket {{
                 proxy_pass http://{};
                 proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade;
                 proxy_set_header Connection upgrade;
             }}
         }}",
        origin.address(),
        node.address()
    );
    let running = encrypted(&configuration).file("index.html", PAGE).start(Server::Fulmar);
    let profile = tempfile::tempdir().unwrap();
    let url = format!("https://{}/index.html", running.address());
    let Some(browser) = Browser::open(profile.path(), &url) else { return };
    let told = told.recv_timeout(PATIENCE);
    drop(browser);
    let log = running.stop_and(|running| running.log("access.log"));
    let told = told.unwrap_or_else(|_| panic!("the browser says nothing:\n{log}"));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines, ["/index.html h2", "/said h2", "heard hello", "closed true"], "{log}");
    let connection = |request: &str| {
        let line =
            log.lines().find(|line| line.contains(request)).unwrap_or_else(|| panic!("{request}: {log}"));
        line.split(' ').next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        connection("h2 GET /socket HTTP/2.0 200"),
        connection("h2 GET /index.html HTTP/2.0 200"),
        "{log}"
    );
}

/// The program of `tests/go`, which `make go-clients` builds.
fn go() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/go/clients"))
}

#[test]
#[ignore = "needs Go: make go-clients"]
fn go_clients_over_http_get_what_they_get_from_nginx() {
    let told = agreed(|running, _| {
        let [clear, secure] = urls(running);
        let told = output(go().args(["http", &secure, &clear]));
        let (with_trailers, rest): (Vec<_>, Vec<_>) =
            told.lines().partition(|line| line.contains("upload with trailers:"));
        // nginx ends the connection.
        if running.server() == Server::Fulmar {
            assert!(
                with_trailers.iter().all(|line| line.ends_with("HTTP/2.0 200 \"PUT 1000000\\n\"")),
                "{told}"
            );
        }
        rest.join("\n")
    });
    println!("{told}");
    assert!(!told.contains("error:"), "{told}");
}

/// A gRPC server in Go. It ends when dropped.
struct GoServer(Child, SocketAddr);

impl GoServer {
    fn start() -> GoServer {
        let mut child = go().arg("grpc-server").stdout(Stdio::piped()).spawn().expect("make go-clients");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let port: u16 = line.trim().parse().unwrap_or_else(|_| panic!("the gRPC server says {line:?}"));
        GoServer(child, ([127, 0, 0, 1], port).into())
    }
}

impl Drop for GoServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs Go: make go-clients"]
fn go_clients_over_grpc_get_what_the_server_says() {
    let server = GoServer::start();
    let direct = output(go().args(["grpc-client", &server.1.to_string()]));
    println!("{direct}");
    let site = Site::new(&format!(
        "client_max_body_size 0;
         upstream backend {{ server {}; keepalive 4; }}
         server {{
             listen 127.0.0.1:%%PORT%%;
             http2 on;
             location / {{ grpc_pass grpc://backend; }}
         }}",
        server.1
    ));
    let through = |kind: Server, site: &Site| {
        let running = site.start(kind);
        let told = output(go().args(["grpc-client", &running.address().to_string()]));
        running.stop();
        told
    };
    assert_eq!(through(Server::Fulmar, &site), direct);
    if let Some(nginx) = nginx_with(&["--with-http_v2_module"]) {
        assert_eq!(through(Server::Nginx, &site.nginx(nginx)), direct);
    }
}
