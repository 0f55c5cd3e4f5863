//! What `--json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::series::Series;
use super::tally::{Failures, Tally};
use crate::model::block::Bar;

/// The percentiles that are reported.
pub(super) const PERCENTILES: &[f64] =
    &[10.0, 25.0, 50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0];

/// All that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    /// `fulmar-lab` with its version.
    pub(crate) tool: String,
    /// The URL.
    pub(crate) target: String,
    /// Whether it was ended from outside.
    pub(crate) interrupted: bool,
    /// Each measurement, in its order.
    pub(crate) points: Vec<Point>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Connections at once.
    pub(crate) clients: u32,
    /// Which repetition, from 1.
    pub(crate) round: u32,
    /// Threads in all.
    pub(crate) threads: u32,
    /// Processes that they were in.
    pub(crate) processes: u32,
    /// Whether connections were used again.
    pub(crate) keep_alive: bool,
    /// Requests in flight on a connection.
    pub(crate) pipeline: u32,
    /// Requests a second that were wanted.
    pub(crate) rate_wanted: Option<f64>,
    /// Complete answers, right or wrong.
    pub(crate) requests: u64,
    /// What failed, by kind.
    pub(crate) failed: Failed,
    /// Why the first connection failed that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_connection: Option<String>,
    /// Requests that were under way when the time was over.
    pub(crate) unfinished: u64,
    /// Requests of `-n` that were not sent, or that were due at a constant rate and for which no client was free.
    pub(crate) unsent: u64,
    /// Answers by status code.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Bytes by kind.
    pub(crate) bytes: Bytes,
    /// The content length that was expected.
    pub(crate) content_length: Option<u64>,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Of those, with a resumed TLS session.
    pub(crate) resumed: u64,
    /// Idle connections that the server closed.
    pub(crate) dropped: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// What all threads spent on polls that found nothing.
    #[serde(default)]
    pub(crate) polled_s: f64,
    /// It ended early because nothing answered any more.
    pub(crate) gave_up: bool,
    /// Right answers a second.
    pub(crate) requests_per_s: f64,
    /// Bytes of right answers a second.
    pub(crate) bytes_per_s: f64,
    /// The time of a request that was answered rightly, from when it was due.
    pub(crate) latency: Times,
    /// Its parts; `connect` is of the connections that were opened, the others of all requests.
    pub(crate) phases: Phases,
    /// The latencies.
    pub(crate) histogram: Vec<Bar>,
}

/// Requests that failed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// All of them.
    pub(crate) total: u64,
    #[serde(flatten)]
    kinds: Failures,
}

/// Bytes without those of TLS.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bytes {
    /// From the server.
    pub(crate) total: u64,
    /// Of those, content.
    pub(crate) content: u64,
    /// To the server.
    pub(crate) sent: u64,
    /// From the server besides: parts of answers that were not complete.
    #[serde(default)]
    pub(crate) partial: u64,
    /// Of right answers: all of them, and of those the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) right: Option<[u64; 2]>,
}

/// A series in numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The mean.
    pub(crate) mean_ms: f64,
    /// The standard deviation.
    pub(crate) deviation_ms: f64,
    /// The shortest.
    pub(crate) min_ms: f64,
    /// The median.
    pub(crate) median_ms: f64,
    /// The longest.
    pub(crate) max_ms: f64,
    /// `p10` and so on, in milliseconds.
    pub(crate) percentiles: BTreeMap<String, f64>,
}

/// The parts of a request's time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Phases {
    /// Until the connection was open, TLS included.
    pub(crate) connect: Times,
    /// Until the request was written.
    pub(crate) write: Times,
    /// From then to the first byte of the answer.
    pub(crate) waiting: Times,
    /// From then to its last byte.
    pub(crate) read: Times,
    /// The three before.
    pub(crate) processing: Times,
    /// How much later than due requests were taken up, at a constant rate.
    pub(crate) late: Times,
}

impl Point {
    /// A measurement from its counts.
    pub(super) fn new(plan: &Plan, processes: u32, round: u32, tally: &Tally) -> Point {
        let total = tally.head_bytes + tally.content_bytes;
        let right = tally.right_answers();
        let per_s = |count: u64| if tally.seconds > 0.0 { count as f64 / tally.seconds } else { 0.0 };
        let threads =
            if processes > 1 { (plan.threads / processes).max(1) * processes } else { plan.threads };
        Point {
            clients: plan.clients,
            round,
            threads: threads.min(plan.clients),
            processes,
            keep_alive: plan.keep_alive,
            pipeline: plan.pipeline,
            rate_wanted: plan.rate,
            requests: tally.answers,
            failed: Failed { total: tally.failures.total(), kinds: tally.failures },
            no_connection: tally.no_connection.clone(),
            unfinished: tally.unfinished,
            unsent: tally.unsent,
            statuses: tally.statuses.iter().copied().collect(),
            bytes: Bytes {
                total,
                content: tally.content_bytes,
                sent: tally.request_bytes,
                partial: tally.partial_bytes,
                right: Some([tally.right_bytes, tally.right_content_bytes]),
            },
            content_length: tally.length,
            connections: tally.connections,
            resumed: tally.resumed,
            dropped: tally.dropped,
            seconds: tally.seconds,
            polled_s: tally.polled_s,
            gave_up: tally.gave_up,
            requests_per_s: per_s(right),
            bytes_per_s: per_s(tally.right_bytes),
            latency: Times::new(&tally.latency),
            phases: Phases {
                connect: Times::new(&tally.connect),
                write: Times::new(&tally.write),
                waiting: Times::new(&tally.waiting),
                read: Times::new(&tally.reading),
                processing: Times::new(&tally.processing),
                late: Times::new(&tally.late),
            },
            histogram: tally.latency.bars(),
        }
    }
}

impl Point {
    /// Answers of a right status and length.
    pub(crate) fn answered_rightly(&self) -> u64 {
        self.requests.saturating_sub(self.failed.kinds.status + self.failed.kinds.length)
    }
}

impl Failed {
    /// The kinds with their names, those that did not happen left out.
    pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
        let kinds = &self.kinds;
        let all = [
            ("connect", kinds.connect),
            ("reset", kinds.reset),
            ("timeout", kinds.timeout),
            ("no HTTP", kinds.malformed),
            ("wrong length", kinds.length),
            ("not 2xx", kinds.status),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl Times {
    fn new(series: &Series) -> Times {
        let named = |per_cent: &f64| (format!("p{per_cent}"), series.percentile_ms(*per_cent));
        Times {
            mean_ms: series.mean_ms(),
            deviation_ms: series.deviation_ms(),
            min_ms: series.min_ms(),
            median_ms: series.percentile_ms(50.0),
            max_ms: series.max_ms(),
            percentiles: PERCENTILES.iter().map(named).collect(),
        }
    }
}
