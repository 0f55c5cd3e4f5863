//! `syslog:server=ADDRESS[,facility=…][,severity=…][,tag=…][,nohostname]` as the target of a log.

use ::upstream::resolve;
use conf::value::endpoint;
use conf::{Diagnostic, Inputs, Span, Word};
use contract::{Args, Loading};
use journal::{Level, Syslog, SyslogHead};
use net::SocketAddress;
use std::sync::Arc;

/// What targets of this kind start with.
pub(crate) const START: &[u8] = b"syslog:";

/// In the order of their numbers (RFC 3164, section 4.1.1), by the names that nginx gives them.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp",
    "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// The facility where none is named.
const LOCAL7: u8 = 23;

/// The longest tag (RFC 3164, section 4.1.3).
const TAG_MAX: usize = 32;

/// The port of syslog servers.
const PORT: u16 = 514;

struct Written {
    /// Where all of it stands.
    span: Span,
    server: Option<SocketAddress>,
    facility: Option<u8>,
    severity: Option<u8>,
    tag: Option<Box<str>>,
    no_host: bool,
}

/// The server that a word with [`START`] names.
pub(crate) fn parse(args: &Args<'_>, word: &Word, loading: &Loading) -> Result<Arc<Syslog>, Diagnostic> {
    let mut written =
        Written { span: word.span, server: None, facility: None, severity: None, tag: None, no_host: false };
    for parameter in word.text[START.len()..].split(|&byte| byte == b',') {
        let complain = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
        written.read(parameter, &*loading.origin.inputs).map_err(complain)?;
    }
    let missing = || Diagnostic::emerg("no syslog server specified").at(args.node.span).under(word.span);
    let head = SyslogHead {
        facility: written.facility.unwrap_or(LOCAL7),
        severity: written.severity.unwrap_or(Level::Info as u8),
        tag: written.tag.unwrap_or_else(|| "nginx".into()),
        names_host: !written.no_host,
    };
    Ok(Arc::new(Syslog::new(written.server.ok_or_else(missing)?, head)))
}

impl Written {
    fn read(&mut self, parameter: &[u8], inputs: &dyn Inputs) -> Result<(), String> {
        let text = String::from_utf8_lossy(parameter);
        if text == "nohostname" {
            self.no_host = true;
            return Ok(());
        }
        let unknown = || format!("unknown syslog parameter \"{text}\"");
        let (name, value) = text.split_once('=').ok_or_else(unknown)?;
        let severities = Level::ALL.map(Level::name);
        match name {
            "server" => once(&mut self.server, name, || address(value, self.span, inputs)),
            "facility" => once(&mut self.facility, name, || number(name, value, &FACILITIES)),
            "severity" => once(&mut self.severity, name, || number(name, value, &severities)),
            "tag" => once(&mut self.tag, name, || tag(value)),
            _ => Err(unknown()),
        }
    }
}

fn once<T>(
    place: &mut Option<T>,
    name: &str,
    value: impl FnOnce() -> Result<T, String>,
) -> Result<(), String> {
    if place.is_some() {
        return Err(format!("duplicate syslog \"{name}\""));
    }
    *place = Some(value()?);
    Ok(())
}

fn address(text: &str, span: Span, inputs: &dyn Inputs) -> Result<SocketAddress, String> {
    let wrong = |why: &str| format!("{why} in syslog server \"{text}\"");
    let word = Word::new(text, span);
    let address = endpoint(&word, PORT).map_err(|error| wrong(&error.to_string()))?;
    let found = resolve(&address, inputs).ok().and_then(|all| all.into_iter().next());
    found.ok_or_else(|| wrong("host not found"))
}

fn number(name: &str, value: &str, known: &[&str]) -> Result<u8, String> {
    let at = known.iter().position(|known| *known == value);
    let number = at.and_then(|at| u8::try_from(at).ok());
    number.ok_or_else(|| format!("unknown syslog {name} \"{value}\""))
}

fn tag(text: &str) -> Result<Box<str>, String> {
    if text.len() > TAG_MAX {
        return Err(format!("syslog tag length exceeds {TAG_MAX}"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("syslog \"tag\" only allows alphanumeric characters and underscore".to_owned());
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn what_is_wrong_is_said() {
        let long = "a".repeat(33);
        for (text, message) in [
            ("", "unknown syslog parameter \"\""),
            ("tag=a", "no syslog server specified"),
            ("server=127.0.0.1,", "unknown syslog parameter \"\""),
            ("server=127.0.0.1:x", "invalid port in syslog server \"127.0.0.1:x\""),
            ("server=", "no host in syslog server \"\""),
            ("server=127.0.0.1,server=127.0.0.1", "duplicate syslog \"server\""),
            ("facility=x", "unknown syslog facility \"x\""),
            ("facility=cron,facility=cron", "duplicate syslog \"facility\""),
            ("severity=warning", "unknown syslog severity \"warning\""),
            ("severity=warn,severity=warn", "duplicate syslog \"severity\""),
            ("tag=a-b", "syslog \"tag\" only allows alphanumeric characters and underscore"),
            ("tag=a,tag=b", "duplicate syslog \"tag\""),
            (&format!("tag={long}"), "syslog tag length exceeds 32"),
            ("hostname", "unknown syslog parameter \"hostname\""),
        ] {
            assert_eq!(Site::error(&format!("access_log syslog:{text};")), message);
            assert_eq!(Site::error(&format!("error_log syslog:{text};")), message);
        }
        Site::location(
            "error_log syslog:server=[::1],nohostname,tag=A_1,severity=emerg,facility=local0 info;",
        );
        Site::location("access_log syslog:server=unix:/dev/log;");
    }
}
