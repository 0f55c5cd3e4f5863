//! HTTP/1 spoken to the other server: a request goes out, a head comes back, content follows.

use ::upstream::{Coding, Decode, Decoded, Failure, Link, Settings, Upload};
use bytes::BytesMut;
use h1::{Chunk, ReceivedFraming, ReceivedHead, ResponseDecoder, examine_response, parse_response};
use http::{Fields, Status};

/// A request as it goes out.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) head: Vec<u8>,
    pub(super) upload: Option<Upload>,
    /// Whether the length of that is not known.
    pub(super) is_chunked: bool,
    pub(super) is_head: bool,
    /// Whether another protocol is asked for.
    pub(super) asks_upgrade: bool,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) head: ReceivedHead,
    pub(super) framing: ReceivedFraming,
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
    let coding = if request.is_chunked { CHUNKED } else { Coding::PLAIN };
    link.send(&request.head, request.upload.as_ref(), coding);
    let (head, framing) = read_head(link, request, settings).await?;
    link.head_arrived(head.status);
    Ok(Received { head, framing })
}

/// Chunks (RFC 9112, section 7.1).
const CHUNKED: Coding = Coding {
    piece: |bytes, out| {
        h1::encode_chunk_head(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
        out.extend_from_slice(h1::CHUNK_END);
    },
    end: |out| h1::encode_last_chunk(&Fields::new(), out),
};

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
            link.read_answer(settings).await?;
            continue;
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

/// The content of a response.
pub(super) struct HttpContent {
    decoder: ResponseDecoder,
    keeps: bool,
}

impl HttpContent {
    pub(super) fn new(received: &Received) -> HttpContent {
        let decoder = ResponseDecoder::new(received.framing.body);
        HttpContent { decoder, keeps: received.framing.keep_alive }
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
