//! Where Apache listens, and which servers answer there: `Listen` and the addresses of `<VirtualHost>`.
//!
//! For a connection the servers of the best address count: those that name the address itself, else those that name none,
//! else the main server. The first of them is the default.

use crate::plan::ListenPlan;
use crate::protocols::{Application, Protocols};
use conf::{Diagnostic, Inputs, Node, Span, Word};
use contract::Loading;
use net::{Endpoint, ListenOptions, SocketAddress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The kernel's list of addresses, which is there if it speaks IPv6.
const IPV6: &str = "/proc/net/if_inet6";

/// A `Listen` line.
pub(super) struct Listening {
    /// None for all addresses.
    ip: Option<IpAddr>,
    port: u16,
    span: Span,
}

/// An address of a virtual host.
pub(super) struct Address {
    /// None for all addresses.
    ip: Option<IpAddr>,
    /// None for all ports.
    port: Option<u16>,
}

/// What the `Listen` lines name, each once.
pub(super) fn listens(nodes: &[&Node], loading: &mut Loading) -> Result<Vec<Listening>, Diagnostic> {
    let mut listens: Vec<Listening> = Vec::new();
    for node in nodes {
        let complain = |message: &str| Diagnostic::emerg(message).at(node.span);
        let word = match &*node.args {
            [word] => word,
            [word, protocol] if protocol.text.eq_ignore_ascii_case(b"http") => word,
            [_, protocol] => {
                let message = format!("the protocol \"{protocol}\" of \"Listen\" is not built");
                loading.refuse(complain(&message).under(protocol.span))?;
                continue;
            }
            _ => return Err(complain("Listen takes an address and perhaps a protocol")),
        };
        let text = word.to_string();
        let (host, port) =
            if text.bytes().all(|byte| byte.is_ascii_digit()) { ("*", Some(&*text)) } else { split(&text) };
        let invalid = || complain("Listen needs a port: 80, or ADDRESS:80").under(word.span);
        let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0).ok_or_else(invalid)?;
        let ip = match host {
            "*" => None,
            host => Some(host.parse().map_err(|_| {
                complain("Listen needs an IP address")
                    .under(word.span)
                    .hint("write 192.0.2.1:80 or [2001:db8::1]:80")
            })?),
        };
        if !listens.iter().any(|known| (known.ip, known.port) == (ip, port)) {
            listens.push(Listening { ip, port, span: node.span });
        }
    }
    if listens.is_empty() {
        return Err(Diagnostic::emerg("no \"Listen\" says where to listen").hint("write Listen 80"));
    }
    Ok(listens)
}

/// The addresses of `<VirtualHost ADDRESS …>`.
pub(super) fn of_host(node: &Node, loading: &Loading) -> Result<Vec<Address>, Diagnostic> {
    let complain = |message: String| Diagnostic::emerg(message).at(node.span);
    if node.args.is_empty() {
        return Err(complain("<VirtualHost> takes at least one address".to_owned()));
    }
    let mut addresses = Vec::new();
    for word in &node.args {
        let text = word.to_string();
        let (host, port) = split(&text);
        let invalid =
            || complain(format!("<VirtualHost> has an invalid port in \"{word}\"")).under(word.span);
        let port = match port {
            None | Some("*") => None,
            Some(port) => Some(port.parse().map_err(|_| invalid())?),
        };
        if host == "*" || host.eq_ignore_ascii_case("_default_") {
            addresses.push(Address { ip: None, port });
        } else if let Ok(ip) = host.parse::<IpAddr>() {
            addresses.push(Address { ip: Some(ip).filter(|ip| !ip.is_unspecified()), port });
        } else {
            let found = resolve(host, word, loading).map_err(|error| error.at(node.span))?;
            addresses.extend(found.into_iter().map(|ip| Address { ip: Some(ip), port }));
        }
    }
    Ok(addresses)
}

