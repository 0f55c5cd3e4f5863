//! FastCGI 1.0, the server's side, as pure code: bytes in, events and bytes out. No I/O and no clock.
//!
//! A request is written by [`encode_begin`], [`Params`], then [`encode_stdin`] for each piece of
//! the body and [`encode_stdin_end`]. The answer is read by a [`Decoder`], which tells standard output
//! from standard error; the start of standard output is a response head for a [`HeadParser`] (RFC 3875,
//! section 6), the rest is content. A connection carries one request at a time, always the one with the
//! id 1. After an error, or if bytes follow the end of the request, the connection must close.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod head;
mod params;
#[cfg(test)]
mod properties;
mod record;
mod stderr;

pub use decode::{Decoder, Event, ProtocolStatus};
pub use error::Error;
pub use head::{Head, HeadParser};
pub use params::{Params, TooLong};
pub use record::{
    STDIN_LIMIT, encode_abort, encode_begin, encode_stdin, encode_stdin_end, encode_stdin_head,
};
pub use stderr::{MESSAGE_LIMIT, TOTAL_LIMIT};
