//! A name server that answers as a test tells it to, lies included.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// The kind of IPv4 addresses.
pub const A: u16 = 1;
/// The kind of IPv6 addresses.
pub const AAAA: u16 = 28;
/// The kind of services.
pub const SRV: u16 = 33;
const CNAME: u16 = 5;

/// A question as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its random id.
    pub id: u16,
    /// The name.
    pub name: String,
    /// What is asked for: [`A`], [`AAAA`] or [`SRV`].
    pub kind: u16,
    /// Whether it came over TCP.
    pub by_tcp: bool,
    /// The port that it came from.
    pub port: u16,
}

/// What the server sends back.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A message.
    Message(Vec<u8>),
    /// A message from another port, where it came in a datagram.
    FromElsewhere(Vec<u8>),
}

/// A message that is being written.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// An answer to a question, without records.
    pub fn to(question: &Question) -> Message {
        let Question { id, name, kind, .. } = question;
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"\x81\x80\0\x01\0\0\0\0\0\0");
        bytes.extend_from_slice(&encode(name));
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(b"\0\x01");
        Message { bytes }
    }

    /// An error: 2 is a failure of the server, 3 a name that does not exist.
    #[must_use]
    pub fn error(mut self, code: u8) -> Message {
        self.bytes[3] |= code;
        self
    }

    /// The mark of an answer that does not fit.
    #[must_use]
    pub fn truncated(mut self) -> Message {
        self.bytes[2] |= 2;
        self
    }

    /// Another id.
    #[must_use]
    pub fn with_id(mut self, id: u16) -> Message {
        self.bytes[..2].copy_from_slice(&id.to_be_bytes());
        self
    }

    /// An address, if it is of the family that was asked for.
    #[must_use]
    pub fn address(self, ttl: u32, ip: &str) -> Message {
        let kind = self.kind();
        match ip.parse().expect("an address") {
            IpAddr::V4(ip) if kind == A => self.record(b"\xc0\x0c", A, ttl, &ip.octets()),
            IpAddr::V6(ip) if kind == AAAA => self.record(b"\xc0\x0c", AAAA, ttl, &ip.octets()),
            _ => self,
        }
    }

    /// Another name of the same.
    #[must_use]
    pub fn alias(self, ttl: u32, target: &str) -> Message {
        self.record(b"\xc0\x0c", CNAME, ttl, &encode(target))
    }

    /// A service, if services were asked for.
    #[must_use]
    pub fn service(self, ttl: u32, (priority, weight, port): (u16, u16, u16), target: &str) -> Message {
        if self.kind() != SRV {
            return self;
        }
        let mut data: Vec<u8> =
            [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect();
        data.extend_from_slice(&encode(target));
        self.record(b"\xc0\x0c", SRV, ttl, &data)
    }

    /// Any record of an owner in the wire format.
    #[must_use]
    pub fn record(mut self, owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Message {
        self.bytes[7] += 1;
        self.bytes.extend_from_slice(owner);
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(b"\0\x01");
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(&u16::try_from(data.len()).expect("a length").to_be_bytes());
        self.bytes.extend_from_slice(data);
        self
    }

    /// The message as a reply.
    pub fn reply(self) -> Reply {
        Reply::Message(self.bytes)
    }

    /// The message as a reply from another port.
    pub fn from_elsewhere(self) -> Reply {
        Reply::FromElsewhere(self.bytes)
    }

    /// The kind of the question; the question is the last thing before any record.
    fn kind(&self) -> u16 {
        let labels = self.bytes[12..].iter().position(|&byte| byte == 0).expect("an end");
        u16::from_be_bytes([self.bytes[12 + labels + 1], self.bytes[12 + labels + 2]])
    }
}

/// A name server that runs until the test ends.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl NameServer {
    /// Starts a server with this behaviour, over UDP and TCP. No reply is silence.
    pub fn start(answer: impl Fn(&Question) -> Vec<Reply> + Send + Sync + 'static) -> NameServer {
        let (datagrams, listener) = sockets();
        let address = datagrams.local_addr().expect("address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<dyn Fn(Question) -> Vec<Reply> + Send + Sync> = {
            let asked = Arc::clone(&asked);
            Arc::new(move |question: Question| {
                asked.lock().expect("questions").push(question.clone());
                answer(&question)
            })
        };
        let by_datagram = Arc::clone(&answer);
        thread::spawn(move || serve_datagrams(&datagrams, &*by_datagram));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                thread::spawn(move || serve_stream(stream, &*answer));
            }
        });
        NameServer { address, asked }
    }

    /// A server that knows one address of every name.
    pub fn of(ip: &'static str) -> NameServer {
        NameServer::start(move |question| vec![Message::to(question).address(60, ip).reply()])
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All questions so far.
    pub fn asked(&self) -> Vec<Question> {
        self.asked.lock().expect("questions").clone()
    }

    /// How many questions of this kind there were about a name.
    pub fn count(&self, name: &str, kind: u16) -> usize {
        self.asked().iter().filter(|question| question.name == name && question.kind == kind).count()
    }
}

/// The same free port for both protocols.
fn sockets() -> (UdpSocket, TcpListener) {
    let both = || {
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let listener = TcpListener::bind(datagrams.local_addr().ok()?).ok()?;
        Some((datagrams, listener))
    };
    (0..100).find_map(|_| both()).expect("a port")
}

fn serve_datagrams(socket: &UdpSocket, answer: &dyn Fn(Question) -> Vec<Reply>) {
    let mut bytes = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
        for reply in answer(decode(&bytes[..length], false, from.port())) {
            // One that left cannot be answered.
            let _ = match reply {
                Reply::Message(message) => socket.send_to(&message, from),
                Reply::FromElsewhere(message) => {
                    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                    other.send_to(&message, from)
                }
            };
        }
    }
}

fn serve_stream(mut stream: TcpStream, answer: &dyn Fn(Question) -> Vec<Reply>) {
    let port = stream.peer_addr().map_or(0, |peer| peer.port());
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        for reply in answer(decode(&bytes, true, port)) {
            let (Reply::Message(message) | Reply::FromElsewhere(message)) = reply;
            let length = u16::try_from(message.len()).expect("a length").to_be_bytes();
            if stream.write_all(&[&length[..], &message].concat()).is_err() {
                return;
            }
        }
    }
}

fn decode(message: &[u8], by_tcp: bool, port: u16) -> Question {
    let number = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut labels = Vec::new();
    let mut at = 12;
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).into_owned());
        at = end;
    }
    Question { id: number(0), name: labels.join("."), kind: number(at + 1), by_tcp, port }
}

fn encode(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).expect("a label"));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
