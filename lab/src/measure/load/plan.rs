//! What a process is to do, and how it is shared out among processes and threads.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::model::numbers;
use crate::model::order::message_and_echo;

/// Copies of a pipelined request are written at once up to so many bytes.
const BATCH: usize = 16 * 1024;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Where to.
    pub(super) address: SocketAddr,
    /// The request, as it is sent every time, or with `{number}` for what differs.
    pub(super) request: String,
    /// How many different requests there are, if they differ.
    pub(super) numbers: Option<u32>,
    /// Where the request opens a WebSocket on which messages are sent: the bytes of each message, which are the requests
    /// then.
    pub(super) message_bytes: Option<u64>,
    /// TLS, if any.
    pub(super) tls: Option<TlsPlan>,
    /// Connections at once.
    pub(super) clients: u32,
    /// Threads of each process.
    pub(super) threads: u32,
    /// How many requests, if they are counted.
    pub(super) requests: Option<u64>,
    /// For how long, if that is limited.
    pub(super) seconds: Option<f64>,
    /// Requests a second, unless they follow each other.
    pub(super) rate: Option<f64>,
    /// When the first is due, in parts of the time between two: parts of a load take turns.
    pub(super) offset: f64,
    /// Whether connections are used again.
    pub(super) keep_alive: bool,
    /// Requests in flight on one connection.
    pub(super) pipeline: u32,
    /// Addresses that connections come from; 1 leaves it to the system.
    pub(super) sources: u32,
    /// Seconds until a request counts as unanswered.
    pub(super) timeout_s: f64,
    /// The length of the content; the first answer's otherwise.
    pub(super) length: Option<u64>,
    /// One request on each connection, which is then held.
    pub(super) idle: bool,
    /// For so many microseconds a thread polls its sockets before it sleeps.
    pub(super) poll_us: u32,
}

/// TLS of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TlsPlan {
    /// The name that is asked for.
    pub(super) host: String,
    /// Whether sessions are resumed.
    pub(super) resume: bool,
}

impl Plan {
    /// Bytes of a request.
    pub(super) fn request_length(&self) -> usize {
        if let Some(length) = self.message_bytes {
            return message_and_echo(length)[0].len();
        }
        self.numbers.map_or(self.request.len(), |count| numbers::put(&self.request, 0, count).len())
    }

    /// Requests one after the other, as they are written: copies, some of which may be written at once, or all that
    /// differ.
    pub(super) fn batch(&self) -> Vec<u8> {
        if let Some(length) = self.message_bytes {
            let [message, _] = message_and_echo(length);
            return message;
        }
        let numbered = |count: u32| -> String {
            let requests = numbers::mixed(count).into_iter();
            requests.map(|number| numbers::put(&self.request, number, count)).collect()
        };
        let copies = || (BATCH / self.request.len().max(1)).clamp(1, self.pipeline.max(1) as usize);
        self.numbers.map_or_else(|| self.request.repeat(copies()), numbered).into_bytes()
    }

    /// Equal parts of it, as far as numbers divide. No part is without a client.
    pub(super) fn parts(&self, wanted: u32) -> Vec<Plan> {
        let count = wanted.clamp(1, self.clients.max(1));
        let part = |index: u32| Plan {
            clients: share(self.clients.into(), count, index).try_into().unwrap_or(self.clients),
            requests: self.requests.map(|requests| share(requests, count, index)),
            rate: self.rate.map(|rate| rate / f64::from(count)),
            offset: (self.offset + f64::from(index)) / f64::from(count),
            ..self.clone()
        };
        (0..count).map(part).collect()
    }
}

