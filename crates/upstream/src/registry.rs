//! The groups of the configurations that are in use, by name: to show what their servers do, and to find the one that a
//! variable names.

use crate::group::{Group, Keepalive};
use crate::live::Live;
use crate::peers::Peers;
use crate::server::Server;
use contract::{Identity, Origin};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// The groups of the configurations that are in use. A reload keeps it; a group is in it as long as a configuration uses it.
#[derive(Debug, Default)]
pub struct Registry(RwLock<BTreeMap<Box<str>, Vec<Weak<Group>>>>);

impl Registry {
    /// The registry of a configuration.
    pub fn of(origin: &Origin) -> Arc<Registry> {
        let identity = Identity::default().bytes("groups of upstream servers");
        let Ok(registry) = origin.share::<_, Infallible>(identity, || Ok(Registry::default()));
        registry
    }

    /// Adds the group of an `upstream` block.
    pub fn add(&self, group: &Arc<Group>) {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let named = groups.entry((&*group.name).into()).or_default();
        named.retain(|group| group.strong_count() > 0);
        named.push(Arc::downgrade(group));
    }

    /// The group of an address that a configuration names without an `upstream` block, where `key` is host and port. All
    /// that name the same servers have the same group, so that what is known of the servers holds for all.
    pub fn implicit(&self, (key, name): (&str, &str), servers: Vec<Server>, origin: &Origin) -> Arc<Group> {
        // The configuration before may have found other addresses of the same name: each server keeps its state.
        let identity = Identity::default().bytes("implicit").bytes(name);
        let Ok(peers) = origin.share::<_, Infallible>(identity, || Ok(Peers::default()));
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if groups.len().is_power_of_two() {
            groups.retain(|_, named| named.iter().any(|group| group.strong_count() > 0));
        }
        let named = groups.entry(key.to_ascii_lowercase().into()).or_default();
        let same = |other: &Arc<Group>| {
            // The peers are those of the name.
            Arc::ptr_eq(&other.live.peers, &peers) && other.live.members().are(&servers)
        };
        if let Some(same) = named.iter().filter_map(Weak::upgrade).find(same) {
            return same;
        }
        let group = Arc::new(Group::of(name, Live::fixed(servers, peers), Keepalive::NONE));
        named.retain(|group| group.strong_count() > 0);
        named.push(Arc::downgrade(&group));
        group
    }

    /// The group of this name, or of this host and port, that was added last.
    pub fn find(&self, key: &str) -> Option<Arc<Group>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(&*key.to_ascii_lowercase())?.iter().rev().find_map(Weak::upgrade)
    }

    /// All groups; of several with one name the one that was added last.
    pub fn all(&self) -> Vec<Arc<Group>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.values().filter_map(|named| named.iter().rev().find_map(Weak::upgrade)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;
    use crate::group::{Group, Keepalive};
    use crate::server::Server;
    use contract::Origin;
    use inputs::System;
    use net::SocketAddress;
    use std::sync::Arc;

    fn server(port: u16) -> Server {
        Server::new(SocketAddress::Inet(([127, 0, 0, 1], port).into()))
    }

    #[test]
    fn equal_addresses_are_one_group() {
        let origin = inputs::origin();
        let registry = Registry::of(&origin);
        let implicit =
            |port: u16| registry.implicit(("A.example:80", "a.example"), vec![server(port)], &origin);
        let (one, same) = (implicit(80), implicit(80));
        assert!(Arc::ptr_eq(&one, &same) && Arc::ptr_eq(&registry.find("a.EXAMPLE:80").unwrap(), &one));
        let moved = implicit(81);
        assert!(Arc::ptr_eq(&registry.find("a.example:80").unwrap(), &moved), "the last one counts");
        drop((one, same, moved));
        assert!(registry.find("a.example:80").is_none() && registry.all().is_empty());
    }

    #[test]
    fn a_reload_keeps_the_registry_and_a_failed_one_loses_nothing() {
        let first = inputs::origin();
        let serving = Arc::new(Group::new("app", vec![server(1)], Keepalive::NONE));
        Registry::of(&first).add(&serving);
        let second = Origin::new(Arc::new(System), first.finish());
        let next = Arc::new(Group::new("app", vec![server(2)], Keepalive::NONE));
        Registry::of(&second).add(&next);
        assert!(Arc::ptr_eq(&Registry::of(&second).find("app").unwrap(), &next));
        drop(next);
        assert!(
            Arc::ptr_eq(&Registry::of(&second).all()[0], &serving),
            "the configuration before still serves"
        );
    }
}
