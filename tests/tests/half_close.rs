//! Connections of which one side ends before the other: all bytes arrive first, then the end, and then what the other side
//! still has to say. The receivers are slow, so that bytes are left to send at the moment of the end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use tests::binary::{Server, have_nginx};
use tests::site::{Running, START, Site};
use tests::tls::{self, Kind, certificate};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// More than the sockets on the way hold.
const LARGE: usize = 700_000;

/// What a client asks for before a tunnel is open, and what it is answered.
const ASKED: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n";

/// Which side ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Client,
    Server,
}

/// A client, over TLS or in clear.
enum Client {
    Clear(TcpStream),
    Secret(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Client {
    fn connect(running: &Running, port: usize, is_secret: bool) -> Client {
        let address = running.address_of(port);
        if is_secret {
            return Client::Secret(Box::new(tls::Client::new(Some("a.example")).connect(address).unwrap()));
        }
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::Clear(stream)
    }

    fn write(&mut self, bytes: &[u8]) {
        // A server may have closed already.
        let _ = match self {
            Client::Clear(stream) => stream.write_all(bytes),
            Client::Secret(stream) => stream.write_all(bytes),
        };
    }

    /// Says that nothing more comes.
    fn end(&mut self) {
        match self {
            // A server may have closed already.
            Client::Clear(stream) => drop(stream.shutdown(Shutdown::Write)),
            Client::Secret(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush().and_then(|()| stream.sock.shutdown(Shutdown::Write));
            }
        }
    }

    /// How many bytes come until the end. An end of TLS that is not announced is an error.
    fn drain(&mut self) -> Result<usize, String> {
        match self {
            Client::Clear(stream) => drain(stream),
            Client::Secret(stream) => drain(stream),
        }
    }
}

/// How many bytes come until the end, of a reader that is slow.
fn drain(stream: &mut impl Read) -> Result<usize, String> {
    let (mut count, mut room) = (0, [0; 16 * 1024]);
    wait::pause(Duration::from_millis(100));
    loop {
        match stream.read(&mut room) {
            Ok(0) => return Ok(count),
            Ok(read) => count += read,
            Err(error) => return Err(format!("{error} after {count} bytes")),
        }
        wait::pause(Duration::from_millis(1));
    }
}

/// A server that ends its side first or second, after a handshake of HTTP if the client has one. It tells how many bytes
/// each client sent.
fn origin(first: First) -> (SocketAddr, Receiver<Result<usize, String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, counts) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let told = told.clone();
            thread::spawn(move || {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut begin = [0];
                let has_head = stream.peek(&mut begin).is_ok_and(|count| count == 1 && begin == *b"G");
                let mut head = Vec::new();
                while has_head && !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut begin).unwrap();
                    head.push(begin[0]);
                }
                if has_head {
                    stream.write_all(SWITCHED).unwrap();
                }
                let counted = match first {
                    First::Client => drain(&mut stream),
                    First::Server => Ok(0),
                };
                let _ = stream.write_all(&vec![b'x'; LARGE]);
                let _ = stream.shutdown(Shutdown::Write);
                let counted = if first == First::Server { drain(&mut stream) } else { counted };
                let _ = told.send(counted);
            });
        }
    });
    (address, counts)
}

/// What a client gets and what the server behind the port gets, in bytes.
fn exchange(
    client: &mut Client,
    first: First,
    counts: &Receiver<Result<usize, String>>,
) -> (Result<usize, String>, Result<usize, String>) {
    let mut got = Ok(0);
    if first == First::Server {
        client.write(b"a");
        got = client.drain();
    }
    client.write(&vec![b'y'; LARGE]);
    client.end();
    if first == First::Client {
        got = client.drain();
    }
    (got, counts.recv_timeout(PATIENCE).map_err(|error| error.to_string()).and_then(|counted| counted))
}

fn site(text: &str, origin: SocketAddr) -> Site {
    let made = certificate("a.example", Kind::Ecdsa);
    let site = Site::whole(&(START.to_owned() + &text.replace("ORIGIN", &origin.to_string())));
    site.in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key)
}

