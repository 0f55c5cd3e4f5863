//! Where the requests of a scope are passed on to.

use super::target::{Hosts, Pass, Target};
use crate::shared::gateway::redirect_to_slash;
use ::upstream::{ClientTls, TlsOptions};
use conf::Diagnostic;
use contract::{Directive, Exchange, LocationKind, ScopeBuilder, View};
use http::Status;
use std::sync::Arc;

/// What a directive like `proxy_pass` says in its place.
pub(super) struct Route {
    pub(super) pass: Pass,
    /// The target, if it does not contain a variable.
    pub(super) fixed: Option<Arc<Target>>,
    /// What variables can name.
    hosts: Option<Hosts>,
    /// The name of the location, if it has one that a URI begins with.
    pub(super) location: Box<[u8]>,
    /// How servers are spoken to over TLS, if they may be.
    pub(super) policy: Option<Arc<ClientTls>>,
    /// Identifies the location for connections that are kept.
    pub(super) tag: usize,
}

impl Route {
    /// What the directive says, if the scope has it. Servers are offered `protocol` over TLS (ALPN).
    pub(super) fn compile(
        view: &View<'_>,
        builder: &mut ScopeBuilder,
        (directive, tls): (&'static Directive<Pass>, &'static TlsOptions),
        protocol: Option<&'static [u8]>,
    ) -> Result<Option<Route>, Diagnostic> {
        let Some(written) = view.written(directive) else { return Ok(None) };
        let pass = written.value.clone();
        let fixed = pass.fixed(view).map_err(|error| error.at(written.span))?;
        let name = builder.name.as_ref();
        let location = name.filter(|name| name.kind != LocationKind::Named);
        let location: Box<[u8]> = location.map_or_else(Box::default, |name| name.text.clone());
        redirect_to_slash(builder);
        let policy = pass
            .policy(view, tls, protocol.as_slice())
            .map_err(|error| if error.span.is_some() { error } else { error.at(written.span) })?;
        let tag = crate::gateway::upstream::tag(view, &location, pass.text());
        let hosts = pass.is_dynamic().then(|| Hosts::new(view));
        Ok(Some(Route { pass, fixed: fixed.map(Arc::new), hosts, location, policy, tag }))
    }

    /// Where a request goes.
    pub(super) fn target(&self, exchange: &Exchange) -> Result<Arc<Target>, Status> {
        match (&self.hosts, &self.fixed) {
            (Some(hosts), _) => self.pass.dynamic(exchange, hosts).map(Arc::new),
            (None, Some(fixed)) => Ok(Arc::clone(fixed)),
            (None, None) => Err(Status::INTERNAL_SERVER_ERROR),
        }
    }
}
