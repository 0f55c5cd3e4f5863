//! Networks and clients as directives name them.

use conf::value::{Network, ValueError, cidr};
use conf::{Diagnostic, Node, Word};
use contract::{Args, Exchange, Loading, Peer};
use ipnet::IpNet;
use std::str;

/// Clients that a directive names.
#[derive(Clone, Copy, Debug)]
pub enum Clients {
    /// All that come by a Unix socket.
    Unix,
    /// Those of a network.
    Network(Network),
}

/// `ADDRESS`, `ADDRESS/BITS`, `unix:`, or a name, which is looked up once and may have several addresses.
pub(crate) fn clients(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<Clients>, Diagnostic> {
    let word = args.word(0)?;
    if word.is("unix:") {
        return Ok(vec![Clients::Unix]);
    }
    if let Ok(network) = network(args.node, word, loading) {
        return Ok(vec![Clients::Network(network)]);
    }
    let unknown = || {
        let message = format!("host not found in {} \"{word}\"", args.node.name);
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    let name = str::from_utf8(&word.text).map_err(|_| unknown())?;
    let addresses = loading.origin.inputs.resolve(name).map_err(|_| unknown())?;
    let whole = |address: std::net::IpAddr| Network { net: address.into(), has_low_bits: false };
    Ok(addresses.into_iter().map(|address| Clients::Network(whole(address))).collect())
}

/// `ADDRESS` or `ADDRESS/BITS`. Bits after those that count are noted, and cleared.
pub(crate) fn network(node: &Node, word: &Word, loading: &mut Loading) -> Result<Network, ValueError> {
    let network = cidr(word)?;
    if network.has_low_bits {
        let message = format!("low address bits of {word} are meaningless");
        loading.note(Diagnostic::warn(message).at(node.span).under(word.span));
    }
    Ok(network)
}

/// Whether the client's address is in a network.
pub(crate) fn in_network(exchange: &Exchange, net: &IpNet) -> bool {
    match &exchange.connection.peer {
        Peer::Inet(address) => net.contains(&address.ip().to_canonical()),
        Peer::Unix(_) => false,
    }
}
