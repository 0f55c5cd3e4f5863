//! `fulmar migrate`: the installed nginx and Fulmar get the same requests, and their responses are compared.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::migrate::report::Findings;
use ::migrate::{Decision, Explain, Failure, OldServer, Options};
use clap::Parser;
use conf::{Node, Sources, Span};
use contract::Event;
use inputs::System;
use journal::ErrorLog;
use lint::Version;
use server::{Content, End, Question};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::configuration::{Read, Reader, Refusal};
use crate::console::{err, out, say};
use crate::paths::Paths;
use crate::{explain, messages, subcommand};

/// Compares the installed nginx with Fulmar. Both run copies of the configuration on spare ports of the loopback interface,
/// get the same requests, and their responses are compared. What the servers write goes to a temporary directory.
///
/// The requests come from the configuration, from the files that it serves, from --log and from --urls. Requests that the configuration
/// passes to other servers reach these servers: only GET and HEAD requests are sent there.
///
/// The exit status is 0 if the responses agree or their differences are meant; 1 if there are other differences; 2 if
/// there is no comparison.
#[derive(Debug, Parser)]
#[command(name = "fulmar migrate", bin_name = "fulmar migrate", version = server::VERSION)]
pub(crate) struct Arguments {
    /// The configuration of the installed server
    #[arg(value_name = "FILE", default_value = "/etc/nginx/nginx.conf")]
    configuration: PathBuf,
    /// The program of the installed server [default: nginx on the PATH]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Where relative paths start [default: as the installed server was built]
    #[arg(short, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// An access log: its GET and HEAD requests, the most frequent first, one of each kind
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// A list of URLs or paths, one a line
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// Hosts for requests without a host
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Requests that are made, without their variants
    #[arg(long, value_name = "NUMBER", default_value_t = 2000)]
    max: usize,
    /// Seconds for all requests
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    time: u64,
    /// Make no request that the configuration passes to another server
    #[arg(long)]
    no_upstreams: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Write the report as an HTML page to this new file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The exit status where there is no comparison.
const NO_COMPARISON: u8 = 2;

/// Compares; `arguments` begins with the program's own name, and `migrate` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::from(NO_COMPARISON)) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    match compare(&arguments) {
        Ok((findings, old)) => report(&arguments, &findings, &old),
        Err(text) => {
            say(text.trim_end());
            ExitCode::from(NO_COMPARISON)
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(Findings, OldServer), String> {
    let old = OldServer::ask(&program(arguments)?)?;
    let in_place = |path: &Path| absolute(path).map_err(|error| format!("{}: {error}", path.display()));
    let conf = in_place(&arguments.configuration)?;
    let conf_directory = conf.parent().unwrap_or(Path::new("/")).to_path_buf();
    let prefix = match &arguments.prefix {
        Some(prefix) => in_place(prefix)?,
        None => old.prefix().unwrap_or_else(|| conf_directory.clone()),
    };
    let (nodes, sources) = read(&conf)?;
    say(&format!("comparing {} ({}) with Fulmar {}", old.name, old.path.display(), server::VERSION));
    let paths_of = |conf: &Path| Paths {
        conf: conf.to_path_buf(),
        prefix: prefix.clone(),
        error_log: None,
        error_log_given: true,
    };
    weaknesses(&paths_of(&conf), &nodes, &old);
    judge(paths_of(&conf), &nodes);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    let fail = |error: io::Error| format!("cannot make a directory for the run: {error}");
    let directory = tempfile::Builder::new().prefix("fulmar-migrate-").tempdir().map_err(fail)?;
    // Workers with another user pass through it; the copies in it are readable by their owner only.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).map_err(fail)?;
    let explainer =
        |copy: &Path, nodes: &[Node]| explainer(paths_of(copy), nodes, (&sources, &conf_directory));
    let options = Options {
        nodes: &nodes,
        conf_directory: &conf_directory,
        prefix: &prefix,
        old: &old,
        fulmar: &env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?,
        directory: directory.path(),
        log: arguments.log.as_deref(),
        urls: arguments.urls.as_deref(),
        hosts: &arguments.hosts,
        requests_max: arguments.max,
        time: Duration::from_secs(arguments.time),
        passes: !arguments.no_upstreams,
        is_root: net::identity::is_superuser(),
        stop: &stop,
        explainer: &explainer,
    };
    let findings = ::migrate::run(&options).map_err(|failure| match failure {
        Failure::OldServer(text) => {
            format!("the installed server does not start with a copy of the configuration:\n{text}")
        }
        Failure::Fulmar(text) => format!("Fulmar does not start with a copy of the configuration:\n{text}"),
        Failure::System(text) => text,
    })?;
    Ok((findings, old))
}

/// The program of the installed server.
fn program(arguments: &Arguments) -> Result<PathBuf, String> {
    if let Some(path) = &arguments.server {
        return Ok(path.clone());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin"].map(PathBuf::from);
    let found = env::split_paths(&path).chain(usual).map(|directory| directory.join("nginx"));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        "no nginx on the PATH: name the program of the installed server with --server FILE".to_owned()
    })
}

fn read(conf: &Path) -> Result<(Vec<Node>, Sources), String> {
    let loaded = conf::load(&System, conf, None);
    let Some(error) = loaded.error else { return Ok((loaded.nodes, loaded.sources)) };
    let error = conf::in_place_of_nginx(&error, &loaded.sources).unwrap_or(error);
    let read = Read { sources: loaded.sources, notes: Vec::new() };
    messages::refusal(&Refusal { error, further: Vec::new(), read }, &ErrorLog::default());
    Err(format!("cannot read \"{}\"", conf.display()))
}

/// How many public weaknesses of the installed server its configuration may expose.
fn weaknesses(paths: &Paths, nodes: &[Node], old: &OldServer) {
    let Ok(version) = old.version().parse::<Version>() else { return };
    let count = lint::check_weaknesses(nodes, Some(version)).len();
    if count > 0 {
        let name = paths.conf.display();
        let places = if count == 1 { "place" } else { "places" };
        say(&format!(
            "{count} {places} may expose public weaknesses of nginx {version}: fulmar lint --cve --server-version {version} -c \"{name}\""
        ));
    }
}

/// What Fulmar says about the configuration where it is: the messages of `-t`, and how much `fulmar lint` finds.
fn judge(paths: Paths, nodes: &[Node]) {
    let name = paths.conf.display().to_string();
    let found = lint::check(nodes).len();
    if found > 0 {
        let findings = if found == 1 { "finding" } else { "findings" };
        say(&format!("{found} {findings}, which fulmar lint -c \"{name}\" shows"));
    }
    match Reader::new(Arc::new(System), paths, None, modules::ALL.to_vec()).read() {
        Ok(configuration) => messages::notes(&configuration.read, &ErrorLog::default()),
        Err(refusal) => messages::refusal(&refusal, &ErrorLog::default()),
    }
}

/// Explains requests by the copy that Fulmar runs, since that is what serves them. The places are those of the configuration
/// that was given, whose directories these are.
fn explainer<'a>(
    paths: Paths,
    nodes: &[Node],
    (sources, directory): (&'a Sources, &'a Path),
) -> Option<Explain<'a>> {
    let copy = conf::parse_bytes(&conf::tree::to_text(nodes)).nodes;
    let mut origins = Origins::default();
    origins.add(&copy, nodes);
    let configuration = Reader::new(Arc::new(System), paths, None, modules::ALL.to_vec()).read().ok()?;
    Some(Box::new(move |request, port| {
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let question = Question { head: request.bytes(), client, port, address: None, is_encrypted: false };
        let explanation = server::explain(&configuration.site, &question).ok()?;
        let of_copy = explanation.steps.iter().rev().filter_map(|step| step.place);
        let places = of_copy.filter_map(|span| explain::place(origins.of(span), sources, directory));
        Some(Decision {
            is_passed: matches!(explanation.end, End::Passed)
                || explanation.steps.iter().any(reaches_upstream),
            is_file: matches!(explanation.end, End::Answered(_, Content::File)),
            place: places.map(|place| (place.file, place.line, place.text)).next(),
        })
    }))
}

