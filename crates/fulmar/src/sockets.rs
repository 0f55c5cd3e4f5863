//! The listening sockets of the supervisor: opened once, kept over reloads and upgrades.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use net::bind::{self, Notice, Patience, Wanted};
use net::{BindError, BoundSocket, Endpoint, ListenOptions};

/// The sockets of one configuration, a group for each endpoint that it listens on, in its order.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    endpoint: Endpoint,
    /// What the sockets were opened with; unknown for those that the program before this one opened.
    options: Option<ListenOptions>,
    sockets: Vec<BoundSocket>,
}

impl Group {
    fn is_lent(&self) -> bool {
        self.sockets.iter().any(BoundSocket::is_lent)
    }
}

impl Sockets {
    /// Sockets that this process was started with.
    pub(crate) fn inherited(sockets: Vec<BoundSocket>) -> Sockets {
        let mut groups: Vec<Group> = Vec::new();
        for socket in sockets {
            match groups.iter_mut().find(|group| group.endpoint == *socket.endpoint()) {
                Some(group) => group.sockets.push(socket),
                None => groups.push(Group {
                    endpoint: socket.endpoint().clone(),
                    options: None,
                    sockets: vec![socket],
                }),
            }
        }
        Sockets { groups }
    }

    /// The sockets for another configuration: those of addresses that stay are kept, the others are opened.
    ///
    /// A group grows when there are more threads; it never shrinks, because a socket that is closed takes the
    /// connections in its queue with it.
    ///
    /// # Errors
    /// An address that cannot be listened on; `notice` has the message. The opened sockets are closed again.
    pub(crate) fn prepare(
        &self,
        wanted: &[Wanted],
        patience: Patience,
        mut notice: impl FnMut(Notice<'_>),
    ) -> Result<Sockets, BindError> {
        // What may fail comes first: sockets that serve already are changed when nothing else is left to do.
        let is_missing = |want: &&Wanted| self.groups.iter().all(|group| group.endpoint != want.endpoint);
        let missing: Vec<Wanted> = wanted.iter().filter(is_missing).cloned().collect();
        let opened = bind::bind_all(&missing, patience, &mut notice)?;
        let mut opened = opened.into_iter();
        let group = |want: &Wanted| match self.keep(want)? {
            Some(kept) => Ok(kept),
            None => {
                let sockets = opened.next().unwrap_or_default();
                Ok(Group { endpoint: want.endpoint.clone(), options: Some(want.options.clone()), sockets })
            }
        };
        let groups: Result<Vec<Group>, BindError> = wanted.iter().map(group).collect();
        let groups = groups.inspect_err(|error| {
            notice(Notice::Failed(error));
            self.restore();
        })?;
        Ok(Sockets { groups })
    }

    /// Gives sockets the options back that they had before another configuration asked for others.
    pub(crate) fn restore(&self) {
        for group in &self.groups {
            if let Some(options) = &group.options {
                // Where that fails they serve all the same.
                group.sockets.iter().for_each(|socket| drop(socket.configure(options)));
            }
        }
    }

    /// The addresses of sockets from the service manager that no `listen` names.
    pub(crate) fn superfluous(&self, wanted: &[Wanted]) -> Vec<&Endpoint> {
        let is_wanted = |group: &&Group| wanted.iter().any(|want| want.endpoint == group.endpoint);
        let superfluous = self.groups.iter().filter(|group| group.is_lent() && !is_wanted(group));
        superfluous.map(|group| &group.endpoint).collect()
    }

    /// The sockets of each address that are this server's own.
    pub(crate) fn own(&self) -> Vec<(&Endpoint, Vec<BorrowedFd<'_>>)> {
        let own = self.groups.iter().filter(|group| !group.is_lent());
        own.map(|group| (&group.endpoint, group.sockets.iter().map(AsFd::as_fd).collect())).collect()
    }

    /// Whether datagrams arrive at any of them.
    pub(crate) fn receive_datagrams(&self) -> bool {
        self.groups.iter().any(|group| group.endpoint.transport == net::SocketType::Datagram)
    }

    /// What the kernel gives less of than the configuration asks, each once.
    pub(crate) fn shortages(&self) -> Vec<String> {
        let of_group = |group: &Group| group.sockets.first()?.shortages(group.options.as_ref()?).ok();
        let mut all: Vec<String> = self.groups.iter().filter_map(of_group).flatten().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Further descriptors of all sockets, a list for each address.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn duplicates(&self) -> io::Result<Vec<Vec<BoundSocket>>> {
        let duplicate = |group: &Group| group.sockets.iter().map(BoundSocket::try_clone).collect();
        self.groups.iter().map(duplicate).collect()
    }

    /// Further descriptors of the sockets of addresses that `before` does not have, each with the place of its address.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn added_to(&self, before: &Sockets) -> io::Result<Vec<(usize, BoundSocket)>> {
        let is_added = |group: &Group| before.groups.iter().all(|other| other.endpoint != group.endpoint);
        let added = self.groups.iter().enumerate().filter(|(_, group)| is_added(group));
        added
            .flat_map(|(place, group)| {
                group.sockets.iter().map(move |socket| Ok((place, socket.try_clone()?)))
            })
            .collect()
    }

    /// Removes the paths of Unix domain sockets that `kept` does not have.
    pub(crate) fn remove_paths(&self, kept: &Sockets) {
        let is_kept = |group: &&Group| kept.groups.iter().any(|other| other.endpoint == group.endpoint);
        let gone = self.groups.iter().filter(|group| !is_kept(group));
        gone.flat_map(|group| &group.sockets).for_each(bind::remove_path);
    }

    fn keep(&self, want: &Wanted) -> Result<Option<Group>, BindError> {
        let Some(group) = self.groups.iter().find(|group| group.endpoint == want.endpoint) else {
            return Ok(None);
        };
        let failed = |call| {
            let endpoint = want.endpoint.clone();
            move |source| BindError::Call { call, endpoint, source }
        };
        let mut sockets: Vec<BoundSocket> = group
            .sockets
            .iter()
            .map(BoundSocket::try_clone)
            .collect::<io::Result<_>>()
            .map_err(failed("dup() of"))?;
        if group.options.as_ref() != Some(&want.options) {
            for socket in &sockets {
                socket.configure(&want.options).map_err(failed("listen() to"))?;
            }
        }
        let additional = want.count.saturating_sub(sockets.len());
        let joined = bind::grow(&sockets, &want.options, additional)?;
        sockets.extend(joined);
        Ok(Some(Group { endpoint: want.endpoint.clone(), options: Some(want.options.clone()), sockets }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use net::SocketAddress;

    use super::*;

    const ONCE: Patience = Patience { tries: 1, pause: Duration::ZERO };

    fn want(address: SocketAddress, count: usize) -> Wanted {
        Wanted { endpoint: Endpoint::stream(address), options: ListenOptions::default(), count }
    }

    fn free_port() -> SocketAddress {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        SocketAddress::Inet(listener.local_addr().unwrap())
    }

    fn prepare(sockets: &Sockets, wanted: &[Wanted]) -> Result<Sockets, BindError> {
        sockets.prepare(wanted, ONCE, |_| ())
    }

    fn lengths(sockets: &Sockets) -> Vec<usize> {
        sockets.duplicates().unwrap().iter().map(Vec::len).collect()
    }

    #[test]
    fn addresses_that_stay_keep_their_sockets_and_the_order_is_that_of_the_configuration() {
        let (one, two) = (free_port(), free_port());
        let first = prepare(&Sockets::default(), &[want(one.clone(), 2)]).unwrap();
        assert_eq!(lengths(&first), [2]);
        let second = prepare(&first, &[want(two.clone(), 1), want(one.clone(), 3)]).unwrap();
        assert_eq!(lengths(&second), [1, 3]);
        let third = prepare(&second, &[want(one.clone(), 1)]).unwrap();
        assert_eq!(lengths(&third), [3], "no queue is closed");
        drop((first, second));
        let free = prepare(&Sockets::default(), &[want(two, 1)]);
        assert!(free.is_ok(), "an address that vanished is free: {free:?}");
        assert!(prepare(&Sockets::default(), &[want(one, 1)]).is_err());
    }

    #[test]
    fn what_cannot_be_had_changes_nothing() {
        let (one, two) = (free_port(), free_port());
        let serving = prepare(&Sockets::default(), &[want(one.clone(), 1)]).unwrap();
        let taken = prepare(&Sockets::default(), &[want(two.clone(), 1)]).unwrap();
        let mut changed = want(one, 1);
        changed.options.keepalive = Some(net::KeepAlive::On { idle: None, interval: None, count: None });
        let probes = || rustix::net::sockopt::socket_keepalive(serving.groups[0].sockets[0].as_fd()).unwrap();
        assert!(prepare(&serving, &[changed.clone(), want(two, 1)]).is_err());
        assert!(!probes());
        drop(taken);
        prepare(&serving, &[changed]).unwrap();
        assert!(probes());
    }

    #[test]
    fn what_was_inherited_is_found_by_its_address() {
        let address = free_port();
        let opened = prepare(&Sockets::default(), &[want(address.clone(), 2)]).unwrap();
        let inherited = Sockets::inherited(opened.duplicates().unwrap().into_iter().flatten().collect());
        drop(opened);
        assert_eq!(lengths(&prepare(&inherited, &[want(address, 1)]).unwrap()), [2]);
    }

    #[test]
    fn what_was_opened_here_is_our_own() {
        let (one, two) = (free_port(), free_port());
        let sockets = prepare(&Sockets::default(), &[want(one.clone(), 2), want(two.clone(), 1)]).unwrap();
        assert!(sockets.superfluous(&[]).is_empty(), "nobody lent it");
        let own: Vec<_> =
            sockets.own().into_iter().map(|(address, all)| (address.clone(), all.len())).collect();
        assert_eq!(own, [(Endpoint::stream(one), 2), (Endpoint::stream(two), 1)]);
    }

    #[test]
    fn only_paths_that_nobody_uses_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let unix = |name: &str| want(SocketAddress::Unix(path(name)), 1);
        let old = prepare(&Sockets::default(), &[unix("a"), unix("b")]).unwrap();
        let new = prepare(&old, &[unix("b")]).unwrap();
        old.remove_paths(&new);
        assert!(!path("a").exists() && path("b").exists());
        new.remove_paths(&Sockets::default());
        assert!(!path("b").exists());
    }

    #[test]
    fn streams_and_datagrams_of_one_port_are_two_groups() {
        let address = free_port();
        let datagrams = Endpoint::datagram(address.clone());
        let of_datagrams =
            |count| Wanted { endpoint: datagrams.clone(), options: ListenOptions::default(), count };
        let first = prepare(&Sockets::default(), &[want(address.clone(), 1), of_datagrams(2)]).unwrap();
        assert_eq!(lengths(&first), [1, 2]);
        let second = prepare(&first, &[of_datagrams(2)]).unwrap();
        assert_eq!(lengths(&second), [2], "they keep their sockets");
        assert!(second.added_to(&first).unwrap().is_empty());
        let own: Vec<Endpoint> = second.own().into_iter().map(|(endpoint, _)| endpoint.clone()).collect();
        assert_eq!(own, std::slice::from_ref(&datagrams));
        let inherited = Sockets::inherited(first.duplicates().unwrap().into_iter().flatten().collect());
        assert_eq!(lengths(&inherited), [1, 2]);
        drop((first, inherited));
        assert!(prepare(&Sockets::default(), &[want(address, 1)]).is_ok(), "only the datagrams are left");
    }
}
