//! From a finished exchange to the bytes of a response that is in memory.

use crate::conn::response::{ResponseFields, response_fields};
use contract::{Body, Piece};
use engine::Flow;
use h1::{Connection, HeadOptions, encode_chunk_head, encode_head, encode_last_chunk, frame_response};
use http::Status;
use wire::Buffer;

/// How a response goes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) keep_alive: bool,
    pub(crate) chunked: bool,
    pub(crate) has_body: bool,
}

impl Answer {
    /// Decides how the response of an exchange is framed and whether its connection lives on.
    pub(crate) fn new(flow: &mut Flow) -> Answer {
        let exchange = &mut flow.exchange;
        let framed = frame_response(
            &exchange.response,
            exchange.request.method,
            exchange.request.head.version,
            exchange.wire.keep_alive,
            exchange.scope.policy.sending.chunked,
        );
        exchange.wire.keep_alive = framed.keep_alive;
        exchange.wire.chunked = framed.chunked;
        Answer { keep_alive: framed.keep_alive, chunked: framed.chunked, has_body: framed.has_body }
    }
}

/// Appends a whole response.
pub(crate) fn encode_in_memory(output: &mut Buffer, flow: &mut Flow, answer: &Answer, body: &Body) {
    append_head(output, flow, answer);
    append_content(output, flow, answer, body);
}

/// Appends content that is in memory, and its end.
pub(crate) fn append_content(output: &mut Buffer, flow: &mut Flow, answer: &Answer, body: &Body) {
    let before = output.bytes().len();
    for piece in body.pieces().filter(|_| answer.has_body).unwrap_or_default() {
        if let Piece::Bytes(bytes) = piece {
            append_bytes(output, Some(answer), bytes);
        }
    }
    flow.exchange.wire.bytes += (output.bytes().len() - before) as u64;
    append_end(output, flow, answer);
}

/// Appends the head of a response.
pub(crate) fn append_head(output: &mut Buffer, flow: &mut Flow, answer: &Answer) {
    let exchange = &mut flow.exchange;
    let ResponseFields { date, server } = response_fields(exchange);
    let connection = match (exchange.response.status, answer.keep_alive) {
        (Status::SWITCHING_PROTOCOLS, _) => Connection::Upgrade,
        (_, true) => Connection::KeepAlive { announced: exchange.scope.policy.keepalive.announced },
        (_, false) => Connection::Close,
    };
    let options = HeadOptions {
        version: exchange.request.head.version,
        date: date.as_ref(),
        server,
        connection,
        chunked: answer.chunked,
        reason: exchange.response.reason(),
    };
    let before = output.bytes().len();
    output.append(|bytes| encode_head(bytes, &exchange.response, &options));
    let length = (output.bytes().len() - before) as u64;
    exchange.wire.head_sent = true;
    exchange.wire.head_bytes += length;
    exchange.wire.bytes += length;
}

/// Appends content that is in memory, as a chunk if the response is chunked.
pub(crate) fn append_bytes(output: &mut Buffer, answer: Option<&Answer>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    output.append(|out| {
        let is_chunked = answer.is_some_and(|answer| answer.chunked);
        if is_chunked {
            encode_chunk_head(bytes.len() as u64, out);
        }
        out.extend_from_slice(bytes);
        if is_chunked {
            out.extend_from_slice(h1::CHUNK_END);
        }
    });
}

/// Appends what ends a chunked body.
pub(crate) fn append_end(output: &mut Buffer, flow: &mut Flow, answer: &Answer) {
    if answer.has_body && flow.exchange.response.expects_trailers {
        // Also where they cannot be sent: a log may show them.
        flow.end();
    }
    if answer.chunked && answer.has_body {
        let before = output.bytes().len();
        output.append(|out| encode_last_chunk(&flow.exchange.response.trailers, out));
        flow.exchange.wire.bytes += (output.bytes().len() - before) as u64;
    }
}