const STREAM: &str = "stream {
    proxy_half_close on;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    server { listen 127.0.0.1:%%PORT%%; return ready; }
    server { listen 127.0.0.1:%%PORT_4%%; proxy_pass ORIGIN; }
    server { listen 127.0.0.1:%%PORT_1%%; proxy_pass 127.0.0.1:%%PORT_2%%; proxy_ssl on; }
    server { listen 127.0.0.1:%%PORT_2%% ssl; proxy_pass ORIGIN; }
    server { listen 127.0.0.1:%%PORT_3%% ssl; proxy_pass 127.0.0.1:%%PORT_2%%; proxy_ssl on; }
}";

#[test]
fn sessions_go_on_after_the_end_of_one_side() {
    for first in [First::Client, First::Server] {
        let (address, counts) = origin(first);
        let running = site(STREAM, address).start(Server::Fulmar);
        let sent = LARGE + usize::from(first == First::Server);
        for (port, is_secret) in [(4, false), (1, false), (2, true), (3, true)] {
            let mut client = Client::connect(&running, port, is_secret);
            let counted = exchange(&mut client, first, &counts);
            assert_eq!(counted, (Ok(LARGE), Ok(sent)), "{port} {first:?}");
        }
        running.stop();
    }
}

/// Without `proxy_half_close` a session ends with either side, which gets all bytes and the end.
#[test]
fn a_session_that_ends_tells_the_other_side() {
    let (address, _counts) = origin(First::Server);
    let text = STREAM.replace("proxy_half_close on;", "");
    for server in servers() {
        let running = site(&text, address).start(*server);
        for (port, is_secret) in [(4, false), (1, false), (2, true), (3, true)] {
            let mut client = Client::connect(&running, port, is_secret);
            client.write(b"a");
            assert_eq!(client.drain(), Ok(LARGE), "{port} {server:?}");
        }
        running.stop();
    }
}

fn servers() -> &'static [Server] {
    if have_nginx() { &[Server::Fulmar, Server::Nginx] } else { &[Server::Fulmar] }
}

const TUNNELS: &str = "http {
    access_log off;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection upgrade;
    proxy_http_version 1.1;
    server { listen 127.0.0.1:%%PORT%%; location / { proxy_pass http://ORIGIN; } }
    server { listen 127.0.0.1:%%PORT_1%%; location / { proxy_pass https://127.0.0.1:%%PORT_2%%; } }
    server { listen 127.0.0.1:%%PORT_2%% ssl; location / { proxy_pass http://ORIGIN; } }
    server { listen 127.0.0.1:%%PORT_3%% ssl; location / { proxy_pass https://127.0.0.1:%%PORT_2%%; } }
    server { listen 127.0.0.1:%%PORT_4%%; location / { proxy_pass http://ORIGIN; proxy_read_timeout 300ms; } }
}";

/// Opens a tunnel by a change of protocol.
fn open_tunnel(running: &Running, port: usize, is_secret: bool) -> Client {
    let mut client = Client::connect(running, port, is_secret);
    client.write(ASKED.as_bytes());
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match &mut client {
            Client::Clear(stream) => stream.read_exact(&mut byte).unwrap(),
            Client::Secret(stream) => stream.read_exact(&mut byte).unwrap(),
        }
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    client
}

/// nginx closes the tunnel at the first end.
#[test]
fn tunnels_go_on_after_the_end_of_one_side() {
    for first in [First::Client, First::Server] {
        let (address, counts) = origin(first);
        let sent = LARGE + usize::from(first == First::Server);
        for server in servers() {
            let running = site(TUNNELS, address).start(*server);
            for (port, is_secret) in [(0, false), (1, false), (2, true), (3, true)] {
                let mut client = open_tunnel(&running, port, is_secret);
                let counted = exchange(&mut client, first, &counts);
                let is_whole = counted == (Ok(LARGE), Ok(sent));
                assert_eq!(is_whole, *server == Server::Fulmar, "{port} {first:?} {counted:?}");
            }
            running.stop();
        }
    }
}

/// A server that ignores the end of a client does not hold the tunnel.
#[test]
fn a_tunnel_ends_if_the_other_side_is_silent_after_the_end_of_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = site(TUNNELS, listener.local_addr().unwrap()).start(Server::Fulmar);
    let (over, is_over) = channel::<()>();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(SWITCHED).unwrap();
        let counted = drain(&mut stream);
        let _ = is_over.recv_timeout(PATIENCE);
        counted
    });
    let mut client = open_tunnel(&running, 4, false);
    client.write(b"all");
    client.end();
    assert_eq!(client.drain(), Ok(0));
    drop(over);
    assert_eq!(peer.join().unwrap(), Ok(3));
    running.stop();
}
