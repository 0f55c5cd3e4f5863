//! The connections of one thread.

use crate::connection_id::{Generator, Place, Places};
use crate::crypto;
use crate::session::{ChoosePolicy, Sessions, VERSION};
use crate::streams::{self, Read, StreamId, Written};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Incoming, ServerConfig,
    StreamEvent, Transmit, TransportConfig, VarInt,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{Failure, InitialSecrets, Negotiated};

/// The most datagrams without a connection that wait to be sent: refusals, resets, and Retry. Further ones are dropped.
const RESPONSES_MAX: usize = 64;

/// What an endpoint is made of.
pub struct Settings {
    /// Keys that all processes of the server know.
    pub secrets: Secrets,
    /// Writes and reads places.
    pub places: Places,
    /// The thread of this endpoint.
    pub place: Place,
    /// Chooses the policy of TLS for a client.
    pub choose: ChoosePolicy,
    /// What clients may use.
    pub limits: Limits,
}

/// Keys that all processes of the server know, so that what one of them sent is valid at the next.
pub struct Secrets {
    /// Seals the tokens of Retry.
    pub tokens: tls::TokenKey,
    /// Signs stateless resets.
    pub resets: tls::ResetKey,
}

/// What clients may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of this endpoint. Further ones are refused.
    pub connections: usize,
    /// Handshakes under way. While there are more, clients must show by Retry that their address is theirs. With 0 all must.
    pub handshakes_before_retry: usize,
    /// Streams for requests that a client has open at a time in a connection.
    pub requests: u32,
    /// Streams in one direction that a client has open at a time in a connection.
    pub one_way_streams: u32,
    /// Bytes that a client may send in a stream before they are read.
    pub stream_window_bytes: u32,
    /// Bytes that a client may send in all streams of a connection before they are read.
    pub window_bytes: u32,
    /// Bytes of a connection that wait to be sent and acknowledged.
    pub send_window_bytes: u64,
    /// After so much silence a connection ends. At most 49 days.
    pub idle: Duration,
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'b> {
    /// From this address.
    pub from: SocketAddr,
    /// To this address of ours, if it is known.
    pub to: Option<IpAddr>,
    /// The two bits of Explicit Congestion Notification (RFC 3168).
    pub ecn: u8,
    /// Its content.
    pub bytes: &'b [u8],
}

/// Datagrams to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// To this address.
    pub to: SocketAddr,
    /// From this address of ours, if it matters.
    pub from: Option<IpAddr>,
    /// The two bits of Explicit Congestion Notification.
    pub ecn: u8,
    /// The length of each datagram but the last, in bytes, if there are several.
    pub segment_bytes: Option<usize>,
}

/// Names a connection of an endpoint. Keys are used again, after [`Event::Gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionKey(usize);

/// What happened in a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is over.
    Established,
    /// The client opened a stream.
    Opened(StreamId),
    /// A stream has something to read.
    Readable(StreamId),
    /// A stream has room again.
    Writable(StreamId),
    /// The client has all that was written.
    Finished(StreamId),
    /// The client reads no more of a stream, and gave this code.
    Stopped(StreamId, u64),
    /// The client or the network ended the connection, for this reason. Its streams are closed.
    Lost(String),
    /// The endpoint has forgotten the connection.
    Gone,
}

/// The connections of one thread.
///
/// After each call, [`Endpoint::event`] and [`Endpoint::depart`] are to be called until they return `None`, and
/// [`Endpoint::expire`] at [`Endpoint::deadline`].
pub struct Endpoint {
    library: quinn_proto::Endpoint,
    connections: BTreeMap<usize, Served>,
    /// Connections that may have something to send, in turn.
    senders: VecDeque<usize>,
    responses: VecDeque<(Departure, Vec<u8>)>,
    events: VecDeque<(ConnectionKey, Event)>,
    limits: Limits,
    handshakes: usize,
}

struct Served {
    connection: Connection,
    is_established: bool,
    /// Whether it is among the senders.
    is_sender: bool,
}

