//! HTTP/1 (RFC 9112) as pure code: bytes in, events and bytes out. No I/O and no clock.
//!
//! A connection keeps one [`HeadParser`], one [`http::RequestHead`] and one [`http::uri::Target`]. For each request it calls,
//! in this order: [`HeadParser::parse`] until the head is complete, [`http::uri::parse_target`], [`examine`], then a
//! [`BodyDecoder`] for the bytes that follow. The answer is framed by
//! [`frame_response`] and written by [`encode_head`]; chunks by [`encode_chunk_head`] and
//! [`encode_last_chunk`]. After an error the connection must close: the framing is lost.
//!
//! What a proxy may send in front of all that is read by [`parse_proxy_header`].

#![forbid(unsafe_code)]

mod body;
mod bytes;
mod chunked;
mod encode;
mod error;
mod extension;
mod fuzz;
mod limits;
mod line;
#[cfg(test)]
mod properties;
mod proxy_protocol;
mod request;
mod response;
mod semantics;
#[cfg(test)]
mod simulation;

pub use body::BodyDecoder;
pub use chunked::{CHUNK_END, Chunk, ChunkDecoder, encode_chunk_head, encode_last_chunk};
pub use encode::{
    CONTINUE, Connection, HeadOptions, ResponseFraming, encode_head, encode_interim, frame_response,
};
pub use error::HeadError;
pub use fuzz::parse_all;
pub use limits::HeadLimits;
pub use proxy_protocol::{
    PassedConnection, ProxyHeader, ProxyHeaderError, append_proxy_header, parse_proxy_header, proxy_value,
};
pub use request::{HeadParser, HeadProgress};
pub use response::{
    ReceivedFraming, ReceivedHead, ResponseDecoder, ResponseError, ResponseLength, announced_length,
    examine_response, has_token, parse_response, tokens,
};
pub use semantics::{BodyLength, Framing, examine, find_host};
