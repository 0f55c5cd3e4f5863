//! `fulmar-lab load`, the lab's load generator: closed loops, as in ab, weighttp and wrk, and constant rates.
//!
//! Each thread has its clients and one epoll instance; all times come from one clock. In a closed loop a client sends
//! its next request after the response, so a server that stalls gets fewer requests. At a constant rate (`-R`) each
//! request has a time at which it is due, whatever the server does. Latency counts from that time, so a stall shows in
//! every request that it delays.

mod answer;
mod claims;
mod client;
mod clients;
mod crew;
pub(crate) mod document;
mod plan;
mod series;
mod socket;
pub(crate) mod table;
mod tally;
mod target;
mod thread;
mod tls;
mod workers;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use clap::{ArgAction, Args};

pub use self::clients::ClientCounts;
use self::crew::Control;
use self::document::{Document, Point};
use self::plan::{Plan, TlsPlan};
use self::tally::Tally;
use self::target::Target;
use crate::model::order;

/// More connections than these from one address to one port find no free port.
const CONNECTIONS_PER_SOURCE: u32 = 20_000;

/// The most bytes of content in a request: each thread has it in memory.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// The options of `fulmar-lab load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArguments {
    /// The URL. `http://` may be left out.
    #[arg(required_unless_present = "worker")]
    url: Option<String>,
    /// Requests in total. Without -n and without -d, each client sends one.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Clients at once: a number, or a sweep such as `[0-1000 step:10 rounds:3]`.
    #[arg(short, long, default_value = "1")]
    clients: ClientCounts,
    /// Threads; one for each core by default.
    #[arg(short, long)]
    threads: Option<NonZeroU32>,
    /// Seconds to send requests for, or to hold idle connections.
    #[arg(short = 'd', long)]
    seconds: Option<f64>,
    /// Requests a second, at a constant rate. Latency counts from when a request was due.
    #[arg(short = 'R', long)]
    rate: Option<f64>,
    /// Keep connections for further requests.
    #[arg(short, long)]
    keep_alive: bool,
    /// Use IPv6.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// A header of the request, `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    fields: Vec<String>,
    /// Different requests: `{number}` in the URL and in fields stands for each number below this one, in a mixed order.
    #[arg(long)]
    numbers: Option<NonZeroU32>,
    /// Bytes of content in each request, which makes it a POST. With `-H "Upgrade: websocket"`: bytes of each message, which
    /// has to come back.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(..=BODY_BYTES_MAX))]
    body: Option<u64>,
    /// Requests in flight on each connection.
    #[arg(long, default_value = "1")]
    pipeline: NonZeroU32,
    /// TLS, as with an https URL. Certificates are not checked.
    #[arg(long)]
    tls: bool,
    /// Whether TLS sessions are resumed: on or off.
    #[arg(long, value_name = "ON", default_value = "off", action = ArgAction::Set, value_parser = on_or_off)]
    tls_resume: bool,
    /// Number of client addresses (127.1.0.1, 127.1.0.2 and so on); as many as needed by default.
    #[arg(long)]
    sources: Option<NonZeroU32>,
    /// Seconds until a request counts as unanswered.
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    timeout: f64,
    /// The correct length of the content; by default that of the first response.
    #[arg(long, value_name = "BYTES")]
    expect_length: Option<u64>,
    /// Open the connections, send one request on each, say so, and hold them: for -d seconds, or else until
    /// standard input ends.
    #[arg(long)]
    idle: bool,
    /// Print one JSON document. With --idle a line `{"held":N}` precedes it once all connections are open.
    #[arg(long)]
    pub(crate) json: bool,
    /// Microseconds for which a thread polls its connections before it sleeps, so that the server does not have to wake
    /// it. For threads on cores that no server uses. `polled_s` in the JSON document is the time of polls that found nothing.
    #[arg(long, value_name = "MICROSECONDS", default_value = "0", value_parser = clap::value_parser!(u32).range(..=1000))]
    poll: u32,
    /// Allow a target on another machine.
    #[arg(long)]
    i_own_this_target: bool,
    /// Run as a worker process of another generator.
    #[arg(long, hide = true, conflicts_with = "url")]
    worker: bool,
}

