//! The figures by which servers are compared, published and measured alike.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// With more failures than this, in percent of all requests, figures say so, and latencies count the failures.
pub const FAILED_PERCENT_FEW: f64 = 0.1;

/// What a failed request counts as among latencies: the time-out of the lab's own generator. So a server that refuses
/// fast does not look fast.
pub const TIMEOUT_MS: f64 = 10_000.0;

/// What a number says. The name in data files is the snake-case one, with its unit last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Correct responses a second.
    RequestsPerS,
    /// Bytes a second of correct responses, heads included.
    BytesPerS,
    /// Bytes of one answer, head included.
    BytesPerAnswer,
    /// Bytes of one answer's content.
    ContentBytes,
    /// Bytes of all answers, heads included.
    TotalBytes,
    /// Bytes of all answers' content.
    TotalContentBytes,
    /// Answers that were not complete, or not of the expected length, or not 2xx.
    Failed,
    /// Of all requests, the part that failed, in percent.
    FailedPercent,
    /// From the first request to the last answer.
    TotalS,
    /// Mean time of a request as one client sees it.
    MeanMs,
    /// Standard deviation of that time.
    DeviationMs,
    /// The fastest request.
    MinMs,
    /// A tenth of the requests were faster.
    P10Ms,
    /// A quarter of the requests were faster.
    P25Ms,
    /// The median.
    P50Ms,
    /// Two thirds of the requests were faster (ab: 66 %).
    P66Ms,
    /// Three quarters of the requests were faster.
    P75Ms,
    /// Four fifths of the requests were faster.
    P80Ms,
    /// Nine tenths of the requests were faster.
    P90Ms,
    /// 95 % of the requests were faster.
    P95Ms,
    /// 98 % of the requests were faster.
    P98Ms,
    /// 99 % of the requests were faster.
    P99Ms,
    /// The slowest request.
    MaxMs,
    /// Mean time until a connection is open, TLS included.
    ConnectMs,
    /// Mean time from the request to the first byte of its answer.
    WaitingMs,
    /// Mean time from the open connection to the end of the answer.
    ProcessingMs,
    /// Mean time that writing a request takes.
    WritingMs,
    /// Mean time from the first byte of an answer to its last.
    ReadingMs,
    /// Mean time that a proxy adds to what it stands in front of.
    AddedMs,
    /// CPU time of all processes of the server for one request, user and system.
    CpuUsPerRequest,
    /// CPU time of the server by wall-clock time: 100 is one core.
    CpuPercent,
    /// The highest such value over a tenth of a second.
    CpuPeakPercent,
    /// CPU time of everything on the machine, the load tool too: 100 is all of its cores.
    SystemCpuPercent,
    /// The highest such value.
    SystemCpuPeakPercent,
    /// Memory of all processes of the server (PSS) at the end of the load.
    MemoryBytes,
    /// Memory in use on the whole machine at the end of the load.
    SystemMemoryBytes,
    /// What one more open connection adds to that memory.
    MemoryPerConnectionBytes,
    /// Connections that were open at once.
    Connections,
}