/// Where directives of a copy stand in the configuration that it was made from, by where they begin in the copy.
#[derive(Default)]
struct Origins(BTreeMap<u32, Span>);

impl Origins {
    /// Adds directives as they were read, and the same ones as they were copied.
    fn add(&mut self, read: &[Node], copied: &[Node]) {
        for (read, copied) in read.iter().zip(copied) {
            self.0.insert(read.span.start, copied.span);
            self.add(read.children(), copied.children());
        }
    }

    /// Where the directive of this place stands; none for one that the copy alone has.
    fn of(&self, place: Span) -> Option<Span> {
        let (_, origin) = self.0.range(..=place.start).next_back()?;
        Some(*origin).filter(|origin| origin.line > 0)
    }
}

/// Whether a step passes the request, or a subrequest such as that of `auth_request`, to another server.
fn reaches_upstream(step: &Event) -> bool {
    step.member("upstream").is_some() || step.considered.iter().any(reaches_upstream)
}

fn report(arguments: &Arguments, findings: &Findings, old: &OldServer) -> ExitCode {
    if arguments.json {
        out(format!("{}\n", findings.json()).as_bytes());
    } else {
        out(findings.text().as_bytes());
    }
    if let Some(path) = &arguments.html {
        let page = ::migrate::page::html(findings, &format!("{} and Fulmar {}", old.name, server::VERSION));
        // It may have secrets of the configuration and of responses.
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| io::Write::write_all(&mut file, page.as_bytes()));
        if let Err(error) = written {
            err(&format!("fulmar: cannot write \"{}\": {error}\n", path.display()));
            return ExitCode::from(NO_COMPARISON);
        }
    }
    match (findings.requests, findings.unexpected()) {
        (0, _) => ExitCode::from(NO_COMPARISON),
        (_, 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
