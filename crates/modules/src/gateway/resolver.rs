//! Looks host names up while requests are served: `resolver`.
//!
//! A host name that is part of the configuration is looked up once, when the configuration is read. A name that a
//! variable holds is known only when a request comes. `resolver` names the servers that are asked for its addresses:
//! by address, by name or with a port, which is 53 otherwise. Fulmar takes turns among them, and asks the next one,
//! too, if one does not answer within five seconds. Without a `resolver` such a request ends with 502, unless the
//! variable holds an address or the name of an `upstream`.
//!
//! Answers are kept for as long as they say themselves, or for the time that `valid` gives; errors are not kept. All
//! threads share up to 1,024 answers. The same question is asked once at a time in each thread. `ipv4=off` or
//! `ipv6=off` leaves out the addresses of that family. If a name has several addresses, they are tried one after
//! another, as the servers of an `upstream` are. Aliases are followed, at most fifty of them.
//!
//! `local=on` stands for the name servers of `/etc/resolv.conf`, and `local=PATH` for those of another file in its format, as
//! in OpenResty. Fulmar reads the file when it reads the configuration. In a container this finds the engine's name server.
//!
//! Each question has a random id and is sent from a random port. Responses from elsewhere, with another id, or to
//! another question are ignored and logged. A response that does not fit into a datagram is fetched over TCP. Name servers
//! should still be in a trusted network: DNSSEC is not checked, so that a forged response decides where requests go.
//!
//! If a name has no addresses, or `resolver_timeout` is over, the request ends with 502, and the error log says why:
//! `NAME could not be resolved (3: Host not found)`. At most 256 questions of a thread are open at a time.
//!
//! ```conf
//! upstream app {
//!     server 127.0.0.1:8081;
//! }
//! server {
//!     listen 8080;
//!     resolver 127.0.0.1:9 valid=30s ipv6=off;
//!     resolver_timeout 200ms;
//!     location /app {
//!         set $backend app;
//!         proxy_pass http://$backend;
//!     }
//!     location /address {
//!         set $backend 127.0.0.1:8081;
//!         proxy_pass http://$backend;
//!     }
//!     location /unknown {
//!         set $backend backend.example:8081;
//!         proxy_pass http://$backend;
//!         error_page 502 = @unknown;
//!     }
//!     location @unknown {
//!         return 200 "no name server answers\n";
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     return 200 "the application\n";
//! }
//! ```
//!
//! ```http
//! GET /app HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! the application
//! ---
//! GET /address HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! the application
//! ---
//! GET /unknown HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! no name server answers
//! ```

use ::upstream::{Group, Keepalive, NameServers, Registry, Resolver, Resolving, Server, resolve};
use conf::value::{Address, Host, endpoint, flag, time_s};
use conf::{Arity, Contexts, Diagnostic, Inputs, Word};
use contract::{Args, Directive, Loading, Module, Origin, View};
use inputs::System;
use net::SocketAddress;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Looks host names up.
pub static MODULE: Module =
    Module { name: "resolver", directives: &[&RESOLVER, &RESOLVER_TIMEOUT], variables: &[], compile: None };

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::ALL_STREAM);

/// How long an answer is waited for, if the configuration does not say.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The file of `local=on`.
const RESOLV_CONF: &[u8] = b"/etc/resolv.conf";

/// The port of name servers.
const PORT: u16 = 53;

/// `resolver ADDRESS … [local=on | PATH] [valid=TIME] [ipv4=on | off] [ipv6=on | off]`
pub static RESOLVER: Directive<Arc<Resolver>> = Directive::new("resolver", parse)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .help("The name servers for host names in variables, how long their answers are valid, and the families of addresses.");

/// `resolver_timeout TIME`
pub static RESOLVER_TIMEOUT: Directive<Duration> = Directive::time("resolver_timeout")
    .within(LEVELS)
    .default("30s")
    .help("How long a request waits for the addresses of a name.");

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<Resolver>, Diagnostic> {
    let mut servers = NameServers { addresses: Vec::new(), valid: None, ipv4: true, ipv6: true };
    for word in args.words() {
        if !parse_parameter(&mut servers, args, (word, loading))? {
            let address = args_address(args, word)?;
            let found = resolve(&address, &*loading.origin.inputs).map_err(|_| {
                let message = format!("host not found in resolver \"{word}\"");
                Diagnostic::emerg(message).at(args.node.span).under(word.span)
            })?;
            servers.addresses.extend(found);
        }
    }
    let error = |message: &str| Diagnostic::emerg(message).at(args.node.span);
    if !servers.ipv4 && !servers.ipv6 {
        return Err(error("\"ipv4\" and \"ipv6\" cannot both be \"off\""));
    }
    if servers.addresses.is_empty() {
        return Err(error("no name servers defined"));
    }
    Ok(Arc::new(Resolver::new(servers)))
}

