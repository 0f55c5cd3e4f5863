//! `fulmar lint`: traps in a configuration that loads.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use ::lint::{Finding, Version};
use clap::{Parser, ValueEnum};
use conf::tree::printable;
use conf::{Diagnostic, Level, Node, Sources, Span, catalogue};
use inputs::System;
use journal::ErrorLog;
use serde_json::{Value, json};
use site::{FoundFile, Problem, Survey};

use crate::command_line::Flags;
use crate::configuration::{Read, Reader};
use crate::console::{PROGRAM, out, out_messages, say};
use crate::messages;
use crate::paths::Paths;
use crate::subcommand::{self, Named};
use crate::survey;

/// Finds traps in a configuration: settings that load, but probably do not do what was meant. The rules are in
/// docs/lint.md. Nothing is served, and no file is written.
///
/// The exit status is 0; 1 if something was found that --deny names; 2 if the configuration cannot be read, for example
/// because a location is there twice.
#[derive(Debug, Parser)]
#[command(name = "fulmar lint", bin_name = "fulmar lint", version = server::VERSION)]
pub(crate) struct Arguments {
    #[command(flatten)]
    named: Named,
    /// The exit status is 1 if there is a finding of this level or worse
    #[arg(long, value_name = "LEVEL", default_value = "error")]
    deny: Deny,
    /// A rule that is not applied; may be given several times
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Find public weaknesses of nginx that the configuration exposes a server to, in place of traps
    #[arg(long)]
    cve: bool,
    /// With --cve: only weaknesses of this version of nginx, such as 1.22.1
    #[arg(long, value_name = "VERSION", requires = "cve")]
    server_version: Option<Version>,
    /// Print a JSON object for each finding
    #[arg(long)]
    json: bool,
}

/// What makes the exit status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// Lets strangers do what they may not
    Error,
    /// Does not do what it says
    Warn,
    /// Could be better
    Notice,
    /// Nothing
    Nothing,
}

impl Deny {
    fn is_about(self, level: Level) -> bool {
        match self {
            Deny::Error => level <= Level::Error,
            Deny::Warn => level <= Level::Warn,
            Deny::Notice => level <= Level::Notice,
            Deny::Nothing => false,
        }
    }
}

/// What findings about `.htaccess` files are called.
const HTACCESS: &str = "htaccess";

/// How findings are printed.
struct Output {
    deny: Deny,
    json: bool,
}

/// The exit status where nothing can be said.
const UNREADABLE: u8 = 2;

/// Looks for traps; `arguments` begins with the program's own name, and `lint` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::from(UNREADABLE)) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    if let Some(unknown) =
        arguments.allow.iter().find(|id| **id != HTACCESS && ::lint::rules().all(|rule| rule.id != **id))
    {
        say(&format!("there is no rule \"{unknown}\""));
        return ExitCode::from(UNREADABLE);
    }
    let Arguments { named, deny, allow, cve, server_version, json } = arguments;
    let flags = named.flags();
    let (nodes, sources) = match read(flags.clone()) {
        Ok(read) => read,
        Err(status) => return status,
    };
    if cve {
        let findings = ::lint::check_weaknesses(&nodes, server_version);
        return report(&findings, None, &sources, Output { deny, json });
    }
    let mut findings = ::lint::check(&nodes);
    findings.retain(|finding| !allow.iter().any(|id| id == finding.rule.id));
    let Some(paths) = Paths::told(&flags) else { return ExitCode::from(UNREADABLE) };
    let reader = Reader::new(Arc::new(System), paths, flags.globals, modules::ALL.to_vec());
    let beside = if allow.iter().any(|id| id == HTACCESS) { None } else { look_beside(&reader) };
    let status = report(&findings, beside.as_ref(), &sources, Output { deny, json });
    let Err(refusal) = reader.structure() else { return status };
    messages::refusal(&refusal, &ErrorLog::default());
    ExitCode::from(UNREADABLE)
}

/// What `.htaccess` files are like. Without a configuration that could serve there are none.
fn look_beside(reader: &Reader) -> Option<Survey> {
    reader.read().ok()?.site.survey()
}

