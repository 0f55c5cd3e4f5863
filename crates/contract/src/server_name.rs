//! The names of a virtual server, which the server chooses it by and features compare with.

use crate::{Args, Directive, Loading, Regex, Rule};
use conf::{Arity, Contexts, Diagnostic, Word};
use std::sync::Arc;

/// `server_name NAME …`
pub static SERVER_NAME: Directive<Vec<ServerName>> = Directive::new("server_name", parse_server_name)
    .within(Contexts::SERVER.or(Contexts::STREAM_SERVER))
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("\"\"")
    .help("The host names that the server answers to: exact, with a wildcard, or by regular expression.");

/// One name of a virtual server.
#[derive(Clone)]
pub enum ServerName {
    /// A host name in lower case, perhaps with a wildcard, or a text such as `_` that no host has.
    Text(Box<[u8]>),
    /// `~pattern`
    Regex(Arc<Regex>),
}

impl ServerName {
    /// The name as `$server_name` has it where it is a server's first one.
    pub fn shown(&self) -> Vec<u8> {
        match self {
            ServerName::Text(name) => name.strip_prefix(b".").unwrap_or(name).to_vec(),
            ServerName::Regex(regex) => [b"~", regex.text()].concat(),
        }
    }
}

fn parse_server_name(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<ServerName>, Diagnostic> {
    args.words().iter().map(|word| server_name(word, args, loading)).collect()
}

fn server_name(word: &Word, args: &Args<'_>, loading: &mut Loading) -> Result<ServerName, Diagnostic> {
    if let Some(pattern) = word.text.strip_prefix(b"~") {
        if pattern.is_empty() {
            return Err(Diagnostic::emerg("empty regex in server name \"~\"".to_owned()).at(args.node.span));
        }
        // A host is lower case by the time it is compared, so a pattern with capitals ignores case.
        let ignore_case = pattern.iter().any(u8::is_ascii_uppercase);
        return Ok(ServerName::Regex(Arc::new(loading.regex(word, pattern, ignore_case)?)));
    }
    let name = match &*word.text {
        b"$hostname" => hostname(),
        text => text.to_ascii_lowercase(),
    };
    if name.contains(&b'/') || name.contains(&0) {
        let message = format!("server name \"{word}\" has suspicious symbols");
        loading.note(Diagnostic::warn(message).at(args.node.span));
    }
    // What else is wrong with a wildcard matters where names are compared.
    match &*name {
        b"." | [b'*'] | [b'*', b'.'] => {}
        [b'*', second, ..] if *second != b'.' => {}
        _ => return Ok(ServerName::Text(name.into())),
    }
    Err(Diagnostic::emerg(format!("server name \"{word}\" is invalid")).at(args.node.span))
}

/// The machine's name in lower case.
fn hostname() -> Vec<u8> {
    let uname = rustix::system::uname();
    uname.nodename().to_bytes().to_ascii_lowercase()
}
