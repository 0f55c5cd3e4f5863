//! Conversations with the library's own client, which has rustls for its handshake.

use crate::{
    Arrival, ConnectionKey, Endpoint, Event, Limits, Place, Places, Read, Secrets, Settings, StreamId,
    Written,
};
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EndpointConfig,
    ReadError, VarInt,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{Choices, Pair, ResetKey, SelfSigned, ServerPolicy, TokenKey};

const NAME: &str = "a.example";
const PLACE: Place = Place { generation: 1, thread: 2 };
const LIMITS: Limits = Limits {
    connections: 4,
    handshakes_before_retry: 2,
    requests: 3,
    one_way_streams: 3,
    stream_window_bytes: 65_536,
    window_bytes: 131_072,
    send_window_bytes: 65_536,
    idle: Duration::from_secs(30),
};

fn addresses() -> [SocketAddr; 2] {
    ["192.0.2.1:4433", "192.0.2.2:5000"].map(|address| address.parse().unwrap())
}

/// A server for [`NAME`] only, and a client that trusts it.
struct Pairing {
    server: Endpoint,
    places: Places,
    client: quinn_proto::Endpoint,
    client_config: ClientConfig,
    now: Instant,
}

struct Client {
    handle: ConnectionHandle,
    connection: Connection,
}

impl Pairing {
    fn new(limits: Limits) -> Pairing {
        let made = SelfSigned::new(&[NAME]).unwrap();
        let pairs = [Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").unwrap()];
        let settings = tls::Settings { pairs: &pairs, choices: &Choices::default(), clients: None };
        let policy = Arc::new(ServerPolicy::new(&settings).unwrap().for_quic(&[b"h3"]));
        let places = Places::new(&[3; 32]);
        let server = Endpoint::new(Settings {
            secrets: Secrets { tokens: TokenKey::new(&[1; 32]), resets: ResetKey::new(&[2; 32]) },
            places: places.clone(),
            place: PLACE,
            choose: Arc::new(move |hello| {
                (hello.server_name.as_deref() == Some(NAME)).then(|| Arc::clone(&policy))
            }),
            limits,
        });
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()).unwrap();
        let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = QuicClientConfig::try_from(config).unwrap();
        Pairing {
            server: server.unwrap(),
            places,
            client: quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            client_config: ClientConfig::new(Arc::new(crypto)),
            now: Instant::now(),
        }
    }

    fn connect(&mut self, name: &str) -> Client {
        let [server, _] = addresses();
        let config = self.client_config.clone();
        let (handle, connection) = self.client.connect(self.now, config, server, name).unwrap();
        Client { handle, connection }
    }

    /// What the client sends now.
    fn client_sends(&mut self, client: &mut Client) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            let mut bytes = Vec::new();
            if client.connection.poll_transmit(self.now, 1, &mut bytes).is_none() {
                return datagrams;
            }
            datagrams.push(bytes);
        }
    }

    fn arrive(&mut self, bytes: &[u8]) {
        let [to, from] = addresses();
        self.server.arrive(self.now, Arrival { from, to: Some(to.ip()), ecn: 0, bytes });
    }

    /// What the server sends now.
    fn server_sends(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let Some(departure) = self.server.depart(self.now, 1, &mut bytes) else { return datagrams };
            assert_eq!((departure.to, departure.segment_bytes), (addresses()[1], None));
            datagrams.push(bytes);
        }
    }

    fn client_receives(&mut self, client: &mut Client, datagram: &[u8]) {
        let ([server, _], mut response) = (addresses(), Vec::new());
        let bytes = BytesMut::from(datagram);
        match self.client.handle(self.now, server, None, None, bytes, &mut response) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => client.connection.handle_event(event),
            Some(_) => panic!("the client knows its connection"),
            None => {}
        }
        while let Some(event) = client.connection.poll_endpoint_events() {
            if let Some(event) = self.client.handle_event(client.handle, event) {
                client.connection.handle_event(event);
            }
        }
    }

    /// A round trip of two milliseconds. Returns what happened at the server.
    fn round(&mut self, client: &mut Client) -> Vec<(ConnectionKey, Event)> {
        for datagram in self.client_sends(client) {
            self.arrive(&datagram);
        }
        for datagram in self.server_sends() {
            self.client_receives(client, &datagram);
        }
        self.now += Duration::from_millis(2);
        client.connection.handle_timeout(self.now);
        self.server.expire(self.now);
        std::iter::from_fn(|| self.server.event()).collect()
    }

    fn establish(&mut self, client: &mut Client) -> ConnectionKey {
        for _ in 0..50 {
            for (key, event) in self.round(client) {
                if event == Event::Established {
                    return key;
                }
            }
        }
        panic!("no connection was established")
    }
}

