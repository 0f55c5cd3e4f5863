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
    /// Fields beside the tool's own, each `Name: value`.
    pub fields: Vec<String>,
    /// How many different requests there are: each has its number in the place of `{number}`.
    pub numbers: Option<u32>,
    /// Bytes of content that each request brings along; it is a POST then.
    pub body_bytes: Option<u64>,
    /// Threads of the tool.
    pub threads: u32,
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
    /// hey.
    Hey,
    /// h2load of nghttp2.
    H2load,
    /// weighttp.
    Weighttp,
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

impl fmt::Display for ToolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).unwrap_or_default();
        out.write_str(name.as_str().unwrap_or_default())
    }
}