/// Measures every number of clients in every round, and prints each result at once if a person reads the output.
/// Returns `None` in a worker process. Fails if the target is not allowed, or if the system refuses sockets or threads.
pub(crate) fn measure(
    arguments: &LoadArguments,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Document>> {
    if arguments.worker {
        workers::work(interrupted)?;
        return Ok(None);
    }
    let url = arguments.url.as_deref().context("no URL")?;
    let mut target = Target::parse(url)?;
    target.tls |= arguments.tls;
    let base = arguments.plan(&target)?;
    let tool = format!("fulmar-lab {}", env!("CARGO_PKG_VERSION"));
    let mut document = Document { tool, target: url.into(), interrupted: false, points: Vec::new() };
    for clients in &arguments.clients.counts {
        for round in 1..=arguments.clients.rounds {
            let plan = arguments.with_clients(&base, *clients);
            let processes = workers::needed(plan.clients);
            let tally = run(&plan, processes, arguments.json, interrupted)?;
            let point = Point::new(&plan, processes, round, &tally);
            if !arguments.json {
                tell(&table::point(url, &point, &tally)?);
            }
            document.points.push(point);
            document.interrupted = interrupted.load(Ordering::Relaxed);
            if document.interrupted {
                return Ok(Some(document));
            }
        }
    }
    Ok(Some(document))
}

fn run(plan: &Plan, processes: u32, is_json: bool, interrupted: &AtomicBool) -> Result<Tally> {
    let mut held = |connections: u64| -> Result<()> {
        let mut out = io::stdout().lock();
        if is_json {
            writeln!(out, "{{\"held\":{connections}}}")?;
        } else {
            writeln!(out, "{connections} connections are open and idle")?;
        }
        Ok(out.flush()?)
    };
    let follows_input = plan.idle && plan.seconds.is_none();
    let mut control = Control { interrupted, follows_input, held: &mut held };
    if processes > 1 { workers::run(plan, processes, &mut control) } else { crew::run(plan, &mut control) }
}

impl LoadArguments {
    /// The plan for one client.
    fn plan(&self, target: &Target) -> Result<Plan> {
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value.is_finite());
        ensure!(positive(self.rate), "-R: a number of requests a second");
        ensure!(positive(self.seconds) && positive(Some(self.timeout)), "a time is a number of seconds");
        let most = self.clients.counts.iter().copied().max().unwrap_or_default();
        let idle_clients = self.requests.filter(|requests| *requests < u64::from(most) && !self.idle);
        if let Some(requests) = idle_clients {
            bail!("-c {most}: only {requests} of these clients would send a request (-n {requests})");
        }
        let keep_alive = self.keep_alive || self.idle;
        let pipeline = self.pipeline.get();
        ensure!(pipeline == 1 || keep_alive, "--pipeline needs kept connections (-k)");
        ensure!(pipeline == 1 || !self.idle, "--pipeline: idle connections carry one request");
        ensure!(self.rate.is_none() || !self.idle, "-R: idle connections carry one request");
        ensure!(
            self.poll == 0 || self.rate.is_none() && !self.idle,
            "--poll: with a rate or idle connections, threads have to sleep"
        );
        let message_bytes = self.body.filter(|_| order::is_websocket(&self.fields));
        if message_bytes.is_some() {
            ensure!(keep_alive && !self.idle, "messages over WebSockets need connections that are kept (-k)");
            ensure!(
                pipeline == 1 && self.numbers.is_none(),
                "messages over WebSockets are equal, and one at a time"
            );
        }
        let body = self.body.filter(|_| message_bytes.is_none());
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let threads = self.threads.map_or(u32::try_from(cores)?, NonZeroU32::get);
        Ok(Plan {
            address: target.resolve(self.ipv6, self.i_own_this_target)?,
            request: plan::request(target, &self.fields, keep_alive, body)?,
            message_bytes,
            numbers: self.numbers.map(NonZeroU32::get),
            tls: target.tls.then(|| TlsPlan { host: target.host.clone(), resume: self.tls_resume }),
            clients: 1,
            threads,
            requests: self.requests,
            seconds: self.seconds,
            rate: self.rate,
            offset: 0.0,
            keep_alive,
            pipeline,
            sources: self.sources.map_or(1, NonZeroU32::get),
            timeout_s: self.timeout,
            length: self.expect_length,
            idle: self.idle,
            poll_us: self.poll,
        })
    }

    fn with_clients(&self, base: &Plan, clients: u32) -> Plan {
        let is_many = base.address.ip().to_canonical().is_loopback() && base.address.is_ipv4();
        let needed = if is_many { sources_for(clients) } else { 1 };
        let requests = match (self.requests, self.seconds) {
            (None, None) => Some(u64::from(clients)),
            (requests, _) => requests,
        };
        let sources = if self.sources.is_some() { base.sources } else { needed };
        Plan { clients, requests, sources, ..base.clone() }
    }
}

/// The number of client addresses that this many connections to one port need.
pub(crate) fn sources_for(clients: u32) -> u32 {
    clients.div_ceil(CONNECTIONS_PER_SOURCE)
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".into()),
    }
}
