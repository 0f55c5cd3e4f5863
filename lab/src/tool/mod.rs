//! Load tools: the programs that the publications used, each with its own flags and its own output, and the lab's
//! own generator. All take one [`Order`] and give one [`Report`].

mod ab;
mod autocannon;
mod find;
mod fulmar_lab;
mod h2load;
mod hey;
pub(crate) mod jmeter;
pub(crate) mod k6;
mod oha;
mod reading;
mod weighttp;
mod wrk;
mod wrk2;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::block::Bar;
use crate::experiment::{Protocol, Tls};
use crate::figure::{Figure, Phases};

pub use find::{FoundTool, find};

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
    /// wrk2, with a constant rate.
    Wrk2,
    /// hey.
    Hey,
    /// h2load of nghttp2.
    H2load,
    /// weighttp.
    Weighttp,
    /// oha.
    Oha,
    /// autocannon.
    Autocannon,
    /// k6.
    K6,
    /// JMeter.
    Jmeter,
}

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

/// What a tool found, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Complete answers, right or wrong.
    pub requests: u64,
    /// The figures that it printed. [`Figure::RequestsPerS`], [`Figure::Failed`] and [`Figure::TotalS`] are always there.
    pub figures: BTreeMap<Figure, f64>,
    /// How the parts of a request's time spread.
    pub phases: Phases,
    /// Its histogram of latencies.
    pub histogram: Vec<Bar>,
}

/// A tool: how it is called and how its output is read.
pub struct Tool {
    /// Its name.
    pub name: ToolName,
    /// The program on the `PATH`.
    pub program: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// Arguments that make it print its version, and how the version is found in what it prints.
    pub version: fn(&Path) -> Option<String>,
    /// Why an order is beyond the tool (a constant rate for ab), if it is; [`Tool::cannot`] asks it.
    pub refuses: fn(&Order) -> Option<&'static str>,
    /// Its arguments for an order. It may write files into the order's folder.
    pub arguments: fn(&Order) -> Result<Vec<String>>,
    /// Its output (standard output, and what it wrote into the folder) as a report.
    pub read: fn(&Order, &str) -> Result<Report>,
}

/// All tools, in the order of `fulmar-lab list`.
pub const ALL: &[Tool] = &[
    fulmar_lab::TOOL,
    ab::TOOL,
    wrk::TOOL,
    wrk2::TOOL,
    hey::TOOL,
    h2load::TOOL,
    weighttp::TOOL,
    oha::TOOL,
    autocannon::TOOL,
    k6::TOOL,
    jmeter::TOOL,
];

/// The tool of that name.
pub fn named(name: ToolName) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Why an order is beyond the tool, if it is.
    pub fn cannot(&self, order: &Order) -> Option<String> {
        if order.protocol == Protocol::Http2 && self.name != ToolName::H2load {
            return Some(format!("{} is not asked to speak HTTP/2", self.name));
        }
        if order.numbers.is_some() && self.name != ToolName::FulmarLab {
            return Some(format!("{} is not asked to send different requests", self.name));
        }
        (self.refuses)(order).map(str::to_owned)
    }
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
