//! A run: both servers start, get the requests, and end.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use conf::Node;

use crate::client::{self, Request};
use crate::compare::{Difference, Replaced, date_of, differences};
use crate::copy::{self, Decision, FULMAR_ADDRESS, OLD_ADDRESS, Place};
use crate::known::{Known, Seen};
use crate::old_server::OldServer;
use crate::process::Process;
use crate::report::{Cause, Example, Findings};
use crate::requests::{self, Trial};
use crate::response::Response;
use crate::site::Site;
use crate::urls::{self, Url};

/// A server that does not listen after this time has not started.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Exchanges in a row that fail before a server counts as gone.
const FAILURES_MAX: usize = 5;
/// The time until a difference is looked at once more.
const LATER: Duration = Duration::from_millis(20);
/// What is said about requests that only the names of files suggest.
const LISTED: &str = "files that an application runs: a request is made for those that --log or --urls names";
/// Requests of one place of the configuration that have variants.
const VARIED_MAX: usize = 3;

/// What is tried, and with what.
pub struct Options<'a> {
    /// The configuration, with its includes in place.
    pub nodes: &'a [Node],
    /// Its directory.
    pub conf_directory: &'a Path,
    /// Where relative paths start.
    pub prefix: &'a Path,
    /// The server that is installed.
    pub old: &'a OldServer,
    /// The program of Fulmar.
    pub fulmar: &'a Path,
    /// An existing directory for all files of the run.
    pub directory: &'a Path,
    /// An access log.
    pub log: Option<&'a Path>,
    /// A list of URLs.
    pub urls: Option<&'a Path>,
    /// Further hosts.
    pub hosts: &'a [String],
    /// How many requests are made, without their variants.
    pub requests_max: usize,
    /// The time for all requests.
    pub time: Duration,
    /// Whether requests may be passed to other servers.
    pub passes: bool,
    /// Whether the servers may choose their user.
    pub is_root: bool,
    /// Ends the run early.
    pub stop: &'a AtomicBool,
    /// Reads the file with the copy that Fulmar runs, whose directives these are.
    pub explainer: &'a dyn Fn(&Path, &[Node]) -> Option<Explain<'a>>,
}

/// What Fulmar decides about a request to this port of the copy.
pub type Explain<'a> = Box<dyn Fn(&Request, u16) -> Option<Decision> + 'a>;

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The installed server does not start with the copy; its messages.
    OldServer(String),
    /// Fulmar does not start with the copy; its messages.
    Fulmar(String),
    /// A file cannot be read or written, or a port cannot be bound.
    System(String),
}

/// A comparison.
pub type Outcome = Result<Findings, Failure>;

/// Tries a configuration.
///
/// # Errors
/// There is no comparison.
pub fn run(options: &Options<'_>) -> Outcome {
    let site = Site::new(options.nodes, options.prefix);
    let urls = read_urls(options)?;
    let ports = copy::spare_ports(site.listeners.len()).map_err(|error| system("no spare port", &error))?;
    let [old, own] = copy::directories(options.directory);
    let (old, _) = start(options, (&site, &ports), &old, Some(options.old))?;
    let (own, explain) = start(options, (&site, &ports), &own, None)?;
    let trials = requests::first(&site, &urls, options.hosts, options.requests_max);
    let mut run = Run {
        options,
        explain,
        site: &site,
        ports: &ports,
        findings: Findings::new(copy::untried(options.nodes)),
        varied: HashMap::new(),
        failures: [0; 2],
        end: Instant::now() + options.time,
    };
    run.all(trials);
    let found = run.findings;
    drop((old, own));
    Ok(found)
}

fn system(what: &str, error: &io::Error) -> Failure {
    Failure::System(format!("{what}: {error}"))
}

fn read_urls(options: &Options<'_>) -> Result<Vec<Url>, Failure> {
    let mut found = Vec::new();
    let cannot_read =
        |path: &Path, error: &io::Error| system(&format!("cannot read \"{}\"", path.display()), error);
    if let Some(path) = options.urls {
        let text = fs::read_to_string(path).map_err(|error| cannot_read(path, &error))?;
        for (number, line) in (1..).zip(text.lines()) {
            let url = Url::of_line(line)
                .map_err(|error| Failure::System(format!("{}:{number}: {error}", path.display())))?;
            found.extend(url);
        }
    }
    if let Some(path) = options.log {
        let log = File::open(path).map_err(|error| cannot_read(path, &error))?;
        found.extend(urls::of_log(BufReader::new(log)).map_err(|error| cannot_read(path, &error))?);
    }
    Ok(found)
}

