//! `fulmar certificates`: the automatic certificates, and how long they are valid.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use acme::Order;
use clap::{Parser, Subcommand};
use inputs::System;
use journal::ErrorLog;
use net::control::Command;
use serde_json::{Value, json};

use crate::configuration::Reader;
use crate::console::{out, say};
use crate::messages;
use crate::paths::Paths;
use crate::subcommand::{self, Named};

/// Lists the certificates that a configuration gets from authorities (ssl_certificate auto, acme_certificate): names,
/// issuer, remaining days, the next attempt to get one, and why the last attempt failed. Reading their state needs the
/// rights of the superuser. "fulmar certificates renew NAME" makes the running server order a new one at once.
///
/// The exit status is 0; 1 if a certificate is missing, invalid, or could not be renewed; 2 if the configuration cannot be
/// read.
#[derive(Debug, Parser)]
#[command(name = "fulmar certificates", bin_name = "fulmar certificates", version = server::VERSION)]
pub(crate) struct Arguments {
    #[command(flatten)]
    named: Named,
    /// Print a JSON object for each certificate
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

/// What to do besides listing.
#[derive(Debug, Subcommand)]
enum Action {
    /// Order a new certificate at once, also after failures
    Renew {
        /// One of the certificate's names
        name: String,
    },
}

/// The exit status where nothing can be said.
const UNREADABLE: u8 = 2;

const DAY: i64 = 86_400;

/// Lists the certificates; `arguments` begins with the program's own name, and `certificates` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::from(UNREADABLE)) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let flags = arguments.named.flags();
    let Some(paths) = Paths::told(&flags) else { return ExitCode::from(UNREADABLE) };
    let reader = Reader::new(Arc::new(System), paths, flags.globals, modules::ALL.to_vec());
    let configuration = match reader.read() {
        Ok(configuration) => configuration,
        Err(refusal) => {
            messages::refusal(&refusal, &ErrorLog::default());
            return ExitCode::from(UNREADABLE);
        }
    };
    let Some(issuance) = &configuration.issuance else {
        say("this configuration gets no certificate from an authority");
        return ExitCode::SUCCESS;
    };
    if let Some(Action::Renew { name }) = arguments.action {
        let mut orders = issuance.plan.orders().filter(|order| order.names.contains(&name)).peekable();
        if orders.peek().is_none() {
            say(&format!("no certificate of this configuration has the name \"{name}\""));
            return ExitCode::FAILURE;
        }
        for order in orders {
            if let Err(error) = acme::ask_for_renewal(order) {
                say(&format!("cannot write the state of the certificate ({})", net::system_message(&error)));
                return ExitCode::FAILURE;
            }
        }
        return crate::send(Command::Renew, &reader, &ErrorLog::default());
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let rows: Vec<Row> = issuance.plan.orders().map(|order| Row::new(order, now)).collect();
    let text: String = match arguments.json {
        true => rows.iter().map(|row| format!("{}\n", row.json())).collect(),
        false => rows.iter().map(Row::text).collect::<Vec<_>>().join("\n"),
    };
    out(text.as_bytes());
    if rows.iter().all(Row::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What there is to say about a certificate.
struct Row {
    names: Vec<String>,
    issuer: String,
    seconds_left: Option<i64>,
    /// How many seconds it is until the next attempt. It may be overdue.
    next_attempt: Option<i64>,
    last_error: Option<String>,
}

impl Row {
    fn new(order: &Order, now: i64) -> Row {
        let report = acme::report(order);
        let end = acme::certificate(order).map(|certificate| certificate.times.1);
        Row {
            names: order.names.clone(),
            issuer: order.issuer.uri.clone(),
            seconds_left: end.map(|end| end - now),
            next_attempt: report.next_attempt.map(|at| at - now),
            last_error: report.last_error,
        }
    }

    fn is_good(&self) -> bool {
        self.seconds_left.is_some_and(|left| left > 0) && self.last_error.is_none()
    }

    fn text(&self) -> String {
        let left = match self.seconds_left {
            None => "no certificate yet".to_owned(),
            Some(left) if left <= 0 => format!("expired {} ago", time(-left)),
            Some(left) => format!("valid for {}", time(left)),
        };
        let next = match self.next_attempt {
            None => "not planned yet".to_owned(),
            Some(wait) if wait <= 0 => "due".to_owned(),
            Some(wait) => format!("in {}", time(wait)),
        };
        let names = self.names.join(", ");
        let mut text = format!("{names}\n  issuer        {}\n  certificate   {left}\n", self.issuer);
        text += &format!("  next attempt  {next}\n");
        if let Some(error) = &self.last_error {
            text += &format!("  last error    {error}\n");
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "names": self.names,
            "issuer": self.issuer,
            "days_left": self.seconds_left.map(|left| left.div_euclid(DAY)),
            "seconds_to_next_attempt": self.next_attempt,
            "last_error": self.last_error,
        })
    }
}

/// A time in its largest unit.
fn time(seconds: i64) -> String {
    let (number, unit) = match seconds {
        ..120 => (seconds, "seconds"),
        120..7200 => (seconds / 60, "minutes"),
        7200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / DAY, "days"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seconds_left: Option<i64>, last_error: Option<&str>) -> Row {
        Row {
            names: vec!["a.example".to_owned(), "b.example".to_owned()],
            issuer: "https://acme.example/dir".to_owned(),
            seconds_left,
            next_attempt: Some(30 * DAY),
            last_error: last_error.map(str::to_owned),
        }
    }

    #[test]
    fn each_certificate_says_how_long_it_is_valid() {
        let good = row(Some(60 * DAY + 5), None);
        let text = "a.example, b.example\n  issuer        https://acme.example/dir\n  \
                    certificate   valid for 60 days\n  next attempt  in 30 days\n";
        assert_eq!(good.text(), text);
        assert!(good.is_good());
        assert_eq!(good.json()["days_left"], 60);
        let bad = row(Some(-3 * 3600), Some("no such host"));
        assert!(
            bad.text().contains("expired 3 hours ago")
                && bad.text().ends_with("last error    no such host\n")
        );
        assert_eq!(bad.json()["days_left"], -1);
        assert!(!bad.is_good() && !row(None, None).is_good());
        assert!(row(None, None).text().contains("no certificate yet"));
    }
}
