//! HTTP/1 (RFC 9112) as pure code: bytes in, events and bytes out. No I/O and no clock.
//!
//! A connection keeps one [`HeadParser`], one [`http::RequestHead`] and one [`http::uri::Target`]. For each request it calls,
//! in this order: [`HeadParser::parse`] until the head is complete, [`http::uri::parse_target`], [`http::semantics::examine`], then a
//! [`BodyDecoder`] for the bytes that follow. The answer is framed by
//! [`frame_response`] and written by [`encode_head`]; chunks by [`encode_chunk_head`] and
//! [`encode_last_chunk`]. After an error the connection must close: the framing is lost.

#![forbid(unsafe_code)]

mod body;
mod chunked;
mod encode;
mod extension;
mod fuzz;
mod limits;
mod line;
#[cfg(test)]
mod properties;
mod request;
mod response;
#[cfg(test)]
mod semantics;
#[cfg(test)]
mod simulation;

pub use body::BodyDecoder;
pub use chunked::{CHUNK_END, Chunk, ChunkDecoder, encode_chunk_head, encode_last_chunk};
pub use encode::{
    CONTINUE, Connection, HeadOptions, ResponseFraming, encode_head, encode_interim, frame_response,
};
pub use fuzz::parse_all;
pub use limits::HeadLimits;
pub use request::{HeadParser, HeadProgress};
pub use response::{
    ReceivedFraming, ReceivedHead, ResponseDecoder, ResponseError, ResponseLength, announced_length,
    examine_response, parse_response,
};