/// Writes the copy for one server, and starts it. Requests to Fulmar can be explained then.
fn start<'a>(
    options: &Options<'a>,
    (site, ports): (&Site, &[u16]),
    directory: &Path,
    old: Option<&OldServer>,
) -> Result<(Process, Option<Explain<'a>>), Failure> {
    let address = if old.is_some() { OLD_ADDRESS } else { FULMAR_ADDRESS };
    let conf_directory = options.conf_directory;
    let place = Place { address, directory, conf_directory, old, is_root: options.is_root };
    let cannot_write =
        |error: io::Error| system(&format!("cannot write to \"{}\"", directory.display()), &error);
    // The user of the server's workers has to reach the directories below.
    DirBuilder::new().mode(0o711).create(directory).map_err(cannot_write)?;
    fs::set_permissions(directory, Permissions::from_mode(0o711)).map_err(cannot_write)?;
    let path = directory.join("copy.conf");
    let nodes = copy::of(options.nodes, site, ports, &place);
    let text = conf::tree::to_text(&nodes);
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(&text)).map_err(cannot_write)?;
    let mut command = Command::new(old.map_or(options.fulmar, |old| &old.path));
    command.arg("-c").arg(&path).arg("-p").arg(options.prefix);
    if old.is_none_or(OldServer::takes_error_log) {
        command.args(["-e", "stderr"]);
    }
    let addresses: Vec<SocketAddr> = ports.iter().map(|port| SocketAddr::from((address, *port))).collect();
    let fail = |text: String| if old.is_some() { Failure::OldServer(text) } else { Failure::Fulmar(text) };
    let started = Process::start(&mut command);
    let mut process =
        started.map_err(|error| fail(format!("{}: {error}", command.get_program().display())))?;
    process.wait_for(&addresses, START_PATIENCE, options.stop).map_err(fail)?;
    let explain = if old.is_none() { (options.explainer)(&path, &nodes) } else { None };
    Ok((process, explain))
}

struct Run<'a, 'o> {
    options: &'a Options<'o>,
    explain: Option<Explain<'o>>,
    site: &'a Site,
    ports: &'a [u16],
    findings: Findings,
    /// Requests with variants, by the place that decides.
    varied: HashMap<Option<(String, u32, String)>, usize>,
    /// Exchanges in a row that failed, for each of the two servers.
    failures: [usize; 2],
    end: Instant,
}

impl Run<'_, '_> {
    fn all(&mut self, trials: Vec<Trial>) {
        let count = trials.len();
        for (done, trial) in trials.into_iter().enumerate() {
            if let Some(why) = self.is_over() {
                self.findings.untried.push(format!("{} of {count} requests: {why}", count - done));
                return;
            }
            self.with_variants(&trial);
        }
    }