impl Endpoint {
    /// An endpoint without connections.
    ///
    /// # Errors
    /// The library of TLS lacks what QUIC needs.
    pub fn new(settings: Settings) -> Result<Endpoint, Failure> {
        let Settings { secrets, places, place, choose, limits } = settings;
        let initial = Arc::new(InitialSecrets::new()?);
        let mut config = EndpointConfig::new(Arc::new(crypto::ResetKey(secrets.resets)));
        config.supported_versions(vec![VERSION]);
        config.cid_generator(move || Box::new(Generator { places: places.clone(), place }));
        let sessions = Arc::new(Sessions { initial, choose });
        let mut server = ServerConfig::new(sessions, Arc::new(crypto::TokenKey(secrets.tokens)));
        server.transport_config(Arc::new(transport(&limits)));
        let library = quinn_proto::Endpoint::new(Arc::new(config), Some(Arc::new(server)), true, None);
        let (connections, senders, responses, events) = Default::default();
        Ok(Endpoint { library, connections, senders, responses, events, limits, handshakes: 0 })
    }

    /// Takes a datagram.
    pub fn arrive(&mut self, now: Instant, arrival: Arrival<'_>) {
        let Arrival { from, to, ecn, bytes } = arrival;
        let (ecn, mut response) = (EcnCodepoint::from_bits(ecn), Vec::new());
        match self.library.handle(now, from, to, ecn, BytesMut::from(bytes), &mut response) {
            None => {}
            Some(DatagramEvent::Response(transmit)) => self.respond(&transmit, response),
            Some(DatagramEvent::NewConnection(incoming)) => self.decide(now, incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(served) = self.connections.get_mut(&handle.0) {
                    served.connection.handle_event(event);
                }
                self.settle(ConnectionKey(handle.0));
            }
        }
    }

    /// The next thing that happened.
    pub fn event(&mut self) -> Option<(ConnectionKey, Event)> {
        self.events.pop_front()
    }

    /// Appends the next datagrams to send, at most this many, for one address.
    pub fn depart(&mut self, now: Instant, datagrams_max: usize, buffer: &mut Vec<u8>) -> Option<Departure> {
        if let Some((departure, response)) = self.responses.pop_front() {
            buffer.extend_from_slice(&response);
            return Some(departure);
        }
        while let Some(key) = self.senders.pop_front() {
            let Some(served) = self.connections.get_mut(&key) else { continue };
            served.is_sender = false;
            if let Some(transmit) = served.connection.poll_transmit(now, datagrams_max, buffer) {
                self.settle(ConnectionKey(key));
                return Some(departure(&transmit));
            }
        }
        None
    }

