//! From a path to a location: exact paths by hash, prefixes by a sorted list, patterns in their order.

use crate::structure::LimitExcept;
use contract::{Exchange, LocationKind, LocationName, Regex, Scope};
use http::Method;
use std::collections::HashMap;
use std::sync::Arc;

/// A location, compiled.
pub(crate) struct Location {
    pub(crate) name: LocationName,
    pub(crate) scope: Arc<Scope>,
    pub(crate) inner: Locations,
    pub(crate) limited: Option<Limited>,
}

/// The scope for methods that `limit_except` does not name.
pub(crate) struct Limited {
    methods: Box<[Method]>,
    scope: Arc<Scope>,
}

impl Limited {
    pub(crate) fn new(limit: &LimitExcept, scope: Arc<Scope>) -> Limited {
        Limited { methods: limit.methods().into(), scope }
    }
}

impl Location {
    /// The scope for requests with this method.
    pub(crate) fn scope_for(&self, method: Method) -> &Arc<Scope> {
        let spared = |limited: &Limited| {
            let as_get = method == Method::Head && limited.methods.contains(&Method::Get);
            as_get || limited.methods.contains(&method)
        };
        match &self.limited {
            Some(limited) if !spared(limited) => &limited.scope,
            _ => &self.scope,
        }
    }
}

/// The locations of a server or inside of a location.
#[derive(Default)]
pub(crate) struct Locations {
    exact: HashMap<Box<[u8]>, Arc<Location>>,
    prefixes: Prefixes,
    regexes: Vec<(Regex, Arc<Location>)>,
}

/// Prefixes in order. Each knows the longest other one that it starts with, so that the longest
/// prefix of a path is found from the last entry that is not behind the path by going up.
#[derive(Default)]
struct Prefixes {
    entries: Vec<(Arc<Location>, Option<usize>)>,
}

impl Locations {
    /// Sorts locations for finding.
    pub(crate) fn new(locations: Vec<(Option<Regex>, Location)>) -> Locations {
        let mut sorted = Locations::default();
        let mut prefixes = Vec::new();
        for (regex, location) in locations {
            let location = Arc::new(location);
            match (location.name.kind, regex) {
                (LocationKind::Exact, _) => {
                    sorted.exact.insert(location.name.text.clone(), location);
                }
                (LocationKind::Regex, Some(regex)) => sorted.regexes.push((regex, location)),
                _ => prefixes.push(location),
            }
        }
        sorted.prefixes = Prefixes::new(prefixes);
        sorted
    }

    /// The location for a path: an exact one, else the longest prefix, unless a pattern matches and
    /// that prefix does not forbid patterns; inside of what was found the same again.
    pub(crate) fn find(&self, exchange: &Exchange, path: &[u8]) -> Option<Arc<Location>> {
        match self.search(exchange, path) {
            Found::Final(location) | Found::Tentative(location) => Some(location),
            Found::Nothing => None,
        }
    }

    fn search(&self, exchange: &Exchange, path: &[u8]) -> Found {
        if let Some(location) = self.exact.get(path) {
            return Found::Final(Arc::clone(location));
        }
        let mut found = Found::Nothing;
        let mut patterns_allowed = true;
        if let Some(prefix) = self.prefixes.longest(path) {
            patterns_allowed = prefix.name.kind != LocationKind::PrefixOnly;
            found = match prefix.inner.search(exchange, path) {
                Found::Nothing => Found::Tentative(Arc::clone(prefix)),
                inner => inner,
            };
        }
        if matches!(found, Found::Final(_)) || !patterns_allowed {
            return found;
        }
        let matching = self.regexes.iter().find(|(regex, _)| regex.matches(exchange, path));
        match matching {
            Some((_, location)) => Found::Final(match location.inner.search(exchange, path) {
                Found::Nothing => Arc::clone(location),
                Found::Final(inner) | Found::Tentative(inner) => inner,
            }),
            None => found,
        }
    }
}

enum Found {
    Nothing,
    /// A prefix, which a pattern of an outer level still outranks.
    Tentative(Arc<Location>),
    Final(Arc<Location>),
}

impl Prefixes {
    fn new(mut locations: Vec<Arc<Location>>) -> Prefixes {
        locations.sort_by(|a, b| a.name.text.cmp(&b.name.text));
        let mut entries: Vec<(Arc<Location>, Option<usize>)> = Vec::new();
        for location in locations {
            let mut parent = entries.len().checked_sub(1);
            while let Some(index) = parent
                && !location.name.text.starts_with(&entries[index].0.name.text)
            {
                parent = entries[index].1;
            }
            entries.push((location, parent));
        }
        Prefixes { entries }
    }

    fn longest(&self, path: &[u8]) -> Option<&Arc<Location>> {
        let not_behind = self.entries.partition_point(|(location, _)| *location.name.text <= *path);
        let mut candidate = not_behind.checked_sub(1);
        while let Some(index) = candidate {
            let (location, parent) = &self.entries[index];
            if path.starts_with(&location.name.text) {
                return Some(location);
            }
            candidate = *parent;
        }
        None
    }
}