    fn is_over(&self) -> Option<&'static str> {
        match self.failures.map(|failures| failures >= FAILURES_MAX) {
            _ if self.options.stop.load(Ordering::Relaxed) => Some("interrupted"),
            _ if Instant::now() >= self.end => Some("the time is over; --time allows more"),
            [true, _] => Some("the installed server no longer responds"),
            [_, true] => Some("Fulmar no longer responds"),
            _ => None,
        }
    }

    fn with_variants(&mut self, trial: &Trial) {
        let Some(decision) = self.decision(trial) else { return };
        if trial.is_listed && decision.is_passed {
            self.findings.note(LISTED.to_owned());
            return;
        }
        let Some(response) = self.one(trial, &decision) else { return };
        let count = self.varied.entry(decision.place.clone()).or_default();
        *count += 1;
        if *count > VARIED_MAX {
            return;
        }
        // A POST request is made only where Fulmar is sure that no application gets it.
        let post = Trial { request: Request { method: "POST", ..trial.request.clone() }, ..trial.clone() };
        let may_post = decision.is_file && self.explained(&post).is_some_and(|decision| !decision.is_passed);
        for variant in requests::variants(trial, &response, may_post) {
            if self.is_over().is_some() {
                return;
            }
            // What decides may look at the method and the header fields.
            if let Some(decision) = self.decision(&variant) {
                self.one(&variant, &decision);
            }
        }
    }

    fn explained(&self, trial: &Trial) -> Option<Decision> {
        (self.explain.as_ref()?)(&trial.request, *self.ports.get(trial.listener)?)
    }

    /// What Fulmar decides about a request; none if the request must not be made.
    fn decision(&mut self, trial: &Trial) -> Option<Decision> {
        let decision = self.explained(trial);
        let is_passed = decision.as_ref().is_some_and(|decision| decision.is_passed);
        if !self.options.passes && (is_passed || decision.is_none()) {
            self.findings
                .note("--no-upstreams: requests that are passed to other servers, or may be".to_owned());
            return None;
        }
        self.findings.passed += usize::from(is_passed);
        Some(decision.unwrap_or_default())
    }

    /// Makes a request twice to the installed server and once to Fulmar, and notes how the responses differ. Gives the
    /// installed server's response.
    fn one(&mut self, trial: &Trial, decision: &Decision) -> Option<Response> {
        let expected = self.ask(0, trial)?;
        let asked = [self.ask(0, trial)?, self.ask(1, trial)?];
        self.findings.requests += 1;
        let [again, got] = &asked;
        let mut by_nature = between(&expected, again);
        let mut found = between(&expected, got);
        if !found.is_empty() {
            // A clock may have moved on between two servers, and not between two requests to one server.
            thread::park_timeout(LATER);
            let (old, new) = (self.ask(0, trial)?, self.ask(1, trial)?);
            by_nature.extend(between(&expected, &old));
            let still = between(&old, &new);
            found.retain(|difference| still.iter().any(|other| is_same_kind(difference, other)));
        }
        let mut causes: Vec<(Option<&'static Known>, Vec<Difference>)> = Vec::new();
        for difference in found {
            if by_nature.iter().any(|other| is_same_kind(other, &difference)) {
                self.findings.set_aside(&difference);
                continue;
            }
            let seen = Seen { request: &trial.request, expected: &expected, got, difference: &difference };
            let known = Known::of(&seen);
            match causes.iter_mut().find(|(cause, _)| cause.map(|it| it.id) == known.map(|it| it.id)) {
                Some((_, differences)) => differences.push(difference),
                None => causes.push((known, vec![difference])),
            }
        }
        self.findings.equal += usize::from(causes.is_empty());
        for (known, differences) in causes {
            let cause = Cause { place: decision.place.clone(), known };
            let request = Example::request(&trial.request, self.listener_text(trial));
            self.findings.add(cause, request, &differences);
        }
        Some(expected)
    }

    /// Asks one of the two servers.
    fn ask(&mut self, server: usize, trial: &Trial) -> Option<Response> {
        let address = if server == 0 { OLD_ADDRESS } else { FULMAR_ADDRESS };
        let port = *self.ports.get(trial.listener)?;
        self.exchange(server, SocketAddr::from((address, port)), &trial.request)
    }

    fn listener_text(&self, trial: &Trial) -> &str {
        self.site.listeners.get(trial.listener).map_or("", |listener| &listener.written)
    }

    fn exchange(&mut self, server: usize, address: SocketAddr, request: &Request) -> Option<Response> {
        match client::exchange(address, request) {
            Ok(response) => {
                self.failures[server] = 0;
                Some(response)
            }
            Err(error) => {
                self.failures[server] += 1;
                let name = if server == 0 { "the installed server" } else { "Fulmar" };
                let place = Example::request(request, "");
                self.findings.note(format!("{place}: {name} gave no response ({})", error.kind()));
                None
            }
        }
    }
}

/// How the second of two responses differs from the first, without what names the servers.
fn between(expected: &Response, got: &Response) -> Vec<Difference> {
    let addresses = [OLD_ADDRESS, FULMAR_ADDRESS];
    let replaced = Replaced {
        numbers: Vec::new(),
        texts: addresses.map(|address| (address.to_string().into_bytes(), &b"ADDRESS"[..])).into(),
    };
    let dates = [date_of(expected), date_of(got)];
    let [mut expected, mut got] = [expected.clone(), got.clone()];
    replaced.normalise(&mut expected);
    replaced.normalise(&mut got);
    differences(&expected, &got, dates)
}

/// Whether two differences are about the same part of a response.
fn is_same_kind(x: &Difference, y: &Difference) -> bool {
    use Difference::{Body, Extra, Framing, Missing, Status, Trailers};
    match (x, y) {
        (Missing(name, _) | Extra(name, _), Missing(other, _) | Extra(other, _)) => {
            name.eq_ignore_ascii_case(other)
        }
        (Status(..), Status(..))
        | (Body(..), Body(..))
        | (Trailers, Trailers)
        | (Framing(..), Framing(..)) => true,
        // Content of another length has another Content-Length.
        (Body(..), Missing(name, _) | Extra(name, _)) => {
            ["content-length", "etag"].contains(&name.to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

/// The lines of the findings about what was not tried, each once.
pub(crate) fn each_once(lines: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines.into_iter().filter(|line| seen.insert(line.clone())).collect()
}
