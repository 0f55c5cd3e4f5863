//! HTTP/3 (RFC 9114) as pure code: bytes of streams in, events and bytes out. No I/O and no clock.
//!
//! [`Connection`] is the machine. Its driver, which knows QUIC, tells it of streams that the peer opens
//! ([`Connection::accept`]), of their bytes ([`Connection::read`]) and of their ends. The machine gives back events, the bytes
//! that our two streams send ([`Connection::own`]) and commands ([`Connection::next_command`]). The fields of a section are read
//! into a [`HeaderList`], out of which [`read_request`] and [`read_response`] make heads. Heads and content are written by
//! [`Connection::head`] and [`Connection::data`]. Datagrams (RFC 9297) and pushes are not offered.

#![forbid(unsafe_code)]

mod budget;
#[cfg(test)]
mod client_conduct;
mod code;
#[cfg(test)]
mod conduct;
mod connection;
mod frame;
mod fuzz;
#[cfg(test)]
mod interop;
#[cfg(test)]
mod properties;
mod qpack;
mod request;
mod settings;
mod streams;
#[cfg(test)]
mod testing;
mod varint;

pub use code::{Code, Failure};
pub use connection::{Command, Connection, Event, Input, Limits, Own, Read};
pub use fuzz::{Told, read_all, read_all_of_server, read_sections};
pub use http::Priority;
pub use http::multiplexed::{
    HeaderList, MalformedRequest, MalformedResponse, Request, RequestRules, ResponseOptions, read_response,
    read_trailers, write_interim, write_request, write_response, write_trailers,
};
pub use qpack::SectionWriter;
pub use request::read_request;
pub use settings::PeerSettings;