fn read(flags: Flags) -> Result<(Vec<Node>, Sources), ExitCode> {
    let paths = Paths::told(&flags).ok_or(ExitCode::from(UNREADABLE))?;
    let loaded = conf::load(&System, &paths.conf, flags.globals.as_deref());
    if let Some(error) = loaded.error {
        let error = conf::in_place_of_nginx(&error, &loaded.sources).unwrap_or(error);
        let read = Read { sources: loaded.sources, notes: Vec::new() };
        messages::refusal(
            &crate::configuration::Refusal { error, further: Vec::new(), read },
            &ErrorLog::default(),
        );
        return Err(ExitCode::from(UNREADABLE));
    }
    let http_only: Vec<_> = catalogue::http_only_names().collect();
    let (nodes, _) = conf::wrap_bare(loaded.nodes, &http_only);
    Ok((nodes, loaded.sources))
}

fn report(findings: &[Finding], beside: Option<&Survey>, sources: &Sources, output: Output) -> ExitCode {
    let Output { deny, json } = output;
    for finding in findings {
        match json {
            true => out(format!("{}\n", object(finding, sources)).as_bytes()),
            false => out_messages(&text(finding, sources)),
        }
    }
    let problems = beside.map(|survey| &survey.problems[..]).unwrap_or_default();
    for problem in problems {
        match json {
            true => out(format!("{}\n", beside_object(problem)).as_bytes()),
            false => out_messages(&format!("{}\n", beside_text(problem))),
        }
    }
    for file in beside.iter().flat_map(|survey| &survey.found) {
        match json {
            true => out(format!("{}\n", found_object(file)).as_bytes()),
            false => out_messages(&format!("{}\n", survey::found(file))),
        }
    }
    if !json {
        let count = |level| findings.iter().filter(|finding| finding.rule.level == level).count();
        let (errors, warnings, notices) = (count(Level::Error), count(Level::Warn), count(Level::Notice));
        let warnings = warnings + problems.len();
        if let Some(survey) = beside {
            out(format!("{}\n", survey::summary(survey)).as_bytes());
        }
        out(format!("{errors} of level error, {warnings} of level warn, {notices} of level notice\n")
            .as_bytes());
    }
    let is_denied = findings.iter().any(|finding| deny.is_about(finding.rule.level))
        || !problems.is_empty() && deny.is_about(Level::Warn);
    if is_denied { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn beside_text(problem: &Problem) -> String {
    format!("{PROGRAM}: [{}] {} ({HTACCESS})", Level::Warn.name(), survey::problem(problem))
}

fn beside_object(problem: &Problem) -> String {
    let object = json!({
        "rule": HTACCESS,
        "level": Level::Warn.name(),
        "file": printable(problem.path.as_os_str().as_encoded_bytes()),
        "text": survey::problem(problem),
    });
    object.to_string()
}

fn found_object(file: &FoundFile) -> String {
    let path = printable(file.path.as_os_str().as_encoded_bytes());
    json!({ "file": path, "does": file.does }).to_string()
}

/// The message as others of a configuration are, with the rule after it.
fn text(finding: &Finding, sources: &Sources) -> String {
    let message = format!("{} ({})", finding.text, finding.rule.id);
    let diagnostic = Diagnostic { level: finding.rule.level, ..Diagnostic::warn(message) };
    let diagnostic = diagnostic.at(finding.place).under(finding.under).hint(finding.fix.clone());
    conf::render(&diagnostic, sources, PROGRAM)
}

fn object(finding: &Finding, sources: &Sources) -> Value {
    let rule = finding.rule;
    let path = sources.path(finding.place.file);
    json!({
        "rule": rule.id,
        "level": rule.level.name(),
        "file": printable(path.as_os_str().as_encoded_bytes()),
        "line": finding.place.line,
        "column": column(sources, finding.under),
        "text": finding.text,
        "why": rule.why,
        "fix": finding.fix,
        "excerpt": excerpt(sources, finding.under),
    })
}

/// The column of a place, from 1, in bytes.
fn column(sources: &Sources, span: Span) -> usize {
    let start = usize::try_from(span.start).unwrap_or(usize::MAX);
    let before = sources.text(span.file).get(..start).unwrap_or_default();
    before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1
}

/// The line of a place.
fn excerpt(sources: &Sources, span: Span) -> String {
    let text = sources.text(span.file);
    let start = usize::try_from(span.start).unwrap_or(usize::MAX).min(text.len());
    let from = text[..start].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = text[from..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    printable(line.trim_ascii())
}