fn lost(client: &mut Client) -> Option<ConnectionError> {
    std::iter::from_fn(|| client.connection.poll()).find_map(|event| match event {
        quinn_proto::Event::ConnectionLost { reason } => Some(reason),
        _ => None,
    })
}

#[test]
fn content_crosses_in_both_directions() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    let key = pairing.establish(&mut client);
    assert_eq!(pairing.server.negotiated(key).unwrap().alpn.as_deref(), Some(&b"h3"[..]));
    assert_eq!((pairing.server.peer(key), pairing.server.connections()), (Some(addresses()[1]), 1));

    let content: Vec<u8> = (0..300_000_u32).map(|number| number.to_be_bytes()[3]).collect();
    let id = client.connection.streams().open(Dir::Bi).unwrap();
    let (mut to_send, mut to_return, mut returned) = (&content[..], BytesMut::new(), Vec::new());
    let (mut is_read, mut is_finished) = (false, false);
    for _ in 0..2_000 {
        if let Ok(length) = client.connection.send_stream(id).write(to_send) {
            to_send = &to_send[length..];
            if to_send.is_empty() && length > 0 {
                client.connection.send_stream(id).finish().unwrap();
            }
        }
        pairing.round(&mut client);
        loop {
            match pairing.server.read(key, StreamId(0), 10_000) {
                Read::Bytes(bytes) => to_return.extend_from_slice(&bytes),
                read => {
                    is_read |= read == Read::End;
                    break;
                }
            }
        }
        if let Written::Bytes(length) = pairing.server.write(key, StreamId(0), &to_return) {
            let _ = to_return.split_to(length);
        }
        if is_read && to_return.is_empty() && !is_finished {
            is_finished = pairing.server.finish(key, StreamId(0));
        }
        let mut stream = client.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { break };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            returned.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
    }
    assert!(is_finished && returned == content, "{} bytes came back", returned.len());
}

#[test]
fn a_first_message_in_two_packets_may_come_in_any_order() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    let datagrams = pairing.client_sends(&mut client);
    assert_eq!(datagrams.len(), 2, "keys of a post-quantum exchange are long");
    for datagram in datagrams.iter().rev() {
        pairing.arrive(datagram);
    }
    pairing.establish(&mut client);
}

#[test]
fn a_name_that_is_not_served_is_rejected() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect("b.example");
    for _ in 0..5 {
        pairing.round(&mut client);
    }
    let Some(ConnectionError::ConnectionClosed(close)) = lost(&mut client) else { panic!("not rejected") };
    assert_eq!(u64::from(close.error_code), 0x100 + 112);
}

#[test]
fn identifiers_of_a_connection_name_its_thread() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    assert_eq!(
        pairing.client_sends(&mut client).first().map(|first| pairing.places.of_datagram(first)),
        Some(None)
    );
    pairing.now += Duration::from_secs(2);
    client.connection.handle_timeout(pairing.now);
    pairing.establish(&mut client);
    client.connection.ping();
    let datagrams = pairing.client_sends(&mut client);
    assert!(!datagrams.is_empty());
    for datagram in datagrams {
        assert_eq!(pairing.places.of_datagram(&datagram), Some(PLACE));
    }
}

#[test]
fn clients_show_their_address_while_many_handshakes_are_under_way() {
    let mut pairing = Pairing::new(Limits { handshakes_before_retry: 0, ..LIMITS });
    let mut client = pairing.connect(NAME);
    pairing.round(&mut client);
    assert_eq!(pairing.server.connections(), 0, "the server keeps nothing of a client that it knows not");
    pairing.establish(&mut client);
}

#[test]
fn connections_are_bounded() {
    let mut pairing = Pairing::new(Limits { connections: 1, ..LIMITS });
    let mut first = pairing.connect(NAME);
    let key = pairing.establish(&mut first);
    let mut second = pairing.connect(NAME);
    for datagram in pairing.client_sends(&mut second) {
        pairing.arrive(&datagram);
    }
    assert_eq!(pairing.server.connections(), 1);
    for datagram in pairing.server_sends() {
        pairing.client_receives(&mut second, &datagram);
    }
    let Some(ConnectionError::ConnectionClosed(close)) = lost(&mut second) else { panic!("not refused") };
    assert_eq!(u64::from(close.error_code), 2, "CONNECTION_REFUSED");

    first.connection.close(pairing.now, VarInt::from_u32(7), Bytes::new());
    let mut events = Vec::new();
    for _ in 0..1_000 {
        events.extend(pairing.round(&mut first));
    }
    assert!(
        matches!(&events[..], [.., (lost, Event::Lost(_)), (gone, Event::Gone)] if [lost, gone] == [&key; 2])
    );
    assert_eq!(pairing.server.connections(), 0);
}

