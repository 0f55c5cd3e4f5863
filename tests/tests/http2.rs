//! Clients that speak HTTP/2: over TLS and in clear, with many requests at a time, and with frames that are of no use.
//! What can be compared is asked of nginx, too.

mod clients;
mod endings;
mod faults;
mod h2spec;
mod idle;
pub(crate) mod raw;
mod small_frames;
mod streams;
mod upstreams;
mod websockets;

use bytes::Bytes;
use h2::client::SendRequest;
use http_types::Request;
use raw::frame;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tests::binary::{Server, nginx_with};
use tests::site::{Running, Site};
use tests::tls::{Client, Kind, certificate};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// No test takes longer than this, unless something is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

const CONFIGURATION: &str = "
    log_format t '$request $status $http2 $request_length $body_bytes_sent';
    access_log %%LOGS%%/access.log t;
    client_max_body_size 4m;
    server {
        listen 127.0.0.1:%%PORT%%;
        http2 on;
        root html;
        location /return { return 200 \"[$http2] $server_protocol $request_method $http_host $http_cookie\\n\"; }
        location /error { error_page 404 /page.txt; return 404; }
        location /empty { return 204; }
        location /moved { return 301 /return; }
        location /limited { client_max_body_size 10; proxy_pass http://127.0.0.1:%%PORT_1%%; }
        location /proxy { proxy_pass http://127.0.0.1:%%PORT_1%%; }
        location /stream { proxy_request_buffering off; proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:%%PORT_1%%; }
        location /trailer { add_trailer X-Trailer last; return 200 text; }
    }
    server {
        listen 127.0.0.1:%%PORT_1%%;
        location / { client_body_buffer_size 4m; proxy_pass http://127.0.0.1:%%PORT_2%%; }
    }
    server {
        listen 127.0.0.1:%%PORT_2%%;
        location / { return 200 \"$request_method $content_length $http_x_many\\n\"; }
    }";

fn site() -> Site {
    let large: Vec<u8> = (0..1_000_003u32).map(|at| at.to_le_bytes()[(at % 3) as usize]).collect();
    Site::new(CONFIGURATION)
        .file("index.html", "index")
        .file("page.txt", "the page of an error")
        .file("large.bin", large)
}

/// A site with a certificate, `c.pem`, and its key, `k.pem`.
fn encrypted(configuration: &str) -> Site {
    let made = certificate("localhost", Kind::Ecdsa);
    Site::new(configuration).in_prefix("c.pem", &made.pem).in_prefix("k.pem", &made.key)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("nothing is stuck") })
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// A response: its status, its fields, its content and what follows it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    fields: BTreeMap<String, String>,
    content: Vec<u8>,
    trailers: Vec<String>,
}

/// Sends a request with a body in pieces.
fn send(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: Vec<Bytes>,
) -> JoinHandle<Result<Answer, h2::Error>> {
    let (response, mut stream) = client.send_request(request, body.is_empty()).unwrap();
    tokio::spawn(async move {
        let count = body.len();
        for (index, mut piece) in body.into_iter().enumerate() {
            while !piece.is_empty() {
                stream.reserve_capacity(piece.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
                stream.send_data(piece.split_to(room.min(piece.len())), false)?;
            }
            if index + 1 == count {
                stream.send_data(Bytes::new(), true)?;
            }
        }
        let (head, mut body) = response.await?.into_parts();
        let mut content = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece?;
            body.flow_control().release_capacity(piece.len())?;
            content.extend_from_slice(&piece);
        }
        let text = |value: &http_types::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let trailers = body.trailers().await?.unwrap_or_default();
        Ok(Answer {
            status: head.status.as_u16(),
            fields: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            content,
            trailers: trailers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect(),
        })
    })
}

fn request(method: &str, path: &str) -> Request<()> {
    let uri = format!("http://localhost{path}");
    Request::builder()
        .method(method)
        .uri(uri)
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(())
        .unwrap()
}

async fn ask(address: SocketAddr, method: &str, path: &str, body: Vec<Bytes>) -> Result<Answer, h2::Error> {
    let mut client = connect(address).await.ready().await?;
    send(&mut client, request(method, path), body).await.unwrap()
}

/// Fields that differ from server to server, or from time to time.
const OWN: [&str; 4] = ["server", "date", "etag", "last-modified"];

/// What a server answers to a table of requests.
fn answers(running: &Running) -> Vec<String> {
    let piece = || Bytes::from(vec![b'x'; 3000]);
    let table = [
        ("GET", "/", vec![]),
        ("HEAD", "/", vec![]),
        ("GET", "/large.bin", vec![]),
        ("GET", "/return", vec![]),
        ("POST", "/return", vec![piece()]),
        ("GET", "/error", vec![]),
        ("GET", "/nothing", vec![]),
        ("GET", "/empty", vec![]),
        ("GET", "/moved", vec![]),
        ("POST", "/proxy", vec![piece(), piece()]),
        ("POST", "/proxy", (0..400).map(|_| piece()).collect()),
        ("PUT", "/stream", (0..100).map(|_| piece()).collect()),
        ("GET", "/proxy", vec![]),
        ("GET", "/trailer", vec![]),
        ("GET", "/../x", vec![]),
    ];
    let address = running.address();
    run(async move {
        let mut all = Vec::new();
        for (method, path, body) in table {
            let mut answer = ask(address, method, path, body).await.unwrap();
            answer.fields.retain(|name, _| !OWN.contains(&&**name));
            if let Some(location) = answer.fields.get_mut("location") {
                *location = location.replace(&format!(":{}/", address.port()), ":PORT/");
            }
            let text = match answer.content.len() {
                0..1000 => String::from_utf8_lossy(&answer.content)
                    .replace(concat!("Fulmar/", env!("CARGO_PKG_VERSION")), "nginx"),
                length => format!(
                    "{length} bytes with the sum {}",
                    answer.content.iter().map(|&b| u64::from(b)).sum::<u64>()
                ),
            };
            let text = if answer.status >= 300 { String::new() } else { text };
            answer.fields.retain(|name, _| answer.status < 300 || name != "content-length");
            all.push(format!(
                "{method} {path} {} {:?} {:?} {text}",
                answer.status, answer.fields, answer.trailers
            ));
        }
        all
    })
}

#[test]
fn answers_are_those_of_nginx() {
    let running = site().start(Server::Fulmar);
    let own = answers(&running);
    assert!(own[3].contains("[h2c] HTTP/2.0 GET localhost a=1; b=2"), "{}", own[3]);
    assert!(own[10].contains("POST 1200000 "), "{}", own[10]);
    running.stop();
    let Some(nginx) = nginx_with(&["--with-http_v2_module"]) else { return };
    let running = site().nginx(nginx).start(Server::Nginx);
    assert_eq!(own, answers(&running));
    running.stop();
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let running = site().start(Server::Fulmar);
    let body = vec![Bytes::from(vec![b'x'; 100])];
    let answer = run(ask(running.address(), "POST", "/limited", body)).unwrap();
    assert_eq!(answer.status, 413);
    running.stop();
}

#[test]
fn many_streams_share_a_connection() {
    let running = site().start(Server::Fulmar);
    let address = running.address();
    run(async move {
        let mut client = connect(address).await.ready().await.unwrap();
        let mut tasks = Vec::new();
        for index in 0..90 {
            let (path, body) = match index % 3 {
                0 => ("/large.bin", vec![]),
                1 => ("/return", vec![]),
                _ => ("/proxy", vec![Bytes::from(vec![b'y'; 20_000])]),
            };
            let method = if body.is_empty() { "GET" } else { "POST" };
            client = client.ready().await.unwrap();
            tasks.push((path, send(&mut client, request(method, path), body)));
        }
        // One that is cancelled ends no other one.
        client = client.ready().await.unwrap();
        let (response, mut stream) = client.send_request(request("GET", "/large.bin"), false).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        assert!(response.await.is_err());
        for (path, task) in tasks {
            let answer = task.await.unwrap().unwrap();
            assert_eq!(answer.status, 200, "{path}");
            match path {
                "/large.bin" => assert_eq!(answer.content.len(), 1_000_003),
                "/proxy" => assert_eq!(answer.content, b"POST 20000 \n"),
                _ => assert!(answer.content.starts_with(b"[h2c]")),
            }
        }
    });
    running.stop();
}

/// The code of the frame that ends the connection, if one does.
fn goaway(answer: &[u8]) -> Option<u32> {
    let mut rest = answer;
    while let [a, b, c, kind, _, _, _, _, _, payload @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if *kind == 7 {
            return payload[4..8].try_into().ok().map(u32::from_be_bytes);
        }
        rest = payload.get(length..)?;
    }
    None
}

#[test]
fn floods_end_the_connection_and_no_other() {
    let running = site().start(Server::Fulmar);
    let get = [0x82, 0x86, 0x84, 0x41, 1, b'h'];
    type Make = fn(u32) -> Vec<u8>;
    let floods: [(&str, Make); 4] = [
        ("rapid reset", |id| frame(3, 0, id, &[0, 0, 0, 8])),
        ("made you reset", |id| frame(8, 0, id, &[0, 0, 0, 0])),
        ("pings", |_| frame(6, 0, 0, &[0; 8]).repeat(20)),
        ("settings", |_| frame(4, 0, 0, &[]).repeat(20)),
    ];
    for (name, flood) in floods {
        let mut stream = std::net::TcpStream::connect(running.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
        for index in 0..1000 {
            // A request for what another server answers, so that it is in progress.
            bytes.extend(frame(1, 4, 2 * index + 1, &[&get[..], &[0x44, 6], b"/proxy"].concat()));
            bytes.extend(flood(2 * index + 1));
        }
        // The server may have closed already.
        drop(stream.write_all(&bytes));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert_eq!(goaway(&answer), Some(11), "{name}");
    }
    assert_eq!(run(ask(running.address(), "GET", "/", vec![])).unwrap().status, 200);
    running.stop();
}

#[test]
fn the_handshake_chooses_the_protocol() {
    let server = |http2: &str| {
        format!(
            "server {{ listen 127.0.0.1:%%PORT%% ssl; http2 {http2}; ssl_certificate c.pem; ssl_certificate_key k.pem;
                location / {{ return 200 \"$ssl_alpn_protocol $http2\"; }} }}"
        )
    };
    for (http2, offered, begins_with) in [
        ("on", &["http/1.1", "h2"][..], &[0, 0, 24, 4, 0][..]),
        ("on", &["http/1.1"], b"HTTP/1.1 400"),
        ("off", &["h2", "http/1.1"], b"HTTP/1.1 400"),
    ] {
        let running = encrypted(&server(http2)).start(Server::Fulmar);
        let client = Client::new(Some("localhost")).offering(offered);
        let mut stream = client.connect(running.address()).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut answer = vec![0; begins_with.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, begins_with, "{http2} {offered:?}");
        drop(stream);
        running.stop();
    }
}

#[test]
fn streams_finish_when_the_server_stops() {
    let running = site().start(Server::Fulmar);
    let address = running.address();
    run(async {
        let mut client = connect(address).await.ready().await.unwrap();
        let (response, _) = client.send_request(request("GET", "/large.bin"), true).unwrap();
        let (_, mut body) = response.await.unwrap().into_parts();
        // The client takes no more than its window until the server was asked to stop.
        let first = body.data().await.unwrap().unwrap();
        running.signal(rustix::process::Signal::QUIT);
        let mut length = first.len();
        body.flow_control().release_capacity(first.len()).unwrap();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            length += piece.len();
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_eq!(length, 1_000_003);
    });
    running.stop();
}