    /// When [`Endpoint::expire`] is to be called.
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connections.values_mut().filter_map(|served| served.connection.poll_timeout()).min()
    }

    /// Does what is due by now.
    pub fn expire(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (key, served) in &mut self.connections {
            if served.connection.poll_timeout().is_some_and(|deadline| deadline <= now) {
                served.connection.handle_timeout(now);
                due.push(ConnectionKey(*key));
            }
        }
        for key in due {
            self.settle(key);
        }
    }

    /// The next bytes of a stream.
    pub fn read(&mut self, key: ConnectionKey, id: StreamId, length_max: usize) -> Read {
        self.connection(key).map_or(Read::Closed, |connection| streams::read(connection, id, length_max))
    }

    /// Writes to a stream as much as there is room for.
    pub fn write(&mut self, key: ConnectionKey, id: StreamId, bytes: &[u8]) -> Written {
        self.connection(key).map_or(Written::Closed, |connection| streams::write(connection, id, bytes))
    }

    /// Ends a stream after what was written. `false` if it is not open.
    pub fn finish(&mut self, key: ConnectionKey, id: StreamId) -> bool {
        self.connection(key).is_some_and(|connection| streams::finish(connection, id))
    }

    /// Gives up sending on a stream, with a code of the application. `false` if it is not open.
    pub fn reset(&mut self, key: ConnectionKey, id: StreamId, code: u64) -> bool {
        self.connection(key).is_some_and(|connection| streams::reset(connection, id, code))
    }

    /// Asks the client to send no more on a stream, with a code of the application. `false` if it is not open.
    pub fn stop(&mut self, key: ConnectionKey, id: StreamId, code: u64) -> bool {
        self.connection(key).is_some_and(|connection| streams::stop(connection, id, code))
    }

    /// Opens a stream on which only we send. `None` while the client does not allow it.
    pub fn open_one_way(&mut self, key: ConnectionKey) -> Option<StreamId> {
        self.connection(key)?.streams().open(Dir::Uni).map(StreamId::of)
    }

    /// Closes a connection, with a code of the application.
    pub fn close(&mut self, now: Instant, key: ConnectionKey, code: u64) {
        if let Some(connection) = self.connection(key) {
            connection.close(now, streams::code_of(code), Bytes::new());
            self.settle(key);
        }
    }

    /// The address of the client.
    pub fn peer(&self, key: ConnectionKey) -> Option<SocketAddr> {
        Some(self.connections.get(&key.0)?.connection.remote_address())
    }

    /// What the handshake agreed on, once it is over.
    pub fn negotiated(&self, key: ConnectionKey) -> Option<Box<Negotiated>> {
        self.connections.get(&key.0)?.connection.crypto_session().handshake_data()?.downcast().ok()
    }

    /// How many connections there are, with those that have ended and answer late packets.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn connection(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        let served = self.connections.get_mut(&key.0)?;
        queue(&mut self.senders, key, served);
        Some(&mut served.connection)
    }

    /// Accepts a client, refuses it, or has it show its address.
    fn decide(&mut self, now: Instant, incoming: Incoming) {
        let mut response = Vec::new();
        if self.connections.len() >= self.limits.connections {
            let transmit = self.library.refuse(incoming, &mut response);
            return self.respond(&transmit, response);
        }
        let is_busy = self.handshakes >= self.limits.handshakes_before_retry;
        if is_busy && !incoming.remote_address_validated() && incoming.may_retry() {
            if let Ok(transmit) = self.library.retry(incoming, &mut response) {
                self.respond(&transmit, response);
            }
            return;
        }
        match self.library.accept(incoming, now, &mut response, None) {
            Ok((handle, connection)) => {
                self.handshakes += 1;
                self.connections
                    .insert(handle.0, Served { connection, is_established: false, is_sender: false });
                self.settle(ConnectionKey(handle.0));
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(&transmit, response);
                }
            }
        }
    }

    fn respond(&mut self, transmit: &Transmit, mut response: Vec<u8>) {
        if self.responses.len() < RESPONSES_MAX {
            response.truncate(transmit.size);
            self.responses.push_back((departure(transmit), response));
        }
    }

    /// Exchanges what a connection and the library's endpoint tell each other, and collects events.
    fn settle(&mut self, key: ConnectionKey) {
        let Some(served) = self.connections.get_mut(&key.0) else { return };
        queue(&mut self.senders, key, served);
        let (connection, handle) = (&mut served.connection, ConnectionHandle(key.0));
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.library.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        let was_established = served.is_established;
        while let Some(event) = connection.poll() {
            let event = match event {
                quinn_proto::Event::Connected => {
                    served.is_established = true;
                    Event::Established
                }
                quinn_proto::Event::ConnectionLost { reason } => Event::Lost(reason.to_string()),
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        self.events.push_back((key, Event::Opened(StreamId::of(id))));
                    }
                    continue;
                }
                quinn_proto::Event::Stream(event) => match stream_event(event) {
                    Some(event) => event,
                    None => continue,
                },
                _ => continue,
            };
            self.events.push_back((key, event));
        }
        let is_gone = connection.is_drained();
        if !was_established && (served.is_established || is_gone) {
            self.handshakes -= 1;
        }
        if is_gone {
            self.connections.remove(&key.0);
            self.events.push_back((key, Event::Gone));
        }
    }
}

/// Notes that a connection may have something to send, once.
fn queue(senders: &mut VecDeque<usize>, key: ConnectionKey, served: &mut Served) {
    if !std::mem::replace(&mut served.is_sender, true) {
        senders.push_back(key.0);
    }
}

fn stream_event(event: StreamEvent) -> Option<Event> {
    Some(match event {
        StreamEvent::Readable { id } => Event::Readable(StreamId::of(id)),
        StreamEvent::Writable { id } => Event::Writable(StreamId::of(id)),
        StreamEvent::Finished { id } => Event::Finished(StreamId::of(id)),
        StreamEvent::Stopped { id, error_code } => Event::Stopped(StreamId::of(id), error_code.into_inner()),
        StreamEvent::Opened { .. } | StreamEvent::Available { .. } => return None,
    })
}

fn transport(limits: &Limits) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.requests.into())
        .max_concurrent_uni_streams(limits.one_way_streams.into())
        .stream_receive_window(limits.stream_window_bytes.into())
        .receive_window(limits.window_bytes.into())
        .send_window(limits.send_window_bytes)
        .max_idle_timeout(Some(
            VarInt::from_u32(u32::try_from(limits.idle.as_millis()).unwrap_or(u32::MAX)).into(),
        ))
        .datagram_receive_buffer_size(None);
    transport
}

fn departure(transmit: &Transmit) -> Departure {
    Departure {
        to: transmit.destination,
        from: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        segment_bytes: transmit.segment_size,
    }
}