#[test]
fn a_client_that_does_not_show_its_address_gets_little_more_than_three_times_what_it_sent() {
    /// The library completes the datagram that it began within the bound. This is the size of each one here.
    const DATAGRAM: usize = 1_200;
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    let datagrams = pairing.client_sends(&mut client);
    let (mut received, mut sent): (usize, usize) = (0, 0);
    for datagram in &datagrams {
        received += datagram.len();
        pairing.arrive(datagram);
    }
    for _ in 0..60_000 {
        sent += pairing.server_sends().iter().map(Vec::len).sum::<usize>();
        pairing.now += Duration::from_millis(1);
        pairing.server.expire(pairing.now);
    }
    assert!(sent > 0 && sent <= 3 * received + DATAGRAM, "{sent} bytes for {received}");
    assert_eq!(pairing.server.connections(), 0, "it is forgotten");
}

#[test]
fn streams_are_bounded_and_can_be_given_up() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    let key = pairing.establish(&mut client);
    pairing.round(&mut client);
    let mut ids: Vec<_> = std::iter::from_fn(|| client.connection.streams().open(Dir::Bi)).collect();
    assert_eq!(ids.len(), 3);
    for id in &ids {
        client.connection.send_stream(*id).write(b"request").unwrap();
    }
    let events = pairing.round(&mut client);
    for number in [0, 4, 8] {
        assert!(events.contains(&(key, Event::Opened(StreamId(number)))), "{number}");
    }
    assert!(pairing.server.reset(key, StreamId(0), 0x10c) && pairing.server.stop(key, StreamId(0), 0x10c));
    let ours = pairing.server.open_one_way(key).unwrap();
    assert_eq!((ours, pairing.server.read(key, ours, 1)), (StreamId(3), Read::Closed));
    // A stream that the client opened for itself alone, which is not one to write to.
    let theirs = StreamId(2);
    assert_eq!(pairing.server.write(key, theirs, b"content"), Written::Closed);
    assert!(!pairing.server.finish(key, theirs) && !pairing.server.reset(key, theirs, 0));
    assert!(!pairing.server.stop(key, ours, 0));
    pairing.round(&mut client);
    let id = ids.remove(0);
    let mut stream = client.connection.recv_stream(id);
    let read = stream.read(true).unwrap().next(1).map(|_| ());
    assert_eq!(read, Err(ReadError::Reset(VarInt::from_u32(0x10c))));
}

#[test]
fn garbage_makes_no_connection() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    let datagram = pairing.client_sends(&mut client).remove(0);
    for at in 0..datagram.len() {
        let mut changed = datagram.clone();
        changed[at] ^= 0x55;
        pairing.arrive(&changed[..]);
        pairing.arrive(&datagram[..at]);
        pairing.server_sends();
    }
    while let Some((_, event)) = pairing.server.event() {
        assert!(matches!(event, Event::Lost(_) | Event::Gone), "{event:?}");
    }
    assert!(pairing.server.connections() <= LIMITS.connections);
}

#[test]
fn windows_bound_what_is_not_read() {
    let mut pairing = Pairing::new(LIMITS);
    let mut client = pairing.connect(NAME);
    pairing.establish(&mut client);
    pairing.round(&mut client);
    let ids: Vec<_> = std::iter::from_fn(|| client.connection.streams().open(Dir::Uni)).collect();
    assert_eq!(ids.len(), 3);
    let mut taken = [0; 3];
    for _ in 0..200 {
        for (id, taken) in ids.iter().zip(&mut taken) {
            *taken += client.connection.send_stream(*id).write(&[0; 10_000]).unwrap_or(0);
        }
        pairing.round(&mut client);
    }
    assert!(taken.iter().all(|taken| *taken <= 65_536), "{taken:?} in a stream");
    assert_eq!(taken.iter().sum::<usize>(), 131_072, "in all streams");
}

#[test]
fn a_silent_connection_ends() {
    // The client's own limit is 30 seconds, and the shorter one counts.
    let idle = Duration::from_secs(10);
    let mut pairing = Pairing::new(Limits { idle, ..LIMITS });
    let mut client = pairing.connect(NAME);
    let key = pairing.establish(&mut client);
    pairing.round(&mut client);
    pairing.now += idle + Duration::from_secs(1);
    assert!(pairing.server.deadline().is_some_and(|deadline| deadline <= pairing.now));
    pairing.server.expire(pairing.now);
    let events: Vec<_> = std::iter::from_fn(|| pairing.server.event()).collect();
    assert!(
        matches!(&events[..], [.., (lost, Event::Lost(_)), (gone, Event::Gone)] if [lost, gone] == [&key; 2])
    );
}
