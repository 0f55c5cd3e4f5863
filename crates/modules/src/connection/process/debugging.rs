//! Clients whose connections are logged in all detail.

use super::EVENTS;
use crate::shared::networks::{Clients, clients};
use conf::Contexts;
use contract::policy::DebuggedClients;
use contract::{Directive, Rule, View};

/// `debug_connection ADDRESS | NETWORK | NAME | unix:`
pub static DEBUG_CONNECTION: Directive<Vec<Clients>> = Directive::new("debug_connection", clients)
    .within(Contexts::EVENTS)
    .rule(Rule::List)
    .help("A client whose connections are logged in detail.");

/// The clients whose connections are logged in all detail; none where there are none, or below the main level.
pub(super) fn debugged_clients(view: &View<'_>) -> Option<DebuggedClients> {
    let events = view.at(*view.get(&EVENTS)?);
    let written = events.all(&DEBUG_CONNECTION);
    let mut clients = DebuggedClients::default();
    for named in written.iter().flat_map(|written| written.value) {
        match named {
            Clients::Unix => clients.unix = true,
            Clients::Network(network) => clients.networks.push(*network),
        }
    }
    (!written.is_empty()).then_some(clients)
}
