//! From a request to its virtual server and its location.

use crate::hosts::Hosts;
use crate::locations::Location;
use crate::site::Server;
use contract::Exchange;
use std::sync::Arc;

/// The virtual server for a request, by its host.
pub(crate) fn server<'a>(hosts: &'a Hosts, exchange: &Exchange) -> &'a Arc<Server> {
    let host = &exchange.request.host;
    if hosts.has_one() || host.is_empty() {
        return match host.is_empty() {
            // A server may claim requests without a host by an empty name.
            true => hosts.find(b"").unwrap_or(hosts.default_server()),
            false => hosts.default_server(),
        };
    }
    hosts.find(host).or_else(|| hosts.find_by_regex(exchange, host)).unwrap_or(hosts.default_server())
}

/// The location for the exchange's path.
pub(crate) fn location(server: &Server, exchange: &Exchange) -> Option<Arc<Location>> {
    server.locations.find(exchange, &exchange.request.path)
}
