//! `fulmar explain`: how Fulmar would answer a request, and why, without a running server.
//!
//! The configuration is read as for a start, and the request runs through the pipeline of serving. No port is opened,
//! nothing is logged or counted, and no other server is contacted.

mod question;
mod report;
mod text;

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use inputs::System;
use journal::ErrorLog;

use crate::command_line::Flags;
use crate::configuration::{Configuration, Reader};
use crate::console::{out, say};
use crate::messages;
use crate::paths::Paths;
use crate::subcommand::{self, Named};
use question::Url;
use report::Report;

pub(crate) use report::place;

/// Shows how Fulmar would answer a request: the server and the location that it chooses, and why; each rewrite; each
/// file that it looks for; the rule that rejects the request; and the response, or the upstream server.
///
/// The exit status is 0 if the request was explained, whatever the response, and 1 if not.
#[derive(Clone, Debug, Parser)]
#[command(name = "fulmar explain", bin_name = "fulmar explain", version = server::VERSION)]
pub(crate) struct Arguments {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    request: Request,
    /// Print a JSON object for each request
    #[arg(long)]
    json: bool,
}

/// What a request is made of.
#[derive(Clone, Debug, clap::Args)]
struct Request {
    /// The method
    #[arg(short = 'X', value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header of the request; `Host` replaces the host of the URL
    #[arg(short = 'H', value_name = "FIELD")]
    fields: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    from: IpAddr,
    /// The server's address that receives the request [default: the first with the URL's port]
    #[arg(long, value_name = "ADDRESS")]
    at: Option<IpAddr>,
    /// The URL; `-` reads requests from the standard input, one a line: [-X METHOD] [-H FIELD] [--from ADDRESS]
    /// [--at ADDRESS] URL. Write an argument with spaces in quotes
    #[arg(value_name = "URL")]
    url: String,
}

/// One line of the standard input.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    request: Request,
}

/// Explains; `arguments` begins with the program's own name, and `explain` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let Arguments { named, request, json } = match subcommand::arguments(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let (configuration, paths) = match read(named.flags()) {
        Ok(read) => read,
        Err(status) => return status,
    };
    let read = (&configuration, paths.conf_prefix());
    if request.url != "-" {
        return explain(read, &request, json);
    }
    let mut status = ExitCode::SUCCESS;
    for line in io::stdin().lock().lines() {
        let explained = match line.map_err(|error| error.to_string()).and_then(|line| of_line(&line)) {
            Ok(None) => continue,
            Ok(Some(request)) => explain(read, &request, json),
            Err(text) => {
                say(text.trim_end());
                ExitCode::FAILURE
            }
        };
        if explained != ExitCode::SUCCESS {
            status = explained;
        }
    }
    status
}

fn read(flags: Flags) -> Result<(Configuration, Paths), ExitCode> {
    let paths = Paths::told(&flags).ok_or(ExitCode::FAILURE)?;
    let reader = Reader::new(Arc::new(System), paths.clone(), flags.globals, modules::ALL.to_vec());
    let configuration = reader.read().map_err(|refusal| {
        messages::refusal(&refusal, &ErrorLog::default());
        ExitCode::FAILURE
    })?;
    Ok((configuration, paths))
}

fn explain((configuration, directory): (&Configuration, &Path), request: &Request, json: bool) -> ExitCode {
    let url = match Url::parse(&request.url) {
        Ok(url) => url,
        Err(text) => {
            say(&format!("\"{}\" is no URL to explain: {text}", request.url));
            return ExitCode::FAILURE;
        }
    };
    let question = url.question(&request.method, &request.fields, request.from, request.at);
    match server::explain(&configuration.site, &question) {
        Ok(explanation) => {
            let sources = &configuration.read.sources;
            let report = Report { request, explanation: &explanation, sources, directory };
            let text = if json { report.json() } else { text::text(&report) };
            out(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("{}: {error}", request.url));
            ExitCode::FAILURE
        }
    }
}

/// A request as a line of the standard input has it; nothing where the line is empty or a comment.
fn of_line(line: &str) -> Result<Option<Request>, String> {
    let words = question::words(line)?;
    if words.first().is_none_or(|word| word.starts_with('#')) {
        return Ok(None);
    }
    let parsed = Line::try_parse_from(words).map_err(|error| error.render().to_string())?;
    Ok(Some(parsed.request))
}