fn resolve(host: &str, word: &Word, loading: &Loading) -> Result<Vec<IpAddr>, Diagnostic> {
    let found = loading.origin.inputs.resolve(host).unwrap_or_default();
    match found.is_empty() {
        false => Ok(found),
        true => {
            Err(Diagnostic::emerg(format!("<VirtualHost> names the host \"{host}\", which is not found"))
                .under(word.span)
                .hint("write an IP address, or *"))
        }
    }
}

/// The host and the port of `HOST[:PORT]`. An IPv6 address stands in brackets.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

/// The sockets, and warnings. `addresses` are those of each server, and `spans` their places; the main server, which has no
/// address, comes first.
pub(super) fn plan(
    listens: &[Listening],
    addresses: &[Vec<Address>],
    spans: &[Span],
    inputs: &dyn Inputs,
) -> (Vec<ListenPlan>, Vec<Diagnostic>) {
    let has_ipv6 = inputs.read(Path::new(IPV6)).is_ok_and(|text| !text.is_empty());
    let mut plans: Vec<ListenPlan> = Vec::new();
    for listening in listens {
        let mut wanted: Vec<(IpAddr, bool)> = match listening.ip {
            Some(ip) => vec![(ip, ip.is_unspecified())],
            None => vec![(Ipv4Addr::UNSPECIFIED.into(), true)],
        };
        if listening.ip.is_none() && has_ipv6 {
            wanted.push((Ipv6Addr::UNSPECIFIED.into(), true));
        }
        if wanted.iter().any(|(_, is_wide)| *is_wide) {
            let narrow = addresses.iter().flatten().filter(|address| address.is_at(listening.port));
            let is_covered = |ip: &IpAddr| wanted.iter().any(|(wide, _)| wide.is_ipv4() == ip.is_ipv4());
            let narrow: Vec<_> = narrow.filter_map(|address| address.ip).filter(is_covered).collect();
            wanted.extend(narrow.into_iter().map(|ip| (ip, false)));
        }
        for (ip, is_wide) in wanted {
            let endpoint = Endpoint::stream(SocketAddress::Inet(SocketAddr::new(ip, listening.port)));
            if plans.iter().any(|plan| plan.endpoint == endpoint) {
                continue;
            }
            let servers = servers_at(ip, listening, addresses, spans);
            plans.push(ListenPlan {
                endpoint,
                options: is_wide.then(ListenOptions::default),
                protocols: Protocols::of(Application::Http),
                default: servers[0].0,
                servers,
            });
        }
    }
    let is_silent = |own: &&Vec<Address>| {
        let answers = |address: &Address| {
            let hears = |listening: &Listening| {
                address.is_at(listening.port)
                    && (listening.ip.is_none_or(|ip| ip.is_unspecified())
                        || address.ip.is_none()
                        || address.ip == listening.ip)
            };
            listens.iter().any(hears)
        };
        !own.iter().any(answers)
    };
    let silent = addresses.iter().zip(spans).skip(1).filter(|(own, _)| is_silent(own));
    let message = "no \"Listen\" names the port of this virtual host, which gets no requests";
    (plans, silent.map(|(_, span)| Diagnostic::warn(message).at(*span)).collect())
}

impl Address {
    fn is_at(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

/// The servers that answer at an address, each with its place; the first is the default.
fn servers_at(
    ip: IpAddr,
    listening: &Listening,
    addresses: &[Vec<Address>],
    spans: &[Span],
) -> Vec<(usize, Span)> {
    let with = |wanted: Option<IpAddr>, is_own_port: bool| -> Vec<(usize, Span)> {
        let is_here = |address: &Address| {
            address.ip == wanted && address.is_at(listening.port) && address.port.is_some() == is_own_port
        };
        let here = (0..addresses.len()).filter(|&server| addresses[server].iter().any(is_here));
        here.map(|server| (server, spans[server])).collect()
    };
    let own = (!ip.is_unspecified()).then_some(ip);
    let sets = [(own, true), (own, false), (None, true), (None, false)].map(|(ip, port)| with(ip, port));
    sets.into_iter().find(|set| !set.is_empty()).unwrap_or_else(|| vec![(0, listening.span)])
}
