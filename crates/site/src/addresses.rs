//! From the `listen` lines of all servers to the addresses of a plan.

use crate::agreement::Agreement;
use crate::listens::ListenSpec;
use crate::plan::{ListenPlan, in_both};
use conf::{Diagnostic, Span};
use net::{Endpoint, ListenOptions};
use std::collections::BTreeMap;

/// The addresses of all servers, in the order in which they were first named.
#[derive(Default)]
pub(crate) struct Addresses {
    order: Vec<Address>,
    places: BTreeMap<Endpoint, usize>,
}

/// What the lines of an address say.
struct Address {
    endpoint: Endpoint,
    options: Option<ListenOptions>,
    default: Option<usize>,
    protocols: Agreement,
    servers: Vec<(usize, Span)>,
}

impl Addresses {
    /// Adds all lines of the server with this place.
    pub(crate) fn add(&mut self, listens: &[ListenSpec], server: usize) -> Result<(), Diagnostic> {
        for listen in listens {
            for endpoint in &listen.endpoints {
                self.address(listen, endpoint).add(listen, server)?;
            }
        }
        Ok(())
    }

    fn address(&mut self, listen: &ListenSpec, endpoint: &Endpoint) -> &mut Address {
        let place = *self.places.entry(endpoint.clone()).or_insert(self.order.len());
        if place == self.order.len() {
            self.order.push(Address {
                endpoint: endpoint.clone(),
                options: None,
                default: None,
                protocols: Agreement::new(listen),
                servers: Vec::new(),
            });
        }
        &mut self.order[place]
    }

    /// The addresses, and warnings about lines that do not agree.
    pub(crate) fn finish(self) -> (Vec<ListenPlan>, Vec<Diagnostic>) {
        let mut notes = Vec::new();
        let finish = |address: Address| {
            let Address { endpoint, options, default, protocols, servers } = address;
            let message = format!("protocol options redefined for {endpoint}");
            notes.extend(protocols.dissenting.iter().map(|span| Diagnostic::warn(&message).at(*span)));
            // Each address has a server.
            let default = default.or_else(|| servers.first().map(|(server, _)| *server)).unwrap_or_default();
            ListenPlan { endpoint, options, protocols: protocols.all, servers, default }
        };
        let listens = self.order.into_iter().map(finish).collect();
        (listens, notes)
    }
}

impl Address {
    fn add(&mut self, listen: &ListenSpec, server: usize) -> Result<(), Diagnostic> {
        let complain = |what: &str| {
            let message = format!("{what} {}", self.endpoint);
            Err(Diagnostic::emerg(message).at(listen.span))
        };
        if self.protocols.all.application != listen.protocols.application {
            return Err(in_both(&self.endpoint).at(listen.span));
        }
        // All endpoints of a server are added before those of the next one.
        if self.servers.last().is_some_and(|(last, _)| *last == server) {
            return complain("a duplicate listen");
        }
        if listen.options.is_some() && self.options.is_some() {
            return complain("duplicate listen options for");
        }
        if listen.default_server && self.default.is_some() {
            return complain("a duplicate default server for");
        }
        if !self.servers.is_empty() {
            self.protocols.add(listen);
        }
        self.options = self.options.take().or_else(|| listen.options.clone());
        self.default = self.default.or(listen.default_server.then_some(server));
        self.servers.push((server, listen.span));
        Ok(())
    }
}
