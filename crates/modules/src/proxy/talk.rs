//! HTTP/1 spoken to the other server: a request goes out, a head comes back, content follows.

use ::upstream::{Decode, Decoded, Failure, Failures, Link, Settings};
use bytes::BytesMut;
use contract::RequestBody;
use h1::{Chunk, ReceivedFraming, ReceivedHead, ResponseDecoder, examine_response, parse_response};
use http::Status;
use std::io::ErrorKind;

/// A request as it goes out.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) head: Vec<u8>,
    pub(super) body: Option<RequestBody>,
    pub(super) is_head: bool,
    /// Whether another protocol is asked for.
    pub(super) asks_upgrade: bool,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) head: ReceivedHead,
    pub(super) framing: ReceivedFraming,
    /// Whether the server took the whole request.
    pub(super) took_all: bool,
}

/// How many interim responses may come before the final one.
const INTERIM_MAX: usize = 32;

const READING: &str = "reading response header from upstream";

/// Sends a request and reads the head of the response.
pub(super) async fn talk(
    link: &mut Link,
    request: &Prepared,
    settings: &Settings,
) -> Result<Received, Failure> {
    let sent = link.send(&request.head, request.body.as_ref(), settings.send_timeout).await;
    let (took_all, sending) = match sent {
        Ok(took_all) => (took_all, None),
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            return Err(Failure::io("send", &error, "sending request to upstream"));
        }
        // It may have answered before it closed.
        Err(error) => (false, Some(error)),
    };
    match read_head(link, request, settings).await {
        Ok((head, framing)) => {
            link.head_arrived(head.status);
            Ok(Received { head, framing, took_all })
        }
        Err(failure) => match sending {
            Some(error) => Err(Failure::io("send", &error, "sending request to upstream")),
            None => Err(failure),
        },
    }
}

async fn read_head(
    link: &mut Link,
    request: &Prepared,
    settings: &Settings,
) -> Result<(ReceivedHead, ReceivedFraming), Failure> {
    let invalid = |message: &str| Failure::invalid(format!("{message} while {READING}"));
    let mut interim = 0;
    loop {
        let parsed = parse_response(&link.input, settings.buffer_size);
        let Some((head, used)) = parsed.map_err(|error| invalid(&error.0))? else {
            match link.read(settings.read_timeout).await {
                Ok(0) => return Err(closed()),
                Ok(_) => continue,
                Err(error) => return Err(Failure::io("recv", &error, READING)),
            }
        };
        drop(link.input.split_to(used));
        if head.status == Status::SWITCHING_PROTOCOLS {
            if !request.asks_upgrade {
                return Err(invalid("upstream switched protocols unasked"));
            }
        } else if head.status < Status::OK {
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(invalid("upstream sent too many interim responses"));
            }
            continue;
        }
        let framing = examine_response(&head, request.is_head).map_err(|error| invalid(&error.0))?;
        return Ok((head, framing));
    }
}

fn closed() -> Failure {
    let message = format!("upstream prematurely closed connection while {READING}");
    Failure { kind: Failures::ERROR, message }
}

/// The content of a response.
pub(super) struct HttpContent {
    decoder: ResponseDecoder,
    keeps: bool,
}

impl HttpContent {
    pub(super) fn new(received: &Received) -> HttpContent {
        let decoder = ResponseDecoder::new(received.framing.body);
        HttpContent { decoder, keeps: received.framing.keep_alive && received.took_all }
    }
}

impl Decode for HttpContent {
    fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, String> {
        let chunk = self.decoder.decode(input);
        match chunk.map_err(|_| "upstream sent invalid chunked response while reading upstream")? {
            Chunk::Data { skip, length } => {
                drop(input.split_to(skip));
                Ok(Decoded::Data(input.split_to(length).freeze()))
            }
            Chunk::NeedMore { consumed } => {
                drop(input.split_to(consumed));
                Ok(Decoded::More)
            }
            Chunk::End { consumed } => {
                drop(input.split_to(consumed));
                Ok(Decoded::End)
            }
        }
    }

    fn ends_with_connection(&self) -> bool {
        self.decoder.ends_with_connection()
    }

    fn keeps_connection(&self) -> bool {
        self.keeps
    }
}