impl Figure {
    /// The percentiles of latency that any of the publications or tools gives, in their order, each with the
    /// percentage of requests that were faster.
    pub const PERCENTILES: &'static [(u32, Figure)] = &[
        (10, Figure::P10Ms),
        (25, Figure::P25Ms),
        (50, Figure::P50Ms),
        (66, Figure::P66Ms),
        (75, Figure::P75Ms),
        (80, Figure::P80Ms),
        (90, Figure::P90Ms),
        (95, Figure::P95Ms),
        (98, Figure::P98Ms),
        (99, Figure::P99Ms),
    ];

    /// Whether more is better. `None` for what is neither, such as the length of an answer.
    pub fn higher_is_better(self) -> Option<bool> {
        match self {
            Figure::RequestsPerS | Figure::BytesPerS | Figure::Connections => Some(true),
            Figure::BytesPerAnswer
            | Figure::ContentBytes
            | Figure::TotalBytes
            | Figure::TotalContentBytes => None,
            _ => Some(false),
        }
    }

    /// Whether it is a time of a request.
    pub fn is_latency(self) -> bool {
        let named = [Figure::MeanMs, Figure::DeviationMs, Figure::MinMs, Figure::MaxMs];
        named.contains(&self) || Figure::PERCENTILES.iter().any(|(_, figure)| *figure == self)
    }

    /// Whether it hangs on how fast the load tool is, too: its cores have to be apart from the server's.
    pub fn depends_on_tool(self) -> bool {
        let parts = [
            Figure::RequestsPerS,
            Figure::BytesPerS,
            Figure::TotalS,
            Figure::ConnectMs,
            Figure::WaitingMs,
            Figure::ProcessingMs,
            Figure::WritingMs,
            Figure::ReadingMs,
            Figure::AddedMs,
            Figure::CpuPercent,
            Figure::CpuPeakPercent,
        ];
        self.is_latency() || parts.contains(&self)
    }

    /// The name for people, with its unit.
    pub fn title(self) -> &'static str {
        match self {
            Figure::RequestsPerS => "requests/s",
            Figure::BytesPerS => "bytes/s",
            Figure::BytesPerAnswer => "bytes an answer",
            Figure::ContentBytes => "bytes of content",
            Figure::TotalBytes => "bytes of all answers",
            Figure::TotalContentBytes => "bytes of all content",
            Figure::Failed => "failed",
            Figure::FailedPercent => "failed, %",
            Figure::TotalS => "total, s",
            Figure::MeanMs => "mean, ms",
            Figure::DeviationMs => "deviation, ms",
            Figure::MinMs => "fastest, ms",
            Figure::P10Ms => "p10, ms",
            Figure::P25Ms => "p25, ms",
            Figure::P50Ms => "p50, ms",
            Figure::P66Ms => "p66, ms",
            Figure::P75Ms => "p75, ms",
            Figure::P80Ms => "p80, ms",
            Figure::P90Ms => "p90, ms",
            Figure::P95Ms => "p95, ms",
            Figure::P98Ms => "p98, ms",
            Figure::P99Ms => "p99, ms",
            Figure::MaxMs => "slowest, ms",
            Figure::ConnectMs => "connect, ms",
            Figure::WaitingMs => "waiting, ms",
            Figure::ProcessingMs => "processing, ms",
            Figure::WritingMs => "writing, ms",
            Figure::ReadingMs => "reading, ms",
            Figure::AddedMs => "added, ms",
            Figure::CpuUsPerRequest => "CPU, µs a request",
            Figure::CpuPercent => "CPU, %",
            Figure::CpuPeakPercent => "peak CPU, %",
            Figure::SystemCpuPercent => "CPU of the machine, %",
            Figure::SystemCpuPeakPercent => "peak CPU of the machine, %",
            Figure::MemoryBytes => "memory, bytes",
            Figure::SystemMemoryBytes => "memory of the machine, bytes",
            Figure::MemoryPerConnectionBytes => "memory, bytes a connection",
            Figure::Connections => "connections",
        }
    }
}

/// A part of a request's time, as the table of ab and of the lab's own generator has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Until the connection is open, TLS included.
    Connect,
    /// From the open connection to the end of the answer.
    Processing,
    /// From the request to the first byte of its answer.
    Waiting,
    /// All of it.
    Total,
}

/// How a time spreads over the requests. In data it is a list of the five numbers in this order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 5]", into = "[f64; 5]")]
pub struct Spread {
    /// Of the fastest request.
    pub min_ms: f64,
    /// The mean.
    pub mean_ms: f64,
    /// The standard deviation.
    pub deviation_ms: f64,
    /// The median.
    pub median_ms: f64,
    /// Of the slowest request.
    pub max_ms: f64,
}

/// The phases that a tool tells, or a publication.
pub type Phases = BTreeMap<Phase, Spread>;

impl Phase {
    /// All, in the order of ab's table.
    pub const ALL: &'static [Phase] = &[Phase::Connect, Phase::Processing, Phase::Waiting, Phase::Total];

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Phase::Connect => "connect",
            Phase::Processing => "processing",
            Phase::Waiting => "waiting",
            Phase::Total => "total",
        }
    }
}

impl Spread {
    /// The names of the five numbers.
    pub const NAMES: [&'static str; 5] = ["min", "mean", "sd", "median", "max"];
}

impl From<[f64; 5]> for Spread {
    fn from([min_ms, mean_ms, deviation_ms, median_ms, max_ms]: [f64; 5]) -> Spread {
        Spread { min_ms, mean_ms, deviation_ms, median_ms, max_ms }
    }
}

impl From<Spread> for [f64; 5] {
    fn from(spread: Spread) -> [f64; 5] {
        [spread.min_ms, spread.mean_ms, spread.deviation_ms, spread.median_ms, spread.max_ms]
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.title())
    }
}
