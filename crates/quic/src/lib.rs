//! QUIC (RFC 9000) as a machine: datagrams in, datagrams and events of streams out. It names no socket and reads no clock.
//!
//! This crate alone knows `quinn-proto`, and shows none of its types. The handshake and all keys come from the crate `tls`.

mod connection_id;
mod crypto;
mod endpoint;
mod session;
mod streams;

#[cfg(test)]
mod interop;

pub use connection_id::{Place, Places};
pub use endpoint::{Arrival, ConnectionKey, Departure, Endpoint, Event, Limits, Secrets, Settings};
pub use session::ChoosePolicy;
pub use streams::{Read, StreamId, Written};
