//! Opening listening sockets.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::address::SocketAddress;
use crate::append;
use crate::bound::{BoundSocket, ListenOptions, prepare};
use crate::endpoint::{Endpoint, SocketType};
use crate::errno::system_message;

/// An address could not be listened on. The text is what logs say, without level and position.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A system call failed: `bind() to 0.0.0.0:80 failed (98: Address already in use)`.
    #[error("{call} {endpoint} failed ({})", system_message(source))]
    Call {
        /// The call, with the preposition that precedes the address: `bind() to`.
        call: &'static str,
        /// What was asked for.
        endpoint: Endpoint,
        /// The reason.
        source: io::Error,
    },
    /// Another process kept the address during all attempts of [`bind_all`].
    #[error("still could not bind()")]
    StillInUse,
}

impl BindError {
    /// Whether another process holds the address, which waiting may cure.
    pub fn is_in_use(&self) -> bool {
        match self {
            BindError::Call { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            BindError::StillInUse => true,
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        let BindError::Call { endpoint, source, .. } = self else { return None };
        let SocketAddress::Inet(address) = &endpoint.address else { return None };
        let is_privileged = source.kind() == io::ErrorKind::PermissionDenied && address.port() < 1024;
        is_privileged.then_some(
            "ports below 1024 are for root: start as root (the worker gives up its rights), allow the program alone by \
             \"setcap cap_net_bind_service=+ep PROGRAM\", or listen on a port such as 8080",
        )
    }
}

/// One address for [`bind_all`].
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where to listen.
    pub endpoint: Endpoint,
    /// How to listen.
    pub options: ListenOptions,
    /// Sockets to share the port among; Unix domain sockets are always one.
    pub count: usize,
}

/// How often and after which pauses [`bind_all`] tries again what is in use.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Attempts in all, at least one.
    pub tries: u32,
    /// The time between two attempts.
    pub pause: Duration,
}

impl Default for Patience {
    /// Five attempts, half a second apart.
    fn default() -> Self {
        Patience { tries: 5, pause: Duration::from_millis(500) }
    }
}

/// What [`bind_all`] tells while it works.
#[derive(Debug)]
pub enum Notice<'a> {
    /// An address could not be bound; it is tried again if it was only in use.
    Failed(&'a BindError),
    /// The pause before the next attempt begins: `try again to bind() after 500ms`.
    Retrying(Duration),
}

/// Opens `count` listening sockets that share one endpoint.
///
/// The first is bound without SO_REUSEPORT, so that a port which another process listens on, be it another
/// Fulmar, is an error and no silent sharing; the others join it. A Unix domain address has one socket,
/// with mode 0666; a path that exists is in use, unless it is that of a socket whose process is gone.
pub fn bind(
    endpoint: &Endpoint,
    options: &ListenOptions,
    count: usize,
) -> Result<Vec<BoundSocket>, BindError> {
    let first = open(endpoint, options, false).or_else(|error| match &endpoint.address {
        SocketAddress::Unix(path) if error.is_in_use() && is_abandoned(path) => {
            // The next try reports what cannot be removed.
            drop(fs::remove_file(path));
            open(endpoint, options, false)
        }
        _ => Err(error),
    })?;
    let shared = !endpoint.address.is_unix() && (count > 1 || options.reuseport);
    if !shared {
        return Ok(vec![first]);
    }
    // Only after listen(): between a bind() and a listen() of two sockets that both had the flag, both would
    // succeed.
    first.set_reuseport().map_err(failure("setsockopt(SO_REUSEPORT)", endpoint))?;
    let mut sockets = vec![first];
    let joined = grow(&sockets, options, count.saturating_sub(1))?;
    sockets.extend(joined);
    Ok(sockets)
}

/// Opens `additional` sockets that join the sockets of one address, and returns these.
///
/// For Unix domain sockets, and if there is none to join, there is nothing to open; nor for sockets that a service
/// manager lent, because connections in the queues of others would be lost where its own are kept. An error
/// leaves the existing sockets as they were, apart from being open to further ones.
pub fn grow(
    existing: &[BoundSocket],
    options: &ListenOptions,
    additional: usize,
) -> Result<Vec<BoundSocket>, BindError> {
    let can_grow = |socket: &&BoundSocket| !socket.address().is_unix() && !socket.is_lent();
    let Some(endpoint) = existing.first().filter(can_grow).map(BoundSocket::endpoint) else {
        return Ok(Vec::new());
    };
    if additional > 0 {
        for socket in existing {
            socket.set_reuseport().map_err(failure("setsockopt(SO_REUSEPORT)", endpoint))?;
        }
    }
    (0..additional).map(|_| open(endpoint, options, true)).collect()
}

