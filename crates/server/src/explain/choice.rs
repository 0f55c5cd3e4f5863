//! Which address and which server a request comes to, and why.

use super::{Question, Unexplained};
use conf::tree::printable;
use contract::{Event, ServerName};
use net::SocketAddress;
use site::{Application, Hosts, Listen, Server, Site};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The socket that would receive a request, its servers, and its address.
pub(super) fn reached<'a>(
    site: &'a Site,
    question: &Question,
) -> Result<(SocketAddress, &'a Hosts, IpAddr), Unexplained> {
    let is_there = |listen: &&Listen| {
        // A connection of `stream` brings no request.
        let is_http = listen.hosts(None).protocols.application == Application::Http;
        let same = |ip: IpAddr| question.address.is_none_or(|wanted| wanted == ip || takes(ip, wanted));
        is_http
            && listen.endpoint.address.port() == Some(question.port)
            && listen.endpoint.address.ip().is_some_and(same)
    };
    // An address that was named counts before one that stands for all.
    let exact = |listen: &&Listen| is_there(listen) && listen.endpoint.address.ip() == question.address;
    let found = site.listens.iter().find(exact).or_else(|| site.listens.iter().find(is_there));
    let listen = found.ok_or_else(|| {
        let addresses: Vec<String> =
            site.listens.iter().map(|listen| listen.endpoint.address.to_string()).collect();
        Unexplained::NobodyListens(question.port, addresses.join(", "))
    })?;
    let own = listen.endpoint.address.ip().filter(|ip| !ip.is_unspecified());
    let loopback = match own.or(listen.endpoint.address.ip()) {
        Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let local = question.address.or(own).unwrap_or(loopback);
    Ok((listen.endpoint.address.clone(), listen.hosts(Some(local)), local))
}

/// Whether a socket on this address receives for the other one.
fn takes(ip: IpAddr, other: IpAddr) -> bool {
    ip.is_unspecified() && ip.is_ipv4() == other.is_ipv4()
}

/// The step that chose the server, among the others of the address.
pub(super) fn of_server(hosts: &Hosts, chosen: &Arc<Server>, host: &[u8], address: &SocketAddress) -> Event {
    let shown = printable(host);
    let others = hosts.servers.iter().filter(|server| !Arc::ptr_eq(server, chosen));
    let reason = match held(chosen, host) {
        Some((_, how)) => how.to_owned(),
        None if hosts.servers.len() == 1 => format!("the only server at {address}"),
        None => format!("the default server at {address}: no name is \"{shown}\""),
    };
    let considered = others.map(|server| {
        let text = match held(server, host) {
            Some((name, _)) => format!("\"{name}\" matches, too, but the other name goes first"),
            None => format!("no name of it is \"{shown}\""),
        };
        Event::new("server", text).at(Some(server.span)).with("name", &server.name)
    });
    let considered: Vec<Event> = considered.collect();
    let event = Event::new("server", reason).at(Some(chosen.span)).with("name", &chosen.name);
    event.with("address", address.to_string()).among(considered)
}

/// Whether a name, with its wildcards, holds for a host.
type Matches = fn(&[u8], &[u8]) -> bool;

/// The name of a server that a host matches, and how it does.
fn held(server: &Server, host: &[u8]) -> Option<(String, &'static str)> {
    let texts = server.names.iter().filter_map(|name| match name {
        ServerName::Text(text) => Some(&**text),
        ServerName::Regex(_) => None,
    });
    let kinds: [(Matches, &'static str); 3] = [
        (is_exact, "its name is the request's host"),
        (is_below, "its name with a wildcard in front matches the request's host"),
        (is_above, "its name with a wildcard at the end matches the request's host"),
    ];
    for (matches, how) in kinds {
        if let Some(name) = texts.clone().find(|name| matches(name, host)) {
            return Some((printable(name), how));
        }
    }
    server.names.iter().find_map(|name| match name {
        ServerName::Regex(regex) if !host.is_empty() && regex.is_match(host) => {
            Some((format!("~{}", printable(regex.text())), "its pattern matches the request's host"))
        }
        _ => None,
    })
}

fn is_exact(name: &[u8], host: &[u8]) -> bool {
    name == host || name.strip_prefix(b".").is_some_and(|bare| bare == host)
}

fn is_below(name: &[u8], host: &[u8]) -> bool {
    let suffix = name.strip_prefix(b"*").or_else(|| name.starts_with(b".").then_some(name));
    suffix.is_some_and(|suffix| host.len() > suffix.len() && host.ends_with(suffix))
}

fn is_above(name: &[u8], host: &[u8]) -> bool {
    let prefix = name.strip_suffix(b"*").filter(|prefix| prefix.ends_with(b"."));
    prefix.is_some_and(|prefix| host.len() > prefix.len() && host.starts_with(prefix))
}
