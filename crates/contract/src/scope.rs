//! A server, location or `if`, compiled.

use crate::{Filter, Handler, LocationName, Place, Policy, SectionId, Service, SiteService, Threads};
use journal::LogFiles;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A stage of processing. Within one, handlers run in the order of the module list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before a location is known: the server's own rewrites.
    ServerRewrite,
    /// The location's rewrites.
    Rewrite,
    /// Limits, before access is checked.
    Preaccess,
    /// Access rules.
    Access,
    /// What may take the place of the content: `try_files`.
    Precontent,
    /// The content.
    Content,
    /// After the last byte.
    Log,
}

impl Phase {
    /// How many phases there are.
    pub const COUNT: usize = Phase::Log as usize + 1;
}

/// A server, location or `if`, compiled: only what it configured, and no name to look up.
pub struct Scope {
    /// The location's name; a server's own scope has none.
    pub name: Option<LocationName>,
    /// What the server itself acts on.
    pub policy: Policy,
    handlers: [Box<[Arc<dyn Handler>]>; Phase::COUNT],
    /// The feature that each handler belongs to.
    owners: [Box<[&'static str]>; Phase::COUNT],
    filters: Box<[Box<dyn Filter>]>,
    kept: Box<[Box<dyn Any + Send + Sync>]>,
}

impl Scope {
    /// The handlers of a phase.
    pub fn handlers(&self, phase: Phase) -> &[Arc<dyn Handler>] {
        &self.handlers[phase as usize]
    }

    /// The feature that the handler at this place of a phase belongs to.
    pub fn owner(&self, phase: Phase, place: usize) -> &'static str {
        self.owners[phase as usize].get(place).copied().unwrap_or_default()
    }

    /// The filters of responses.
    pub fn filters(&self) -> &[Box<dyn Filter>] {
        &self.filters
    }

    /// What a feature keeps here of this type, for the variables that it owns.
    pub fn kept<T: 'static>(&self) -> Option<&T> {
        self.kept.iter().find_map(|kept| kept.downcast_ref())
    }
}

/// A scope while modules compile into it.
pub struct ScopeBuilder {
    /// The location's name.
    pub name: Option<LocationName>,
    /// What the server itself acts on, set to the defaults.
    pub policy: Policy,
    /// The scopes of the `if` and `limit_except` blocks inside, compiled before.
    pub inner: HashMap<SectionId, Arc<Scope>>,
    /// The log files of the configuration.
    pub logs: LogFiles,
    /// The feature that compiles into it now.
    pub feature: &'static str,
    /// Warnings about the settings.
    pub notes: Vec<conf::Diagnostic>,
    /// The services that the site runs for the scope.
    pub services: Vec<SiteService>,
    handlers: [Vec<Arc<dyn Handler>>; Phase::COUNT],
    owners: [Vec<&'static str>; Phase::COUNT],
    content: Option<(Option<Place>, Arc<dyn Handler>, &'static str)>,
    filters: Vec<Box<dyn Filter>>,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl ScopeBuilder {
    /// An empty scope.
    pub fn new(name: Option<LocationName>, policy: Policy) -> ScopeBuilder {
        ScopeBuilder {
            name,
            policy,
            inner: HashMap::new(),
            logs: LogFiles::default(),
            feature: "",
            notes: Vec::new(),
            services: Vec::new(),
            handlers: Default::default(),
            owners: Default::default(),
            content: None,
            filters: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Adds a handler to a phase.
    pub fn handle(&mut self, phase: Phase, handler: impl Handler + 'static) {
        // Most phases get one handler, and with just the room for it nothing is moved in the end.
        let (handlers, owners) = (&mut self.handlers[phase as usize], &mut self.owners[phase as usize]);
        handlers.reserve_exact(1);
        handlers.push(Arc::new(handler));
        owners.reserve_exact(1);
        owners.push(self.feature);
    }

    /// Whether a feature that compiled before has added a handler to a phase.
    pub fn handles(&self, phase: Phase) -> bool {
        !self.handlers[phase as usize].is_empty()
    }

    /// Makes this the only handler of the content phase, as `proxy_pass` and `fastcgi_pass` are. Of several the one counts whose
    /// directive has the greatest place.
    pub fn content(&mut self, place: Option<Place>, handler: impl Handler + 'static) {
        if self.content.as_ref().is_none_or(|(other, ..)| *other <= place) {
            self.content = Some((place, Arc::new(handler), self.feature));
        }
    }

    /// Adds a filter of responses.
    pub fn filter(&mut self, filter: impl Filter + 'static) {
        self.filters.push(Box::new(filter));
    }

    /// Has the site run a service while it serves, in one thread or in each. Several scopes may add the same one, which
    /// runs once. A scope that is compiled while requests are served (`.htaccess`) runs none.
    pub fn serve(&mut self, threads: Threads, service: Arc<dyn Service>) {
        self.services.push(SiteService { feature: self.feature, threads, service });
    }

    /// Keeps what a variable of the feature depends on, one value of a type.
    pub fn keep<T: Send + Sync + 'static>(&mut self, value: T) {
        self.kept.push(Box::new(value));
    }

    /// The finished scope.
    pub fn finish(mut self) -> Scope {
        if let Some((_, content, owner)) = self.content {
            self.handlers[Phase::Content as usize] = vec![content];
            self.owners[Phase::Content as usize] = vec![owner];
        }
        Scope {
            name: self.name,
            policy: self.policy,
            handlers: self.handlers.map(Vec::into_boxed_slice),
            owners: self.owners.map(Vec::into_boxed_slice),
            filters: self.filters.into_boxed_slice(),
            kept: self.kept.into_boxed_slice(),
        }
    }
}
