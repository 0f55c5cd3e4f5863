//! HTTP/2 (RFC 9113) as pure code: bytes in, events and bytes out. No I/O and no clock.
//!
//! [`Connection`] is the machine: it reads frames, keeps the state of the streams and both directions of flow control, and
//! appends frames to a buffer of the caller. The fields of a block are read into a [`HeaderList`], out of which
//! [`read_request`] and [`read_response`] make heads. Blocks and content are written by [`Connection::head`] and
//! [`Connection::data`]. A server begins with [`Connection::new`], a client with [`Connection::client`].

#![forbid(unsafe_code)]

mod budget;
#[cfg(test)]
mod client_conduct;
mod code;
#[cfg(test)]
mod comparison;
#[cfg(test)]
mod conduct;
mod connection;
mod frame;
mod fuzz;
mod hpack;
#[cfg(test)]
mod properties;
mod request;
mod response;
mod settings;
mod streams;
#[cfg(test)]
mod testing;

pub use code::{Code, Failure};
pub use connection::{Connection, Content, Event, Limits, Read};
pub use frame::{FRAME_SIZE, PREFACE};
pub use fuzz::{read_all, read_all_of_server};
pub use http::Priority;
pub use http::multiplexed::{
    HeaderList, MalformedRequest, MalformedResponse, Request, RequestRules, ResponseOptions, read_response,
    read_trailers, write_interim, write_request, write_trailers,
};
pub use request::read_request;
pub use response::{BlockWriter, write_response};
