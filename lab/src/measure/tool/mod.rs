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
mod reading;
mod weighttp;
mod wrk;
mod wrk2;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::model::block::Bar;
use crate::model::figure::{Figure, Phases};
use crate::model::order::{self, Amount, Order, Protocol, ToolName};

pub use find::{FoundTool, find};

/// What a tool found, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Complete answers, right or wrong.
    pub requests: u64,
    /// Of those, the ones that were what was expected: rate, times and bytes are theirs.
    pub right: u64,
    /// Seconds of CPU time in which its threads only waited.
    pub polled_s: f64,
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
    autocannon::TOOL,
    k6::TOOL,
    jmeter::TOOL,
];

/// The tool of that name.
pub fn named(name: ToolName) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Reads what the tool printed into this file, and wrote into the folder next to it, once more.
    pub fn read_again(&self, protocol: Protocol, raw: &Path) -> Result<Report> {
        let text = fs::read_to_string(raw).with_context(|| raw.display().to_string())?;
        // Readers look at nothing else of an order.
        let order = Order {
            address: ([127, 0, 0, 1], 80).into(),
            path: "/".into(),
            clients: 1,
            amount: Amount::Requests(1),
            keep_alive: true,
            pipeline: 1,
            tls: None,
            protocol,
            rate: None,
            fields: Vec::new(),
            numbers: None,
            body_bytes: None,
            threads: 1,
            has_own_cores: false,
            folder: raw.with_extension("d"),
        };
        (self.read)(&order, &text)
    }

    /// Why an order is beyond the tool, if it is.
    pub fn cannot(&self, order: &Order) -> Option<String> {
        if order.protocol == Protocol::Http2 && self.name != ToolName::H2load {
            return Some(format!("{} is not asked to speak HTTP/2", self.name));
        }
        if order.numbers.is_some() && self.name != ToolName::FulmarLab {
            return Some(format!("{} is not asked to send different requests", self.name));
        }
        let sends_content = matches!(self.name, ToolName::FulmarLab | ToolName::H2load);
        if order.body_bytes.is_some() && !sends_content {
            return Some(format!("{} is not asked to send content", self.name));
        }
        if order::is_grpc(&order.fields) && self.name != ToolName::H2load {
            return Some(format!("{} is not asked to call by gRPC", self.name));
        }
        if order.body_bytes.is_some()
            && order::is_websocket(&order.fields)
            && self.name != ToolName::FulmarLab
        {
            return Some(format!("{} is not asked to send messages over WebSockets", self.name));
        }
        (self.refuses)(order).map(str::to_owned)
    }
}
