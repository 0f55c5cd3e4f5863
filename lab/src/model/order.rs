//! What a load tool is asked to do: the same order for every tool.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a tool is to do.
#[derive(Clone, Debug)]
pub struct Order {
    /// Where the contender listens.
    pub address: SocketAddr,
    /// The path with its query.
    pub path: String,
    /// Clients at once.
    pub clients: u32,
    /// How much.
    pub amount: Amount,
    /// Whether connections are used again.
    pub keep_alive: bool,
    /// Requests in flight on one connection.
    pub pipeline: u32,
    /// TLS, if any. The certificate is not checked.
    pub tls: Option<Tls>,
    /// The version of HTTP.
    pub protocol: Protocol,
    /// Requests a second, where they are sent at a constant rate; as many as possible otherwise.
    pub rate: Option<f64>,
    /// Fields besides the tool's own, each `Name: value`.
    pub fields: Vec<String>,
    /// How many different requests there are: `{number}` stands for its number.
    pub numbers: Option<u32>,
    /// Bytes of content that each request brings along; it is a POST then. With the fields of gRPC they are one message,
    /// which has its prefix besides. With those of a WebSocket, each request is a message of so many bytes, which comes
    /// back.
    pub body_bytes: Option<u64>,
    /// Threads of the tool.
    pub threads: u32,
    /// Whether no server runs on the tool's cores.
    pub has_own_cores: bool,
    /// A folder for files that the tool reads or writes.
    pub folder: PathBuf,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many requests.
    Requests(u64),
    /// As many as fit in so many seconds.
    Seconds(f64),
}

/// TLS of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Whether a client that was there before resumes its session.
    #[serde(default)]
    pub resume: bool,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RFC 9112.
    #[default]
    Http1,
    /// RFC 9113: `pipeline` is the number of streams at once. Over TLS it is chosen at the handshake; in clear the
    /// tool knows it beforehand.
    Http2,
}

/// The tools by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolName {
    /// The lab's own generator, which is always there.
    #[default]
    FulmarLab,
    /// ApacheBench.
    Ab,
    /// wrk.
    Wrk,
    /// wrk2.
    Wrk2,
    /// hey.
    Hey,
    /// h2load of nghttp2.
    H2load,
    /// weighttp.
    Weighttp,
    /// autocannon.
    Autocannon,
    /// k6.
    K6,
    /// JMeter.
    Jmeter,
}

impl Order {
    /// The URL of the order.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.address, self.path)
    }
}

/// Whether requests with these fields are calls of gRPC.
pub fn is_grpc(fields: &[String]) -> bool {
    fields.iter().any(|field| field.to_ascii_lowercase().replace(' ', "") == "content-type:application/grpc")
}

/// Whether requests with these fields open WebSockets.
pub fn is_websocket(fields: &[String]) -> bool {
    fields.iter().any(|field| field.to_ascii_lowercase().replace(' ', "") == "upgrade:websocket")
}

/// The content of a request with these fields: letters, so that a shift or a cut shows; of gRPC, one message of them
/// that is not compressed.
pub fn body(fields: &[String], length: u64) -> Vec<u8> {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let prefix = if is_grpc(fields) { [&[0], bytes.as_slice()].concat() } else { Vec::new() };
    prefix.into_iter().chain(letters(length)).collect()
}

/// A message of a WebSocket client with so many letters, and the frame that echoes it. Frames of clients are masked, those
/// of servers are not (RFC 6455, section 5).
pub fn message_and_echo(length: u64) -> [Vec<u8>; 2] {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let head = |masked: u8| -> Vec<u8> {
        let length_bytes = length.to_be_bytes();
        let (mark, extended) = match length {
            0..126 => (length_bytes[7], &length_bytes[8..]),
            126..0x1_0000 => (126, &length_bytes[6..]),
            _ => (127, &length_bytes[..]),
        };
        [&[0x82, mark | masked], extended].concat()
    };
    let masked = letters(length).zip(MASK.iter().cycle()).map(|(letter, mask)| letter ^ mask);
    let message = head(0x80).into_iter().chain(MASK).chain(masked).collect();
    [message, head(0).into_iter().chain(letters(length)).collect()]
}

fn letters(length: u64) -> impl Iterator<Item = u8> {
    (b'a'..=b'z').cycle().take(usize::try_from(length).unwrap_or(usize::MAX))
}

impl fmt::Display for ToolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).unwrap_or_default();
        out.write_str(name.as_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_grpc_has_its_prefix() {
        let grpc = ["Content-Type: application/grpc".to_owned(), "te: trailers".to_owned()];
        assert_eq!(body(&grpc, 3), b"\0\0\0\0\x03abc");
        assert_eq!(body(&grpc[1..], 3), b"abc");
    }
}