fn args_address(args: &Args<'_>, word: &Word) -> Result<Address, Diagnostic> {
    endpoint(word, PORT).map_err(|error| {
        Diagnostic::emerg(format!("{error} in resolver \"{word}\"")).at(args.node.span).under(word.span)
    })
}

/// Whether a word is a parameter, which is read then.
fn parse_parameter(
    servers: &mut NameServers,
    args: &Args<'_>,
    (word, loading): (&Word, &Loading),
) -> Result<bool, Diagnostic> {
    let Some((name, value)) =
        word.text.iter().position(|&byte| byte == b'=').map(|at| word.text.split_at(at))
    else {
        return Ok(false);
    };
    let value = Word { text: value[1..].into(), ..*word };
    let invalid = || {
        let message = format!("invalid parameter: {word}");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    match name {
        b"valid" => {
            let seconds = time_s(&value).map_err(|_| invalid())?;
            servers.valid = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        b"local" => servers.addresses.extend(local(&value, args, loading)?),
        b"ipv4" => servers.ipv4 = flag(&value).map_err(|_| invalid())?,
        b"ipv6" => servers.ipv6 = flag(&value).map_err(|_| invalid())?,
        // It belongs to nginx's commercial version: counts of questions and answers.
        b"status_zone" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// The name servers of a file, see resolv.conf(5).
fn local(value: &Word, args: &Args<'_>, loading: &Loading) -> Result<Vec<SocketAddress>, Diagnostic> {
    let path = match &*value.text {
        b"off" => return Ok(Vec::new()),
        b"on" => RESOLV_CONF,
        path => path,
    };
    let path = Path::new(OsStr::from_bytes(path));
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(value.span);
    let text = loading.origin.inputs.read(path).map_err(|reason| {
        error(format!("open() \"{}\" failed ({})", path.display(), net::system_message(&reason)))
    })?;
    let found = name_servers(&String::from_utf8_lossy(&text));
    if found.is_empty() {
        return Err(error(format!("\"{}\" names no name server", path.display())));
    }
    Ok(found.into_iter().map(|ip| SocketAddress::Inet((ip, PORT).into())).collect())
}

/// The addresses of `nameserver` lines. Those with a scope (`fe80::1%eth0`) are left out.
fn name_servers(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address = words.next().filter(|_| is_server)?;
        address.parse().ok()
    };
    text.lines().filter_map(address).collect()
}

/// How a scope looks names up, if `resolver` is set for it.
pub(crate) fn resolving(view: &View<'_>) -> Option<Resolving> {
    let resolver = Arc::clone(view.get(&RESOLVER)?);
    let timeout = view.get(&RESOLVER_TIMEOUT).copied().unwrap_or(TIMEOUT);
    Some(Resolving { resolver, timeout })
}

/// How a scope finds the servers of an address that a variable holds.
#[derive(Default)]
pub(crate) struct Finder {
    /// The groups of addresses that the configuration names.
    named: Arc<Registry>,
    /// How other names are looked up, if they can be.
    resolving: Option<Resolving>,
}

impl Finder {
    pub(crate) fn new(view: &View<'_>) -> Finder {
        Finder { named: Registry::of(view.origin()), resolving: resolving(view) }
    }

    /// The group of an address that a variable holds: the one of the same host and port that the configuration names
    /// elsewhere, as in nginx, or a name that is looked up when the group is asked.
    ///
    /// # Errors
    /// The message for the log: the scope cannot look names up.
    pub(crate) fn group(&self, name: &str, address: &Address) -> Result<Arc<Group>, String> {
        if let Some(group) = self.named.find(&key(name, address)) {
            return Ok(group);
        }
        if let Host::Name(host) = &address.host {
            let resolving = self.resolving.as_ref().ok_or_else(|| format!("{NO_RESOLVER} {host}"))?;
            return Ok(Arc::new(Group::of_host(name, (host, address.port), resolving)));
        }
        Ok(Arc::new(Group::new(name, servers(address, &System)?, Keepalive::NONE)))
    }
}

/// Host and port of an address that is written so.
fn key(name: &str, address: &Address) -> String {
    match &address.host {
        Host::Name(host) => format!("{host}:{}", address.port),
        Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{}", address.port),
        Host::Ip(ip) => format!("{ip}:{}", address.port),
        Host::Unix(_) => name.to_owned(),
    }
}

/// The group of an address that is known when the configuration is read. A name is looked up at once.
///
/// # Errors
/// The name is not known.
pub(crate) fn known(name: &str, address: &Address, origin: &Origin) -> Result<Arc<Group>, String> {
    let servers = servers(address, &*origin.inputs)?;
    Ok(Registry::of(origin).implicit((&key(name, address), name), servers, origin))
}

/// The error about an address of the configuration whose servers are not known, with the `upstream` block that is probably
/// meant.
pub(crate) fn not_found(message: String, groups: &[Arc<Group>]) -> Diagnostic {
    let written = [NOT_FOUND, NO_PORT].iter().find_map(|start| message.strip_prefix(start));
    let written = written.map(|rest| rest.trim_matches('"').to_owned());
    let needs_port = message.starts_with(NO_PORT);
    let error = Diagnostic::emerg(message);
    let Some(name) = written else { return error };
    match conf::suggest(&name, groups.iter().map(|group| &*group.name)) {
        Some(near) => error.hint(format!("did you mean the upstream \"{near}\"?")),
        None if needs_port => {
            error.hint(format!("write a port after the host, or add \"upstream {name} {{ … }}\" to \"http\""))
        }
        None => error.hint(format!(
            "no \"upstream {name} {{ … }}\" is in \"http\", and no name server knows the host; for a host that appears \
             later, write \"resolver\" and a variable in the address"
        )),
    }
}

/// With what the messages about an unknown host and a missing port begin.
const NOT_FOUND: &str = "host not found in upstream ";
const NO_PORT: &str = "no port in upstream ";

fn servers(address: &Address, inputs: &dyn Inputs) -> Result<Vec<Server>, String> {
    Ok(resolve(address, inputs)?.into_iter().map(Server::new).collect())
}

/// With what the message begins where a scope cannot look names up.
pub(crate) const NO_RESOLVER: &str = "no resolver defined to resolve";

#[cfg(test)]
mod tests {
    use super::name_servers;
    use crate::testing::Site;

    #[test]
    fn name_servers_of_a_file() {
        let text = "# comment\nsearch example\nnameserver 127.0.0.11\nnameserver\t::1 \nnameserver fe80::1%eth0\nnameservers 1.1.1.1\n";
        let found: Vec<String> = name_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.11", "::1"]);
        assert!(name_servers("").is_empty());
        let missing = "open() \"/no.conf\" failed (2: No such file or directory)";
        assert_eq!(Site::error("resolver local=/no.conf;"), missing);
    }

    #[test]
    fn wrong_parameters_are_found() {
        for (text, error) in [
            ("resolver valid=5s;", "no name servers defined"),
            ("resolver local=off;", "no name servers defined"),
            ("resolver 127.0.0.1 valid=x;", "invalid parameter: valid=x"),
            ("resolver 127.0.0.1 ipv4=of;", "invalid parameter: ipv4=of"),
            ("resolver 127.0.0.1 ipv6=1;", "invalid parameter: ipv6=1"),
            ("resolver 127.0.0.1 ipv4=off ipv6=off;", "\"ipv4\" and \"ipv6\" cannot both be \"off\""),
            ("resolver 127.0.0.1:99999;", "invalid port in resolver \"127.0.0.1:99999\""),
            ("resolver no.such.host.invalid;", "host not found in resolver \"no.such.host.invalid\""),
            ("resolver 127.0.0.1; resolver 127.0.0.2;", "\"resolver\" directive is duplicate"),
        ] {
            assert_eq!(Site::error(text), error, "{text}");
        }
        Site::location("resolver 127.0.0.1 [::1]:5353 localhost valid=1h ipv6=off status_zone=z;");
    }
}