/// The request for a target. A field that is given takes the place of the one that is sent otherwise.
/// With content it is a POST.
pub(super) fn request(
    target: &Target,
    fields: &[String],
    keep_alive: bool,
    body_bytes: Option<u64>,
) -> Result<String> {
    let length = body_bytes.unwrap_or_default().to_string();
    let mut own = vec![("Host", target.authority.as_str()), ("User-Agent", "fulmar-lab")];
    if !keep_alive {
        own.push(("Connection", "close"));
    }
    if body_bytes.is_some() {
        own.push(("Content-Length", &length));
    }
    let method = if body_bytes.is_some() { "POST" } else { "GET" };
    let mut request = format!("{method} {} HTTP/1.1\r\n", target.path);
    for (name, value) in own {
        let given = fields.iter().any(|field| name_of(field).eq_ignore_ascii_case(name));
        if !given {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    for field in fields {
        ensure!(field.contains(':') && !field.contains(['\r', '\n']), "{field}: a field is `Name: value`");
        request.push_str(&format!("{field}\r\n"));
    }
    request.push_str("\r\n");
    let body = ('a'..='z').cycle().take(usize::try_from(body_bytes.unwrap_or_default())?);
    request.extend(body);
    Ok(request)
}

fn name_of(field: &str) -> &str {
    field.split(':').next().unwrap_or(field).trim()
}

/// The part with this index of so many: the first ones are larger by one where it does not divide.
fn share(total: u64, count: u32, index: u32) -> u64 {
    total / u64::from(count) + u64::from(u64::from(index) < total % u64::from(count))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A plan for one client and one request.
    pub(in crate::measure::load) fn plan() -> Plan {
        Plan {
            address: ([127, 0, 0, 1], 80).into(),
            request: "GET / HTTP/1.1\r\nHost: x\r\n\r\n".into(),
            numbers: None,
            message_bytes: None,
            tls: None,
            clients: 1,
            threads: 1,
            requests: Some(1),
            seconds: None,
            rate: None,
            offset: 0.0,
            keep_alive: true,
            pipeline: 1,
            sources: 1,
            timeout_s: 10.0,
            length: None,
            idle: false,
            poll_us: 0,
        }
    }

    #[test]
    fn parts_add_up() {
        let whole = Plan { clients: 10, requests: Some(1001), rate: Some(300.0), ..plan() };
        let parts = whole.parts(3);
        assert_eq!(parts.iter().map(|part| part.clients).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!(parts.iter().map(|part| part.requests.unwrap()).collect::<Vec<_>>(), [334, 334, 333]);
        assert_eq!(parts[1].rate, Some(100.0));
        assert_eq!(whole.parts(30).len(), 10);
        // Two processes of two threads: four instants, evenly apart.
        let mut offsets: Vec<f64> = whole
            .parts(2)
            .iter()
            .flat_map(|part| part.parts(2))
            .map(|part| part.offset / part.rate.unwrap())
            .collect();
        offsets.sort_by(f64::total_cmp);
        let apart: Vec<f64> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) * 300.0).collect();
        assert!(apart.iter().all(|apart| (apart - 1.0).abs() < 1e-9), "{apart:?}");
    }

    #[test]
    fn requests_may_differ() {
        let plan = Plan { request: "GET /{number}\n".into(), numbers: Some(12), ..plan() };
        let batch = String::from_utf8(plan.batch()).unwrap();
        assert_eq!(batch.len(), 12 * plan.request_length());
        let mut lines: Vec<&str> = batch.lines().collect();
        assert!(!lines.is_sorted());
        lines.sort_unstable();
        assert_eq!([lines[0], lines[11]], ["GET /00", "GET /11"]);
        assert_eq!(Plan { numbers: None, pipeline: 3, ..plan }.batch(), b"GET /{number}\n".repeat(3));
    }

    #[test]
    fn given_fields_replace_our_own() {
        let target = Target::parse("http://127.0.0.1:8080/x").unwrap();
        assert_eq!(
            request(&target, &[], false, None).unwrap(),
            "GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: fulmar-lab\r\nConnection: close\r\n\r\n"
        );
        let fields = ["host: a".to_owned(), "Accept-Encoding: gzip".to_owned()];
        assert_eq!(
            request(&target, &fields, true, None).unwrap(),
            "GET /x HTTP/1.1\r\nUser-Agent: fulmar-lab\r\nhost: a\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        assert_eq!(
            request(&target, &[], true, Some(28)).unwrap(),
            "POST /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: fulmar-lab\r\nContent-Length: 28\r\n\r\n\
             abcdefghijklmnopqrstuvwxyzab"
        );
        assert!(request(&target, &["x".to_owned()], true, None).is_err());
        assert!(request(&target, &["x: y\r\nz: y".to_owned()], true, None).is_err());
    }
}
