//! What the streams of a connection share: its client, its bytes, and its machine.

use crate::conn::byte_stream::ByteStream;
use crate::conn::client::Client;
use crate::conn::response::response_fields;
use contract::Exchange;
use engine::Flow;
use http::Status;
use http2::{BlockWriter, Code, ResponseOptions, write_response};
use journal::Level;
use wire::Timer;

/// What the streams of a connection share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) bytes: ByteStream,
    pub(super) machine: http2::Connection,
    /// Whether the client has to take what was written before more can be.
    pub(super) awaits_client: bool,
}

impl Shared {
    pub(super) fn timer(&self) -> Timer {
        Timer::new(&self.client.thread().timers)
    }

    /// Lets the client send more content on a stream that holds none.
    pub(super) fn widen(&mut self, stream: u32, window: u32) {
        let machine = &mut self.machine;
        self.bytes.output.append(|out| machine.widen(stream, 0, window, out));
    }

    /// Appends a head or trailers.
    pub(super) fn head(&mut self, stream: u32, ends: bool, write: impl FnOnce(&mut BlockWriter<'_>)) {
        let machine = &mut self.machine;
        self.bytes.output.append(|out| machine.head(stream, ends, write, out));
    }

    /// Appends the head of a response.
    pub(super) fn response(&mut self, stream: u32, ends: bool, flow: &mut Flow) {
        let exchange = &mut flow.exchange;
        if exchange.response.status == Status::NO_CONTENT {
            // As with nginx, whatever another server said of it.
            exchange.response.content_type = None;
        }
        let fields = response_fields(exchange);
        let options = ResponseOptions { date: fields.date.as_ref(), server: fields.server };
        if ends {
            self.defer_end(stream, exchange);
        }
        let before = self.bytes.output.bytes().len();
        self.head(stream, ends, |block| write_response(&exchange.response, &options, block));
        let length = (self.bytes.output.bytes().len() - before) as u64;
        exchange.wire.head_sent = true;
        exchange.wire.head_bytes += length;
        exchange.wire.bytes += length;
    }

    /// Lets a response end only after a short body whose rest is on its way. A client that waits for leave sends none.
    pub(super) fn defer_end(&mut self, stream: u32, exchange: &Exchange) {
        let request = &exchange.request;
        if request.content_length.is_some() && request.head.fields.get("expect").is_none() {
            self.machine.defer_end(stream);
        }
    }

    /// Gives up a stream whose request is over.
    pub(super) fn release(&mut self, stream: u32, code: Code) {
        let machine = &mut self.machine;
        self.bytes.output.append(|out| machine.release(stream, code, out));
    }

    /// Writes to the error log of the address.
    pub(super) fn log(&self, level: Level, message: &str) {
        self.client.log(level, &format!("{message} while processing HTTP/2 connection"));
    }
}