/// Opens the sockets of all addresses, with patience for those in use: a list for each of `wanted`.
///
/// Everything but an address in use ends it at once. Without success nothing stays open, and paths of Unix
/// domain sockets are removed again.
pub fn bind_all(
    wanted: &[Wanted],
    patience: Patience,
    mut notice: impl FnMut(Notice<'_>),
) -> Result<Vec<Vec<BoundSocket>>, BindError> {
    let mut opened: Vec<Vec<BoundSocket>> = wanted.iter().map(|_| Vec::new()).collect();
    for attempt in 1..=patience.tries.max(1) {
        if attempt > 1 {
            notice(Notice::Retrying(patience.pause));
            pause(patience.pause);
        }
        for (sockets, Wanted { endpoint, options, count }) in opened.iter_mut().zip(wanted) {
            if !sockets.is_empty() {
                continue;
            }
            match bind(endpoint, options, *count) {
                Ok(bound) => *sockets = bound,
                Err(error) => {
                    notice(Notice::Failed(&error));
                    if !error.is_in_use() {
                        remove_paths(&opened);
                        return Err(error);
                    }
                }
            }
        }
        if opened.iter().all(|sockets| !sockets.is_empty()) {
            return Ok(opened);
        }
    }
    remove_paths(&opened);
    Err(BindError::StillInUse)
}

/// Tests whether an address can be bound. No socket listens, and no path of a Unix domain socket is created.
///
/// An address in use is fine: the running server may use it.
pub fn check(endpoint: &Endpoint, options: &ListenOptions) -> Result<(), BindError> {
    if let SocketAddress::Unix(path) = &endpoint.address {
        endpoint.address.to_kernel().map_err(failure("address", endpoint))?;
        return match fs::symlink_metadata(path) {
            Ok(_) => Ok(()),
            Err(_) => append::check_creation(path).map_err(failure("bind() to", endpoint)),
        };
    }
    match bound(endpoint, options, false) {
        Ok(socket) => prepare(&socket, endpoint, options).map_err(failure("listen() to", endpoint)),
        Err(error) if error.is_in_use() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the path of a Unix domain socket that is no longer used, unless the service manager owns it.
///
/// For the supervisor that ends, or drops an address, and passed its sockets to no other process.
pub fn remove_path(socket: &BoundSocket) {
    if socket.is_lent() {
        return;
    }
    if let SocketAddress::Unix(path) = socket.address() {
        // If another process has removed the path already, that is enough.
        drop(fs::remove_file(path));
    }
}

fn open(endpoint: &Endpoint, options: &ListenOptions, reuseport: bool) -> Result<BoundSocket, BindError> {
    let socket = bound(endpoint, options, reuseport)?;
    let socket = BoundSocket::new(socket).map_err(failure("getsockname()", endpoint))?;
    // From here on the path of a Unix domain socket is ours to remove.
    allow_everybody(&endpoint.address)
        .map_err(failure("chmod()", endpoint))
        .and_then(|()| socket.configure(options).map_err(failure("listen() to", endpoint)))
        .inspect_err(|_| remove_path(&socket))?;
    Ok(socket)
}

/// A socket that is bound to an address, and does not listen yet.
fn bound(endpoint: &Endpoint, options: &ListenOptions, reuseport: bool) -> Result<Socket, BindError> {
    let kernel_address = endpoint.address.to_kernel().map_err(failure("address", endpoint))?;
    let kind = endpoint.transport.to_kernel().nonblocking().cloexec();
    let is_stream = endpoint.transport == SocketType::Stream;
    let is_multipath = options.multipath && is_stream && !endpoint.address.is_unix();
    let protocol = is_multipath.then_some(Protocol::MPTCP);
    let socket =
        Socket::new_raw(kernel_address.domain(), kind, protocol).map_err(failure("socket()", endpoint))?;
    // With SO_REUSEADDR on UDP a second process could take the port, and its datagrams, in silence.
    if is_stream {
        socket.set_reuse_address(true).map_err(failure("setsockopt(SO_REUSEADDR)", endpoint))?;
    }
    if reuseport {
        socket.set_reuse_port(true).map_err(failure("setsockopt(SO_REUSEPORT)", endpoint))?;
    }
    if kernel_address.domain() == Domain::IPV6 {
        socket.set_only_v6(options.ipv6only).map_err(failure("setsockopt(IPV6_V6ONLY)", endpoint))?;
    }
    socket.bind(&kernel_address).map_err(failure("bind() to", endpoint))?;
    Ok(socket)
}

/// Whether a path is that of a stream socket without a listener: its process was killed and could not
/// remove it.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    // Nobody waits for a server that is there and accepts nothing now.
    let connect =
        || Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?.connect(&SockAddr::unix(path)?);
    is_socket && connect().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn allow_everybody(address: &SocketAddress) -> io::Result<()> {
    match address {
        SocketAddress::Unix(path) => fs::set_permissions(path, Permissions::from_mode(0o666)),
        _ => Ok(()),
    }
}

fn remove_paths(opened: &[Vec<BoundSocket>]) {
    opened.iter().flatten().for_each(remove_path);
}

#[expect(clippy::disallowed_methods, reason = "the supervisor has no connection that would wait")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn failure<'a>(call: &'static str, endpoint: &'a Endpoint) -> impl Fn(io::Error) -> BindError + 'a {
    move |source| BindError::Call { call, endpoint: endpoint.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use socket2::SockRef;

    #[test]
    fn a_port_that_only_root_may_use_has_a_hint() {
        let hint = |port: u16, kind: io::ErrorKind| {
            let endpoint = Endpoint::stream(SocketAddress::Inet(([127, 0, 0, 1], port).into()));
            failure("bind() to", &endpoint)(kind.into()).hint()
        };
        assert!(hint(80, io::ErrorKind::PermissionDenied).is_some_and(|hint| hint.contains("setcap")));
        assert_eq!(hint(8080, io::ErrorKind::PermissionDenied), None);
        assert_eq!(hint(80, io::ErrorKind::AddrInUse), None);
    }

    const ONCE: Patience = Patience { tries: 1, pause: Duration::ZERO };

    fn loopback() -> SocketAddress {
        SocketAddress::Inet("127.0.0.1:0".parse().unwrap())
    }

    fn at(address: &SocketAddress) -> Endpoint {
        Endpoint::stream(address.clone())
    }

    fn path(directory: &tempfile::TempDir) -> SocketAddress {
        SocketAddress::Unix(directory.path().join("socket"))
    }

    fn options() -> ListenOptions {
        ListenOptions::default()
    }

    fn assert_in_use(address: &SocketAddress) {
        for count in [1, 2] {
            let error = bind(&at(address), &options(), count).unwrap_err();
            assert!(error.is_in_use());
            let text = format!(" {address} failed (98: Address already in use)");
            assert!(error.to_string().ends_with(&text), "{error}");
        }
    }

    /// With SO_REUSEADDR on both sides the kernel would let the second one have the port.
    #[test]
    fn a_port_of_datagrams_is_not_taken_in_silence() {
        let endpoint = Endpoint::datagram(loopback());
        for count in [1, 2] {
            let sockets = bind(&endpoint, &options(), count).unwrap();
            assert_eq!(sockets.len(), count);
            assert!(sockets.iter().all(|socket| !SockRef::from(socket).reuse_address().unwrap()));
            let taken = sockets[0].endpoint();
            let error = bind(taken, &options(), 1).unwrap_err();
            assert!(error.is_in_use());
            assert!(error.to_string().contains(" (udp) failed (98: "), "{error}");
            let SocketAddress::Inet(address) = sockets[0].address() else { panic!("no port") };
            let greedy = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            greedy.set_reuse_address(true).unwrap();
            assert!(greedy.bind(&SockAddr::from(*address)).is_err(), "two have the port");
        }
    }

    #[test]
    fn streams_and_datagrams_share_a_port() {
        let streams = bind(&at(&loopback()), &options(), 1).unwrap();
        let datagrams = bind(&Endpoint::datagram(streams[0].address().clone()), &options(), 2).unwrap();
        assert_eq!(datagrams[1].address(), streams[0].address());
        assert_ne!(datagrams[1].endpoint(), streams[0].endpoint());
        assert!(
            datagrams.into_iter().all(|socket| socket.into_tokio().is_err()),
            "nothing is accepted there"
        );
    }

    /// How many of `clients` connections reached each socket.
    fn spread(sockets: &[BoundSocket], clients: usize) -> Vec<usize> {
        let SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
        let connected: Vec<_> = (0..clients).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accepted = sockets.iter().map(accept_all).collect();
        drop(connected);
        accepted
    }

    fn accept_all(bound: &BoundSocket) -> usize {
        std::iter::from_fn(|| rustix::net::accept(bound).ok()).count()
    }

    #[test]
    fn an_address_is_bound_once() {
        let directory = tempfile::tempdir().unwrap();
        let v6 = SocketAddress::Inet("[::1]:0".parse().unwrap());
        for (address, count) in [(loopback(), 1), (loopback(), 2), (v6, 2), (path(&directory), 2)] {
            let sockets = bind(&at(&address), &options(), count).unwrap();
            assert_eq!(sockets.len(), if address.is_unix() { 1 } else { count });
            assert_in_use(sockets[0].address());
        }
    }

    /// Each may stand in the other's way, but never do both share the port.
    #[test]
    fn of_two_servers_that_start_at_once_one_wins_at_most() {
        // An address that no other test uses, so that the port stays free.
        let any = SocketAddress::Inet("127.0.7.1:0".parse().unwrap());
        let free = bind(&at(&any), &options(), 1).unwrap().remove(0).address().clone();
        let mut winners = 0;
        for _ in 0..200 {
            let barrier = Barrier::new(2);
            let start = || {
                barrier.wait();
                bind(&at(&free), &options(), 2)
            };
            let both = thread::scope(|scope| {
                let other = scope.spawn(start);
                [start(), other.join().unwrap()]
            });
            let won = both.iter().filter(|result| result.is_ok()).count();
            assert!(won <= 1, "{both:?}");
            winners += won;
        }
        assert!(winners > 0);
    }

    #[test]
    fn a_lone_socket_lets_none_join() {
        let socket = bind(&at(&loopback()), &options(), 1).unwrap().remove(0);
        assert!(!socket.reuseport().unwrap());
        assert!(open(socket.endpoint(), &options(), true).unwrap_err().is_in_use());
        let asked = ListenOptions { reuseport: true, ..options() };
        assert!(bind(&at(&loopback()), &asked, 1).unwrap()[0].reuseport().unwrap());
    }

    #[test]
    fn both_families_share_a_port_if_ipv6only() {
        let any = |text: &str| SocketAddress::Inet(text.parse().unwrap());
        let v4 = bind(&at(&any("0.0.0.0:0")), &options(), 2).unwrap();
        let v6 = any(&format!("[::]:{}", v4[0].address().port().unwrap()));
        let mapped = ListenOptions { ipv6only: false, ..options() };
        assert!(bind(&at(&v6), &mapped, 2).unwrap_err().is_in_use());
        assert_eq!(bind(&at(&v6), &options(), 2).unwrap()[1].address(), &v6);
    }

    #[test]
    fn connections_reach_every_socket() {
        let sockets = bind(&at(&loopback()), &options(), 2).unwrap();
        let accepted = spread(&sockets, 64);
        assert_eq!(accepted.iter().sum::<usize>(), 64);
        assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
    }

    #[test]
    fn a_group_grows_while_it_has_connections() {
        let mut sockets = bind(&at(&loopback()), &options(), 1).unwrap();
        let address = sockets[0].address().clone();
        let SocketAddress::Inet(inet) = address else { panic!("not TCP") };
        let client = TcpStream::connect(inet).unwrap();
        let accepted = rustix::net::accept(&sockets[0]).unwrap();
        let joined = grow(&sockets, &options(), 2).unwrap();
        sockets.extend(joined);
        let counts = spread(&sockets, 96);
        assert_eq!(counts.iter().sum::<usize>(), 96);
        assert!(counts.len() == 3 && counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_in_use(&address);
        drop((client, accepted));
    }

    #[test]
    fn unix_sockets_lent_ones_and_nothing_do_not_grow() {
        let directory = tempfile::tempdir().unwrap();
        let sockets = bind(&at(&path(&directory)), &options(), 1).unwrap();
        assert!(grow(&sockets, &options(), 2).unwrap().is_empty());
        assert!(grow(&[], &options(), 2).unwrap().is_empty());
        let lent = [bind(&at(&loopback()), &options(), 1).unwrap().remove(0).lent()];
        assert!(grow(&lent, &options(), 2).unwrap().is_empty());
        assert!(!lent[0].reuseport().unwrap());
    }

    #[test]
    fn everybody_may_connect_to_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let address = path(&directory);
        let SocketAddress::Unix(file) = &address else { panic!("not a path") };
        let sockets = bind(&at(&address), &options(), 1).unwrap();
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o666);
        drop(UnixStream::connect(file).unwrap());
        assert_eq!(accept_all(&sockets[0]), 1);
    }

    /// A connection over several paths is, for a client that knows of none, an ordinary one.
    #[test]
    fn several_paths() {
        if !Path::new("/proc/sys/net/mptcp/enabled").exists() {
            return;
        }
        let multipath = ListenOptions { multipath: true, reuseport: true, ..options() };
        let sockets = bind(&at(&loopback()), &multipath, 2).unwrap();
        assert_eq!(spread(&sockets, 8).iter().sum::<usize>(), 8);
        for socket in &sockets {
            let protocol = socket2::SockRef::from(socket).protocol().unwrap();
            assert_eq!(protocol, Some(Protocol::MPTCP));
        }
    }

    #[test]
    fn an_abstract_name_is_bound() {
        let name = format!("net-test-{}", std::process::id());
        let sockets = bind(&at(&SocketAddress::Abstract(name.into_bytes())), &options(), 1).unwrap();
        assert_in_use(sockets[0].address());
    }

    #[test]
    fn a_check_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let address = path(&directory);
        let SocketAddress::Unix(file) = &address else { panic!("not a path") };
        check(&at(&address), &options()).unwrap();
        assert!(!file.exists());
        let running = UnixListener::bind(file).unwrap();
        check(&at(&address), &options()).unwrap();
        assert!(file.exists());
        drop(running);
        check(&at(&address), &options()).unwrap();
        assert!(file.exists());
        fs::remove_file(file).unwrap();
        remove_path(&bind(&at(&address), &options(), 1).unwrap().remove(0).lent());
        assert!(file.exists(), "the service manager keeps it");
        let elsewhere = SocketAddress::Inet("192.0.2.1:80".parse().unwrap());
        let error = check(&at(&elsewhere), &options()).unwrap_err().to_string();
        assert_eq!(error, "bind() to 192.0.2.1:80 failed (99: Cannot assign requested address)");
    }

    #[test]
    fn a_path_is_free_when_its_server_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let address = path(&directory);
        let SocketAddress::Unix(file) = &address else { panic!("not a path") };
        let busy = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        busy.bind(&SockAddr::unix(file).unwrap()).unwrap();
        busy.listen(0).unwrap();
        let waiting = UnixStream::connect(file).unwrap();
        assert_in_use(&address);
        drop((busy, waiting));
        let sockets = bind(&at(&address), &options(), 1).unwrap();
        UnixStream::connect(file).unwrap();
        assert_in_use(&address);
        remove_path(&sockets[0]);
        let another = UnixDatagram::bind(file).unwrap();
        assert_in_use(&address);
        drop(another);
        fs::remove_file(file).unwrap();
        fs::write(file, "").unwrap();
        assert_in_use(&address);
    }

    #[test]
    fn what_is_in_use_is_tried_again() {
        let mut holder = Some(bind(&at(&loopback()), &options(), 1).unwrap().remove(0));
        let taken = holder.as_ref().unwrap().address().clone();
        let wanted = [wanted(loopback()), wanted(taken)];
        let patience = Patience { tries: 3, pause: Duration::from_millis(1) };
        let mut notices = Vec::new();
        let opened = bind_all(&wanted, patience, |notice| {
            if matches!(notice, Notice::Retrying(_)) {
                holder = None;
            }
            notices.push(format!("{notice:?}").split('(').next().unwrap().to_owned());
        });
        assert_eq!(opened.unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(notices, ["Failed", "Retrying"]);
    }

    #[test]
    fn without_success_nothing_stays() {
        let directory = tempfile::tempdir().unwrap();
        let holder = bind(&at(&loopback()), &options(), 1).unwrap().remove(0);
        let in_use = [wanted(path(&directory)), wanted(holder.address().clone())];
        let error = bind_all(&in_use, ONCE, |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "still could not bind()");
        let elsewhere = SocketAddress::Inet("192.0.2.1:80".parse().unwrap());
        let mut failures = 0;
        let impossible = [wanted(path(&directory)), wanted(elsewhere)];
        assert!(bind_all(&impossible, Patience::default(), |_| failures += 1).is_err());
        assert_eq!(failures, 1);
        assert!(!Path::new(&directory.path().join("socket")).exists());
    }

    fn wanted(address: SocketAddress) -> Wanted {
        Wanted { endpoint: at(&address), options: options(), count: 2 }
    }
}
